// Job: prove what survives of an error that is stored.
// Owns: serializeError, reviveError.
// Invariants: P8, Y4.
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Codec, jsonCodec } from "../../src/codec/index.ts";
import {
  ActivityFailedError,
  CanceledError,
  FatalError,
  HoldfastError,
  InvalidInputError,
  JoinError,
  reviveError,
  type SerializedError,
  StepFailedError,
  serializeError,
  toError,
} from "../../src/errors/index.ts";

/** Through JSON text, as every store does it. */
const roundTrip = (thrown: unknown): Error & Record<string, unknown> => {
  const serialized = serializeError(thrown);
  const stored: unknown = JSON.parse(JSON.stringify(serialized));
  expect(stored).toStrictEqual(serialized);
  const revived = reviveError(stored as SerializedError);
  expect(stored).toStrictEqual(serialized);
  expect(serializeError(revived)).toStrictEqual(serialized);
  return revived as Error & Record<string, unknown>;
};

describe("serializeError and reviveError", () => {
  it("P8 name, message and stack survive", () => {
    const error = new Error("boom");
    const revived = roundTrip(error);
    expect(revived).toBeInstanceOf(Error);
    expect([revived.name, revived.message, revived.stack]).toStrictEqual(["Error", "boom", error.stack]);
    expect(Object.keys(revived)).toStrictEqual([]);
    expect(Object.prototype.toString.call(revived)).toBe("[object Error]");
  });

  it("P8 fields that the user put on an error survive", () => {
    const error = Object.assign(new Error("not found"), {
      status: 404,
      code: "E_X",
      at: new Date(5),
      $odd: { $date: "x" },
      none: undefined,
    });
    const revived = roundTrip(error);
    expect(revived).toMatchObject({ status: 404, code: "E_X", at: new Date(5), $odd: { $date: "x" } });
    expect(serializeError(error).data).toStrictEqual({
      status: 404,
      code: "E_X",
      at: { $date: new Date(5).toISOString() },
      $$odd: { $$date: "x" },
    });
  });

  it.each([TypeError, RangeError, SyntaxError, ReferenceError, URIError, EvalError])("P8 %o comes back as itself", (type) => {
    const revived = roundTrip(new type("x"));
    expect(revived).toBeInstanceOf(type);
    expect(revived.name).toBe(type.name);
    expect(Object.hasOwn(revived, "name")).toBe(false);
  });

  it("P8 AggregateError keeps its errors", () => {
    const revived = roundTrip(new AggregateError([new TypeError("a"), "b"], "both"));
    expect(revived).toBeInstanceOf(AggregateError);
    expect(revived["errors"]).toStrictEqual([expect.any(TypeError), "b"]);
    expect(Object.keys(revived)).toStrictEqual([]);
  });

  it("P8 an error of an unknown class keeps its name, also if the class did not set it", () => {
    class CardDeclined extends Error {}
    class Named extends Error {
      override name = "E_NAMED";
    }
    expect(roundTrip(new CardDeclined("x")).name).toBe("CardDeclined");
    expect(roundTrip(new Named("x")).name).toBe("E_NAMED");
  });

  it("P8 Holdfast's errors come back as their class, with their fields", () => {
    const revived = roundTrip(new StepFailedError({ step: "charge", attempts: 3, cause: new RangeError("inner") }));
    expect(revived).toBeInstanceOf(StepFailedError);
    expect(revived).toMatchObject({ step: "charge", attempts: 3, code: "HF_STEP_FAILED", retryable: false });
    expect(revived.cause).toBeInstanceOf(RangeError);
    expect(serializeError(revived).data).toStrictEqual({ step: "charge", attempts: 3 });

    const join = roundTrip(new JoinError({ name: "all", errors: { a: new TypeError("x"), b: new FatalError("y", { data: 1 }) } }));
    expect(join["errors"]).toMatchObject({ a: expect.any(TypeError), b: expect.any(FatalError) });
    const issues = [{ message: "m", path: ["a", 0] }];
    expect(roundTrip(new InvalidInputError({ what: "x", issues }))["issues"]).toStrictEqual(issues);
  });

  it.each([
    [undefined],
    [null],
    [0],
    ["text"],
    [{ card: 7 }],
    [[1]],
    [new Map([[1, 2]])],
    [{ $fields: { a: 1 } }],
    [{ $foreign: { a: 1 } }],
  ])("P8 a FatalError's data %o is stored as `data` and comes back as `.data`", (data) => {
    const error = new FatalError("x", { data });
    const revived = roundTrip(error);
    expect(revived).toBeInstanceOf(FatalError);
    expect(revived["data"]).toStrictEqual(data);
    if (!(data instanceof Map))
      expect(serializeError(error).data).toStrictEqual(JSON.parse(JSON.stringify({ data }).replaceAll('"$', '"$$$$')).data);
  });

  it("P8 a FatalError with data and other fields keeps both", () => {
    expect(roundTrip(Object.assign(new FatalError("x", { data: { a: 1 } }), { status: 404 }))).toMatchObject({
      data: { a: 1 },
      status: 404,
    });
    expect(roundTrip(Object.assign(new Error("x"), { data: { a: 1 } }))["data"]).toStrictEqual({ a: 1 });
  });

  it("P8 a user's subclass of a Holdfast error is still one of that class", () => {
    class CardDeclined extends FatalError {
      card = 7;
    }
    const revived = roundTrip(new CardDeclined("x", { data: "d" }));
    expect(revived).toBeInstanceOf(FatalError);
    expect(revived).toMatchObject({ name: "CardDeclined", code: "HF_FATAL", data: "d", card: 7 });
  });

  it("P8 an error that only shares its name with one of ours stays foreign", () => {
    const revived = roundTrip(Object.assign(new Error("x"), { name: "CanceledError", code: "ERR_CANCELED" }));
    expect(revived).not.toBeInstanceOf(HoldfastError);
    expect(revived).toMatchObject({ name: "CanceledError", code: "ERR_CANCELED" });
    expect(roundTrip(Object.assign(new Error("x"), { name: "FatalError" }))).not.toBeInstanceOf(HoldfastError);
    expect(roundTrip(Object.assign(new Error("x"), { code: "HF_FATAL" }))).not.toBeInstanceOf(HoldfastError);
    // As a second copy of this package makes them.
    expect(roundTrip(Object.assign(new Error("x"), { name: "CanceledError", code: "HF_CANCELED", retryable: false }))).toBeInstanceOf(
      CanceledError,
    );
  });

  it("P8 a host's error keeps the code it was given", () => {
    expect(roundTrip(new HoldfastError("x", { code: "HF_NO_DATABASE", retryable: true }))).toMatchObject({
      code: "HF_NO_DATABASE",
      retryable: true,
    });
  });

  it("P8 chains of causes survive, and are cut after 16", () => {
    let error = new Error("0");
    for (let i = 1; i <= 40; i++) error = new Error(String(i), { cause: error });
    const messages: string[] = [];
    for (let at: unknown = roundTrip(error); at instanceof Error; at = at.cause) messages.push(at.message);
    expect(messages).toStrictEqual(Array.from({ length: 17 }, (_, i) => String(40 - i)));
  });

  it("P8 causes and fields that lead back to the error are cut", () => {
    const a: Error & { self?: unknown; other?: unknown } = new Error("a");
    a.cause = new Error("b", { cause: a });
    a.self = a;
    a.other = { a };
    const revived = roundTrip(a);
    expect((revived.cause as Error).message).toBe("b");
    expect((revived.cause as Error).cause).toBeUndefined();
    expect(Object.keys(revived)).toStrictEqual([]);
  });

  it("P8 cycles among the fields survive", () => {
    const owner: Record<string, unknown> = { name: "o" };
    owner["self"] = owner;
    const revived = roundTrip(Object.assign(new Error("x", { cause: Object.assign(new Error("y"), { owner }) }), { owner }));
    const found = revived["owner"] as Record<string, unknown>;
    expect(found["self"]).toBe(found);
    expect((revived.cause as Error & { owner: unknown }).owner).toBe(found);
  });

  it.each([["x"], [""], [undefined], [null], [0], [Number.NaN], [10n], [{ a: 1 }], [{ message: "m" }], [[1]], [new Map([[1, 2]])]])(
    "P8 thrown %o becomes a NonError that keeps the value",
    (thrown) => {
      const revived = roundTrip(thrown);
      expect(revived).toBeInstanceOf(Error);
      expect(revived.name).toBe("NonError");
      expect(Object.hasOwn(revived, "value")).toBe(true);
      expect(revived["value"]).toStrictEqual(thrown);
      expect(toError(thrown)).toMatchObject({ name: "NonError", message: revived.message });
    },
  );

  it.each([[Symbol("s")], [() => 1], [{ f: () => 1 }]])("P8 thrown %o, which can't be stored, still gives an error", (thrown) => {
    expect(roundTrip(thrown)).toMatchObject({ name: "NonError", message: expect.stringContaining("was thrown") });
  });

  it("P8 a cause that is not an error comes back as it was", () => {
    expect(roundTrip(new Error("x", { cause: "timeout" })).cause).toBe("timeout");
    expect(roundTrip(new Error("x", { cause: { code: 5 } })).cause).toStrictEqual({ code: 5 });
    expect(roundTrip(new Error("x", { cause: null })).cause).toBeNull();
    expect(roundTrip(new Error("x", { cause: () => 1 })).cause).toMatchObject({ name: "NonError" });
  });

  it("P8 a field that can't be stored is dropped, and what it shared with others is not lost", () => {
    const shared = { n: 1 };
    const error = Object.assign(new Error("x"), {
      bad: [shared, () => 1],
      good: [shared, shared],
      socket: Symbol("s"),
      later: Promise.resolve(),
    });
    const revived = roundTrip(error);
    expect(Object.keys(revived)).toStrictEqual(["good"]);
    expect(revived["good"]).toStrictEqual([shared, shared]);
  });

  it("P8 never throws, whatever the error does", () => {
    class Hostile extends Error {
      override get name(): string {
        throw new Error("name");
      }
      override get message(): string {
        throw new Error("message");
      }
      override get stack(): string {
        throw new Error("stack");
      }
    }
    const throwing = new Proxy(new Error("x"), {
      get() {
        throw new Error("get");
      },
      ownKeys() {
        throw new Error("keys");
      },
    });
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const getter = Object.defineProperty(new Error("x"), "y", {
      enumerable: true,
      get: () => {
        throw new Error("y");
      },
    });
    const odd = Object.assign(new Error("x"), { name: 5, message: { a: 1 }, stack: 7 });
    for (const thrown of [new Hostile("x"), throwing, proxy, getter, odd, Object.create(null)]) {
      const serialized = serializeError(thrown);
      expect(typeof serialized.name).toBe("string");
      expect(typeof serialized.message).toBe("string");
      expect(reviveError(serialized)).toBeInstanceOf(Error);
    }
  });

  it("P8 an error of another realm is an error", () => {
    const foreign: unknown = runInNewContext("Object.assign(new TypeError('x'), { status: 1 })");
    expect(foreign).not.toBeInstanceOf(Error);
    expect(roundTrip(foreign)).toMatchObject({ name: "TypeError", message: "x", status: 1 });
    expect(roundTrip(foreign)).toBeInstanceOf(TypeError);
  });

  it("P8 DOMException keeps its name", () => {
    const revived = roundTrip(new DOMException("stop", "AbortError"));
    expect(revived).toMatchObject({ name: "AbortError", message: "stop" });
  });

  it("a stored error can't change a prototype", () => {
    const evil = JSON.parse(
      '{"name":"Error","message":"x","data":{"__proto__":{"polluted":true},"constructor":{"a":1}}}',
    ) as SerializedError;
    const revived = reviveError(evil);
    expect(Object.getPrototypeOf(revived)).toBe(Error.prototype);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(JSON.stringify(serializeError(revived))).toBe(JSON.stringify(evil));
  });

  it("reviving what is damaged gives what can be read", () => {
    const damaged = {
      name: "TypeError",
      message: "x",
      stack: "s",
      data: { a: { $nonsense: 1 } },
      cause: { name: "Error", message: "y", data: { $ref: 9 } },
    };
    const revived = reviveError(damaged);
    expect(revived).toBeInstanceOf(TypeError);
    expect(revived).toMatchObject({ message: "x", stack: "s", cause: { message: "y" } });
    for (const nonsense of [undefined, null, 5, "x", {}, { name: 1 }, { name: "E", message: 5, cause: 3 }]) {
      expect(reviveError(nonsense as unknown as SerializedError)).toBeInstanceOf(Error);
    }
  });

  it("P8 an endless chain of causes is read as far as one is ever written", () => {
    let stored: SerializedError = { name: "Error", message: "0" };
    for (let i = 1; i <= 50_000; i++) stored = { name: "Error", message: String(i), cause: stored };
    for (const codec of [undefined, jsonCodec]) {
      const messages: string[] = [];
      for (let at: unknown = reviveError(stored, codec); at instanceof Error; at = at.cause) messages.push(at.message);
      expect(messages).toStrictEqual(Array.from({ length: 17 }, (_, i) => String(50_000 - i)));
    }
  });

  it("E1 a user's codec seals all that an error says, except for its name and code", () => {
    const sealing: Codec = {
      encode: (value) => new TextEncoder().encode(jsonCodec.encode(value)).map((byte) => byte ^ 0x5a),
      decode: (data) => jsonCodec.decode((data as Uint8Array).map((byte) => byte ^ 0x5a)),
    };
    const error = new ActivityFailedError({
      activity: "mail",
      attempts: 2,
      cause: Object.assign(new Error("x"), { secret: new Map([["k", "v"]]) }),
    });
    const sealed = serializeError(error, sealing);
    expect(JSON.stringify(sealed)).not.toMatch(/secret|mail/);
    expect(sealed).toMatchObject({ name: "ActivityFailedError", sealed: { $payload: "base64" } });
    const revived = reviveError(JSON.parse(JSON.stringify(sealed)) as SerializedError, sealing);
    expect(revived).toMatchObject({ activity: "mail", cause: { secret: new Map([["k", "v"]]) } });
    expect(serializeError(revived, sealing)).toStrictEqual(sealed);
    expect(
      reviveError(sealed, {
        ...sealing,
        decode: () => {
          throw new Error("no key");
        },
      }),
    ).toBeInstanceOf(ActivityFailedError);
  });

  it("E1 fields of an error that was stored plain come back as they are, whatever their names", () => {
    const codec: Codec = { encode: (value) => `!${jsonCodec.encode(value)}`, decode: (data) => jsonCodec.decode(String(data).slice(1)) };
    const plain = serializeError(Object.assign(new Error("no", { cause: new Error("why") }), { letter: { sealed: true, reason: "wax" } }));
    expect(serializeError(reviveError(plain, codec))).toEqual(plain);
  });

  it("P9 of a thrown value no more is read than is kept of it, however large it is", () => {
    let reads = 0;
    const counted = (value: object): object =>
      new Proxy(value, {
        get(target, key): unknown {
          reads++;
          return Reflect.get(target, key);
        },
      });
    const sparse: unknown[] = [];
    sparse.length = 20_000_000;
    for (const thrown of [counted(sparse), { response: { body: counted(sparse) } }, new Float64Array(20_000_000)]) {
      reads = 0;
      const { name, message } = serializeError(thrown);
      expect(name).toBe("NonError");
      expect(message.length).toBeLessThan(300);
      expect(reads).toBeLessThan(2_000);
    }
    expect(serializeError(sparse).message).toMatch(/^\[null,null,.*… was thrown/);
    const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`key${i}`, i]));
    expect(serializeError(wide).message).toMatch(/^\{"key0":0,"key1":1,.*… was thrown/);
    let shared: unknown = "leaf";
    for (let i = 0; i < 60; i++) shared = [shared, shared]; // 2⁶⁰ leaves
    expect(serializeError(shared).message).toMatch(/^\[{60}"leaf","leaf"\]/);
  });

  it("P9 the message and stack of an error that is stored are cut where they would be larger than what the limits allow a value", () => {
    const long = new Error(`it begins ${"x".repeat(5_000_000)}`, { cause: new TypeError("y".repeat(5_000_000)) });
    const stored = serializeError(long);
    expect(JSON.stringify(stored).length).toBeLessThan(1_048_576);
    expect(stored.message).toMatch(/^it begins x+…$/);
    expect(stored.cause?.message).toMatch(/^y+…$/);
    expect(serializeError(reviveError(stored))).toEqual(stored);
    expect((jsonCodec.decode(jsonCodec.encode(long)) as Error).message).toBe(long.message); // a value is stored whole, or refused
  });

  it("P8 serializeError(reviveError(x)) is x, for every error", () => {
    const names = fc.constantFrom(
      "Error",
      "TypeError",
      "AggregateError",
      "StepFailedError",
      "FatalError",
      "HoldfastError",
      "NonError",
      "Custom",
      "",
      "toString",
      "__proto__",
    );
    const fields = fc.dictionary(
      fc.oneof(fc.string(), fc.constantFrom("data", "code", "errors", "value", "retryable", "$fields", "__proto__", "name")),
      fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true, withSparseArray: true }),
      { maxKeys: 4 },
    );
    const { error } = fc.letrec<{ error: Error; cause: unknown }>((tie) => ({
      cause: fc.oneof({ depthSize: "small", withCrossShrink: true }, fc.constant(undefined), tie("error"), fc.anything()),
      error: fc
        .record({ name: names, message: fc.string(), fields, cause: tie("cause"), fatal: fc.boolean() })
        .map(({ name, message, fields, cause, fatal }) => {
          const made = fatal ? new FatalError(message, { cause }) : new Error(message, { cause });
          if (!fatal) Object.defineProperty(made, "name", { value: name });
          for (const [key, value] of Object.entries(fields))
            if (key !== "name") Object.defineProperty(made, key, { value, enumerable: true });
          return made;
        }),
    }));
    fc.assert(
      fc.property(error, (thrown) => {
        roundTrip(thrown);
      }),
      { numRuns: 500 },
    );
  });
});
