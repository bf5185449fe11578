// The options of `ctx.loop`, and the results with which its body continues or ends.
// Owns: `Loop`, the shapes of results and their check at run time. The executor iterates, commits and trims.
// Invariants: L1 (continue carries a state, break a value); a result is a plain object with the field `loop`.

/**
 * Options of `ctx.loop` with a state.
 * @example
 * ```ts
 * const countdown = workflow("countdown", (ctx) =>
 *   ctx.loop({ name: "count", state: 3, commitInterval: 1 }, async (ctx, left) => {
 *     await ctx.sleep("1h");
 *     return left === 1 ? Loop.break("liftoff") : Loop.continue(left - 1);
 *   }),
 * );
 * const engine = await testEngine({ workflows: [countdown] });
 * console.log(await (await engine.start(countdown)).result()); // "liftoff"
 * await engine.close();
 * ```
 */
export interface LoopOptions<S> {
  /** The name of the loop in histories and consoles. */
  name: string;
  /** The state of the first iteration. */
  state: S;
  /**
   * Iterations between two commits of the state. Replay starts at the last commit.
   * @defaultValue `20`
   */
  commitInterval?: number;
  /**
   * Iterations between two trims of the history.
   * @defaultValue `20`
   */
  historyEvery?: number;
  /**
   * How many of the last iterations keep their records when the history is trimmed.
   * @defaultValue `20`
   */
  historyKeep?: number;
}
/** A result of `Loop.continue`. */
export interface LoopContinue<S> {
  readonly loop: "continue";
  /** The state of the next iteration. */
  readonly state: S;
}
/** A result of `Loop.break`. */
export interface LoopBreak<T> {
  readonly loop: "break";
  /** The value that the loop returns. */
  readonly value: T;
}
/** What the body of a loop returns. */
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

/**
 * The results that the body of `ctx.loop` may return.
 * @example
 * ```ts
 * const countdown = workflow("countdown", (ctx, from: number) =>
 *   ctx.loop({ name: "count", state: from }, async (iteration, left) => {
 *     if (left === 0) return Loop.break("liftoff");
 *     await iteration.sleep("1s");
 *     return Loop.continue(left - 1);
 *   }),
 * );
 * const engine = await testEngine({ workflows: [countdown] });
 * console.log(await (await engine.start(countdown, 10)).result()); // "liftoff"
 * await engine.close();
 * ```
 */
export const Loop: {
  /** Starts the next iteration. */
  continue(): LoopContinue<void>;
  /** Starts the next iteration with this state. */
  continue<S>(state: S): LoopContinue<S>;
  /** Ends the loop. */
  break(): LoopBreak<void>;
  /** Ends the loop with this value, which `ctx.loop` returns. */
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
