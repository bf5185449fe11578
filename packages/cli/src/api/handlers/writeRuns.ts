// Routes that start runs, send to them and end them.
// Owns: nothing; the engine checks and writes.
// Invariants: values of requests are plain JSON unless `tagged` says otherwise; what code the run has never runs here.

import { HoldfastError, QueryFailedError, UpdateFailedError } from "@holdfast/core";
import type { ForkOptions, Holdfast, StartOptions } from "holdfast";
import type { Caller, ConsoleContext } from "../context.ts";
import { fromJson, toJson } from "../json.ts";
import { ConsoleError, refusal } from "../problem.ts";
import type { ResponseOf } from "../routes.ts";
import { foundRun, fully, type Handlers, present } from "./handler.ts";
import { checkValue, startVersion } from "./messages.ts";

type WriteRoute =
  | "runs.start"
  | "runs.query"
  | "runs.signal"
  | "runs.update"
  | "runs.cancel"
  | "runs.resume"
  | "runs.terminate"
  | "runs.fork"
  | "runs.delete";

export const writeRuns: Handlers<WriteRoute> = {
  "runs.start": async ({ body, query: { tagged }, idempotencyKey }, context) => {
    const { workflow, input, signals, ...options } = body;
    const version = options.version ?? (await startVersion(context, workflow));
    if (tagged !== true) {
      await checkValue(context, workflow, version, { kind: "input" }, input);
      for (const { name, payload } of signals ?? []) await checkValue(context, workflow, version, { kind: "signal", name }, payload);
    }
    const sent = signals?.map(({ name, payload }) => ({ name, payload: fromJson(payload, tagged) }));
    const given = present({ ...options, version, signals: sent, idempotencyKey: options.idempotencyKey ?? idempotencyKey });
    const engine = await context.engine();
    const run = await engine.start(workflow, fromJson(input, tagged), given as StartOptions);
    return startedRun(engine, run.id);
  },
  "runs.query": async ({ params: { id, name }, body, query: { tagged } }, context, caller) => {
    return replyOf(await answer(context, id, name, fromJson(body, tagged)), caller);
  },
  "runs.signal": async ({ params: { id, name }, body, query: { tagged }, idempotencyKey }, context) => {
    if (tagged !== true) await checkMessage(context, id, { kind: "signal", name }, body);
    const engine = await context.engine();
    await engine.run(id).signal(name, fromJson(body, tagged), present({ idempotencyKey }));
    return undefined;
  },
  "runs.update": async ({ params: { id, name }, body, query: { tagged, wait, acceptWithin }, idempotencyKey }, context, caller) => {
    if (tagged !== true) await checkMessage(context, id, { kind: "update", name }, body);
    const engine = await context.engine();
    try {
      const options = present({ idempotencyKey, timeout: wait, acceptWithin });
      return replyOf(await engine.run(id).update(name, fromJson(body, tagged), options), caller);
    } catch (error) {
      throw updateError(name, error);
    }
  },
  "runs.cancel": async ({ params: { id }, body }, context) => {
    await (await context.engine()).run(id).cancel(body?.reason);
    return { id };
  },
  "runs.resume": async ({ params: { id } }, context) => {
    await (await context.engine()).run(id).resume();
    return { id };
  },
  "runs.terminate": async ({ params: { id }, body }, context) => {
    await (await context.engine()).run(id).terminate(body?.reason);
    return { id };
  },
  "runs.fork": async ({ params: { id }, body }, context) => {
    const engine = await context.engine();
    const run = await engine.run(id).fork(present(body) as ForkOptions);
    return startedRun(engine, run.id);
  },
  "runs.delete": async ({ params: { id } }, context) => {
    await (await context.engine()).run(id).delete();
    return { id };
  },
};

async function startedRun(engine: Holdfast, id: string): Promise<ResponseOf<"runs.start">> {
  const { execution } = await engine.run(id).describe();
  return { id, execution };
}
async function checkMessage(
  context: ConsoleContext,
  id: string,
  part: { readonly kind: "signal" | "update"; readonly name: string },
  value: unknown,
): Promise<void> {
  const { workflow, version } = await foundRun(context, id);
  await checkValue(context, workflow, version, part, value);
}
/** The reply is the value itself; nothing for undefined. */
function replyOf(value: unknown, caller: Caller): unknown {
  if (value === undefined) return undefined;
  return caller.values ? toJson(value) : fully(caller).decoded(value);
}

// ── queries ──

async function answer(context: ConsoleContext, id: string, name: string, input: unknown): Promise<unknown> {
  const run = await foundRun(context, id);
  if (context.code !== undefined) {
    const { workflow, version, status } = run;
    const state = run.state?.read();
    if (state !== undefined && !("value" in state))
      throw new QueryFailedError({ query: name, reason: `the state can't be read: ${state.unreadable}` });
    return context.code.query({ id, workflow, version, status, state: state?.value }, name, input);
  }
  const noCode = refusal("HF_NO_CODE", `This server has no code of workflow "${run.workflow}", which the query needs.`);
  if (context.readOnly) throw noCode;
  try {
    return await (await context.engine()).run(id).query(name, input as never);
  } catch (error) {
    // The engine of this process serves the workflow only if a worker of this process does.
    if (error instanceof QueryFailedError && error.reason.startsWith("this process does not know workflow")) throw noCode;
    throw error;
  }
}

// ── updates ──

/** The caller's, or the engine's. Everything else was thrown by the handler of the update. */
const OURS =
  /^HF_(RUN_NOT_FOUND|RUN_CLOSED|RUN_BLOCKED|WAIT_TIMEOUT|INVALID_INPUT|UNSERIALIZABLE_VALUE|LIMIT_EXCEEDED|UNSUPPORTED|UNKNOWN_MESSAGE|ENGINE_CLOSED|STORE_\w+|UPDATE_REJECTED|UPDATE_FAILED|RECEIVE_CLOSED)$/;
function updateError(name: string, error: unknown): unknown {
  if (error instanceof ConsoleError || (error instanceof HoldfastError && OURS.test(error.code))) return error;
  return new UpdateFailedError({ update: name, cause: error });
}
