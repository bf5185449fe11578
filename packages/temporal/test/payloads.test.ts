// Values and errors between Holdfast and Temporal: what others can read, and that everything comes back as it was.

import { type Codec, FatalError, jsonCodec, type SerializedError, serializeError } from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { fromFailure, toFailure } from "../src/failures.ts";
import { headerOf, messageHeader, startHeader } from "../src/headers.ts";
import { memoFields, readMemo } from "../src/memo.ts";
import { encodingOf, jsonPayload, Payloads, readJson, type TemporalPayload } from "../src/payloads.ts";
import { api } from "../src/proto.ts";

/** As the wire has it: what is not bytes does not survive. */
function sent(payload: TemporalPayload): TemporalPayload {
  const { Payload } = api.api.common.v1;
  return Payload.decode(Payload.encode(payload).finish());
}
const bytes: Codec = {
  encode: (value) => new TextEncoder().encode(`#${String(jsonCodec.encode(value))}`),
  decode: (data) => jsonCodec.decode(new TextDecoder().decode(data as Uint8Array).slice(1)),
};
const texts: Codec = {
  encode: (value) => `#${String(jsonCodec.encode(value))}`,
  decode: (data) => jsonCodec.decode(String(data).slice(1)),
};

describe("payloads", () => {
  const values: readonly (readonly [string, unknown])[] = [
    ["json/plain", null],
    ["json/plain", "text"],
    ["json/plain", { a: [1, "two", true, null], "": "é 😀" }],
    ["binary/null", undefined],
    ["binary/plain", new Uint8Array([0, 1, 255])],
    ["binary/plain", new Uint8Array(0)],
    ["json/holdfast", { at: new Date(0), set: new Set([1]) }],
    ["json/holdfast", [undefined, Number.NaN, 10n]],
    ["json/holdfast", { nested: new Uint8Array([1]) }],
  ];
  test.each(values)("P8: %s carries value %#", (encoding, value) => {
    const payloads = new Payloads(jsonCodec);
    const payload = sent(payloads.toTemporal(jsonCodec.encode(value)));
    expect(encodingOf(payload)).toBe(encoding);
    expect(jsonCodec.decode(payloads.fromTemporal(payload))).toEqual(value);
  });
  test.each(["$date", "$", "$$", "$undefined", "it costs $5"])("P8: the text %j is not taken for a tag", (text) => {
    const payloads = new Payloads(jsonCodec);
    for (const value of [text, { [text]: text }, [{ $date: text }]]) {
      expect(jsonCodec.decode(payloads.fromTemporal(sent(payloads.toTemporal(jsonCodec.encode(value)))))).toEqual(value);
      // The same from another SDK, which knows no tags.
      expect(jsonCodec.decode(payloads.fromTemporal(sent(jsonPayload(value))))).toEqual(value);
    }
  });
  test("a missing argument is undefined, and so is an empty list of arguments", () => {
    const payloads = new Payloads(jsonCodec);
    for (const none of [null, undefined, []]) expect(jsonCodec.decode(payloads.first(none))).toBeUndefined();
  });
  test.each([
    ["bytes", bytes],
    ["text", texts],
  ])("P8: what a codec encodes as %s passes unchanged, and plain values of other SDKs can be read", (_, codec) => {
    const payloads = new Payloads(codec);
    for (const [, value] of values) {
      const payload = sent(payloads.toTemporal(codec.encode(value)));
      expect(encodingOf(payload)).toBe("binary/holdfast");
      expect(codec.decode(payloads.fromTemporal(payload))).toEqual(value);
    }
    expect(codec.decode(payloads.fromTemporal(sent(jsonPayload({ a: 1 }))))).toEqual({ a: 1 });
  });
});

describe("failures", () => {
  function there(error: SerializedError, codec: Codec): SerializedError {
    const { Failure } = api.api.failure.v1;
    return fromFailure(Failure.decode(Failure.encode(toFailure(error, codec)).finish()), codec);
  }
  const errors: readonly SerializedError[] = [
    { name: "Error", message: "" },
    { name: "TypeError", message: "x is undefined", stack: "TypeError: x is undefined\n    at f (a.ts:1:2)" },
    { name: "E", message: "with data", data: { code: "HF_X", list: [1, null], rollbackError: { name: "Error", message: "undo" } } },
    { name: "E", message: "data may be null", data: null },
    { name: "A", message: "a", cause: { name: "B", message: "b", data: 1, cause: { name: "C", message: "c" } } },
    serializeError(new FatalError("no", { cause: new RangeError("inner"), data: { n: 1 } })),
  ];
  test.each(errors)("P8: $name $message comes back as it was, with and without a codec", (error) => {
    for (const codec of [jsonCodec, bytes, texts]) expect(there(error, codec)).toEqual(error);
  });
  test("E1: with a codec only name and code are readable", () => {
    const failure = toFailure({ name: "TypeError", message: "secret", stack: "secret", data: { code: "HF_X", s: "secret" } }, bytes);
    const encoded = Buffer.from(api.api.failure.v1.Failure.encode(failure).finish()).toString("latin1");
    expect(encoded).not.toContain("secret");
    expect(encoded).toContain("HF_X");
    expect(failure.applicationFailureInfo?.type).toBe("TypeError");
  });
  test("half of a surrogate pair does not make the message unreadable", () => {
    const error = there({ name: "E\ud800", message: "cut \ud83d", stack: "\udc00", cause: { name: "E", message: "😀\ud800" } }, jsonCodec);
    expect(error).toEqual({ name: "E\ufffd", message: "cut \ufffd", stack: "\ufffd", cause: { name: "E", message: "😀\ufffd" } });
  });
  test("failures of other SDKs keep name, message, causes and details", () => {
    const foreign = {
      message: "outer",
      source: "TypeScriptSDK",
      activityFailureInfo: {},
      cause: {
        message: "inner",
        source: "GoSDK",
        stackTrace: "at main",
        applicationFailureInfo: { type: "MyError", details: { payloads: [jsonPayload({ n: 1 }), jsonPayload(2)] } },
      },
    };
    expect(fromFailure(foreign, jsonCodec)).toEqual({
      name: "ActivityFailure",
      message: "outer",
      cause: { name: "MyError", message: "inner", stack: "at main", data: { details: [{ n: 1 }, 2] } },
    });
    expect(fromFailure(null, jsonCodec)).toEqual({ name: "Error", message: "" });
  });
});

describe("headers and memo", () => {
  test("encoded values inside the header come back as they were", () => {
    const header = {
      version: "2",
      isUnchecked: true,
      deadline: 5,
      key: "k",
      execution: 3,
      signals: [
        { id: "1", name: "a", payload: '{"n":1}' },
        { id: "2", name: "b", payload: new Uint8Array([1, 2]), checked: true },
        { id: "3", name: "c", payload: "not JSON" },
      ],
      keys: [
        { key: "update:1", at: 1, outcome: { value: "[1]" } },
        { key: "2", at: 2 },
      ],
    } as const;
    const fields = headerOf(header);
    expect(startHeader({ holdfast: sent(fields["holdfast"] ?? {}) })).toEqual(header);
  });
  test("a message without the header is one of another SDK", () => {
    for (const none of [null, undefined, {}, { other: jsonPayload(1) }]) {
      expect(startHeader(none)).toEqual({});
      expect(messageHeader(none)).toEqual({});
    }
  });
  test("M11: the memo has the state, the attributes and whether the run rolls back", () => {
    const state = jsonPayload({ at: 1 });
    const memo = readMemo(memoFields({ state, attributes: { a: 1, b: "x", c: true }, isRollingBack: true }));
    expect(readJson(memo.state)).toEqual({ at: 1 });
    expect(memo).toMatchObject({ attributes: { a: 1, b: "x", c: true }, isRollingBack: true });
    expect(readMemo(undefined)).toEqual({ state: undefined, attributes: {}, isRollingBack: false });
  });
});
