// The alarms of all runs of a store, in memory, sorted by time.
// Owns: which run is due when. The store persists them.
// Invariants: H3 (by run id); one alarm per run; a due alarm stays until it is set again or cleared.

/** One queue for all runs of a store: a host reads from it which runs to wake. */
export interface AlarmQueue {
  /**
   * Runs whose alarm is due, the most overdue first; at most `limit` of them, and none of `except`, the runs that are already running. They
   * stay due until they are woken and have set or cleared their alarm.
   */
  due(now: number, options?: { readonly limit?: number; readonly except?: ReadonlySet<string> }): string[];
  /** When the next alarm is due, in milliseconds since 1970. */
  readonly next: number | undefined;
  /** How many alarms are set. */
  readonly size: number;
  /** When the alarm of a run is due, in milliseconds since 1970. */
  get(runId: string): number | undefined;
  /** Calls back when an alarm was set. Returns a function that stops it. */
  watch(onSet: (runId: string, at: number) => void): () => void;
}

interface Entry {
  readonly at: number;
  readonly runId: string;
}

export class Alarms implements AlarmQueue {
  readonly #at = new Map<string, number>();
  /** A heap sorted by time. Entries that no longer match `#at` are skipped. */
  readonly #heap: Entry[] = [];
  readonly #watchers = new Set<(runId: string, at: number) => void>();

  get size(): number {
    return this.#at.size;
  }
  get(runId: string): number | undefined {
    return this.#at.get(runId);
  }
  /** Returns false if nothing changed. */
  set(runId: string, at: number): boolean {
    if (this.#at.get(runId) === at) return false;
    this.#at.set(runId, at);
    this.#push({ at, runId });
    for (const watcher of this.#watchers) watcher(runId, at);
    return true;
  }
  clear(runId: string): boolean {
    return this.#at.delete(runId);
  }
  watch(onSet: (runId: string, at: number) => void): () => void {
    const watcher = (runId: string, at: number): void => onSet(runId, at);
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  get next(): number | undefined {
    for (let top = this.#heap[0]; top !== undefined; top = this.#heap[0]) {
      if (this.#at.get(top.runId) === top.at) return top.at;
      this.#pop();
    }
    return undefined;
  }
  due(now: number, options: { readonly limit?: number; readonly except?: ReadonlySet<string> } = {}): string[] {
    const { limit = Number.POSITIVE_INFINITY, except } = options;
    const looked = new Map<string, Entry>();
    const found: string[] = [];
    for (let next = this.next; next !== undefined && next <= now && found.length < limit; next = this.next) {
      const entry = this.#pop();
      if (entry === undefined || looked.has(entry.runId)) continue;
      looked.set(entry.runId, entry);
      if (except?.has(entry.runId) !== true) found.push(entry.runId);
    }
    for (const entry of looked.values()) this.#push(entry);
    return found;
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const above = (at - 1) >>> 1;
      const parent = heap[above] as Entry;
      if (parent.at <= entry.at) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = entry;
  }
  #pop(): Entry | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return top;
    let at = 0;
    for (;;) {
      let below = at * 2 + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && (heap[below + 1] as Entry).at < (heap[below] as Entry).at) below++;
      const child = heap[below] as Entry;
      if (child.at >= last.at) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
    return top;
  }
}
