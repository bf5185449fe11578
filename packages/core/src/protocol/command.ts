// What a run asks of its host and writes into its history: the outgoing half of a turn.
// Owns: the union `Command`, and for each kind the fields that replay compares.
// Invariants: Y2 (fields of identity), Y6 (order of emission), Y7 (every pausing operation opens with a record and settles
// either by a job, if the host carries it out, or by a `settle` command, if the executor does), C3, L3, R11, S1.

import type { SerializedError } from "../errors/index.ts";
import type { BufferedMessage } from "./job.ts";
import type { Payload } from "./payload.ts";

/** Where an operation stands: unit path, name, occurrence of the name within the unit. */
interface Opening {
  readonly seq: number;
  readonly unit: string;
  readonly name: string;
  readonly n: number;
}

/** A retry policy as it is recorded: what the code says, a predicate as the word "function". */
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
  /** Has a rollback (S1); when it is cancelled it is joined, not abandoned (C7). */
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
  /** A length of time from the start of the child, or with `deadlineAt` a moment. */
  readonly deadline?: number;
  readonly deadlineAt?: number;
  readonly retry?: RecordedRetry;
  readonly parentClose?: "cancel" | "abandon" | "terminate";
  readonly priority?: number;
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /** A closed run of the id gets its next execution, as a child of this run. Absent: a run of the id is in the way. */
  readonly onConflict?: "restart-if-closed";
  /** `startChild`: settled by `childStarted`; the outcome is awaited by operations of their own. */
  readonly detached?: true;
}
export interface SleepCommand extends Opening {
  readonly type: "sleep";
  /** Milliseconds from the turn's time … */
  readonly duration?: number;
  /** … or a moment. */
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
/** The undoing of a completed step (S1). `name` is the step's location. */
export interface RollbackCommand extends Opening {
  readonly type: "rollback";
  /** The step's `seq`. */
  readonly of: number;
}

// ── operations that the executor settles by itself ──

/** A value computed once. Where the host can't record inline, it comes without value and is settled by a job. */
export interface SideEffectCommand extends Opening {
  readonly type: "sideEffect";
  readonly value?: Payload;
  readonly error?: SerializedError;
}
/** `waitForSignal` and `listen`. The host arms a timer under this `seq` if there is a timeout, until it settles. */
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
  /** Set by the replay view of a history: a commit lies ahead; nothing runs until it is reached (L3). */
  readonly committed?: true;
}
export interface ReceiveCommand extends Opening {
  readonly type: "receive";
  readonly timeout?: number;
  readonly checkpointEvery?: number;
  /** As for a loop (R11). */
  readonly committed?: true;
}
/** A call that could not become an operation: a value that can't be encoded, a limit (P8, P9). */
export interface RefuseCommand extends Opening {
  readonly type: "refuse";
  readonly kind: string;
  readonly error: SerializedError;
}
/** An operation that a voided failure had left behind settled: its outcome is used again, nothing runs (D10). */
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

// ── what happens to operations ──

/** The executor settled one of its own operations. */
export interface SettleCommand {
  readonly type: "settle";
  readonly seq: number;
  readonly status: "completed" | "failed" | "canceled" | "timedOut";
  /** Signals that a wait took (M7). */
  readonly messages?: readonly string[];
}
/** C3: a race is decided; the others are being cancelled. */
export interface WinnerCommand {
  readonly type: "winner";
  readonly seq: number;
  readonly key: string;
}
/** Give up an operation of the host's. With `join` its outcome is still awaited. */
export interface CancelCommand {
  readonly type: "cancel";
  readonly seq: number;
  readonly join?: true;
}
/** A receive handed a message to a handler unit (M7). */
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
/** A1, A2: an async signal handler failed; the run goes on. */
export interface HandlerFailedCommand {
  readonly type: "handlerFailed";
  readonly seq: number;
  readonly unit: string;
  readonly error: SerializedError;
}
/** L3, R11: replay of this loop or receive starts here; records beneath it that came before are no longer needed. */
export interface CommitCommand {
  readonly type: "commit";
  readonly seq: number;
  /** Location of the loop or receive: the prefix of what is left behind. */
  readonly unit: string;
  /** Iterations ended, or messages dispatched. */
  readonly count: number;
  readonly value: Payload;
  /** Published state, if there is one. */
  readonly state?: Payload;
  readonly messages?: readonly BufferedMessage[];
  /** L4: delete the records of iterations (dispatches) before this one. */
  readonly trim?: number;
  /** The highest number given out so far: the records that used it may be gone, and no number is used twice. */
  readonly lastSeq: number;
  /** Steps before the scope whose rollback may still run, by number; the checkpoints that let go of others may be gone (L5). */
  readonly rollbacks?: readonly number[];
}

// ── the end ──

/** The run has failed for good and undoes its steps (S1). */
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
  /** The operations whose failure it was, if it was theirs (D10). */
  readonly causes?: readonly number[];
  /** Tried again as a whole after this many milliseconds. */
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
  /** P10: signals that nobody consumed, in arrival order. */
  readonly signals?: readonly { readonly id: string; readonly name: string; readonly payload: Payload }[];
}

/** Each has a row in the table of operations. */
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

/** Y2: for each kind the fields, besides type, unit, name and occurrence, that make a command what it is. Of the others see `OPTIONS`. */
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
/** Y2: fields that only say how an operation is carried out. Code may change them: what was recorded stays in force. */
export const OPTIONS: { readonly [T in Command["type"]]?: readonly string[] } = {
  step: STEP_OPTIONS,
  transaction: STEP_OPTIONS,
  activity: ["queue", "retry", "startToClose", "scheduleToClose", "scheduleToStart", "heartbeat", "key", "priority"],
  child: ["queue", "retry", "parentClose", "key", "priority", "attributes", "onConflict"],
  attributes: ["attributes"],
};
