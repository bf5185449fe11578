// Times that decide how soon other workers take over from one that was lost, and how long an execution lasts.
// Owns: their defaults. Tests shorten them.

export interface Timing {
  /** Milliseconds that a task of a run waits for the worker that has the run in memory. */
  readonly sticky: number;
  /** Milliseconds that a step waits for that worker, before any other worker may run it. 0: any worker may run it from the beginning. */
  readonly ownQueue: number;
  /**
   * Milliseconds before a commit may become a continue-as-new. The server makes up for an execution that was shorter: it delays the next one,
   * and signals wait for that. Updates don't, so that the delays of short executions add up.
   */
  readonly shortestExecution: number;
}
export const TIMING: Timing = { sticky: 5_000, ownQueue: 10_000, shortestExecution: 1_000 };
