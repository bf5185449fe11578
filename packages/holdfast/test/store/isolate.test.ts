// Rows that a store picks itself: a bad one is found by halving whole calls.

import { isolate, StoreError, StoreRefusedError } from "holdfast/store";
import { expect, test } from "vitest";

const range = (length: number): number[] => Array.from({ length }, (_, i) => i);

/** Refuses calls in which one of these is. */
function storeThatRefuses(...bad: readonly number[]) {
  const calls: number[][] = [];
  const done: number[] = [];
  const work = async (items: readonly number[]): Promise<void> => {
    calls.push([...items]);
    if (items.some((item) => bad.includes(item))) throw new StoreRefusedError({ where: "here", reason: "not this one" });
    done.push(...items);
  };
  return { calls, done, work };
}

test("D3 with nothing refused it is one call", async () => {
  const { calls, done, work } = storeThatRefuses();
  expect(await isolate(range(100), work)).toEqual([]);
  expect([calls.length, done]).toEqual([1, range(100)]);
});
test("D3 without items there is no call", async () => {
  const { calls, work } = storeThatRefuses();
  expect(await isolate([], work)).toEqual([]);
  expect(calls).toEqual([]);
});
test("D3 all but the items at fault are done, once and in order", async () => {
  const { calls, done, work } = storeThatRefuses(0, 41, 42, 99);
  const refused = await isolate(range(100), work);
  expect(refused.map(({ item }) => item)).toEqual([0, 41, 42, 99]);
  for (const { error } of refused) expect(error).toBeInstanceOf(StoreRefusedError);
  expect(done).toEqual(range(100).filter((i) => ![0, 41, 42, 99].includes(i)));
  expect(calls.length).toBeLessThan(60);
});
test("D3 one item at fault among a thousand takes about twenty calls", async () => {
  const { calls, work } = storeThatRefuses(777);
  expect(await isolate(range(1_000), work)).toMatchObject([{ item: 777 }]);
  expect(calls.length).toBeLessThanOrEqual(21);
});
test("an item that is at fault and undefined, or falsy, is reported like any other", async () => {
  const refuse = async (): Promise<void> => {
    throw new StoreRefusedError({ where: "here", reason: "no" });
  };
  expect((await isolate([0, undefined, ""], refuse)).map(({ item }) => item)).toEqual([0, undefined, ""]);
});
test("an error that is not about the items ends it", async () => {
  const { done, work } = storeThatRefuses(1);
  const away = new StoreError("away", { code: "HF_STORE_UNAVAILABLE" });
  const failing = async (items: readonly number[]): Promise<void> => {
    if (done.length > 0) throw away;
    await work(items);
  };
  await expect(isolate(range(8), failing)).rejects.toBe(away);
  expect(done).toEqual([0]);
});
