// The entry point `holdfast/backend`: the port behind `Holdfast`, `Run` and `Worker`, for packages that provide an engine.
// Owns: nothing; it only re-exports.
// Invariants: every implementation of `Backend` can be used through `Holdfast`.

export { featureOf, type OptionalFeature } from "./features.ts";
export type * from "./port.ts";
export { blockedError, engineClosed, type WaitSubject, waitTimeout } from "./waiting.ts";
