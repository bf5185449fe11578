// Contents as bytes, with what a user's codec has to seal in them.
// Owns: nothing.
// Invariants: E1 (no error and no reason is stored as plain text where there is a codec of the user's). Payloads are encoded where they
// are made.

import { type Codec, opened, sealed } from "@holdfast/core";
import { decode, encode } from "./binary.ts";

export function write(content: unknown, codec: Codec): Uint8Array {
  return encode(sealed(content, codec));
}
export function read(bytes: Uint8Array, codec: Codec): unknown {
  return opened(decode(bytes), codec);
}
