// A run as a row, and as anybody may look at it.
// Owns: the columns that make a `RunRow`, in their order.
// Invariants: P11 (statuses and which of them are open).

import type { RunStatus, StoredRunRetry } from "@holdfast/core";
import type { ParentLink, RunRow } from "../port.ts";
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
import type { Row } from "./driver.ts";
import type { Birth } from "./recordCodec.ts";
import { HISTORY_LENGTH_NOW, TURNS_NOW } from "./tail.ts";

export const ALL_STATUSES: readonly RunStatus[] = [
  "pending", "running", "sleeping", "blocked", "rolling_back", "completed", "failed", "canceled", "terminated", "continued",
]; // biome-ignore format: one line reads best

const COLUMNS = [
  "id", "workflow", "version", "status", "queue", "priority", "output", "error", "waiting_for", "execution", "attempt", "parent_id",
  "parent_execution", "parent_seq", "parent_close", "parent_announce", "attributes", "retry", "created_at", "started_at", "available_at",
  "deadline_at", "finished_at", "worker_id", "epoch", "recoveries", "resumable",
]; // biome-ignore format: lines read best

const columns = (unread: readonly string[]): string =>
  `${COLUMNS.map((name) => (unread.includes(name) ? "NULL" : `r.${name}`)).join(", ")}, ${HISTORY_LENGTH_NOW}, ${TURNS_NOW}, e.input, e.seed, s.state`;
/** A run is open until it has an end. In SQL: `finished_at IS NULL`. */
export const RUN_COLUMNS: string = columns([]);
/** The same for a claim, which empties these two: whatever is in them. */
export const CLAIM_COLUMNS: string = columns(["error", "waiting_for"]);
export const RUN_TABLES = `holdfast_runs r
  JOIN holdfast_executions e ON e.run = r.key AND e.execution = r.execution
  LEFT JOIN holdfast_states s ON s.run = r.key`;

export function runRow(row: Row): RunRow {
  const [id, workflow, version, status, queue, priority, output, error, waitingFor, execution, attempt, ...more] = row;
  const [parentId, parentExecution, parentSeq, parentClose, parentAnnounce, attributes, retry, createdAt, startedAt, ...rest] = more;
  const [availableAt, deadlineAt, finishedAt, workerId, epoch, recoveries, resumable, historyLength, turns, input, seed, state] = rest;
  const parent: ParentLink | undefined =
    parentId === null
      ? undefined
      : {
          runId: readText(parentId),
          execution: readNumber(parentExecution),
          seq: readNumber(parentSeq),
          parentClose: readText(parentClose) as ParentLink["parentClose"],
          announce: parentAnnounce === 1,
        };
  return {
    id: readText(id),
    workflow: readText(workflow),
    version: readOptionalText(version),
    status: readText(status) as RunStatus,
    queue: readText(queue),
    priority: readNumber(priority),
    input: readPayload(input),
    output: readOptionalPayload(output),
    error: readError(error),
    resumable: status === "failed" ? resumable === 1 && readNumber(turns) > 0 : undefined,
    state: readOptionalPayload(state),
    waitingFor: readOptionalJson<string[]>(waitingFor) ?? [],
    execution: readNumber(execution),
    attempt: readNumber(attempt),
    parent,
    attributes: JSON.parse(readText(attributes)) as RunRow["attributes"],
    seed: readText(seed),
    retry: readOptionalJson<StoredRunRetry>(retry),
    createdAt: readNumber(createdAt),
    startedAt: readOptionalNumber(startedAt),
    availableAt: readOptionalNumber(availableAt),
    deadlineAt: readOptionalNumber(deadlineAt),
    finishedAt: readOptionalNumber(finishedAt),
    workerId: readOptionalText(workerId),
    epoch: readNumber(epoch),
    historyLength: readNumber(historyLength),
    turns: readNumber(turns),
    recoveries: readNumber(recoveries),
  };
}

export function birthOf({ id, workflow, version, seed, input }: RunRow): Birth {
  return { runId: id, workflow, version, seed, input };
}
