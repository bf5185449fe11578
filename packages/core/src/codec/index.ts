// The entry point of codec/: how values are encoded, measured, embedded in JSON and compared.
// Owns nothing.
// Invariants: P8.
export { type Codec, encodeWithin, jsonCodec } from "./codec.ts";
export type { Json } from "./json.ts";
export { payloadExceeds, payloadFromJson, payloadSize, payloadToJson } from "./payload.ts";
export { sameValue } from "./sameValue.ts";
export { typedCodec } from "./typedCodec.ts";
