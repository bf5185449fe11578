// Routes of bulk actions: preview, start, progress.
// Owns: which runs an action can be meant for, and acting on runs that are named one by one.
// Invariants: B3: an empty filter is refused; only runs that existed when the preview was made are acted on; runs that the action can't
// apply to are not counted.

import { InvalidInputError, RunNotFoundError, type RunStatus } from "@holdfast/core";
import type { BulkAction, Holdfast, RunFilter } from "holdfast";
import type { InspectedRun, Inspection } from "holdfast/inspect";
import * as z from "zod";
import { fromJson } from "../json.ts";
import { consoleError } from "../problem.ts";
import { bulkAction, runFilter } from "../requests.ts";
import type { ResponseOf } from "../routes.ts";
import { type bulkResult, RUN_STATUSES } from "../schemas.ts";
import { runJson } from "../show.ts";
import { briefly, foundRun, type Handlers, present } from "./handler.ts";

const OPEN: readonly RunStatus[] = ["pending", "running", "sleeping", "blocked", "rolling_back"];
/** The statuses of runs that an action can change. */
const ACTS_ON: Readonly<Record<BulkAction["do"], readonly RunStatus[]>> = {
  cancel: OPEN,
  terminate: OPEN,
  signal: OPEN,
  resume: ["running", "sleeping", "blocked", "rolling_back", "failed"],
  delete: RUN_STATUSES.filter((status) => !OPEN.includes(status)),
};
const BULK_WORKFLOW = "holdfast.bulk";
const EXAMPLES = 5;
/** Runs that are looked at to count them by workflow. */
const LOOKED_AT = 10_000;
const PAGE = 1_000;
const MOST_FAILURES = 100;

type Filter = z.output<typeof runFilter>;
type Selection = { readonly filter: Filter } | { readonly ids: readonly string[] };
/** What a token stands for. `filter` is JSON: its times are texts. */
const issued = z.union([
  z.strictObject({ action: bulkAction, tagged: z.boolean(), ids: z.array(z.string()) }),
  z.strictObject({ action: bulkAction, tagged: z.boolean(), filter: runFilter }),
]);

export const bulk: Handlers<"bulk.preview" | "bulk.start" | "bulk.get"> = {
  "bulk.preview": async ({ body, query: { tagged = false } }, context, caller) => {
    const { action } = body;
    const inspection = await context.inspection();
    const show = briefly(caller);
    if ("ids" in body) {
      const ids = [...new Set(body.ids)];
      const runs = (await named(inspection, ids)).filter(({ status }) => ACTS_ON[action.do].includes(status));
      const sample = runs.slice(0, EXAMPLES).map((run) => runJson(withoutValues(run), show));
      return {
        matched: runs.length,
        capped: false,
        byStatus: tally(runs, "status"),
        byWorkflow: tally(runs, "workflow"),
        sample,
        token: context.bulkTokens.issue({ action, tagged, ids }),
      };
    }
    refuseEmpty(body.filter);
    // The millisecond of the preview is part of it: it shows the runs that were created just before.
    const end = new Date(Math.min(context.now() + 1, body.filter.until?.getTime() ?? Number.POSITIVE_INFINITY));
    const filter = { ...body.filter, until: end };
    const token = context.bulkTokens.issue({ action, tagged, filter });
    const selection = narrowed(filter, action);
    if (selection === undefined) return { matched: 0, capped: false, byStatus: {}, byWorkflow: {}, sample: [], token };
    const [{ matched, capped, byStatus }, byWorkflow, { runs }] = await Promise.all([
      counted(inspection, selection),
      workflowsOf(inspection, selection),
      inspection.list({ ...selection, limit: EXAMPLES }),
    ]);
    return { matched, capped, byStatus, byWorkflow, sample: runs.map((run) => runJson(run, show)), token };
  },
  "bulk.start": async ({ body: { token, reason } }, context) => {
    const { content } = context.bulkTokens.redeem(token);
    const { action: asked, tagged, ...selection } = issued.parse(content);
    const action = actionOf(asked, reason, tagged);
    if ("ids" in selection) return oneByOne(await context.engine(), selection.ids, action);
    const filter = narrowed((selection as Extract<Selection, { filter: Filter }>).filter, action);
    if (filter === undefined) return { matched: 0, done: 0, succeeded: 0, failed: 0, failures: [] };
    const { id } = await (await context.engine()).bulk(filter, action);
    return { id };
  },
  "bulk.get": async ({ params: { id } }, context, caller) => {
    const run = await foundRun(context, id);
    if (run.workflow !== BULK_WORKFLOW) throw new RunNotFoundError({ runId: id });
    return { status: run.status, ...progressOf(run, caller.values) };
  },
};

function actionOf(action: z.output<typeof bulkAction>, reason: string | undefined, tagged: boolean): BulkAction {
  if (action.do === "signal") return { do: "signal", name: action.name, payload: fromJson(action.payload, tagged) };
  return { do: action.do, ...present({ reason: reason ?? action.reason }) };
}
function refuseEmpty(filter: Filter): void {
  const isEmpty = Object.values(filter).every(
    (value) => value === undefined || (typeof value === "object" && !(value instanceof Date) && Object.keys(value).length === 0),
  );
  if (!isEmpty) return;
  const message = "The filter is empty, so it would take every run. Name at least a status or a workflow.";
  throw new InvalidInputError({ what: "bulk", issues: [{ message, path: ["filter"] }] });
}
/** Only runs that the action can change. Undefined: there can be none. */
function narrowed(filter: Filter, action: { readonly do: BulkAction["do"] }): RunFilter | undefined {
  const possible = ACTS_ON[action.do];
  const asked = typeof filter.status === "string" ? [filter.status] : filter.status;
  const status = asked === undefined || asked.length === 0 ? possible : possible.filter((one) => asked.includes(one));
  return status.length === 0 ? undefined : (present({ ...filter, status: [...status] }) as RunFilter);
}

// ── previews ──

async function counted(inspection: Inspection, filter: RunFilter) {
  const counts = await inspection.counts(filter);
  const byStatus: Record<string, number> = {};
  let matched = 0;
  let capped = false;
  for (const [status, count] of Object.entries(counts)) {
    if (count.n === 0) continue;
    byStatus[status] = count.n;
    matched += count.n;
    capped ||= count.capped;
  }
  return { matched, capped, byStatus };
}
/** Of the newest 10,000. */
async function workflowsOf(inspection: Inspection, filter: RunFilter): Promise<Record<string, number>> {
  const byWorkflow: Record<string, number> = {};
  let cursor: string | undefined;
  for (let seen = 0; seen < LOOKED_AT; ) {
    const page = await inspection.list({ ...filter, limit: PAGE, ...present({ cursor }) });
    for (const { workflow } of page.runs) byWorkflow[workflow] = (byWorkflow[workflow] ?? 0) + 1;
    seen += page.runs.length;
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  return byWorkflow;
}
async function named(inspection: Inspection, ids: readonly string[]): Promise<InspectedRun[]> {
  const found: InspectedRun[] = [];
  for (const id of ids) {
    const run = await inspection.get(id);
    if (run !== undefined) found.push(run);
  }
  return found;
}
function tally<K extends "status" | "workflow">(runs: readonly InspectedRun[], key: K): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const run of runs) counts[run[key]] = (counts[run[key]] ?? 0) + 1;
  return counts;
}
/** As in a list. */
function withoutValues(run: InspectedRun): InspectedRun {
  return { ...run, input: undefined, output: undefined };
}

// ── acting ──

async function oneByOne(engine: Holdfast, ids: readonly string[], action: BulkAction): Promise<ResponseOf<"bulk.start">> {
  const failures: { id: string; code: string; message: string }[] = [];
  let failed = 0;
  for (const id of ids) {
    try {
      await actOn(engine, id, action);
    } catch (error) {
      const { code, detail, status } = consoleError(error);
      if (status >= 500 && status !== 501) throw error; // The store, not the run.
      failed++;
      if (failures.length < MOST_FAILURES) failures.push({ id, code, message: detail });
    }
  }
  return { matched: ids.length, done: ids.length, succeeded: ids.length - failed, failed, failures };
}
async function actOn(engine: Holdfast, id: string, action: BulkAction): Promise<void> {
  const run = engine.run(id);
  switch (action.do) {
    case "signal":
      return run.signal(action.name, action.payload);
    case "cancel":
      return run.cancel(action.reason);
    case "terminate":
      return run.terminate(action.reason);
    case "resume":
      return run.resume();
    case "delete":
      return run.delete();
  }
}

const progress = z.object({
  matched: z.number(),
  done: z.number(),
  succeeded: z.number(),
  failed: z.number(),
  failures: z.array(z.object({ id: z.string(), code: z.string(), message: z.string() })),
});
/** Its output when it has ended, its state before. Both are the engine's own. */
function progressOf({ output, state }: InspectedRun, hasValues: boolean): z.output<typeof bulkResult> {
  const none = { matched: 0, done: 0, succeeded: 0, failed: 0, failures: [] };
  for (const encoded of [output, state]) {
    const read = encoded?.read();
    const parsed = read !== undefined && "value" in read ? progress.safeParse(read.value) : undefined;
    if (parsed?.success !== true) continue;
    const { failures, ...counts } = parsed.data;
    const shown = failures.map(({ message, ...one }) => ({ ...one, message: hasValues ? message : { $redacted: message.length } }));
    return { ...counts, failures: shown };
  }
  return none;
}
