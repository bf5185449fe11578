// Looking at runs by id: rows, histories, attempts, outcomes of updates.
// Owns: nothing.
// Invariants: D12 (every attempt that is kept).

import type { Turn } from "@holdfast/core";
import type { AttemptRow, InboxMessage, RunRow, UpdateOutcome } from "holdfast/store";
import { readError, readPayload, readText, text } from "../columns.ts";
import type { Connections } from "../connection/connections.ts";
import { attemptsOf, historyOf, runColumns, runTables } from "../sql/fragments.ts";
import { type HistoryRow, turnsOf } from "./history.ts";
import { type AttemptColumns, attemptRow, executionStartOf, type InboxColumns, inboxMessage, type RunColumns, runRow } from "./runRow.ts";

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
  return row === undefined ? [] : turnsOf(row.records ?? [], executionStartOf(runRow(row)));
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

/** The worker that committed each turn, by its index. */
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

/** What no turn has consumed, in order of arrival. */
export async function readInbox(db: Connections, s: string, id: string): Promise<InboxMessage[]> {
  const sql = `SELECT i.id, i.type, i.seq, i.name, i.refs, i.data, i.value FROM ${s}.runs r JOIN ${s}.inbox i ON i.run = r.key WHERE r.id = $1 ORDER BY i.id`;
  const rows = await db.query<Readonly<Record<string, InboxColumns[number]>>>(sql, [text(id)]);
  return rows.map(({ id, type, seq, name, refs, data, value }) => inboxMessage([id, type, seq, name, refs, data, value] as InboxColumns));
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
