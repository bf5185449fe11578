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
export interface LoopContinue<S> {
  readonly loop: "continue";
  readonly state: S;
}
export interface LoopBreak<T> {
  readonly loop: "break";
  readonly value: T;
}
export type LoopResult<S, T> = LoopContinue<S> | LoopBreak<T>;
/** What a loop yields whose body returns `R`: the values of all its breaks. */
export type BreakValue<R> = R extends LoopBreak<infer T> ? T : never;

function continueWith(): LoopContinue<void>;
function continueWith<S>(state: S): LoopContinue<S>;
function continueWith(state?: unknown): LoopContinue<unknown> {
  return { loop: "continue", state };
}

function breakWith(): LoopBreak<void>;
function breakWith<T>(value: T): LoopBreak<T>;
function breakWith(value?: unknown): LoopBreak<unknown> {
  return { loop: "break", value };
}

export const Loop: {
  continue(): LoopContinue<void>;
  continue<S>(state: S): LoopContinue<S>;
  break(): LoopBreak<void>;
  break<T>(value: T): LoopBreak<T>;
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
