// The part of the store's port that is about workers: which are alive, and what they serve (B6).
// Owns: the words of it. Durations are milliseconds, moments are by the store's clock.
// Invariants: a worker is listed from its first beat until it leaves, or until it has not beaten for as long as its last beat said.

import type { Served } from "./port.ts";

/** What a worker says of itself. */
export interface WorkerBeat {
  /** The id of the worker. */
  readonly id: string;
  /** The name of its machine. */
  readonly host: string;
  /** The id of its process. */
  readonly pid: number;
  /** The queue that it works for. */
  readonly queue: string;
  /** The workflows and versions that it serves. */
  readonly serves: readonly Served[];
  /** The names of the activities that it serves. */
  readonly activities: readonly string[];
  /** The most runs that it has in progress. */
  readonly concurrency: number;
  /** The most activities that it has in progress. */
  readonly activityConcurrency: number;
  /** Runs in progress. */
  readonly active: number;
  /** Activities in progress. */
  readonly activeActivities: number;
  /** How long it counts as alive after this, in milliseconds. */
  readonly aliveFor: number;
}
/** A worker that is alive. */
export interface WorkerRow extends Omit<WorkerBeat, "aliveFor"> {
  /** When it first beat, in milliseconds since 1970. */
  readonly startedAt: number;
  /** When it last beat, in milliseconds since 1970. */
  readonly seenAt: number;
}

/** What the messages of a workflow look like: text that only the engine reads. */
export interface WorkflowRow {
  /** The name of the workflow. */
  readonly workflow: string;
  /** The version of the definition; undefined for one without a version. */
  readonly version: string | undefined;
  /** What its messages look like, as JSON. */
  readonly info: string;
}

/** The workers that are alive. */
export interface WorkerStore {
  /** The worker is alive: it is listed for `aliveFor` from now. Replaces what its last beat said. */
  beat(worker: WorkerBeat): Promise<void>;
  /** The worker has stopped: it is no longer listed. */
  leave(workerId: string): Promise<void>;
  /** Those that are alive, the first that started first. */
  liveWorkers(): Promise<WorkerRow[]>;
  /** Keeps what the messages of these workflows look like, or replaces it. A worker calls it once, when it starts: beats stay small. */
  register(workflows: readonly WorkflowRow[]): Promise<void>;
}

type Info = Omit<WorkerBeat, "id" | "aliveFor">;
/** From JSON, which has no undefined: in the list of versions it is null. */
export function workerInfoOf(json: string): Info {
  const info = JSON.parse(json) as Info;
  return { ...info, serves: info.serves.map(withoutNull) };
}
function withoutNull(served: Served): Served {
  return served.versions === "*" ? served : { ...served, versions: served.versions.map((version) => version ?? undefined) };
}
