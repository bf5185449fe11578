// What an execution tells the next one of the messages that it has handled.

import { serializeError } from "@holdfast/core";
import { expect, test } from "vitest";
import { HandledKeys } from "../src/worker/carryOver.ts";

test("L3 outcomes that are errors count with their size: the next execution's header stays small", () => {
  const error = serializeError(new Error("x".repeat(10_000)));
  const keys = new HandledKeys();
  for (let i = 0; i < 1_000; i++) keys.add({ key: `update:${i}`, at: 0, outcome: { error } });
  const carried = keys.carried(1);
  expect(JSON.stringify(carried).length).toBeLessThan(256 * 1024);
  expect(carried.at(-1)?.key).toBe("update:999");
});

test("M3 M10 what has a key of its sender's is remembered for a day, an update without one for an hour", () => {
  const hour = 3_600_000;
  const keys = new HandledKeys([
    { key: "signal:paid", at: 0 },
    { key: "update:given", at: 0, outcome: { value: "1" }, isGiven: true },
    { key: "update:drawn", at: 0, outcome: { value: "2" } },
  ]);
  const kept = (now: number) => keys.carried(now).map(({ key }) => key);
  expect(kept(hour - 1)).toEqual(["signal:paid", "update:given", "update:drawn"]);
  expect(kept(hour)).toEqual(["signal:paid", "update:given"]);
  expect(kept(24 * hour)).toEqual([]);
});
