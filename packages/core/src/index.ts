// The door of the core: what hosts and users import.
// Owns: nothing; it re-exports.
// Invariants: X1 (nothing behind it imports a clock, a timer, I/O or a Node module).

export * from "./codec/index.ts";
export * from "./errors/index.ts";
export * from "./executor/index.ts";
export * from "./history/index.ts";
export * from "./model/index.ts";
export * from "./protocol/index.ts";
export * from "./values/index.ts";
