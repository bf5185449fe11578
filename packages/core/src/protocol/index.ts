// The protocol between a host and the executor.
// Owns: nothing; it is the door to the jobs, commands, turns and the table of operations beside it.
// Invariants: X1 (everything that passes between the two is one of these values).

export type * from "./activation.ts";
export * from "./command.ts";
export type * from "./job.ts";
export { describeOperation, formatLocation, type LocationPart, NameRegistry } from "./location.ts";
export * from "./operations.ts";
export * from "./payload.ts";
