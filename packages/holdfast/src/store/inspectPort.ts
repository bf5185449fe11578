// The part of the store's port that consoles read: lists without values, older executions, pages of turns, messages with their times, and
// what workers have registered about their workflows.
// Owns: the words of it. Moments are by the store's clock.
// Invariants: nothing here writes, and nothing of it is needed to run a workflow.

import type { Payload, Turn } from "@holdfast/core";
import type { AttemptRow, InboxMessage, RunQuery, RunRow, Store } from "./port.ts";
import type { WorkflowRow } from "./workerPort.ts";

/** A row of a list without the values of its user: `input`, `output` and `state` are absent. */
export type ListedRun = Omit<RunRow, "input" | "output" | "state" | "seed">;

/** Which turns to read. */
export interface TurnQuery {
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
  /**
   * False: values that are recorded are not read. In their place is `null`, as the default codec writes it.
   * @defaultValue `true`
   */
  readonly values?: boolean | undefined;
}
/** One execution of a run (P10), as far as the store keeps it. */
export interface ExecutionRow {
  /** Its number in the chain, from 1. */
  readonly execution: number;
  /** The name of its workflow. */
  readonly workflow: string;
  /** Its version. */
  readonly version: string | undefined;
  /** Its input, encoded. */
  readonly input: Payload;
  /** Turns that are kept. */
  readonly turns: number;
  /** The time of the first of them, in milliseconds since 1970. */
  readonly firstTurnAt: number | undefined;
  /** The time of the last of them, in milliseconds since 1970. */
  readonly lastTurnAt: number | undefined;
  /** The type of the last record: for an execution that its own code has ended it says how. */
  readonly lastRecord: string | undefined;
}

/** Whether a store exists, and its version. */
export interface StorageState {
  /** Whether there is a store. */
  readonly exists: boolean;
  /** The version that was `found`, and the one that this code knows (`known`). */
  readonly schema:
    | {
        /** The version of the schema that the store has. */
        readonly found: number;
        /** The version of the schema that this code knows. */
        readonly known: number;
      }
    | undefined;
}
/** A message and when it arrived. */
export type ReceivedMessage = InboxMessage & {
  /** When it arrived, in milliseconds since 1970. */
  readonly receivedAt: number | undefined;
};
/** An attempt of a step or activity. */
export type StoredAttemptRow = AttemptRow & {
  /** Whether it is an attempt of an activity. */
  readonly task?: boolean;
};
/** How many executions of a chain are listed at most. */
export const MOST_EXECUTIONS = 1_000;

/** What consoles read of a store. */
export interface InspectStore {
  /** "memory", "SQLite", "PostgreSQL". */
  readonly host: string;
  /** Whether the storage is there, and the version of its schema, if it has one. */
  state(): Promise<StorageState>;
  /** The runs that match, newest first: `runs`, and the `cursor` of the next page. */
  listRuns(query: RunQuery): Promise<{ readonly runs: ListedRun[]; readonly cursor: string | undefined }>;
  /** The turns that the query asks for, in order. None if there is no such run or execution. */
  turnsOf(runId: string, query: TurnQuery): Promise<Turn[]>;
  /** The attempts of an execution, the newest if none is named. */
  attemptsOf(runId: string, execution?: number): Promise<StoredAttemptRow[]>;
  /** The worker that committed each turn that is kept, by its index. */
  workersOf(runId: string, execution?: number): Promise<ReadonlyMap<number, string>>;
  /** The executions that are kept, the first one first; of a long chain the newest 1,000. */
  executionsOf(runId: string): Promise<ExecutionRow[]>;
  /** As `inbox`, with the time at which each message arrived, if the store keeps it. */
  messagesOf(runId: string): Promise<ReceivedMessage[]>;
  /** What workers have registered, by name and version. */
  workflows(): Promise<WorkflowRow[]>;
}
/** What an inspection needs of a store. */
export type ReadStore = Pick<
  Store,
  "now" | "get" | "list" | "count" | "history" | "attempts" | "inbox" | "readSchedules" | "listSchedules" | "watch" | "close"
> &
  Partial<Pick<Store, "workers" | "liveWorkers" | "getQueue" | "listQueues" | "limitsFor" | "inspect">>;
