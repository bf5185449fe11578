// `holdfast runs show`
// Owns: how a run, its operations and its course are shown.
// Invariants: JSON is `{"run","operations"}`; --timeline and --history add theirs.

import type { ResponseOf } from "../../api/routes.ts";
import type { Client } from "../../client/client.ts";
import { statusText } from "../../terminal/colours.ts";
import { printable, printableJson, printableLines } from "../../terminal/escape.ts";
import { type Column, fields } from "../../terminal/table.ts";
import { drawLegend, drawTimeline } from "../../terminal/timeline.ts";
import { relative, span } from "../../terminal/times.ts";
import { numberOption } from "../arguments.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";
import { attributesText, textOf, workflowText } from "./list.ts";

interface ShowOptions {
  readonly timeline?: true;
  readonly history?: true;
  readonly execution?: string;
}
type Run = ResponseOf<"runs.get">;
type Operation = ResponseOf<"runs.operations">["operations"][number];
type SerializedError = NonNullable<Run["error"]>;

export async function showRun(session: Session, [id]: readonly [string], options: ShowOptions): Promise<number> {
  const execution = options.execution === undefined ? undefined : numberOption("--execution", options.execution, { least: 1 });
  const client = await session.reader();
  const run = await client.call("runs.get", { params: { id } });
  const query = { ...(execution !== undefined && { execution }) };
  if (options.history === true) return showHistory(session, client, run, query);
  const { operations } = await client.call("runs.operations", { params: { id }, query });
  const timeline = options.timeline === true ? await client.call("runs.timeline", { params: { id }, query }) : undefined;
  session.show({
    json: { run, operations, ...(timeline !== undefined && { timeline }) },
    ids: [run.id],
    human: () => [
      ...runLines(session, run),
      "",
      ...(timeline === undefined
        ? operationLines(session, operations)
        : [
            ...drawTimeline(timeline, { width: session.io.columns ?? DEFAULT_WIDTH, now: endOf(session, run) }),
            "",
            ...drawLegend(session.io.columns ?? DEFAULT_WIDTH).map(session.colours.dim),
          ]),
    ],
  });
  return EXIT.ok;
}
const DEFAULT_WIDTH = 100;

function endOf({ now }: Session, { finishedAt }: Run): number {
  return finishedAt === null ? now : Date.parse(finishedAt);
}

async function showHistory(session: Session, client: Client, run: Run, query: { execution?: number }): Promise<number> {
  const params = { id: run.id };
  const { operations } = await client.call("runs.operations", { params, query });
  // For people values are decoded, and large ones left out; a history that is to be replayed is as it is stored.
  const full = session.globals.output === "json" || session.globals.output === "jsonl";
  const history = await client.call("runs.history", { params, query: { ...query, full } });
  session.show({
    // A history with more fields is a history: `holdfast replay` takes it.
    json: { ...history, operations },
    lines: history.turns,
    ids: [run.id],
    human: () => [
      ...runLines(session, run),
      ...history.turns.flatMap((turn, i) => ["", session.colours.bold(`turn ${turnIndex(turn) ?? i}`), ...turnLines(turn)]),
    ],
  });
  return EXIT.ok;
}

function turnIndex(turn: unknown): unknown {
  return typeof turn === "object" && turn !== null ? (turn as { index?: unknown }).index : undefined;
}

/** Jobs came in, commands went out. */
function turnLines(turn: unknown): string[] {
  const { jobs, commands } = (typeof turn === "object" && turn !== null ? turn : {}) as { jobs?: unknown; commands?: unknown };
  const lines = (records: unknown, sign: string): string[] =>
    Array.isArray(records) ? records.map((record) => `  ${sign} ${printableJson(JSON.stringify(record))}`) : [];
  return [...lines(jobs, "<"), ...lines(commands, ">")];
}

// ── for people ──

function runLines(session: Session, run: Run): string[] {
  const { colours, now } = session;
  const at = (time: string | null): string | undefined => (time === null ? undefined : `${relative(time, now)}  ${colours.dim(time)}`);
  const text = (value: string | null): string | undefined => (value === null ? undefined : printable(value));
  return fields(
    [
      ["id", colours.bold(printable(run.id))],
      ["workflow", printable(workflowText(run))],
      ["status", statusText(run.status, colours)],
      ["waits for", run.waitingFor.map((one) => printable(textOf(one))).join("\n")],
      ["error", run.error === null ? undefined : errorText(run.error)],
      ["input", valueText(run.input)],
      ["output", valueText(run.output)],
      ["attributes", printable(attributesText(run.attributes))],
      ["queue", `${printable(run.queue)}${run.priority === 0 ? "" : `, priority ${run.priority}`}`],
      ["key", text(run.key)],
      ["parent", text(run.parentId)],
      ["forked from", text(run.forkedFrom)],
      ["schedule", run.schedule === null ? undefined : `${printable(run.schedule)}${run.tick === null ? "" : `, tick ${run.tick}`}`],
      ["worker", text(run.workerId)],
      ["execution", run.execution > 1 || run.attempt > 1 ? `${run.execution}, attempt ${run.attempt}` : undefined],
      ["created", at(run.createdAt)],
      ["started", at(run.startedAt)],
      ["available", run.finishedAt === null ? at(run.availableAt) : undefined],
      ["deadline", at(run.deadlineAt)],
      ["finished", at(run.finishedAt)],
      ["history", `${run.historyLength} records`],
    ],
    colours,
  );
}

const MOST_VALUE = 2_000;

function valueText(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  const text = printableJson(JSON.stringify(value));
  return text.length > MOST_VALUE ? `${text.slice(0, MOST_VALUE)}…` : text;
}

function errorText({ name, message, cause }: SerializedError): string {
  const first = `${printable(name)}: ${printableLines(textOf(message))}`;
  if (cause === null || "$redacted" in cause) return first;
  return `${first}\ncaused by ${errorText(cause)}`;
}

function operationLines(session: Session, operations: readonly Operation[]): string[] {
  if (operations.length === 0) return ["No operations yet."];
  const { colours, now } = session;
  const columns: Column<Operation>[] = [
    { title: "LOCATION", value: ({ location }) => location, least: 16 },
    { title: "KIND", value: ({ kind }) => kind, yields: 3 },
    { title: "STATUS", value: ({ status }) => status, paint: (text) => statusText(text, colours), yields: 0, least: 9 },
    { title: "ATTEMPTS", value: ({ attempts }) => (attempts.length > 1 ? attempts.length : ""), align: "right", yields: 4 },
    { title: "STARTED", value: ({ scheduledAt }) => relative(scheduledAt, now), yields: 5 },
    { title: "TOOK", value: ({ scheduledAt, endedAt }) => span(scheduledAt, endedAt, now), yields: 4 },
    {
      title: "DETAIL",
      value: ({ error, childId, attempts }) => {
        const last = error ?? attempts.at(-1)?.error ?? null;
        if (last !== null) return `${last.name}: ${textOf(last.message).split("\n", 1)[0] ?? ""}`;
        return childId === null ? "" : `run ${childId}`;
      },
      yields: 2,
      least: 12,
    },
  ];
  if (session.isWide) columns.push({ title: "OUTPUT", value: ({ output }) => valueText(output), yields: 6 });
  return session.table(columns, operations);
}
