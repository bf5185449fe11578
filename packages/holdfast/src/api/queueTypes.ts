// The public types of queues.
// Owns: types only.
// Invariants: names and shapes are fixed.

import type { Duration } from "@holdfast/core";

/** At most `limit` starts in any window of this length, wherever it begins. Of activities: attempts. */
export interface Rate {
  /** How many. */
  limit: number;
  /** The length of the window, at least 1 ms. */
  per: Duration;
}
/** Limits of a queue or a key. */
export interface Limit {
  /**
   * The most at once, over all workers.
   * @defaultValue no limit
   */
  concurrency?: number;
  /**
   * The most in a window of time.
   * @defaultValue no limit
   */
  rate?: Rate;
}
/**
 * The limits of a queue. They hold for its runs and, with the same numbers, for its activities.
 * @example
 * ```ts
 * const engine = await Holdfast.open("memory:");
 * const spec: QueueSpec = { concurrency: 50, rate: { limit: 100, per: "1m" }, perKey: { concurrency: 5 }, keys: { acme: { weight: 2 } } };
 * await engine.queues.set("mail", spec);
 * console.log((await engine.queues.get("mail")).perKey); // { concurrency: 5 }
 * await engine.close();
 * ```
 */
export interface QueueSpec extends Limit {
  /**
   * The limits of each key. Runs without a key are not limited by it.
   * @defaultValue no limits
   */
  perKey?: Limit;
  /**
   * The limits of single keys; what one leaves out is as in `perKey`.
   * @defaultValue none
   */
  keys?: Record<
    string,
    Limit & {
      /**
       * The key's share among keys, 0.001 to 1,000.
       * @defaultValue `1`
       */
      weight?: number;
    }
  >;
  /**
   * A run counts while a worker has it ("running"), or from its first claim to its end ("open").
   * @defaultValue `"running"`
   */
  counts?: "running" | "open";
}
/** How much work a queue has. Counts stop at 10,000. */
export interface QueueLoad {
  /** Available, and not claimed by a worker. */
  waiting: number;
  /** Counted by the limits of the queue; in a queue without limits: claimed by a worker. */
  held: number;
  /** Since when the first of those that wait has been available. */
  oldest: Date | undefined;
}
/** A queue: its limits, whether it is paused, and how much work it has. */
export interface QueueInfo extends QueueSpec {
  /** The name of the queue. */
  name: string;
  /** Whether the whole queue is paused. */
  paused: boolean;
  /** Undefined: it is not paused, or until `resume` is called. */
  pausedUntil: Date | undefined;
  /** The keys that are paused. */
  pausedKeys: string[];
  /** How many runs it has. */
  runs: QueueLoad;
  /** How many activities it has. */
  activities: QueueLoad;
}
/** Limits, pauses and load of queues. Not on Temporal, where all calls throw `UnsupportedError`. */
export interface Queues {
  /**
   * Creates or replaces the limits of a queue. They count from the next claim on, and interrupt nothing.
   * @throws `InvalidInputError` if a limit is invalid.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.queues.set("mail", { concurrency: 10, perKey: { rate: { limit: 100, per: "1m" } } });
   * console.log((await engine.queues.get("mail")).concurrency); // 10
   * await engine.close();
   * ```
   */
  set(name: string, spec: QueueSpec): Promise<void>;
  /**
   * The queue of that name. One that does not exist has no limits and no work.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.start("mail", undefined, { queue: "mail" });
   * console.log((await engine.queues.get("mail")).runs.waiting); // 1
   * await engine.close();
   * ```
   */
  get(name: string): Promise<QueueInfo>;
  /**
   * All queues that have limits, a pause or open work, by name.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.queues.set("mail", { concurrency: 10 });
   * console.log((await engine.queues.list()).map((queue) => queue.name)); // ["mail"]
   * await engine.close();
   * ```
   */
  list(): Promise<QueueInfo[]>;
  /**
   * Nothing of the queue is claimed until `resume` is called or the time in `for` is over; with `key`, nothing of that key. Work in
   * progress goes on.
   * @throws `InvalidInputError` if an option is invalid.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.queues.pause("mail", { for: "1h" });
   * console.log((await engine.queues.get("mail")).paused); // true
   * await engine.close();
   * ```
   */
  pause(name: string, options?: { key?: string; for?: Duration }): Promise<void>;
  /**
   * Ends a pause of the queue, or with `key` the pause of that key.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.queues.pause("mail", { key: "ada" });
   * await engine.queues.resume("mail", { key: "ada" });
   * console.log((await engine.queues.get("mail")).pausedKeys); // []
   * await engine.close();
   * ```
   */
  resume(name: string, options?: { key?: string }): Promise<void>;
  /**
   * Removes the limits. The work in the queue stays, and so does a pause.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.queues.set("mail", { concurrency: 10 });
   * await engine.queues.delete("mail");
   * console.log((await engine.queues.get("mail")).concurrency); // undefined
   * await engine.close();
   * ```
   */
  delete(name: string): Promise<void>;
}
