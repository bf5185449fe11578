// Contents as bytes, sealed with the user's codec where required.
// Owns: nothing.
// Invariants: E1 (with a user's codec, no error and no reason is stored as plain text). Payloads are encoded where they are created.

import { type Codec, opened, sealed } from "@holdfast/core";
import { decode, encode } from "./binary.ts";

export function write(content: unknown, codec: Codec): Uint8Array {
  return encode(sealed(content, codec));
}
export function read(bytes: Uint8Array, codec: Codec): unknown {
  return opened(decode(bytes), codec);
}
