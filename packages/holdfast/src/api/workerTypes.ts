// The public types of workers.
// Owns: types only.
// Invariants: names and shapes are fixed.

// For projects whose `lib` lacks it. Without "preserve" TypeScript drops the reference from its output.
/// <reference lib="esnext.disposable" preserve="true" />

import type { Activity, AnyWorkflow, Duration } from "@holdfast/core";

/**
 * Options of `engine.worker`.
 * @example
 * ```ts
 * const order = workflow("order", async () => "done");
 * const engine = await Holdfast.open("memory:");
 * await engine.worker({ workflows: [order], queue: "orders", concurrency: 20, gracePeriod: "30s" });
 * console.log(await (await engine.start(order, undefined, { queue: "orders" })).result()); // "done"
 * await engine.close();
 * ```
 */
export interface WorkerOptions {
  /**
   * The activities that it serves: a list, or the exports of a module.
   * @defaultValue none
   */
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?: readonly Activity<any, any>[] | Record<string, unknown>;
  /** The workflows that it serves: a list, or the exports of a module. Several versions of one workflow may be listed. */
  workflows: readonly AnyWorkflow[] | Record<string, unknown>;
  /**
   * The queue that it works for.
   * @defaultValue `"default"`
   */
  queue?: string;
  /**
   * Maximum number of runs in progress. Runs that wait do not count.
   * @defaultValue `100`
   */
  concurrency?: number;
  /**
   * Maximum number of activities in progress.
   * @defaultValue `100`
   */
  activityConcurrency?: number;
  /**
   * How long a run stays claimed without renewal: another worker takes it over after that.
   * @defaultValue `"30s"`
   */
  lease?: Duration;
  /**
   * Maximum number of waiting runs kept in memory, which continue without replay.
   * @defaultValue `1_000`
   */
  cachedRuns?: number;
  /**
   * How long stop() waits for steps in progress.
   * @defaultValue `"10s"`
   */
  gracePeriod?: Duration;
  /**
   * Process signals that stop the worker gracefully, close its engine and then exit the process. A second signal exits at once.
   * @defaultValue none
   */
  stopOn?: readonly ("SIGTERM" | "SIGINT")[];
  /**
   * How long the code of one turn may take. 0: no limit.
   * @defaultValue `"2s"`
   */
  turnTimeout?: Duration;
  /**
   * What happens when workflow code calls Date.now, Math.random, setTimeout or fetch.
   * @defaultValue `"error"` in `testEngine`, `"off"` if NODE_ENV is "production", else `"warn"`
   */
  determinism?: "off" | "warn" | "error";
}
/**
 * A worker that `engine.worker` has started.
 * @example
 * ```ts
 * const engine = await Holdfast.open("memory:");
 * const worker = await engine.worker({ workflows: [workflow("order", async () => {})] });
 * console.log(worker.active); // 0
 * await worker.stop();
 * await engine.close();
 * ```
 */
export interface Worker extends AsyncDisposable {
  /** The id under which `engine.workers()` lists it. */
  readonly id: string;
  /** Number of runs and activities in progress. Runs that wait do not count. */
  readonly active: number;
  /**
   * Stops gracefully: claims nothing new, waits for work in progress up to the grace period, and releases the rest, so that other workers
   * continue it at once. May be called again.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * const worker = await engine.worker({ workflows: [workflow("order", async () => {})] });
   * await worker.stop();
   * console.log((await engine.workers()).length); // 0
   * await engine.close();
   * ```
   */
  stop(): Promise<void>;
  /** The same as `stop`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}
