// Cursors of lists: the server's page tokens, so that a cursor that is none is noticed here.
// Owns: their form: a short hash, then the token, in base64url.
// Invariants: a text that no page has returned is an InvalidInputError, as on the other hosts. The server would report a fault of its own for
// it, and Core would repeat the call for 10 s.

import { createHash } from "node:crypto";
import { InvalidInputError } from "@holdfast/core";

const HASH_BYTES = 6;

/** Undefined on the last page. */
export function cursorOf(token: Uint8Array | null | undefined): string | undefined {
  if (token === null || token === undefined || token.length === 0) return undefined;
  return Buffer.concat([hashOf(token), token]).toString("base64url");
}
export function tokenOf(cursor: string): Uint8Array {
  const bytes = Buffer.from(cursor, "base64url");
  const token = bytes.subarray(HASH_BYTES);
  if (cursorOf(token) === cursor) return token;
  throw new InvalidInputError({ what: "cursor", issues: [{ message: "must be one that an earlier page gave" }] });
}
function hashOf(token: Uint8Array): Buffer {
  return createHash("sha256").update(token).digest().subarray(0, HASH_BYTES);
}
