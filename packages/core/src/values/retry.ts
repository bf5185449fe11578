// Retry policies: how often, after which delay, and for which errors an operation or a run is retried.
// Owns the policy types, their defaults, and the two decisions of a retry: whether, and when.
// Invariants: D8 (exponential backoff, jitter, a cap; FatalError, RollbackError and errors that `nonRetryable` names are never retried;
// RetryLaterError sets the delay); reads no clock, and gets its random number from the caller.

import type { ErrorName } from "../base/catalog.ts";
import { isError, kindOfError, toError } from "../base/errorParts.ts";
import { InvalidInputError, type Issue } from "../base/inputs.ts";
import { isInstance, preview, read } from "../base/text.ts";
import { type Duration, parseDuration } from "./duration.ts";
import { checkOptionNames, type OptionNames } from "./options.ts";

/**
 * How often, when and for which errors something is tried again.
 * @example
 * ```ts
 * const retry: RetryPolicy = { maxAttempts: 5, initialInterval: "2s", nonRetryable: ["TypeError"] };
 * const order = workflow("order", (ctx) =>
 *   ctx.step(
 *     "charge",
 *     (info) => {
 *       if (info.attempt < 3) throw new Error("no network");
 *       return info.attempt;
 *     },
 *     { retry },
 *   ),
 * );
 * const engine = await testEngine({ workflows: [order] }); // skips the waits
 * console.log(await (await engine.start(order)).result()); // 3
 * await engine.close();
 * ```
 */
export interface RetryPolicy {
  /**
   * Total attempts, including the first. `Infinity` is allowed.
   * @defaultValue 10 for steps and activities, 1 for runs
   */
  maxAttempts?: number;
  /**
   * Delay before the second attempt.
   * @defaultValue `"1s"`
   */
  initialInterval?: Duration;
  /**
   * Factor by which each delay is longer than the one before.
   * @defaultValue `2`
   */
  backoff?: number;
  /**
   * The longest delay.
   * @defaultValue 100 times `initialInterval`
   */
  maxInterval?: Duration;
  /**
   * The share of each delay that is random, from 0 to 1.
   * @defaultValue `0.2`
   */
  jitter?: number;
  /**
   * Errors that are never retried: a list of class names, or a synchronous predicate. `FatalError` and `RollbackError` are never retried
   * anyway.
   * @defaultValue none
   */
  nonRetryable?: readonly string[] | ((error: Error) => boolean);
}

/** A retry policy as it is stored with a run: `nonRetryable` can only be a list of names. */
export type StoredRetryPolicy = Omit<RetryPolicy, "nonRetryable"> & {
  /**
   * Class names of errors that are never retried.
   * @defaultValue none
   */
  nonRetryable?: readonly string[];
};

/** A policy with its defaults filled in; intervals in milliseconds. */
export interface ResolvedRetry {
  /** Total attempts, including the first. */
  readonly maxAttempts: number;
  /** Delay before the second attempt, in milliseconds. */
  readonly initialInterval: number;
  /** Factor by which each delay is longer than the one before. */
  readonly backoff: number;
  /** The longest delay, in milliseconds. */
  readonly maxInterval: number;
  /** The share of each delay that is random, from 0 to 1. */
  readonly jitter: number;
}

/** Steps and activities are operations. */
export type RetriedKind = "operation" | "run";

/** The default of `maxInterval`, as a multiple of `initialInterval`. */
const LONGEST_OVER_FIRST = 100;

const operationDefaults: ResolvedRetry = Object.freeze({
  maxAttempts: 10,
  initialInterval: 1_000,
  backoff: 2,
  maxInterval: 1_000 * LONGEST_OVER_FIRST,
  jitter: 0.2,
});

/** The defaults for steps and activities ("operation"), and for runs. */
export const retryDefaults: Readonly<Record<RetriedKind, ResolvedRetry>> = Object.freeze({
  operation: operationDefaults,
  run: Object.freeze({ ...operationDefaults, maxAttempts: 1 }),
});

/** Replaces Infinity by a number that JSON can represent and that no run reaches. */
export function countable(maxAttempts: number): number {
  return Math.min(maxAttempts, Number.MAX_SAFE_INTEGER);
}

const POLICY: OptionNames<RetryPolicy> = {
  maxAttempts: true,
  initialInterval: true,
  backoff: true,
  maxInterval: true,
  jitter: true,
  nonRetryable: true,
};

/**
 * Fills in the defaults.
 * @throws `InvalidInputError` if the policy is invalid.
 */
export function resolveRetry(policy: RetryPolicy | undefined, kind: RetriedKind): ResolvedRetry {
  const defaults = retryDefaults[kind];
  if (policy === undefined) return defaults;
  validateRetry(policy);
  const initialInterval = policy.initialInterval === undefined ? defaults.initialInterval : parseDuration(policy.initialInterval);
  return {
    maxAttempts: policy.maxAttempts === undefined ? defaults.maxAttempts : countable(policy.maxAttempts),
    initialInterval,
    backoff: policy.backoff ?? defaults.backoff,
    maxInterval: policy.maxInterval === undefined ? initialInterval * LONGEST_OVER_FIRST : parseDuration(policy.maxInterval),
    jitter: policy.jitter ?? defaults.jitter,
  };
}

/**
 * Checks a policy.
 * @throws `InvalidInputError` if it is invalid.
 */
export function validateRetry(policy: unknown): asserts policy is RetryPolicy {
  if (policy === null || typeof policy !== "object") {
    throw new InvalidInputError({ what: "retry policy", issues: [{ message: `must be an object, not ${preview(policy)}` }] });
  }
  checkOptionNames("retry policy", policy, POLICY);
  const { maxAttempts, initialInterval, backoff, maxInterval, jitter, nonRetryable } = policy as Unchecked<RetryPolicy>;
  const issues: Issue[] = [];
  const refuse = (key: keyof RetryPolicy, must: string, value: unknown): void => {
    issues.push({ path: [key], message: `must be ${must}, not ${preview(value)}` });
  };

  if (
    maxAttempts !== undefined &&
    maxAttempts !== Number.POSITIVE_INFINITY &&
    !(Number.isInteger(maxAttempts) && inRange(maxAttempts, 1))
  ) {
    refuse("maxAttempts", "a whole number of at least 1, or Infinity", maxAttempts);
  }
  if (backoff !== undefined && !inRange(backoff, 1)) refuse("backoff", "a number of at least 1", backoff);
  if (jitter !== undefined && !inRange(jitter, 0, 1)) refuse("jitter", "a number from 0 to 1", jitter);
  if (nonRetryable !== undefined && typeof nonRetryable !== "function" && !isListOfNames(nonRetryable)) {
    refuse("nonRetryable", "a list of class names or a function", nonRetryable);
  }
  const first = readInterval("initialInterval", initialInterval, issues);
  const longest = readInterval("maxInterval", maxInterval, issues);
  if (first !== undefined && longest !== undefined && longest < first) {
    refuse("maxInterval", `at least initialInterval (${preview(initialInterval)})`, maxInterval);
  }
  if (issues.length > 0) throw new InvalidInputError({ what: "retry policy", issues });
}

type Unchecked<T> = { readonly [K in keyof T]?: unknown };

function readInterval(key: keyof RetryPolicy, interval: unknown, issues: Issue[]): number | undefined {
  if (interval === undefined) return undefined;
  try {
    return parseDuration(interval);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    issues.push(...error.issues.map((issue) => ({ path: [key], message: issue.message })));
    return undefined;
  }
}

function inRange(value: unknown, min: number, max: number = Number.MAX_VALUE): boolean {
  return typeof value === "number" && value >= min && value <= max;
}

function isListOfNames(value: unknown): boolean {
  return Array.isArray(value) && value.every((name) => typeof name === "string");
}

/**
 * The delay after a failed attempt (counted from 1), in whole milliseconds: initialInterval × backoff^(attempt - 1), capped at
 * maxInterval. The share `jitter` of it is random, so the delay lies between (1 - jitter) times that value and that value.
 */
export function retryDelay(retry: ResolvedRetry, attempt: number, random: number): number {
  // After thousands of attempts the power is Infinity, and 0 × Infinity is NaN.
  const growth = Math.min(retry.backoff ** (attempt - 1), Number.MAX_VALUE);
  const wait = Math.min(retry.initialInterval * growth, retry.maxInterval);
  return Math.round(wait * (1 - retry.jitter + retry.jitter * random));
}

/**
 * The delay that a RetryLaterError asks for, in milliseconds, also if the error is wrapped in the failure of an operation. `maxInterval`
 * does not cap it. Undefined: the policy decides.
 */
export function askedWait(error: unknown): number | undefined {
  const seen = new Set<unknown>();
  for (let at = error; !seen.has(at); at = read(at, "cause")) {
    seen.add(at);
    const kind = kindOfError(at);
    if (kind === "RetryLaterError") {
      const after = read(at, "after");
      return typeof after === "number" && after >= 0 ? after : undefined;
    }
    if (!wrappers.has(kind)) return undefined;
  }
  return undefined;
}

const neverRetried: ReadonlySet<ErrorName | undefined> = new Set([
  "FatalError",
  "RollbackError",
  "UnserializableValueError",
  "IllegalReturnError",
  "IllegalCallError", // a step body used ctx: the run is blocked (X7), and its ctx rejects every further call
  "OutOfTurnError",
  "LimitExceededError",
]);
const wrappers: ReadonlySet<ErrorName | undefined> = new Set(["StepFailedError", "ActivityFailedError", "ChildFailedError"]);

/** Whether the error may be retried. An error that wraps the failure of an operation is judged by its cause as well. */
export function isRetryable(error: unknown, policy: RetryPolicy | undefined): boolean {
  const seen = new Set<unknown>();
  for (let at = error; !seen.has(at); ) {
    seen.add(at);
    const kind = kindOfError(at);
    if (neverRetried.has(kind) || isNamed(at, policy?.nonRetryable)) return false;
    if (!wrappers.has(kind)) return true;
    at = read(at, "cause");
  }
  return true;
}

function isNamed(error: unknown, nonRetryable: RetryPolicy["nonRetryable"]): boolean {
  if (nonRetryable === undefined) return false;
  if (typeof nonRetryable === "function") return isNamedBy(nonRetryable, toError(error));
  // Compares the class name, whether or not the class sets `name`.
  if (!isError(error)) return false;
  const names = [read(error, "name"), read(read(error, "constructor"), "name")];
  return names.some((name) => typeof name === "string" && nonRetryable.includes(name));
}

/**
 * A predicate that throws counts as false: one more attempt does less harm than an error that no caller sees. So does one that returns a
 * promise; its rejection is caught here so that it can't end the process (X11).
 */
function isNamedBy(names: (error: Error) => boolean, error: Error): boolean {
  try {
    const answer: unknown = names(error);
    if (!isInstance(answer, Promise)) return Boolean(answer);
    answer.catch(() => {});
    return false;
  } catch {
    return false;
  }
}
