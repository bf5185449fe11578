// `holdfast runs list`
// Owns: the pages that make a list, and its table.
// Invariants: --limit may be more than a page has; `jsonl` prints runs as they come.

import type { ResponseOf } from "../../api/routes.ts";
import type { Client } from "../../client/client.ts";
import { statusText } from "../../terminal/colours.ts";
import type { Column } from "../../terminal/table.ts";
import { relative, span } from "../../terminal/times.ts";
import { numberOption } from "../arguments.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";
import { type FilterOptions, type Selection, selectionOf } from "./filters.ts";

interface ListOptions extends FilterOptions {
  readonly limit?: string;
  readonly cursor?: string;
  readonly values?: true;
  readonly count?: true;
}
export type Run = ResponseOf<"runs.list">["runs"][number];

const DEFAULT_LIMIT = 50;
const LARGEST_PAGE = 200;

export async function listRuns(session: Session, _args: readonly [], options: ListOptions): Promise<number> {
  const selection = selectionOf(options, session.now);
  const limit = numberOption("--limit", options.limit ?? String(DEFAULT_LIMIT), { least: 1 });
  const client = await session.reader();
  if (options.count === true) return count(session, client, selection);
  const runs: Run[] = [];
  let cursor: string | null = options.cursor ?? null;
  let listed = 0;
  do {
    const page: ResponseOf<"runs.list"> = await client.call("runs.list", {
      query: {
        ...selection,
        limit: Math.min(LARGEST_PAGE, limit - listed),
        ...(cursor !== null && { cursor }),
        ...(options.values === true && { values: true }),
      },
    });
    listed += page.runs.length;
    ({ cursor } = page);
    if (session.globals.output === "jsonl") for (const run of page.runs) session.line(run);
    else runs.push(...page.runs);
    if (cursor !== null && listed < limit) session.progress.say(`${listed} runs …`);
  } while (cursor !== null && listed < limit);
  session.progress.end();
  if (session.globals.output === "jsonl") return EXIT.ok;
  session.show({ json: { runs, cursor }, ids: runs.map(({ id }) => id), human: () => humanList(session, runs) });
  if (cursor !== null) session.note(`There are more: --cursor ${cursor}`);
  return EXIT.ok;
}

function humanList(session: Session, runs: readonly Run[]): string[] {
  if (runs.length === 0) {
    session.note("No runs.");
    return [];
  }
  return session.table(columnsOf(session), runs);
}

async function count(session: Session, client: Client, selection: Selection): Promise<number> {
  const { counts } = await client.call("runs.count", { query: selection });
  const rows = Object.entries(counts).filter(([, one]) => one.n > 0);
  const shown = (n: number, capped: boolean): string => `${n.toLocaleString("en")}${capped ? "+" : ""}`;
  session.show({
    json: { counts },
    lines: Object.entries(counts).map(([status, one]) => ({ status, ...one })),
    human: () =>
      session.table<(typeof rows)[number]>(
        [
          {
            title: "STATUS",
            value: ([status]) => status,
            paint: (text, [status]) => text.replace(status, statusText(status, session.colours)),
          },
          { title: "RUNS", value: ([, one]) => shown(one.n, one.capped), align: "right" },
        ],
        rows,
      ),
  });
  return EXIT.ok;
}

/** A name with its version. */
export function workflowText({ workflow, version }: Pick<Run, "workflow" | "version">): string {
  return version === null ? workflow : `${workflow}@${version}`;
}

export function textOf(text: string | { readonly $redacted: number }): string {
  return typeof text === "string" ? text : `(${text.$redacted} bytes, hidden)`;
}

/** What an open run waits for, why another has failed. */
function detailOf({ error, waitingFor }: Run): string {
  if (error !== null) return `${error.name}: ${textOf(error.message).split("\n", 1)[0] ?? ""}`;
  return waitingFor.map(textOf).join(", ");
}

function columnsOf(session: Session): Column<Run>[] {
  const { colours, now } = session;
  const columns: Column<Run>[] = [
    { title: "ID", value: ({ id }) => id, least: 12 },
    { title: "STATUS", value: ({ status }) => status, paint: (text) => statusText(text, colours), yields: 0, least: 12 },
    { title: "WORKFLOW", value: workflowText, yields: 2 },
    { title: "CREATED", value: ({ createdAt }) => relative(createdAt, now), yields: 3 },
    { title: "TOOK", value: ({ startedAt, finishedAt }) => (finishedAt === null ? "" : span(startedAt, finishedAt, now)), yields: 6 },
    { title: "DETAIL", value: detailOf, yields: 4, least: 12 },
    { title: "ATTRIBUTES", value: ({ attributes }) => attributesText(attributes), yields: 5 },
  ];
  if (!session.isWide) return columns;
  return [
    ...columns,
    { title: "QUEUE", value: ({ queue }) => queue, yields: 7 },
    { title: "KEY", value: ({ key }) => key, yields: 7 },
    { title: "PRIORITY", value: ({ priority }) => priority, yields: 8, align: "right" },
    { title: "EXECUTION", value: ({ execution }) => execution, yields: 8, align: "right" },
    { title: "RECORDS", value: ({ historyLength }) => historyLength, yields: 8, align: "right" },
    { title: "PARENT", value: ({ parentId }) => parentId, yields: 9 },
    { title: "WORKER", value: ({ workerId }) => workerId, yields: 9 },
  ];
}

export function attributesText(attributes: Run["attributes"]): string {
  return Object.entries(attributes)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ");
}
