import { expect, test } from "vitest";
import { fieldsOf, initialValue, parseInput, setAt, valueAt } from "../src/forms/schema.ts";

const order = {
  type: "object",
  required: ["id", "size"],
  properties: {
    id: { type: "string", title: "Order id" },
    amount: { type: "number", default: 3 },
    size: { enum: ["s", "m"] },
    isGift: { type: "boolean" },
    address: { $ref: "#/$defs/address" },
    lines: { type: "array", items: { type: "string" } },
    note: { anyOf: [{ type: "string" }, { type: "null" }], title: "Note" },
    mode: { anyOf: [{ const: "fast" }, { const: "slow" }] },
  },
  $defs: { address: { type: "object", properties: { street: { type: "string" } } } },
};

test("properties are fields, named by their title or else by their property", () => {
  const fields = fieldsOf(order) ?? [];
  expect(fields.map(({ label, kind, isRequired }) => [label, kind, isRequired])).toEqual([
    ["Order id", "text", true],
    ["amount", "number", false],
    ["size", "choice", true],
    ["isGift", "boolean", false],
    ["address", "group", false],
    ["lines", "json", false],
    ["Note", "text", false],
    ["mode", "choice", false],
  ]);
  expect(fields[4]).toMatchObject({ fields: [{ path: ["address", "street"], kind: "text" }] });
  expect(fields[7]).toMatchObject({ choices: ["fast", "slow"] });
  expect(initialValue(fields, order)).toEqual({ amount: 3 });
});

test.each([undefined, null, {}, { type: "string" }, { type: "array", items: {} }, { anyOf: [{ type: "string" }, { type: "number" }] }])(
  "%j is edited as JSON",
  (schema) => {
    expect(fieldsOf(schema)).toBeUndefined();
  },
);

test("a schema that refers to itself ends", () => {
  const tree = { $ref: "#/$defs/node", $defs: { node: { type: "object", properties: { left: { $ref: "#/$defs/node" } } } } };
  expect(JSON.stringify(fieldsOf(tree)).length).toBeLessThan(2_000);
});

test("values are set and read by path, without changing the original; undefined removes", () => {
  const value = { a: { b: 1 }, c: 2 };
  expect(setAt(value, ["a", "b"], 3)).toEqual({ a: { b: 3 }, c: 2 });
  expect(setAt(value, ["a", "b"], undefined)).toEqual({ a: {}, c: 2 });
  expect(setAt(undefined, ["x", "y"], 1)).toEqual({ x: { y: 1 } });
  expect(value).toEqual({ a: { b: 1 }, c: 2 });
  const hostile = setAt({}, ["__proto__"], "x");
  expect(Object.getPrototypeOf(hostile)).toBe(Object.prototype);
  expect(valueAt(hostile, ["__proto__"])).toBe("x");
  expect(valueAt({}, ["constructor"])).toBeUndefined();
});

test("JSON that is not complete is refused, an empty text is not a value", () => {
  expect(parseInput("  ")).toEqual({ ok: true, value: undefined });
  expect(parseInput('{"a":1}')).toEqual({ ok: true, value: { a: 1 } });
  expect(parseInput("{a:1}")).toMatchObject({ ok: false });
});
