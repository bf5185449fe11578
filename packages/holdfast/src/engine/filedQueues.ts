// Queues as the engine sees them: those whose runs are begun by claims only, as far as this process knows, and the calls about queues.
// Owns: what the store has answered about first turns.
// Invariants: Q2 (the store decides; this only saves first turns that the store would refuse).

import type { Environment } from "@holdfast/host";
import type { BackendQueues } from "../backend/port.ts";
import type { NewRun } from "../store/port.ts";
import type { QueueStore } from "../store/queuePort.ts";

/** How long an answer is believed, in milliseconds: the queue may lose its limits, and first turns save a claim. */
const BELIEVED_MS = 10_000;

export class FiledQueues {
  readonly #environment: Environment;
  /** When the store answered, in monotonic milliseconds. */
  readonly #answered = new Map<string, number>();

  constructor(environment: Environment) {
    this.#environment = environment;
  }
  /** Whether the store has created this run without its first turn. */
  isFiled({ queue }: Pick<NewRun, "queue">, { begun }: { readonly begun?: false }): boolean {
    if (begun === false) this.#answered.set(queue, this.#environment.elapsed());
    return begun === false;
  }
  has(queue: string): boolean {
    const answered = this.#answered.get(queue);
    if (answered === undefined) return false;
    if (this.#environment.elapsed() - answered < BELIEVED_MS) return true;
    this.#answered.delete(queue);
    return false;
  }
}

/** The queues of a store, for as long as the engine is open. Undefined: the store has none. */
export function openQueues(store: Partial<QueueStore>, assertOpen: () => void): BackendQueues | undefined {
  const { setQueue, deleteQueue, pauseQueue, resumeQueue, getQueue, listQueues } = store;
  if (!setQueue || !deleteQueue || !pauseQueue || !resumeQueue || !getQueue || !listQueues) return undefined;
  const open =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      assertOpen();
      return call.apply(store, args);
    };
  return {
    setQueue: open(setQueue),
    deleteQueue: open(deleteQueue),
    pauseQueue: open(pauseQueue),
    resumeQueue: open(resumeQueue),
    getQueue: open(getQueue),
    listQueues: open(listQueues),
  };
}
