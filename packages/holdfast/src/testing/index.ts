// `holdfast/testing`: what tests of workflows, and of stores, are written with.
// Owns: nothing; it is the door to the files beside it.
// Invariants: nothing behind it knows a test runner.

export { type StoreConformanceOptions, storeConformance } from "./storeConformance/index.ts";
export { TestEngine, type TestEngineOptions, testEngine } from "./testEngine.ts";
