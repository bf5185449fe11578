// `@holdfast/core/testing`: the pure harness.
// Owns: nothing; it is the door to the files beside it.
// Invariants: X1 (no timers, no I/O).

export { type AutoOptions, drive, runWorkflow } from "./auto.ts";
export { crashAfter, crashAnywhere, historyOf } from "./crash.ts";
export { Harness, type HarnessOptions, type TranscriptEntry } from "./harness.ts";
