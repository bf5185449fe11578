import { afterEach, describe, expect, it, vi } from "vitest";
import { WaitPromise } from "../../src/executor/waitPromise.ts";

// What workflow code may do with the promise of a wait. Each program notes what runs, in order.
type Note = (what: string) => void;
type Listen = (promise: Promise<unknown>, other: Promise<unknown>, note: Note) => unknown;

const LISTENERS: Readonly<Record<string, Listen>> = {
  await: async (promise, _other, note) => note(`await ${await promise}`),
  callback: (promise, _other, note) => promise.then((value) => note(`then ${value}`)),
  "then, mapped": (promise, _other, note) => promise.then((value) => `m${value}`).then((value) => note(`mapped ${value}`)),
  "async callback": (promise, _other, note) => promise.then(async (value) => `a${value}`).then((value) => note(`async ${value}`)),
  catch: (promise, _other, note) => promise.catch(() => "caught").then((value) => note(`catch ${value}`)),
  finally: (promise, _other, note) => promise.finally(() => note("finally")).then((value) => note(`after finally ${value}`)),
  throws: (promise, _other, note) =>
    promise
      .then(() => {
        throw new Error("no");
      })
      .catch((error: Error) => note(`threw ${error.message}`)),
  race: async (promise, other, note) => note(`race ${await Promise.race([promise, other])}`),
  "race, last": async (promise, other, note) => note(`race last ${await Promise.race([other, promise])}`),
  "race of the mapped": async (promise, other, note) =>
    note(`race mapped ${await Promise.race([other, promise.then((value) => `r${value}`)])}`),
  "race of itself and the mapped": async (promise, _other, note) =>
    note(`race both ${await Promise.race([promise, promise.then((value) => `b${value}`)])}`),
  all: async (promise, _other, note) => note(`all ${await Promise.all([promise, 1])}`),
  allSettled: async (promise, _other, note) => note(`settled ${(await Promise.allSettled([promise]))[0]?.status}`),
  any: async (promise, other, note) => note(`any ${await Promise.any([other, promise])}`),
  "returned by an async function": async (promise, _other, note) => note(`returned ${await (async () => promise)()}`),
  resolve: async (promise, _other, note) => note(`resolved ${await Promise.resolve(promise)}`),
};

async function orderOf(make: typeof Promise | typeof WaitPromise, names: readonly string[], isOver: boolean): Promise<string[]> {
  const notes: string[] = [];
  let settle: (value: unknown) => void = () => {};
  let settleOther: (value: unknown) => void = () => {};
  const promise = new make<unknown>((resolve) => {
    settle = resolve;
  });
  const other = new Promise<unknown>((resolve) => {
    settleOther = resolve;
  });
  for (const name of names) LISTENERS[name]?.(promise, other, (what) => notes.push(what));
  if (isOver) settleOther("other");
  await new Promise(setImmediate);
  notes.push("delivered");
  if (promise instanceof WaitPromise) promise.offer("value");
  settle("value");
  await new Promise(setImmediate);
  return notes;
}

describe("C5 the promise of a wait", () => {
  const kinds = Object.keys(LISTENERS);
  it("runs what listens to it in the order that a native promise does", async () => {
    for (const isOver of [false, true])
      for (const a of kinds)
        for (const b of kinds)
          for (const c of ["race", "await", "race of the mapped"]) {
            const names = [a, b, c];
            expect([names, isOver, await orderOf(WaitPromise, names, isOver)]).toEqual([
              names,
              isOver,
              await orderOf(Promise, names, isOver),
            ]);
          }
  });
  it("is a promise like any other to code that looks at it", async () => {
    const promise = new WaitPromise((resolve) => resolve(1));
    expect(promise).toBeInstanceOf(Promise);
    expect(promise.constructor).toBe(Promise);
    expect(Promise.resolve(promise)).toBe(promise);
    expect(Object.keys(promise)).toEqual([]);
  });
  it.each([
    ["a race that is pending", ["race"], false, true],
    ["a race that is over", ["race"], true, false],
    ["two that are over", ["race", "race, last"], true, false],
    ["a Promise.any that is pending", ["any"], false, true],
    ["a Promise.any that is over", ["any"], true, false],
    ["a race of what a callback returned, over", ["race of the mapped"], true, false],
    ["a race of what a callback returned, pending", ["race of the mapped"], false, true],
    ["a race that is over, and an await", ["race", "await"], true, true],
    ["a race that is over, and Promise.all", ["all", "race"], true, true],
    ["nothing", [], true, true],
  ])("knows whether it is heard by %s", async (_what, names, isOver, hears) => {
    let settle: (value: unknown) => void = () => {};
    const promise = new WaitPromise((resolve) => {
      settle = resolve;
    });
    const other = isOver ? Promise.resolve("other") : new Promise(() => {});
    for (const name of names) LISTENERS[name]?.(promise, other, () => {});
    await new Promise(setImmediate);
    promise.offer("value");
    settle("value");
    await new Promise(setImmediate);
    expect(promise.hears).toBe(hears);
  });

  describe("leaves the stacks of the process alone", () => {
    const engine = Error as unknown as { stackTraceLimit: unknown; prepareStackTrace: unknown; captureStackTrace: unknown };
    const { stackTraceLimit, prepareStackTrace, captureStackTrace } = engine;
    afterEach(() => void Object.assign(engine, { stackTraceLimit, prepareStackTrace, captureStackTrace }));
    /** Is a race that is over known as such? */
    async function knowsRace(): Promise<boolean> {
      const promise = new WaitPromise(() => {});
      await Promise.race([promise, Promise.resolve("other")]);
      promise.offer("value");
      return !promise.hears;
    }
    it("a stackTraceLimit of 0 stays, and does not matter", async () => {
      engine.stackTraceLimit = 0;
      expect(await knowsRace()).toBe(true);
      expect(engine.stackTraceLimit).toBe(0);
    });
    it("a prepareStackTrace of the process stays, and hears of nothing", async () => {
      const hook = vi.fn(() => "not a stack");
      engine.prepareStackTrace = hook;
      expect(await knowsRace()).toBe(true);
      expect(engine.prepareStackTrace).toBe(hook);
      engine.prepareStackTrace = prepareStackTrace;
      expect(hook).not.toHaveBeenCalled();
    });
    it("a captureStackTrace that throws leaves the limit as it was", async () => {
      engine.captureStackTrace = () => {
        throw new Error("patched");
      };
      expect(await knowsRace()).toBe(false);
      expect(engine.stackTraceLimit).toBe(stackTraceLimit);
    });
  });
});
