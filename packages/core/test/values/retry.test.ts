// Job: prove when and whether something is tried again.
// Owns: resolveRetry, validateRetry, retryDelay, isRetryable.
// Invariants: D8.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ActivityFailedError,
  ChildFailedError,
  FatalError,
  IllegalReturnError,
  InvalidInputError,
  LimitExceededError,
  RetryLaterError,
  RollbackError,
  RunFailedError,
  reviveError,
  StepFailedError,
  serializeError,
  UnserializableValueError,
} from "../../src/errors/index.ts";
import { askedWait, isRetryable, type RetryPolicy, resolveRetry, retryDelay, validateRetry } from "../../src/values/index.ts";

describe("resolveRetry", () => {
  it("fills in the defaults: 10 attempts for operations, 1 for runs", () => {
    const waits = { initialInterval: 1_000, backoff: 2, maxInterval: 100_000, jitter: 0.2 };
    expect(resolveRetry(undefined, "operation")).toStrictEqual({ maxAttempts: 10, ...waits });
    expect(resolveRetry(undefined, "run")).toStrictEqual({ maxAttempts: 1, ...waits });
    expect(resolveRetry({}, "run")).toStrictEqual({ maxAttempts: 1, ...waits });
  });

  it("Y5 without end is a number that JSON can hold", () => {
    const { maxAttempts } = resolveRetry({ maxAttempts: Number.POSITIVE_INFINITY }, "operation");
    expect(JSON.parse(JSON.stringify(maxAttempts))).toBe(Number.MAX_SAFE_INTEGER);
  });

  it("takes what the policy says, durations as milliseconds", () => {
    const policy = {
      maxAttempts: 7,
      initialInterval: "250ms",
      backoff: 1,
      maxInterval: "1h30m",
      jitter: 0,
    } as const;
    expect(resolveRetry(policy, "operation")).toStrictEqual({ ...policy, initialInterval: 250, maxInterval: 5_400_000 });
  });

  it("D8 the longest wait is 100 times the first, unless the policy says another", () => {
    for (const kind of ["operation", "run"] as const) {
      expect(resolveRetry({ initialInterval: "5m" }, kind).maxInterval).toBe(100 * 300_000);
      expect(resolveRetry({ initialInterval: "1d" }, kind).maxInterval).toBe(100 * 86_400_000);
      expect(resolveRetry({ initialInterval: 10 }, kind).maxInterval).toBe(1_000);
      expect(resolveRetry({ initialInterval: "1d", maxInterval: "2d" }, kind).maxInterval).toBe(2 * 86_400_000);
      expect(resolveRetry({ backoff: 3 }, kind).maxInterval).toBe(100_000);
      expect(resolveRetry(undefined, kind).maxInterval).toBe(100_000);
    }
  });
});

describe("validateRetry", () => {
  it.each([
    ["maxAttempts", 0],
    ["maxAttempts", -1],
    ["maxAttempts", 1.5],
    ["maxAttempts", Number.NaN],
    ["maxAttempts", Number.NEGATIVE_INFINITY],
    ["maxAttempts", "3"],
    ["backoff", 0.5],
    ["backoff", Number.NaN],
    ["backoff", Number.POSITIVE_INFINITY],
    ["backoff", "2"],
    ["jitter", -0.1],
    ["jitter", 1.1],
    ["jitter", Number.NaN],
    ["initialInterval", "soon"],
    ["initialInterval", -1],
    ["maxInterval", "1 hour"],
    ["nonRetryable", "CardDeclined"],
    ["nonRetryable", [CardDeclinedStub]],
  ])("refuses %s: %j, and names the key", (key, value) => {
    expect(() => validateRetry({ [key]: value })).toThrow(InvalidInputError);
    expect(() => validateRetry({ [key]: value })).toThrow(new RegExp(`invalid retry policy: ${key}: `));
    expect(() => resolveRetry({ [key]: value } as RetryPolicy, "operation")).toThrow(InvalidInputError);
  });

  it("lists everything that is wrong at once", () => {
    expect(() => validateRetry({ maxAttempts: 0, jitter: 2, maxInterval: "x" })).toThrow(/maxAttempts: .*; jitter: .*; maxInterval: /);
  });

  it("refuses a cap below the first wait", () => {
    expect(() => validateRetry({ initialInterval: "1m", maxInterval: "1s" })).toThrow(/maxInterval: must be at least initialInterval/);
  });

  it.each([[null], [3], ["x"]])("refuses %j, which is not a policy", (policy) => {
    expect(() => validateRetry(policy)).toThrow(InvalidInputError);
  });

  it("takes a sensible policy", () => {
    validateRetry({ maxAttempts: 1, backoff: 1, jitter: 1, initialInterval: 0, maxInterval: "2w", nonRetryable: ["A"] });
    validateRetry({ maxAttempts: Number.POSITIVE_INFINITY, nonRetryable: () => true });
  });
});

class CardDeclinedStub extends Error {}

describe("retryDelay", () => {
  const retry = resolveRetry({ initialInterval: 100, backoff: 3, maxInterval: 1_000, jitter: 0 }, "operation");

  it("D8 grows by the factor from one wait to the next, up to the cap", () => {
    expect([1, 2, 3, 4, 400, 1e9].map((attempt) => retryDelay(retry, attempt, 0.5))).toStrictEqual([100, 300, 900, 1_000, 1_000, 1_000]);
  });

  it("D8 of each wait the share `jitter` is random", () => {
    const jittered = { ...retry, jitter: 0.4 };
    expect(retryDelay(jittered, 1, 0)).toBe(60);
    expect(retryDelay(jittered, 1, 0.5)).toBe(80);
    expect(retryDelay(jittered, 1, 1 - Number.EPSILON)).toBe(100);
    expect(retryDelay({ ...retry, jitter: 1 }, 1, 0)).toBe(0);
  });

  it("D8 never exceeds the cap, and is a whole number of milliseconds", () => {
    const policies = fc.record({
      initialInterval: fc.nat(1e7),
      backoff: fc.double({ min: 1, max: 100, noNaN: true }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(
        policies,
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (policy, n, r) => {
          const resolved = resolveRetry(policy, "operation");
          const delay = retryDelay(resolved, n, r);
          expect(Number.isSafeInteger(delay)).toBe(true);
          expect(delay).toBeGreaterThanOrEqual(0);
          expect(delay).toBeLessThanOrEqual(resolved.maxInterval);
        },
      ),
    );
  });
});

describe("isRetryable", () => {
  class CardDeclined extends Error {}
  class Fraud extends FatalError {}

  it.each([
    ["an Error", new Error("x")],
    ["an error of a user's class", new CardDeclined("x")],
    ["a string", "x"],
    ["undefined", undefined],
    ["an InvalidInputError", new InvalidInputError({ what: "x", issues: [] })],
  ])("D8 %s is tried again", (_what, error) => {
    expect(isRetryable(error, undefined)).toBe(true);
    expect(isRetryable(error, { nonRetryable: ["Other"] })).toBe(true);
  });

  const never = [
    new FatalError("x"),
    new Fraud("x"),
    new RollbackError("x"),
    new UnserializableValueError({ path: "value", type: "function" }),
    new IllegalReturnError("x"),
    new LimitExceededError({ limit: "payloadBytes", actual: 2, max: 1 }),
  ];
  it.each(never.map((error) => [error.name, error] as const))(
    "D8 %s is never tried again, nor what wraps it, nor what is revived from it",
    (_name, error) => {
      expect(isRetryable(error, undefined)).toBe(false);
      expect(isRetryable(new StepFailedError({ step: "s", attempts: 1, cause: error }), {})).toBe(false);
      expect(isRetryable(reviveError(serializeError(error)), undefined)).toBe(false);
    },
  );

  it("D8 a RetryLaterError says how long to wait, also through what wraps it, and when it comes from another process", () => {
    const error = new RetryLaterError("429", { after: "1m30s", cause: new Error("x") });
    expect(error).toMatchObject({ name: "RetryLaterError", code: "HF_RETRY_LATER", message: "429", after: 90_000, retryable: true });
    expect(isRetryable(error, undefined)).toBe(true);
    expect(isRetryable(error, { nonRetryable: ["RetryLaterError"] })).toBe(false);
    const wrapped = new ActivityFailedError({ activity: "a", attempts: 1, cause: error });
    for (const one of [error, wrapped, reviveError(serializeError(error)), reviveError(serializeError(wrapped))])
      expect(askedWait(one)).toBe(90_000);
    for (const one of [new Error("x", { cause: error }), new FatalError("x", { cause: error }), undefined, null, 5, { after: 5 }])
      expect(askedWait(one)).toBeUndefined();
    for (const after of [Number.NaN, -1, "soon", undefined] as never[])
      expect(() => new RetryLaterError("x", { after })).toThrow(InvalidInputError);
  });

  it("D8 a function that throws has named nothing", () => {
    const nonRetryable = () => {
      throw new Error("of the policy");
    };
    expect(isRetryable(new Error("x"), { nonRetryable })).toBe(true);
    expect(isRetryable(new FatalError("x"), { nonRetryable })).toBe(false);
  });

  it("D8 a class name in nonRetryable matches `name`, and the class where `name` was not set", () => {
    const policy = { nonRetryable: ["CardDeclined"] };
    expect(isRetryable(new CardDeclined("x"), policy)).toBe(false);
    expect(isRetryable(Object.assign(new Error("x"), { name: "CardDeclined" }), policy)).toBe(false);
    expect(isRetryable(reviveError(serializeError(new CardDeclined("x"))), policy)).toBe(false);
    expect(isRetryable(new Error("CardDeclined"), policy)).toBe(true);
  });

  it("D8 names are looked for down the causes of Holdfast's wrappers, and of nothing else", () => {
    const policy = { nonRetryable: ["CardDeclined"] };
    const cause = new CardDeclined("x");
    const step = new StepFailedError({ step: "s", attempts: 3, cause });
    const child = new ChildFailedError({ childId: "c", cause: new ActivityFailedError({ activity: "a", attempts: 1, cause: step }) });
    expect(isRetryable(step, policy)).toBe(false);
    expect(isRetryable(child, policy)).toBe(false);
    expect(isRetryable(new Error("x", { cause }), policy)).toBe(true);
    expect(isRetryable(new RunFailedError({ runId: "r", cause }), policy)).toBe(true);
  });

  it("D8 a test decides by the error, and sees what was thrown as an Error", () => {
    const seen: Error[] = [];
    const nonRetryable = (error: Error): boolean => {
      seen.push(error);
      return "status" in error && error.status === 404;
    };
    expect(isRetryable(Object.assign(new Error("x"), { status: 404 }), { nonRetryable })).toBe(false);
    expect(isRetryable(Object.assign(new Error("x"), { status: 500 }), { nonRetryable })).toBe(true);
    expect(isRetryable("text", { nonRetryable })).toBe(true);
    expect(seen.every((error) => error instanceof Error)).toBe(true);
  });

  it("D8 a chain of causes that turns back on itself ends", () => {
    const a = new StepFailedError({ step: "a", attempts: 1 });
    a.cause = new StepFailedError({ step: "b", attempts: 1, cause: a });
    expect(isRetryable(a, { nonRetryable: ["X"] })).toBe(true);
  });
});
