// `holdfast/testing`: what tests of workflows are written with.
// Owns: nothing; it is the door to the files beside it.
// Invariants: nothing behind it knows a test runner.

export { TestEngine, type TestEngineOptions, testEngine } from "./testEngine.ts";
