// `holdfast runs cancel`, `terminate`, `resume` and `delete`
// Owns: the preview, the question, the progress and the exit code of actions on many runs.
// Invariants: filters and `terminate` ask, or need --yes; without an id and a filter nothing is done; one id fails with its own exit code,
// several, or a filter, with 1.

import { setTimeout as sleep } from "node:timers/promises";
import { consoleError } from "../../api/problem.ts";
import type { ResponseOf } from "../../api/routes.ts";
import type { Client } from "../../client/client.ts";
import { statusText } from "../../terminal/colours.ts";
import { printable } from "../../terminal/escape.ts";
import { bar } from "../../terminal/progress.ts";
import type { Body } from "../command.ts";
import { CommandFailure, EXIT, usage } from "../failures.ts";
import type { Session } from "../session.ts";
import { type FilterOptions, filterOf, isClosed, selectionOf } from "./filters.ts";
import { helpWithBulk } from "./helper.ts";
import { textOf, workflowText } from "./list.ts";

interface BulkOptions extends FilterOptions {
  readonly reason?: string;
  readonly dryRun?: true;
}
export type Action = "cancel" | "terminate" | "resume" | "delete";
type Preview = ResponseOf<"bulk.preview">;
type Outcome = ResponseOf<"bulk.get">;

const DONE = { cancel: "Cancelled", terminate: "Terminated", resume: "Resumed", delete: "Deleted" } as const;
/** What a preview takes at once. */
const MOST_IDS = 1_000;
const AT_ONCE = 16;
const MOST_FAILURES = 100;
/** Between two looks at the progress, in milliseconds. */
const PACE = 200;

export function bulkBody(action: Action): Body<readonly [readonly string[]], BulkOptions> {
  return async (session, [ids], options) => {
    const { reason, dryRun, ...filter } = options;
    const hasFilter = Object.keys(filter).length > 0;
    if (ids.length > 0 && hasFilter) throw usage("Give ids or filters, not both.");
    if (ids.length === 0 && !hasFilter) throw usage(`Name the runs to ${action}: ids, or filters such as --status and --workflow.`);
    const distinct = [...new Set(ids)];
    if (distinct.length > 0) return byIds(session, action, distinct, options);
    return byFilter(session, action, options);
  };
}

// ── by id ──

async function byIds(session: Session, action: Action, ids: readonly string[], { reason, dryRun }: BulkOptions): Promise<number> {
  if (dryRun === true) {
    if (ids.length > MOST_IDS) throw usage(`--dry-run takes at most ${MOST_IDS} ids.`);
    // A preview is for those who may act, but it opens nothing for writing.
    const client = await session.writer();
    const preview = await client.call("bulk.preview", { body: { action: { do: action }, ids: [...ids] } });
    return showPreview(session, action, preview);
  }
  if (action === "terminate" && !(await session.agreed(`Terminate ${countOf(ids.length)}?`))) return declined(session);
  const client = await session.writer();
  const act = actorOf(client, action, reason);
  const [only] = ids;
  if (only !== undefined && ids.length === 1) {
    await act(only);
    return showOutcome(session, action, { status: "completed", matched: 1, done: 1, succeeded: 1, failed: 0, failures: [] }, ids);
  }
  const failures: { id: string; code: string; message: string }[] = [];
  let failed = 0;
  let done = 0;
  const left = [...ids];
  const workOff = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      try {
        await act(id);
      } catch (error) {
        const { code, detail, status } = consoleError(error);
        // It is not about this run: the others would fail alike.
        if (status === 401 || status === 503 || status === 501) throw error;
        failed += 1;
        if (failures.length < MOST_FAILURES) failures.push({ id, code, message: detail });
      }
      done += 1;
      session.progress.say(bar(done, ids.length));
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, ids.length) }, workOff));
  const outcome: Outcome = { status: "completed", matched: ids.length, done, succeeded: done - failed, failed, failures };
  return showOutcome(session, action, outcome, ids);
}

function actorOf(client: Client, action: Action, reason: string | undefined): (id: string) => Promise<unknown> {
  const body = { ...(reason !== undefined && { reason }) };
  switch (action) {
    case "cancel":
      return (id) => client.call("runs.cancel", { params: { id }, body });
    case "terminate":
      return (id) => client.call("runs.terminate", { params: { id }, body });
    case "resume":
      return (id) => client.call("runs.resume", { params: { id } });
    case "delete":
      return (id) => client.call("runs.delete", { params: { id } });
  }
}

// ── by filter ──

async function byFilter(session: Session, action: Action, options: BulkOptions): Promise<number> {
  const { reason, dryRun } = options;
  const filter = filterOf(selectionOf(options, session.now));
  // Without a yes and without a terminal nothing is counted: the refusal is all there is to say.
  if (dryRun !== true) session.needsYes();
  const client = await session.writer();
  const preview = await client.call("bulk.preview", { body: { action: { do: action, ...(reason !== undefined && { reason }) }, filter } });
  if (dryRun === true) return showPreview(session, action, preview);
  if (preview.matched === 0)
    return showOutcome(session, action, { status: "completed", matched: 0, done: 0, succeeded: 0, failed: 0, failures: [] }, []);
  if (!session.globals.yes) for (const line of previewLines(session, preview)) session.io.stderr.write(`${line}\n`);
  if (!(await session.agreed(`${capital(action)} ${countOf(preview.matched, preview.capped)}?`))) return declined(session);
  const started = await client.call("bulk.start", { body: { token: preview.token, ...(reason !== undefined && { reason }) } });
  if (!("id" in started)) return showOutcome(session, action, { status: "completed", ...started }, []);
  const stop = await helpWithBulk(session, client);
  try {
    return showOutcome(session, action, await followed(session, client, started.id, preview), []);
  } finally {
    await stop();
  }
}

/** The action goes on by itself: this only looks. */
async function followed(session: Session, client: Client, id: string, { matched }: Preview): Promise<Outcome> {
  session.note(`Bulk action ${printable(id)}`);
  for (;;) {
    const outcome = await client.call("bulk.get", { params: { id } });
    session.progress.say(bar(outcome.done, Math.max(outcome.matched, matched)));
    if (isClosed(outcome.status) || outcome.status === "blocked") return outcome;
    await sleep(PACE, undefined, { signal: session.io.signal });
  }
}

// ── what is shown ──

function countOf(n: number, capped = false): string {
  return `${n.toLocaleString("en")}${capped ? " or more" : ""} ${n === 1 && !capped ? "run" : "runs"}`;
}
const capital = (word: string): string => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`;

function showPreview(session: Session, action: Action, preview: Preview): number {
  // The token starts the action: it is no part of what is printed.
  const { token: _, ...shown } = preview;
  session.show({
    json: shown,
    ids: preview.sample.map(({ id }) => id),
    human: () => [`Would ${action} ${countOf(preview.matched, preview.capped)}`, ...previewLines(session, preview)],
  });
  return EXIT.ok;
}

function previewLines(session: Session, { byStatus, byWorkflow, sample, matched }: Preview): string[] {
  const list = (counts: Readonly<Record<string, number>>, text = printable): string =>
    Object.entries(counts)
      .map(([name, n]) => `${text(name)} ${n.toLocaleString("en")}`)
      .join(", ");
  const examples = sample.map(
    (run) => `    ${printable(run.id)}  ${printable(workflowText(run))}  ${statusText(run.status, session.colours)}`,
  );
  return [
    `  by status: ${list(byStatus)}`,
    `  by workflow: ${list(byWorkflow)}`,
    ...examples,
    ...(matched > sample.length ? ["    …"] : []),
  ];
}

function showOutcome(session: Session, action: Action, outcome: Outcome, ids: readonly string[]): number {
  session.progress.end();
  const { status, matched, succeeded, failed, failures } = outcome;
  const failedIds = new Set(failures.map(({ id }) => id));
  session.show({
    json: outcome,
    ids: ids.filter((id) => !failedIds.has(id)),
    human: () => [
      `${DONE[action]} ${countOf(succeeded)}${failed > 0 ? `; ${failed.toLocaleString("en")} of ${matched.toLocaleString("en")} failed` : ""}`,
      ...failures.map(({ id, code, message }) => `  ${printable(id)}  ${printable(code)}  ${printable(textOf(message))}`),
    ],
  });
  return failed > 0 || status !== "completed" ? EXIT.failed : EXIT.ok;
}

function declined(session: Session): never {
  session.progress.end();
  throw new CommandFailure({
    code: "HF_DECLINED",
    status: 400,
    title: "Declined",
    detail: "Nothing was done.",
    exitCode: EXIT.failed,
  });
}
