// A job or a command as a row, and the row as a job or a command.
// Owns: which fields have their own columns, which one is the `value`, and what a `start` leaves out.
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
} from "../recordFields.ts";
import {
  json,
  payload,
  readJson,
  readNumber,
  readOptionalNumber,
  readOptionalText,
  readPayload,
  readText,
  text,
  textOrNull,
} from "./columns.ts";
import type { Value } from "./library.ts";

/** type, seq, unit, name, n, data, value. */
export type RecordColumns = [type: string, seq: Value, unit: Value, name: Value, n: Value, data: Value, value: Value];

/** The payload has its own column, `value`; all other fields are in `data`. */
const VALUE_FIELD: Readonly<Record<string, string | undefined>> = VALUE_FIELDS;

export function toColumns(record: Job | Command, executionStart?: ExecutionStart): RecordColumns {
  if (record.type === "resolve") {
    const { seq, outcome } = record;
    return outcome.status === "completed"
      ? ["resolve", seq, null, null, null, null, payload(outcome.value)]
      : ["resolve", seq, null, null, null, json(withoutUndefined(outcome)), null];
  }
  if (record.type === "step" && isBareStep(record))
    return ["step", record.seq, textOrNull(record.unit), text(record.name), record.n, null, null];
  const columns: RecordColumns = [record.type, null, null, null, null, null, null];
  const valueField = VALUE_FIELD[record.type];
  const repeats = record.type === "start" && executionStart !== undefined && repeatsExecutionStart(record, executionStart);
  let data: Record<string, unknown> | undefined;
  for (const [field, value] of Object.entries(record)) {
    if (value === undefined || field === "type") continue;
    if (field === "seq") columns[1] = value;
    else if (field === "unit") columns[2] = textOrNull(value);
    else if (field === "name") columns[3] = textOrNull(value);
    else if (field === "n") columns[4] = value;
    else if (repeats && isOfExecutionStart(field)) continue;
    else if (field === valueField) columns[6] = payload(value);
    else {
      data ??= {};
      data[field] = value;
    }
  }
  if (data !== undefined) columns[5] = json(dataToJson(record.type, data));
  return columns;
}

/** The columns begin at `from`. Without `executionStart` a start lacks what its execution says. */
export function jobOf(columns: readonly Value[], executionStart?: ExecutionStart, from = 0): Job {
  const job = fromColumns(columns, executionStart, from) as Job;
  if (job.type !== "start" || executionStart !== undefined) checkJob(job);
  return job;
}
export function commandOf(columns: readonly Value[], from = 0): Command {
  const command = fromColumns(columns, undefined, from) as Command;
  checkCommand(command);
  return command;
}

function fromColumns(columns: readonly Value[], executionStart: ExecutionStart | undefined, from: number): Job | Command {
  const type = columns[from] as string;
  const [seq = null, unit = null, name = null] = [columns[from + 1], columns[from + 2], columns[from + 3]];
  const [n = null, data = null, value = null] = [columns[from + 4], columns[from + 5], columns[from + 6]];
  if (type === "step" && data === null && unit !== null && name !== null)
    return { type, seq: readNumber(seq), unit: readText(unit), name: readText(name), n: readNumber(n) };
  if (type === "resolve") return { type, seq: readNumber(seq), outcome: readOutcome(data, value) };
  const record: Record<string, unknown> = { type };
  if (seq !== null) record["seq"] = readOptionalNumber(seq);
  if (unit !== null) record["unit"] = readOptionalText(unit);
  if (name !== null) record["name"] = readOptionalText(name);
  if (n !== null) record["n"] = readOptionalNumber(n);
  if (data !== null) Object.assign(record, dataFromJson(type, readJson(data)));
  record["type"] = type; // whatever the data say
  if (value !== null) record[VALUE_FIELD[type] ?? "value"] = readPayload(value);
  if (type === "start" && !("runId" in record) && executionStart !== undefined) addExecutionStart(record, executionStart);
  return record as unknown as Job | Command;
}

function readOutcome(data: Value, value: Value): Outcome {
  return value === null ? outcomeFromJson(readJson(data)) : { status: "completed", value: readPayload(value) };
}
