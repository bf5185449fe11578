// Errors for values that Holdfast can't accept: not storable, not valid, or too large.
// Owns the fields and wording of these classes; code, retryable and advice come from the catalog.
// Invariants: P8 (the path inside the value is named), P9 (the limit is named), M1 (InvalidInputError carries the schema's issues).

import { advise } from "./catalog.ts";
import { declareError, HoldfastError } from "./holdfastError.ts";

/** One thing that is wrong with a value. */
export interface Issue {
  /** What is wrong, in words. */
  readonly message: string;
  /** Where in the value it is. */
  readonly path?: readonly PropertyKey[];
}

/**
 * A value can't be stored: it contains a function, a socket or the like, or the codec can't encode it.
 * @example
 * ```ts
 * const order = workflow("order", (ctx) => ctx.step("connect", () => ({ close: () => {} })));
 * const engine = await testEngine({ workflows: [order] });
 * const error = await (await engine.start(order)).result().catch((error) => error);
 * console.log(error.cause.cause.path); // "value.close"
 * await engine.close();
 * ```
 */
export class UnserializableValueError extends HoldfastError {
  static {
    declareError(this, "UnserializableValueError");
  }
  /** The place inside the value: `value.items[3].socket`. */
  readonly path: string;
  /** The type of what was found there: "function", "Promise", "Socket" … */
  readonly type: string;
  readonly #reason: string;
  /** `what`: which value it is, in words: "the output of the workflow". */
  constructor(details: { path: string; type: string; what?: string; reason?: string; cause?: unknown }) {
    const { path, type, what, cause } = details;
    const forgotten = type === "Promise" ? " (is an await missing?)" : "";
    const reason = details.reason ?? `it is ${withArticle(type)}${forgotten}`;
    const place = what === undefined ? path : path === "value" ? what : `${path} in ${what}`;
    super(advise("UnserializableValueError", `${place} can't be stored: ${reason}`), { cause });
    this.path = path;
    this.type = type;
    this.#reason = reason;
  }
  /**
   * The same error, naming the value. A codec does not know which value it encodes.
   * @internal
   */
  of(what: string): UnserializableValueError {
    const { path, type, cause } = this;
    return new UnserializableValueError({ path, type, what, reason: this.#reason, cause });
  }
}

/**
 * An argument, option or payload is invalid, or a stored value can't be decoded. Nothing was written.
 * @example
 * ```ts
 * const engine = await Holdfast.open("memory:");
 * const error = await engine.start("order", undefined, { delay: "soon" as never }).catch((error) => error);
 * console.log(error instanceof InvalidInputError && error.issues.length); // 1
 * await engine.close();
 * ```
 */
export class InvalidInputError extends HoldfastError {
  static {
    declareError(this, "InvalidInputError");
  }
  /** What is wrong, one entry per problem. */
  readonly issues: readonly Issue[];
  constructor(details: { what: string; issues: readonly Issue[]; cause?: unknown }) {
    const { what, issues, cause } = details;
    super(advise("InvalidInputError", `invalid ${what.replace(/^the /, "")}: ${issues.map(describeIssue).join("; ")}`), { cause });
    this.issues = issues;
  }
}

/**
 * A payload, a history or another bounded size exceeds its limit.
 * @example
 * ```ts
 * const order = workflow("order", async (_, text: string) => text.length);
 * const engine = await Holdfast.open("memory:", { limits: { payloadBytes: 1_000 } });
 * const error = await engine.start(order, "x".repeat(2_000)).catch((error) => error);
 * console.log(error instanceof LimitExceededError && error.limit); // "payloadBytes"
 * await engine.close();
 * ```
 */
export class LimitExceededError extends HoldfastError {
  static {
    declareError(this, "LimitExceededError");
  }
  /** The name of the limit, as in `limits`. */
  readonly limit: string;
  /** The size found. A lower bound where measuring stopped early. */
  readonly actual: number;
  /** The most that the limit allows. */
  readonly max: number;
  /** What is too large, in words. */
  readonly what: string | undefined;
  constructor(details: { limit: string; actual: number; isMore?: boolean; max: number; what?: string }) {
    const { limit, actual, isMore, max, what } = details;
    const who = what === undefined ? "" : `${what} is over the limit: `;
    super(advise("LimitExceededError", `${who}${limit} allows ${max}, and this is ${isMore === true ? "more than " : ""}${actual}`));
    this.limit = limit;
    this.actual = actual;
    this.max = max;
    this.what = what;
  }
}

function describeIssue(issue: Issue): string {
  const at = issue.path === undefined || issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `;
  return `${at}${issue.message}`;
}

function withArticle(noun: string): string {
  if (/^(?:an?|the|nested|too) /.test(noun)) return noun;
  return `${/^[aeiou]/i.test(noun) ? "an" : "a"} ${noun}`;
}
