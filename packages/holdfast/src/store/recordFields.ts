// What stores that keep a record as a row share: which fields a row may leave out, and how payloads inside its data are written.
// Owns: nothing; each store has its own columns.
// Invariants: what is read is what was written; a row that lacks what its kind needs was changed by something else, and is a TypeError.

import { type Job, type Outcome, type Payload, payloadFromJson, payloadToJson, type StepCommand } from "@holdfast/core";

/** The properties of an execution that its `start` record need not repeat. */
export interface ExecutionStart {
  /** The id of the run. */
  readonly runId: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** Its version. */
  readonly version: string | undefined;
  /** The seed of its random numbers. */
  readonly seed: string;
  /** Its input, encoded. */
  readonly input: Payload;
}
const OF_EXECUTION_START: ReadonlySet<string> = new Set([
  "runId",
  "workflow",
  "version",
  "seed",
  "input",
] satisfies (keyof ExecutionStart)[]);

/** Whether the `start` record can leave out this field. */
export function isOfExecutionStart(field: string): boolean {
  return OF_EXECUTION_START.has(field);
}
/** Whether the `start` record says the same as its execution, so that it can leave that out. */
export function repeatsExecutionStart(start: Extract<Job, { type: "start" }>, executionStart: ExecutionStart): boolean {
  const { runId, workflow, version, seed, input } = executionStart;
  return (
    start.runId === runId &&
    start.workflow === workflow &&
    start.version === version &&
    start.seed === seed &&
    samePayload(start.input, input)
  );
}
/** Adds what a `start` record has left out. */
export function addExecutionStart(record: Record<string, unknown>, { runId, workflow, version, seed, input }: ExecutionStart): void {
  Object.assign(record, { runId, workflow, seed, input }, version !== undefined && { version });
}
function samePayload(a: Payload, b: Payload): boolean {
  if (typeof a === "string" || typeof b === "string") return a === b;
  return Buffer.compare(a, b) === 0;
}

/** What a step may have besides its location: the compiler checks that the list is complete. */
type OfStep = Exclude<keyof StepCommand, "type" | "seq" | "unit" | "name" | "n">;
const OF_STEP = Object.keys({ timeout: 1, retry: 1, rollback: 1 } satisfies Record<OfStep, 1>) as OfStep[];

/** Whether a step has nothing but its location. Most records are such steps. */
export function isBareStep(record: StepCommand): boolean {
  for (const field of OF_STEP) if (record[field] !== undefined) return false;
  return true;
}

/** The fields of a record that have no column, as they are stored: payloads as JSON, so that people can read the table. */
export function dataToJson(type: string, data: Record<string, unknown>): Record<string, unknown> {
  return withPayloads(type, data, payloadToJson as Convert);
}
/**
 * The reverse of `dataToJson`.
 * @throws a TypeError if it is not an object.
 */
export function dataFromJson(type: string, data: unknown): Record<string, unknown> {
  return withPayloads(type, asObject(data), payloadFromJson as Convert);
}
/**
 * An outcome other than a value, from the data of its record.
 * @throws a TypeError if it is not an outcome.
 */
export function outcomeFromJson(data: unknown): Outcome {
  const outcome = asObject(data) as unknown as Outcome;
  if (outcome.status !== "failed" && outcome.status !== "canceled") throw new TypeError("A resolve has neither a value nor an outcome.");
  return outcome;
}
function asObject(data: unknown): Record<string, unknown> {
  if (typeof data !== "object" || data === null || Array.isArray(data)) throw new TypeError("The data of a record are not an object.");
  return data as Record<string, unknown>;
}

type Convert = (value: unknown) => unknown;
type Message = Readonly<Record<string, unknown>>;

/** Converts the payloads inside the data of a record, for the few kinds that have any. */
function withPayloads(type: string, data: Record<string, unknown>, convert: Convert): Record<string, unknown> {
  if (type === "fork") return withJobs(data, convert);
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
function withJobs(data: Record<string, unknown>, convert: Convert): Record<string, unknown> {
  const jobs = data["jobs"] as readonly Message[] | undefined;
  if (jobs === undefined) return data;
  const outcomeOf = (job: Message): Message => {
    const outcome = job["outcome"] as Message | undefined;
    return outcome !== undefined && "value" in outcome ? { ...job, outcome: { ...outcome, value: convert(outcome["value"]) } } : job;
  };
  return { ...data, jobs: jobs.map((job) => outcomeOf(converted(job, convert))) };
}

/** A copy without the fields that are undefined. */
export function withoutUndefined<T extends object>(value: T): T {
  const copy: Record<string, unknown> = {};
  for (const [field, item] of Object.entries(value)) if (item !== undefined) copy[field] = item;
  return copy as T;
}
