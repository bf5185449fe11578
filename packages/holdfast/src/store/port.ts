// The port between the embedded host and whatever keeps its runs.
// Owns: the words of storage: run, record, inbox, attempt, task, epoch, lease. A store implements `Store`; nothing else.
// Invariants: D2 (a turn's commit is all or nothing), D3 (many in one transaction), D4 (every write of a run carries its epoch),
// D9 (the commit that parks or ends a run sees every message acknowledged before it), W2 W3 (order of claims, leases), one clock: the store's.
//
// How batches are written, refused and answered: store/batch.ts. `storeConformance` from "@holdfast/conformance" holds all of this against an
// implementation. Times are milliseconds since the epoch by the STORE's clock; callers pass lengths of time, never moments that they
// computed from a clock of their own, except moments that users gave (`startAt`, `deadline`) and timers that follow from turn times.

import type { Job, Payload, RunStatus, SerializedError, StoredRunRetry, Turn } from "@holdfast/core";
import type { Answer, BatchLimits, Heartbeat, HeldClaim, Termination } from "./batch.ts";

export type { Heartbeat, HeldClaim, Termination };

// ───────────────────────────── runs ─────────────────────────────

/** A run to be created. */
export interface NewRun {
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly input: Payload;
  readonly queue: string;
  readonly priority: number;
  /** Not before this long from now (a message does not start it sooner; a cancel ends it, K9) … */
  readonly delay?: number | undefined;
  /** … or not before this moment. */
  readonly startAt?: number | undefined;
  /** Deadline as a length from now, or a moment (K7). */
  readonly deadline?: number | undefined;
  readonly deadlineAt?: number | undefined;
  readonly retry?: StoredRunRetry | undefined;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /**
   * Kept by (workflow, key), several a run, for the life of the run: a start that is repeated under its key finds the run of the first,
   * whatever id and onConflict it names, and sends nothing again; the same key under another workflow is another start (M3).
   */
  readonly idempotencyKey?: string | undefined;
  /**
   * A run of this id that is of another workflow is a conflict, whatever this says (M3). Of the same workflow:
   * "reject": a run of this id is an error. "use-existing": it is found. "restart-if-closed": a closed one gets its next execution, with
   * all that this start says (no parent, if it names none); used keys, outcomes of updates and published state stay with the run (P10).
   * With a `parent` an open one is in the way as with "reject": a child is never taken over from whoever waits for it.
   * "reopen": a parent that goes on after a failure asks again for the child of this very `parent` link (D10). An open one is found, a
   * completed one answers the parent again, a failed one that can be resumed is, any other gets its next execution; whichever it is, with
   * `announce` the parent is told first that it exists. A run that is not that child is in the way, as with "reject".
   */
  readonly onConflict: "reject" | "use-existing" | "restart-if-closed" | "reopen";
  /** Randomness of its first execution (P7). */
  readonly seed: string;
  /** The operation of another run that it is the child of. */
  readonly parent?: ParentLink | undefined;
  /** Messages that are there from the start (M8); with "use-existing" they go to the run that exists. */
  readonly messages?: readonly NewMessage[] | undefined;
  /**
   * The first turn was computed before the run exists (no claim needed): it is created already leased to this worker at epoch 1,
   * and this commit, which names epoch 1, is applied with it. If the run turns out to exist, nothing of it is.
   */
  readonly first?: { readonly workerId: string; readonly lease: number; readonly commit: TurnCommit } | undefined;
}
export interface ParentLink {
  readonly runId: string;
  /** Only this execution of the parent is told of the child's end: the next one uses the numbers again. parentClose is the chain's (P10). */
  readonly execution: number;
  readonly seq: number;
  readonly parentClose: "cancel" | "abandon" | "terminate";
  /** Put a `childStarted` into the parent's inbox when it exists (`startChild`). Its end comes as a `resolve` either way. */
  readonly announce: boolean;
}
export type CreateResult =
  | { readonly status: "created" | "existing"; readonly id: string; readonly execution: number; readonly inboxIds: readonly number[] }
  /**
   * "reject" and the id is taken; "use-existing" with messages, and the run is closed; or whatever was asked for, and the run is of
   * another workflow (M3). `workflow` is that of the run in the way.
   */
  | { readonly status: "conflict"; readonly id: string; readonly runStatus: RunStatus; readonly workflow: string };

/** A run as anybody may look at it. */
export interface RunRow {
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly status: RunStatus;
  readonly queue: string;
  readonly priority: number;
  readonly input: Payload;
  readonly output: Payload | undefined;
  readonly error: SerializedError | undefined;
  /** Of a failed run: would `resume` go on with it (D10)? */
  readonly resumable?: boolean | undefined;
  /** The published state (P5). */
  readonly state: Payload | undefined;
  readonly waitingFor: readonly string[];
  readonly execution: number;
  readonly attempt: number;
  readonly parent: ParentLink | undefined;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly seed: string;
  readonly retry: StoredRunRetry | undefined;
  readonly createdAt: number;
  readonly startedAt: number | undefined;
  /** When it can be claimed next; for a leased run, when its lease ends. Undefined: only a message wakes it. */
  readonly availableAt: number | undefined;
  readonly deadlineAt: number | undefined;
  readonly finishedAt: number | undefined;
  readonly workerId: string | undefined;
  readonly epoch: number;
  /** Records that are kept in the history of this execution: trimmed ones don't count. */
  readonly historyLength: number;
  /** Turns committed in this execution, trimmed ones included. */
  readonly turns: number;
  /** Claims of an expired lease since the last commit (D7). */
  readonly recoveries: number;
}

// ─────────────────────────── messages ───────────────────────────

/** What may be put into the inbox of a run: a job that its next turn takes. */
export type InboxJob = Extract<Job, { type: "signal" | "update" | "cancel" | "resolve" | "childStarted" | "expire" | "resume" }>;
export interface NewMessage {
  readonly job: InboxJob;
  /**
   * A repeated send with the same key is one delivery (M3). For updates the key is the update's id, whether or not it is named here; the
   * outcome of one that is not is kept for an hour at least, and goes with a later commit of the run that records an outcome (M10).
   */
  readonly idempotencyKey?: string | undefined;
  /** Of an update: how long it may wait in the inbox to be accepted. The store makes `acceptUntil` of its job of that (M8). */
  readonly acceptWithin?: number | undefined;
}
export interface InboxMessage {
  /** Grows with arrival within the store. */
  readonly id: number;
  readonly job: InboxJob;
}
export type SendResult =
  /**
   * Keys are looked at before the run's status: what was acknowledged once is acknowledged again, also after the run has closed. A cancel
   * of a run that is canceled is such a repetition.
   */
  | { readonly status: "sent" | "duplicate"; readonly inboxId: number }
  | { readonly status: "not-found" }
  | { readonly status: "closed"; readonly runStatus: RunStatus }
  /** M3: the sender named a workflow, and the run is of this one. */
  | { readonly status: "other-workflow"; readonly workflow: string };

/** A message for a run. With `workflow` it is sent only to a run of that workflow (M3); that is looked at before its key. */
export interface AddressedMessage {
  readonly runId: string;
  readonly message: NewMessage;
  readonly workflow?: string | undefined;
}

/**
 * The end of an update, for its callers. None waits for ever: when a run closes, updates that are still in its inbox are rejected with
 * RunClosedError, and those that were taken and have no outcome (terminate, a deadline) fail with it.
 */
export type UpdateOutcome =
  | { readonly status: "completed"; readonly value: Payload }
  | { readonly status: "failed" | "rejected"; readonly error: SerializedError };

// ─────────────────────────── attempts ───────────────────────────

/** One attempt of a step (D12). The first attempt of a step that never failed has no row: its command and its outcome tell it all. */
export interface AttemptRow {
  readonly seq: number;
  readonly number: number;
  readonly status: "running" | "failed" | "completed" | "lost";
  readonly error?: SerializedError | undefined;
  readonly startedAt: number;
  readonly endedAt?: number | undefined;
  /** Empty: whoever recorded the step. */
  readonly workerId: string;
  /** Of a failed one: when the next is due (D8). */
  readonly retryAt?: number | undefined;
}

// ───────────────────────────── turns ────────────────────────────

/** What one turn of one run writes: all of it or nothing (D2). */
export interface TurnCommit {
  readonly runId: string;
  readonly execution: number;
  /** D4: the claim under which it was computed. It is over once it has parked; one whose lease ran out holds until another claims. */
  readonly epoch: number;
  readonly workerId: string;
  /** Appended to history; its `commit` commands with `trim` delete what they leave behind (L4). Absent: nothing was decided. */
  readonly turn?: Turn | undefined;
  /** Inbox messages that the turn took; they leave the inbox. */
  readonly consumed?: readonly number[] | undefined;
  readonly attempts?: readonly AttemptRow[] | undefined;
  readonly status: RunStatus;
  /** Of a run that is blocked: why (V4), and the code that could not advance it. */
  readonly blocked?: { readonly error: SerializedError; readonly code: string } | undefined;
  /** The attempt of the run as a whole, when it changes. */
  readonly attempt?: number | undefined;
  /** Steps whose rollback may still have to run: with none, a deadline needs no code (K7). */
  readonly rollbacks?: number | undefined;
  readonly waitingFor?: readonly string[] | undefined;
  readonly state?: Payload | undefined;
  /** Merged; null removes. */
  readonly attributes?: Readonly<Record<string, string | number | boolean | null>> | undefined;
  /**
   * "keep": the lease stays. "park": the lease ends; the run is available at `wakeAt`, or at once if its inbox has anything that this
   * worker was not given (D9: `seen` is the highest inbox id it was given).
   */
  readonly lease: "keep" | "park";
  readonly wakeAt?: number | undefined;
  readonly seen?: number | undefined;
  readonly children?: readonly NewRun[] | undefined;
  /** Messages to other runs. The answer comes back into this run's inbox as `resolve` of `seq` (M12: or as its failure). */
  readonly sends?: readonly { readonly seq: number; readonly runId: string; readonly message: NewMessage }[] | undefined;
  readonly tasks?: readonly NewTask[] | undefined;
  /** Activities that are given up (C7). */
  readonly cancelTasks?: readonly number[] | undefined;
  /** Children that are asked to cancel, by the `seq` that started them. */
  readonly cancelChildren?: readonly number[] | undefined;
  readonly updates?: readonly { readonly id: string; readonly outcome: UpdateOutcome }[] | undefined;
  /** M8: updates with `acceptUntil` that the turn accepts. If one of them has an outcome by now, nothing is written: it is stale. */
  readonly accepts?: readonly string[] | undefined;
  /** The end of the execution (P1): the parent is told, children follow their parentClose (K6), in this same commit. */
  readonly close?: RunClose | undefined;
  /**
   * D9, K1: the end is late if the inbox holds, besides `consumed`, a signal of one of these names or, with `cancel`, a cancellation. It was
   * acknowledged before the end and is given to no turn: messages leave the inbox with the turn that they are given to. Only with `close` as
   * completed, failed or canceled, never with the first turn of a new run; absent: the end looks at no messages.
   */
  readonly lateIf?: LateIf | undefined;
}
export interface LateIf {
  readonly cancel: boolean;
  readonly signals: readonly string[];
}
export interface RunClose {
  readonly status: Extract<RunStatus, "completed" | "failed" | "canceled" | "terminated" | "continued">;
  readonly output?: Payload | undefined;
  readonly error?: SerializedError | undefined;
  /** False: rollbacks have run, `resume` is refused (D10). */
  readonly resumable?: boolean | undefined;
  /**
   * "continued": the next execution (P10). Signals, updates and cancels of the inbox stay; `carried` are put before them, used keys or
   * not. Answers to operations of this execution go, and so do its activities: the next one uses their numbers again.
   */
  readonly next?:
    | { readonly input: Payload; readonly version: string | undefined; readonly seed: string; readonly carried: readonly NewMessage[] }
    | undefined;
}
export type CommitResult =
  | {
      readonly status: "committed";
      /** What has arrived since `seen` for a run that keeps its lease. */
      readonly inbox: readonly InboxMessage[];
      readonly sent?: readonly SendResult[];
      /** Records in the history now; needed where a trim has made them fewer (L4) and the lease is kept. */
      readonly historyLength?: number;
    }
  /** The claim holds, but nothing was written: the end came too late for messages that `lateIf` names. `inbox`: what has arrived since `seen`. */
  | { readonly status: "late"; readonly inbox: readonly InboxMessage[] }
  /** Somebody else has the run now, or it is closed: nothing was written. */
  | { readonly status: "stale" };

// ──────────────────────────── claiming ──────────────────────────

export interface Served {
  readonly workflow: string;
  /** Versions, undefined for runs without one; or all. */
  readonly versions: "*" | readonly (string | undefined)[];
}
export interface ClaimRequest {
  readonly workerId: string;
  readonly queue: string;
  readonly serves: readonly Served[];
  readonly limit: number;
  readonly lease: number;
  /**
   * V4: blocked runs instead, whenever they are to be tried again, in the order of their creation and after the one that an earlier claim
   * went up to (0: from the first on). So each worker that starts can try each of them once.
   */
  readonly blockedAfter?: number | undefined;
  /** Turns that this worker has in memory, by `runId`: if the run has just as many in the same execution, its history is left out. */
  readonly cached: (runId: string) => { readonly execution: number; readonly turns: number } | undefined;
}
export interface ClaimedRun {
  readonly run: RunRow;
  /** Undefined if the worker has it. */
  readonly turns: readonly Turn[] | undefined;
  readonly attempts: readonly AttemptRow[];
  readonly inbox: readonly InboxMessage[];
  /** It was taken from a worker whose lease ran out (D7). */
  readonly recovered: boolean;
  /** That worker's id. */
  readonly recoveredFrom?: string | undefined;
  /** Of an execution after the first that has no turn yet: the time of the last turn before it (P7). */
  readonly lastTime?: number | undefined;
}
export interface ClaimResult {
  readonly now: number;
  readonly runs: readonly ClaimedRun[];
  /** When the next run of these is due, if none is now: at a wake-up, a start time, the end of somebody's lease. */
  readonly nextAt: number | undefined;
  /** Of a claim of blocked runs: up to which one it went. Undefined: there are no more. */
  readonly lastBlocked?: number | undefined;
}

// ─────────────────────────── activities ─────────────────────────

/** An activity to be carried out by a worker of its queue (D11). */
export interface NewTask {
  readonly seq: number;
  readonly activity: string;
  readonly queue: string;
  readonly input: Payload;
  readonly retry: StoredRunRetry;
  readonly startToClose?: number | undefined;
  readonly scheduleToClose?: number | undefined;
  readonly scheduleToStart?: number | undefined;
  readonly heartbeat?: number | undefined;
  readonly location: string;
  /** Attempts made before the run failed and went on (D10): its own are numbered from there. Default 0. */
  readonly attempt?: number | undefined;
}
export interface ClaimedTask extends NewTask {
  readonly id: number;
  readonly runId: string;
  readonly execution: number;
  readonly attempt: number;
  /** Fences the answer: a task that timed out and went to another worker has another. */
  readonly token: number;
  readonly lastHeartbeat: Payload | undefined;
}
export interface TaskClaimRequest {
  readonly workerId: string;
  readonly queue: string;
  readonly activities: readonly string[];
  readonly limit: number;
  readonly lease: number;
  /**
   * D7: the answer to an earlier claim of this worker was lost. These are the tasks that it has run or runs; all others that are leased to it
   * have never begun, and are given out again as the same attempt, under another token, before any new ones.
   */
  readonly known?: readonly number[] | undefined;
}
export interface TaskAnswer {
  readonly id: number;
  readonly token: number;
  /** A failure that may be retried is retried by the store, by the task's policy. */
  readonly outcome:
    | { readonly status: "completed"; readonly value: Payload }
    | {
        readonly status: "failed";
        readonly error: SerializedError;
        readonly retryable: boolean;
        readonly random: number;
        /** The wait before the next attempt, where the error asks for one: it counts instead of the policy's, without a cap (D8). */
        readonly after?: number | undefined;
      };
}

// ───────────────────────────── reading ──────────────────────────

export interface RunQuery {
  readonly status?: readonly RunStatus[] | undefined;
  readonly workflow?: string | undefined;
  readonly queue?: string | undefined;
  readonly parentId?: string | undefined;
  /** All of them, by value and type: "1" is not 1. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** Of creation: from this moment on … */
  readonly since?: number | undefined;
  /** … and before this one. */
  readonly until?: number | undefined;
  readonly limit: number;
  /** Newest first; a page begins after the run that this names, wherever others have come or gone. */
  readonly cursor?: string | undefined;
}

/** Hints that something may have changed. They may be lost, late or doubled: they cost time, never progress (D9). */
export interface Wakeup {
  /** Runs to claim may be there. */
  readonly work?: boolean;
  /** Messages for runs that are leased may be there, or some of these were ended over the heads of their workers (K6, K7). */
  readonly messages?: boolean;
  /** Activities to claim may be there, or some that a worker has are over: given up by their run, or out of time (D11). */
  readonly tasks?: boolean;
  /** Runs or updates that clients wait for may have ended. */
  readonly results?: boolean;
  /** The runs whose results these are. Absent: any may have ended. */
  readonly ended?: readonly string[];
  /** All of it was written through this very object: whoever wrote it knows. Absent: somebody else may have. */
  readonly isOwn?: boolean;
}
export type WakeupKind = Exclude<keyof Wakeup, "ended" | "isOwn">;

export type ResumeResult = "resumed" | "woken" | "not-found" | "not-resumable";

/** Whether the claim still holds, and what has come into its inbox since `seen`. */
export interface Renewal {
  readonly held: boolean;
  readonly inbox: readonly InboxMessage[];
}
export interface Store {
  readonly limits: BatchLimits;
  /** Readies the storage: creates or migrates it. A newer version than the code knows is refused. */
  open(): Promise<void>;
  close(): Promise<void>;
  now(): Promise<number>;

  create(runs: readonly NewRun[]): Promise<Answer<CreateResult>[]>;
  /** May pass over runs that somebody is writing to at this moment: the next claim finds them. */
  claim(request: ClaimRequest): Promise<ClaimResult>;
  commit(turns: readonly TurnCommit[]): Promise<Answer<CommitResult>[]>;
  /** `wait`, here and below: all of these were busy before, so that the store may wait a moment for their locks. */
  send(messages: readonly AddressedMessage[], wait?: boolean): Promise<Answer<SendResult>[]>;
  /** Extends the leases of these claims. A claim that is answered "busy" holds, and its lease ends when it did. */
  renew(workerId: string, lease: number, claims: readonly HeldClaim[], wait?: boolean): Promise<Answer<Renewal>[]>;
  /** K6: ends runs at once, running no workflow code; their claims are stale from then on. */
  terminate(runs: readonly Termination[]): Promise<Answer<SendResult>[]>;
  /**
   * D10: reopens failed runs with a `resume` job in their inbox (attempt + 1, voids left to the host), or makes blocked ones available now
   * ("resumed"). V3: a run that is open, begun and not blocked is available now, if no worker has it ("woken").
   */
  resume(runIds: readonly string[]): Promise<Answer<ResumeResult>[]>;
  /**
   * K7: ends the runs whose deadline has passed. Without rollbacks they fail at once, with no turn, their parent told and their
   * children following parentClose; with rollbacks they get an `expire` job, lose their lease and become available; one that is rolling
   * back already goes on undisturbed. Each deadline counts once; a run that failed by it is not resumable. Also ends attempts of activities whose time is up (D11). Returns how many runs.
   */
  expire(): Promise<number>;
  /**
   * D6: runs `body` in a transaction of the database that also records the outcome as a `resolve` of `seq` in the run's inbox, if the
   * epoch still holds. A throw rolls back. Absent where the store has no transactions to offer; a store whose transactions can't wait
   * refuses a body that returns a promise with IllegalReturnError.
   */
  transact?(
    claim: { readonly runId: string; readonly epoch: number; readonly seq: number },
    body: (tx: unknown) => Payload | Promise<Payload>,
  ): Promise<InboxMessage | "stale">;
  /**
   * The same calls inside a transaction that is the caller's own: what they write is there if and only if it commits, and so are the
   * wake-ups. Throws InvalidInputError for a `tx` that is none of this store's. Absent where callers can't share a transaction.
   */
  within?(tx: unknown): StoreWithin;
  /** Removes a small batch of closed runs whose retention is over, with all that belongs to them. Returns how many; 0: none are left. */
  retire?(): Promise<number>;

  claimTasks(
    request: TaskClaimRequest,
  ): Promise<{ readonly now: number; readonly tasks: readonly ClaimedTask[]; readonly nextAt: number | undefined }>;
  /**
   * Neither a renewal of the lease nor a heartbeat prolongs startToClose. False: the attempt is over (timeout, cancellation, another worker
   * has it); its answer would be dropped.
   */
  heartbeat(beats: readonly Heartbeat[]): Promise<Answer<boolean>[]>;
  answerTasks(answers: readonly TaskAnswer[], wait?: boolean): Promise<Answer<boolean>[]>;

  get(runIds: readonly string[]): Promise<(RunRow | undefined)[]>;
  /** The turns of the newest execution, as they are kept. */
  history(runId: string): Promise<Turn[]>;
  attempts(runId: string): Promise<(AttemptRow & { readonly task?: boolean })[]>;
  /** Who committed each turn of the newest execution that is kept, by its index: whoever recorded a step also began it (D12). */
  workers?(runId: string): Promise<ReadonlyMap<number, string>>;
  updates(keys: readonly { readonly runId: string; readonly id: string }[]): Promise<(UpdateOutcome | undefined)[]>;
  /**
   * M8: rejects updates whose `acceptUntil` is over, that are still in the inbox and have no outcome, and takes them out of it. Answers
   * with the outcome as it is then; "waiting": its time is not over; undefined: it was taken, or there is none of that id.
   */
  rejectUpdates(
    updates: readonly { readonly runId: string; readonly id: string; readonly error: SerializedError }[],
  ): Promise<(UpdateOutcome | "waiting" | undefined)[]>;
  list(query: RunQuery): Promise<{ readonly runs: RunRow[]; readonly cursor: string | undefined }>;
  count(query: Omit<RunQuery, "limit" | "cursor">): Promise<Record<RunStatus, number>>;

  /** Calls back when the store can't be reached, and when it can again, long before a call gives up. Returns how to stop. */
  watchOutages?(listener: OutageListener): () => void;
  /** Calls back when something may have changed, also by other processes. Returns how to stop. */
  watch(onWakeup: (wakeup: Wakeup) => void): () => void;
}

/** In a transaction of the caller's, which waits for locks by itself. */
export interface StoreWithin {
  create(runs: readonly NewRun[]): Promise<CreateResult[]>;
  send(messages: readonly AddressedMessage[]): Promise<SendResult[]>;
}

export interface OutageListener {
  /** No call gets through, `since` then, by `performance.now()`. */
  readonly gone: (error: unknown, since: number) => void;
  readonly back: () => void;
}
