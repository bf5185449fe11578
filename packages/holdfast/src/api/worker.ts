// `Worker`: a handle on a worker of the backend.
// Owns: nothing.
// Invariants: W4 (stopping again returns the same promise).

import type { BackendWorker } from "../backend/port.ts";
import type { Worker } from "./types.ts";

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
