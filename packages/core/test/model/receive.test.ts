// Job: prove what `Receive` builds and how results are recognised.
// Owns: the constructors and isReceiveResult; dispatching them is proved with the executor.
// Invariants: R4, A5.
import { describe, expect, expectTypeOf, it } from "vitest";
import type { Async, AsyncHandlerContext, NoReply, Reply, SignalResult, Stop, StopWith, UpdateResult } from "../../src/model/index.ts";
import { isReceiveResult, Loop, Receive } from "../../src/model/index.ts";

describe("Receive", () => {
  it("R4 noreply carries the next state", () => {
    const result = Receive.noreply({ count: 1 });
    expect(result).toEqual({ result: "noreply", state: { count: 1 } });
    expectTypeOf(result).toEqualTypeOf<NoReply<{ count: number }>>();
  });

  it("R4 reply carries the answer and the next state", () => {
    const result = Receive.reply("done", 2);
    expect(result).toEqual({ result: "reply", value: "done", state: 2 });
    expectTypeOf(result).toEqualTypeOf<Reply<number, string>>();
  });

  it("R4 stop with one argument ends the receive for a signal", () => {
    const result = Receive.stop(7);
    expect(result).toEqual({ result: "stop", state: 7 });
    expectTypeOf(result).toEqualTypeOf<Stop<number>>();
  });

  it("R4 stop with two arguments ends the receive and answers an update", () => {
    const result = Receive.stop("bye", 7);
    expect(result).toEqual({ result: "stopWith", value: "bye", state: 7 });
    expectTypeOf(result).toEqualTypeOf<StopWith<number, string>>();
  });

  it("R4 stop counts its arguments: an answer of undefined is an answer, a state of undefined is a state", () => {
    expect(Receive.stop(undefined, 7)).toStrictEqual({ result: "stopWith", value: undefined, state: 7 });
    expect(Receive.stop("bye", undefined)).toStrictEqual({ result: "stopWith", value: "bye", state: undefined });
    expect(Receive.stop(undefined)).toStrictEqual({ result: "stop", state: undefined });
  });

  it("R4 async carries the function, not yet called, and the next state", () => {
    let called = false;
    const fn = async (_ctx: AsyncHandlerContext<number>) => {
      called = true;
      return "late";
    };
    const state: number = 3;
    const result = Receive.async(fn, state);
    expect(result).toEqual({ result: "async", fn, state: 3 });
    expect(called).toBe(false);
    expectTypeOf(result).toEqualTypeOf<Async<number, string>>();
  });

  it("R4 its functions work without their object", () => {
    const { stop, noreply } = Receive;
    expect(stop("bye", 1)).toEqual(Receive.stop("bye", 1));
    expect(noreply(1)).toEqual(Receive.noreply(1));
  });

  it("R4 signals are not replied to, updates are, at compile time", () => {
    expectTypeOf<NoReply<number> | Stop<number> | Async<number, unknown>>().toEqualTypeOf<SignalResult<number>>();
    expectTypeOf<Reply<number, string> | StopWith<number, string> | Async<number, string>>().toEqualTypeOf<UpdateResult<number, string>>();
    expectTypeOf<Reply<number, string>>().not.toExtend<SignalResult<number>>();
    expectTypeOf<StopWith<number, string>>().not.toExtend<SignalResult<number>>();
    expectTypeOf<NoReply<number>>().not.toExtend<UpdateResult<number, string>>();
    expectTypeOf<Stop<number>>().not.toExtend<UpdateResult<number, string>>();
  });
});

describe("isReceiveResult", () => {
  const fn = async () => {};

  it.each([
    ["noreply", Receive.noreply(undefined)],
    ["reply", Receive.reply(undefined, undefined)],
    ["stop", Receive.stop(undefined)],
    ["stop with a value", Receive.stop(undefined, undefined)],
    ["async", Receive.async(fn, undefined)],
  ])("R4 knows %s, whatever the state and value", (_, result) => {
    expect(isReceiveResult(result)).toBe(true);
  });

  it("R4 knows a result that was built by hand", () => {
    expect(isReceiveResult({ result: "reply", value: 1, state: 2 })).toBe(true);
  });

  it.each([
    ["nothing", undefined],
    ["null", null],
    ["a bare state", { count: 1 }],
    ["a string", "noreply"],
    ["the constructor uncalled", Receive.noreply],
    ["another result", { result: "ok", state: 1 }],
    ["a result without a state", { result: "noreply" }],
    ["a reply without a value", { result: "reply", state: 1 }],
    ["a stopWith without a value", { result: "stopWith", state: 1 }],
    ["an async without a function", { result: "async", state: 1 }],
    ["an async whose function is a promise", { result: "async", fn: fn(), state: 1 }],
    ["a promise of a result", Promise.resolve(Receive.noreply(1))],
    ["a loop's result", Loop.continue(1)],
  ])("R4 refuses %s", (_, x) => {
    expect(isReceiveResult(x)).toBe(false);
  });
});
