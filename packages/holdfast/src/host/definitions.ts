// What users hand over: workflows and activities by name, schemas, and the identity of their code.
// Owns: nothing; checks and look-ups.
// Invariants: M13 (a payload that the receiver's schema refuses is delivered to nobody), V4 (other code is told by its text).

import { createHash } from "node:crypto";
import {
  type Activity,
  type AnyWorkflow,
  type Codec,
  HoldfastError,
  InvalidInputError,
  type Job,
  messageOf,
  type Payload,
  type SignalSpec,
} from "@holdfast/core";
import type { StandardSchemaV1 } from "@standard-schema/spec";

/**
 * A list, or the exports of a module: values of other kinds are passed over, unless there is nothing else. A worker with nothing to do is
 * asked for by an empty list; where one comes of a definition given bare, or of another module, its runs would wait forever.
 */
export function listed<T>(what: string, given: readonly T[] | Record<string, unknown>, is: (value: unknown) => value is T): T[] {
  const noun = nounOf(is);
  if (typeof given !== "object" || given === null) throw invalid(what, `Give a list, or the exports of a module, not ${shown(given)}.`);
  if (is(given)) throw invalid(what, `Give a list, not ${shown(given)} by itself: put it in brackets.`);
  const found: T[] = [];
  for (const value of Array.isArray(given) ? given : Object.values(given)) {
    if (is(value)) found.push(value);
    else if (Array.isArray(given)) throw invalid(what, `${shown(value)} is no ${noun}: make one with ${noun}(name, fn).`);
  }
  if (found.length === 0 && !Array.isArray(given))
    throw invalid(
      what,
      `No ${noun} is in the object: give a list, or a module that exports what ${noun}(name, fn) made. For none, give [].`,
    );
  return found;
}
/** The same by name, where each name is there once. */
export function byName<T extends { readonly name: string }>(
  what: string,
  given: readonly T[] | Record<string, unknown>,
  is: (value: unknown) => value is T,
): Map<string, T> {
  const found = new Map<string, T>();
  for (const value of listed(what, given, is)) {
    if (found.has(value.name) && found.get(value.name) !== value) throw invalid(what, `There are two of the name "${value.name}".`);
    found.set(value.name, value);
  }
  return found;
}
/** What it tells from other values is called as the function that makes it. */
function nounOf(is: unknown): "workflow" | "activity" {
  return is === isWorkflow ? "workflow" : "activity";
}
/** Total, whatever the value: not everything can be printed. */
function shown(value: unknown): string {
  if (isWorkflow(value)) return `workflow "${value.name}"`;
  if (isActivity(value)) return `activity "${value.name}"`;
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return typeof value === "function" ? "a function" : String(value);
}
function invalid(what: string, message: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [{ message }] });
}

export function isWorkflow(value: unknown): value is AnyWorkflow {
  return (
    typeof value === "object" &&
    value !== null &&
    "run" in value &&
    "options" in value &&
    typeof (value as AnyWorkflow).options === "object" &&
    "version" in value
  );
}
export function isActivity(value: unknown): value is Activity<unknown, unknown> {
  return typeof value === "object" && value !== null && "run" in value && "options" in value && !("version" in value);
}

const codes = new WeakMap<AnyWorkflow, string>();
/** Tells code from other code. Not secure, not complete (helpers it calls are not in it): enough to try a blocked run again. */
export function codeOf(workflow: AnyWorkflow): string {
  let code = codes.get(workflow);
  if (code === undefined) {
    code = createHash("sha256")
      .update(workflow.version ?? "")
      .update(workflow.run.toString())
      .digest("hex")
      .slice(0, 16);
    codes.set(workflow, code);
  }
  return code;
}

/** The value as the schema has it; throws InvalidInputError with every issue. */
/** In a box: a promise would look for a `then` in the value, and call it. */
export async function validated<T>(
  what: string,
  schema: StandardSchemaV1<unknown, T> | undefined,
  value: unknown,
): Promise<{ readonly value: T }> {
  if (schema === undefined) return { value: value as T };
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return { value: result.value };
  throw new InvalidInputError({
    what,
    issues: result.issues.map(({ message, path }) =>
      path === undefined ? { message } : { message, path: path.map((part) => (typeof part === "object" ? part.key : part)) },
    ),
  });
}

/** A message as the schema that its receiver declares has it, or marked as refused by it (M13). Senders may not know the schema. */
export async function checkedMessage(workflow: AnyWorkflow, job: Job, codec: Codec): Promise<Job> {
  if (job.type === "signal") {
    const { checked, ...signal } = job;
    const schema = declared(workflow, "signals", job.name);
    if (schema === undefined || checked === true) return signal;
    const result = await checkedPayload(`signal ${job.name}`, schema, job.payload, codec);
    if (typeof result === "object" && "unreadable" in result) return { ...signal, ...result };
    return typeof result === "object" && "refused" in result ? { ...signal, ...result } : { ...signal, payload: result };
  }
  if (job.type === "update") {
    const schema = declared(workflow, "updates", job.name);
    if (schema === undefined) return job;
    const result = await checkedPayload(`update ${job.name}`, schema, job.input, codec);
    if (typeof result === "object" && "unreadable" in result) return { ...job, refused: result.unreadable };
    return typeof result === "object" && "refused" in result ? { ...job, ...result } : { ...job, input: result };
  }
  return job;
}
function declared(workflow: AnyWorkflow, kind: "signals" | "updates", name: string): StandardSchemaV1<unknown, unknown> | undefined {
  const specs = workflow.options[kind] as Readonly<Record<string, SignalSpec<unknown>>> | undefined;
  return specs !== undefined && Object.hasOwn(specs, name) ? (specs[name]?.schema as StandardSchemaV1<unknown, unknown>) : undefined;
}
async function checkedPayload(
  what: string,
  schema: StandardSchemaV1<unknown, unknown>,
  payload: Payload,
  codec: Codec,
): Promise<Payload | { readonly refused: string } | { readonly unreadable: string }> {
  let value: unknown;
  try {
    value = codec.decode(payload);
  } catch (error) {
    return { unreadable: messageOf(error) };
  }
  try {
    const checked = await inTime(validated(what, schema, value));
    return checked === undefined
      ? { unreadable: `Its schema has not answered within ${SCHEMA_MS / 1_000} s.` }
      : codec.encode(checked.value);
  } catch (error) {
    return { refused: messageOf(error) };
  }
}

/** X11: a schema that never answers holds up no run for good. */
const SCHEMA_MS = 10_000;
const { setTimeout, clearTimeout } = globalThis; // neither fake timers nor the determinism guard are for these

/** Undefined: it took too long. */
function inTime<T>(work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, SCHEMA_MS, undefined).unref();
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** What a workflow says of this signal or update; one that declares some has no others. */
export function declaredMessage<S>(workflow: AnyWorkflow | undefined, kind: "signals" | "updates", name: string): S | undefined {
  const declared = workflow?.options[kind] as Readonly<Record<string, S>> | undefined;
  if (declared === undefined || Object.keys(declared).length === 0) return undefined;
  if (!Object.hasOwn(declared, name)) {
    const names = Object.keys(declared).join(", ");
    throw new HoldfastError(`Workflow "${workflow?.name}" declares no ${kind.slice(0, -1)} "${name}". It has: ${names}.`, {
      code: "HF_UNKNOWN_MESSAGE",
    });
  }
  return declared[name];
}
