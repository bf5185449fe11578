// What can be read of an SQLite file, with any connection to it: the one of a store, or one that only reads.
// Owns: nothing; what the reads do is in the files named after it.
// Invariants: B2 (each call sees one moment), no call takes the write lock.

import type { Turn } from "@holdfast/core";
import type { InspectStore } from "../inspectPort.ts";
import type { AttemptRow, InboxMessage, RunQuery, RunRow, Store, UpdateOutcome } from "../port.ts";
import type { LimitedWork, LimitsFor, QueueRow } from "../queuePort.ts";
import type { DueSchedules, ScheduleRow } from "../schedulePort.ts";
import { parseCursor } from "../search/cursors.ts";
import type { RunCounts, RunFilter } from "../searchPort.ts";
import type { WorkerRow } from "../workerPort.ts";
import { readLimits } from "./claimFiled.ts";
import type { Connection } from "./connection.ts";
import { countRuns, listRuns } from "./findRuns.ts";
import { inspectSqlite } from "./inspectRuns.ts";
import { readLiveWorkers } from "./liveWorkers.ts";
import { listQueues, readQueue } from "./queues.ts";
import { readAllAttempts, readHistory, readMessages, readRun, readWorkers } from "./readRuns.ts";
import { listSchedules, readSchedule } from "./schedules.ts";
import { readUpdate } from "./updates.ts";

export abstract class SqliteReads implements Partial<Store> {
  /** The time, in milliseconds since 1970. */
  protected abstract readonly clock: () => number;
  /** Whether there is a file with tables of Holdfast, for a call within `read`. */
  protected abstract exists(): boolean;
  protected abstract read<T>(work: (db: Connection) => T): Promise<T>;

  async now(): Promise<number> {
    return this.clock();
  }
  get(runIds: readonly string[]): Promise<(RunRow | undefined)[]> {
    return this.read((db) => runIds.map((id) => readRun(db, id)));
  }
  history(runId: string): Promise<Turn[]> {
    return this.read((db) => readHistory(db, runId));
  }
  inbox(runId: string): Promise<readonly InboxMessage[]> {
    return this.read((db) => readMessages(db, runId));
  }
  attempts(runId: string): Promise<(AttemptRow & { task?: boolean })[]> {
    return this.read((db) => readAllAttempts(db, runId));
  }
  workers(runId: string): Promise<ReadonlyMap<number, string>> {
    return this.read((db) => readWorkers(db, runId));
  }
  updates(keys: readonly { readonly runId: string; readonly id: string }[]): Promise<(UpdateOutcome | undefined)[]> {
    return this.read((db) => keys.map(({ runId, id }) => readUpdate(db, runId, id)));
  }
  async list(query: RunQuery): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
    if (query.cursor !== undefined) parseCursor(query.cursor); // a wrong cursor is not a damaged file
    return this.read((db) => listRuns(db, query));
  }
  count(filter: RunFilter): Promise<RunCounts> {
    return this.read((db) => countRuns(db, filter));
  }
  liveWorkers(): Promise<WorkerRow[]> {
    const now = this.clock();
    return this.read((db) => readLiveWorkers(db, now));
  }
  getQueue(name: string): Promise<QueueRow> {
    return this.read((db) => readQueue(db, name, this.clock()));
  }
  limitsFor(work: LimitedWork): Promise<LimitsFor | undefined> {
    return this.read((db) => readLimits(db, work, this.clock()));
  }
  listQueues(): Promise<QueueRow[]> {
    return this.read((db) => listQueues(db, this.clock()));
  }
  async readSchedules(ids: readonly string[]): Promise<{ now: number; schedules: (ScheduleRow | undefined)[] }> {
    return { now: this.clock(), schedules: await this.read((db) => ids.map((id) => readSchedule(db, id))) };
  }
  async listSchedules(page: { readonly after: string | undefined; readonly limit: number }): Promise<DueSchedules> {
    return { now: this.clock(), schedules: await this.read((db) => listSchedules(db, page)) };
  }
  inspect(): InspectStore {
    return inspectSqlite((work) => this.read(work), () => this.exists()); // biome-ignore format: one call
  }
}
