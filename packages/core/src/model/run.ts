// What callers see of a run: its status, its operations with their attempts, its portable history.
// Owns: only the types. Hosts produce the values; `history/` writes and reads the turns inside a History.
// Invariants: P11 (statuses), D12 (attempts), Y5 (a History is plain JSON and needs no store).
import type { SerializedError } from "../errors/index.ts";
import type { OperationKind } from "../protocol/index.ts";

/**
 * Where a run is in its life. Open: "pending" (no turn yet), "running" (claimed, with something to do), "sleeping" (waits for a timer,
 * message, activity or child), "blocked" (its code can't advance it), "rolling_back". Closed: "completed", "failed", "canceled",
 * "terminated", "continued" (an execution that was followed by the next one).
 */
export type RunStatus =
  | "pending"
  | "running"
  | "sleeping"
  | "blocked"
  | "rolling_back"
  | "completed"
  | "failed"
  | "canceled"
  | "terminated"
  | "continued";

/** What is known about a run, as `run.describe()` and `engine.list()` return it. */
export interface RunInfo {
  /** The id of the run. */
  id: string;
  /** The name of its workflow. */
  workflow: string;
  /** The version that it was started with. Undefined: it has none. */
  version: string | undefined;
  /** Where it is in its life. */
  status: RunStatus;
  /** The queue whose workers run it. */
  queue: string;
  /** Whose work it is: the `key` of its start. */
  key: string | undefined;
  /** Runs with a higher priority are claimed first. */
  priority: number;
  /** The schedule that started it. */
  schedule: string | undefined;
  /** The nominal time, if it was started by a tick of its schedule. */
  tick: Date | undefined;
  /** The run whose history it shares up to the fork. */
  forkedFrom: string | undefined;
  /** The input that it was started with. */
  input: unknown;
  /** What it returned. Undefined while it is open. A canceled run has one too, if its code caught the cancellation and returned. */
  output: unknown;
  /** Why it failed, was canceled, was terminated or is blocked. */
  error: SerializedError | undefined;
  /** What an open run waits for: "step charge (attempt 3 at …)", "signal approve", "timer until …", "no worker serves order@2". */
  waitingFor: readonly string[];
  /** The number of this execution in the chain of its id, from 1. */
  execution: number;
  /** The number of the attempt at the run as a whole, from 1. */
  attempt: number;
  /** The run that started it as a child. */
  parentId: string | undefined;
  /** Searchable values, by name. */
  attributes: Record<string, string | number | boolean>;
  /** When the start became durable. */
  createdAt: Date;
  /** When a worker first claimed it. */
  startedAt: Date | undefined;
  /** When an open run can be claimed next; while a worker has it, when its lease ends. Undefined: only a message wakes it. */
  availableAt: Date | undefined;
  /** When it fails if it is still open. */
  deadlineAt: Date | undefined;
  /** When it ended. Undefined: it is open. */
  finishedAt: Date | undefined;
  /** The worker that has claimed it. */
  workerId: string | undefined;
  /** The number of records in its history. */
  historyLength: number;
}

/** A durable call of a run and its status, as `run.operations()` lists it. */
export interface OperationInfo {
  /** Where it is in the run: "charge", "checkout/~3/charge#1". Unique within an execution. */
  location: string;
  /** The unit that made the call. */
  unit: string;
  /** The kind of call. */
  kind: OperationKind;
  /** The name that the call was given, or its kind. */
  name: string;
  /** Its status. "abandoned": its outcome no longer matters, because its unit was canceled or has ended. */
  status: "scheduled" | "running" | "waiting" | "completed" | "failed" | "canceled" | "abandoned";
  /** The input. Set for activities and children. */
  input: unknown;
  /** The result, once it has completed. */
  output: unknown;
  /** Why it failed. */
  error: SerializedError | undefined;
  /** Its attempts, the first one first. Empty for operations that are not attempted, such as timers. */
  attempts: readonly {
    /** The number of the attempt, from 1. */
    number: number;
    /** How it ended. "lost": its worker never reported back. */
    status: "running" | "completed" | "failed" | "lost";
    /** Why it failed. */
    error: SerializedError | undefined;
    /** When it began. */
    startedAt: Date;
    /** When it ended. Undefined: it is running. */
    endedAt: Date | undefined;
    /** The worker that ran it. */
    workerId: string;
  }[];
  /** When the call was made. */
  scheduledAt: Date;
  /** When it settled. Undefined: it is open. */
  endedAt: Date | undefined;
  /** For a child: its run id. */
  childId: string | undefined;
}

/** The portable history of a run: `JSON.stringify(await run.history())` is the input of `replay` and `holdfast replay`. */
export interface History {
  /** On Temporal the turns are the events of its own history. */
  readonly format: "holdfast-history/1" | "temporal-history/1";
  /** The run that it belongs to: `id`, `workflow`, `version`, `input` and `status`. */
  readonly run: {
    /** The id of the run. */
    id: string;
    /** The name of its workflow. */
    workflow: string;
    /** The version that it was started with. */
    version: string | undefined;
    /** The input, encoded. */
    input: unknown;
    /** Its status when the history was read. */
    status: RunStatus;
  };
  /** The recorded turns. Their format belongs to Holdfast, or to Temporal. */
  readonly turns: readonly unknown[];
}
