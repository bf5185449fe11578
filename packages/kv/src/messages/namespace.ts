// What this process knows of a namespace: who runs it, who waits for it, and how to append to it.
// Owns: for each driver the one live session (H1), callers that wait for updates, and the order of messages.
// Invariants: H1 (one live executor a namespace), H2 H5 (outside writers only append messages, and take back their own), M1 (a send is acknowledged when it is durable,
// and the run will be woken for it), M2 H4 (the key of a message is behind those of all that were acknowledged before it was sent).

import { type Codec, RunClosedError, RunNotFoundError } from "@holdfast/core";
import type { EngineDriver } from "../driver.ts";
import type { Environment, Timer } from "../environment.ts";
import { RunClosingError } from "../errors.ts";
import { isClosed } from "../results.ts";
import { decode } from "../storage/binary.ts";
import type { Head, InboxMessage, Message, Status, UpdateOutcome } from "../storage/contents.ts";
import { KEY, messageKey, PREFIX, placeOf, updateKey } from "../storage/layout.ts";
import { read, write } from "../storage/sealing.ts";
import { assertFits } from "../storage/storage.ts";

/** What a sender needs of a run that is live. */
export interface LiveRun {
  /** Resolves once the run is in storage. */
  readonly begun: Promise<void>;
  /** `behind`: the key of the last message that was stored before it. */
  receive(message: InboxMessage, behind: Uint8Array | undefined): void;
  /** Sees to an alarm that is due. */
  arm(): Promise<void>;
  /** H5: undefined while it looks at messages that come. Otherwise it is about to end, and this resolves when that is known. */
  readonly decided: Promise<void> | undefined;
}

/** What a sender sends with. */
export interface Sender {
  readonly environment: Environment;
  readonly codec: Codec;
}

/** A message that was stored and is not acknowledged yet. */
interface Sent {
  readonly runId: string;
  readonly at: Uint8Array;
  readonly sender: Sender;
  readonly job: Message["job"]["type"];
}

/** Milliseconds that a sender waits for a run that is about to end. */
const PATIENCE = 2_000;
const LONGEST_LOOK = 50;

export type UpdateWaiter = (outcome: UpdateOutcome) => void;

const namespaces = new WeakMap<EngineDriver, Namespace>();

export class Namespace {
  readonly driver: EngineDriver;
  live: LiveRun | undefined;
  /** While a run is being created or started here: its alarm may stand before it does. Never rejects. */
  #opening: Promise<void> | undefined;
  readonly #waiters = new Map<string, Set<UpdateWaiter>>();
  /** Of the last message that this process has made a key for. */
  #place = 0;

  static of(driver: EngineDriver): Namespace {
    let namespace = namespaces.get(driver);
    if (namespace === undefined) {
      namespace = new Namespace(driver);
      namespaces.set(driver, namespace);
    }
    return namespace;
  }
  private constructor(driver: EngineDriver) {
    this.driver = driver;
  }

  /** One after the other; everything else that concerns the run waits for it. */
  open<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#opening;
    const opened = before === undefined ? work() : before.then(work);
    const settled = opened.then(
      () => {},
      () => {},
    );
    this.#opening = settled;
    void settled.then(() => {
      if (this.#opening === settled) this.#opening = undefined;
    });
    return opened;
  }
  /** Nobody is creating or starting it. */
  async opened(): Promise<void> {
    while (this.#opening !== undefined) await this.#opening;
  }

  // ── reading ──

  async head(runId: string): Promise<Head> {
    const head = await this.driver.get(KEY.head);
    if (head === undefined) throw new RunNotFoundError({ runId });
    return decode(head) as Head;
  }
  async status(codec: Codec): Promise<Status | undefined> {
    const status = await this.driver.get(KEY.status);
    return status === undefined ? undefined : (read(status, codec) as Status);
  }
  async updateOutcome(id: string, codec: Codec): Promise<UpdateOutcome | undefined> {
    const outcome = await this.driver.get(updateKey(id));
    return outcome === undefined ? undefined : (read(outcome, codec) as UpdateOutcome);
  }

  // ── appending ──

  /** M12: to an open run; what makes a closed one go on, to that too. */
  async append(runId: string, message: Message, sender: Sender): Promise<void> {
    const { environment, codec } = sender;
    await this.opened();
    await this.live?.begun;
    const status = (await this.status(codec))?.status; // written with the head: it tells both that there is a run and how it stands
    if (status === undefined) throw new RunNotFoundError({ runId });
    if (message.job.type !== "recover" && isClosed(status)) throw new RunClosedError({ runId, status });
    const last = await this.#lastKey();
    const at = this.newKey(last, environment);
    const value = write(message, codec);
    assertFits(this.driver, 1, at.length + value.length, `a ${message.job.type}`);
    await this.driver.batch([{ type: "set", key: at, value }]);
    const sent: Sent = { runId, at, sender, job: message.job.type };
    const { live } = this;
    if (live === undefined) return this.#acknowledge(sent);
    // H5: the session looks at what it has been given before it ends the run. Once it has decided to, what came of it is stored.
    const { decided } = live;
    live.receive({ ...message, at }, last);
    await live.arm();
    if (decided === undefined) return;
    await this.#withinPatience(environment, decided);
    await this.#acknowledge(sent);
  }
  /** H5: the message is stored; how the run stood after that says whether a turn will be given it. */
  async #acknowledge(sent: Sent): Promise<void> {
    const { runId, at, sender, job } = sent;
    const { environment, codec } = sender;
    const patience = environment.elapsed() + PATIENCE;
    let isWoken = false;
    for (let wait = 1; ; wait = Math.min(wait * 2, LONGEST_LOOK)) {
      const status = await this.status(codec);
      if (status === undefined) throw new RunNotFoundError({ runId });
      if (isClosed(status.status) && job !== "recover") return this.#refuseAfterEnd(sent, status);
      // V4: messages don't wake a blocked run. Whatever unblocks it finds them.
      const wakes = status.status !== "blocked" || job === "terminate" || job === "recover";
      if (!isWoken && wakes) {
        // The alarm after the message: a run that is woken in between finds it, and one that parks in between is woken again.
        await this.driver.setAlarm(runId, environment.now());
        this.driver.announce(); // a live run of another process
        isWoken = true;
      }
      if (status.closing !== true) return;
      if (environment.elapsed() > patience) break;
      await this.#pause(environment, wait);
    }
    await this.driver.batch([{ type: "delete", key: at }]);
    throw new RunClosingError({ runId });
  }
  /** Of a run that has ended, a message that no turn was given is where its sender put it. */
  async #refuseAfterEnd({ runId, at }: Sent, { status }: Status): Promise<void> {
    if ((await this.driver.get(at)) === undefined) return;
    await this.driver.batch([{ type: "delete", key: at }]);
    throw new RunClosedError({ runId, status });
  }
  #pause(environment: Environment, ms: number): Promise<void> {
    return new Promise((resolve) => void environment.after(ms, resolve));
  }
  async #withinPatience(environment: Environment, awaited: Promise<void>): Promise<void> {
    let timer: Timer | undefined;
    const over = new Promise<void>((resolve) => {
      timer = environment.after(PATIENCE, resolve);
    });
    await Promise.race([awaited, over]);
    timer?.cancel();
  }
  /** H4: behind the last message that is stored, whatever clocks say. */
  async #lastKey(): Promise<Uint8Array | undefined> {
    const { driver } = this;
    return driver.last === undefined ? (await driver.list(PREFIX.messages)).at(-1)?.key : driver.last(PREFIX.messages);
  }
  /** Behind that of `last`, and of all that this process has sent. */
  newKey(last: Uint8Array | undefined, environment: Environment): Uint8Array {
    this.#place = Math.max(this.#place, last === undefined ? 0 : placeOf(last)) + 1;
    return messageKey(this.#place, 0, environment.uuid().slice(0, 8));
  }

  // ── updates ──

  /** Calls back with the outcome once it is durable; returns how to stop waiting. */
  onUpdate(id: string, waiter: UpdateWaiter): () => void {
    const waiters = this.#waiters.get(id) ?? new Set();
    this.#waiters.set(id, waiters);
    waiters.add(waiter);
    return () => {
      waiters.delete(waiter);
      if (waiters.size === 0 && this.#waiters.get(id) === waiters) this.#waiters.delete(id);
    };
  }
  tellUpdate(id: string, outcome: UpdateOutcome): void {
    for (const waiter of this.#waiters.get(id) ?? []) waiter(outcome);
  }
}
