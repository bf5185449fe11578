// `Worker`: a handle on a worker of the backend.
// Owns: nothing.
// Invariants: W4 (stopping again returns the same promise).

import type { BackendWorker, WorkerSighting } from "../backend/port.ts";
import type { WorkerInfo } from "./operatingTypes.ts";
import type { Worker } from "./workerTypes.ts";

export class WorkerHandle implements Worker {
  readonly #worker: BackendWorker;
  constructor(worker: BackendWorker) {
    this.#worker = worker;
  }
  get id(): string {
    return this.#worker.id;
  }
  get active(): number {
    return this.#worker.active;
  }
  stop(): Promise<void> {
    return this.#worker.stop();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/** A worker of any process, as users see it. */
export function workerInfo({ serves, startedAt, seenAt, ...worker }: WorkerSighting): WorkerInfo {
  return {
    ...worker,
    // Built-in workflows, which every worker serves, have a queue of their own.
    serves: serves.flatMap(({ workflow, versions, queue }) => (queue === undefined ? [{ workflow, versions }] : [])),
    startedAt: new Date(startedAt),
    seenAt: new Date(seenAt),
  };
}
