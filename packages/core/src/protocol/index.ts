// The entry point of protocol/: the values that a host and the executor exchange.
// Owns: nothing; it only re-exports.
// Invariants: X1 (host and executor exchange nothing else).

export type * from "./activation.ts";
export * from "./command.ts";
export type * from "./job.ts";
export { childRunId, describeOperation, formatLocation, isWithin, type LocationPart, NameRegistry, parseLocation } from "./location.ts";
export * from "./operations.ts";
export * from "./payload.ts";
