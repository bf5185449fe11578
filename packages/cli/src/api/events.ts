// What changes, as events: for each topic that is subscribed, one look serves all subscribers.
// Owns: the ids of events and the last ones of them; when it looks; what callers read in answer to an event.
// Invariants: an event has an id; a subscriber that names the last id it has seen gets what changed since then, or, if the id is not known
// any more, the present state; nothing is read while there is no subscriber. Events carry no user values. A change after a quiet time is an
// event at once; while changes go on, pauses between events grow up to a limit, and the last change is always an event.

import { randomBytes } from "node:crypto";
import type { InspectionChange } from "holdfast/inspect";
import type { ConsoleContext } from "./context.ts";
import { idOf, pathSegment } from "./ids.ts";
import { refusal } from "./problem.ts";
import { listKey, SharedReads } from "./sharedReads.ts";
import { workerJson } from "./show.ts";

export interface ConsoleEvent {
  readonly id: string;
  /** The topic without what is behind its colon. */
  readonly event: string;
  readonly data: unknown;
}
type Listener = (event: ConsoleEvent) => void;

/** A look at least this often, and not more often than … */
const LOOK = 1_000;
/** … this, when the store says that something has changed. */
const SOONEST = 50;
/** Counting may be expensive: it takes at most a twentieth of the time. */
const REST = 20;
/**
 * The pause after an event, in milliseconds: `first` after a quiet time, then twice as long each time, up to `most`, while changes go on.
 * After each event pages read again and draw, on the machine of the worker too, if it is the same.
 */
const PACES = { list: { first: 200, most: 1_000 }, run: { first: 50, most: 250 } } as const;
const KEPT = 1_000;
/** A topic is one of these, or `run:ID`. */
const PLAIN = ["runs", "counts", "workers"];
/** Of the newest runs: the others change without being seen in a list, except for their number. */
const NEWEST = 50;

interface Topic {
  readonly name: string;
  readonly listeners: Set<Listener>;
  /** Those that need the present state, whether or not it has changed. */
  readonly fresh: Set<Listener>;
  /** Runs that have changed since the last event, for `runs`. Undefined: any of them. */
  hints: Set<string> | undefined;
  /** What the last look saw. Undefined: it has not looked. */
  seen: string | undefined;
  last: ConsoleEvent | undefined;
  /** When the last look ended. */
  lookedAt: number;
  /** No look before this time: the pause after the last one ends then. */
  rested: number;
  pause: number;
  isDirty: boolean;
}

interface Look {
  readonly seen: string;
  readonly data: unknown;
  /** Of `runs`: what was read. */
  readonly page?: unknown;
}

/** Topics as one text. An id that has a comma is written as in a path, and so is one that would be read as such. */
export function topicText(topics: readonly string[]): string {
  return topics.map((topic) => (/^run:(?:~|.*,)/s.test(topic) ? `run:${pathSegment(topic.slice(4))}` : topic)).join(",");
}
export function topicsOf(text: string): string[] {
  const topics = [...new Set(text.split(",").map((topic) => (topic.startsWith("run:~") ? `run:${idOf(topic.slice(4)) ?? ""}` : topic)))];
  const unknown = topics.find((topic) => !PLAIN.includes(topic) && !/^run:./s.test(topic));
  if (unknown === undefined) return topics;
  const message = `Unknown topic ${JSON.stringify(unknown)}. Topics: ${PLAIN.join(", ")}, run:ID.`;
  throw refusal("HF_INVALID_INPUT", message, [{ message, path: ["topics"] }]);
}

export class EventHub {
  readonly #context: ConsoleContext;
  readonly #topics = new Map<string, Topic>();
  /** The last events, the oldest first. */
  readonly #kept: { readonly n: number; readonly topic: string; readonly event: ConsoleEvent }[] = [];
  /** Ids of another process are not known. */
  readonly #epoch = randomBytes(6).toString("base64url");
  readonly #shared = new SharedReads();
  #n = 0;
  #timer: NodeJS.Timeout | undefined;
  #unwatch: (() => void) | undefined;
  #isLooking = false;
  #isClosed = false;

  constructor(context: ConsoleContext) {
    this.#context = context;
  }

  /** Resolves once the subscriber has what it missed. Returns how to stop. */
  async subscribe(topics: readonly string[], lastEventId: string | undefined, listener: Listener): Promise<() => void> {
    if (this.#isClosed) throw refusal("HF_ENGINE_CLOSED", "The console is closed.");
    const since = this.#numberOf(lastEventId);
    const subscribed = topics.map((name) => this.#topic(name));
    if (since !== undefined) for (const { n, topic, event } of this.#kept) if (n > since && topics.includes(topic)) listener(event);
    for (const topic of subscribed) {
      topic.listeners.add(listener);
      if (since === undefined) topic.fresh.add(listener);
      topic.isDirty = true;
      topic.rested = Number.NEGATIVE_INFINITY;
    }
    await this.#start();
    this.#soon(0);
    return () => this.#unsubscribe(subscribed, listener);
  }
  #unsubscribe(topics: readonly Topic[], listener: Listener): void {
    for (const topic of topics) {
      topic.listeners.delete(listener);
      topic.fresh.delete(listener);
      if (topic.listeners.size > 0) continue;
      topic.isDirty = true;
      this.#forget(topic);
    }
    const isIdle = [...this.#topics.values()].every(({ listeners }) => listeners.size === 0);
    if (isIdle) this.#stop();
  }
  /** What a run looked like is known as long as the event that said so: a subscriber that has seen that one gets only what is new. */
  #forget(topic: Topic): void {
    if (!topic.name.startsWith("run:") || topic.listeners.size > 0) return;
    if (!this.#kept.some(({ event }) => event === topic.last)) this.#topics.delete(topic.name);
  }
  /**
   * For callers that read in answer to the event with this id: one read serves all of them that ask for the same. Undefined: the id is
   * not known.
   */
  sharedSince(id: string): ConsoleContext["shared"] {
    const after = this.#numberOf(id);
    if (after === undefined || this.#unwatch === undefined) return undefined;
    return (key, read) => this.#shared.read(key, after, this.#n, read);
  }
  close(): void {
    this.#isClosed = true;
    this.#stop();
  }
  #stop(): void {
    this.#shared.clear();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#unwatch?.();
    this.#unwatch = undefined;
    for (const topic of this.#topics.values()) topic.isDirty = true;
  }

  /** Undefined: not an id of this process, or too old. */
  #numberOf(id: string | undefined): number | undefined {
    const [epoch, number] = (id ?? "").split(":");
    if (epoch !== this.#epoch || number === undefined || !/^\d+$/.test(number)) return undefined;
    const n = Number(number);
    const oldest = this.#kept[0]?.n ?? this.#n + 1;
    return n >= oldest - 1 && n <= this.#n ? n : undefined;
  }
  #topic(name: string): Topic {
    let topic = this.#topics.get(name);
    if (topic === undefined) {
      topic = {
        name,
        listeners: new Set(),
        fresh: new Set(),
        hints: new Set(),
        seen: undefined,
        last: undefined,
        lookedAt: Number.NEGATIVE_INFINITY,
        rested: Number.NEGATIVE_INFINITY,
        pause: 0,
        isDirty: true,
      };
      this.#topics.set(name, topic);
    }
    return topic;
  }

  // ── looking ──

  async #start(): Promise<void> {
    if (this.#unwatch !== undefined) return;
    const inspection = await this.#context.inspection();
    if (this.#unwatch !== undefined || this.#isClosed) return;
    this.#unwatch = inspection.watch((change) => this.#changed(change));
  }
  #changed({ runs, runIds, workers }: InspectionChange): void {
    let isConcerned = false;
    for (const topic of this.#topics.values()) {
      if (topic.listeners.size === 0) continue;
      const isRun = topic.name.startsWith("run:");
      const concerns =
        topic.name === "workers" ? workers : runs && (!isRun || runIds === undefined || runIds.includes(topic.name.slice(4)));
      if (!concerns) continue;
      topic.isDirty = true;
      if (runIds === undefined) topic.hints = undefined;
      else for (const id of runIds) topic.hints?.add(id);
      isConcerned = true;
    }
    if (isConcerned) this.#soon(this.#wait());
  }
  /** Until a topic that has changed may be looked at, or all of them have to be. */
  #wait(): number {
    const now = performance.now();
    const dues = [...this.#topics.values()]
      .filter(({ isDirty, listeners }) => isDirty && listeners.size > 0)
      .map(({ rested, lookedAt }) => Math.max(rested, lookedAt + SOONEST));
    return Math.max(0, Math.min(now + LOOK, ...dues) - now);
  }
  #due = Number.POSITIVE_INFINITY;
  #soon(ms: number): void {
    if (this.#isClosed || this.#unwatch === undefined) return;
    const at = performance.now() + ms;
    if (this.#timer !== undefined && this.#due <= at) return;
    clearTimeout(this.#timer);
    this.#due = at;
    this.#timer = setTimeout(() => void this.#look(), ms);
  }
  async #look(): Promise<void> {
    this.#timer = undefined;
    this.#due = Number.POSITIVE_INFINITY;
    if (this.#isLooking || this.#isClosed) return;
    this.#isLooking = true;
    try {
      await Promise.all([...this.#topics.values()].map((topic) => this.#lookAt(topic)));
    } finally {
      this.#isLooking = false;
      this.#soon(this.#wait());
    }
  }
  async #lookAt(topic: Topic): Promise<void> {
    const begun = performance.now();
    if (topic.listeners.size === 0 || topic.rested > begun) return;
    // Without a hint a look happens once a second: not every store knows of changes by other processes.
    if (!topic.isDirty && begun < topic.lookedAt + LOOK - SOONEST) return;
    const { hints, isDirty } = topic;
    topic.isDirty = false;
    topic.hints = new Set();
    const fresh = [...topic.fresh];
    try {
      const { seen, data, page } = await this.#read(topic.name, hints);
      for (const listener of fresh) topic.fresh.delete(listener);
      const isHinted = topic.name === "runs" && (hints === undefined || hints.size > 0);
      const isNew = seen !== topic.seen || isHinted;
      this.#rest(topic, begun, isDirty || isNew);
      if (isNew) {
        topic.seen = seen;
        this.#publish(topic, data);
        // The newest runs are what a page without a filter reads in answer to the event.
        if (page !== undefined) this.#shared.keep(listKey({ limit: NEWEST }), this.#n, page);
      } else if (topic.last !== undefined) for (const listener of fresh) listener(topic.last);
    } catch {
      // The store is away, or lacks this. The next look tries again; the routes tell the caller why.
      topic.rested = performance.now() + LOOK;
      topic.isDirty = true;
    }
  }
  /** Sets when the topic may be looked at again. `hasChanged`: as far as the store says, or as the look has found. */
  #rest(topic: Topic, begun: number, hasChanged: boolean): void {
    const now = performance.now();
    const { first, most } = topic.name.startsWith("run:") ? PACES.run : PACES.list;
    const isRush = topic.pause > 0 && begun < topic.rested + first;
    topic.pause = !hasChanged ? 0 : isRush ? Math.min(most, topic.pause * 2) : first;
    topic.lookedAt = now;
    topic.rested = now + (topic.name === "counts" ? Math.max(topic.pause, (now - begun) * REST) : topic.pause);
  }
  #publish(topic: Topic, data: unknown): void {
    const event: ConsoleEvent = { id: `${this.#epoch}:${++this.#n}`, event: topic.name.split(":", 1)[0] ?? "", data };
    topic.last = event;
    this.#kept.push({ n: this.#n, topic: topic.name, event });
    const gone = this.#kept.length > KEPT ? this.#topics.get(this.#kept.shift()?.topic ?? "") : undefined;
    if (gone !== undefined) this.#forget(gone);
    for (const listener of [...topic.listeners]) listener(event);
  }

  async #read(topic: string, hints: ReadonlySet<string> | undefined): Promise<Look> {
    const inspection = await this.#context.inspection();
    switch (topic) {
      case "counts": {
        const counts = await inspection.counts();
        return { seen: JSON.stringify(counts), data: { counts } };
      }
      case "workers": {
        const workers = (await inspection.workers()).map(workerJson);
        return { seen: JSON.stringify(workers), data: { workers } };
      }
      case "runs": {
        const page = await inspection.list({ limit: NEWEST });
        const { runs } = page;
        const shown = runs.map(({ id, workflow, status, execution, createdAt }) => ({
          id,
          workflow,
          status,
          execution,
          createdAt: createdAt.toISOString(),
        }));
        const seen = JSON.stringify([shown, runs.map(({ historyLength, attempt }) => [historyLength, attempt])]);
        // Older runs that have changed; null: any of them may have.
        return { seen, data: { runs: shown, ids: hints === undefined ? null : [...hints] }, page };
      }
      default:
        return this.#readRun(topic.slice("run:".length));
    }
  }
  async #readRun(id: string): Promise<Look> {
    const inspection = await this.#context.inspection();
    const run = await inspection.get(id);
    if (run === undefined) return { seen: "", data: { id, status: null, lastTurn: null } };
    const { status, turns, execution, attempt, waitingFor, availableAt, workerId, historyLength, error } = run;
    // Attempts change without a turn.
    const attempts = run.finishedAt === undefined ? await inspection.attempts(id) : [];
    const seen = [status, turns, execution, attempt, waitingFor, availableAt, workerId, historyLength, error?.message, attempts];
    return { seen: JSON.stringify(seen), data: { id, status, lastTurn: turns - 1 } };
  }
}
