// What consoles read of an SQLite file: lists without values, pages of turns, older executions, messages, registered workflows.
// Owns: these statements.
// Invariants: nothing here writes; a page of turns costs what it shows.

import type { Turn } from "@holdfast/core";
import {
  type ExecutionRow,
  type InspectStore,
  type ListedRun,
  MOST_EXECUTIONS,
  type ReceivedMessage,
  type StoredAttemptRow,
  type TurnQuery,
} from "../inspectPort.ts";
import type { RunQuery } from "../port.ts";
import type { ExecutionStart } from "../recordFields.ts";
import { parseCursor } from "../search/cursors.ts";
import type { WorkflowRow } from "../workerPort.ts";
import { readAttempts } from "./attempts.ts";
import { readNumber, readOptionalNumber, readOptionalText, readPayload, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { findRun } from "./findRun.ts";
import { listRuns } from "./findRuns.ts";
import { readReceived } from "./inbox.ts";
import { readWorkersOf } from "./readRuns.ts";
import { SELECT_RECORDS, SELECT_WITHOUT_VALUES, turnsOf } from "./records.ts";
import { SCHEMA_VERSION } from "./schema.ts";

/** `read` gives a connection for one look. `exists`: whether there is a file with tables of Holdfast. */
export function inspectSqlite(read: <T>(work: (db: Connection) => T) => Promise<T>, exists: () => boolean): InspectStore {
  return {
    host: "SQLite",
    state: async () => {
      const isThere = await read(() => exists());
      return { exists: isThere, schema: isThere ? { found: SCHEMA_VERSION, known: SCHEMA_VERSION } : undefined };
    },
    listRuns: async (query) => {
      if (query.cursor !== undefined) parseCursor(query.cursor); // a wrong cursor is not a damaged file
      return read((db) => readList(db, query));
    },
    turnsOf: (runId, query) => read((db) => readTurns(db, runId, query)),
    attemptsOf: (runId, execution) =>
      read((db): StoredAttemptRow[] => at(db, runId, execution, (run, one) => readAttempts(db, run, one, "all")) ?? []),
    workersOf: (runId, execution) =>
      read((db) => at(db, runId, execution, (run, one) => readWorkersOf(db, run, one)) ?? new Map<number, string>()),
    executionsOf: (runId) => read((db) => at(db, runId, undefined, (run) => readExecutions(db, run)) ?? []),
    messagesOf: (runId) => read((db): ReceivedMessage[] => at(db, runId, undefined, (run) => readReceived(db, run)) ?? []),
    workflows: () => read(readWorkflows),
  };
}

/** By the number of the run in this file, and of the execution: the newest, unless one is named. */
function at<T>(db: Connection, runId: string, execution: number | undefined, work: (run: number, execution: number) => T): T | undefined {
  const run = findRun(db, runId);
  return run === undefined ? undefined : work(run.key, execution ?? run.execution);
}

function readList(db: Connection, query: RunQuery): { runs: ListedRun[]; cursor: string | undefined } {
  const { runs, cursor } = listRuns(db, query, "without values");
  return {
    runs: runs.map(({ input: _input, output: _output, state: _state, seed: _seed, ...row }) => row),
    cursor,
  };
}

const WHERE = "WHERE run = ? AND execution = ? AND turn > ? AND turn <= ? ORDER BY turn, id";
const PAGE = `${SELECT_RECORDS} ${WHERE}`;
const PAGE_WITHOUT_VALUES = `${SELECT_WITHOUT_VALUES} ${WHERE}`;
/** The last turn of a page. */
const LAST = "SELECT DISTINCT turn FROM holdfast_records WHERE run = ? AND execution = ? AND turn > ? ORDER BY turn LIMIT 1 OFFSET ?";

function readTurns(db: Connection, runId: string, { execution, after = -1, limit, values = true }: TurnQuery): Turn[] {
  if (limit !== undefined && limit < 1) return [];
  const found = at(db, runId, execution, (run, one) => {
    const executionStart = executionStartOf(db, runId, run, one);
    if (executionStart === undefined) return [];
    const last = limit === undefined ? undefined : readOptionalNumber(db.get(LAST, [run, one, after, limit - 1])?.[0]);
    return turnsOf(db.all(values ? PAGE : PAGE_WITHOUT_VALUES, [run, one, after, last ?? Number.MAX_SAFE_INTEGER]), executionStart);
  });
  return found ?? [];
}

function executionStartOf(db: Connection, runId: string, run: number, execution: number): ExecutionStart | undefined {
  const sql = "SELECT workflow, version, seed, input FROM holdfast_executions WHERE run = ? AND execution = ?";
  const [workflow, version, seed, input] = db.get(sql, [run, execution]) ?? [];
  if (workflow === undefined) return undefined;
  return { runId, workflow: readText(workflow), version: readOptionalText(version), seed: readText(seed), input: readPayload(input) };
}

const OF_EXECUTION = "FROM holdfast_records h WHERE h.run = e.run AND h.execution = e.execution";
const EXECUTIONS = `SELECT e.execution, e.workflow, e.version, e.input,
    (SELECT count(DISTINCT h.turn) ${OF_EXECUTION}),
    (SELECT h.time ${OF_EXECUTION} ORDER BY h.turn LIMIT 1),
    (SELECT h.time ${OF_EXECUTION} ORDER BY h.turn DESC LIMIT 1),
    (SELECT h.type ${OF_EXECUTION} ORDER BY h.turn DESC, h.id DESC LIMIT 1)
  FROM holdfast_executions e WHERE e.run = ? ORDER BY e.execution DESC LIMIT ${MOST_EXECUTIONS}`;

function readExecutions(db: Connection, run: number): ExecutionRow[] {
  const rows = db.all(EXECUTIONS, [run]).map(([execution, workflow, version, input, turns, first, last, type]) => ({
    execution: readNumber(execution),
    workflow: readText(workflow),
    version: readOptionalText(version),
    input: readPayload(input),
    turns: readNumber(turns),
    firstTurnAt: readOptionalNumber(first),
    lastTurnAt: readOptionalNumber(last),
    lastRecord: readOptionalText(type),
  }));
  return rows.reverse();
}

// ── what workers have registered ──

const WORKFLOWS = "SELECT workflow, version, info FROM holdfast_workflows ORDER BY workflow, version";
function readWorkflows(db: Connection): WorkflowRow[] {
  return db.all(WORKFLOWS, []).map(([workflow, version, info]) => ({
    workflow: readText(workflow),
    version: readOptionalText(version),
    info: readText(info),
  }));
}
export function isRegistered(db: Connection, { workflow, version, info }: WorkflowRow): boolean {
  const sql = "SELECT info FROM holdfast_workflows WHERE workflow = ? AND version IS ?";
  const [found] = db.get(sql, [text(workflow), version === undefined ? null : text(version)]) ?? [];
  return found !== undefined && readText(found) === info;
}
export function registerWorkflow(db: Connection, { workflow, version, info }: WorkflowRow): void {
  const key = [text(workflow), version === undefined ? null : text(version)];
  db.run("DELETE FROM holdfast_workflows WHERE workflow = ? AND version IS ?", key);
  db.run("INSERT INTO holdfast_workflows (workflow, version, info) VALUES (?, ?, ?)", [...key, text(info)]);
}
