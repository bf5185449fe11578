// Features that a backend may lack, and what to do then.
// Owns: the names of the optional features, and the advice for each.
// Invariants: using a missing feature is an UnsupportedError that names the feature, the backend and an alternative; it is never ignored.

import { UnsupportedError } from "@holdfast/core";
import type { Backend } from "./port.ts";

/** What to do if the feature is missing, by optional member of `Backend`. */
const INSTEAD = {
  fork: "Start a new run, or open the engine on SQLite or PostgreSQL.",
  delete: "Leave the run to the retention of the service that keeps it, or delete it there.",
  bulk: "List the runs and call the action on each of them.",
  workers: "Ask the service that the workers are connected to.",
  queues: "Limit a worker with its concurrency, or open the engine on SQLite or PostgreSQL.",
  schedules: "Start the runs with the scheduler of your system, or open the engine on SQLite or PostgreSQL.",
  why: "run.describe() says what the run waits for.",
} as const;

/** The features that a backend may lack. */
export type OptionalFeature = keyof typeof INSTEAD;

/**
 * The feature of a backend.
 * @throws `UnsupportedError` if the backend does not have it.
 */
export function featureOf<F extends OptionalFeature>(backend: Backend, feature: F): NonNullable<Backend[F]> {
  const member = backend[feature];
  if (member === undefined) throw new UnsupportedError({ feature, host: backend.name, instead: INSTEAD[feature] });
  return (typeof member === "function" ? member.bind(backend) : member) as NonNullable<Backend[F]>;
}
