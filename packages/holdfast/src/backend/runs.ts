// The part of the port of backends about runs: starting them, what is known about them, sending to them.
// Owns: types only.
// Invariants: values of users are encoded; times are milliseconds since 1970 by the clock of the backend.

import type { Job, Payload, RunStatus, SerializedError, StoredRunRetry } from "@holdfast/core";

// ───────────────────────────── runs ─────────────────────────────

/** A run to be started. */
export interface RunStart {
  /** The id of the run. */
  readonly id: string;
  /** The caller gave no id, so the backend may use another, for example one made from the idempotency key. */
  readonly isIdGenerated?: boolean | undefined;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that runs it. */
  readonly version: string | undefined;
  /** The input, encoded. */
  readonly input: Payload;
  /** False if the caller has no definition, so that no schema was applied to `input`. The worker applies it before the first turn. */
  readonly isChecked: boolean;
  /** The queue whose workers run it. */
  readonly queue: string;
  /** Whose work it is: limits and fairness of the queue depend on it (Q). */
  readonly key?: string | undefined;
  /** It begins once the run with this id has closed (Q10). */
  readonly after?: string | undefined;
  /** With "debounce": the longest that later starts may put this one off (Q9). */
  readonly maxDelay?: number | undefined;
  /** The schedule that starts it (T). */
  readonly schedule?: string | undefined;
  /** The nominal time of the tick, if it is one and not a trigger. */
  readonly tick?: number | undefined;
  /** How long it is kept once it has closed, by its workflow (B4). Absent: as the engine says that writes the end. */
  readonly retention?: number | "forever" | undefined;
  /** Higher goes first. */
  readonly priority: number;
  /** The run does not begin before this duration from now has passed … */
  readonly delay?: number | undefined;
  /** … or before this moment. At most one of the two is set. */
  readonly startAt?: number | undefined;
  /** The run fails if it is still open this long from now (K7) … */
  readonly deadline?: number | undefined;
  /** … or at this moment. At most one of the two is set. */
  readonly deadlineAt?: number | undefined;
  /** Retry of the run as a whole. */
  readonly retry?: StoredRunRetry | undefined;
  /** Searchable values, by name. */
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** A repeated start with the same key finds the run of the first one, whatever its id (M3). Keys are separate for each workflow. */
  readonly idempotencyKey?: string | undefined;
  /** What to do if a run with this id and workflow exists. If it belongs to another workflow, it is always a conflict (M3). */
  readonly onConflict: "reject" | "use-existing" | "restart-if-closed" | "replace" | "debounce";
  /** Randomness for the first execution (P7). Unused by a backend whose service creates its own seeds. */
  readonly seed: string;
  /** Delivered in the first activation (M8), or to the existing run with "use-existing". At most one is an update. */
  readonly messages?: readonly Message<SignalJob | UpdateJob>[] | undefined;
}

/** The result of a start. */
export type StartAnswer =
  /** The run's id: with an idempotency key it may differ from the id asked for (M3). */
  | {
      /** Whether the run was created, or one that exists is used. */
      readonly status: "created" | "existing";
      /** The id of the run. */
      readonly id: string;
    }
  /**
   * Nothing was written: the id is taken and `onConflict` is "reject", the existing run is closed and can't get the messages of a
   * "use-existing" start, or the existing run belongs to another workflow. `workflow` and `runStatus` are those of the existing run.
   */
  | {
      readonly status: "conflict";
      /** The id that is taken. */
      readonly id: string;
      /** The status of the run that has the id. */
      readonly runStatus: RunStatus;
      /** The workflow of the run that has the id. */
      readonly workflow: string;
    }
  /** This start failed; the caller gets `error`. */
  | {
      readonly status: "failed";
      /** Why it could not be started. */
      readonly error: unknown;
    };

/** A run as it stood when it was read. */
export interface RunSnapshot {
  /** The id of the run. */
  readonly id: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that it was started with. */
  readonly version: string | undefined;
  /** Where it is in its life. */
  readonly status: RunStatus;
  /** The queue whose workers run it. */
  readonly queue: string;
  /** Whose work it is. */
  readonly key?: string | undefined;
  /** The schedule that started it. */
  readonly schedule?: string | undefined;
  /** The nominal time, if a tick of its schedule started it. */
  readonly tick?: number | undefined;
  /** The run whose history it shares. */
  readonly forkedFrom?: string | undefined;
  /** Higher goes first. */
  readonly priority: number;
  /** The input, encoded. */
  readonly input: Payload;
  /** What it returned, encoded. */
  readonly output: Payload | undefined;
  /** Why it failed, was canceled, was terminated or is blocked. */
  readonly error: SerializedError | undefined;
  /** For a failed run: whether `resume` would continue it (D10). */
  readonly resumable?: boolean | undefined;
  /** The published state (P5). */
  readonly state: Payload | undefined;
  /** The number of its execution, from 1. */
  readonly execution: number;
  /** The number of the attempt at the run as a whole, from 1. */
  readonly attempt: number;
  /** The run that started it as a child: its `runId`. */
  readonly parent:
    | {
        /** The id of the parent. */
        readonly runId: string;
      }
    | undefined;
  /** Searchable values, by name. */
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** When it was created. */
  readonly createdAt: number;
  /** When it was first claimed. */
  readonly startedAt: number | undefined;
  /** When it can be claimed next; while a worker has it, when its lease ends. Undefined: only a message wakes it. */
  readonly availableAt: number | undefined;
  /** When it fails if it is still open. */
  readonly deadlineAt: number | undefined;
  /** Undefined while the run is open. */
  readonly finishedAt: number | undefined;
  /** The worker that has claimed it. */
  readonly workerId: string | undefined;
  /** The number of records in its history. */
  readonly historyLength: number;
}
/** A snapshot, with a description of what an open run waits for (P11). */
export interface RunDescription extends RunSnapshot {
  /** What it waits for, in words. */
  readonly waitingFor: readonly string[];
}
/** How a run ended, or that it is blocked (V4): `error` has the reason. */
export type RunEnd = Pick<RunSnapshot, "id" | "status" | "output" | "error" | "resumable">;

// ─────────────────────────── messages ───────────────────────────

/** A signal, as a turn gets it. */
export type SignalJob = Extract<Job, { type: "signal" }>;
/** An update, as a turn gets it. */
export type UpdateJob = Extract<Job, { type: "update" }>;
/** A cancellation, as a turn gets it. */
export type CancelJob = Extract<Job, { type: "cancel" }>;

/** A message for a run. Its payload is as sent, checked against the schema; the worker transforms it by the schema. */
export interface Message<J extends SignalJob | UpdateJob | CancelJob> {
  /** The job that a turn gets. */
  readonly job: J;
  /** A repeated send with the same key is delivered once (M3). For updates the job's id is the key, even if it is not set here. */
  readonly idempotencyKey?: string | undefined;
  /** For an update: how long it is offered to the run until a `receive` accepts it. Undefined: it is offered once (M8). */
  readonly acceptWithin?: number | undefined;
}
/** A message and its recipient. If `workflow` is set, only a run of that workflow accepts it (M3); this is checked before the key. */
export interface AddressedTo<M> {
  /** The run that gets it. */
  readonly runId: string;
  /** The workflow that the run must belong to. Undefined: any. */
  readonly workflow: string | undefined;
  /** The message. */
  readonly message: M;
}

/** Why a message was not delivered. */
export type NotDelivered =
  | { readonly status: "not-found" }
  | {
      readonly status: "closed";
      /** How the run has ended. */
      readonly runStatus: RunStatus;
    }
  | {
      readonly status: "other-workflow";
      /** The workflow that the run belongs to. */
      readonly workflow: string;
    };
/** The result of sending a message. */
export type SendAnswer = { readonly status: "sent" } | { readonly status: "duplicate" } | NotDelivered;

/** The outcome of an update. "failed": its handler failed. "rejected": it was not accepted, and nothing was added to the history. */
export type UpdateOutcome =
  | {
      readonly status: "completed";
      /** The reply, encoded. */
      readonly value: Payload;
    }
  | {
      /** Whether its handler failed, or no receive accepted it. */
      readonly status: "failed" | "rejected";
      /** Why. */
      readonly error: SerializedError;
    };
/** The result of an update. */
export type UpdateAnswer = UpdateOutcome | NotDelivered;

/** The result of a request to resume a run. */
export type ResumeAnswer = "resumed" | "woken" | "not-found" | "not-resumable";

/** How long a caller waits. The wait rejects with `waitTimeout(…)` after `timeout`, and with the signal's reason if it aborts. */
export interface WaitOptions {
  /** How long to wait, in milliseconds. */
  readonly timeout?: number | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}
