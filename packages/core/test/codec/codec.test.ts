// Job: prove that what goes through the codec comes back, and that what can't is refused by its path.
// Owns: jsonCodec.
// Invariants: P8.
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonCodec, sameValue } from "../../src/codec/index.ts";
import { FatalError, InvalidInputError, StepFailedError, UnserializableValueError } from "../../src/errors/index.ts";
import { anyGraph, anyValue, plainJson } from "./arbitraries.ts";

const roundTrip = <T>(value: T): T => jsonCodec.decode(jsonCodec.encode(value)) as T;

describe("plain JSON", () => {
  it.each([
    [null],
    [true],
    [false],
    [0],
    [-1.5],
    [1e21],
    [5e-324],
    [""],
    ["a\u2028\ud800"],
    [[]],
    [{}],
    [[1, [2, {}]]],
    [{ a: { b: [null] } }],
    ["$date"],
    [{ "": 1 }],
  ])("P8 %j is stored as it is", (value) => {
    expect(jsonCodec.encode(value)).toBe(JSON.stringify(value));
    expect(roundTrip(value)).toStrictEqual(value);
  });

  it("P8 every plain JSON value is stored as exactly what JSON.stringify writes", () => {
    fc.assert(
      fc.property(plainJson, (value) => {
        const text = jsonCodec.encode(value);
        expect(text).toBe(JSON.stringify(value));
        expect(JSON.stringify(jsonCodec.decode(text))).toBe(text);
      }),
    );
  });

  it("P8 a large tree is stored as plain JSON too", () => {
    const value = Array.from({ length: 60_000 }, (_, i) => ({ i }));
    expect(jsonCodec.encode(value)).toBe(JSON.stringify(value));
  });

  it("P8 objects without a prototype are plain", () => {
    const value: unknown = Object.assign(Object.create(null), { a: 1 });
    expect(jsonCodec.encode(value)).toBe('{"a":1}');
    expect(roundTrip([value, undefined])).toStrictEqual([{ a: 1 }, undefined]);
  });
});

describe("all else", () => {
  it.each([
    [undefined, '{"$undefined":true}'],
    [Number.NaN, '{"$number":"NaN"}'],
    [-0, '{"$number":"-0"}'],
    [Number.NEGATIVE_INFINITY, '{"$number":"-Infinity"}'],
    [12n, '{"$bigint":"12"}'],
    [new Date(0), '{"$date":"1970-01-01T00:00:00.000Z"}'],
    [new Date(Number.NaN), '{"$date":null}'],
    [new Map<unknown, unknown>([["k", new Date(0)]]), '{"$map":[["k",{"$date":"1970-01-01T00:00:00.000Z"}]]}'],
    [new Set([1, undefined]), '{"$set":[1,{"$undefined":true}]}'],
    [new Uint8Array([1, 2, 255]), '{"$bytes":"AQL/"}'],
    [new Uint16Array([1, 2]), '{"$view":["Uint16Array","AQACAA=="]}'],
    [new Uint8Array([7]).buffer, '{"$buffer":"Bw=="}'],
    [new URL("https://a.b/c?d#e"), '{"$url":"https://a.b/c?d#e"}'],
    [/a\/b/gi, '{"$regexp":["a\\\\/b","gi"]}'],
    [{ a: undefined, b: [1] }, '{"a":{"$undefined":true},"b":[1]}'],
    [{ $date: "x" }, '{"$$date":"x"}'],
    [{ $: 1, $$a: { $b: 2 } }, '{"$$":1,"$$$a":{"$$b":2}}'],
  ])("P8 %o is stored as %s and comes back", (value, text) => {
    expect(jsonCodec.encode(value)).toBe(text);
    expect(jsonCodec.decode(text)).toStrictEqual(value);
  });

  it("P8 every mix of supported values comes back, and is stored the same again", () => {
    fc.assert(
      fc.property(anyValue, (value) => {
        const text = jsonCodec.encode(value);
        const decoded = jsonCodec.decode(text);
        expect(decoded).toStrictEqual(value);
        expect(sameValue(decoded, value)).toBe(true);
        expect(jsonCodec.encode(decoded)).toBe(text);
      }),
      { numRuns: 1_000 },
    );
  });

  it("P8 every graph comes back with the same shape, and is stored the same again", () => {
    fc.assert(
      fc.property(anyGraph, (value) => {
        const text = jsonCodec.encode(value);
        const decoded = jsonCodec.decode(text);
        expect(sameValue(decoded, jsonCodec.decode(text))).toBe(true);
        expect(jsonCodec.encode(decoded)).toBe(text);
      }),
      { numRuns: 1_000 },
    );
  });

  it("P8 a store that reorders keys does no harm", () => {
    const reorder = (node: unknown): unknown => {
      if (Array.isArray(node)) return node.map(reorder);
      if (node === null || typeof node !== "object") return node;
      return Object.fromEntries(
        Object.entries(node)
          .reverse()
          .map(([key, item]) => [key, reorder(item)]),
      );
    };
    fc.assert(
      fc.property(anyGraph, (value) => {
        const text = jsonCodec.encode(value);
        const reordered = JSON.stringify(reorder(JSON.parse(text)));
        expect(sameValue(jsonCodec.decode(reordered), jsonCodec.decode(text))).toBe(true);
      }),
    );
    expect(jsonCodec.decode('{"b":{"$ref":1},"a":{"$def":[1,{"x":{"$ref":1}}]}}')).toSatisfy(
      (v: { a: { x: unknown }; b: unknown }) => v.a === v.b && v.a.x === v.a,
    );
  });

  it("P8 Buffers come back as bytes, views without the rest of their buffer", () => {
    expect(roundTrip<Uint8Array>(Buffer.from("hi"))).toStrictEqual(new Uint8Array([104, 105]));
    const view = new Uint32Array(new Uint32Array([1, 2, 3]).buffer, 4, 1);
    expect(roundTrip(view)).toStrictEqual(new Uint32Array([2]));
    expect(roundTrip(view).buffer.byteLength).toBe(4);
  });

  it("P8 holes in arrays come back as undefined", () => {
    // biome-ignore lint/suspicious/noSparseArray: what is tested
    expect(roundTrip([1, , 3])).toStrictEqual([1, undefined, 3]);
  });

  it("P8 a regular expression forgets where it was", () => {
    const sticky = /a/g;
    sticky.test("aa");
    expect(roundTrip(sticky)).toMatchObject({ source: "a", flags: "g", lastIndex: 0 });
  });

  it("P8 values of another realm are known", () => {
    const foreign: unknown = runInNewContext(
      "({ d: new Date(0), m: new Map([[1, new Set([2])]]), e: new RangeError('x'), a: [undefined], r: /x/ })",
    );
    expect(roundTrip(foreign)).toMatchObject({
      d: new Date(0),
      m: new Map([[1, new Set([2])]]),
      e: expect.any(RangeError),
      a: [undefined],
      r: /x/,
    });
  });

  it("P8 boxed primitives come back as primitives", () => {
    expect(roundTrip<unknown>([Object(1), Object("a"), Object(true)])).toStrictEqual([1, "a", true]);
  });
});

describe("class instances", () => {
  class Point {
    readonly x = 1;
    readonly y: unknown;
    readonly #secret = 2;
    constructor(y: unknown) {
      this.y = y;
    }
    get sum(): number {
      return this.x + this.#secret;
    }
  }

  it("P8 are stored by their own properties", () => {
    expect(jsonCodec.encode(new Point(3))).toBe('{"x":1,"y":3}');
    expect(jsonCodec.encode({ p: new Point(new Date(0)), [Symbol("s")]: 1 })).toBe(
      '{"p":{"x":1,"y":{"$date":"1970-01-01T00:00:00.000Z"}}}',
    );
  });

  it("P8 or by toJSON, also where it returns a Date, itself, or has its own tag", () => {
    class Money {
      readonly [Symbol.toStringTag] = "Money";
      readonly cents: number;
      constructor(cents: number) {
        this.cents = cents;
      }
      toJSON(): string {
        return `${this.cents}¢`;
      }
    }
    const self = { a: 1, toJSON: undefined as unknown };
    Object.defineProperty(self, "toJSON", { value: () => self, enumerable: false });
    expect(jsonCodec.encode([new Money(5)])).toBe('["5¢"]');
    expect(roundTrip<unknown>({ toJSON: () => new Date(0) })).toStrictEqual(new Date(0));
    expect(jsonCodec.encode([undefined, self])).toBe('[{"$undefined":true},{"a":1}]');
  });

  it("P8 that share an object are stored as plainly as the plain objects they come back as", () => {
    const shared = { n: 1 };
    const text = jsonCodec.encode([new Point(shared), shared]);
    expect(text).toBe('[{"x":1,"y":{"n":1}},{"n":1}]');
    expect(jsonCodec.encode(jsonCodec.decode(text))).toBe(text);
  });
});

describe("errors", () => {
  it("P8 come back as their class, with cause, stack and fields", () => {
    const error = new StepFailedError({ step: "a", attempts: 1, cause: Object.assign(new TypeError("inner"), { status: 404 }) });
    const { error: revived } = roundTrip({ error });
    expect(revived).toBeInstanceOf(StepFailedError);
    expect(revived).toMatchObject({ step: "a", message: error.message, stack: error.stack, cause: { status: 404 } });
    expect(revived.cause).toBeInstanceOf(TypeError);
    expect(roundTrip([new FatalError("x", { data: new Set([1]) })])[0]).toMatchObject({ data: new Set([1]) });
  });

  it("P8 may be part of a cycle", () => {
    const owner: { error?: Error & { owner?: unknown; self?: unknown } } = {};
    owner.error = new Error("x");
    owner.error.owner = owner;
    owner.error.self = owner.error;
    const revived = roundTrip(owner);
    expect(revived.error?.owner).toBe(revived);
    expect(revived.error?.self).toBe(revived.error);
  });

  it("P8 drop fields that can't be stored, instead of failing the value", () => {
    const error = Object.assign(new Error("x"), { request: { socket: () => 1 }, status: 500 });
    expect(Object.keys(roundTrip({ error }).error)).toStrictEqual(["status"]);
  });
});

describe("identity", () => {
  it("P8 cyclic values survive", () => {
    const object: Record<string, unknown> = { a: [] };
    object["self"] = object;
    (object["a"] as unknown[]).push(object["a"], object);
    const map = new Map<unknown, unknown>();
    map.set(map, map);
    const set = new Set<unknown>();
    set.add(set);
    const [o, m, s] = roundTrip([object, map, set] as const);
    expect(o["self"]).toBe(o);
    expect((o["a"] as unknown[])[0]).toBe(o["a"]);
    expect((o["a"] as unknown[])[1]).toBe(o);
    expect(m.get(m)).toBe(m);
    expect(s.has(s)).toBe(true);
    expect(jsonCodec.encode(object)).toBe('{"$def":[2,{"a":{"$def":[1,[{"$ref":1},{"$ref":2}]]},"self":{"$ref":2}}]}');
  });

  it("P8 sharing without end does not explode", () => {
    let plain: unknown = { leaf: 1 };
    let dated: unknown = new Date(0);
    for (let i = 0; i < 100; i++) {
      plain = [plain, plain];
      dated = { a: dated, b: dated };
    }
    for (const value of [plain, dated]) {
      const text = jsonCodec.encode(value);
      expect(text.length).toBeLessThan(10_000);
      expect(jsonCodec.encode(jsonCodec.decode(text))).toBe(text);
    }
  });

  it("P8 shared bytes are stored once", () => {
    const bytes = new Uint8Array(300);
    const [a, b] = roundTrip([bytes, bytes]);
    expect(a).toBe(b);
    expect(jsonCodec.encode([bytes, bytes]).length).toBeLessThan(500);
  });
});

describe("safety", () => {
  it("P8 no user's value is mistaken for a tag", () => {
    for (const tag of [
      "undefined",
      "number",
      "bigint",
      "date",
      "map",
      "set",
      "bytes",
      "view",
      "buffer",
      "url",
      "regexp",
      "error",
      "def",
      "ref",
      "fields",
      "foreign",
      "payload",
      "",
    ]) {
      for (const content of [true, null, 1, "x", [], [[1, 2]], { name: "a", message: "b" }]) {
        const value = { [`$${tag}`]: content };
        expect(roundTrip(value)).toStrictEqual(value);
        expect(roundTrip({ [`$$${tag}`]: [value, new Date(0)] })).toStrictEqual({ [`$$${tag}`]: [value, new Date(0)] });
      }
    }
  });

  it("P8 a constructor key is data", () => {
    const value = { constructor: new Map(), $x: 1 };
    expect(roundTrip(value)).toEqual(value);
    expect(sameValue(roundTrip(value), value)).toBe(true);
  });

  it("P8 a __proto__ key is data", () => {
    const evil = JSON.parse('{"__proto__":{"polluted":true},"$x":{"__proto__":[1]}}') as object;
    for (const value of [evil, { evil, d: new Date(0) }, [evil, undefined], new Map([[evil, evil]])]) {
      const text = jsonCodec.encode(value);
      expect(jsonCodec.encode(jsonCodec.decode(text))).toBe(text);
    }
    const decoded = roundTrip(evil);
    expect(Object.keys(decoded)).toStrictEqual(["__proto__", "$x"]);
    expect(Object.getPrototypeOf(decoded)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  const deep = (levels: number, wrap: (inner: unknown) => unknown): unknown => {
    let value: unknown = 1;
    for (let i = 0; i < levels; i++) value = wrap(value);
    return value;
  };

  it.each([
    ["arrays", (inner: unknown) => [inner]],
    ["objects", (inner: unknown) => ({ inner })],
    ["maps", (inner: unknown) => new Map([[1, inner]])],
    ["sets", (inner: unknown) => new Set([inner])],
    ["objects with toJSON", (inner: unknown) => ({ toJSON: () => [inner] })],
  ])("P8 300 levels of %s work, 10,000 and 1,000,000 are refused with a short path", (_kind, wrap) => {
    const value = deep(300, wrap);
    expect(jsonCodec.encode(roundTrip(value))).toBe(jsonCodec.encode(value));
    for (const levels of [10_000, 1_000_000]) {
      const refused = deep(levels, wrap);
      expect(() => jsonCodec.encode(refused)).toThrow(UnserializableValueError);
      expect(() => jsonCodec.encode(refused)).toThrow(/^value.{1,400} can't be stored: it is a value nested/);
    }
  });

  it("P8 deep errors lose what is too deep", () => {
    const error = deep(10_000, (inner) => Object.assign(new Error("x"), { inner }));
    expect(jsonCodec.encode(error)).toContain('"$error"');
    expect(roundTrip(error)).toBeInstanceOf(Error);
  });
});

describe("what can't be stored", () => {
  class Socket {
    readonly [Symbol.toStringTag] = "Socket";
  }
  it.each([
    ["value", "function", () => 1],
    ["value", "symbol", Symbol("s")],
    ["value.items[3].socket", "Socket", { items: [1, 2, 3, { socket: new Socket() }] }],
    ["value.a", "Promise", { a: Promise.resolve() }],
    ["value[0]", "WeakMap", [new WeakMap()]],
    ["value", "AbortSignal", new AbortController().signal],
    ["value.response", "Response", { response: new Response("x") }],
    ["value", "Generator", (function* () {})()],
    ["value", "SharedArrayBuffer", new SharedArrayBuffer(1)],
    ['value["a b"].$c', "function", { "a b": { $c: () => 1 } }],
    [
      "value.entries()[1][1].f",
      "function",
      new Map<number, unknown>([
        [1, 1],
        [2, { f: () => 1 }],
      ]),
    ],
    ["value.entries()[0][0]", "symbol", new Map([[Symbol("s"), 1]])],
    ["value.values()[1]", "function", new Set([1, () => 1])],
    ["value.toJSON().f", "function", { toJSON: () => ({ f: () => 1 }) }],
    ["value.method", "function", { method() {} }],
  ])("P8 %s: a %s is refused by its path", (path, type, value) => {
    const refusal = expect(() => jsonCodec.encode(value));
    refusal.toThrow(UnserializableValueError);
    refusal.toThrow(expect.objectContaining({ path, type }));
    refusal.toThrow(`${path} can't be stored: it is a`);
  });

  it("P8 a getter or toJSON that throws is named, with what it threw as cause", () => {
    const cause = new Error("lazy");
    const boom = (): never => {
      throw cause;
    };
    const getter = {
      a: [
        {
          get b(): never {
            return boom();
          },
        },
      ],
    };
    const refused = { path: "value.a[0].b", cause };
    expect(() => jsonCodec.encode(getter)).toThrow(expect.objectContaining(refused));
    expect(() => jsonCodec.encode({ x: undefined, ...getter })).toThrow(expect.objectContaining(refused));
    expect(() => jsonCodec.encode({ a: { toJSON: boom } })).toThrow(expect.objectContaining({ path: "value.a.toJSON()", cause }));
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expect(() => jsonCodec.encode([proxy])).toThrow(UnserializableValueError);
  });

  it("P8 a toJSON that leads back to its object is refused", () => {
    const cyclic = { toJSON: (): unknown => ({ cyclic }) };
    expect(() => jsonCodec.encode(cyclic)).toThrow(expect.objectContaining({ path: "value.toJSON().cyclic" }));
  });
});

describe("decode", () => {
  it.each([
    [""],
    ["{"],
    ["undefined"],
    ['{"$nonsense":1}'],
    ['{"$date":5}'],
    ['{"$date":"x","b":1}'],
    ['{"a":1,"$date":"x"}'],
    ['{"$":1}'],
    ['{"$ref":1}'],
    ['{"$ref":"x"}'],
    ['{"$def":[1]}'],
    ['{"$def":["a",1]}'],
    ['[{"$def":[1,2]},{"$def":[1,2]}]'],
    ['{"$bigint":"x"}'],
    ['{"$url":"x"}'],
    ['{"$regexp":["(",""]}'],
    ['{"$regexp":["a"]}'],
    ['{"$bytes":"x"}'],
    ['{"$bytes":"A?=="}'],
    ['{"$bytes":"A==="}'],
    ['{"$view":["Function",""]}'],
    ['{"$view":["__proto__",""]}'],
    ['{"$view":["Uint16Array","AQ=="]}'],
    ['{"$map":[1]}'],
    ['{"$map":[[1]]}'],
    ['{"$map":{}}'],
    ['{"$set":1}'],
    ['{"$error":1}'],
    ['{"$error":{"name":1,"message":"x"}}'],
    ['{"$error":{"name":"E","message":"x","cause":5}}'],
    ['{"$error":{"name":"E","message":"x","data":5}}'],
    ['{"$def":[1,{"$ref":1}]}'],
    ['{"$def":[1,{"$def":[2,{"$ref":1}]}]}'],
  ])("P8 %s is refused with InvalidInputError", (text) => {
    expect(() => jsonCodec.decode(text)).toThrow(InvalidInputError);
    expect(() => jsonCodec.decode(text)).toThrow(/^invalid encoded value: /);
  });

  it("P8 what is nested too deeply is refused with InvalidInputError", () => {
    const text = '{"$set":['.repeat(100_000) + "]}".repeat(100_000);
    expect(() => jsonCodec.decode(text)).toThrow(InvalidInputError);
    expect(() => jsonCodec.decode(text)).toThrow("nested too deeply");
  });

  it("P8 whatever the text, it gives a value or an InvalidInputError", () => {
    const tags = fc.constantFrom(
      "$undefined",
      "$number",
      "$bigint",
      "$date",
      "$map",
      "$set",
      "$bytes",
      "$view",
      "$buffer",
      "$url",
      "$regexp",
      "$error",
      "$def",
      "$ref",
      "name",
      "message",
      "data",
      "cause",
      "$fields",
      "$$a",
    );
    const tree = fc.letrec<{ node: unknown }>((tie) => ({
      node: fc.oneof(
        { depthSize: "small" },
        fc.constantFrom(null, 1, "x", "Error", true),
        fc.array(tie("node"), { maxLength: 3 }),
        fc.dictionary(tags, tie("node"), { maxKeys: 2, noNullPrototype: true }),
      ),
    })).node;
    fc.assert(
      fc.property(tree, (node) => {
        try {
          jsonCodec.decode(JSON.stringify(node));
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidInputError);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("takes the text as UTF-8 bytes too", () => {
    const bytes = new TextEncoder().encode('{"a":"ß😀"}');
    expect(jsonCodec.decode(bytes)).toStrictEqual({ a: "ß😀" });
    expect(() => jsonCodec.decode(new Uint8Array([0x22, 0xff, 0x22]))).toThrow(InvalidInputError);
  });
});
