// Errors for workflow code that breaks the rules or diverges from its history.
// Owns the fields and wording of these classes; code, retryable and advice come from the catalog.
// Invariants: V4 (they block a run, never fail it), N (IllegalCall), X7 (OutOfTurn), X8 (ForeignAwait), X9 (TurnTimeout), Y2 (the error
// names the field, the recorded value and the new one).

import { advise } from "../base/catalog.ts";
import { formatDuration } from "../base/formatDuration.ts";
import { declareError, HoldfastError } from "../base/holdfastError.ts";
import { callName, unitName } from "../base/text.ts";
import { sides } from "./difference.ts";

/**
 * The code does something different from what the run's history recorded. A worker blocks such a run; `replay` throws it.
 * @example
 * ```ts
 * const before = workflow("order", (ctx) => ctx.step("charge", () => "charged"));
 * const engine = await testEngine({ workflows: [before] });
 * const run = await engine.start(before);
 * await run.result();
 * const after = workflow("order", (ctx) => ctx.step("pay", () => "paid"));
 * const error = await replay(after, await run.history()).catch((error) => error);
 * console.log(error instanceof NondeterminismError && error.field); // "name"
 * await engine.close();
 * ```
 */
export class NondeterminismError extends HoldfastError {
  static {
    declareError(this, "NondeterminismError");
  }
  /** The location of the operation that diverges. */
  readonly location: string;
  /** The field that differs: "kind", "name", "input", "retry" … */
  readonly field: string;
  /** The value in history; undefined if history has none. */
  readonly expected: unknown;
  /** The value in the code; undefined if the code has none. */
  readonly actual: unknown;
  constructor(details: { location: string; field: string; expected: unknown; actual: unknown; hint?: string }) {
    const { location, field, expected, actual, hint } = details;
    const [before, now] = sides(expected, actual);
    const diff = [
      `code and history diverge at ${location === "" ? "the root" : location}, in ${field}`,
      `- expected (history): ${before}`,
      `+ actual (code):      ${now}`,
    ];
    if (hint !== undefined) diff.push(hint);
    super(advise("NondeterminismError", diff.join("\n")));
    this.location = location;
    this.field = field;
    this.expected = expected;
    this.actual = actual;
  }
}

/**
 * An operation was called in a unit that does not allow it.
 * @example
 * ```ts
 * const order = workflow("order", async (ctx) => {
 *   await ctx.parallel([(branch) => (branch as typeof ctx).receive(0, {})]); // only the root may receive
 * });
 * const engine = await testEngine({ workflows: [order] });
 * const error = await (await engine.start(order)).result().catch((error) => error);
 * console.log(error instanceof RunBlockedError && (error.cause as Error).name); // "IllegalCallError"
 * await engine.close();
 * ```
 */
export class IllegalCallError extends HoldfastError {
  static {
    declareError(this, "IllegalCallError");
  }
  /** The call, for example "receive". */
  readonly call: string;
  /** The unit that made it. */
  readonly unit: string;
  /** Why it is not allowed there. */
  readonly reason: string;
  constructor(details: { call: string; unit: string; reason: string }) {
    const { call, unit, reason } = details;
    super(advise("IllegalCallError", `${callName(call)} can't be called in ${unitName(unit)}: ${reason}`));
    this.call = call;
    this.unit = unit;
    this.reason = reason;
  }
}

/**
 * A function returned a value that is not allowed there.
 * @example
 * ```ts
 * const counter = workflow({ name: "counter", signals: { add: signal() } }, async (ctx) => {
 *   await ctx.receive(0, { signals: { add: () => 1 as never } }); // Receive.noreply(1) is meant
 * });
 * const engine = await testEngine({ workflows: [counter] });
 * const run = await engine.start(counter, undefined, { signals: [{ name: "add" }] });
 * const error = await run.result().catch((error) => error);
 * console.log(error instanceof RunBlockedError && (error.cause as Error).name); // "IllegalReturnError"
 * await engine.close();
 * ```
 */
export class IllegalReturnError extends HoldfastError {
  static {
    declareError(this, "IllegalReturnError");
  }
  constructor(message: string) {
    super(message);
  }
}

/**
 * A ctx was used outside its turn.
 * @example
 * ```ts
 * const order = workflow("order", (ctx) =>
 *   ctx.join("all", { charge: () => ctx.step("charge", () => "paid") }), // (ctx) => ctx.step(…) is meant
 * );
 * const engine = await testEngine({ workflows: [order] });
 * const error = await (await engine.start(order)).result().catch((error) => error);
 * console.log(error instanceof RunBlockedError && (error.cause as Error).name); // "OutOfTurnError"
 * await engine.close();
 * ```
 */
export class OutOfTurnError extends HoldfastError {
  static {
    declareError(this, "OutOfTurnError");
  }
  /** The unit whose `ctx` was used. */
  readonly unit: string;
  /** The call that was made. */
  readonly call: string;
  /** The operation that the unit of this ctx waits for, if any. */
  readonly pausedOn: string | undefined;
  /** The unit that has the turn, if any. */
  readonly turnOf: string | undefined;
  constructor(details: { unit: string; call: string; pausedOn?: string; turnOf?: string }) {
    const { unit, call, pausedOn, turnOf } = details;
    const paused = pausedOn === undefined ? "" : `, which is paused on ${pausedOn}`;
    const holder =
      turnOf === undefined
        ? "no unit has the turn now: the call comes from a step body, a callback or a promise that is not awaited"
        : `${unitName(turnOf)} has the turn: use the ctx that its function was given`;
    super(advise("OutOfTurnError", `${callName(call)} was called on the ctx of ${unitName(unit)}${paused}; ${holder}`));
    this.unit = unit;
    this.call = call;
    this.pausedOn = pausedOn;
    this.turnOf = turnOf;
  }
}

/**
 * Workflow code awaited something that is not an operation: fetch, a timer, a file.
 * @example
 * ```ts
 * import { readFile } from "node:fs/promises";
 *
 * const order = workflow("order", async () => {
 *   await readFile("prices.json").catch(() => {}); // ctx.step("prices", () => readFile(…)) is meant
 * });
 * const engine = await testEngine({ workflows: [order] });
 * const error = await (await engine.start(order)).result().catch((error) => error);
 * console.log(error instanceof RunBlockedError && (error.cause as Error).name); // "ForeignAwaitError"
 * await engine.close();
 * ```
 */
export class ForeignAwaitError extends HoldfastError {
  static {
    declareError(this, "ForeignAwaitError");
  }
  /** The unit that awaits something else than an operation. */
  readonly unit: string;
  /** The last operation before the foreign await. */
  readonly call: string | undefined;
  constructor(details: { unit: string; call?: string }) {
    const { unit, call } = details;
    const after = call === undefined ? "" : `, after ${callName(call)}`;
    super(advise("ForeignAwaitError", `${unitName(unit)} awaits something that is not an operation${after}: wrap it in ctx.step`));
    this.unit = unit;
    this.call = call;
  }
}

/**
 * A turn of workflow code took longer than `turnTimeout`.
 * @example
 * ```ts
 * const order = workflow("order", async () => {
 *   for (let n = 0; n < 2e8; n++) Math.sqrt(n); // a step may compute for as long as it likes
 * });
 * const engine = await Holdfast.open("memory:", { logger: { debug() {}, info() {}, warn() {}, error() {} } });
 * await engine.worker({ workflows: [order], turnTimeout: "20ms" });
 * const error = await (await engine.start(order)).result().catch((error) => error);
 * console.log(error instanceof RunBlockedError && (error.cause as Error).name); // "TurnTimeoutError"
 * await engine.close();
 * ```
 */
export class TurnTimeoutError extends HoldfastError {
  static {
    declareError(this, "TurnTimeoutError");
  }
  /** How long the turn took, in milliseconds. */
  readonly elapsed: number;
  /** The turn timeout, in milliseconds. */
  readonly limit: number;
  /** Where the code was when the turn ended. */
  readonly location: string;
  constructor(details: { elapsed: number; limit: number; location: string }) {
    const { elapsed, limit, location } = details;
    const where = location === "" ? "the root" : location;
    super(
      advise("TurnTimeoutError", `a turn took ${formatDuration(elapsed)} at ${where}, longer than its timeout of ${formatDuration(limit)}`),
    );
    this.elapsed = elapsed;
    this.limit = limit;
    this.location = location;
  }
}
