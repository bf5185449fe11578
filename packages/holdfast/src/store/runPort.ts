// The part of the port of stores about runs: what is created, what is read, what is sent to them.
// Owns: types only.
// Invariants: values of users are encoded; times are milliseconds since 1970 by the clock of the store.

import type { Job, Payload, RunStatus, SerializedError, StoredRunRetry } from "@holdfast/core";
import type { CopiedHistory, ForkMessage } from "./forkPort.ts";
import type { TurnCommit } from "./port.ts";

// ───────────────────────────── runs ─────────────────────────────

/** A run to be created. */
export interface NewRun {
  /** The id of the run. */
  readonly id: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that runs it. */
  readonly version: string | undefined;
  /** The input, encoded. */
  readonly input: Payload;
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
  /** The nominal time of the tick, if it is one and not a trigger, in milliseconds since 1970. */
  readonly tick?: number | undefined;
  /** How long it is kept once it has closed, by its workflow (B4). Absent: as the engine says that writes the end. */
  readonly retention?: number | "forever" | undefined;
  /** The run whose history it shares. */
  readonly forkedFrom?: string | undefined;
  /** The history that a fork begins with (F1). Only with "reject". */
  readonly copied?: CopiedHistory | undefined;
  /** Higher goes first. */
  readonly priority: number;
  /** Not before this long from now (a message does not start it sooner; a cancel ends it, K9) … */
  readonly delay?: number | undefined;
  /** … or not before this moment. */
  readonly startAt?: number | undefined;
  /** It fails if it is still open this long from now, in milliseconds (K7) … */
  readonly deadline?: number | undefined;
  /** … or at this moment, in milliseconds since 1970. */
  readonly deadlineAt?: number | undefined;
  /** Retry of the run as a whole. */
  readonly retry?: StoredRunRetry | undefined;
  /** Searchable values, by name. */
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /**
   * Kept by (workflow, key) for the life of the run, which can have several: a start that is repeated under its key finds the run of the first,
   * whatever id and onConflict it names, and sends nothing again; the same key under another workflow is another start (M3).
   */
  readonly idempotencyKey?: string | undefined;
  /**
   * A run of this id that is of another workflow is a conflict, whatever this says (M3). Of the same workflow:
   * "reject": a run of this id is an error. "use-existing": it is found. "restart-if-closed": a closed one gets its next execution, with
   * all that this start says (no parent, if it names none); used keys, outcomes of updates and published state stay with the run (P10).
   * With a `parent` an open one is a conflict as with "reject": a child is never taken over from the run that waits for it.
   * "reopen": a parent that goes on after a failure asks again for the child of this very `parent` link (D10). An open one is found, a
   * completed one answers the parent again, a failed one that can be resumed is, any other gets its next execution; whichever it is, with
   * `announce` the parent is first notified that it exists. A run that is not that child is a conflict, as with "reject".
   * "replace", "debounce": one that no worker has claimed takes this start, but keeps its parent and its place in the queue; a closed one
   * gets its next execution; one that has begun gets this as its next start, and with "replace" a cancellation (Q9).
   */
  readonly onConflict: "reject" | "use-existing" | "restart-if-closed" | "reopen" | "replace" | "debounce";
  /** Randomness of its first execution (P7). */
  readonly seed: string;
  /** The operation of another run that it is the child of. */
  readonly parent?: ParentLink | undefined;
  /**
   * Its id was derived from its parent's. Such a run makes way if it is left over from an earlier parent of that id: a closed child whose
   * parent was removed, of the same workflow, unless that keeps it forever. It is removed in the same transaction (B4).
   */
  readonly replacesOrphan?: true | undefined;
  /** Messages that are there from the start (M8); with "use-existing" they go to the run that exists. */
  readonly messages?: readonly NewMessage[] | undefined;
  /**
   * The first turn was computed before the run exists (no claim needed): it is created already leased to this worker at epoch 1,
   * and this commit, which names epoch 1, is applied with it. If the run turns out to exist, nothing of it is.
   * Q2: a run with a key, or in a queue with limits or a pause, is created without it: the answer says `begun: false`.
   */
  readonly first?:
    | {
        /** The worker that has run the first turn. */
        readonly workerId: string;
        /** How long the run stays claimed from now, in milliseconds. */
        readonly lease: number;
        /** What the first turn decided. */
        readonly commit: TurnCommit;
      }
    | undefined;
}
/** The operation that started a child. */
export interface ParentLink {
  /** The id of the parent. */
  readonly runId: string;
  /** Only this execution of the parent is notified of the child's end: the next one uses the numbers again. `parentClose` applies to the chain (P10). */
  readonly execution: number;
  /** The number of the operation. */
  readonly seq: number;
  /** What happens to the open child when its parent closes. */
  readonly parentClose: "cancel" | "abandon" | "terminate";
  /** Put a `childStarted` into the parent's inbox when it exists (`startChild`). Its end comes as a `resolve` either way. */
  readonly announce: boolean;
}
/** The result of a start. */
export type CreateResult =
  | {
      /** Whether the run was created, or one that exists is used. */
      readonly status: "created" | "existing";
      /** The id of the run. */
      readonly id: string;
      /** The number of its execution. */
      readonly execution: number;
      /** The ids that the messages of the start have in the inbox, in order. */
      readonly inboxIds: readonly number[];
      /** Q2: the run was created, but not with its first turn: a claim begins it. */
      readonly begun?: false;
    }
  /**
   * "reject" and the id is taken; "use-existing" with messages, and the run is closed; or whatever was asked for, and the run is of
   * another workflow (M3). `workflow` is that of the existing run.
   */
  | {
      readonly status: "conflict";
      /** The id that is taken. */
      readonly id: string;
      /** The status of the run that has the id. */
      readonly runStatus: RunStatus;
      /** The workflow of the run that has the id. */
      readonly workflow: string;
    };

/** A run as callers see it. */
export interface RunRow {
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
  /** The nominal time, if a tick of its schedule started it, in milliseconds since 1970. */
  readonly tick?: number | undefined;
  /** The run whose history it shares. */
  readonly forkedFrom?: string | undefined;
  /** The run that it waits for before it begins (Q10). */
  readonly after?: string | undefined;
  /** As `NewRun.retention`. */
  readonly retention?: number | "forever" | undefined;
  /** Higher goes first. */
  readonly priority: number;
  /** The input, encoded. */
  readonly input: Payload;
  /** What it returned, encoded. */
  readonly output: Payload | undefined;
  /** Why it failed, was canceled, was terminated or is blocked. */
  readonly error: SerializedError | undefined;
  /** Of a failed run: would `resume` go on with it (D10)? */
  readonly resumable?: boolean | undefined;
  /** The published state (P5). */
  readonly state: Payload | undefined;
  /** What it waits for, in words. */
  readonly waitingFor: readonly string[];
  /** The number of its execution, from 1. */
  readonly execution: number;
  /** The number of the attempt at the run as a whole, from 1. */
  readonly attempt: number;
  /** The operation that started it as a child. */
  readonly parent: ParentLink | undefined;
  /** Searchable values, by name. */
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** The seed of its random numbers. */
  readonly seed: string;
  /** Retry of the run as a whole. */
  readonly retry: StoredRunRetry | undefined;
  /** When it was created, in milliseconds since 1970. */
  readonly createdAt: number;
  /** When it was first claimed, in milliseconds since 1970. */
  readonly startedAt: number | undefined;
  /** When it can be claimed next; for a leased run, when its lease ends. Undefined: only a message wakes it. */
  readonly availableAt: number | undefined;
  /** When it fails if it is still open, in milliseconds since 1970. */
  readonly deadlineAt: number | undefined;
  /** When it ended, in milliseconds since 1970. */
  readonly finishedAt: number | undefined;
  /** The worker that has claimed it. */
  readonly workerId: string | undefined;
  /** The number of its claim: a write with an older one is refused (D4). */
  readonly epoch: number;
  /** Records that are kept in the history of this execution: trimmed ones don't count. */
  readonly historyLength: number;
  /** Turns committed in this execution, trimmed ones included. */
  readonly turns: number;
  /** Claims of an expired lease since the last commit (D7). */
  readonly recoveries: number;
}

// ─────────────────────────── messages ───────────────────────────

/** What may be put into the inbox of a run: a job that its next turn consumes. */
export type InboxJob =
  | Extract<Job, { type: "signal" | "update" | "cancel" | "resolve" | "childStarted" | "expire" | "resume" }>
  | ForkMessage;
/** A message to a run. */
export interface NewMessage {
  /** The job that its next turn consumes. */
  readonly job: InboxJob;
  /**
   * A repeated send with the same key is one delivery (M3). For updates the key is the update's id, whether or not it is named here; the
   * outcome of one that is not is kept for an hour at least, and goes with a later commit of the run that records an outcome (M10).
   */
  readonly idempotencyKey?: string | undefined;
  /** Of an update: how long it may wait in the inbox to be accepted. The store makes `acceptUntil` of its job of that (M8). */
  readonly acceptWithin?: number | undefined;
}
/** A message in the inbox of a run. */
export interface InboxMessage {
  /** Grows with arrival within the store. */
  readonly id: number;
  /** The job that its next turn consumes. */
  readonly job: InboxJob;
}
/** The result of sending a message. */
export type SendResult =
  /**
   * Keys are looked at before the run's status: what was acknowledged once is acknowledged again, also after the run has closed. A cancel
   * of a run that is canceled is such a repetition.
   */
  | {
      /** Whether it is new, or its key was used before. */
      readonly status: "sent" | "duplicate";
      /** Its id in the inbox. */
      readonly inboxId: number;
    }
  | {
      readonly status: "not-found";
    }
  | {
      readonly status: "closed";
      /** How the run has ended. */
      readonly runStatus: RunStatus;
    }
  /** M3: the sender named a workflow, and the run is of this one. */
  | {
      readonly status: "other-workflow";
      /** The workflow that the run belongs to. */
      readonly workflow: string;
    };

/** A message for a run. With `workflow` it is sent only to a run of that workflow (M3); that is looked at before its key. */
export interface AddressedMessage {
  /** The run that gets it. */
  readonly runId: string;
  /** The message. */
  readonly message: NewMessage;
  /** The workflow that the run must belong to. */
  readonly workflow?: string | undefined;
}

/**
 * The end of an update, for its callers. No caller waits forever: when a run closes, updates that are still in its inbox are rejected with
 * RunClosedError, and those that a turn has consumed and that have no outcome (terminate, a deadline) fail with it.
 */
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

// ─────────────────────────── attempts ───────────────────────────

/** One attempt of a step (D12). The first attempt of a step that never failed has no row: its command and its outcome say everything. */
export interface AttemptRow {
  /** The number of the operation. */
  readonly seq: number;
  /** The number of the attempt, from 1. */
  readonly number: number;
  /** How it ended. "lost": its worker never reported back. */
  readonly status: "running" | "failed" | "completed" | "lost";
  /** Why it failed. */
  readonly error?: SerializedError | undefined;
  /** When it began, in milliseconds since 1970. */
  readonly startedAt: number;
  /** When it ended, in milliseconds since 1970. Absent: it is running. */
  readonly endedAt?: number | undefined;
  /** Empty: the worker that recorded the step. */
  readonly workerId: string;
  /** Of a failed one: when the next is due (D8). */
  readonly retryAt?: number | undefined;
}
