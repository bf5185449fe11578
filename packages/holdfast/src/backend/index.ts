// The entry point `holdfast/backend`: the port behind `Holdfast`, `Run` and `Worker`, for packages that provide an engine.
// Owns: nothing; it only re-exports.
// Invariants: every implementation of `Backend` can be used through `Holdfast`.

export type { HostErrorEntry } from "../errorCatalog.ts";
export { type CronFields, cronFields } from "../schedules/cronPattern.ts";
export { findsNothing, type Meaning, meaningOf, passes } from "../store/search/attributeTests.ts";
export { featureOf, type OptionalFeature } from "./features.ts";
export type * from "./port.ts";
export { areEqual, lengthOf } from "./scheduleSettings.ts";
export type * from "./schedules.ts";
export { blockedError, engineClosed, type WaitSubject, waitTimeout } from "./waiting.ts";
