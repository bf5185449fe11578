// Calls that stand in line, without a server: what shares a call, what stands aside, what fails.

import { StoreError } from "holdfast/store";
import { expect, test } from "vitest";
import { Line } from "../src/line.ts";

/** Carries out items in upper case; those of `locked` have to wait, "bad" is refused. */
function lineOf(locked: Set<string>, patience = 60_000) {
  const calls: string[][] = [];
  const work = async (items: readonly string[], wait: boolean) => {
    calls.push([...items, ...(wait ? ["waiting"] : [])]);
    if (items.includes("bad")) throw new StoreError("bad", { code: "HF_STORE_REFUSED" });
    return items.map((item) => (locked.has(item.charAt(0)) ? undefined : item.toUpperCase()));
  };
  const options = { keyOf: (item: string) => item.charAt(0), patience, tooLong: () => new Error("locked for too long") };
  return { calls, line: new Line(work, options) };
}

test("D3 those that come at the same time share a call", async () => {
  const { calls, line } = lineOf(new Set());
  expect(await Promise.all([line.add(["a1"]), line.add(["b1", "a2"])])).toEqual([["A1"], ["B1", "A2"]]);
  expect(calls).toEqual([["a1", "b1", "a2"]]);
});

test("D3 one that is at fault fails alone, in line and aside", async () => {
  const locked = new Set<string>();
  const { line } = lineOf(locked);
  expect(await Promise.allSettled([line.add(["a1"]), line.add(["bad"]), line.add(["c1"])])).toMatchObject([
    { value: ["A1"] },
    { reason: { message: "bad" } },
    { value: ["C1"] },
  ]);
  for (const key of ["a", "b", "c"]) locked.add(key);
  const aside = [line.add(["a1"]), line.add(["b1"]), line.add(["c1"])];
  await line.add(["x"]); // they stand aside
  const behind = line.add(["bad"]); // of the key of "b1"
  await line.add(["x"]);
  locked.clear();
  expect(await Promise.allSettled([...aside, behind])).toMatchObject([
    { value: ["A1"] },
    { value: ["B1"] },
    { value: ["C1"] },
    { reason: { message: "bad" } },
  ]);
});

test("M1 those of one key keep their order, though the first of them has to wait", async () => {
  const locked = new Set("a");
  const { calls, line } = lineOf(locked);
  const first = line.add(["a1", "b1"]);
  await line.add(["b2"]);
  const second = line.add(["a2", "b3"]);
  await line.add(["b4"]);
  locked.clear();
  expect([await first, await second]).toEqual([
    ["A1", "B1"],
    ["A2", "B3"],
  ]);
  const carriedOut = calls.at(-1)?.filter((item) => item.startsWith("a"));
  expect(carriedOut).toEqual(["a1", "a2"]);
});

test("HF_STORE_BUSY one that has to wait for too long fails, and those behind it are asked for again", async () => {
  const locked = new Set("a");
  const { line } = lineOf(locked, 0);
  await expect(line.add(["a1"])).rejects.toThrow("locked for too long");
  locked.clear();
  expect(await line.add(["a2"])).toEqual(["A2"]);
});

test("M1 who stands aside is not told what came of another, when a look at them is broken off", async () => {
  let isLocked = true;
  const sent: string[] = [];
  /** In portions of one; the server goes away at the second. */
  const work = async (items: readonly string[], wait: boolean) => {
    if (items.length > 1 && wait) isLocked = false; // both stand aside by now
    if (isLocked) return items.map(() => undefined);
    const results: string[] = [];
    for (const item of items) {
      if (item === "b1") throw new StoreError("away", { code: "HF_STORE_UNAVAILABLE", retryable: true, written: results });
      sent.push(item);
      results.push(item.toUpperCase());
    }
    return results;
  };
  const line = new Line<string, string>(work, { keyOf: String, patience: 60_000, tooLong: () => new Error("locked for too long") });
  const ends = Promise.allSettled([line.add(["a1"]), line.add(["b1"])]);
  expect(await ends).toMatchObject([{ value: ["A1"] }, { reason: { code: "HF_STORE_UNAVAILABLE" } }]);
  const [, refused] = await ends;
  expect(refused?.status === "rejected" && (refused.reason as StoreError).written).toEqual([]);
  expect(sent).toEqual(["a1"]);
});
