// Replays histories of Temporal through Core and keeps the runs that come of it.
// Owns: a replay worker of Core, and which history is replayed now.
// Invariants: one history at a time (Core hangs if the same run is replayed twice at once); what a run asks for in replay goes nowhere.

import { HoldfastError, type Logger, NondeterminismError } from "@holdfast/core";
import { ReplayWorker, type TemporalHistory, type WorkflowActivation } from "../bridge.ts";
import { type Eviction, evictionOf } from "../evictions.ts";
import type { HostedRun } from "./run.ts";

export interface HistoryReplayOptions {
  readonly namespace: string;
  readonly queue: string;
  readonly logger: Logger;
}
/** The run for its first activation; undefined if there is no code for it. */
export type BeginReplay = (activation: WorkflowActivation, history: TemporalHistory) => HostedRun | undefined;
export interface Replayed {
  readonly run: HostedRun | undefined;
  /** Why the code does not fit the history; undefined if it does. */
  readonly problem: unknown;
}

export class HistoryReplay {
  readonly #worker: ReplayWorker;
  readonly #loop: Promise<void>;
  #last: Promise<unknown> = Promise.resolve();
  #current: { readonly history: TemporalHistory; readonly begin: BeginReplay; ended(eviction: Eviction): void } | undefined;
  #run: HostedRun | undefined;
  #problem: unknown;

  constructor({ namespace, queue, logger }: HistoryReplayOptions) {
    this.#worker = new ReplayWorker({ namespace, queue, cachedRuns: 1, logger });
    this.#loop = this.#poll();
  }
  replay(workflowId: string, history: TemporalHistory, begin: BeginReplay): Promise<Replayed> {
    const next = this.#last.then(() => this.#replay(workflowId, history, begin));
    this.#last = next.catch(() => {});
    return next;
  }
  async #replay(workflowId: string, history: TemporalHistory, begin: BeginReplay): Promise<Replayed> {
    this.#run = undefined;
    this.#problem = undefined;
    const evicted = new Promise<Eviction>((resolve) => {
      this.#current = { history, begin, ended: resolve };
    });
    await this.#worker.push(workflowId, history);
    const eviction = await evicted;
    this.#current = undefined;
    const problem = this.#problem ?? (eviction.isHarmless ? undefined : divergence(eviction));
    return { run: this.#run, problem };
  }
  async #poll(): Promise<void> {
    for (;;) {
      const activation = await this.#worker.core.nextActivation();
      if (activation === undefined) return;
      const runId = activation.runId ?? "";
      const eviction = evictionOf(activation);
      if (eviction !== undefined) {
        await this.#worker.core.complete({ runId, successful: {} });
        this.#current?.ended(eviction);
      } else await this.#worker.core.complete({ runId, ...(await this.#statusOf(activation)) });
    }
  }
  async #statusOf(activation: WorkflowActivation): Promise<ReturnType<HostedRun["failed"]>> {
    const current = this.#current;
    try {
      this.#run ??= current?.begin(activation, current.history);
    } catch (error) {
      this.#problem ??= error;
    }
    if (this.#run === undefined) {
      this.#problem ??= new HoldfastError("There is no code for this workflow and version.", { code: "HF_NOT_SERVED" });
      return { failed: { failure: { message: "There is no code for this workflow." } } };
    }
    const status = await this.#run.activate(activation);
    this.#problem ??= this.#run.problem;
    return status;
  }
  async stop(): Promise<void> {
    await this.#last;
    this.#worker.close();
    await this.#loop;
    await this.#worker.finalize();
  }
}

/** What Core has found by itself. */
function divergence({ reason, message }: Eviction): NondeterminismError {
  return new NondeterminismError({ location: "", field: "operation", expected: "the recorded events", actual: `${message} (${reason})` });
}
