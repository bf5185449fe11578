// Lists and counts runs with Temporal's visibility.
// Owns: the queries, and which filters they can express.
// Invariants: a filter is never ignored: what visibility can't express is an UnsupportedError that names it; texts of users are quoted.

import { type RunStatus, UnsupportedError } from "@holdfast/core";
import {
  findsNothing,
  type Meaning,
  meaningOf,
  passes,
  type RunCounts,
  type RunDescription,
  type RunPage,
  type RunSelection,
} from "holdfast/backend";
import { taskQueueOf } from "../names.ts";
import { readJson } from "../payloads.ts";
import { SCHEDULE } from "../scheduledBy.ts";
import { cursorOf, tokenOf } from "./cursors.ts";
import { successorIn } from "./ends.ts";
import { type Description, type Executions, executionIn, isOpen } from "./executions.ts";
import { inParallel } from "./parallel.ts";
import type { SearchAttributes } from "./searchAttributes.ts";
import { called, unlessDeleted } from "./serviceErrors.ts";
import { type ClientSettings, HOST } from "./settings.ts";
import type { Snapshots } from "./snapshots.ts";

/** Temporal's statuses for each status of a closed run. */
const CLOSED: Readonly<Partial<Record<RunStatus, readonly string[]>>> = {
  completed: ["Completed"],
  failed: ["Failed", "TimedOut"],
  canceled: ["Canceled"],
  terminated: ["Terminated"],
  continued: ["ContinuedAsNew"],
};
const OPEN: readonly RunStatus[] = ["pending", "running", "sleeping", "blocked", "rolling_back"];
const READ_AT_ONCE = 20;
const MOST_COUNTED = 10_000;

export class Visibility {
  readonly #settings: ClientSettings;
  readonly #executions: Executions;
  readonly #snapshots: Snapshots;
  readonly #searchAttributes: SearchAttributes;

  constructor(
    settings: ClientSettings,
    parts: { readonly executions: Executions; readonly snapshots: Snapshots; readonly searchAttributes: SearchAttributes },
  ) {
    this.#settings = settings;
    this.#executions = parts.executions;
    this.#snapshots = parts.snapshots;
    this.#searchAttributes = parts.searchAttributes;
  }

  async list(page: RunPage): Promise<{ readonly runs: readonly RunDescription[]; readonly cursor: string | undefined }> {
    const nextPageToken = page.cursor === undefined ? undefined : tokenOf(page.cursor);
    if (findsNothing(page)) return { runs: [], cursor: undefined };
    const { service, namespace } = this.#settings.connection;
    const { query, isExact } = await this.#query(page);
    const request = { namespace, query, pageSize: page.limit, ...(nextPageToken !== undefined && { nextPageToken }) };
    const answer = await called("list", service.listWorkflowExecutions(request));
    const rows = (answer.executions ?? []).map((info): Description => ({ workflowExecutionInfo: info }));
    const read = await inParallel(rows, READ_AT_ONCE, (row) => unlessDeleted(this.#read(row)));
    const runs = read.filter((run) => run !== undefined);
    return {
      runs: newest(isExact ? runs : runs.filter((run) => matches(page, run))),
      cursor: cursorOf(answer.nextPageToken),
    };
  }
  /** Undefined if another execution continues this one. */
  async #read(row: Description): Promise<RunDescription | undefined> {
    if (!isOpen(row) && successorIn(await this.#executions.closing(executionIn(row))) !== undefined) return undefined;
    return { ...(await this.#snapshots.listed(row)), waitingFor: [] };
  }
  /** The service counts without a limit. */
  async count(selection: RunSelection): Promise<RunCounts> {
    const counts = await this.#count(selection);
    const capped = (Object.keys(counts) as RunStatus[]).filter((status) => counts[status] > MOST_COUNTED);
    for (const status of capped) counts[status] = MOST_COUNTED;
    return { ...counts, capped };
  }
  async #count(selection: RunSelection): Promise<Record<RunStatus, number>> {
    const counts: Record<RunStatus, number> = {
      ...{ pending: 0, running: 0, sleeping: 0, blocked: 0, rolling_back: 0 },
      ...{ completed: 0, failed: 0, canceled: 0, terminated: 0, continued: 0 },
    };
    if (findsNothing(selection)) return counts;
    const { query, isExact } = await this.#query(selection);
    if (!isExact) {
      const instead = "List the runs, and count those that it returns.";
      throw new UnsupportedError({ feature: "a count by a text with quotes, backslashes or control characters", host: HOST, instead });
    }
    const { service, namespace } = this.#settings.connection;
    const request = { namespace, query: `${query} GROUP BY ExecutionStatus` };
    const { groups } = await called("count", service.countWorkflowExecutions(request));
    for (const { groupValues, count } of groups ?? []) counts[statusNamed(readJson(groupValues?.[0]))] += Number(count ?? 0);
    return counts;
  }

  // ── queries ──

  /** `isExact`: no other runs match the query. */
  async #query(selection: RunSelection): Promise<{ readonly query: string; readonly isExact: boolean }> {
    const { workflow, queue, parentId, idPrefix, schedule, since, until, finishedSince, finishedUntil } = selection;
    const { attributes = {}, status } = selection;
    refuseUnknown(selection);
    const clauses: Clause[] = [];
    if (workflow !== undefined) clauses.push(oneOf("WorkflowType", [workflow].flat()));
    if (queue !== undefined) clauses.push(oneOf("TaskQueue", [taskQueueOf(queue, this.#settings.queue)]));
    if (parentId !== undefined) clauses.push(oneOf("ParentWorkflowId", [parentId]));
    if (schedule !== undefined) clauses.push(oneOf(SCHEDULE, [schedule]));
    if (idPrefix !== undefined) clauses.push(beginsWith("WorkflowId", idPrefix));
    const times = [
      [`StartTime >=`, since],
      [`StartTime <`, until],
      [`CloseTime >=`, finishedSince],
      [`CloseTime <`, finishedUntil],
    ] as const;
    for (const [test, time] of times) if (time !== undefined) clauses.push(exactly(`${test} "${new Date(time).toISOString()}"`));
    // To some servers an open run closes far in the future.
    if (finishedSince !== undefined || finishedUntil !== undefined) clauses.push(exactly('ExecutionStatus != "Running"'));
    for (const [attribute, test] of Object.entries(attributes)) clauses.push(await this.#attributeClause(attribute, meaningOf(test)));
    const parts = [statusClause(status), ...clauses.map(({ text }) => text)];
    return { query: parts.join(" AND "), isExact: clauses.every(({ isExact }) => isExact) };
  }
  async #attributeClause(attribute: string, meaning: Meaning): Promise<Clause> {
    if (meaning.kind === "prefix") return beginsWith(await this.#nameOf(attribute, meaning.prefix), meaning.prefix);
    if (meaning.kind === "values") {
      const types = new Set(meaning.values.map((value) => typeof value));
      if (types.size > 1)
        throw new UnsupportedError({
          feature: `a filter by values of several types (attribute "${attribute}")`,
          host: HOST,
          instead: "A search attribute has one type: list the runs once for each.",
        });
      const name = await this.#nameOf(attribute, meaning.values[0] ?? "");
      return oneOf(name, meaning.values);
    }
    if (meaning.type === "string")
      throw new UnsupportedError({
        feature: `a range of texts (attribute "${attribute}")`,
        host: HOST,
        instead: "How Temporal orders texts depends on the database of its visibility. Use a prefix, or a number.",
      });
    const limits = [
      [">", meaning.low],
      ["<", meaning.high],
    ] as const;
    const parts: string[] = [];
    for (const [operator, limit] of limits) {
      if (limit === undefined) continue;
      const name = await this.#nameOf(attribute, limit.value);
      parts.push(`${name} ${operator}${limit.isInclusive ? "=" : ""} ${limit.value}`);
    }
    return exactly(parts.join(" AND "));
  }
  /** The search attribute of an attribute, quoted. */
  async #nameOf(attribute: string, value: string | number | boolean): Promise<string> {
    const name = await this.#searchAttributes.exactNameFor(attribute, value);
    if (name !== undefined) return `\`${name}\``;
    const type = typeof value === "string" ? "Keyword" : typeof value === "boolean" ? "Bool" : "Double";
    const instead = `Register it: temporal operator search-attribute create --name ${attribute} --type ${type}.`;
    throw new UnsupportedError({ feature: `a filter by the attribute "${attribute}"`, host: HOST, instead });
  }
}

/** What Temporal's visibility knows nothing of. */
function refuseUnknown({ version, key }: RunSelection): void {
  const asked = Object.entries({ version, key }).find(([, value]) => value !== undefined)?.[0];
  if (asked === undefined) return;
  const instead = `Set an attribute with the ${asked}, register it as a search attribute, and filter by that.`;
  throw new UnsupportedError({ feature: `a filter by ${asked}`, host: HOST, instead });
}

/** `isExact`: it matches nothing else. */
interface Clause {
  readonly text: string;
  readonly isExact: boolean;
}
const exactly = (text: string): Clause => ({ text, isExact: true });

/** Servers whose visibility is in SQLite or PostgreSQL never find a text with one of these, however it is quoted. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression is meant to match them
const SPECIAL = /["\\\u0000-\u001f\u007f]/;

function oneOf(name: string, values: readonly (string | number | boolean)[]): Clause {
  const parts = values.map((value) => (typeof value === "string" ? textClause(name, value) : `${name} = ${value}`));
  const isExact = values.every((value) => typeof value !== "string" || !SPECIAL.test(value));
  return { text: parts.length === 1 ? (parts[0] ?? "") : `(${parts.join(" OR ")})`, isExact };
}
function beginsWith(name: string, prefix: string): Clause {
  const at = prefix.search(SPECIAL);
  const safe = at < 0 ? prefix : prefix.slice(0, at);
  return { text: safe === "" ? `${name} IS NOT NULL` : `${name} STARTS_WITH "${safe}"`, isExact: at < 0 };
}
/** A text that can't be searched for is searched for by what precedes the first special character. */
function textClause(name: string, text: string): string {
  return SPECIAL.test(text) ? beginsWith(name, text).text : `${name} = "${text}"`;
}
function matches({ workflow, queue, parentId, idPrefix, schedule, attributes = {} }: RunSelection, run: RunDescription): boolean {
  if (workflow !== undefined && ![workflow].flat().includes(run.workflow)) return false;
  if (queue !== undefined && run.queue !== queue) return false;
  if (parentId !== undefined && run.parent?.runId !== parentId) return false;
  if (schedule !== undefined && run.schedule !== schedule) return false;
  if (idPrefix !== undefined && !run.id.startsWith(idPrefix)) return false;
  return Object.entries(attributes).every(([name, test]) => passes(meaningOf(test), run.attributes[name]));
}

/** One row per run: executions that were continued are not runs of their own. */
function statusClause(statuses: readonly RunStatus[] | undefined): string {
  if (statuses === undefined) return `ExecutionStatus != "ContinuedAsNew"`;
  const asked = new Set(statuses);
  const open = OPEN.filter((status) => asked.has(status));
  if (open.length > 0 && open.length < OPEN.length)
    throw new UnsupportedError({
      feature: `a filter by the status "${open[0]}" alone`,
      host: HOST,
      instead: `Temporal can search for open runs only as a whole: pass ${OPEN.map((status) => `"${status}"`).join(", ")} together.`,
    });
  const names = statuses.flatMap((status) => CLOSED[status] ?? []);
  if (open.length > 0) names.push("Running");
  return `ExecutionStatus IN (${[...new Set(names)].map((name) => `"${name}"`).join(", ")})`;
}
function statusNamed(name: unknown): RunStatus {
  for (const [status, names] of Object.entries(CLOSED)) if (names.includes(String(name))) return status as RunStatus;
  return "running";
}
/** Each run once, the newest first. */
function newest(runs: readonly RunDescription[]): RunDescription[] {
  const sorted = [...runs].sort((a, b) => b.createdAt - a.createdAt || b.execution - a.execution);
  const seen = new Set<string>();
  return sorted.filter(({ id }) => !seen.has(id) && seen.add(id) !== undefined);
}
