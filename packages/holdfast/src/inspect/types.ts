// The types of `holdfast/inspect`: what can be read of an engine or a store without changing it.
// Owns: these types.
// Invariants: the fields of runs, operations, workers and queues have the names of the public API. User values are encoded until they are
// shown: one that can't be decoded does not fail a read, and its size is known without decoding it (P8).

import type { History, OperationInfo, Payload, RunInfo, RunStatus, SerializedError, Turn } from "@holdfast/core";
import type { Reason, WorkerInfo } from "../api/operatingTypes.ts";
import type { QueueInfo } from "../api/queueTypes.ts";
import type { ScheduleInfo } from "../api/scheduleTypes.ts";
import type { RunFilter } from "../api/types.ts";

// ───────────────────────────── values ───────────────────────────

/** A user value as the store has it. It is decoded, with the codec of the engine, when it is read. */
export interface EncodedValue {
  /** The size of the encoded value. */
  readonly bytes: number;
  /**
   * The decoded `value`. Never throws: `unreadable` says why the value can't be decoded, for example because it was written with another
   * codec.
   */
  read(): { readonly value: unknown } | { readonly unreadable: string };
}

// ────────────────────────────── runs ────────────────────────────

/** `RunInfo` with encoded values. */
export interface InspectedRun extends Omit<RunInfo, "input" | "output"> {
  /** Undefined if the values were not asked for. */
  readonly input: EncodedValue | undefined;
  /** What it returned. */
  readonly output: EncodedValue | undefined;
  /** The published state. Undefined if there is none, or if the values were not asked for. */
  readonly state: EncodedValue | undefined;
  /** Turns committed in this execution, trimmed ones included: the index of the next turn. */
  readonly turns: number;
  /** For a failed run: whether `resume` would continue it. */
  readonly resumable: boolean | undefined;
}
/** `OperationInfo` with encoded values. */
export interface InspectedOperation extends Omit<OperationInfo, "input" | "output"> {
  /** The input of an activity or child. */
  readonly input: EncodedValue | undefined;
  /** The result. */
  readonly output: EncodedValue | undefined;
}
/** `n` is at most 10,000; `capped`: there are more. */
export interface InspectedCount {
  /** The number of runs. */
  readonly n: number;
  /** Whether there are more: the number then means "at least". */
  readonly capped: boolean;
}

/** One attempt of a step or an activity. The first attempt of a step that never failed has no row. Times are milliseconds since 1970. */
export interface InspectedAttempt {
  /** The number of its operation. */
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
  /** For a failed one: when the next is due. */
  readonly retryAt?: number | undefined;
  /** True for attempts of activities. */
  readonly task?: boolean | undefined;
}

/** A message that waits for the next turn of its run. */
export interface InspectedMessage {
  /** The id of the message. */
  readonly id: string;
  /** "other": results and events that the run did not get from a user, for example the result of a child. */
  readonly kind: "signal" | "update" | "cancel" | "other";
  /** The name of the signal or update; the type of the event for "other". */
  readonly name: string | undefined;
  /** The payload of a signal, or the input of an update. */
  readonly payload: EncodedValue | undefined;
  /** When it arrived. Undefined if the host does not know. */
  readonly receivedAt: Date | undefined;
}

/** One execution in the chain of a run. */
export interface InspectedExecution {
  /** Its number in the chain, from 1. */
  readonly execution: number;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that it began with. Undefined: it has none. */
  readonly version: string | undefined;
  /** The input that it began with. Undefined if it is not kept. */
  readonly input: EncodedValue | undefined;
  /** When its first turn was that is kept. Undefined if there is none. */
  readonly firstTurnAt: Date | undefined;
  /** When its last turn was. Undefined if none is kept. */
  readonly lastTurnAt: Date | undefined;
  /** Turns that are kept. 0 for an execution that has not begun, or whose history is not kept. */
  readonly turns: number;
  /** The status of the run for the newest execution, the end of the execution for older ones. Undefined if it is not known. */
  readonly status: RunStatus | undefined;
}

// ───────────────────────── what workers serve ───────────────────

/** A JSON Schema. */
export type JsonSchema = Readonly<Record<string, unknown>>;
/**
 * What the messages of a workflow look like. A message without a schema is `{}`, which accepts everything. JSON Schema can't say that a value
 * may be left out as a whole: `isOptional` tells.
 */
export interface WorkflowSchemas {
  /** Absent: the workflow has no schema for its input, or one that can't be written as JSON Schema. */
  readonly input?: JsonSchema | undefined;
  /** The schemas of its signals, by name. */
  readonly signals: Readonly<Record<string, JsonSchema>>;
  /** The schemas of its updates, by name. */
  readonly updates: Readonly<Record<string, JsonSchema>>;
  /** The names of its queries. */
  readonly queries: readonly string[];
}
/** A workflow that workers have registered. */
export interface InspectedWorkflow {
  /** The name of the workflow. */
  readonly name: string;
  /** Of the definition; undefined for one without a version. */
  readonly version: string | undefined;
  /** Versions whose runs are served by this definition. */
  readonly versions: "*" | readonly (string | undefined)[];
  /** What its input and messages look like. */
  readonly schemas: WorkflowSchemas;
  /** The workers that are alive and serve it. */
  readonly workers: readonly string[];
}

// ──────────────────────────── the timeline ──────────────────────

/** The course of one execution, without values and without stacks. Times are milliseconds since 1970. */
export interface Timeline {
  /** The number of the execution. */
  readonly execution: number;
  /** The index of the last turn; -1 if there is none. */
  readonly lastTurn: number;
  /** False: there are more operations than the newest ones that are listed. */
  readonly complete: boolean;
  /** Its turns, in order. */
  readonly turns: readonly TimelineTurn[];
  /** Its units, in the order in which they began. */
  readonly units: readonly TimelineUnit[];
  /** Its operations, in order of emission. */
  readonly operations: readonly TimelineOperation[];
  /** Its loops, and its receives with `checkpointEvery`, with the number of their iterations. */
  readonly loops: readonly TimelineLoop[];
  /** The messages that it got, in order of arrival. */
  readonly messages: readonly TimelineMessage[];
}
/** A turn of an execution. */
export interface TimelineTurn {
  /** Its number. */
  readonly index: number;
  /** Its time, in milliseconds since 1970. */
  readonly time: number;
  /** The worker that committed it. */
  readonly workerId: string | null;
}
/** What a unit is: the workflow function, a branch, a handler, an async handler, an iteration, or the body of a `try` or `shield`. */
export type UnitRole = "root" | "branch" | "handler" | "async" | "iteration" | "body";
/** A unit and how long it has lived. */
export interface TimelineUnit {
  /** Empty for the root. */
  readonly path: string;
  /** What the unit is. */
  readonly role: UnitRole;
  /** The path of the unit that it runs in; null for the root. */
  readonly parent: string | null;
  /** When it began, in milliseconds since 1970. */
  readonly startedAt: number;
  /** When it ended, in milliseconds since 1970. Null: it is alive. */
  readonly endedAt: number | null;
  /** How it ended. */
  readonly status: "running" | "completed" | "failed" | "canceled";
}
/** An operation and how long it took. */
export interface TimelineOperation {
  /** The number of the operation within its execution. */
  readonly seq: number;
  /** The turn that opened it. */
  readonly turn: number;
  /** Where it is in the run. */
  readonly location: string;
  /** The unit that made the call. */
  readonly unit: string;
  /** The kind of call. */
  readonly kind: OperationInfo["kind"];
  /** The name that the call was given, or its kind. */
  readonly name: string;
  /** Its status. */
  readonly status: OperationInfo["status"];
  /** When the call was made, in milliseconds since 1970. */
  readonly scheduledAt: number;
  /** When it settled, in milliseconds since 1970. Null: it is open. */
  readonly endedAt: number | null;
  /** When its timer fires, of one that has a timer, also after it has ended. */
  readonly wakeAt: number | null;
  /** When its next attempt is due, if it waits for one. */
  readonly retryAt: number | null;
  /** For a child: its run id. */
  readonly childId: string | null;
  /** Why it failed, without the stack. Null: it has not failed. */
  readonly error: {
    /** The name of the error's class. */
    readonly name: string;
    /** Its message, at most 200 characters. */
    readonly message: string;
  } | null;
  /** Its attempts, the first one first. */
  readonly attempts: readonly TimelineAttempt[];
}
/** One attempt of a step or activity. */
export interface TimelineAttempt {
  /** Its number, from 1. */
  readonly number: number;
  /** How it ended. "lost": its worker never reported back. */
  readonly status: "running" | "completed" | "failed" | "lost";
  /** When it began, in milliseconds since 1970. */
  readonly startedAt: number;
  /** When it ended, in milliseconds since 1970. Null: it is running. */
  readonly endedAt: number | null;
  /** The worker that ran it. */
  readonly workerId: string | null;
}
/** A loop, or a `receive` that commits its state. Its iterations are folded: those that were trimmed are only counted. */
export interface TimelineLoop {
  /** The location of the operation. */
  readonly location: string;
  /** Iterations (or messages) that have begun. */
  readonly iterations: number;
  /** Of those that are kept: with a failed operation. */
  readonly failed: number;
  /** Iterations whose operations are still in the history. */
  readonly kept: number;
  /** When its state was committed last. */
  readonly committedAt: number | null;
}
/** A message that the execution got. */
export interface TimelineMessage {
  /** The id of the message. */
  readonly id: string;
  /** The kind of message. */
  readonly kind: "signal" | "update" | "cancel";
  /** Null for a cancellation. */
  readonly name: string | null;
  /** The turn that it was delivered to. */
  readonly arrivedTurn: number;
  /** Null: no code has consumed it. */
  readonly takenTurn: number | null;
  /** The location of the operation that consumed it. */
  readonly takenBy: string | null;
}
/** Options of `timelineOf`. */
export interface TimelineOptions {
  /**
   * The number of the execution.
   * @defaultValue as the start job says, else 1
   */
  readonly execution?: number | undefined;
  /**
   * When the run closed, in milliseconds since 1970: what was still open then is abandoned.
   * @defaultValue the run is open
   */
  readonly closedAt?: number | undefined;
  /**
   * Only what has changed after this turn, and what is still open.
   * @defaultValue everything
   */
  readonly after?: number | undefined;
  /**
   * How many operations are shown at most: the newest.
   * @defaultValue `20_000`
   */
  readonly mostOperations?: number | undefined;
}

// ──────────────────────────── the inspection ────────────────────

/** What may have changed. Hints: they may be late, doubled or too broad. */
export interface InspectionChange {
  /** Runs may have been added or changed. */
  readonly runs: boolean;
  /** Those runs, if they are known. Undefined: any of them. */
  readonly runIds: readonly string[] | undefined;
  /** Workers may have come, gone or become busy. */
  readonly workers: boolean;
}
/** Which turns to read. */
export interface TurnPage {
  /**
   * The number of the execution.
   * @defaultValue the newest
   */
  readonly execution?: number | undefined;
  /** Only turns with a greater index. */
  readonly after?: number | undefined;
  /**
   * How many at most.
   * @defaultValue all
   */
  readonly limit?: number | undefined;
}
/** What a store is, and whether it exists. */
export interface StoreState {
  /** "memory", "SQLite", "PostgreSQL", "Temporal". */
  readonly host: string;
  /** False: there is no file, or no schema of Holdfast. It reads as empty. */
  readonly exists: boolean;
  /** The version of its schema, and the one that this code knows. Undefined where there is none. */
  readonly schema:
    | {
        /** The version of the schema that the store has. */
        readonly found: number;
        /** The version of the schema that this code knows. */
        readonly known: number;
      }
    | undefined;
  /**
   * The time by the store's clock, which decides when timers are due and leases end. Of SQLite and memory it is the clock of this machine.
   * Undefined: the store does not exist, or does not tell.
   */
  readonly now: Date | undefined;
}

/** What a host has, besides runs. */
export interface InspectedFeatures {
  /** `queueStats` can be called. */
  readonly queues: boolean;
  /** `schedules` and `schedule` can be called. */
  readonly schedules: boolean;
  /** `workers` can be called. */
  readonly workers: boolean;
}

/**
 * Reads an engine or a store. It never writes, and no call of it runs workflow code. On SQLite it reads with a connection of its own in
 * another thread, so that it does not delay the worker of this process. What the host can't tell is an `UnsupportedError`. Reads of one run
 * that does not exist give `undefined` or an empty list.
 */
export interface Inspection {
  /** "memory", "SQLite", "PostgreSQL", "Temporal". */
  readonly host: string;
  /** What the host has, besides runs. The calls for what it lacks are refused. */
  readonly features: InspectedFeatures;
  /** What the store is, and whether it exists. */
  store(): Promise<StoreState>;

  /**
   * Newest first, one page at a time: `runs`, and the `cursor` of the next page. Without `values`, `input`, `output` and `state` are not
   * read.
   */
  list(
    filter?: RunFilter,
    options?: { readonly values?: boolean },
  ): Promise<{ readonly runs: InspectedRun[]; readonly cursor: string | undefined }>;
  /** The number of matching runs by status. At most 10,001 runs of a status are looked at. */
  counts(filter?: RunFilter): Promise<Record<RunStatus, InspectedCount>>;
  /** The newest execution. */
  get(id: string): Promise<InspectedRun | undefined>;
  /**
   * The operations with their attempts, in order of emission.
   * @param execution The number of the execution; the newest if it is left out.
   */
  operations(id: string, execution?: number): Promise<InspectedOperation[]>;
  /** Recorded turns, in order. Their payloads are encoded: `value` and `showTurn` decode them. */
  turns(id: string, page?: TurnPage): Promise<Turn[]>;
  /** The attempts of an execution, the newest if none is named. */
  attempts(id: string, execution?: number): Promise<InspectedAttempt[]>;
  /** The worker that committed each turn, by index. */
  turnWorkers(id: string, execution?: number): Promise<ReadonlyMap<number, string>>;
  /**
   * `timelineOf` what is stored, of `execution` (the newest if it is left out); with `after`, what has changed since that turn. Undefined
   * if there is no such run or execution.
   */
  timeline(id: string, options?: { readonly execution?: number; readonly after?: number }): Promise<Timeline | undefined>;
  /** The portable history, as `run.history()` gives it. */
  history(id: string, execution?: number): Promise<History | undefined>;
  /** The messages that no turn has consumed, in order of arrival. */
  inbox(id: string): Promise<InspectedMessage[]>;
  /** The executions of the chain, the first one first. Hosts that don't keep older ones list the newest. */
  executions(id: string): Promise<InspectedExecution[]>;
  /** The runs that it has started, newest first; `limit` and `cursor` are those of `list`. */
  children(id: string, page?: { readonly limit?: number; readonly cursor?: string }): ReturnType<Inspection["list"]>;
  /** Why it does not advance, as `run.why()`. Undefined if there is no such run. */
  why(id: string): Promise<readonly Reason[] | undefined>;

  /** Queues that have limits, a pause or open work, by name. */
  queueStats(): Promise<QueueInfo[]>;
  /**
   * In the order of their ids: those behind the id `after`, at most `limit` of them (without it: 1,000). Their values are decoded; one that
   * can't be is `{ $unreadable: reason }`.
   */
  schedules(page?: { readonly after?: string; readonly limit?: number }): Promise<ScheduleInfo[]>;
  /** One schedule. Undefined if there is none with that id. */
  schedule(id: string): Promise<ScheduleInfo | undefined>;
  /** The workers that are alive. */
  workers(): Promise<WorkerInfo[]>;
  /** The workflows that workers have registered, by name and version, and what their messages look like. */
  workflows(): Promise<InspectedWorkflow[]>;

  /** Calls back when something may have changed, at most every 50 ms. Returns how to stop. */
  watch(listener: (change: InspectionChange) => void): () => void;
  /** A payload of a turn as a value that can be shown. */
  value(payload: Payload): EncodedValue;
  /** Stops the thread and closes the connection. An engine that is inspected stays open. */
  close(): Promise<void>;
}
