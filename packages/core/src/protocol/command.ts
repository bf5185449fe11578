// Commands: what a run tells its host to do and record; the output of a turn.
// Owns: the union `Command`, and for each kind the fields that replay compares.
// Invariants: Y2 (fields of identity), Y6 (order of emission), Y7 (every pausing operation opens with a record and settles either by a job,
// if the host carries it out, or by a `settle` command, if the executor does), C3, L3, R11, S1.

import type { SerializedError } from "../errors/index.ts";
import type { BufferedMessage } from "./job.ts";
import type { Payload } from "./payload.ts";

/** The location of an operation: unit path, name, occurrence of the name within the unit. */
interface Opening {
  readonly seq: number;
  readonly unit: string;
  readonly name: string;
  readonly n: number;
}

/** A retry policy as it is recorded: the values that the code gives; a predicate is recorded as the word "function". */
export interface RecordedRetry {
  readonly maxAttempts?: number;
  readonly initialInterval?: number;
  readonly backoff?: number;
  readonly maxInterval?: number;
  readonly jitter?: number;
  readonly nonRetryable?: readonly string[] | "function";
}

// ── operations that the host carries out; each is settled by a job ──

export interface StepCommand extends Opening {
  readonly type: "step" | "transaction";
  readonly timeout?: number;
  readonly retry?: RecordedRetry;
  /** The step has a rollback (S1): if it is cancelled it is joined, not abandoned (C7). */
  readonly rollback?: true;
}
export interface ActivityCommand extends Opening {
  readonly type: "activity";
  readonly input: Payload;
  readonly queue?: string;
  readonly retry?: RecordedRetry;
  readonly startToClose?: number;
  readonly scheduleToClose?: number;
  readonly scheduleToStart?: number;
  readonly heartbeat?: number;
}
export interface ChildCommand extends Opening {
  readonly type: "child";
  readonly input: Payload;
  readonly id: string;
  readonly queue?: string;
  readonly version?: string;
  /** Milliseconds from the start of the child. A deadline at a point in time is in `deadlineAt`. */
  readonly deadline?: number;
  readonly deadlineAt?: number;
  readonly retry?: RecordedRetry;
  readonly parentClose?: "cancel" | "abandon" | "terminate";
  readonly priority?: number;
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /** A closed run with this id gets its next execution, as a child of this run. Absent: an existing run with this id is an error. */
  readonly onConflict?: "restart-if-closed";
  /** `startChild`: settled by `childStarted`; separate `childResult` operations wait for the outcome. */
  readonly detached?: true;
}
export interface SleepCommand extends Opening {
  readonly type: "sleep";
  /** Milliseconds from the turn's time … */
  readonly duration?: number;
  /** … or a point in time. */
  readonly until?: number;
}
export interface SignalRunCommand extends Opening {
  readonly type: "signalRun";
  readonly runId: string;
  readonly signal: string;
  readonly payload: Payload;
}
export interface CancelRunCommand extends Opening {
  readonly type: "cancelRun";
  readonly runId: string;
}
/** The rollback of a completed step (S1). `name` is the location of the step. */
export interface RollbackCommand extends Opening {
  readonly type: "rollback";
  /** The `seq` of the step. */
  readonly of: number;
}

// ── operations that the executor settles by itself ──

/** A value that is computed once. If the host can't record it inline, the command has no value and is settled by a job. */
export interface SideEffectCommand extends Opening {
  readonly type: "sideEffect";
  readonly value?: Payload;
  readonly error?: SerializedError;
}
/** `waitForSignal` and `listen`. If there is a timeout, the host keeps a timer with this `seq` until the operation settles. */
export interface WaitCommand extends Opening {
  readonly type: "signal";
  readonly names: readonly string[];
  readonly count?: number;
  readonly timeout?: number;
}
export interface ChildResultCommand extends Opening {
  readonly type: "childResult";
  readonly child: number;
}
export interface ConditionCommand extends Opening {
  readonly type: "condition";
  readonly timeout?: number;
}
export interface InternalWaitCommand extends Opening {
  readonly type: "ivar" | "updateState";
}
export interface ParallelCommand extends Opening {
  readonly type: "parallel";
  readonly branches: number;
}
export interface BranchesCommand extends Opening {
  readonly type: "join" | "race";
  readonly keys: readonly string[];
}
export interface BodyCommand extends Opening {
  readonly type: "try" | "shield";
}
export interface LoopCommand extends Opening {
  readonly type: "loop";
  /** Set by the replay view of a history: a later commit exists, and nothing inside runs until it is reached (L3). */
  readonly committed?: true;
}
export interface ReceiveCommand extends Opening {
  readonly type: "receive";
  readonly timeout?: number;
  readonly checkpointEvery?: number;
  /** As in LoopCommand (R11). */
  readonly committed?: true;
}
/** A call that failed before it became an operation: its value can't be encoded, or exceeds a limit (P8, P9). */
export interface RefuseCommand extends Opening {
  readonly type: "refuse";
  readonly kind: string;
  readonly error: SerializedError;
}
/** An operation that settled before a failure that was voided: its recorded outcome is used again, nothing runs (D10). */
export interface ReuseCommand extends Opening {
  readonly type: "reuse";
  readonly kind: string;
}
export interface PatchCommand extends Opening {
  readonly type: "patch";
  readonly deprecated?: true;
}
export interface RollbackCheckpointCommand extends Opening {
  readonly type: "rollbackCheckpoint";
}
export interface AttributesCommand extends Opening {
  readonly type: "attributes";
  readonly attributes: Readonly<Record<string, string | number | boolean | null>>;
}

// ── changes of open operations ──

/** The executor settled an operation that it carries out itself. */
export interface SettleCommand {
  readonly type: "settle";
  readonly seq: number;
  readonly status: "completed" | "failed" | "canceled" | "timedOut";
  /** The ids of the signals that a wait consumed (M7). */
  readonly messages?: readonly string[];
}
/** A race is decided: its other branches are being cancelled (C3). */
export interface WinnerCommand {
  readonly type: "winner";
  readonly seq: number;
  readonly key: string;
}
/** Cancels an operation that the host carries out. With `join`, its outcome is still awaited. */
export interface CancelCommand {
  readonly type: "cancel";
  readonly seq: number;
  readonly join?: true;
}
/** A receive dispatched a message to a handler unit (M7). */
export interface DispatchCommand {
  readonly type: "dispatch";
  readonly seq: number;
  readonly unit: string;
  readonly message: string;
}
export interface AcceptUpdateCommand {
  readonly type: "acceptUpdate";
  readonly seq: number;
  readonly id: string;
}
export interface CompleteUpdateCommand {
  readonly type: "completeUpdate";
  readonly seq: number;
  readonly id: string;
  readonly status: "completed" | "failed";
  readonly value?: Payload;
  readonly error?: SerializedError;
}
/** An async signal handler failed; the run continues (A1, A2). */
export interface HandlerFailedCommand {
  readonly type: "handlerFailed";
  readonly seq: number;
  readonly unit: string;
  readonly error: SerializedError;
}
/** Replay of this loop or receive starts here; earlier records beneath it are no longer needed (L3, R11). */
export interface CommitCommand {
  readonly type: "commit";
  readonly seq: number;
  /** The location of the loop or receive: the prefix of the records that are no longer needed. */
  readonly unit: string;
  /** The number of iterations that ended, or of messages that were dispatched. */
  readonly count: number;
  readonly value: Payload;
  /** Published state, if there is one. */
  readonly state?: Payload;
  readonly messages?: readonly BufferedMessage[];
  /** Delete the records of iterations (or dispatches) before this one (L4). */
  readonly trim?: number;
  /** The highest number used so far. It is recorded because the records that used it may be trimmed, and no number is used twice. */
  readonly lastSeq: number;
  /** The numbers of steps before the scope whose rollback may still run: the checkpoints that discarded others may be trimmed (L5). */
  readonly rollbacks?: readonly number[];
}

// ── the end ──

/** The run has failed for good and rolls back its steps (S1). */
export interface RollBackCommand {
  readonly type: "rollBack";
  readonly error: SerializedError;
}
export interface CompleteCommand {
  readonly type: "complete";
  readonly value: Payload;
}
export interface FailCommand {
  readonly type: "fail";
  readonly error: SerializedError;
  /** The numbers of the operations whose failure caused it (D10). Absent: the workflow code itself failed. */
  readonly causes?: readonly number[];
  /** The run as a whole is retried after this many milliseconds. */
  readonly retryAfter?: number;
  readonly rollbackError?: SerializedError;
  /** Rollbacks have run: `resume` is refused. */
  readonly rolledBack?: true;
}
export interface CanceledCommand {
  readonly type: "canceled";
  readonly reason?: string;
  readonly value?: Payload;
  readonly error?: SerializedError;
}
export interface ContinueAsNewCommand {
  readonly type: "continueAsNew";
  readonly input: Payload;
  readonly version?: string;
  /** Signals that no unit consumed, in arrival order (P10). */
  readonly signals?: readonly { readonly id: string; readonly name: string; readonly payload: Payload }[];
}

/** Commands that open an operation. Each has a row in the table of operations. */
export type OpeningCommand =
  | StepCommand
  | ActivityCommand
  | ChildCommand
  | SleepCommand
  | SignalRunCommand
  | CancelRunCommand
  | RollbackCommand
  | SideEffectCommand
  | WaitCommand
  | ChildResultCommand
  | ConditionCommand
  | InternalWaitCommand
  | ParallelCommand
  | BranchesCommand
  | BodyCommand
  | LoopCommand
  | ReceiveCommand
  | RefuseCommand
  | ReuseCommand
  | PatchCommand
  | RollbackCheckpointCommand
  | AttributesCommand;

export type TerminalCommand = CompleteCommand | FailCommand | CanceledCommand | ContinueAsNewCommand;

export type Command =
  | OpeningCommand
  | SettleCommand
  | WinnerCommand
  | CancelCommand
  | DispatchCommand
  | AcceptUpdateCommand
  | CompleteUpdateCommand
  | HandlerFailedCommand
  | CommitCommand
  | RollBackCommand
  | TerminalCommand;

/** The fields of each kind that replay compares, besides type, unit, name and occurrence (Y2). `OPTIONS` lists fields that may change. */
export const IDENTITY: { readonly [T in Command["type"]]: readonly string[] } = {
  step: ["rollback"],
  transaction: ["rollback"],
  activity: ["input"],
  child: ["input", "id", "version", "deadline", "deadlineAt", "detached"],
  sleep: ["duration", "until"],
  signalRun: ["runId", "signal", "payload"],
  cancelRun: ["runId"],
  rollback: ["of"],
  sideEffect: [],
  signal: ["names", "count", "timeout"],
  childResult: ["child"],
  condition: ["timeout"],
  ivar: [],
  updateState: [],
  parallel: ["branches"],
  join: ["keys"],
  race: ["keys"],
  try: [],
  shield: [],
  loop: [],
  receive: ["timeout", "checkpointEvery"],
  refuse: ["kind"],
  reuse: ["kind"],
  patch: [],
  rollbackCheckpoint: [],
  attributes: [],
  settle: ["seq", "status", "messages"],
  winner: ["seq", "key"],
  cancel: ["seq"],
  dispatch: ["seq", "unit", "message"],
  acceptUpdate: ["seq", "id"],
  completeUpdate: ["seq", "id", "status"],
  handlerFailed: ["seq", "unit"],
  commit: ["seq", "count", "value"],
  rollBack: [],
  complete: ["value"],
  fail: [],
  canceled: [],
  continueAsNew: ["input", "version"],
};

const STEP_OPTIONS = ["timeout", "retry"] as const;
/** Fields that only say how an operation is carried out. Code may change them; the recorded values stay in force (Y2). */
export const OPTIONS: { readonly [T in Command["type"]]?: readonly string[] } = {
  step: STEP_OPTIONS,
  transaction: STEP_OPTIONS,
  activity: ["queue", "retry", "startToClose", "scheduleToClose", "scheduleToStart", "heartbeat", "key", "priority"],
  child: ["queue", "retry", "parentClose", "key", "priority", "attributes", "onConflict"],
  attributes: ["attributes"],
};
