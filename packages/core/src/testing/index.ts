// The entry point of `@holdfast/core/testing`: a harness without timers and I/O.
// Owns: nothing; it only re-exports.
// Invariants: X1 (no timers, no I/O).

export { type AutoOptions, drive, runWorkflow } from "./auto.ts";
export { crashAfter, crashAnywhere, historyOf } from "./crash.ts";
export { Harness, type HarnessOptions, type TranscriptEntry } from "./harness.ts";
