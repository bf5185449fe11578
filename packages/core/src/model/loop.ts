// The options of `ctx.loop`, and the results with which its body continues or ends.
// Owns: `Loop`, the shapes of results and their check at run time. The executor iterates, commits and trims.
// Invariants: L1 (continue carries a state, break a value); a result is a plain object with the field `loop`.

export interface LoopOptions<S> {
  name: string;
  /** The state of the first iteration. */
  state: S;
  /** Iterations between two commits of the state. Replay starts at the last commit. Default 20. */
  commitInterval?: number;
  /** Iterations between two trims of the history. Default 20. */
  historyEvery?: number;
  /** How many of the last iterations keep their records when the history is trimmed. Default 20. */
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
/** The result type of a loop whose body returns `R`: the values of all its breaks. */
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

/** The results that the body of `ctx.loop` may return. */
export const Loop: {
  /** Starts the next iteration with this state. */
  continue(): LoopContinue<void>;
  continue<S>(state: S): LoopContinue<S>;
  /** Ends the loop with this value. */
  break(): LoopBreak<void>;
  break<T>(value: T): LoopBreak<T>;
} = Object.freeze({ continue: continueWith, break: breakWith });

/** Whether the value is a result of `Loop`, or a plain object of the same shape. */
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
