// Who watches workflow code run: a host that guards its determinism, or its length.
// Owns: types only.
// Invariants: X1 (a watch sees turns, it changes none of them, unless one breaks a rule of the host's).

/** An execution of which user code may be running. */
export interface RunningTurn {
  readonly runId: string;
  readonly workflow: { readonly name: string };
  /** The unit that has the turn; none while the executor itself asks a predicate or a validator. */
  readonly current: { readonly title: string } | undefined;
  /** What the executor asks, in words. */
  readonly closure: string | undefined;
  /** A rule is broken: the turn fails, whatever user code does about the error (V4). */
  violate<E extends Error>(error: E): E;
}

/**
 * Told just before user code gets the thread, and once its microtasks have run out. Runs that share a barrier are entered together. What
 * user code hands over to be called (a side effect, a logger) is outside.
 */
export interface TurnWatch {
  enter(turn: RunningTurn): void;
  leave(turn: RunningTurn): void;
}
