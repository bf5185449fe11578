// Queues with limits, keys and pauses (Q1–Q8).
// Owns: which queues first turns may not begin in, as this process last saw it; how limits are handed to the server and read back.
// Invariants: Q2 (the server decides whether a first turn may begin: what is known here only saves calls), Q8 (changes are durable).

import {
  type LimitedWork,
  type LimitsFor,
  type LimitUse,
  MOST_COUNTED,
  type NewRun,
  type QueueLimit,
  type QueueRow,
  type QueueStore,
  type StoredQueueSpec,
} from "holdfast/store";
import { readText, text, textArray, time } from "./columns.ts";
import type { Context } from "./context.ts";

type Load = readonly [waiting: number, held: number, oldest: number | null];
interface Shown {
  readonly name: string;
  readonly limits: string | null;
  readonly paused: boolean;
  readonly until: number | null;
  readonly keys: readonly string[] | null;
  readonly runs: Load;
  readonly tasks: Load;
}

interface Use {
  readonly paused: boolean;
  readonly until: number | null;
  readonly slots: readonly [held: number, limit: number] | null;
  readonly starts: readonly [limit: number, per: number, roomAt: number | null] | null;
}
interface Limits {
  readonly queue: Use;
  readonly key: Use | null;
  readonly needs: readonly [queueSlot: boolean, keySlot: boolean, start: boolean];
}
const NO_LIMITS: LimitUse = { paused: false, pausedUntil: undefined, slots: undefined, starts: undefined };

/** How long a queue that has limits is taken to have them, in milliseconds. */
const BELIEVED_MS = 10_000;

export class Queues implements QueueStore {
  readonly #context: Context;
  #known: { readonly changes: number; readonly managed: ReadonlySet<string>; readonly at: number } | undefined;

  constructor(context: Context) {
    this.#context = context;
  }

  // ── first turns ──

  /** What the server compares with: how many changes of queues this process has seen. Null: it has not looked, since no run comes with a turn. */
  get changes(): number | null {
    return this.#known?.changes ?? null;
  }
  /** Looks at the queues, if that is needed to create these. A queue may have lost its limits, and first turns save a claim. */
  async prepare(runs: readonly NewRun[]): Promise<void> {
    const begins = runs.filter(({ first }) => first !== undefined);
    if (begins.length === 0) return;
    const isOld = this.#known === undefined || performance.now() - this.#known.at > BELIEVED_MS;
    if (isOld && (this.#known === undefined || begins.some(({ queue }) => this.#known?.managed.has(queue)))) await this.look();
  }
  async look(): Promise<void> {
    const { connections, place } = this.#context;
    // The number first: what changes in between is noticed.
    const [changes] = await connections.query<{ changes: number }>(`SELECT last_value AS changes FROM ${place.s}.queue_changes`);
    const rows = await connections.query<{ name: string }>(`SELECT name FROM ${place.s}.queues WHERE limits IS NOT NULL OR paused`);
    this.#known = { changes: Number(changes?.changes), managed: new Set(rows.map(({ name }) => readText(name))), at: performance.now() };
  }
  /** Q2: the run as the store takes it. */
  withoutFirst(run: NewRun): NewRun {
    if (run.first === undefined || (run.key === undefined && this.#known?.managed.has(run.queue) !== true)) return run;
    const { first: _, ...plain } = run;
    return plain;
  }

  // ── limits and pauses ──

  async setQueue(name: string, spec: StoredQueueSpec): Promise<void> {
    const { perKey = {}, keys = {}, counts } = spec;
    const limits = [spec, perKey, ...Object.values(keys)];
    const longest = Math.max(0, ...limits.map(({ rate }) => rate?.per ?? 0));
    const { c: kc, r: kr, p: kp } = limitFields(perKey);
    const fields = { ...limitFields(spec), kc, kr, kp, l: longest === 0 ? undefined : time(longest), o: counts === "open" };
    const single = Object.entries(keys).map(([key, limit]) => ({ n: nameOf(key), ...limitFields(limit), w: limit.weight }));
    await this.#set(name, JSON.stringify(spec), JSON.stringify(fields), JSON.stringify(single));
  }
  async deleteQueue(name: string): Promise<void> {
    await this.#set(name, null, null, null);
  }
  async #set(name: string, ...values: (string | null)[]): Promise<void> {
    await this.#context.functions.ask("set_queue_1", [text(name), ...values]);
    this.#changed();
  }
  #changed(): void {
    this.#known = undefined;
    this.#context.notifications.tell({ work: true, tasks: true });
  }
  async pauseQueue(name: string, pause: { readonly key?: string | undefined; readonly for?: number | undefined }): Promise<void> {
    await this.#pause(name, pause.key, true, pause.for);
  }
  async resumeQueue(name: string, key?: string): Promise<void> {
    await this.#pause(name, key, false);
  }
  async #pause(name: string, key: string | undefined, isPaused: boolean, length?: number): Promise<void> {
    const { functions, now } = this.#context;
    const values = [now(), text(name), key === undefined ? null : nameOf(key), isPaused, time(length) ?? null];
    await functions.ask("pause_queue_1", values);
    this.#changed();
  }

  // ── reading ──

  async getQueue(name: string): Promise<QueueRow> {
    const [row] = await this.#show([text(name)]);
    return row as QueueRow;
  }
  async limitsFor(work: LimitedWork): Promise<LimitsFor | undefined> {
    const { functions, now } = this.#context;
    const which =
      work.of === "runs" ? [text(work.runId), null, null] : [null, text(work.queue), work.key === undefined ? "" : nameOf(work.key)];
    const limits = JSON.parse(await functions.ask("show_limits_1", [now(), ...which, MOST_COUNTED])) as Limits | null;
    if (limits === null) return undefined;
    const { queue, key, needs } = limits;
    const [queueSlot, keySlot, start] = needs;
    return { queue: useOf(queue), key: key === null ? NO_LIMITS : useOf(key), needs: { queueSlot, keySlot, start } };
  }
  async listQueues(): Promise<QueueRow[]> {
    const names = JSON.parse(await this.#context.functions.ask("queue_names_1", [])) as string[];
    return names.length === 0 ? [] : this.#show(names);
  }
  async #show(names: readonly string[]): Promise<QueueRow[]> {
    const { functions, now } = this.#context;
    return (JSON.parse(await functions.ask("show_queues_1", [now(), textArray(names), MOST_COUNTED])) as Shown[]).map(queueRow);
  }
}

/** As in `queues.sql`: not empty, which is for work without a key. */
const nameOf = (key: string): string => `=${text(key)}`;

/** c concurrency, r rate, p its window. */
function limitFields({ concurrency, rate }: QueueLimit): { c?: number | undefined; r?: number | undefined; p?: number | undefined } {
  return { c: counted(concurrency), r: counted(rate?.limit), p: time(rate?.per) };
}
/** The most that the server's columns hold, and more than any queue has. */
const MOST = 2 ** 31 - 1;
const counted = (limit: number | undefined): number | undefined => (limit === undefined ? undefined : Math.min(limit, MOST));
function queueRow({ name, limits, paused, until, keys, runs, tasks }: Shown): QueueRow {
  return {
    name: readText(name),
    spec: limits === null ? {} : (JSON.parse(limits) as StoredQueueSpec),
    paused,
    pausedUntil: paused && until !== null ? until : undefined,
    pausedKeys: (keys ?? []).map(readText),
    runs: loadOf(runs),
    activities: loadOf(tasks),
  };
}
function useOf({ paused, until, slots, starts }: Use): LimitUse {
  return {
    paused,
    pausedUntil: paused && until !== null ? until : undefined,
    slots: slots === null ? undefined : { held: slots[0], limit: slots[1] },
    starts: starts === null ? undefined : { limit: starts[0], per: starts[1], roomAt: starts[2] ?? undefined },
  };
}
function loadOf([waiting, held, oldest]: Load): QueueRow["runs"] {
  return { waiting, held, oldest: oldest ?? undefined };
}
