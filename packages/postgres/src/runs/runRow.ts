// A run as a row of columns and as a value of the port; its messages and attempts.
// Owns: how columns become the values of the port.
// Invariants: P11 (statuses and which of them are closed).

import type { RunStatus, StoredRunRetry } from "@holdfast/core";
import type { AddressedMessage, AttemptRow, ExecutionStart, InboxJob, InboxMessage, NewMessage, ParentLink, RunRow } from "holdfast/store";
import {
  json,
  optionalText,
  readAttributes,
  readError,
  readNumber,
  readOptionalJson,
  readOptionalNumber,
  readOptionalPayload,
  readOptionalText,
  readPayload,
  readText,
  text,
  time,
  type Value,
} from "../columns.ts";
import { jobOf, type RecordFields, toFields } from "./recordCodec.ts";

export const ALL_STATUSES: readonly RunStatus[] = [
  "pending", "running", "sleeping", "blocked", "rolling_back", "completed", "failed", "canceled", "terminated", "continued",
]; // biome-ignore format: one line reads best
/** A run that has one of these has ended, and keeps it in `ended_as`. */
export const CLOSED_STATUSES: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated"]);

/** The columns of `runColumns`, by name. */
export type RunColumns = Readonly<Record<string, Value>>;

export function runRow(row: RunColumns): RunRow {
  const parent: ParentLink | undefined =
    row["parent_id"] === null
      ? undefined
      : {
          runId: readText(row["parent_id"]),
          execution: readNumber(row["parent_execution"]),
          seq: readNumber(row["parent_seq"]),
          parentClose: readText(row["parent_close"]) as ParentLink["parentClose"],
          announce: row["parent_announce"] === true,
        };
  return {
    id: readText(row["id"]),
    workflow: readText(row["workflow"]),
    version: readOptionalText(row["version"]),
    status: String(row["status"]) as RunStatus,
    queue: readText(row["queue"]),
    ...originOf(row["origin"]),
    priority: readNumber(row["priority"]),
    input: readPayload(row["input"]),
    output: readOptionalPayload(row["output"]),
    error: readError(row["error"]),
    resumable: row["status"] === "failed" ? row["resumable"] === true && readNumber(row["turns"]) > 0 : undefined,
    state: readOptionalPayload(row["state"]),
    waitingFor: readOptionalJson<string[]>(row["waiting_for"]) ?? [],
    execution: readNumber(row["execution"]),
    attempt: readNumber(row["attempt"]),
    parent,
    attributes: readAttributes(row["attributes"]),
    seed: readText(row["seed"]),
    retry: readOptionalJson<StoredRunRetry>(row["retry"]),
    createdAt: readNumber(row["created_at"]),
    startedAt: readOptionalNumber(row["started_at"]),
    availableAt: readOptionalNumber(row["available_at"]),
    deadlineAt: readOptionalNumber(row["deadline_at"]),
    finishedAt: readOptionalNumber(row["finished_at"]),
    workerId: readOptionalText(row["worker_id"]),
    epoch: readNumber(row["epoch"]),
    historyLength: readNumber(row["history_length"]),
    turns: readNumber(row["turns"]),
    recoveries: readNumber(row["recoveries"]),
  };
}

type Origin = Pick<RunRow, "key" | "schedule" | "tick" | "forkedFrom" | "after" | "retention">;
const NO_ORIGIN: Origin = {
  key: undefined,
  schedule: undefined,
  tick: undefined,
  forkedFrom: undefined,
  after: undefined,
  retention: undefined,
};
/** What most runs don't have: one column for all of it. */
function originOf(value: Value): Origin {
  if (value === null || value === undefined) return NO_ORIGIN;
  const { key, schedule, tick, from, after, retention } = JSON.parse(String(value)) as Readonly<Record<string, Value>>;
  return {
    key: readOptionalText(key),
    schedule: readOptionalText(schedule),
    tick: readOptionalNumber(tick),
    forkedFrom: readOptionalText(from),
    after: readOptionalText(after),
    retention: retention === -1 ? "forever" : readOptionalNumber(retention),
  };
}

export function executionStartOf({ id, workflow, version, seed, input }: RunRow): ExecutionStart {
  return { runId: id, workflow, version, seed, input };
}

// ── messages ──

/** A message on its way: what makes it a record, and k its key, u the id of an update, kl that it has no key, aw how long it may wait. */
export interface MessageFields extends RecordFields {
  k?: string;
  u?: string;
  kl?: true;
  aw?: number | undefined;
}

export function messageFields({ job, idempotencyKey, acceptWithin }: NewMessage): MessageFields {
  const fields: MessageFields = toFields(job);
  if (job.type === "update") {
    fields.u = text(job.id);
    if (idempotencyKey === undefined) fields.kl = true;
    if (acceptWithin !== undefined) fields.aw = time(acceptWithin);
  } else if (idempotencyKey !== undefined) fields.k = text(idempotencyKey);
  return fields;
}

/** The same with its address: r run, wf the workflow that it has to be of. */
export function addressedFields({ runId, message, workflow }: AddressedMessage): MessageFields & { r: string; wf: string | undefined } {
  return { r: text(runId), wf: optionalText(workflow), ...messageFields(message) };
}

const MESSAGES: ReadonlySet<string> = new Set([
  "signal", "update", "cancel", "resolve", "childStarted", "expire", "resume", "fork",
] satisfies InboxJob["type"][]); // biome-ignore format: one line

/** id, type, seq, name, refs, data, value. */
export type InboxColumns = readonly (Value | readonly string[])[];

export function inboxMessage(columns: InboxColumns): InboxMessage {
  const [id, type, seq, name, refs, data, value] = columns as [Value, Value, Value, Value, readonly string[] | null, Value, Value];
  if (!MESSAGES.has(String(type))) throw new TypeError(`Unknown type of message: "${String(type)}".`);
  if (readNumber(id) <= 0) throw new TypeError("Ids of messages are above 0.");
  const job = jobOf({ type, seq, unit: null, name, n: null, refs, data, value }) as InboxJob;
  // The server has made it, of a column.
  return { id: readNumber(id), job: job.type === "childStarted" ? { ...job, runId: readText(job.runId) } : job };
}

// ── attempts ──

/** seq, number, task, status, worker, started, ended, retry, error. */
export type AttemptColumns = readonly Value[];

export function attemptRow(columns: AttemptColumns): AttemptRow & { task?: boolean } {
  const [seq, number, task, status, workerId, startedAt, endedAt, retryAt, error] = columns;
  return {
    seq: readNumber(seq),
    number: readNumber(number),
    status: String(status) as AttemptRow["status"],
    workerId: readText(workerId),
    startedAt: readNumber(startedAt),
    ...(endedAt !== null && { endedAt: readOptionalNumber(endedAt) }),
    ...(retryAt !== null && { retryAt: readOptionalNumber(retryAt) }),
    ...(error !== null && { error: readError(error) }),
    ...(task === true && { task: true }),
  };
}

export function attemptFields({ seq, number, status, workerId, startedAt, endedAt, retryAt, error }: AttemptRow): object {
  return {
    seq,
    number,
    status,
    worker: optionalText(workerId) ?? "",
    started: Math.round(startedAt),
    ended: endedAt === undefined ? undefined : Math.round(endedAt),
    retry: retryAt === undefined ? undefined : Math.ceil(retryAt),
    error: error === undefined ? undefined : json(error),
  };
}

export function waitingForOf(waitingFor: readonly string[] | undefined): string | undefined {
  return waitingFor === undefined || waitingFor.length === 0 ? undefined : json(waitingFor.map(String));
}
