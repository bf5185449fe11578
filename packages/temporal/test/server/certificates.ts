// Certificates for the tests with TLS: an authority, and certificates that it has signed.
// Owns: their encoding (X.509 in DER, by hand: Node can read certificates and can't make them).
// Invariants: all of it is made anew in each test run, for 127.0.0.1 and localhost, and is valid for a day.

import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";

export interface Certificate {
  /** PEM. */
  readonly crt: Buffer;
  readonly key: Buffer;
}
const DAY = 24 * 3_600_000;

export class Authority {
  readonly #name: string;
  readonly #keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  #serial = 1;
  /** PEM. What a client trusts. */
  readonly crt: Buffer;

  constructor(name: string) {
    this.#name = name;
    const isAuthority = tagged(0x01, Buffer.of(0xff));
    this.crt = this.#certificate(name, this.#keys.publicKey, extension(OID.basicConstraints, sequence(isAuthority)));
  }
  sign(name: string): Certificate {
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const names = sequence(tagged(0x87, Buffer.of(127, 0, 0, 1)), tagged(0x82, Buffer.from("localhost")));
    return {
      crt: this.#certificate(name, publicKey, extension(OID.subjectAltName, names)),
      key: Buffer.from(privateKey.export({ type: "pkcs8", format: "pem" })),
    };
  }
  #certificate(subject: string, key: KeyObject, extensions: Buffer): Buffer {
    const algorithm = sequence(OID.ecdsaWithSha256);
    const content = sequence(
      tagged(0xa0, tagged(0x02, Buffer.of(2))), // version 3
      tagged(0x02, Buffer.of(this.#serial++)),
      algorithm,
      nameOf(this.#name),
      sequence(timeOf(Date.now() - DAY / 2), timeOf(Date.now() + DAY / 2)),
      nameOf(subject),
      key.export({ type: "spki", format: "der" }),
      tagged(0xa3, sequence(extensions)),
    );
    return pem(sequence(content, algorithm, bits(sign("sha256", content, this.#keys.privateKey))));
  }
}

// ── DER ──

const OID = {
  ecdsaWithSha256: Buffer.from("06082a8648ce3d040302", "hex"),
  commonName: Buffer.from("0603550403", "hex"),
  basicConstraints: Buffer.from("0603551d13", "hex"),
  subjectAltName: Buffer.from("0603551d11", "hex"),
};
function tagged(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...head), content]);
}
function sequence(...parts: readonly Uint8Array[]): Buffer {
  return tagged(0x30, ...parts);
}
function bits(content: Uint8Array): Buffer {
  return tagged(0x03, Buffer.of(0), content);
}
function nameOf(commonName: string): Buffer {
  return sequence(tagged(0x31, sequence(OID.commonName, tagged(0x0c, Buffer.from(commonName)))));
}
function timeOf(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  return tagged(0x18, Buffer.from(digits));
}
function extension(id: Buffer, value: Buffer): Buffer {
  return sequence(id, tagged(0x01, Buffer.of(0xff)), tagged(0x04, value));
}
function pem(der: Buffer): Buffer {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return Buffer.from(`-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`);
}
