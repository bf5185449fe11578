// The entry point of `@holdfast/temporal`: the backend of `Holdfast.open("temporal://…")`.
// Owns: nothing; it only re-exports.
// Invariants: the package is loaded by `holdfast` when a temporal:// URL is opened; programs need no import of it.

import type { Backend, BackendOptions } from "holdfast/backend";
import { TemporalBackend } from "./backend.ts";
import type { Timing } from "./timing.ts";

export { temporalErrors } from "./errorCatalog.ts";
export { replayHistory, type TemporalReplayOptions } from "./replay.ts";

/** Opens the engine on a Temporal cluster. `Holdfast.open` calls it. */
export function openBackend(url: string, options: BackendOptions, timing?: Partial<Timing>): Promise<Backend> {
  return TemporalBackend.open(url, options, timing);
}
