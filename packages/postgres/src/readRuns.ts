// Looking at runs: by id, in lists, in numbers, turn by turn.
// Owns: filters, the order of lists, cursors.
// Invariants: newest first by creation, then by arrival; a cursor names the run that a page ended with, so that others may come and go.

import { InvalidInputError, type RunStatus, type Turn } from "@holdfast/core";
import type { AttemptRow, RunQuery, RunRow, UpdateOutcome } from "holdfast/store";
import { attributesOf, readError, readNumber, readPayload, readText, text, type Value } from "./columns.ts";
import type { Connections, Parameter } from "./connections.ts";
import { type HistoryRow, turnsOf } from "./history.ts";
import { ALL_STATUSES, type AttemptColumns, attemptRow, birthOf, CLOSED_STATUSES, type RunColumns, runRow } from "./runs.ts";
import { attemptsOf, historyOf, runColumns, runTables } from "./sql/fragments.ts";

export async function readRuns(db: Connections, s: string, ids: readonly string[]): Promise<(RunRow | undefined)[]> {
  if (ids.length === 0) return [];
  const sql = `SELECT ${runColumns(s)} FROM ${runTables(s)} WHERE r.id = ANY (ARRAY (SELECT * FROM json_array_elements_text($1::json)))`;
  const rows = await db.query<RunColumns>(sql, [JSON.stringify(ids.map(text))]);
  const found = new Map(rows.map((row) => [readText(row["id"]), runRow(row)]));
  return ids.map((id) => found.get(id));
}

export async function readHistory(db: Connections, s: string, id: string): Promise<Turn[]> {
  const sql = `SELECT ${runColumns(s)}, ${historyOf(s, "r.key", "r.execution")} AS records FROM ${runTables(s)} WHERE r.id = $1`;
  const [row] = await db.query<RunColumns & { records: HistoryRow[] | null }>(sql, [text(id)]);
  return row === undefined ? [] : turnsOf(row.records ?? [], birthOf(runRow(row)));
}
/** Of claims that came without: by key and execution, since the run is ours. */
export async function readHistories(
  db: Connections,
  s: string,
  claims: readonly { readonly key: number; readonly run: RunRow }[],
): Promise<Map<number, readonly HistoryRow[]>> {
  const sql = `SELECT c.key, ${historyOf(s, "c.key", "c.execution")} AS records FROM json_to_recordset($1::json) AS c(key bigint, execution integer)`;
  const asked = claims.map(({ key, run: { execution } }) => ({ key, execution }));
  const rows = await db.query<{ key: number; records: HistoryRow[] | null }>(sql, [JSON.stringify(asked)]);
  return new Map(rows.map(({ key, records }) => [Number(key), records ?? []]));
}

/** Who committed each turn, by its index. */
export async function readWorkers(db: Connections, s: string, id: string): Promise<Map<number, string>> {
  const rows = await db.query<{ turn: number; id: string }>(
    `SELECT h.turn, w.id FROM ${s}.runs r JOIN ${s}.records h ON h.run = r.key AND h.execution = r.execution
       JOIN ${s}.workers w ON w.key = h.worker WHERE r.id = $1 ORDER BY h.turn`,
    [text(id)],
  );
  return new Map(rows.map((row) => [row.turn, readText(row.id)]));
}

export async function readAttempts(db: Connections, s: string, id: string): Promise<(AttemptRow & { task?: boolean })[]> {
  const sql = `SELECT ${attemptsOf(s, "r.key", "r.execution", "true")} AS attempts FROM ${s}.runs r WHERE r.id = $1`;
  const [row] = await db.query<{ attempts: AttemptColumns[] | null }>(sql, [text(id)]);
  return (row?.attempts ?? []).map(attemptRow);
}

export async function readUpdates(
  db: Connections,
  s: string,
  keys: readonly { readonly runId: string; readonly id: string }[],
): Promise<(UpdateOutcome | undefined)[]> {
  if (keys.length === 0) return [];
  const rows = await db.query<{ i: number; status: string; value: string | null; error: string | null }>(
    `SELECT k.i, u.status, u.value, u.error FROM json_to_recordset($1::json) AS k(i integer, run text, id text)
       CROSS JOIN LATERAL (SELECT x.key FROM ${s}.runs x WHERE x.id = k.run OFFSET 0) r
       CROSS JOIN LATERAL (SELECT * FROM ${s}.updates x WHERE (x.run, x.id) = (r.key, k.id) OFFSET 0) u WHERE u.status IS NOT NULL`,
    [JSON.stringify(keys.map(({ runId, id }, i) => ({ i, run: text(runId), id: text(id) })))],
  );
  const outcomes: (UpdateOutcome | undefined)[] = keys.map(() => undefined);
  for (const { i, status, value, error } of rows) outcomes[i] = updateOutcome(status, value, error);
  return outcomes;
}
function updateOutcome(status: string, value: string | null, error: string | null): UpdateOutcome {
  if (status === "completed") return { status, value: readPayload(value) };
  return { status: status === "rejected" ? "rejected" : "failed", error: readError(error) ?? { name: "Error", message: "" } };
}
/** What `reject_updates_1` says of one: it is not there or was taken, it waits, or how it ended. */
export type RejectedAnswer = null | "waiting" | readonly [status: string, value: string | null, error: string | null];
export function rejectedOutcome(answer: RejectedAnswer): UpdateOutcome | "waiting" | undefined {
  if (answer === null) return undefined;
  return answer === "waiting" ? answer : updateOutcome(...answer);
}

export async function listRuns(db: Connections, s: string, query: RunQuery): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
  const filter = filterOf(query);
  if (query.cursor !== undefined) filter.add(`(r.created_at, r.key) < ($, $)`, ...parseCursor(query.cursor));
  const some = `ORDER BY r.created_at DESC, r.key DESC LIMIT ${Math.max(0, Math.floor(query.limit)) + 1}`;
  const ways = waysTo(query).map(({ condition }) => `(SELECT r.created_at, r.key FROM ${s}.runs r ${filter.where(condition)} ${some})`);
  // The page by its keys, which the indexes have: rows are read of no more runs than it shows.
  const keys = `SELECT r.key FROM (${ways.join(" UNION ALL ")}) r ${some}`;
  const sql = `SELECT ${runColumns(s)} FROM ${runTables(s)} WHERE r.key = ANY (ARRAY (${keys})) ${some}`;
  const rows = await db.query<RunColumns>(sql, filter.parameters);
  const page = rows.slice(0, query.limit);
  const last = page.at(-1);
  const more = rows.length > page.length && last !== undefined;
  return { runs: page.map(runRow), cursor: more ? `${last["created_at"]}.${last["key"]}` : undefined };
}

export async function countRuns(db: Connections, s: string, query: Omit<RunQuery, "limit" | "cursor">): Promise<Record<RunStatus, number>> {
  const counts = Object.fromEntries(ALL_STATUSES.map((status) => [status, 0])) as Record<RunStatus, number>;
  const filter = filterOf(query);
  const ways = waysTo(query).map(
    ({ condition, status }) => `SELECT ${status} AS status, count(*) FROM ${s}.runs r ${filter.where(condition)} GROUP BY ${status}`,
  );
  const rows = await db.query<{ status: RunStatus; count: Value }>(ways.join(" UNION ALL "), filter.parameters);
  for (const { status, count } of rows) counts[status] += readNumber(count);
  return counts;
}

// ── filters ──

class Filter {
  readonly parameters: Parameter[] = [];
  readonly #conditions: string[] = [];

  /** Each `$` of the condition stands for the next parameter. */
  add(condition: string, ...parameters: Parameter[]): void {
    let at = this.parameters.length;
    this.parameters.push(...parameters);
    this.#conditions.push(condition.replace(/\$/g, () => `$${++at}`));
  }
  where(way: string): string {
    return `WHERE ${[way, ...this.#conditions].join(" AND ")}`;
  }
}

type RunFilter = Omit<RunQuery, "limit" | "cursor">;

function filterOf({ workflow, queue, parentId, attributes, since, until }: RunFilter): Filter {
  const filter = new Filter();
  if (workflow !== undefined) filter.add("r.workflow = $", text(workflow));
  if (queue !== undefined) filter.add("r.queue = $", text(queue));
  if (parentId !== undefined) filter.add("r.parent_id = $", text(parentId));
  if (since !== undefined) filter.add("r.created_at >= $", Math.ceil(since));
  if (until !== undefined) filter.add("r.created_at < $", Math.ceil(until));
  // By value and type: what it contains. Without one every run would do.
  if (attributes !== undefined && Object.keys(attributes).length > 0)
    filter.add("r.attributes @> $::jsonb AND r.attributes <> '{}'", JSON.stringify(attributesOf(attributes)));
  return filter;
}
interface Way {
  readonly condition: string;
  /** The column that has the status: of closed runs the one that is in their index. */
  readonly status: "r.status" | "r.ended_as";
}
/**
 * Conditions that no run meets two of, each with an index that has its runs in order: closed runs are found by how they ended, blocked ones
 * by what blocks them, others among the open. `status` itself is in no index, and none has all runs.
 */
function waysTo({ status: asked, workflow, parentId }: RunFilter): Way[] {
  const statuses = ALL_STATUSES.filter((one) => asked === undefined || asked.includes(one));
  const isClosed = (one: RunStatus): boolean => CLOSED_STATUSES.has(one);
  // A run that continues as new is an open one: no row has that status.
  const isOpen = (one: RunStatus): boolean => !isClosed(one) && one !== "continued";
  const closed = statuses.filter(isClosed);
  const open = statuses.filter(isOpen);
  const hasAll = (kind: (one: RunStatus) => boolean): boolean => ALL_STATUSES.filter(kind).every((one) => statuses.includes(one));
  // These have indexes of their own, with open and closed ones together.
  if (hasAll(isOpen) && hasAll(isClosed) && (workflow !== undefined || parentId !== undefined))
    return [{ condition: "true", status: "r.status" }];
  const ways: Way[] = closed.map((one) => ({ condition: `r.ended_as = '${one}'`, status: "r.ended_as" }));
  const add = (condition: string): number => ways.push({ condition, status: "r.status" });
  if (hasAll(isOpen)) add("r.ended_as IS NULL");
  else {
    const list = open.filter((one) => one !== "blocked").map((one) => `'${one}'`);
    if (list.length > 0) add(`r.ended_as IS NULL AND r.status IN (${list.join(", ")})`);
    if (open.includes("blocked")) add("r.blocked_code IS NOT NULL AND r.ended_as IS NULL AND r.status = 'blocked'");
  }
  if (ways.length === 0) add("false");
  return ways;
}

export function parseCursor(cursor: string): [createdAt: number, key: number] {
  const parts = /^(-?\d+)\.(\d+)$/.exec(cursor);
  if (parts === null) throw new InvalidInputError({ what: "cursor", issues: [{ message: "must be one that an earlier page gave" }] });
  return [Number(parts[1]), Number(parts[2])];
}
