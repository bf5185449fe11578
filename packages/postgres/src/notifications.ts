// Wake-ups: notifies watchers in this process and other processes that something may have changed.
// Owns: the watchers, the one connection that listens, and the notifications that are sent.
// Invariants: D9 (hints may be late or duplicated: that costs time, never progress); watchers of this process are called directly, and its own
// notifications are ignored; nothing is sent if no other process listens; a watcher does not keep the process alive.
//
// NOTIFY takes a lock of the whole server from before the commit until after its flush. Inside of the commits it is about it would queue
// them behind each other (four connections, single-row commits: see docs/postgres.md), so it is sent after them, in a
// transaction that waits for no disk; hints that come while one is in progress share the next.

import { createHash } from "node:crypto";
import type { Logger } from "@holdfast/core";
import type { Wakeup, WakeupKind } from "holdfast/store";
import type { Client } from "pg";
import type { Connections } from "./connection/connections.ts";
import { takeLeave } from "./connection/pipeline.ts";
import { isFull } from "./connection/serverErrors.ts";

type Kind = WakeupKind | "mail";
type Changes = { -readonly [K in Kind]?: boolean } & { ended?: readonly string[] };

const LETTERS: Readonly<Record<Kind, string>> = { work: "w", messages: "m", tasks: "t", results: "r", mail: "p" };
const KINDS = Object.keys(LETTERS) as Kind[];
const ANYTHING: Wakeup = { work: true, messages: true, tasks: true, results: true };
const HELLO = "+";
const BYE = "!";

/** The most ids of ended runs in one notification; with more, other processes look at all runs that they wait for. The server accepts 8,000 bytes. */
const LONGEST_LIST = 7_000;
const MOST_LISTED = LONGEST_LIST / '"",'.length;

const ATTEND_EVERY_MS = 20_000;
/** Where LISTEN does not work. */
const POLL_EVERY_MS = 500;
const ECHO_WITHIN_MS = 3_000;
const LISTEN_AGAIN_MS = 1_000;
const LISTEN_AGAIN_AT_MOST_MS = 20_000;

export class Notifications {
  readonly #connections: Connections;
  readonly #s: string;
  readonly #channel: string;
  readonly #logger: Logger;
  readonly #onMail: () => void;
  readonly #watchers = new Set<(wakeup: Wakeup) => void>();
  readonly #timers: NodeJS.Timeout[] = [];
  #client: Client | undefined;
  #echo: (() => void) | undefined;
  /** Whether other processes listen. True if that can't be known. */
  #others = true;
  #pending: Changes | undefined;
  #isSending = false;
  #isStopped = true;

  constructor(connections: Connections, { schema, s }: { schema: string; s: string }, logger: Logger, onMail: () => void) {
    this.#connections = connections;
    this.#s = s;
    this.#channel = channelOf(schema);
    this.#logger = logger;
    this.#onMail = onMail;
  }
  get channel(): string {
    return this.#channel;
  }
  /** What a caller's transaction announces when it commits. */
  notice(...kinds: readonly Kind[]): string {
    return `*${kinds.map((kind) => LETTERS[kind]).join("")}`;
  }

  // ── here ──

  watch(watcher: (wakeup: Wakeup) => void): () => void {
    // A new function each time: the same callback given twice is two watchers.
    const own = (wakeup: Wakeup): void => watcher(wakeup);
    this.#watchers.add(own);
    return () => {
      this.#watchers.delete(own);
    };
  }
  /** After what it is about is durable. `elsewhere`: what others should know of it. */
  tell(here: Wakeup, elsewhere: Wakeup = here): void {
    if (isSomething(here)) this.#tellHere({ ...here, isOwn: true });
    if (this.#others && isSomething(elsewhere)) this.#send(elsewhere);
  }
  #tellHere(wakeup: Wakeup): void {
    for (const watcher of [...this.#watchers]) {
      try {
        watcher(wakeup);
      } catch (error) {
        // The watcher failed, not the write that it is called for.
        setImmediate(() => {
          throw error;
        });
      }
    }
  }

  // ── to others ──

  #send(changes: Wakeup): void {
    this.#pending = this.#pending === undefined ? ofWakeup(changes) : together(this.#pending, ofWakeup(changes));
    if (!this.#isSending) void this.#flush();
  }
  async #flush(): Promise<void> {
    this.#isSending = true;
    while (this.#pending !== undefined && !this.#isStopped) {
      const changes = this.#pending;
      this.#pending = undefined;
      // A hint that is lost costs time: polling finds the change. The next hint must not wait for retries of this one.
      await this.#notify(this.#connections.instance + lettersOf(changes) + listOf(changes.ended)).catch(() => undefined);
    }
    this.#isSending = false;
  }
  async #notify(notice: string): Promise<void> {
    await this.#connections.query(`SELECT ${this.#s}.notify_1($1, $2)`, [this.#channel, notice], { patience: 0 });
  }

  // ── from others ──

  /** Resolves when notifications come in, or when it is clear that they don't, or not yet. */
  async start(listen: boolean): Promise<void> {
    this.#isStopped = false;
    if (!listen) return this.#poll();
    const heard = await this.#listen();
    if (heard === true) return this.#hear();
    this.#poll();
    if (heard === "nothing") {
      this.#logger.warn(
        "LISTEN does not work on this connection (PgBouncer in transaction mode?): Holdfast polls twice a second instead. Add ?listen=off to the url to poll from the start.",
      );
      return;
    }
    // That the server has no connection left is logged once, not for each connection.
    if (isFull(heard)) this.#connections.full(heard);
    else this.#logger.warn("LISTEN does not work yet: Holdfast polls twice a second and keeps trying.", { error: heard });
    void this.#listenLater();
  }
  async #hear(): Promise<void> {
    this.#connections.areOwn = true; // a session that gets notifications has no pooler in between
    this.#every(ATTEND_EVERY_MS, () => {
      void this.#attend();
      void this.#isHeard();
      void this.#giveWay();
    });
    await this.#attend();
    await this.#hello();
  }
  async #hello(): Promise<void> {
    await this.#notify(HELLO + this.#connections.instance).catch(() => undefined);
  }
  #poll(): void {
    this.#every(POLL_EVERY_MS, () => this.#tellHere(ANYTHING));
    this.#every(ATTEND_EVERY_MS, () => void this.#tidy());
  }
  /** If the server has hardly any connection left, the listening one is released for others: this process polls until there is room. */
  async #giveWay(): Promise<void> {
    const isTight = await this.#connections.isTight().catch(() => false);
    const client = this.#client;
    if (!isTight || client === undefined) return;
    this.#client = undefined;
    this.#others = true;
    this.#stopTimers();
    this.#poll();
    await takeLeave(client);
    await this.#listenLater(LISTEN_AGAIN_AT_MOST_MS);
  }
  /** A connection on which nothing arrives may be broken: one that does not answer is replaced. */
  async #isHeard(): Promise<void> {
    const client = this.#client;
    await client?.query("SELECT 1").catch(() => takeLeave(client));
  }
  async stop(): Promise<void> {
    const wasListening = this.#client !== undefined;
    this.#isStopped = true;
    this.#stopTimers();
    const client = this.#client;
    this.#client = undefined;
    if (client !== undefined) await takeLeave(client);
    // If that can't be done: a process that is gone is forgotten after a minute in any case.
    const leave = this.#connections.query(`SELECT ${this.#s}.leave_1($1)`, [this.#connections.instance], { patience: 0 });
    await (wasListening ? leave.then(() => this.#notify(BYE + this.#connections.instance)) : leave).catch(() => undefined);
  }
  #stopTimers(): void {
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
  }
  #every(ms: number, work: () => void): void {
    const timer = setInterval(work, ms);
    timer.unref();
    this.#timers.push(timer);
  }
  /** Without a name it only removes what killed processes have left behind. */
  async #tidy(): Promise<void> {
    await this.#connections.query(`SELECT ${this.#s}.attend_1(NULL)`, [], { patience: 0 }).catch(() => undefined);
  }
  async #attend(): Promise<void> {
    try {
      const [row] = await this.#connections.query<{ others: number }>(
        `SELECT ${this.#s}.attend_1($1) AS others`,
        [this.#connections.instance],
        { patience: 0 },
      );
      this.#others = (row?.others ?? 1) > 0;
    } catch {
      this.#others = true;
    }
  }

  /** True: it listens. "nothing": its own test notification did not come back. Otherwise the error. */
  async #listen(): Promise<true | "nothing" | Error> {
    const client = this.#connections.lone();
    client.on("error", () => undefined);
    client.on("notification", ({ payload = "" }) => this.#heard(payload));
    try {
      await client.connect();
      await client.query(`LISTEN "${this.#channel.replaceAll('"', '""')}"`);
      const echo = new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), ECHO_WITHIN_MS);
        this.#echo = () => {
          clearTimeout(timer);
          resolve(true);
        };
      });
      await this.#notify(`?${this.#connections.instance}`);
      if (!(await echo)) {
        await takeLeave(client);
        return "nothing";
      }
      // Only now: until here the connection has to keep the process alive.
      (client as unknown as { connection: { stream: { unref?(): void } } }).connection.stream.unref?.();
    } catch (error) {
      await takeLeave(client);
      return error instanceof Error ? error : new Error(String(error));
    }
    if (this.#isStopped) {
      await takeLeave(client);
      return true;
    }
    this.#client = client;
    client.on("end", () => {
      if (this.#client === client) void this.#listenAgain();
    });
    return true;
  }
  /** Calls come first: where there is one connection for both, it is theirs. */
  async #listenBehind(): Promise<true | "nothing" | Error> {
    try {
      await this.#connections.query("SELECT 1", [], { patience: 0 });
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
    return this.#listen();
  }
  /** Notifications may have been lost: all watchers look. */
  async #listenAgain(): Promise<void> {
    this.#client = undefined;
    this.#others = true;
    for (let wait = LISTEN_AGAIN_MS; !this.#isStopped && (await this.#listenBehind()) !== true; ) {
      this.#tellHere(ANYTHING);
      await passed(wait);
      if (this.#connections.isFull) wait = Math.min(wait * 2, LISTEN_AGAIN_AT_MOST_MS);
    }
    if (this.#isStopped) return;
    await this.#attend();
    await this.#hello();
    this.#tellHere(ANYTHING);
  }
  /** Tries again after a first failure: the server was busy or restarting, or had no connection left. */
  async #listenLater(first: number = LISTEN_AGAIN_MS): Promise<void> {
    for (let wait = first; ; wait = Math.min(wait * 2, LISTEN_AGAIN_AT_MOST_MS)) {
      await passed(wait);
      if (this.#isStopped) return;
      if (await this.#connections.isTight().catch(() => true)) continue;
      const heard = await this.#listen();
      if (heard === "nothing" || this.#isStopped) return;
      if (heard !== true) continue;
      this.#stopTimers();
      await this.#hear();
      this.#tellHere(ANYTHING);
      return;
    }
  }
  #heard(payload: string): void {
    const { instance } = this.#connections;
    const first = payload[0];
    if (payload === `?${instance}`) this.#echo?.();
    else if (first === "?") return;
    else if (first === HELLO || first === BYE) {
      if (payload.slice(1) === instance) return;
      if (first === HELLO) this.#others = true;
      else void this.#attend();
    } else if (!payload.startsWith(instance)) {
      const { mail, ...wakeup } = readChanges(first === "*" ? payload.slice(1) : payload.slice(instance.length));
      if (mail === true) this.#onMail();
      if (isSomething(wakeup)) this.#tellHere(wakeup as Wakeup);
    }
  }
}

/** As long as the server takes names of channels, in bytes. */
const LONGEST_CHANNEL = 63;

/** No two schemas have the same. */
function channelOf(schema: string): string {
  const channel = `holdfast:${schema}`;
  if (Buffer.byteLength(channel) <= LONGEST_CHANNEL) return channel;
  return `holdfast:${createHash("sha256").update(schema).digest("hex").slice(0, 32)}`;
}
function passed(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}

function isSomething({ work, messages, tasks, results }: Wakeup): boolean {
  return work === true || messages === true || tasks === true || results === true;
}
function ofWakeup({ work, messages, tasks, results, ended }: Wakeup): Changes {
  const changes: Changes = {};
  if (work === true) changes.work = true;
  if (messages === true) changes.messages = true;
  if (tasks === true) changes.tasks = true;
  if (results === true) changes.results = true;
  if (results === true && ended !== undefined) changes.ended = ended;
  return changes;
}
/** The list of ended runs is complete only if both have one. */
function together(some: Changes, more: Changes): Changes {
  const { ended: ofSome = some.results === true ? undefined : [], ...rest } = some;
  const { ended: ofMore = more.results === true ? undefined : [], ...others } = more;
  const both = { ...rest, ...others };
  // Hints that fit into no notice are not kept for the next one: the notice in progress may take long.
  const isKnown = ofSome !== undefined && ofMore !== undefined && ofSome.length + ofMore.length < MOST_LISTED;
  return isKnown ? { ...both, ended: [...ofSome, ...ofMore] } : both;
}

// ── a notice: a letter for each kind, then the list of runs that have ended ──

function lettersOf(changes: Changes): string {
  return KINDS.filter((kind) => changes[kind] === true)
    .map((kind) => LETTERS[kind])
    .join("");
}
function listOf(ended: readonly string[] | undefined): string {
  const list = ended === undefined ? "" : JSON.stringify(ended);
  return Buffer.byteLength(list) > LONGEST_LIST ? "" : list;
}
function readChanges(notice: string): Changes {
  const [letters = ""] = notice.split("[", 1);
  const changes: Changes = {};
  for (const kind of KINDS) if (letters.includes(LETTERS[kind])) changes[kind] = true;
  const ended = readList(notice.slice(letters.length));
  return ended === undefined ? changes : { ...changes, ended };
}
/** Undefined if it can't be read: other programs may use the channel. Then it is a hint without a list. */
function readList(list: string): string[] | undefined {
  if (list === "") return undefined;
  try {
    const ended: unknown = JSON.parse(list);
    return Array.isArray(ended) && ended.every((id) => typeof id === "string") ? ended : undefined;
  } catch {
    return undefined;
  }
}
