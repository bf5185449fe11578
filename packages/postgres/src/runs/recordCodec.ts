// A job or a command as a row, and the row as a job or a command.
// Owns: which fields have their own columns, which one is the `value`, which name messages, and what a `start` leaves out.
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

/** The payload has the column `value` to itself; all other fields are in `data`. */
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

/** What an execution says of itself: a `start` need not repeat it. */
export interface Birth {
  readonly runId: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly seed: string;
  readonly input: Payload;
}

export function toFields(record: Job | Command, birth?: Birth): RecordFields {
  if (record.type === "resolve") {
    const { seq, outcome } = record;
    return outcome.status === "completed"
      ? { y: "resolve", q: seq, v: payload(outcome.value) }
      : { y: "resolve", q: seq, d: json(withoutUndefined(outcome)) };
  }
  if (record.type === "step" && isBare(record))
    return { y: "step", q: record.seq, u: text(record.unit), m: text(record.name), n: record.n };
  const fields: RecordFields = { y: record.type };
  const valueField = VALUE_FIELD[record.type];
  const refsField = REFS_FIELD[record.type];
  const repeats = record.type === "start" && birth !== undefined && saysTheSame(record, birth);
  let data: Record<string, unknown> | undefined;
  for (const [field, value] of Object.entries(record)) {
    if (value === undefined || field === "type") continue;
    if (field === "seq") fields.q = value;
    else if (field === "unit") fields.u = text(value);
    else if (field === "name") fields.m = text(value);
    else if (field === "n") fields.n = value;
    else if (repeats && OF_BIRTH.has(field)) continue;
    else if (field === valueField) fields.v = payload(value);
    else if (field === refsField) fields.f = field === LIST ? (value as readonly string[]).map(text) : [text(value)];
    else {
      data ??= {};
      data[field] = value;
    }
  }
  if (data !== undefined) fields.d = json(readable(record.type, data, payloadToJson as Convert));
  return fields;
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

/** Without `birth` a start lacks what its execution says. */
export function jobOf(fields: ReadRecord, birth?: Birth): Job {
  const job = fromFields(fields, birth) as Job;
  if (job.type !== "start" || birth !== undefined) checkJob(job);
  return job;
}
export function commandOf(fields: ReadRecord): Command {
  const command = fromFields(fields) as Command;
  checkCommand(command);
  return command;
}

function fromFields({ type, seq, unit, name, n, refs, data, value }: ReadRecord, birth?: Birth): Job | Command {
  const kind = String(type);
  if (kind === "step" && !given(data) && given(unit) && given(name) && given(seq) && given(n))
    return { type: "step", seq: readNumber(seq), unit: readText(unit), name: readText(name), n: readNumber(n) };
  if (kind === "resolve") return { type: "resolve", seq: readNeededNumber(seq), outcome: readOutcome(data, value) };
  const record: Record<string, unknown> = { type: kind };
  if (given(seq)) record["seq"] = readNumber(seq);
  if (given(unit)) record["unit"] = readText(unit);
  if (given(name)) record["name"] = readOptionalText(name);
  if (given(n)) record["n"] = readNumber(n);
  if (given(data)) Object.assign(record, readable(kind, readFields(data), payloadFromJson as Convert));
  record["type"] = kind; // whatever the data say
  if (given(value)) record[VALUE_FIELD[kind] ?? "value"] = readPayload(value);
  const refsField = REFS_FIELD[kind];
  if (refs !== null && refs !== undefined && refsField !== undefined)
    record[refsField] = refsField === LIST ? refs.map(readText) : readText(refs[0]);
  if (kind === "start" && !("runId" in record) && birth !== undefined) repeatBirth(record, birth);
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
  if (given(value)) return { status: "completed", value: readPayload(value) };
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

function withoutUndefined<T extends object>(value: T): T {
  const copy: Record<string, unknown> = {};
  for (const [field, item] of Object.entries(value)) if (item !== undefined) copy[field] = item;
  return copy as T;
}
