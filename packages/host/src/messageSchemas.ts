// Validates values with the schemas that users declare.
// Owns: nothing.
// Invariants: M1 M13 (the sender checks a payload against the declared schema; the receiver's schema transforms it, once; a message that
// the receiver's schema rejects reaches no code), X11 (a schema that never answers blocks no run).

import {
  type AnyWorkflow,
  type Codec,
  HoldfastError,
  InvalidInputError,
  type Job,
  messageOf,
  type Payload,
  type SignalJob,
  type SignalSpec,
  type UpdateJob,
} from "@holdfast/core";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Environment, Timer } from "./environment.ts";

/**
 * The `value` as transformed by the schema. It is wrapped in an object, because a promise would call the `then` of a value that has one.
 * @throws `InvalidInputError` with every issue.
 */
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

/** The message as transformed by the receiver's schema, or marked as refused by it (M13). Senders may not know the schema. */
export async function checkedMessage(workflow: AnyWorkflow, job: Job, codec: Codec, environment: Patience): Promise<Job> {
  if (job.type === "signal") return checkedSignal(workflow, job, codec, environment);
  return job.type === "update" ? checkedUpdate(workflow, job, codec, environment) : job;
}
/** The signal as transformed by the receiver's schema, or marked as refused by it (M13). One that was checked before stays as it is. */
export async function checkedSignal(workflow: AnyWorkflow, job: SignalJob, codec: Codec, environment: Patience): Promise<SignalJob> {
  const { checked, ...signal } = job;
  const schema = schemaOf(workflow, "signals", job.name);
  if (schema === undefined || checked === true) return signal;
  const { payload, ...problem } = await checkedPayload(`signal ${job.name}`, schema, job.payload, codec, environment);
  return payload === undefined ? { ...signal, ...problem } : { ...signal, payload };
}
/** The update as transformed by the receiver's schema, or marked as refused, if the schema refuses it or its input can't be decoded. */
export async function checkedUpdate(workflow: AnyWorkflow, job: UpdateJob, codec: Codec, environment: Patience): Promise<UpdateJob> {
  const schema = schemaOf(workflow, "updates", job.name);
  if (schema === undefined) return job;
  const { payload, refused, unreadable } = await checkedPayload(`update ${job.name}`, schema, job.input, codec, environment);
  const problem = refused ?? unreadable;
  if (problem !== undefined) return { ...job, refused: problem };
  return payload === undefined ? job : { ...job, input: payload };
}

type Patience = Pick<Environment, "patience">;
/** Exactly one of the fields is set. */
interface Checked {
  readonly payload?: Payload;
  readonly refused?: string;
  readonly unreadable?: string;
}

function schemaOf(workflow: AnyWorkflow, kind: "signals" | "updates", name: string): StandardSchemaV1<unknown, unknown> | undefined {
  const specs = workflow.options[kind] as Readonly<Record<string, SignalSpec<unknown>>> | undefined;
  return specs !== undefined && Object.hasOwn(specs, name) ? (specs[name]?.schema as StandardSchemaV1<unknown, unknown>) : undefined;
}
async function checkedPayload(
  what: string,
  schema: StandardSchemaV1<unknown, unknown>,
  payload: Payload,
  codec: Codec,
  environment: Patience,
): Promise<Checked> {
  let value: unknown;
  try {
    value = codec.decode(payload);
  } catch (error) {
    return { unreadable: messageOf(error) };
  }
  try {
    const checked = await inTime(validated(what, schema, value), environment);
    if (checked === undefined) return { unreadable: `The schema did not answer within ${SCHEMA_MS / 1_000} s.` };
    return { payload: codec.encode(checked.value) };
  } catch (error) {
    return { refused: messageOf(error) };
  }
}

/** X11: how long a run waits for a schema. */
const SCHEMA_MS = 10_000;

/** Undefined if it took too long. */
function inTime<T>(work: Promise<T>, environment: Patience): Promise<T | undefined> {
  let timer: Timer | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = environment.patience(SCHEMA_MS, () => resolve(undefined));
  });
  return Promise.race([work, late]).finally(() => timer?.cancel());
}

/**
 * The declaration of this signal or update. Undefined if the workflow declares none, and so accepts any.
 * @throws `HoldfastError` with the code HF_UNKNOWN_MESSAGE if it declares others.
 */
export function declaredMessage<S>(workflow: AnyWorkflow | undefined, kind: "signals" | "updates", name: string): S | undefined {
  const declared = workflow?.options[kind] as Readonly<Record<string, S>> | undefined;
  if (declared === undefined || Object.keys(declared).length === 0) return undefined;
  if (!Object.hasOwn(declared, name)) {
    const names = Object.keys(declared).join(", ");
    throw new HoldfastError(`Workflow "${workflow?.name}" declares no ${kind.slice(0, -1)} "${name}". Declared: ${names}.`, {
      code: "HF_UNKNOWN_MESSAGE",
    });
  }
  return declared[name];
}
