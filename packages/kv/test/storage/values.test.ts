// Job: prove that values and records come back as they were, small, with their version in front.
// Owns: nothing.
// Invariants: properties over generated data.

import type { Command, Job } from "@holdfast/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decode, encode } from "../../src/storage/binary.ts";
import { Locations } from "../../src/storage/layout.ts";
import { decodeRecord, encodeRecord, type HistoryRecord } from "../../src/storage/records.ts";
import { unpack } from "../../src/storage/tuple.ts";

const leaves = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.maxSafeInteger(),
  fc.double(),
  fc.string({ unit: "binary" }),
  fc.uint8Array({ maxLength: 70 }),
);
const plain = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 4 }, leaves, fc.array(tie("value"), { maxLength: 4 }), tie("object")),
  object: fc.dictionary(fc.oneof(fc.constantFrom("type", "seq", "payload", "__proto__", "nothing like it"), fc.string()), tie("value")),
})).value;

describe("values", () => {
  test("P8 come back as they were", () => {
    fc.assert(
      fc.property(plain, (value) => {
        expect(decode(encode(value))).toEqual(value);
      }),
      { numRuns: 3_000 },
    );
  });
  test("P8 come back as they were, however large", () => {
    const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`field ${i}`, i]));
    const long = "ü".repeat(1_500_000);
    const list = Array.from({ length: 5_000 }, (_, i) => -i);
    const unpaired = "a\ud800b";
    expect(decode(encode({ wide, long, list, unpaired }))).toEqual({ wide, long, list, unpaired });
  });
  test("H2 begin with a version; others are refused with what to do", () => {
    expect(encode({ status: "sleeping" })[0]).toBe(1);
    for (const bad of [Uint8Array.of(), Uint8Array.of(2, 0), encode("cut short").subarray(0, 5), Uint8Array.of(1, 99)]) {
      expect(() => decode(bad)).toThrow(expect.objectContaining({ code: "HF_KV_FORMAT" }));
    }
  });
  test("H2 take few bytes", () => {
    const row = { status: "failed", startedAt: 1_700_000_000_000, endedAt: 1_700_000_000_500, retryAt: 1_700_000_001_000 };
    expect(encode(row).length).toBeLessThan(JSON.stringify(row).length / 2);
  });
});

describe("records", () => {
  const facts = { time: 1_763_251_200_000, historyLength: 17 };
  /** There and back, by way of a key. */
  function roundTrip(record: HistoryRecord, isCommand: boolean, prefix?: (locations: Locations) => Uint8Array) {
    const locations = new Locations();
    const key = prefix?.(locations);
    const value = encodeRecord(record, isCommand, facts);
    const names = locations.takeNew().map(([, name]) => name);
    const parts = key === undefined ? undefined : unpack(key).slice(1, isCommand && "n" in record ? -2 : undefined);
    return { ...decodeRecord(value, parts, new Locations(names)), bytes: value.length };
  }

  const openings: Extract<Command, { n: number }>[] = [
    { type: "step", seq: 1, unit: "", name: "charge", n: 0 },
    { type: "step", seq: 300, unit: "poll/~17", name: "charge", n: 2, timeout: 5_000, retry: { maxAttempts: Infinity }, rollback: true },
    { type: "activity", seq: 2, unit: "all/user", name: "a/b#c~d%", n: 0, input: '{"x":1}', retry: { nonRetryable: ["TypeError"] } },
    { type: "child", seq: 3, unit: "receive/~h3/~async", name: "ship", n: 1, input: new Uint8Array([1, 2]), id: "order/ship#1" },
    { type: "sleep", seq: 4, unit: "", name: "sleep", n: 0, duration: 0 },
    { type: "rollback", seq: 5, unit: "~rollback", name: "ship/books/parcel", n: 0, of: 2 },
    { type: "signal", seq: 6, unit: "", name: "approve", n: 0, names: ["approve"], timeout: 1 },
    { type: "join", seq: 7, unit: "", name: "all", n: 0, keys: ["user", "posts"] },
    { type: "attributes", seq: 8, unit: "", name: "attributes", n: 0, attributes: { gone: null, city: "Ulm", count: -3.5 } },
  ];
  test.each(openings.map((command) => [command.type, command]))("Y7 a %s comes back as it was, location and all", (_, command) => {
    const { unit, name, n } = command;
    const { record, isCommand, facts: back } = roundTrip(command, true, (locations) => locations.recordKey(unit, name, n, 0, 0));
    expect(record).toEqual(command);
    expect([isCommand, back]).toEqual([true, facts]);
  });

  const others: [isCommand: boolean, record: HistoryRecord][] = [
    [false, { type: "resolve", seq: 9, outcome: { status: "completed", value: '{"$undefined":true}' } }],
    [false, { type: "resolve", seq: 9, outcome: { status: "completed", value: new Uint8Array([0, 255]) } }],
    [false, { type: "resolve", seq: 9, outcome: { status: "failed", error: { name: "E", message: "m" }, attempts: 3 } }],
    [false, { type: "signal", id: "s", name: "approve", payload: '"x"' }],
    [false, { type: "cancel", reason: "tired" }],
    [true, { type: "cancel", seq: 4, join: true }],
    [false, { type: "start", runId: "r", workflow: "w", input: "1", seed: "s", startedAt: 5, execution: 1 } as Job],
    [true, { type: "settle", seq: 4, status: "completed", messages: ["a", "b"] }],
    [true, { type: "complete", value: "[1,2]" }],
    [true, { type: "of a later version", seq: 3, brandNew: { a: [1] } } as unknown as Command],
  ];
  test.each(others.map(([isCommand, record]) => [record.type, isCommand, record] as const))(
    "Y7 a %s comes back as it was",
    (_, isCommand, record) => {
      const back = roundTrip(record, isCommand);
      expect(back.record).toEqual(record);
      expect(back.isCommand).toBe(isCommand);
    },
  );
  test.each(["dispatch", "handlerFailed", "commit"] as const)("R11 a %s has its unit from its key", (type) => {
    const record = { type, seq: 2, unit: "receive/~h12", message: "m", count: 3 } as unknown as Command;
    expect(roundTrip(record, true, (locations) => locations.prefixOf("receive/~h12")).record).toEqual(record);
  });
  test("H2 the two records of a step take 35 bytes besides its value", () => {
    const step = roundTrip({ type: "step", seq: 70, unit: "", name: "charge", n: 0 }, true, (locations) =>
      locations.recordKey("", "charge", 0, 0, 0),
    );
    const outcome = roundTrip({ type: "resolve", seq: 70, outcome: { status: "completed", value: "1" } }, false);
    expect(step.bytes + outcome.bytes).toBeLessThan(35);
  });
});
