// Job: prove what `Loop` builds and how results are recognised.
// Owns: the constructors and isLoopResult; iterating is proved with the executor.
// Invariants: L1.
import { describe, expect, expectTypeOf, it } from "vitest";
import type { LoopBreak, LoopContinue } from "../../src/model/index.ts";
import { isLoopResult, Loop, Receive } from "../../src/model/index.ts";

describe("Loop", () => {
  it("L1 continue carries the next state", () => {
    const result = Loop.continue({ cursor: 1 });
    expect(result).toStrictEqual({ loop: "continue", state: { cursor: 1 } });
    expectTypeOf(result).toEqualTypeOf<LoopContinue<{ cursor: number }>>();
  });

  it("L1 break carries the loop's value", () => {
    const result = Loop.break("done");
    expect(result).toStrictEqual({ loop: "break", value: "done" });
    expectTypeOf(result).toEqualTypeOf<LoopBreak<string>>();
  });

  it("L1 a loop without state goes on with nothing and ends with nothing", () => {
    expect(Loop.continue()).toStrictEqual({ loop: "continue", state: undefined });
    expect(Loop.break()).toStrictEqual({ loop: "break", value: undefined });
    expectTypeOf(Loop.continue()).toEqualTypeOf<LoopContinue<void>>();
    expectTypeOf(Loop.break()).toEqualTypeOf<LoopBreak<void>>();
  });
});

describe("isLoopResult", () => {
  it.each([
    ["continue", Loop.continue(1)],
    ["continue without a state", Loop.continue()],
    ["break", Loop.break(1)],
    ["break without a value", Loop.break()],
    ["one built by hand", { loop: "break", value: 1 }],
  ])("L1 knows %s", (_, result) => {
    expect(isLoopResult(result)).toBe(true);
  });

  it.each([
    ["nothing", undefined],
    ["null", null],
    ["a bare state", { cursor: 1 }],
    ["a string", "continue"],
    ["the constructor uncalled", Loop.break],
    ["another result", { loop: "stop", value: 1 }],
    ["a continue without a state", { loop: "continue" }],
    ["a break without a value", { loop: "break" }],
    ["a receive's result", Receive.noreply(1)],
  ])("L1 refuses %s", (_, x) => {
    expect(isLoopResult(x)).toBe(false);
  });
});
