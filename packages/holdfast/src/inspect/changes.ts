// What may have changed, for listeners that look at most every so often.
// Owns: the listeners, and what has been gathered for them.
// Invariants: D9 (hints may be late or doubled; none is lost: what comes while a listener waits is in its next call).

import type { InspectionChange } from "./types.ts";

const LEAST_BETWEEN_MS = 50;
/** With more, any run may have changed. */
const MOST_RUNS = 1_000;

/** Starts to watch, and returns how to stop. It is called back without an id if any run may have changed, and workers too. */
export type Source = (changed: (runId?: string) => void) => () => void;

export class Changes {
  readonly #sources: readonly Source[];
  readonly #listeners = new Set<(change: InspectionChange) => void>();
  #stops: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #last = Number.NEGATIVE_INFINITY;
  #runIds: Set<string> | undefined;
  #isAny = false;

  constructor(sources: readonly Source[]) {
    this.#sources = sources;
  }
  watch(listener: (change: InspectionChange) => void): () => void {
    const own = (change: InspectionChange): void => listener(change); // a callback that is registered twice is called twice
    this.#listeners.add(own);
    if (this.#listeners.size === 1) this.#stops = this.#sources.map((source) => source((runId) => this.#changed(runId)));
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) this.close();
    };
  }
  #changed(runId: string | undefined): void {
    if (runId === undefined) this.#isAny = true;
    else {
      this.#runIds ??= new Set();
      if (this.#runIds.size < MOST_RUNS) this.#runIds.add(runId);
      else this.#isAny = true;
    }
    if (this.#timer !== undefined) return;
    const wait = Math.max(0, this.#last + LEAST_BETWEEN_MS - performance.now());
    this.#timer = setTimeout(() => this.#tell(), wait);
    this.#timer.unref();
  }
  #tell(): void {
    this.#timer = undefined;
    this.#last = performance.now();
    const runIds = this.#isAny ? undefined : [...(this.#runIds ?? [])];
    const change = { runs: true, runIds, workers: this.#isAny };
    this.#isAny = false;
    this.#runIds = undefined;
    for (const listener of [...this.#listeners]) listener(change);
  }
  close(): void {
    this.#listeners.clear();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const stop of this.#stops.splice(0)) stop();
  }
}
