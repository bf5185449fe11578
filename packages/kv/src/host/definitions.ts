// What users hand over: activities by name, schemas, ids.
// Owns: nothing; checks and look-ups.
// Invariants: M1 M13 (payloads are held against the declared schema at the sender, and made what it says at the receiver, once); bad input
// is an InvalidInputError that names the option, raised before anything is written.

import {
  type AnyWorkflow,
  type Codec,
  checkOptionNames,
  HoldfastError,
  InvalidInputError,
  messageOf,
  type OptionNames,
  type Payload,
  type SignalJob,
  typedCodec,
  type UpdateJob,
} from "@holdfast/core";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { AnyOpenOptions, AnyRunOptions, SendOptions, StartOptions, UpdateOptions } from "../options.ts";
import type { AnyActivity } from "./bodies.ts";

export function invalid(what: string, message: string, path?: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [path === undefined ? { message } : { message, path: [path] }] });
}

export function isWorkflow(value: unknown): value is AnyWorkflow {
  return (
    typeof value === "object" && value !== null && "run" in value && "options" in value && isObject(value.options) && "version" in value
  );
}
function isActivity(value: unknown): value is AnyActivity {
  return typeof value === "object" && value !== null && "run" in value && "options" in value && !("version" in value);
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/** A list, or the exports of a module: values of other kinds are passed over, unless there is nothing else. */
export function activitiesByName(given: readonly AnyActivity[] | Readonly<Record<string, unknown>> = []): Map<string, AnyActivity> {
  if (typeof given !== "object" || given === null) throw invalid("runWorkflow", "Give a list, or the exports of a module.", "activities");
  if (isActivity(given) || isWorkflow(given))
    throw invalid("runWorkflow", `Give a list, not "${given.name}" by itself: put it in brackets.`, "activities");
  const found = new Map<string, AnyActivity>();
  for (const value of Array.isArray(given) ? given : Object.values(given)) {
    if (!isActivity(value)) {
      if (Array.isArray(given))
        throw invalid("runWorkflow", `${shown(value)} is no activity: make one with activity(name, fn).`, "activities");
      continue;
    }
    if (found.has(value.name) && found.get(value.name) !== value)
      throw invalid("runWorkflow", `There are two of the name "${value.name}".`, "activities");
    found.set(value.name, value);
  }
  if (found.size === 0 && !Array.isArray(given))
    throw invalid(
      "runWorkflow",
      "No activity is in the object: give a list, or a module that exports some. For none, give [].",
      "activities",
    );
  return found;
}
/** Total, whatever the value: not everything can be printed. */
function shown(value: unknown): string {
  if (isWorkflow(value)) return `workflow "${value.name}"`;
  if (typeof value === "string") return JSON.stringify(value);
  return typeof value === "object" && value !== null ? "an object" : typeof value === "function" ? "a function" : String(value);
}

const OPEN: OptionNames<AnyOpenOptions> = {
  driver: true,
  workflow: true,
  id: true,
  activities: true,
  router: true,
  codec: true,
  logger: true,
  limits: true,
  turnTimeout: true,
  environment: true,
};
const START: OptionNames<StartOptions> = { signals: true, deadline: true, retry: true, version: true, attributes: true, parent: true };
const RUN: OptionNames<AnyRunOptions & { mode: unknown }> = { ...OPEN, ...START, input: true, mode: true };
const SEND: OptionNames<UpdateOptions> = { idempotencyKey: true, timeout: true, acceptWithin: true };

/** What a run is opened or started with: an object, with no other names than these. */
export function checkedOptions<T extends object>(what: string, options: T): T {
  if (typeof options !== "object" || options === null) throw invalid(what, "Give an object, { driver, workflow, id, … }.");
  checkOptionNames(what, options, RUN);
  return options;
}
export function checkedSend<T extends SendOptions>(what: "signal" | "update", options: T): T {
  if (typeof options !== "object" || options === null) throw invalid(what, "Its options are an object, or left out.");
  checkOptionNames(what, options, SEND);
  return options;
}

export function checkedId(id: unknown, what = "runWorkflow"): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (typeof id !== "string" || id === "" || id.length > 512 || /[\u0000-\u001f\u007f]|\p{Cs}/u.test(id)) {
    throw invalid(what, "An id is text of 1 to 512 characters without control characters and unpaired surrogates.", "id");
  }
  return id;
}
/** Of a sender: it becomes part of a key. */
export function checkedKey(key: string | undefined): string | undefined {
  if (key === undefined) return undefined;
  if (typeof key !== "string" || key === "" || key.length > 512 || /\p{Cs}|^\0/u.test(key)) {
    throw invalid(
      "send",
      "An idempotency key is text of 1 to 512 characters; it has no unpaired surrogates and begins with no NUL.",
      "idempotencyKey",
    );
  }
  return key;
}

export function checkedCodec(codec: Codec): Codec {
  if (typeof (codec as Partial<Codec> | null)?.encode !== "function" || typeof codec.decode !== "function")
    throw invalid("runWorkflow", "A codec has the functions encode and decode.", "codec");
  return typedCodec(codec);
}

/** The value as the schema has it; throws InvalidInputError with every issue. In a box: a promise would look for a `then` in it, and call it. */
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

/** A signal as the schema that its receiver declares has it, or marked as refused by it (M13). Senders may not know the schema. */
export async function checkedSignal(workflow: AnyWorkflow, job: SignalJob, codec: Codec): Promise<SignalJob> {
  const { checked, ...signal } = job;
  if (checked === true) return signal;
  return { ...signal, ...(await refined(workflow, "signals", job, "payload", codec)) };
}
/** One that the receiver's schema refuses is rejected, whoever waits. */
export async function checkedUpdate(workflow: AnyWorkflow, job: UpdateJob, codec: Codec): Promise<UpdateJob> {
  return { ...job, ...(await refined(workflow, "updates", job, "input", codec)) };
}
/** What the schema makes of a message's content, if there is one. */
async function refined<F extends "payload" | "input">(
  workflow: AnyWorkflow,
  kind: "signals" | "updates",
  job: { readonly type: string; readonly name: string } & { readonly [K in F]: Payload },
  field: F,
  codec: Codec,
): Promise<{ readonly [K in F]?: Payload } | { readonly refused: string } | { readonly unreadable: string }> {
  const specs = workflow.options[kind] as Readonly<Record<string, { readonly schema?: unknown }>> | undefined;
  const schema = specs !== undefined && Object.hasOwn(specs, job.name) ? specs[job.name]?.schema : undefined;
  if (schema === undefined) return {};
  let given: unknown;
  try {
    given = codec.decode(job[field]);
  } catch (error) {
    return kind === "signals" ? { unreadable: messageOf(error) } : { refused: messageOf(error) };
  }
  try {
    const { value } = await validated(`${job.type} ${job.name}`, schema as StandardSchemaV1<unknown, unknown>, given);
    return { [field]: codec.encode(value) } as { readonly [K in F]: Payload };
  } catch (error) {
    return { refused: messageOf(error) };
  }
}

/** What the workflow declares of a message; undefined if it declares none of that kind. */
export function specOf<S>(workflow: AnyWorkflow, kind: "signals" | "updates", name: string): S | undefined {
  const declared = workflow.options[kind] as Readonly<Record<string, S>> | undefined;
  if (declared === undefined || Object.keys(declared).length === 0) return undefined;
  if (Object.hasOwn(declared, name)) return declared[name];
  const known = Object.keys(declared).join(", ");
  throw new HoldfastError(`Workflow "${workflow.name}" declares no ${kind.slice(0, -1)} "${name}". It has: ${known}.`, {
    code: "HF_UNKNOWN_MESSAGE",
  });
}
