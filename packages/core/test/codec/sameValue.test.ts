// Job: prove which values count as the same.
// Owns: sameValue.
// Invariants: Y2, P8.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonCodec, sameValue } from "../../src/codec/index.ts";
import { FatalError } from "../../src/errors/index.ts";
import { anyGraph, anyValue } from "./arbitraries.ts";

const cycle = (length: number): unknown => {
  const first: Record<string, unknown> = {};
  let last = first;
  for (let i = 1; i < length; i++) {
    const next = {};
    last["next"] = next;
    last = next;
  }
  last["next"] = first;
  return first;
};

describe("sameValue", () => {
  it.each([
    [
      { a: 1, b: { c: 2, d: 3 } },
      { b: { d: 3, c: 2 }, a: 1 },
    ],
    [Number.NaN, Number.NaN],
    [new Date(Number.NaN), new Date(Number.NaN)],
    [
      new Map<unknown, unknown>([
        ["a", 1],
        ["b", 2],
      ]),
      new Map<unknown, unknown>([
        ["b", 2],
        ["a", 1],
      ]),
    ],
    [
      new Map([
        [{ k: 1 }, 1],
        [{ k: 2 }, 2],
      ]),
      new Map([
        [{ k: 2 }, 2],
        [{ k: 1 }, 1],
      ]),
    ],
    [new Set([{ a: 1 }, { a: 2 }, 3]), new Set([3, { a: 2 }, { a: 1 }])],
    [new Error("x"), new Error("x")],
    [cycle(2), cycle(2)],
    [cycle(2), cycle(3)],
    [Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
  ])("Y2 %o is the same as %o", (a, b) => {
    expect(sameValue(a, b)).toBe(true);
    expect(sameValue(b, a)).toBe(true);
  });

  it.each([
    [1, 2],
    [0, -0],
    [1, "1"],
    [1, 1n],
    [null, undefined],
    [null, {}],
    [[], {}],
    [{}, { a: undefined }],
    [{ a: undefined }, { b: undefined }],
    [{ toString: 1 }, { x: 1 }],
    [
      [1, 2],
      [2, 1],
    ],
    [[1], [1, undefined]],
    [new Date(0), new Date(1)],
    [new Date(0), "1970-01-01T00:00:00.000Z"],
    [new Map([[1, 2]]), new Map([[1, 3]])],
    [new Map([[{ k: 1 }, 1]]), new Map([[{ k: 1 }, 2]])],
    [new Set([1]), new Set([2])],
    [new Set([{ a: 1 }, { a: 1 }]), new Set([{ a: 1 }, { a: 2 }])],
    [new Uint8Array([1]), new Uint8Array([2])],
    [new Uint8Array([1]), new Int8Array([1])],
    [new Uint8Array([1]).buffer, new Uint8Array([2]).buffer],
    [/a/g, /a/i],
    [new URL("a:b"), new URL("a:c")],
    [new Error("x"), new TypeError("x")],
    [new Error("x"), new Error("y")],
    [new Error("x", { cause: 1 }), new Error("x", { cause: 2 })],
    [new FatalError("x", { data: 1 }), new FatalError("x", { data: 2 })],
  ])("Y2 %o is not the same as %o", (a, b) => {
    expect(sameValue(a, b)).toBe(false);
    expect(sameValue(b, a)).toBe(false);
  });

  it("Y2 a failed attempt to pair up members leaves no false assumption", () => {
    const node = (tag: number): Record<string, unknown> => {
      const inner: Record<string, unknown> = {};
      const outer = { inner, tag };
      inner["outer"] = outer;
      return outer;
    };
    expect(sameValue(new Set([node(1), node(2)]), new Set([node(2), node(3)]))).toBe(false);
    expect(sameValue(new Set([node(1), node(2)]), new Set([node(2), node(1)]))).toBe(true);
  });

  it("Y2 what was stored is the same as what comes back", () => {
    fc.assert(fc.property(fc.oneof(anyValue), (value) => sameValue(value, jsonCodec.decode(jsonCodec.encode(value)))));
    fc.assert(fc.property(anyGraph, (value) => sameValue(value, value)));
  });

  it("Y2 two values that are the same are stored alike, except for order and stacks", () => {
    fc.assert(
      fc.property(anyValue, anyValue, (a, b) => {
        if (jsonCodec.encode(a) === jsonCodec.encode(b)) expect(sameValue(a, b)).toBe(true);
      }),
    );
  });

  it("Y2 sharing without end does not take forever", () => {
    const make = (): unknown => {
      let value: unknown = {};
      for (let i = 0; i < 200; i++) value = [value, value];
      return value;
    };
    expect(sameValue(make(), make())).toBe(true);
  });
});
