// Job: what `ctx.loop` takes and what its body returns to go on or to end.
// Owns: `Loop`, the result shapes and their recognition at run time. Iterating, committing and trimming are the executor's.
// Invariants: L1 (continue carries a state, break a value); a result is a plain object, told by `loop`.

export interface LoopOptions<S> {
  name: string;
  state: S;
  commitInterval?: number;
  historyEvery?: number;
  historyKeep?: number;
}
export type LoopResult<S, T> = { readonly loop: "continue"; readonly state: S } | { readonly loop: "break"; readonly value: T };

function continueWith(): LoopResult<void, never>;
function continueWith<S>(state: S): LoopResult<S, never>;
function continueWith(state?: unknown): LoopResult<unknown, never> {
  return { loop: "continue", state };
}

function breakWith(): LoopResult<never, void>;
function breakWith<T>(value: T): LoopResult<never, T>;
function breakWith(value?: unknown): LoopResult<never, unknown> {
  return { loop: "break", value };
}

export const Loop: {
  continue(): LoopResult<void, never>;
  continue<S>(state: S): LoopResult<S, never>;
  break(): LoopResult<never, void>;
  break<T>(value: T): LoopResult<never, T>;
} = Object.freeze({ continue: continueWith, break: breakWith });

/** Whether a loop's body returned one of the results of `Loop`, made by it or by hand. */
export function isLoopResult(x: unknown): x is LoopResult<unknown, unknown> {
  try {
    if (typeof x !== "object" || x === null || !("loop" in x)) return false;
    switch (x.loop) {
      case "continue":
        return "state" in x;
      case "break":
        return "value" in x;
      default:
        return false;
    }
  } catch {
    return false; // a Proxy whose traps throw
  }
}
