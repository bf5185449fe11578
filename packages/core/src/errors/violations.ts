// Errors for workflow code that breaks the rules, or that has parted from its history.
// Owns the fields and wording of these classes; code, retryable and advice come from the catalog.
// Invariants: V4 (they block a run, never fail it), N (IllegalCall), X7 (OutOfTurn), X8 (ForeignAwait), X9 (TurnTimeout), Y2 (field, old, new).

import { advise } from "../base/catalog.ts";
import { formatDuration } from "../base/formatDuration.ts";
import { declareError, HoldfastError } from "../base/holdfastError.ts";
import { callName, unitName } from "../base/text.ts";
import { sides } from "./difference.ts";

export class NondeterminismError extends HoldfastError {
  static {
    declareError(this, "NondeterminismError");
  }
  readonly location: string;
  /** What differs: "kind", "name", "input", "retry" … */
  readonly field: string;
  /** What history holds; undefined where it holds nothing. */
  readonly expected: unknown;
  /** What the code did; undefined where it did nothing. */
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

export class IllegalCallError extends HoldfastError {
  static {
    declareError(this, "IllegalCallError");
  }
  readonly call: string;
  readonly unit: string;
  readonly reason: string;
  constructor(details: { call: string; unit: string; reason: string }) {
    const { call, unit, reason } = details;
    super(advise("IllegalCallError", `${callName(call)} can't be called in ${unitName(unit)}: ${reason}`));
    this.call = call;
    this.unit = unit;
    this.reason = reason;
  }
}

export class IllegalReturnError extends HoldfastError {
  static {
    declareError(this, "IllegalReturnError");
  }
  constructor(message: string) {
    super(message);
  }
}

export class OutOfTurnError extends HoldfastError {
  static {
    declareError(this, "OutOfTurnError");
  }
  readonly unit: string;
  readonly call: string;
  readonly pausedOn: string | undefined;
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

export class ForeignAwaitError extends HoldfastError {
  static {
    declareError(this, "ForeignAwaitError");
  }
  readonly unit: string;
  /** The last operation before it, where to start looking. */
  readonly call: string | undefined;
  constructor(details: { unit: string; call?: string }) {
    const { unit, call } = details;
    const after = call === undefined ? "" : `, after ${callName(call)}`;
    super(advise("ForeignAwaitError", `${unitName(unit)} awaits something that is not an operation${after}: wrap it in ctx.step`));
    this.unit = unit;
    this.call = call;
  }
}

export class TurnTimeoutError extends HoldfastError {
  static {
    declareError(this, "TurnTimeoutError");
  }
  /** In milliseconds, as is `limit`. */
  readonly elapsed: number;
  readonly limit: number;
  readonly location: string;
  constructor(details: { elapsed: number; limit: number; location: string }) {
    const { elapsed, limit, location } = details;
    const where = location === "" ? "the root" : location;
    super(
      advise("TurnTimeoutError", `a turn took ${formatDuration(elapsed)} at ${where}, more than the ${formatDuration(limit)} it may take`),
    );
    this.elapsed = elapsed;
    this.limit = limit;
    this.location = location;
  }
}
