// URLs and options of an engine on Temporal: what can't be used is refused in words, before anything is opened.

import { jsonCodec } from "@holdfast/core";
import { Holdfast } from "holdfast";
import { describe, expect, test } from "vitest";
import { targetOf } from "../src/url.ts";
import { Authority } from "./server/certificates.ts";

describe("URLs", () => {
  test.each([
    ["temporal://host/%zz", "can't be decoded"],
    ["temporal://host/default?queue=a&queue=b", "more than once"],
    ["temporal://host/a/b", "has several parts"],
    ["temporal://host/default?taskQueue=a", 'The parameter "taskQueue" is not known'],
  ])("%s is refused", (url, words) => {
    expect(() => targetOf(url, undefined)).toThrow(
      expect.objectContaining({ code: "HF_INVALID_INPUT", message: expect.stringContaining(words) }),
    );
  });
  test("the path is decoded", () => {
    expect(targetOf("temporal://host/a%2Db", undefined)).toMatchObject({ address: "host:7233", namespace: "a-b", queue: "default" });
  });
});

describe("options", () => {
  const PEM = Buffer.from("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  const authority = new Authority("authority of the tests");
  const [first, second] = [authority.sign("first"), authority.sign("second")];
  const url = "temporal://127.0.0.1:1/default";
  test("certificates without encryption are refused, instead of sending everything in the clear", async () => {
    const opening = Holdfast.open(url, { temporal: { tls: { serverNameOverride: "host" } } });
    await expect(opening).rejects.toMatchObject({ code: "HF_INVALID_INPUT", message: expect.stringContaining("temporals://") });
  });
  test.each<[string, unknown, string]>([
    ["an unknown name", { apikey: "x" }, "Did you mean apiKey?"],
    ["an unknown name within tls", { tls: { ca: PEM } }, "Unknown option"],
    ["an unknown name within a pair", { tls: { clientCertPair: { crt: PEM, key: PEM, pass: "x" } } }, "Unknown option"],
    ["options that are a list", [], "Expected an object, not a list"],
    ["tls that is not an object", { tls: true }, "temporal.tls"],
    ["a certificate that is a text", { tls: { serverRootCACertificate: "x" } }, "Expected the bytes of a PEM file"],
    ["a certificate that is not PEM", { tls: { serverRootCACertificate: Buffer.from("x") } }, "Expected a file in PEM format"],
    ["a certificate that can't be read", { tls: { serverRootCACertificate: PEM } }, "The certificate can't be read"],
    ["a pair without a key", { tls: { clientCertPair: { crt: first.crt } } }, "temporal.tls.clientCertPair.key"],
    ["a key of another certificate", { tls: { clientCertPair: { ...first, key: second.key } } }, "does not belong"],
    ["a name that is not a text", { tls: { serverNameOverride: 1 } }, "temporal.tls.serverNameOverride"],
    ["an empty key", { apiKey: "" }, "The API key is empty"],
    ["a key with a line break", { apiKey: "secret\n" }, "a line break"],
    ["a key that is not a text", { apiKey: 1 }, "temporal.apiKey"],
    ["a search attribute that is not a text", { searchAttributes: { color: 1 } }, "temporal.searchAttributes.color"],
    ["a search attribute without a name", { searchAttributes: { color: "" } }, "temporal.searchAttributes.color"],
    ["search attributes that are a list", { searchAttributes: ["color"] }, "temporal.searchAttributes"],
  ])("%s is refused", async (_, temporal, words) => {
    const opening = Holdfast.open("temporals://127.0.0.1:1/default", { temporal: temporal as never });
    const error: Error = await opening.then(
      () => expect.unreachable(),
      (reason) => reason,
    );
    expect(error).toMatchObject({ code: "HF_INVALID_INPUT", message: expect.stringContaining(words) });
    expect(error.message).not.toContain("secret");
  });
  test("payload codecs that are not a list are refused", async () => {
    const opening = Holdfast.open(url, { codec: jsonCodec, temporal: { payloadCodecs: {} as never } });
    await expect(opening).rejects.toMatchObject({ code: "HF_INVALID_INPUT" });
  });
});
