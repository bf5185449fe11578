// The public entry point of the core: everything that hosts and users import.
// Owns: nothing; it only re-exports.
// Invariants: X1 (no module of the core imports a clock, a timer, I/O or a Node module).

export * from "./codec/index.ts";
export * from "./errors/index.ts";
export * from "./executor/index.ts";
export * from "./history/index.ts";
export * from "./model/index.ts";
export * from "./protocol/index.ts";
export * from "./values/index.ts";
