// Commands: what a run tells its host to do and record; the output of a turn.
// Owns: the union `Command`, and for each kind the fields that replay compares.
// Invariants: Y2 (fields of identity), Y6 (order of emission), Y7 (every pausing operation opens with a record and settles either by a job,
// if the host carries it out, or by a `settle` command, if the executor does), C3, L3, R11, S1.

import type { SerializedError } from "../errors/index.ts";
import type { BufferedMessage } from "./job.ts";
import type { Payload } from "./payload.ts";

/** The location of an operation: unit path, name, occurrence of the name within the unit. */
interface Opening {
  /** The number of the operation within its execution. */
  readonly seq: number;
  /** The unit that made the call. */
  readonly unit: string;
  /** The name that the call was given, or its kind. */
  readonly name: string;
  /** Its number among the operations of that name in its unit, from 0. */
  readonly n: number;
}

/** A retry policy as it is recorded: the values that the code gives; a predicate is recorded as the word "function". */
export interface RecordedRetry {
  /** Total attempts, including the first. */
  readonly maxAttempts?: number;
  /** Delay before the second attempt, in milliseconds. */
  readonly initialInterval?: number;
  /** Factor by which each delay is longer than the one before. */
  readonly backoff?: number;
  /** The longest delay, in milliseconds. */
  readonly maxInterval?: number;
  /** The share of each delay that is random. */
  readonly jitter?: number;
  /** Class names of errors that are never retried. "function": the code has a predicate, which is not recorded. */
  readonly nonRetryable?: readonly string[] | "function";
}

// ── operations that the host carries out; each is settled by a job ──

/** `ctx.step` or `ctx.transaction` was called. */
export interface StepCommand extends Opening {
  /** Which of the two. */
  readonly type: "step" | "transaction";
  /** Longest duration of one attempt, in milliseconds. */
  readonly timeout?: number;
  /** Its retry policy. */
  readonly retry?: RecordedRetry;
  /** The step has a rollback (S1): if it is cancelled it is joined, not abandoned (C7). */
  readonly rollback?: true;
}
/** `ctx.activity` was called. */
export interface ActivityCommand extends Opening {
  readonly type: "activity";
  /** The input, encoded. */
  readonly input: Payload;
  /** The queue whose workers run it. */
  readonly queue?: string;
  /** Its retry policy. */
  readonly retry?: RecordedRetry;
  /** Longest duration of one attempt, in milliseconds. */
  readonly startToClose?: number;
  /** Longest time from scheduling to the end, in milliseconds. */
  readonly scheduleToClose?: number;
  /** Longest wait for the first attempt to be claimed, in milliseconds. */
  readonly scheduleToStart?: number;
  /** Longest time between two heartbeats, in milliseconds. */
  readonly heartbeat?: number;
  /** Whose work it is. */
  readonly key?: string;
  /** Higher goes first. */
  readonly priority?: number;
}
/** `ctx.child` or `ctx.startChild` was called. */
export interface ChildCommand extends Opening {
  readonly type: "child";
  /** The input, encoded. */
  readonly input: Payload;
  /** The run id of the child. */
  readonly id: string;
  /** The queue whose workers run it. */
  readonly queue?: string;
  /** The version that runs it. */
  readonly version?: string;
  /** Milliseconds from the start of the child. A deadline at a point in time is in `deadlineAt`. */
  readonly deadline?: number;
  /** When it fails if it is still open, in milliseconds since 1970. */
  readonly deadlineAt?: number;
  /** Retry of the child run as a whole. */
  readonly retry?: RecordedRetry;
  /** What happens to the open child when its parent closes. */
  readonly parentClose?: "cancel" | "abandon" | "terminate";
  /** Whose work it is. */
  readonly key?: string;
  /** Higher goes first. */
  readonly priority?: number;
  /** Searchable values, by name. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /** A closed run with this id gets its next execution, as a child of this run. Absent: an existing run with this id is an error. */
  readonly onConflict?: "restart-if-closed";
  /** `startChild`: settled by `childStarted`; separate `childResult` operations wait for the outcome. */
  readonly detached?: true;
}
/** `ctx.sleep` or `ctx.sleepUntil` was called. */
export interface SleepCommand extends Opening {
  readonly type: "sleep";
  /** Milliseconds from the turn's time … */
  readonly duration?: number;
  /** … or a point in time. */
  readonly until?: number;
}
/** `ctx.signalRun` was called. */
export interface SignalRunCommand extends Opening {
  readonly type: "signalRun";
  /** The run that gets the signal. */
  readonly runId: string;
  /** The name of the signal. */
  readonly signal: string;
  /** The payload, encoded. */
  readonly payload: Payload;
}
/** `ctx.cancelRun` was called. */
export interface CancelRunCommand extends Opening {
  readonly type: "cancelRun";
  /** The run to cancel. */
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
  /** The recorded value, encoded. */
  readonly value?: Payload;
  /** The recorded error. */
  readonly error?: SerializedError;
}
/** `waitForSignal` and `listen`. If there is a timeout, the host keeps a timer with this `seq` until the operation settles. */
export interface WaitCommand extends Opening {
  readonly type: "signal";
  /** The names of the signals that it waits for. */
  readonly names: readonly string[];
  /** How many signals it consumes at most. */
  readonly count?: number;
  /** How long it waits, in milliseconds. */
  readonly timeout?: number;
}
/** `result()` of a child's handle was called. */
export interface ChildResultCommand extends Opening {
  readonly type: "childResult";
  /** The number of the operation that started the child. */
  readonly child: number;
}
/** `ctx.condition` was called. */
export interface ConditionCommand extends Opening {
  readonly type: "condition";
  /** How long it waits, in milliseconds. */
  readonly timeout?: number;
}
/** A unit waits for a value of another unit, or to change the state of its receive. */
export interface InternalWaitCommand extends Opening {
  /** "ivar": for the value of an `ivar`. "updateState": for the sync handler that holds the state. */
  readonly type: "ivar" | "updateState";
}
/** `ctx.parallel` was called. */
export interface ParallelCommand extends Opening {
  readonly type: "parallel";
  /** The number of branches. */
  readonly branches: number;
}
/** `ctx.join` or `ctx.race` was called. */
export interface BranchesCommand extends Opening {
  /** Which of the two. */
  readonly type: "join" | "race";
  /** The names of the branches. */
  readonly keys: readonly string[];
}
/** `ctx.try` or `ctx.shield` was called. */
export interface BodyCommand extends Opening {
  /** Which of the two. */
  readonly type: "try" | "shield";
}
/** `ctx.loop` was called. */
export interface LoopCommand extends Opening {
  readonly type: "loop";
  /** Set by the replay view of a history: a later commit exists, and nothing inside runs until it is reached (L3). */
  readonly committed?: true;
}
/** `ctx.receive` was called. */
export interface ReceiveCommand extends Opening {
  readonly type: "receive";
  /** When it closes, in milliseconds from now. */
  readonly timeout?: number;
  /** After how many messages it commits its state. */
  readonly checkpointEvery?: number;
  /** As in LoopCommand (R11). */
  readonly committed?: true;
}
/** A call that failed before it became an operation: its value can't be encoded, or exceeds a limit (P8, P9). */
export interface RefuseCommand extends Opening {
  readonly type: "refuse";
  /** The kind of call that was refused. */
  readonly kind: string;
  /** Why. */
  readonly error: SerializedError;
}
/** An operation that settled before a failure that was voided: its recorded outcome is used again, nothing runs (D10). */
export interface ReuseCommand extends Opening {
  readonly type: "reuse";
  /** The kind of call. */
  readonly kind: string;
}
/** A unit took the new path of a patch, or passed a `deprecatePatch` (`deprecated`). */
export interface PatchCommand extends Opening {
  readonly type: "patch";
  readonly deprecated?: true;
}
/** `ctx.rollbackCheckpoint` was called. */
export interface RollbackCheckpointCommand extends Opening {
  readonly type: "rollbackCheckpoint";
}
/** `ctx.setAttributes` was called. */
export interface AttributesCommand extends Opening {
  readonly type: "attributes";
  /** The attributes that change; null removes one. */
  readonly attributes: Readonly<Record<string, string | number | boolean | null>>;
}

// ── changes of open operations ──

/** The executor settled an operation that it carries out itself. */
export interface SettleCommand {
  readonly type: "settle";
  /** The number of the operation. */
  readonly seq: number;
  /** How it ended. "timedOut": its timer fired first. */
  readonly status: "completed" | "failed" | "canceled" | "timedOut";
  /** The ids of the signals that a wait consumed (M7). */
  readonly messages?: readonly string[];
}
/** A race is decided: its other branches are being cancelled (C3). */
export interface WinnerCommand {
  readonly type: "winner";
  /** The number of the race. */
  readonly seq: number;
  /** The name of the branch that won. */
  readonly key: string;
}
/** Cancels an operation that the host carries out. With `join`, its outcome is still awaited. */
export interface CancelCommand {
  readonly type: "cancel";
  /** The number of the operation. */
  readonly seq: number;
  readonly join?: true;
}
/** A receive dispatched a message to a handler unit (M7). */
export interface DispatchCommand {
  readonly type: "dispatch";
  /** The number of the receive. */
  readonly seq: number;
  /** The unit of the handler. */
  readonly unit: string;
  /** The id of the message. */
  readonly message: string;
}
/** A receive has accepted an update. */
export interface AcceptUpdateCommand {
  readonly type: "acceptUpdate";
  /** The number of the receive. */
  readonly seq: number;
  /** The id of the update. */
  readonly id: string;
}
/** The handler of an update has ended. */
export interface CompleteUpdateCommand {
  readonly type: "completeUpdate";
  /** The number of the receive. */
  readonly seq: number;
  /** The id of the update. */
  readonly id: string;
  /** How it ended. */
  readonly status: "completed" | "failed";
  /** The reply, encoded. */
  readonly value?: Payload;
  /** Why it failed. */
  readonly error?: SerializedError;
}
/** An async signal handler failed; the run continues (A1, A2). */
export interface HandlerFailedCommand {
  readonly type: "handlerFailed";
  /** The number of the receive. */
  readonly seq: number;
  /** The unit of the handler. */
  readonly unit: string;
  /** Why it failed. */
  readonly error: SerializedError;
}
/** Replay of this loop or receive starts here; earlier records beneath it are no longer needed (L3, R11). */
export interface CommitCommand {
  readonly type: "commit";
  /** The number of the loop or receive. */
  readonly seq: number;
  /** The location of the loop or receive: the prefix of the records that are no longer needed. */
  readonly unit: string;
  /** The number of iterations that ended, or of messages that were dispatched. */
  readonly count: number;
  /** The committed state, encoded. */
  readonly value: Payload;
  /** Published state, if there is one. */
  readonly state?: Payload;
  /** Messages that no unit has consumed yet. */
  readonly messages?: readonly BufferedMessage[];
  /** Delete the records of iterations (or dispatches) before this one (L4). */
  readonly trim?: number;
  /** The highest number used so far. It is recorded because the records that used it may be trimmed, and no number is used twice. */
  readonly lastSeq: number;
  /** The numbers of steps before the scope whose rollback may still run: the checkpoints that discarded others may be trimmed (L5). */
  readonly rollbacks?: readonly number[];
}

// ── the end ──

/** The run has failed for good, or was canceled, and rolls back its steps (S1, S3). */
export interface RollBackCommand {
  readonly type: "rollBack";
  /** Why the run rolls back. */
  readonly error: SerializedError;
}
/** The run has completed. */
export interface CompleteCommand {
  readonly type: "complete";
  /** What it returned, encoded. */
  readonly value: Payload;
}
/** The execution has failed; with `retryAfter` the run is tried again. */
export interface FailCommand {
  readonly type: "fail";
  /** Why. */
  readonly error: SerializedError;
  /** The numbers of the operations whose failure caused it (D10). Absent: the workflow code itself failed. */
  readonly causes?: readonly number[];
  /** The run as a whole is retried after this many milliseconds. */
  readonly retryAfter?: number;
  /** Why a rollback failed, too. */
  readonly rollbackError?: SerializedError;
  /** Rollbacks have run: `resume` is refused. */
  readonly rolledBack?: true;
}
/** The run was canceled. */
export interface CanceledCommand {
  readonly type: "canceled";
  /** The reason that the caller gave. */
  readonly reason?: string;
  /** What its root returned all the same, encoded. */
  readonly value?: Payload;
  /** What its root threw. */
  readonly error?: SerializedError;
}
/** The run continues with its next execution. */
export interface ContinueAsNewCommand {
  readonly type: "continueAsNew";
  /** The input of the next execution, encoded. */
  readonly input: Payload;
  /** The version of the next execution. */
  readonly version?: string;
  /** Signals that no unit consumed, in arrival order (P10). */
  readonly signals?: readonly {
    /** The id of the signal. */
    readonly id: string;
    /** Its name. */
    readonly name: string;
    /** Its payload, encoded. */
    readonly payload: Payload;
  }[];
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

/** The commands that end an execution. */
export type TerminalCommand = CompleteCommand | FailCommand | CanceledCommand | ContinueAsNewCommand;

/** What a turn asks its host for, and what it records. */
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
