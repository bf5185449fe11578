// The queues of the memory store that have limits or a pause.
// Owns: specs and pauses.
// Invariants: Q8 (they count from the next claim on; a pause with a time ends by itself).

import type { Pauses } from "../filing/choose.ts";
import type { StoredQueueSpec } from "../queuePort.ts";

interface KeptQueue {
  spec: StoredQueueSpec | undefined;
  /** Infinite: until it is resumed. */
  pausedUntil: number;
  readonly pausedKeys: Map<string, number>;
}

export class QueueTable {
  readonly #queues = new Map<string, KeptQueue>();

  get names(): Iterable<string> {
    return this.#queues.keys();
  }
  specOf(queue: string): StoredQueueSpec | undefined {
    return this.#queues.get(queue)?.spec;
  }
  pauses(queue: string, now: number): Pauses {
    const { pausedUntil = 0, pausedKeys = [] } = this.#queues.get(queue) ?? {};
    return { queue: pausedUntil > now ? pausedUntil : undefined, keys: new Map([...pausedKeys].filter(([, until]) => until > now)) };
  }
  set(queue: string, spec: StoredQueueSpec | undefined): void {
    this.#kept(queue).spec = spec;
    this.#forget(queue);
  }
  pause(queue: string, key: string | undefined, until: number): void {
    if (key === undefined) this.#kept(queue).pausedUntil = until;
    else this.#kept(queue).pausedKeys.set(key, until);
  }
  resume(queue: string, key: string | undefined): void {
    if (key === undefined) this.#kept(queue).pausedUntil = 0;
    else this.#kept(queue).pausedKeys.delete(key);
    this.#forget(queue);
  }
  #kept(queue: string): KeptQueue {
    const kept = this.#queues.get(queue) ?? { spec: undefined, pausedUntil: 0, pausedKeys: new Map() };
    this.#queues.set(queue, kept);
    return kept;
  }
  #forget(queue: string): void {
    const { spec, pausedUntil, pausedKeys } = this.#kept(queue);
    if (spec === undefined && pausedUntil === 0 && pausedKeys.size === 0) this.#queues.delete(queue);
  }
}
