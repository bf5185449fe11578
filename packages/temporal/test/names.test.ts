// Ids, queues and priorities as Temporal has them.

import { expect, test } from "vitest";
import { boundedId, isImpossible, keyedId, priorityFields, queueOf, taskQueueOf } from "../src/names.ts";
import { durationOf, isText, msIfSet, msOf, textOf } from "../src/proto.ts";

test("ids up to 900 bytes stay, longer ones are cut and distinguished by a hash", () => {
  for (const short of ["a", "x".repeat(900), "é".repeat(450)]) expect(boundedId(short)).toBe(short);
  for (const char of ["x", "é", "€", "😀"]) {
    const long = boundedId(`${char.repeat(1_000)}1`);
    expect(Buffer.byteLength(long)).toBeLessThanOrEqual(900);
    expect(long).not.toBe(boundedId(`${char.repeat(1_000)}2`));
    expect(long).toBe(boundedId(`${char.repeat(1_000)}1`));
    expect(long).not.toContain("\ufffd");
    expect(long.startsWith(char.repeat(100))).toBe(true);
  }
  expect(boundedId("half \ud800")).toBe("half \ufffd");
});
test("M3: keys are separate for each workflow", () => {
  expect(keyedId("order", "k")).toBe("order~k");
  expect(keyedId("order", "k")).not.toBe(keyedId("invoice", "k"));
});
test("M12 ids that no run can have: the server refuses them, and other hosts find nothing", () => {
  expect(["", "\ud800", "a\udc00b", "x".repeat(1_001), "é".repeat(501)].map(isImpossible)).toEqual(Array(5).fill(true));
  expect(["a", "😀", " ", "x".repeat(1_000), "é".repeat(500)].map(isImpossible)).toEqual(Array(5).fill(false));
});
test("the default queue is that of the URL", () => {
  expect(taskQueueOf("default", "orders")).toBe("orders");
  expect(taskQueueOf("mail", "orders")).toBe("mail");
  expect(queueOf("orders", "orders")).toBe("default");
  expect(queueOf("mail", "orders")).toBe("mail");
});
test("higher priorities are Temporal's lower numbers, within its five", () => {
  const keys = [-1_000, -2, -1, 1, 2, 1_000].map((priority) => priorityFields({ priority }).priority?.priorityKey);
  expect(keys).toEqual([5, 5, 4, 2, 1, 1]);
  expect(priorityFields({ priority: 0 })).toEqual({});
});
test("keys are fairness keys; those that the server would refuse are hashed", () => {
  const fairness = (key: string) => priorityFields({ key }).priority?.fairnessKey;
  expect(["", "tenant", "é".repeat(32)].map(fairness)).toEqual(["", "tenant", "é".repeat(32)]);
  const hashed = ["é".repeat(33), "\ud800", "\ud801"].map(fairness);
  for (const hash of hashed) expect(hash).toMatch(/^[0-9a-f]{64}$/);
  expect(new Set(hashed).size).toBe(3);
});
test("times keep their milliseconds", () => {
  for (const ms of [0, 1, 999, 1_000, 1_794_929_631_262, 86_400_000.5]) expect(msOf(durationOf(ms))).toBe(Math.floor(ms));
  expect(msIfSet(null)).toBeUndefined();
  expect(msIfSet({ seconds: "12", nanos: 3_999_999 })).toBe(12_003);
});
test("texts for protobuf", () => {
  expect(["plain", "😀", "\ud83d\ude00"].map(isText)).toEqual([true, true, true]);
  expect(["\ud83d", "\ude00\ud83d"].map(isText)).toEqual([false, false]);
  expect(textOf("\ude00\ud83d😀")).toBe("\ufffd\ufffd😀");
});
