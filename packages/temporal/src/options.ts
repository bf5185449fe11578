// The option `temporal` of `Holdfast.open`: keys, certificates, codecs and search attributes.
// Owns: what each of them may be.
// Invariants: an option that can't be used is an InvalidInputError that names it, before anything is opened; no message has a key in it.

import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { checkOptionNames, InvalidInputError, messageOf, type OptionNames } from "@holdfast/core";
import type { TemporalOptions } from "holdfast/backend";

type Tls = NonNullable<TemporalOptions["tls"]>;
type ClientCertPair = NonNullable<Tls["clientCertPair"]>;

const OPTIONS: OptionNames<TemporalOptions> = { apiKey: true, tls: true, payloadCodecs: true, searchAttributes: true };
const TLS: OptionNames<Tls> = { serverRootCACertificate: true, clientCertPair: true, serverNameOverride: true };
const PAIR: OptionNames<ClientCertPair> = { crt: true, key: true };

export function checkedTemporalOptions(options: TemporalOptions | undefined): TemporalOptions {
  if (options === undefined) return {};
  checkObject(options, [], OPTIONS);
  const { apiKey, tls, searchAttributes } = options;
  if (apiKey !== undefined && typeof apiKey !== "function") checkApiKey(apiKey);
  if (tls !== undefined) checkTls(tls);
  if (searchAttributes !== undefined) checkSearchAttributes(searchAttributes);
  return options;
}

/** Core leaves out a key that can't be sent in a header, and the server then reports that there is none. */
export function checkApiKey(key: unknown): asserts key is string {
  if (typeof key !== "string") throw refused(`An API key is a text, not ${kindOf(key)}.`, ["apiKey"]);
  if (key === "") throw refused("The API key is empty.", ["apiKey"]);
  if (!/^[\x21-\x7e]+$/.test(key))
    throw refused("The API key has a space, a line break or a character outside of ASCII. Trim what was read from a file.", ["apiKey"]);
}

function checkTls(tls: Tls): void {
  checkObject(tls, ["tls"], TLS);
  const { serverRootCACertificate: root, clientCertPair: pair, serverNameOverride: name } = tls;
  if (root !== undefined) certificateOf(root, ["tls", "serverRootCACertificate"]);
  if (pair !== undefined) checkPair(pair);
  if (name !== undefined && (typeof name !== "string" || name === ""))
    throw refused("Expected the name of a host.", ["tls", "serverNameOverride"]);
}
function checkPair(pair: ClientCertPair): void {
  const path = ["tls", "clientCertPair"];
  checkObject(pair, path, PAIR);
  const certificate = certificateOf(pair.crt, [...path, "crt"]);
  if (!certificate.checkPrivateKey(keyOf(pair.key, [...path, "key"]))) throw refused("The key does not belong to the certificate.", path);
}
function certificateOf(given: unknown, path: readonly string[]): X509Certificate {
  const text = pemOf(given, /-----BEGIN CERTIFICATE-----/, path);
  try {
    return new X509Certificate(text);
  } catch (cause) {
    throw refused(`The certificate can't be read: ${messageOf(cause)}`, path, cause);
  }
}
function keyOf(given: unknown, path: readonly string[]): KeyObject {
  const text = pemOf(given, /-----BEGIN ([A-Z]+ )?PRIVATE KEY-----/, path);
  try {
    return createPrivateKey(text);
  } catch (cause) {
    throw refused(`The key can't be read: ${messageOf(cause)}`, path, cause);
  }
}
/** Core ignores what is not PEM. */
function pemOf(given: unknown, head: RegExp, path: readonly string[]): string {
  if (!(given instanceof Uint8Array))
    throw refused(`Expected the bytes of a PEM file, for example of readFile, not ${kindOf(given)}.`, path);
  const text = Buffer.from(given).toString("latin1");
  if (!head.test(text)) throw refused("Expected a file in PEM format, which has a line with -----BEGIN.", path);
  return text;
}

function checkSearchAttributes(names: Record<string, string>): void {
  checkObject(names, ["searchAttributes"]);
  for (const [attribute, name] of Object.entries(names) as [string, unknown][])
    if (typeof name !== "string" || name === "")
      throw refused(`Expected the name of a registered search attribute, not ${kindOf(name)}.`, ["searchAttributes", attribute]);
}

function checkObject(given: unknown, path: readonly string[], names?: Readonly<Record<string, true>>): void {
  if (typeof given !== "object" || given === null || Array.isArray(given)) throw refused(`Expected an object, not ${kindOf(given)}.`, path);
  if (names !== undefined) checkOptionNames(["Holdfast.open, option temporal", ...path].join("."), given, names);
}
function kindOf(value: unknown): string {
  if (value === "") return "an empty text";
  return value === null ? "null" : Array.isArray(value) ? "a list" : typeof value;
}
function refused(message: string, path: readonly string[], cause?: unknown): InvalidInputError {
  return new InvalidInputError({ what: "Holdfast.open", issues: [{ message, path: ["temporal", ...path] }], cause });
}
