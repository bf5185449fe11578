// Routes that read runs.
// Owns: nothing; the inspection reads, json.ts decides what a caller sees.
// Invariants: no route here needs an engine: a store that was opened for reading is enough.

import { UnsupportedError } from "@holdfast/core";
import { type InspectedRun, type Inspection, showTurn } from "holdfast/inspect";
import type { Caller, ConsoleContext } from "../context.ts";
import { type HistoryView, type Show, toJson } from "../json.ts";
import { refusal } from "../problem.ts";
import type { ResponseOf } from "../routes.ts";
import { countsKey, listKey } from "../sharedReads.ts";
import { executionJson, messageJson, operationJson, reasonJson, runJson, timelineJson } from "../show.ts";
import { briefly, filterOf, foundRun, fully, type Handlers, missing, present } from "./handler.ts";

type ReadRoute =
  | "runs.list"
  | "runs.count"
  | "runs.get"
  | "runs.timeline"
  | "runs.history"
  | "runs.operations"
  | "runs.operation"
  | "runs.source"
  | "runs.why"
  | "runs.inbox"
  | "runs.state"
  | "runs.children"
  | "runs.executions"
  | "runs.result";

const PAGE = 50;
/** How often a wait looks, beside the changes that it is notified of. */
const LOOK = 1_000;

export const readRuns: Handlers<ReadRoute> = {
  "runs.list": async ({ query }, context, caller) => {
    const { values = false, limit = PAGE, cursor, ...selection } = query;
    const inspection = await context.inspection();
    const filter = { ...filterOf(selection), limit, ...present({ cursor }) };
    if (values) return page(await inspection.list(filter, { values }), caller);
    return page(await once(context, listKey(filter), () => inspection.list(filter)), caller);
  },
  "runs.count": async ({ query }, context) => {
    const inspection = await context.inspection();
    const filter = filterOf(query);
    return { counts: { ...(await once(context, countsKey(filter), () => inspection.counts(filter))) } };
  },
  "runs.get": async ({ params, query }, context, caller) => {
    return runJson(await foundRun(context, params.id), fully(caller, query.full ?? false));
  },
  "runs.timeline": async ({ params: { id }, query: { execution, after = -1 } }, context, caller) => {
    const part = present({ execution, after: after < 0 ? undefined : after });
    const timeline = await (await context.inspection()).timeline(id, part);
    if (timeline === undefined) throw await missing(context, id, execution);
    return timelineJson(timeline, briefly(caller));
  },
  "runs.history": async ({ params: { id }, query: { execution, full } }, context, caller) => {
    const inspection = await context.inspection();
    const history = await inspection.history(id, execution);
    if (history === undefined) throw await missing(context, id, execution);
    const show = fully(caller, full ?? false);
    return show.history(history, show.values && !show.full ? await viewOf(inspection, id, execution, show) : undefined);
  },
  "runs.operations": async ({ params: { id }, query: { execution } }, context, caller) => {
    const operations = await (await context.inspection()).operations(id, execution);
    if (operations.length === 0) await foundExecution(context, id, execution);
    return { operations: operations.map((one) => operationJson(one, briefly(caller))) };
  },
  "runs.operation": async ({ params: { id, location }, query: { execution } }, context, caller) => {
    const operations = await (await context.inspection()).operations(id, execution);
    // D10: a resumed operation may be listed twice at one location; the last one counts.
    const operation = operations.findLast((one) => one.location === location);
    if (operation !== undefined) return operationJson(operation, fully(caller));
    await foundExecution(context, id, execution);
    throw refusal("HF_NOT_FOUND", `Run "${id}" has no operation at "${location}".`);
  },
  "runs.source": async ({ params: { id }, query: { execution, location } }, context) => {
    const { workflow, version } = await foundRun(context, id);
    if (context.code === undefined) throw refusal("HF_NO_CODE", `This server has no code of workflow "${workflow}".`);
    return { source: await context.code.source({ id, workflow, version }, execution, location) };
  },
  "runs.why": async ({ params: { id } }, context, caller) => {
    const { status } = await foundRun(context, id);
    const reasons = (await (await context.inspection()).why(id)) ?? [];
    return { status, reasons: reasons.map((one) => reasonJson(one, briefly(caller))) };
  },
  "runs.inbox": async ({ params: { id } }, context, caller) => {
    const messages = await (await context.inspection()).inbox(id);
    if (messages.length === 0) await foundRun(context, id);
    return { messages: messages.map((one) => messageJson(one, briefly(caller))) };
  },
  "runs.state": async ({ params: { id } }, context, caller) => {
    const { state } = await foundRun(context, id);
    if (state === undefined) return undefined;
    if (caller.values) {
      const read = state.read();
      if ("value" in read) return read.value === undefined ? undefined : toJson(read.value);
    }
    return fully(caller).value(state);
  },
  "runs.children": async ({ params: { id }, query }, context, caller) => {
    await foundRun(context, id);
    const { limit = PAGE, cursor, values = false } = query;
    const inspection = await context.inspection();
    // Values are read only where they were asked for, as in a list.
    if (values) return page(await inspection.list({ parentId: id, limit, ...present({ cursor }) }, { values }), caller);
    return page(await inspection.children(id, { limit, ...present({ cursor }) }), caller);
  },
  "runs.executions": async ({ params: { id } }, context, caller) => {
    const executions = await (await context.inspection()).executions(id);
    if (executions.length === 0) await foundRun(context, id);
    return { executions: executions.map((one) => executionJson(one, briefly(caller))) };
  },
  "runs.result": async ({ params: { id }, query: { wait = 0 }, signal }, context, caller) => {
    const run = await ended(context, id, wait, signal);
    const show = fully(caller);
    return { status: run.status, output: run.status === "completed" ? show.value(run.output) : null, error: show.error(run.error) };
  },
};

function once<T>({ shared }: ConsoleContext, key: string, read: () => Promise<T>): Promise<T> {
  return shared === undefined ? read() : shared(key, read);
}
function page({ runs, cursor }: Awaited<ReturnType<Inspection["list"]>>, caller: Caller): ResponseOf<"runs.list"> {
  return { runs: runs.map((run) => runJson(run, briefly(caller))), cursor: cursor ?? null };
}

/** Throws unless the run has this execution; undefined: the newest, which every run has. */
async function foundExecution(context: ConsoleContext, id: string, execution: number | undefined): Promise<void> {
  const run = await foundRun(context, id);
  if (execution === undefined || execution === run.execution) return;
  const executions = await (await context.inspection()).executions(id);
  if (!executions.some((one) => one.execution === execution)) throw await missing(context, id, execution);
}

/** The turns with their payloads decoded. Undefined where the host has no turns of ours. */
async function viewOf(inspection: Inspection, id: string, execution: number | undefined, show: Show): Promise<HistoryView | undefined> {
  try {
    const turns = await inspection.turns(id, present({ execution }));
    const start = turns[0]?.jobs.find((job) => job.type === "start");
    const input = start === undefined ? (await inspection.get(id))?.input : inspection.value(start.input);
    return { input: show.value(input), turns: turns.map((turn) => showTurn(turn, inspection, (value) => show.value(value))) };
  } catch (error) {
    if (error instanceof UnsupportedError) return undefined;
    throw error;
  }
}

/** The run once it is closed or blocked (V4). */
async function ended(context: ConsoleContext, id: string, wait: number, signal: AbortSignal | undefined): Promise<InspectedRun> {
  const until = context.now() + wait;
  const inspection = await context.inspection();
  let notice: (() => void) | undefined;
  let hasChanged = false;
  const unwatch = inspection.watch(({ runs, runIds }) => {
    if (!runs || (runIds !== undefined && !runIds.includes(id))) return;
    hasChanged = true;
    notice?.();
  });
  try {
    for (;;) {
      hasChanged = false;
      const run = await foundRun(context, id);
      if (run.finishedAt !== undefined || run.status === "blocked") return run;
      signal?.throwIfAborted();
      const left = until - context.now();
      if (left <= 0) throw refusal("HF_WAIT_TIMEOUT", `Run "${id}" has not ended: it is ${run.status}.`);
      if (hasChanged) continue;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, LOOK));
        notice = () => {
          clearTimeout(timer);
          resolve();
        };
        signal?.addEventListener("abort", notice, { once: true });
      });
      if (notice !== undefined) signal?.removeEventListener("abort", notice);
      notice = undefined;
    }
  } finally {
    unwatch();
  }
}
