// The public types for operating an engine: workers, reasons, bulk actions.
// Owns: these types.
// Invariants: as designed (test/types/designed.ts).

/** A worker that is alive. */
export interface WorkerInfo {
  /** The id of the worker. */
  id: string;
  /** The name of its machine. */
  host: string;
  /** The id of its process. */
  pid: number;
  /** The queue that it works for. */
  queue: string;
  /** The workflows and versions that it serves. */
  serves: readonly {
    /** The name of the workflow. */
    workflow: string;
    /** The versions; "*" means all, and undefined among them stands for runs without a version. */
    versions: "*" | readonly (string | undefined)[];
  }[];
  /** The names of the activities that it serves. */
  activities: readonly string[];
  /** The most runs that it has in progress. */
  concurrency: number;
  /** The most activities that it has in progress. */
  activityConcurrency: number;
  /** Runs in progress when it was last seen. */
  active: number;
  /** Activities in progress when it was last seen. */
  activeActivities: number;
  /** When it started. */
  startedAt: Date;
  /** When it last said that it is alive. */
  seenAt: Date;
}

/** Why a run does not advance: one obstacle. */
export interface Reason {
  /** The kind of obstacle, for programs. */
  kind:
    | "no-worker"
    | "queue-full"
    | "rate"
    | "after"
    | "delayed"
    | "no-activity-worker"
    | "activity"
    | "retrying"
    | "running"
    | "signal"
    | "timer"
    | "child"
    | "condition"
    | "blocked"
    | "lease"
    | "paused"
    | "closed";
  /** The obstacle in words. */
  text: string;
  /** What to do about it, if anything. */
  advice: string;
  /** Since when, if that is known. */
  since: Date | undefined;
  /** The location of the operation that it waits for. */
  location: string | undefined;
}

/** What `engine.bulk` does to each run. */
export type BulkAction =
  | {
      /** What is done to each run. */
      do: "cancel" | "terminate" | "resume" | "delete";
      /** The reason for `cancel` and `terminate`, which their errors carry. */
      reason?: string;
    }
  | {
      /** What is done to each run. */
      do: "signal";
      /** The name of the signal. */
      name: string;
      /** The payload of the signal. */
      payload?: unknown;
    };

/** The progress of a bulk action, and its result. */
export interface BulkResult {
  /** Runs found so far that match and are older than the bulk action. */
  matched: number;
  /** `succeeded` + `failed`. */
  done: number;
  /** Runs for which the action succeeded. */
  succeeded: number;
  /** Runs for which it failed. */
  failed: number;
  /** Why it failed, for the first 100 runs. */
  failures: readonly {
    /** The id of the run. */
    id: string;
    /** The code of the error. */
    code: string;
    /** Its message. */
    message: string;
  }[];
}
