// Starts of a run that exists, as callers see them: results, updates, many at once, and what is refused.

import { InvalidInputError, Receive, update, workflow } from "@holdfast/core";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Holdfast } from "../../src/index.ts";

let engine: Holdfast;
beforeEach(async () => {
  engine = await Holdfast.open("memory:");
});
afterEach(() => engine.close());

const echo = workflow("echo", async (ctx, word: string) => {
  await ctx.waitForSignal("go");
  return word;
});
const sum = workflow({ name: "sum", updates: { add: update<number, number>() } }, async (ctx, from: number) => {
  const { state } = await ctx.receive(from, { updates: { add: (n, total) => Receive.stop(total + n, total + n) } });
  return state;
});

test("Q9 a caller that waits gets the result of the newest execution, not that of the one before", async () => {
  await engine.worker({ workflows: [echo] });
  const run = await engine.start(echo, "one", { id: "a", onConflict: "debounce" });
  const result = run.result();
  await engine.start(echo, "two", { id: "a", onConflict: "debounce", signals: [{ name: "go" }] });
  await run.signal("go");
  expect(await result).toBe("two");
  expect((await run.describe()).execution).toBe(2);
});

test("Q9 startMany: of several starts with one id the last counts", async () => {
  const items = ["one", "two", "three"].map((input) => ({ input, id: "a", onConflict: "replace" as const, delay: 60_000 }));
  const [run] = await engine.startMany(echo, items);
  expect((await run?.describe())?.input).toBe("three");
});

test.each(["replace", "debounce"] as const)("Q11 %s without an id is refused, and nothing is started", async (onConflict) => {
  await expect(engine.start(echo, "one", { onConflict })).rejects.toThrow(InvalidInputError);
  await expect(engine.start(echo, "one", { onConflict, idempotencyKey: "k" })).rejects.toThrow(/needs an id/);
  await expect(
    engine.startMany(echo, [
      { input: "one", id: "a" },
      { input: "two", onConflict },
    ]),
  ).rejects.toThrow(InvalidInputError);
  expect((await engine.list()).runs).toEqual([]);
});

test("Q11 maxDelay without debounce is refused", async () => {
  await expect(engine.start(echo, "one", { id: "a", onConflict: "replace", maxDelay: "1m" })).rejects.toThrow(/maxDelay/);
});
test("Q9 M8 updateWithStart: the update goes to the execution that its start begins", async () => {
  await engine.worker({ workflows: [sum] });
  const run = await engine.start(sum, 1, { id: "s" });
  const next = engine.updateWithStart(sum, 10, { name: "add", input: 5 }, { id: "s", onConflict: "debounce" });
  await engine.start(sum, 10, { id: "s", onConflict: "debounce" }); // taken after the one before it
  expect(await run.update("add", 1)).toBe(2);
  expect((await next).result).toBe(15);
  expect(await run.result()).toBe(15);
});

test("Q9 M10 updateWithStart: the caller learns that the next start was dropped", async () => {
  await engine.worker({ workflows: [sum] });
  const run = await engine.start(sum, 1, { id: "s" });
  const next = engine.updateWithStart(sum, 10, { name: "add", input: 5 }, { id: "s", onConflict: "debounce" });
  await engine.start(sum, 10, { id: "s", onConflict: "debounce" });
  const refused = expect(next).rejects.toMatchObject({ code: "HF_RUN_CLOSED" });
  await run.cancel();
  await refused;
});
