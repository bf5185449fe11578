// Job: prove that packed tuples sort as tuples do, come back as they were, and are prefixes of just what begins with them.
// Owns: nothing.
// Invariants: properties over generated tuples, with the numbers and letters at which encodings go wrong.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  afterPrefix,
  compareBytes,
  type Element,
  pack,
  packAfter,
  packThree,
  packTwo,
  startsWith,
  type Tuple,
  unpack,
} from "../../src/storage/tuple.ts";

const edges = [
  0,
  1,
  -1,
  127,
  128,
  255,
  256,
  257,
  -255,
  -256,
  -257,
  65_535,
  65_536,
  2 ** 24,
  2 ** 31,
  2 ** 32,
  2 ** 40,
  2 ** 48 - 1,
  2 ** 48,
];
const numbers = fc.oneof(
  fc.constantFrom(...edges, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER),
  fc.maxSafeInteger(),
  fc.integer({ min: -300, max: 300 }),
);
const texts = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.string({ unit: fc.constantFrom("\0", "a", "\u{10ffff}", "é", "\uffff", "\x01") }),
);
const tuples = fc.letrec<{ element: Element; tuple: Tuple }>((tie) => ({
  element: fc.oneof({ maxDepth: 3 }, numbers, texts, tie("tuple")),
  tuple: fc.array(tie("element"), { maxLength: 4 }),
})).tuple;

/** The order that packing must keep, said without bytes: text before tuples before numbers. */
function compare(a: Element, b: Element): number {
  const rank = (element: Element) => (typeof element === "string" ? 0 : typeof element === "number" ? 2 : 1);
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  if (typeof a === "number" && typeof b === "number") return Math.sign(a - b) || 0;
  if (typeof a === "string" && typeof b === "string") return compareTexts(a, b);
  return compareTuples(a as Tuple, b as Tuple);
}
function compareTexts(a: string, b: string): number {
  const [left, right] = [[...a], [...b]].map((letters) => letters.map((letter) => letter.codePointAt(0) ?? 0));
  return compareTuples(left ?? [], right ?? []);
}
function compareTuples(a: Tuple, b: Tuple): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const difference = compare(a[i] as Element, b[i] as Element);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

describe("packed tuples", () => {
  test("L4 sort byte by byte as they do element by element", () => {
    fc.assert(
      fc.property(tuples, tuples, (a, b) => Math.sign(compareBytes(pack(a), pack(b))) === Math.sign(compareTuples(a, b))),
      { numRuns: 5_000 },
    );
  });
  test("L4 sort so also where they differ in one number only", () => {
    fc.assert(
      fc.property(fc.array(numbers, { maxLength: 2 }), numbers, numbers, (head, a, b) => {
        const [left, right] = [pack([...head, a, 7]), pack([...head, b, 7])];
        return Math.sign(compareBytes(left, right)) === Math.sign(a - b);
      }),
      { numRuns: 5_000 },
    );
  });
  test("L4 come back as they were", () => {
    fc.assert(
      fc.property(tuples, (tuple) => {
        expect(unpack(pack(tuple))).toEqual(tuple);
      }),
      { numRuns: 3_000 },
    );
  });
  test("H3 are a prefix of exactly the tuples that begin with their elements, unless the last is text", () => {
    fc.assert(
      fc.property(tuples, tuples, tuples, (a, b, tail) => {
        fc.pre(typeof a.at(-1) !== "string");
        expect(startsWith(pack([...a, ...tail]), pack(a))).toBe(true);
        const begins = b.length >= a.length && a.every((element, i) => compare(element, b[i] as Element) === 0);
        expect(startsWith(pack(b), pack(a))).toBe(begins);
      }),
      { numRuns: 3_000 },
    );
  });
  test("H3 are the same, packed at once or in parts", () => {
    fc.assert(
      fc.property(tuples, tuples, (head, tail) => {
        expect(packAfter(pack(head), ...tail)).toEqual(pack([...head, ...tail]));
      }),
    );
    fc.assert(
      fc.property(tuples, numbers, numbers, (head, a, b) => {
        expect(packTwo(pack(head), a, b)).toEqual(pack([...head, a, b]));
        expect(packThree(pack(head), head, a, b)).toEqual(pack([...head, head, a, b]));
      }),
    );
  });
  test("H3 are those of FoundationDB's tuple layer", () => {
    const hex = (tuple: Tuple) => Buffer.from(pack(tuple)).toString("hex");
    expect(hex([0, 1, 255, 256, -1, -255, -256])).toBe("14 1501 15ff 160100 13fe 1300 12feff".replaceAll(" ", ""));
    expect(hex(["a\0b", "é"])).toBe("02 6100ff62 00 02 c3a9 00".replaceAll(" ", ""));
    expect(hex([[1, "x"], []])).toBe("05 1501 027800 00 05 00".replaceAll(" ", ""));
  });
  test("H3 hold no fractions, no numbers beyond 2^53 and no unpaired surrogates", () => {
    for (const bad of [0.5, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY, "\ud800"]) expect(() => pack([bad])).toThrow(RangeError);
  });
  test("H3 bytes that are none are refused, not misread", () => {
    for (const bad of [[0x15], [0x02, 0x61], [0x05, 0x15, 1], [0xff], [0x1d, 1]])
      expect(() => unpack(Uint8Array.from(bad))).toThrow(RangeError);
  });
});

test("L4 the end of a prefix comes right after all that begin with it", () => {
  const bytes = fc.uint8Array({ maxLength: 4 });
  fc.assert(
    fc.property(bytes, bytes, (prefix, key) => {
      const end = afterPrefix(prefix);
      const within = compareBytes(key, prefix) >= 0 && (end === undefined || compareBytes(key, end) < 0);
      expect(within).toBe(startsWith(key, prefix));
    }),
    { numRuns: 5_000 },
  );
  expect(afterPrefix(Uint8Array.of(1, 0xff, 0xff))).toEqual(Uint8Array.of(2));
  expect(afterPrefix(Uint8Array.of(0xff))).toBeUndefined();
});
