// A run as a row of columns and as a value of the port.
// Owns: the columns that make a `RunRow`, in their order.
// Invariants: P11 (statuses and which of them are open).

import type { RunStatus, StoredRunRetry } from "@holdfast/core";
import type { ParentLink, RunRow } from "../port.ts";
import type { ExecutionStart } from "../recordFields.ts";
import {
  readError,
  readNumber,
  readOptionalJson,
  readOptionalNumber,
  readOptionalPayload,
  readOptionalText,
  readPayload,
  readText,
} from "./columns.ts";
import type { Row, Value } from "./library.ts";
import { HISTORY_LENGTH_NOW, TURNS_NOW } from "./uncountedTurns.ts";

export const ALL_STATUSES: readonly RunStatus[] = [
  "pending", "running", "sleeping", "blocked", "rolling_back", "completed", "failed", "canceled", "terminated", "continued",
]; // biome-ignore format: one line reads best

const COLUMNS = [
  "id", "workflow", "version", "status", "queue", "priority", "output", "error", "waiting_for", "execution", "attempt", "parent_id",
  "parent_execution", "parent_seq", "parent_close", "parent_announce", "attributes", "retry", "created_at", "started_at", "available_at",
  "deadline_at", "finished_at", "worker_id", "epoch", "recoveries", "resumable", "work_key", "schedule", "tick", "forked_from", "after_id",
  "retention",
] as const; // biome-ignore format: lines read best
const ALL_COLUMNS = [...COLUMNS, "history_length", "turns", "input", "seed", "state"] as const;
/** Where each is in a row. */
const AT = Object.fromEntries(ALL_COLUMNS.map((name, i) => [name, i])) as Record<(typeof ALL_COLUMNS)[number], number>;

const columns = (unread: readonly string[], values = "e.input, e.seed, s.state"): string =>
  `${COLUMNS.map((name) => (unread.includes(name) ? "NULL" : `r.${name}`)).join(", ")}, ${HISTORY_LENGTH_NOW}, ${TURNS_NOW}, ${values}`;
/** A run is open until it has an end. In SQL: `finished_at IS NULL`. */
export const RUN_COLUMNS: string = columns([]);
/** The same for a claim, which empties these two: whatever is in them. */
export const CLAIM_COLUMNS: string = columns(["error", "waiting_for"]);
/** The same for a list that shows no values, of `holdfast_runs` r alone: what is not read is null. */
export const LISTED_COLUMNS: string = columns(["output"], "NULL, NULL, NULL");
export const RUN_TABLES = `holdfast_runs r
  JOIN holdfast_executions e ON e.run = r.key AND e.execution = r.execution
  LEFT JOIN holdfast_states s ON s.run = r.key`;

const STATUSES: ReadonlySet<string> = new Set([
  "pending", "running", "sleeping", "blocked", "rolling_back", "completed", "failed", "canceled", "terminated",
] satisfies RunStatus[]); // biome-ignore format: one line reads best

const ENDS: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated"]);

function readStatus(value: Value | undefined): RunStatus {
  if (typeof value === "string" && STATUSES.has(value)) return value as RunStatus;
  throw new TypeError(`Unknown status: "${readText(value)}".`);
}

/** By index: to take thirty columns apart by pattern makes an object for each. */
export function runRow(row: Row): RunRow {
  const status = readStatus(row[AT.status]);
  const turns = readNumber(row[AT.turns]);
  if (turns < 0 || !Number.isSafeInteger(turns)) throw new TypeError(`A run can't have ${turns} turns.`);
  if (ENDS.has(status) !== (row[AT.finished_at] !== null))
    throw new TypeError(`Its status is ${status}, and its finished_at says otherwise.`);
  return {
    id: readText(row[AT.id]),
    workflow: readText(row[AT.workflow]),
    version: readOptionalText(row[AT.version]),
    status,
    queue: readText(row[AT.queue]),
    key: readOptionalText(row[AT.work_key]),
    schedule: readOptionalText(row[AT.schedule]),
    tick: readOptionalNumber(row[AT.tick]),
    forkedFrom: readOptionalText(row[AT.forked_from]),
    after: readOptionalText(row[AT.after_id]),
    retention: readRetention(row[AT.retention]),
    priority: readNumber(row[AT.priority]),
    input: readPayload(row[AT.input]),
    output: readOptionalPayload(row[AT.output]),
    error: readError(row[AT.error]),
    resumable: status === "failed" ? row[AT.resumable] === 1 && turns > 0 : undefined,
    state: readOptionalPayload(row[AT.state]),
    waitingFor: readOptionalJson<string[]>(row[AT.waiting_for]) ?? [],
    execution: readNumber(row[AT.execution]),
    attempt: readNumber(row[AT.attempt]),
    parent: row[AT.parent_id] === null ? undefined : parentOf(row),
    attributes: JSON.parse(readText(row[AT.attributes])) as RunRow["attributes"],
    seed: readText(row[AT.seed]),
    retry: readOptionalJson<StoredRunRetry>(row[AT.retry]),
    createdAt: readNumber(row[AT.created_at]),
    startedAt: readOptionalNumber(row[AT.started_at]),
    availableAt: readOptionalNumber(row[AT.available_at]),
    deadlineAt: readOptionalNumber(row[AT.deadline_at]),
    finishedAt: readOptionalNumber(row[AT.finished_at]),
    workerId: readOptionalText(row[AT.worker_id]),
    epoch: readNumber(row[AT.epoch]),
    historyLength: readNumber(row[AT.history_length]),
    turns,
    recoveries: readNumber(row[AT.recoveries]),
  };
}
/** -1: forever. */
function readRetention(value: Value | undefined): RunRow["retention"] {
  const ms = readOptionalNumber(value);
  return ms !== undefined && ms < 0 ? "forever" : ms;
}
export function retentionOrNull(retention: RunRow["retention"]): number | null {
  return retention === "forever" ? -1 : (retention ?? null);
}
function parentOf(row: Row): ParentLink {
  return {
    runId: readText(row[AT.parent_id]),
    execution: readNumber(row[AT.parent_execution]),
    seq: readNumber(row[AT.parent_seq]),
    parentClose: readText(row[AT.parent_close]) as ParentLink["parentClose"],
    announce: row[AT.parent_announce] === 1,
  };
}

export function executionStartOf({ id, workflow, version, seed, input }: RunRow): ExecutionStart {
  return { runId: id, workflow, version, seed, input };
}
