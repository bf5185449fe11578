// The door `holdfast/backend`: the port behind `Holdfast`, `Run` and `Worker`, for packages that bring an engine.
// Owns: nothing.
// Invariants: whatever implements `Backend` can be used through `Holdfast`.

export { featureOf, type OptionalFeature } from "./features.ts";
export type * from "./port.ts";
export { blockedError, engineClosed, type WaitSubject, waitTimeout } from "./waiting.ts";
