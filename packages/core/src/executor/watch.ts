// The interface for watching workflow code run: hosts use it to check determinism and the duration of turns.
// Owns: types only.
// Invariants: X1 (a watch does not change a turn, unless the turn breaks a rule of the host).

/** An execution whose user code may be running. */
export interface RunningTurn {
  readonly runId: string;
  readonly workflow: { readonly name: string };
  /** The unit that has the turn; undefined while the executor calls a predicate or a validator. */
  readonly current: { readonly title: string } | undefined;
  /** The predicate or validator that the executor calls, in words. */
  readonly closure: string | undefined;
  /** Records a broken rule: the turn fails even if user code catches the error (V4). */
  violate<E extends Error>(error: E): E;
}

/**
 * Called just before user code runs, and once its microtasks have run. Runs that share a barrier are entered together. Functions that the
 * executor calls for user code (a side effect, the logger) are outside.
 */
export interface TurnWatch {
  enter(turn: RunningTurn): void;
  leave(turn: RunningTurn): void;
}
