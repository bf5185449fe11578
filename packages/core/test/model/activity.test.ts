// Job: prove what activity() accepts, refuses and makes.
// Owns: the definition; running activities is proved with the hosts.
// Invariants: D11.
import { describe, expect, expectTypeOf, it } from "vitest";
import type { Activity, ActivityInfo, ActivityOptions } from "../../src/model/index.ts";
import { activity } from "../../src/model/index.ts";
import { issuesOf } from "./issuesOf.ts";

const info: ActivityInfo = {
  attempt: 1,
  idempotencyKey: "k",
  signal: new AbortController().signal,
  heartbeat() {},
  lastHeartbeat: undefined,
};

describe("activity", () => {
  it("D11 keeps its name and options, and none are needed", () => {
    const charge = activity("payment.charge", async (cents: number) => cents, {
      queue: "payments",
      startToClose: "30s",
      retry: { maxAttempts: 3 },
    });
    expect(charge.name).toBe("payment.charge");
    expect(charge.options).toEqual({ queue: "payments", startToClose: "30s", retry: { maxAttempts: 3 } });
    expect(activity("noop", () => {}).options).toEqual({});
  });

  it("D11 a synchronous function becomes one that promises", async () => {
    const double = activity("double", (n: number) => n * 2);
    await expect(double.run(21, info)).resolves.toBe(42);
  });

  it("D11 a synchronous throw becomes a rejection", async () => {
    const broken = activity("broken", () => {
      throw new Error("no");
    });
    await expect(broken.run(undefined, info)).rejects.toThrow("no");
  });

  it("D11 a definition is frozen and keeps its distance from the caller's objects", () => {
    const options: ActivityOptions = { queue: "a", retry: { maxAttempts: 3 } };
    const defined = activity("defined", () => {}, options);
    options.queue = "b";
    if (options.retry) options.retry.maxAttempts = 99;
    expect(defined.options).toEqual({ queue: "a", retry: { maxAttempts: 3 } });
    expect([defined, defined.options, defined.options.retry].every(Object.isFrozen)).toBe(true);
    expect(Object.isFrozen(options)).toBe(false);
  });

  it.each<[string, ActivityOptions, RegExp]>([
    ["an empty queue", { queue: "" }, /^queue: must not be empty$/],
    ["a retry that makes no attempt", { retry: { maxAttempts: 0 } }, /^retry\.maxAttempts: must be a whole number of at least 1/],
    // @ts-expect-error not a duration
    ["a malformed startToClose", { startToClose: "soon" }, /^startToClose: .* is not a duration/],
    ["a negative scheduleToClose", { scheduleToClose: -1 }, /^scheduleToClose: .* is not a duration/],
    ["a scheduleToStart of nothing", { scheduleToStart: 0 }, /^scheduleToStart: must be longer than 0/],
    ["a heartbeat that is not a number", { heartbeat: Number.NaN }, /^heartbeat: .* is not a duration/],
  ])("D11 refuses %s", (_, options, message) => {
    expect(issuesOf(() => activity("refused", () => {}, options))).toEqual([expect.stringMatching(message)]);
  });

  it("D11 refuses a bad name, a missing function and options that are none, all in one error that says which activity", () => {
    // @ts-expect-error no function, no options
    expect(issuesOf(() => activity("", undefined, "fast"))).toEqual([
      "name: must not be empty",
      "run: must be a function, not undefined",
      'options: must be an object, not "fast"',
    ]);
    // @ts-expect-error no function
    expect(() => activity("payment.charge")).toThrow(/activity "payment.charge"/);
  });

  it("D11 arguments and result are those of the function, at compile time", () => {
    expectTypeOf(activity("price", async (sku: string) => sku.length)).toEqualTypeOf<Activity<string, number>>();
    expectTypeOf(activity("noop", () => {})).toEqualTypeOf<Activity<void, void>>();
  });
});
