// `holdfast/testing`: the tools for testing workflows.
// Owns: nothing; it only re-exports.
// Invariants: no code here depends on a test runner.

export { TestEngine, type TestEngineOptions, testEngine } from "./testEngine.ts";
