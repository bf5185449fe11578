// Times that decide how soon other workers take over from one that was lost.
// Owns: their defaults. Tests shorten them.

export interface Timing {
  /** Milliseconds that a task of a run waits for the worker that has the run in memory. */
  readonly sticky: number;
  /** Milliseconds that a step waits for that worker, before any other worker may run it. 0: any worker may run it from the beginning. */
  readonly ownQueue: number;
}
export const TIMING: Timing = { sticky: 5_000, ownQueue: 10_000 };
