// The port between the embedded host and the store of its runs.
// Owns: the words of storage: run, record, inbox, attempt, task, epoch, lease. A store implements `Store`; nothing else.
// Invariants: D2 (a turn's commit is all or nothing), D3 (many in one transaction), D4 (every write of a run carries its epoch),
// D9 (the commit that parks or ends a run sees every message acknowledged before it), W2 W3 (order of claims, leases), one clock: the store's.
//
// How batches are written, refused and answered: store/batch.ts. `storeConformance` from "@holdfast/conformance" tests all of this on an
// implementation. Times are milliseconds since 1970 by the STORE's clock; callers pass durations, never times that they
// computed from their own clock, except times that users gave (`startAt`, `deadline`) and timers that follow from turn times.

import type { Payload, RunStatus, SerializedError, Turn } from "@holdfast/core";
import type { Answer, BatchLimits, Heartbeat, HeldClaim, Termination } from "./batch.ts";
import type { CopiedHistory, ForkMessage, ForkStore } from "./forkPort.ts";
import type { InspectStore } from "./inspectPort.ts";
import type { KeepingStore, StoreSettings } from "./keepingPort.ts";
import type { QueueStore } from "./queuePort.ts";
import type {
  AddressedMessage,
  AttemptRow,
  CreateResult,
  InboxMessage,
  NewMessage,
  NewRun,
  RunRow,
  SendResult,
  UpdateOutcome,
} from "./runPort.ts";
import type { DueSchedules, ScheduleStore } from "./schedulePort.ts";
import type { RunQuery, RunSearch } from "./searchPort.ts";
import type { ClaimedTask, NewTask, TaskAnswer, TaskClaimRequest } from "./taskPort.ts";
import type { WorkerStore } from "./workerPort.ts";

export type * from "./runPort.ts";
export type {
  ClaimedTask,
  CopiedHistory,
  ForkMessage,
  ForkStore,
  Heartbeat,
  HeldClaim,
  NewTask,
  RunQuery,
  TaskAnswer,
  TaskClaimRequest,
  Termination,
};

// ───────────────────────────── turns ────────────────────────────

/** What one turn of one run writes: all of it or nothing (D2). */
export interface TurnCommit {
  /** The id of the run. */
  readonly runId: string;
  /** The number of its execution. */
  readonly execution: number;
  /** D4: the claim under which it was computed. A claim ends when the run parks; one whose lease expired stays valid until another worker claims. */
  readonly epoch: number;
  /** The worker that has run the turn. */
  readonly workerId: string;
  /** Appended to history; its `commit` commands with `trim` delete what they leave behind (L4). Absent: nothing was decided. */
  readonly turn?: Turn | undefined;
  /** Inbox messages that the turn consumed; they leave the inbox. */
  readonly consumed?: readonly number[] | undefined;
  /** Attempts that began or ended. */
  readonly attempts?: readonly AttemptRow[] | undefined;
  /** The status of the run after the turn. */
  readonly status: RunStatus;
  /** Of a run that is blocked: why (V4), and the code that could not advance it. */
  readonly blocked?:
    | {
        /** Why its code can't advance it. */
        readonly error: SerializedError;
        /** The identity of the workflow code that could not advance it: a hash of its text and version. */
        readonly code: string;
      }
    | undefined;
  /** The attempt of the run as a whole, when it changes. */
  readonly attempt?: number | undefined;
  /** B4: of a run whose start did not know its workflow: how long that keeps it, from now on in its row. */
  readonly retention?: NewRun["retention"];
  /** Steps whose rollback may still have to run: with none, a deadline needs no code (K7). */
  readonly rollbacks?: number | undefined;
  /** What the run waits for after the turn, in words. */
  readonly waitingFor?: readonly string[] | undefined;
  /** The published state, encoded, if it changed. */
  readonly state?: Payload | undefined;
  /** Merged; null removes. */
  readonly attributes?: Readonly<Record<string, string | number | boolean | null>> | undefined;
  /**
   * "keep": the lease stays. "park": the lease ends; the run is available at `wakeAt`, or at once if its inbox has anything that this
   * worker was not given (D9: `seen` is the highest inbox id it was given).
   */
  readonly lease: "keep" | "park";
  /** When the run can next advance by itself, in milliseconds since 1970. */
  readonly wakeAt?: number | undefined;
  /** The highest inbox id that the worker was given: the answer has the messages after it. */
  readonly seen?: number | undefined;
  /** The children to create. */
  readonly children?: readonly NewRun[] | undefined;
  /** Messages to other runs. The answer comes back into this run's inbox as `resolve` of `seq` (M12: or as its failure). */
  readonly sends?:
    | readonly {
        /** The number of the operation that sends. */
        readonly seq: number;
        /** The run that gets the message. */
        readonly runId: string;
        /** The message. */
        readonly message: NewMessage;
      }[]
    | undefined;
  /** The activities to schedule. */
  readonly tasks?: readonly NewTask[] | undefined;
  /** Activities that are abandoned (C7). */
  readonly cancelTasks?: readonly number[] | undefined;
  /** Children that are asked to cancel, by the `seq` that started them. */
  readonly cancelChildren?: readonly number[] | undefined;
  /** Updates whose outcome is known: the `id` of each and its `outcome`. */
  readonly updates?:
    | readonly {
        /** The id of the update. */
        readonly id: string;
        /** Its outcome. */
        readonly outcome: UpdateOutcome;
      }[]
    | undefined;
  /** M8: updates with `acceptUntil` that the turn accepts. If one of them has an outcome by now, nothing is written: it is stale. */
  readonly accepts?: readonly string[] | undefined;
  /** The end of the execution (P1): the parent is notified, and children follow their parentClose (K6), in this same commit. */
  readonly close?: RunClose | undefined;
  /**
   * D9, K1: the end is late if the inbox holds, besides `consumed`, a signal of one of these names or, with `cancel`, a cancellation. It was
   * acknowledged before the end and is given to no turn: messages leave the inbox with the turn that they are given to. Only with `close` as
   * completed, failed or canceled, never with the first turn of a new run; absent: the end looks at no messages.
   */
  readonly lateIf?: LateIf | undefined;
}
/** What makes a turn late that ends a run (D9): it is refused if such a message arrived meanwhile. */
export interface LateIf {
  /** A cancellation does. */
  readonly cancel: boolean;
  /** Signals of these names do. */
  readonly signals: readonly string[];
}
/** How a turn ends the execution. */
export interface RunClose {
  /** The status that it ends with. */
  readonly status: Extract<RunStatus, "completed" | "failed" | "canceled" | "terminated" | "continued">;
  /** What it returned, encoded. */
  readonly output?: Payload | undefined;
  /** Why it failed or was canceled. */
  readonly error?: SerializedError | undefined;
  /** Signals that turns were given and no code consumed: with a next start they move on (Q9). Not with "continued". */
  readonly unconsumed?: readonly NewMessage[] | undefined;
  /** False: rollbacks have run, `resume` is refused (D10). */
  readonly resumable?: boolean | undefined;
  /**
   * "continued": the next execution (P10). Signals, updates and cancels of the inbox stay; `carried` are put before them, used keys or
   * not. Answers to operations of this execution go, and so do its activities: the next one uses their numbers again.
   */
  readonly next?:
    | {
        /** The input of the next execution, encoded. */
        readonly input: Payload;
        /** The version of the next execution. */
        readonly version: string | undefined;
        /** The seed of the next execution. */
        readonly seed: string;
        /** The messages that move to the next execution. */
        readonly carried: readonly NewMessage[];
      }
    | undefined;
}
/** The result of a commit. */
export type CommitResult =
  | {
      readonly status: "committed";
      /** The messages that have arrived after `seen`, in order. */
      readonly inbox: readonly InboxMessage[];
      /** The results of the messages that it sent. */
      readonly sent?: readonly SendResult[];
      /** Of an end: the run goes on with its next start, so that this is not the run's end (Q9). */
      readonly goesOn?: boolean;
      /** Records in the history now; needed where a trim has made them fewer (L4) and the lease is kept. */
      readonly historyLength?: number;
    }
  /** The claim holds, but nothing was written: messages that `lateIf` names had arrived before the end. */
  | {
      readonly status: "late";
      /** The messages that have arrived after `seen`, in order. */
      readonly inbox: readonly InboxMessage[];
    }
  /** Another worker has the run now, or it is closed: nothing was written. */
  | { readonly status: "stale" };

// ──────────────────────────── claiming ──────────────────────────

/** A workflow that a worker serves. */
export interface Served {
  /** The name of the workflow. */
  readonly workflow: string;
  /** Versions, undefined for runs without one; or all. */
  readonly versions: "*" | readonly (string | undefined)[];
  /** Where its runs are claimed from, if not from the queue of the request (B3). */
  readonly queue?: string | undefined;
}
/** What a worker asks for. */
export interface ClaimRequest {
  /** The worker that asks. */
  readonly workerId: string;
  /** The queue that it works for. */
  readonly queue: string;
  /** The workflows and versions that it serves. */
  readonly serves: readonly Served[];
  /** How many runs it has room for. */
  readonly limit: number;
  /** How long they stay claimed, in milliseconds. */
  readonly lease: number;
  /**
   * V4: blocked runs instead, whenever they are to be tried again, in the order of their creation and after the one that an earlier claim
   * went up to (0: from the first on). So each worker that starts can try each of them once.
   */
  readonly blockedAfter?: number | undefined;
  /** With `blockedAfter`: only these, as `heldBack` of an earlier claim has named them. */
  readonly blockedOnly?: readonly number[] | undefined;
  /** Turns that this worker has in memory, by `runId`: if the run has just as many in the same execution, its history is left out. */
  readonly cached: (runId: string) =>
    | {
        /** The execution that the worker has in memory. */
        readonly execution: number;
        /** The turns of it that the worker knows. */
        readonly turns: number;
      }
    | undefined;
}
/** A run that was claimed, with all that is needed to continue it. */
export interface ClaimedRun {
  /** The run. */
  readonly run: RunRow;
  /** Undefined if the worker has it. */
  readonly turns: readonly Turn[] | undefined;
  /** The attempts of steps in this execution that have rows; those of activities are not among them. */
  readonly attempts: readonly AttemptRow[];
  /** The messages that no turn has consumed. */
  readonly inbox: readonly InboxMessage[];
  /** It was taken from a worker whose lease ran out (D7). */
  readonly recovered: boolean;
  /** That worker's id. */
  readonly recoveredFrom?: string | undefined;
  /** Of an execution after the first that has no turn yet: the time of the last turn before it (P7). */
  readonly lastTime?: number | undefined;
}
/** What was claimed. */
export interface ClaimResult {
  /** The time of the store, in milliseconds since 1970. */
  readonly now: number;
  /** The runs that were claimed. */
  readonly runs: readonly ClaimedRun[];
  /** When the next run of these is due, if none is now: at a wake-up, a start time, the end of a lease. */
  readonly nextAt: number | undefined;
  /** Of a claim of blocked runs: up to which one it went. Undefined: there are no more. */
  readonly lastBlocked?: number | undefined;
  /** Of a claim of blocked runs: those up to there that are still blocked, since a limit or another process holds them back (Q2). */
  readonly heldBack?: readonly number[] | undefined;
}

// ──────────────────────────── wake-ups ──────────────────────────

/** Hints that something may have changed. They may be lost, late or duplicated: that costs time, never progress (D9). */
export interface Wakeup {
  /** There may be runs to claim. */
  readonly work?: boolean;
  /** There may be messages for leased runs, or some of these runs were ended while their workers held them (K6, K7). */
  readonly messages?: boolean;
  /** There may be activities to claim, or some that a worker has are over: abandoned by their run, or timed out (D11). */
  readonly tasks?: boolean;
  /** Runs or updates that clients wait for may have ended. */
  readonly results?: boolean;
  /** The runs whose results these are. Absent: any may have ended. */
  readonly ended?: readonly string[];
  /** All of it was written through this object, so its caller knows. Absent: another process may have written it. */
  readonly isOwn?: boolean;
}
/** What may have changed in the store. */
export type WakeupKind = Exclude<keyof Wakeup, "ended" | "isOwn">;

/** The result of a request to resume a run. */
export type ResumeResult = "resumed" | "woken" | "not-found" | "not-resumable";

/** Whether the claim is still held, and the messages that have arrived since `seen`. */
export interface Renewal {
  /** Whether the worker still holds the claim. If not, the inbox is empty. */
  readonly held: boolean;
  /** The messages that have arrived after `seen`, in order. */
  readonly inbox: readonly InboxMessage[];
}
/** What a look at deadlines has found. */
export interface Expired extends DueSchedules {
  /** How many runs were ended by their deadline, or were made available for their rollbacks. */
  readonly expired: number;
}
/** What an engine needs from a database. `storeConformance` of `@holdfast/conformance` tests an implementation. */
export interface Store extends RunSearch, ForkStore, ScheduleStore, KeepingStore, Partial<WorkerStore>, Partial<QueueStore> {
  /** The most items and bytes of one call, and how many calls may be under way. */
  readonly limits: BatchLimits;
  /** Prepares the storage: creates or migrates it. A newer version than the code knows is refused. */
  open(settings?: StoreSettings): Promise<void>;
  /**
   * Closes the store. Calls that were made before are answered first, but a database that does not answer is not waited for longer than any
   * call would. Closing again changes nothing; `open` may be called again.
   */
  close(): Promise<void>;
  /** The time of the store, in milliseconds since 1970. */
  now(): Promise<number>;

  /** Creates runs. Each has its own answer. */
  create(runs: readonly NewRun[]): Promise<Answer<CreateResult>[]>;
  /**
   * Leases runs that are available to a worker, in the order of W2 and Q5, with all that it needs to continue them. May pass over runs that
   * another transaction is writing to. The next claim finds them.
   */
  claim(request: ClaimRequest): Promise<ClaimResult>;
  /** Commits turns, each all or nothing. Each has its own answer. */
  commit(turns: readonly TurnCommit[]): Promise<Answer<CommitResult>[]>;
  /**
   * Puts messages into the inboxes of runs. Each has its own answer.
   * @param wait Here and below: all of these were busy before, so the store may wait a moment for their locks.
   */
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
   * K7: ends the runs whose deadline has passed. Without rollbacks they fail at once, with no turn, their parent notified and their
   * children following parentClose; with rollbacks they get an `expire` job, lose their lease and become available; one that is rolling
   * back already continues. Each deadline counts once; a run that failed by it is not resumable. Also ends attempts of activities that have timed out (D11).
   * Returns how many runs, and the schedules that are due (T2), found by the same look.
   */
  expire(): Promise<Expired>;
  /**
   * Runs `body` in a transaction of the database that also records the outcome as a `resolve` of `seq` in the inbox of `runId`, if the
   * `epoch` still holds (D6). A throw rolls back. Absent where the store has no transactions to offer.
   * @throws `IllegalReturnError` for a body that returns a promise, if the store's transactions can't wait.
   */
  transact?(
    claim: { readonly runId: string; readonly epoch: number; readonly seq: number },
    body: (tx: unknown) => Payload | Promise<Payload>,
  ): Promise<InboxMessage | "stale">;
  /**
   * The same calls inside a transaction that is the caller's own: what they write is there if and only if it commits, and so are the
   * wake-ups. Absent where callers can't share a transaction.
   * @throws `InvalidInputError` for a `tx` that is not a transaction of this store.
   */
  within?(tx: unknown): StoreWithin;

  /** Claims activities: `now` is the time of the store, `tasks` what was claimed, `nextAt` when the next one is due. */
  claimTasks(
    request: TaskClaimRequest,
  ): Promise<{ readonly now: number; readonly tasks: readonly ClaimedTask[]; readonly nextAt: number | undefined }>;
  /**
   * Renews the leases of activities, and keeps what they report. Neither prolongs startToClose. False: the attempt is over (timeout,
   * cancellation, another worker has it); its answer would be dropped.
   */
  heartbeat(beats: readonly Heartbeat[]): Promise<Answer<boolean>[]>;
  /**
   * Ends attempts of activities: the run gets the outcome, or the next attempt becomes due. False: the worker no longer held the claim, and
   * the answer is dropped.
   * @param wait As for `send`.
   */
  answerTasks(answers: readonly TaskAnswer[], wait?: boolean): Promise<Answer<boolean>[]>;

  /** The runs with these ids; undefined for those that do not exist. */
  get(runIds: readonly string[]): Promise<(RunRow | undefined)[]>;
  /** The turns of the newest execution, as they are kept. */
  history(runId: string): Promise<Turn[]>;
  /** The attempts of a run; `task`: those of activities. */
  attempts(runId: string): Promise<(AttemptRow & { readonly task?: boolean })[]>;
  /** The worker that committed each turn of the newest execution that is kept, by its index: it also began the steps that it recorded (D12). */
  workers?(runId: string): Promise<ReadonlyMap<number, string>>;
  /** The outcomes of updates, by `runId` and `id`; undefined for those that have none. */
  updates(keys: readonly { readonly runId: string; readonly id: string }[]): Promise<(UpdateOutcome | undefined)[]>;
  /**
   * Rejects the updates (`runId`, `id`) with this `error` whose `acceptUntil` is over, that are still in the inbox and have no outcome, and
   * removes them from it (M8). Returns the outcome as it is then; "waiting": its time is not over; undefined: a turn consumed it, or there
   * is no update with that id.
   */
  rejectUpdates(
    updates: readonly { readonly runId: string; readonly id: string; readonly error: SerializedError }[],
  ): Promise<(UpdateOutcome | "waiting" | undefined)[]>;
  /** Calls back when the store can't be reached, and when it can again, long before a call times out. Returns a function that ends this. */
  watchOutages?(listener: OutageListener): () => void;
  /** Calls back when something may have changed, also by other processes. Returns a function that ends this. */
  watch(onWakeup: (wakeup: Wakeup) => void): () => void;
  /** What consoles read. Absent if the store has nothing more to show. */
  inspect?(): InspectStore;
}

/** Calls in the caller's transaction, which waits for locks as the caller has set it. */
export interface StoreWithin {
  /** Creates runs in the caller's transaction. */
  create(runs: readonly NewRun[]): Promise<CreateResult[]>;
  /** Sends messages in the caller's transaction. */
  send(messages: readonly AddressedMessage[]): Promise<SendResult[]>;
}

/** Is notified of outages of the database. */
export interface OutageListener {
  /** The database can't be reached since `since`, by `performance.now()`; `error` says why. */
  readonly gone: (error: unknown, since: number) => void;
  /** The database can be reached again. */
  readonly back: () => void;
}
