// P9: what is over a limit is found to be so without writing it down.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeWithin, jsonCodec, payloadSize } from "../../src/codec/index.ts";
import { LimitExceededError, UnserializableValueError } from "../../src/errors/index.ts";
import { DEFAULT_LIMITS, encodeLimited } from "../../src/executor/index.ts";
import { anyGraph, anyValue } from "./arbitraries.ts";

const limited = (value: unknown) => encodeLimited(jsonCodec, value, DEFAULT_LIMITS, "this");
function errorOf(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}

test("P9 encodeWithin gives what encode gives, or nothing if that is over the limit", () => {
  fc.assert(
    fc.property(fc.oneof(anyValue, anyGraph), fc.nat(200), (value, max) => {
      const text = jsonCodec.encode(value);
      const within = encodeWithin(jsonCodec, value, max);
      if (within === undefined) expect(payloadSize(text)).toBeGreaterThan(max);
      else expect(within).toBe(text);
    }),
    { numRuns: 2_000 },
  );
});

const chained = (wrap: (inner: unknown) => unknown): unknown => {
  let value: unknown = 1;
  for (let i = 0; i < 100_000; i++) value = wrap(value);
  return value;
};
const LARGE: readonly (readonly [string, () => unknown])[] = [
  ["a sparse array of a million", () => new Array(1_000_000)],
  ["a sparse array of twenty million", () => new Array(20_000_000)],
  ["the longest array there is, inside of something", () => ({ a: [new Date(0), new Array(4_294_967_295)] })],
  ["a string of half a gigabyte", () => "x".repeat(2 ** 29 - 30)],
  ["strings that together are longer than a string can be", () => Array.from({ length: 40 }, () => "x".repeat(2 ** 24))],
  ["the same with something that is not plain", () => [new Date(0), ...Array.from({ length: 40 }, () => "\u0001".repeat(2 ** 24))]],
  ["bytes", () => new Uint8Array(200_000_000)],
  ["an error with too much in it", () => Object.assign(new Error("x"), { a: new Array(20_000_000) })],
];
describe("P9 values that are far too large are refused at once", () => {
  test.each(LARGE)("%s", (_name, make) => {
    const value = make();
    const began = performance.now();
    const error = errorOf(() => limited(value));
    expect(performance.now() - began).toBeLessThan(20_000); // it took a minute, or all of the memory
    expect(error).toBeInstanceOf(LimitExceededError);
    expect((error as Error).message).toContain("payloadBytes allows 2097152, and this is more than 4194304");
  });
  test("a value that is a little too large is measured exactly", () => {
    expect(errorOf(() => limited("x".repeat(2_097_151)))).toMatchObject({ actual: 2_097_153 });
    expect(limited("x".repeat(2_097_150))).toHaveLength(2_097_152);
  });
});

const revoked = <T extends object>(target: T): T => {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
};
const throwing = new Proxy(
  {},
  new Proxy({}, { get: (_, trap) => () => { throw new Error(`trap ${String(trap)}`); } }), // biome-ignore format: one line reads best
);
const HOSTILE: readonly (readonly [string, () => unknown, string])[] = [
  ["a revoked Proxy", () => revoked({}), "value"],
  ["a revoked Proxy of a function", () => revoked(() => 1), "value"],
  ["a revoked Proxy inside of something", () => ({ a: [revoked({})] }), "value.a[0]"],
  ["a revoked Proxy as a key of a Map", () => new Map([[revoked({}), 1]]), "value.entries()[0][0]"],
  ["a Proxy whose traps throw", () => throwing, "value"],
  ["a getter that throws", () => ({ get a() { throw new Error("no"); } }), "value.a"], // biome-ignore format: one line reads best
  ["a getter that throws a revoked Proxy", () => ({ get a() { throw revoked({}); } }), "value.a"], // biome-ignore format: one line reads best
  ["a toJSON that throws", () => ({ b: { toJSON() { throw new Error("no"); } } }), "value.b.toJSON()"], // biome-ignore format: one line reads best
  // biome-ignore lint/suspicious/noThenProperty: this is what is tested
  ["a thenable", () => Object.fromEntries([["then", () => 1]]), "value.then"],
  ["arrays nested without end", () => chained((inner) => [inner]), "value[0][0]"],
  ["objects nested without end", () => chained((a) => ({ a })), "value.a.a"],
  ["maps nested without end", () => chained((inner) => new Map([[1, inner]])), "value.entries()[0][1]"],
];
describe("P8 what can't be read is refused by its path", () => {
  test.each(HOSTILE)("%s", (_name, make, path) => {
    const error = errorOf(() => limited(make()));
    expect(error).toBeInstanceOf(UnserializableValueError);
    expect((error as UnserializableValueError).path.startsWith(path)).toBe(true);
  });
});
