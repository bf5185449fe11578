// What a backend may lack, and what to do then.
// Owns: the names of the optional features, and the advice for each.
// Invariants: a feature that is absent is an UnsupportedError that names it, the backend and the way out; it is never ignored.

import { UnsupportedError } from "@holdfast/core";
import type { Backend } from "./port.ts";

/** What to do where the feature is absent, by the optional methods of `Backend`. */
const INSTEAD = {
  fork: "Start a new run, or open the engine on SQLite or PostgreSQL.",
  delete: "Leave the run to the retention of the service that keeps it, or delete it there.",
  bulk: "List the runs and call the action on each of them.",
  workers: "Ask the service that the workers are connected to.",
  why: "run.describe() says what the run waits for.",
} as const;

export type OptionalFeature = keyof typeof INSTEAD;

/** The optional method of this backend, ready to be called. Throws UnsupportedError where it is absent. */
export function featureOf<F extends OptionalFeature>(backend: Backend, feature: F): NonNullable<Backend[F]> {
  const method = backend[feature];
  if (method === undefined) throw new UnsupportedError({ feature, host: backend.name, instead: INSTEAD[feature] });
  return method.bind(backend) as NonNullable<Backend[F]>;
}
