// A job or a command as a row, and the row as a job or a command.
// Owns: which fields have their own columns, which one is the `value`, which name messages, and what a `start` leaves out.
// Invariants: what comes out is what went in (fields that were undefined are absent), whatever kinds the core adds; a row that lacks what
// its kind needs was changed by something else, and is a TypeError.

import { type Command, checkCommand, checkJob, type Job, type Outcome, VALUE_FIELDS } from "@holdfast/core";
import {
  addExecutionStart,
  dataFromJson,
  dataToJson,
  type ExecutionStart,
  isBareStep,
  isOfExecutionStart,
  outcomeFromJson,
  repeatsExecutionStart,
  withoutUndefined,
} from "holdfast/store";
import { json, payload, readJson, readNumber, readOptionalText, readPayload, readText, text, type Value } from "../columns.ts";

/** As it is handed to the server: y type, q seq, u unit, m name, n occurrence, f refs, d data, v value. What is not there is left out. */
export interface RecordFields {
  y: string;
  q?: number;
  u?: string;
  m?: string;
  n?: number;
  f?: readonly string[];
  d?: string;
  v?: string;
}
/** As it comes back. */
export interface ReadRecord {
  readonly type: Value;
  readonly seq: Value;
  readonly unit: Value;
  readonly name: Value;
  readonly n: Value;
  readonly refs: readonly string[] | null;
  readonly data: Value;
  readonly value: Value;
}

/** The payload has its own column, `value`; all other fields are in `data`. */
const VALUE_FIELD: Readonly<Record<string, string | undefined>> = VALUE_FIELDS;

/** The field that names a message, or several: what a trim goes by (L4). */
const REFS_FIELD: Readonly<Record<string, string>> = {
  signal: "id",
  update: "id",
  acceptUpdate: "id",
  completeUpdate: "id",
  dispatch: "message",
  settle: "messages",
};
const LIST = "messages";

export function toFields(record: Job | Command, executionStart?: ExecutionStart): RecordFields {
  if (record.type === "resolve") {
    const { seq, outcome } = record;
    return outcome.status === "completed"
      ? { y: "resolve", q: seq, v: payload(outcome.value) }
      : { y: "resolve", q: seq, d: json(withoutUndefined(outcome)) };
  }
  if (record.type === "step" && isBareStep(record))
    return { y: "step", q: record.seq, u: text(record.unit), m: text(record.name), n: record.n };
  const fields: RecordFields = { y: record.type };
  const valueField = VALUE_FIELD[record.type];
  const refsField = REFS_FIELD[record.type];
  const repeats = record.type === "start" && executionStart !== undefined && repeatsExecutionStart(record, executionStart);
  let data: Record<string, unknown> | undefined;
  for (const [field, value] of Object.entries(record)) {
    if (value === undefined || field === "type") continue;
    if (field === "seq") fields.q = value;
    else if (field === "unit") fields.u = text(value);
    else if (field === "name") fields.m = text(value);
    else if (field === "n") fields.n = value;
    else if (repeats && isOfExecutionStart(field)) continue;
    else if (field === valueField) fields.v = payload(value);
    else if (field === refsField) fields.f = field === LIST ? (value as readonly string[]).map(text) : [text(value)];
    else {
      data ??= {};
      data[field] = value;
    }
  }
  if (data !== undefined) fields.d = json(dataToJson(record.type, data));
  return fields;
}

/** Without `executionStart` a start lacks what its execution says. */
export function jobOf(fields: ReadRecord, executionStart?: ExecutionStart): Job {
  const job = fromFields(fields, executionStart) as Job;
  if (job.type !== "start" || executionStart !== undefined) checkJob(job);
  return job;
}
export function commandOf(fields: ReadRecord): Command {
  const command = fromFields(fields) as Command;
  checkCommand(command);
  return command;
}

function fromFields({ type, seq, unit, name, n, refs, data, value }: ReadRecord, executionStart?: ExecutionStart): Job | Command {
  const kind = String(type);
  if (kind === "step" && !given(data) && given(unit) && given(name) && given(seq) && given(n))
    return { type: "step", seq: readNumber(seq), unit: readText(unit), name: readText(name), n: readNumber(n) };
  if (kind === "resolve") return { type: "resolve", seq: readNeededNumber(seq), outcome: readOutcome(data, value) };
  const record: Record<string, unknown> = { type: kind };
  if (given(seq)) record["seq"] = readNumber(seq);
  if (given(unit)) record["unit"] = readText(unit);
  if (given(name)) record["name"] = readOptionalText(name);
  if (given(n)) record["n"] = readNumber(n);
  if (given(data)) Object.assign(record, dataFromJson(kind, readJson(data)));
  record["type"] = kind; // whatever the data say
  if (given(value)) record[VALUE_FIELD[kind] ?? "value"] = readPayload(value);
  const refsField = REFS_FIELD[kind];
  if (refs !== null && refs !== undefined && refsField !== undefined)
    record[refsField] = refsField === LIST ? refs.map(readText) : readText(refs[0]);
  if (kind === "start" && !("runId" in record) && executionStart !== undefined) addExecutionStart(record, executionStart);
  return record as unknown as Job | Command;
}

function given(column: Value): column is string | number | boolean {
  return column !== null && column !== undefined;
}
function readNeededNumber(column: Value): number {
  if (!given(column)) throw new TypeError("A number is missing.");
  return readNumber(column);
}
function readOutcome(data: Value, value: Value): Outcome {
  return given(value) ? { status: "completed", value: readPayload(value) } : outcomeFromJson(readJson(data));
}
