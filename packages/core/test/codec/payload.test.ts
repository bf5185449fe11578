// Job: prove how payloads are measured and how they sit in a JSON document.
// Owns: payloadSize, payloadExceeds, payloadToJson, payloadFromJson.
// Invariants: P8, P9.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonCodec, payloadExceeds, payloadFromJson, payloadSize, payloadToJson } from "../../src/codec/index.ts";
import { InvalidInputError } from "../../src/errors/index.ts";
import { anyValue } from "./arbitraries.ts";

const anyText = fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 }).map((units) => String.fromCharCode(...units));
const anyPayload = fc.oneof(
  anyText,
  fc.string({ unit: "binary" }),
  fc.uint8Array(),
  fc.json(),
  anyValue.map((value) => jsonCodec.encode(value)),
);

describe("payloadSize", () => {
  it.each([
    ["", 0],
    ["abc", 3],
    ["ß", 2],
    ["→", 3],
    ["😀", 4],
    ["\ud800", 3],
    [new Uint8Array(7), 7],
  ])("P9 of %j is %d", (payload, size) => {
    expect(payloadSize(payload)).toBe(size);
  });

  it("P9 counts bytes of UTF-8, and payloadExceeds agrees", () => {
    fc.assert(
      fc.property(fc.oneof(anyText, fc.string({ unit: "binary" }), fc.uint8Array()), fc.nat(60), (payload, max) => {
        const size = typeof payload === "string" ? Buffer.byteLength(payload) : payload.byteLength;
        expect(payloadSize(payload)).toBe(size);
        expect(payloadExceeds(payload, max)).toBe(size > max);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("payloadToJson and payloadFromJson", () => {
  it("P8 JSON text is embedded as what it says", () => {
    expect(payloadToJson('{"a":[1]}')).toStrictEqual({ a: [1] });
    expect(payloadToJson(jsonCodec.encode(undefined))).toStrictEqual({ $undefined: true });
    expect(payloadToJson("null")).toBeNull();
  });

  it("P8 other text and bytes go in an envelope", () => {
    expect(payloadToJson("hello")).toStrictEqual({ $payload: "text", data: "hello" });
    expect(payloadToJson('{ "a": 1 }')).toStrictEqual({ $payload: "text", data: '{ "a": 1 }' });
    expect(payloadToJson(new Uint8Array([1, 2]))).toStrictEqual({ $payload: "base64", data: "AQI=" });
    expect(payloadToJson('{"$payload":"text","data":"x"}')).toMatchObject({ $payload: "text" });
  });

  it("P8 bytes are written as base64 like everybody else's", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        expect(payloadToJson(bytes)).toStrictEqual({ $payload: "base64", data: Buffer.from(bytes).toString("base64") });
      }),
    );
  });

  it("P8 every payload comes back letter by letter, also through JSON text", () => {
    fc.assert(
      fc.property(anyPayload, (payload) => {
        expect(payloadFromJson(payloadToJson(payload))).toStrictEqual(payload);
        expect(payloadFromJson(JSON.parse(JSON.stringify(payloadToJson(payload))))).toStrictEqual(payload);
      }),
      { numRuns: 1_000 },
    );
  });

  it("P8 text that is nested too deeply to embed is kept as text", () => {
    const text = "[".repeat(100_000) + "]".repeat(100_000);
    expect(payloadFromJson(payloadToJson(text))).toBe(text);
  });

  it("P8 a tree that is nested too deeply, or leads back to itself, is refused", () => {
    let deep: unknown = 1;
    for (let i = 0; i < 50_000; i++) deep = [deep];
    const cyclic: unknown[] = [];
    cyclic.push(cyclic);
    for (const tree of [deep, cyclic]) expect(() => payloadFromJson(tree)).toThrow(InvalidInputError);
  });

  it.each([[{ $payload: "x", data: "" }], [{ $payload: "text" }], [{ $payload: "base64", data: "?" }]])(
    "refuses the envelope %j",
    (json) => {
      expect(() => payloadFromJson(json)).toThrow(InvalidInputError);
    },
  );
});
