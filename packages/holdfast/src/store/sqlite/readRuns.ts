// Looking at runs: by id, in lists, in numbers, turn by turn.
// Owns: filters, the order of lists, cursors.
// Invariants: newest first by creation, then by arrival; a cursor names the run that a page ended with, so that others may come and go.

import { InvalidInputError, type RunStatus, type Turn } from "@holdfast/core";
import type { AttemptRow, RunQuery, RunRow } from "../port.ts";
import { readAttempts } from "./attempts.ts";
import { readNumber, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { findRun } from "./findRun.ts";
import type { Value } from "./library.ts";
import { readRecords, turnsOf } from "./records.ts";
import { ALL_STATUSES, birthOf, RUN_COLUMNS, RUN_TABLES, runRow } from "./runs.ts";

export function readRun(db: Connection, id: string): RunRow | undefined {
  const row = db.get(`SELECT ${RUN_COLUMNS} FROM ${RUN_TABLES} WHERE r.id = ?`, [text(id)]);
  return row === undefined ? undefined : runRow(row);
}

export function readHistory(db: Connection, id: string): Turn[] {
  const run = readRun(db, id);
  const key = findRun(db, id)?.key;
  return run === undefined || key === undefined ? [] : turnsOf(readRecords(db, key, run.execution), birthOf(run));
}

const WORKERS = `SELECT h.turn, w.id FROM holdfast_records h JOIN holdfast_workers w ON w.key = h.worker
  WHERE h.run = ? AND h.execution = ? AND h.worker IS NOT NULL`;

/** Who committed each turn, by its index. */
export function readWorkers(db: Connection, id: string): Map<number, string> {
  const run = findRun(db, id);
  const rows = run === undefined ? [] : db.all(WORKERS, [run.key, run.execution]);
  return new Map(rows.map(([turn, worker]) => [readNumber(turn), readText(worker)]));
}

export function readAllAttempts(db: Connection, id: string): (AttemptRow & { task?: boolean })[] {
  const run = findRun(db, id);
  return run === undefined ? [] : readAttempts(db, run.key, run.execution, "all");
}

export function listRuns(db: Connection, query: RunQuery): { runs: RunRow[]; cursor: string | undefined } {
  const filter = filterOf(query);
  if (query.cursor !== undefined) {
    const { createdAt, key } = parseCursor(query.cursor);
    filter.add("(r.created_at < ? OR (r.created_at = ? AND r.key < ?))", createdAt, createdAt, key);
  }
  const sql = `SELECT ${RUN_COLUMNS}, r.key FROM ${RUN_TABLES} ${filter.where} ORDER BY r.created_at DESC, r.key DESC LIMIT ?`;
  const rows = db.allOnce(sql, [...filter.parameters, query.limit + 1]);
  const page = rows.slice(0, query.limit);
  const last = page.at(-1);
  const runs = page.map(runRow);
  const more = rows.length > page.length && last !== undefined;
  return { runs, cursor: more ? formatCursor(runs.at(-1)?.createdAt ?? 0, readNumber(last.at(-1))) : undefined };
}

export function countRuns(db: Connection, query: Omit<RunQuery, "limit" | "cursor">): Record<RunStatus, number> {
  const counts = Object.fromEntries(ALL_STATUSES.map((status) => [status, 0])) as Record<RunStatus, number>;
  const filter = filterOf(query);
  const rows = db.allOnce(`SELECT r.status, count(*) FROM holdfast_runs r ${filter.where} GROUP BY r.status`, filter.parameters);
  for (const [status, count] of rows) counts[readText(status) as RunStatus] = readNumber(count);
  return counts;
}

// ── filters ──

class Filter {
  readonly parameters: Value[] = [];
  readonly #conditions: string[] = [];

  add(condition: string, ...parameters: Value[]): void {
    this.#conditions.push(condition);
    this.parameters.push(...parameters);
  }
  get where(): string {
    return this.#conditions.length === 0 ? "" : `WHERE ${this.#conditions.join(" AND ")}`;
  }
}

function filterOf({ status, workflow, queue, parentId, attributes, since, until }: Omit<RunQuery, "limit" | "cursor">): Filter {
  const filter = new Filter();
  if (status !== undefined) filter.add(`r.status IN (${status.map(() => "?").join(", ")})`, ...status);
  // Most runs of a workflow are completed: others are found sooner by their status, which the plus makes SQLite do.
  const byStatus = status !== undefined && !status.includes("completed");
  if (workflow !== undefined) filter.add(byStatus ? "+r.workflow = ?" : "r.workflow = ?", text(workflow));
  if (queue !== undefined) filter.add("r.queue = ?", text(queue));
  if (parentId !== undefined) filter.add("r.parent_id = ?", text(parentId));
  if (since !== undefined) filter.add("r.created_at >= ?", since);
  if (until !== undefined) filter.add("r.created_at < ?", until);
  for (const [key, value] of Object.entries(attributes ?? {}))
    filter.add(HAS_ATTRIBUTE, `,${JSON.stringify(key)}:${JSON.stringify(value)},`);
  return filter;
}

/** Attributes are flat and written by JSON.stringify: an entry is there if its text is, between commas. Quotes inside of texts are escaped. */
const HAS_ATTRIBUTE = "instr(',' || substr(r.attributes, 2, length(r.attributes) - 2) || ',', ?) > 0";

// ── cursors ──

function formatCursor(createdAt: number, key: number): string {
  return `${createdAt}.${key}`;
}
export function parseCursor(cursor: string): { createdAt: number; key: number } {
  const parts = /^(-?\d+)\.(\d+)$/.exec(cursor);
  if (parts === null) throw new InvalidInputError({ what: "cursor", issues: [{ message: "must be one that an earlier page gave" }] });
  return { createdAt: Number(parts[1]), key: Number(parts[2]) };
}
