// Job: make values of every kind that the codec takes.
// Owns: the arbitraries that the property tests of the codec share.
// Invariants: P8.
import fc from "fast-check";

/** Keys that are dangerous in some place: in JavaScript, to the tags, to the escape. */
const keys = fc.oneof(
  fc.string({ maxLength: 5 }),
  fc.constantFrom("__proto__", "toString", "$", "$$", "$date", "$$date", "$ref", "$def", "$error", "$payload", "0", "-1", "toJSON"),
);

const leaves: readonly fc.Arbitrary<unknown>[] = [
  fc.constantFrom(null, undefined, true, false, 0, -0, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, "", "$date", '"$'),
  fc.integer(),
  fc.double(),
  fc.string({ unit: "binary" }),
  // Lone surrogates included.
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 4 }).map((units) => String.fromCharCode(...units)),
  fc.bigInt(),
  fc.date({ noInvalidDate: false }),
  fc.webUrl().map((url) => new URL(url)),
  fc.constantFrom(/a/, /\/[/]"\\$/giu, /(?<x>.)/sy, /(?:)/),
  fc.uint8Array(),
  fc.oneof(
    fc.int8Array(),
    fc.uint16Array(),
    fc.int32Array(),
    fc.uint8ClampedArray(),
    fc.float32Array(),
    fc.float64Array(),
    fc.bigInt64Array(),
  ),
  fc.uint8Array().map((bytes) => bytes.slice().buffer),
  fc.uint8Array().map((bytes) => new DataView(bytes.slice().buffer)),
];

export const jsonKeys: fc.Arbitrary<string> = keys.filter((key) => !key.startsWith("$"));

/** Plain JSON, as the fast path defines it. */
export const plainJson: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom(null, true, false, 0, "", "$date", "a"),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).filter((n) => !Object.is(n, -0)),
    fc.string({ unit: "binary" }),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(jsonKeys, tie("value"), { maxKeys: 4, noNullPrototype: true }),
  ),
})).value;

/** Anything that survives the codec unchanged. */
export const anyValue: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    ...leaves,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(keys, tie("value"), { maxKeys: 4, noNullPrototype: true }),
    fc.array(fc.tuple(tie("value"), tie("value")), { maxLength: 3 }).map((entries) => new Map(entries)),
    fc.array(tie("value"), { maxLength: 3 }).map((items) => new Set(items)),
    fc.record({ message: fc.string(), cause: tie("value"), status: tie("value") }).map(({ message, cause, status }) => {
      const error = new TypeError(message, cause === undefined ? undefined : { cause });
      return status === undefined ? error : Object.assign(error, { status });
    }),
  ),
})).value;

/** Graphs: a few containers that hold each other at random. */
export const anyGraph: fc.Arbitrary<object> = fc
  .record({
    kinds: fc.array(fc.constantFrom("array", "object", "map", "set", "error"), { minLength: 1, maxLength: 6 }),
    edges: fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 12 }),
    leaf: fc.oneof(...leaves),
  })
  .map(({ kinds, edges, leaf }) => {
    const nodes = kinds.map(makeNode);
    for (const [from, to] of edges) link(nodes[from % nodes.length], nodes[to % nodes.length]);
    link(nodes[0], leaf);
    return nodes[0] ?? [];
  });

function makeNode(kind: "array" | "object" | "map" | "set" | "error"): object {
  switch (kind) {
    case "array":
      return [];
    case "object":
      return {};
    case "map":
      return new Map();
    case "set":
      return new Set();
    case "error":
      return new Error("node");
  }
}

function link(from: object | undefined, to: unknown): void {
  if (Array.isArray(from)) from.push(to);
  else if (from instanceof Map) from.set(from.size, to);
  else if (from instanceof Set) from.add(to);
  else if (from !== undefined) Object.assign(from, { [`edge${Object.keys(from).length}`]: to });
}
