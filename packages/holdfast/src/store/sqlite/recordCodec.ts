// A job or a command as a row, and the row as a job or a command.
// Owns: which fields have their own columns, which one is the `value`, and what a `start` leaves out.
// Invariants: what comes out is what went in (fields that were undefined are absent), whatever kinds the core adds; a row that lacks what
// its kind needs was changed by something else, and is a TypeError.

import {
  type Command,
  checkCommand,
  checkJob,
  type Job,
  type Outcome,
  type Payload,
  payloadFromJson,
  payloadToJson,
  type StepCommand,
  VALUE_FIELDS,
} from "@holdfast/core";
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

/** The payload has the column `value` to itself; all other fields are in `data`. */
const VALUE_FIELD: Readonly<Record<string, string | undefined>> = VALUE_FIELDS;

/** What an execution says of itself: a `start` need not repeat it. */
export interface Birth {
  readonly runId: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly seed: string;
  readonly input: Payload;
}

export function toColumns(record: Job | Command, birth?: Birth): RecordColumns {
  if (record.type === "resolve") {
    const { seq, outcome } = record;
    return outcome.status === "completed"
      ? ["resolve", seq, null, null, null, null, payload(outcome.value)]
      : ["resolve", seq, null, null, null, json(withoutUndefined(outcome)), null];
  }
  if (record.type === "step" && isBare(record))
    return ["step", record.seq, textOrNull(record.unit), text(record.name), record.n, null, null];
  const columns: RecordColumns = [record.type, null, null, null, null, null, null];
  const valueField = VALUE_FIELD[record.type];
  const repeats = record.type === "start" && birth !== undefined && saysTheSame(record, birth);
  let data: Record<string, unknown> | undefined;
  for (const [field, value] of Object.entries(record)) {
    if (value === undefined || field === "type") continue;
    if (field === "seq") columns[1] = value;
    else if (field === "unit") columns[2] = textOrNull(value);
    else if (field === "name") columns[3] = textOrNull(value);
    else if (field === "n") columns[4] = value;
    else if (repeats && OF_BIRTH.has(field)) continue;
    else if (field === valueField) columns[6] = payload(value);
    else {
      data ??= {};
      data[field] = value;
    }
  }
  if (data !== undefined) columns[5] = json(readable(record.type, data, payloadToJson as Convert));
  return columns;
}

const OF_BIRTH: ReadonlySet<string> = new Set(["runId", "workflow", "version", "seed", "input"] satisfies (keyof Birth)[]);

/** What a step may have besides its location: the compiler sees to it that the list is whole. */
type OfStep = Exclude<keyof StepCommand, "type" | "seq" | "unit" | "name" | "n">;
const OF_STEP = Object.keys({ timeout: 1, retry: 1, rollback: 1 } satisfies Record<OfStep, 1>) as OfStep[];

/** The most frequent of all records has nothing but its location. */
function isBare(record: StepCommand): boolean {
  for (const field of OF_STEP) if (record[field] !== undefined) return false;
  return true;
}

/** The columns begin at `from`. Without `birth` a start lacks what its execution says. */
export function jobOf(columns: readonly Value[], birth?: Birth, from = 0): Job {
  const job = fromColumns(columns, birth, from) as Job;
  if (job.type !== "start" || birth !== undefined) checkJob(job);
  return job;
}
export function commandOf(columns: readonly Value[], from = 0): Command {
  const command = fromColumns(columns, undefined, from) as Command;
  checkCommand(command);
  return command;
}

function fromColumns(columns: readonly Value[], birth: Birth | undefined, from: number): Job | Command {
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
  if (data !== null) Object.assign(record, readable(type, readFields(data), payloadFromJson as Convert));
  record["type"] = type; // whatever the data say
  if (value !== null) record[VALUE_FIELD[type] ?? "value"] = readPayload(value);
  if (type === "start" && !("runId" in record) && birth !== undefined) repeatBirth(record, birth);
  return record as unknown as Job | Command;
}

function readOutcome(data: Value, value: Value): Outcome {
  if (value !== null) return { status: "completed", value: readPayload(value) };
  const outcome = readFields(data) as unknown as Outcome;
  if (outcome.status !== "failed" && outcome.status !== "canceled") throw new TypeError("A resolve has neither a value nor an outcome.");
  return outcome;
}
function readFields(data: Value): Record<string, unknown> {
  const fields = readJson<unknown>(data);
  if (typeof fields !== "object" || fields === null || Array.isArray(fields))
    throw new TypeError("The data of a record are not an object.");
  return fields as Record<string, unknown>;
}

function repeatBirth(record: Record<string, unknown>, { runId, workflow, version, seed, input }: Birth): void {
  Object.assign(record, { runId, workflow, seed, input }, version !== undefined && { version });
}

type Convert = (value: unknown) => unknown;
type Message = Readonly<Record<string, unknown>>;

/** Payloads deeper inside, of the few kinds that have any: as JSON, so that the table can be read. */
function readable(type: string, data: Record<string, unknown>, convert: Convert): Record<string, unknown> {
  if (type === "fork") return withReadableJobs(data, convert);
  if (type !== "commit" && type !== "continueAsNew") return data;
  const copy = { ...data };
  if (copy["state"] !== undefined) copy["state"] = convert(copy["state"]);
  for (const list of ["messages", "signals"]) {
    const messages = copy[list] as readonly Message[] | undefined;
    if (messages !== undefined) copy[list] = messages.map((message) => converted(message, convert));
  }
  return copy;
}
function converted(message: Message, convert: Convert): Message {
  const copy = withoutUndefined(message) as Record<string, unknown>;
  for (const field of ["payload", "input"]) if (field in copy) copy[field] = convert(copy[field]);
  return copy;
}

/** The jobs of the first turn of a fork, in its inbox. */
function withReadableJobs(data: Record<string, unknown>, convert: Convert): Record<string, unknown> {
  const jobs = data["jobs"] as readonly Message[] | undefined;
  if (jobs === undefined) return data;
  const outcomeOf = (job: Message): Message => {
    const outcome = job["outcome"] as Message | undefined;
    return outcome !== undefined && "value" in outcome ? { ...job, outcome: { ...outcome, value: convert(outcome["value"]) } } : job;
  };
  return { ...data, jobs: jobs.map((job) => outcomeOf(converted(job, convert))) };
}

function saysTheSame(start: Extract<Job, { type: "start" }>, birth: Birth): boolean {
  const { runId, workflow, version, seed, input } = birth;
  return (
    start.runId === runId &&
    start.workflow === workflow &&
    start.version === version &&
    start.seed === seed &&
    samePayload(start.input, input)
  );
}
function samePayload(a: Payload, b: Payload): boolean {
  if (typeof a === "string" || typeof b === "string") return a === b;
  return Buffer.compare(a, b) === 0;
}

export function withoutUndefined<T extends object>(value: T): T {
  const copy: Record<string, unknown> = {};
  for (const [field, item] of Object.entries(value)) if (item !== undefined) copy[field] = item;
  return copy as T;
}
