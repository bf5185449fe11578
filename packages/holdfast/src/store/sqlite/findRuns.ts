// Lists and counts of runs: which index has them, and the page that it gives.
// Owns: filters as SQL, and the indexes that runs can be found by.
// Invariants: B1 (newest first, ties by id; a page for one test of equality costs what it shows, otherwise what the narrowest test
// matches), B2 (one moment for all statements of a call; counts are capped).

import type { RunStatus } from "@holdfast/core";
import { findsNothing, type Limit, type Meaning, meaningOf, textAfter } from "../search/attributeTests.ts";
import { type Choice, chooseSource, type Look, type Source } from "../search/choose.ts";
import { formatCursor, type Place, parseCursor } from "../search/cursors.ts";
import { DEFAULT_QUEUE, type RunCounts, type RunFilter, type RunQuery, type Scalar } from "../searchPort.ts";
import { endOfPrefix, indexed } from "./attributes.ts";
import { readNumber, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { Row, Statement, Value } from "./library.ts";
import { ALL_STATUSES, LISTED_COLUMNS, RUN_COLUMNS, RUN_TABLES, runRow } from "./runs.ts";

const MOST_COUNTED = 10_000;
/** Up to so many runs are counted one by one whatever their status. */
const FEW = 2 * MOST_COUNTED;

// ── pages ──

export function listRuns(
  db: Connection,
  query: RunQuery,
  values?: "without values",
): { runs: ReturnType<typeof runRow>[]; cursor: string | undefined } {
  if (findsNothing(query)) return { runs: [], cursor: undefined };
  return atOneMoment(db, () => {
    const search = new Search(db, query, query.cursor === undefined ? undefined : parseCursor(query.cursor));
    const rows = search.page(query.limit + 1);
    const page = rows.slice(0, query.limit);
    const last = page.at(-1);
    return {
      runs: readRows(
        db,
        page.map(({ key }) => key),
        values,
      ),
      cursor: rows.length > page.length && last !== undefined ? formatCursor(last) : undefined,
    };
  });
}

/** The statements of one call see the same: in a transaction of their own, which takes no lock that stops a writer. */
function atOneMoment<T>(db: Connection, work: () => T): T {
  db.exec("SAVEPOINT holdfast_look");
  let result: T;
  try {
    result = work();
  } catch (error) {
    try {
      db.exec("RELEASE holdfast_look");
    } catch {
      // SQLite has ended it already, after some errors.
    }
    throw error;
  }
  db.exec("RELEASE holdfast_look");
  return result;
}

function readRows(db: Connection, keys: readonly number[], values?: "without values"): ReturnType<typeof runRow>[] {
  if (keys.length === 0) return [];
  const [columns, tables] = values === undefined ? [RUN_COLUMNS, RUN_TABLES] : [LISTED_COLUMNS, "holdfast_runs r"];
  const rows = db.allOnce(`SELECT ${columns}, r.key FROM ${tables} WHERE r.key IN (${keys.join(", ")})`, []);
  const found = new Map(rows.map((row) => [readNumber(row.at(-1)), runRow(row)]));
  return keys.flatMap((key) => found.get(key) ?? []);
}

/** A part of an index, which is what one value of it has, or one range. */
interface Stretch {
  readonly condition: string;
  readonly parameters: readonly Value[];
}
interface Index extends Source {
  /** "a": of `holdfast_attributes`, "r": of `holdfast_runs`. */
  readonly of: "a" | "r";
  readonly name: string;
  /** No run is in two of them. */
  readonly stretches: readonly Stretch[];
  /** The attribute whose test all of its runs meet. */
  readonly attribute?: string;
}
type IndexParts = Omit<Index, "isWhole">;
const whole = (parts: IndexParts): Index => ({ ...parts, isWhole: parts.stretches.length === 1 });
interface Found extends Place {
  readonly key: number;
}

class Search {
  readonly #db: Connection;
  readonly #conditions: Condition[];
  readonly #filter: RunFilter;
  readonly #after: Place | undefined;
  readonly #statements = new Map<string, Statement>();
  /** A page that was tried and fits is read once. */
  #lastRead: (Choice<Index> & { readonly found: Found[] }) | undefined;

  constructor(db: Connection, filter: RunFilter, after?: Place) {
    this.#db = db;
    this.#filter = filter;
    this.#after = after;
    this.#conditions = conditionsOf(filter);
  }

  /** Filters have too many shapes for the statements that the connection keeps; in one call the same may come a thousand times. */
  #rows(sql: string, parameters: readonly Value[]): Row[] {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement.all(parameters);
  }
  page(limit: number): Found[] {
    const choosing = chooseSource({
      tests: testsOf(this.#filter),
      all: walkOf(this.#filter),
      isOneTest: this.#conditions.length === 1,
      limit,
    });
    let next = choosing.next();
    while (next.done !== true) next = choosing.next(this.#look(next.value, limit));
    return this.#read(next.value, limit);
  }
  #look(look: Look<Index>, limit: number): readonly number[] | number | boolean | undefined {
    switch (look.look) {
      case "count":
        return look.sources.map((source) => this.size(source, look.limit));
      case "reach":
        return this.#reach(look.source, look.depth);
      case "fills":
        return this.#read(look, limit).length === limit;
    }
  }

  #read({ source: index, since }: Choice<Index>, limit: number): Found[] {
    const known = this.#lastRead;
    if (known?.source === index && known.since === since) return known.found;
    const rows = index.stretches.flatMap((stretch) => {
      const { sql, parameters } = this.#matching(index, stretch, since);
      const createdAt = `${index.of}.created_at`;
      return this.#rows(`SELECT r.created_at, r.id, r.key ${sql} ORDER BY ${createdAt} DESC, r.id DESC LIMIT ?`, [...parameters, limit]);
    });
    const all = rows.map(([createdAt, id, key]) => ({
      createdAt: readNumber(createdAt),
      id: readText(id),
      column: id,
      key: readNumber(key),
    }));
    if (index.stretches.length > 1) all.sort((a, b) => b.createdAt - a.createdAt || compareColumns(b.column, a.column));
    const found = all.slice(0, limit);
    this.#lastRead = { source: index, since, found };
    return found;
  }
  /** How many runs it has, whatever else is asked of them. */
  size(index: Index, limit: number): number {
    let size = 0;
    for (const stretch of index.stretches) {
      if (size >= limit) break;
      const { sql, parameters } = this.#candidates(index, stretch);
      const [[count] = []] = this.#rows(`SELECT count(*) FROM (SELECT 1 ${sql} LIMIT ?)`, [...parameters, limit - size]);
      size += readNumber(count);
    }
    return size;
  }
  #reach(index: Index, depth: number): number | undefined {
    const createdAt = `${index.of}.created_at`;
    const newest = index.stretches.flatMap((stretch) => {
      const { sql, parameters } = this.#candidates(index, stretch);
      const order = `ORDER BY ${createdAt} DESC`;
      if (index.isWhole) return this.#rows(`SELECT ${createdAt} ${sql} ${order} LIMIT 1 OFFSET ?`, [...parameters, depth]);
      return this.#rows(`SELECT ${createdAt} ${sql} ${order} LIMIT ?`, [...parameters, depth + 1]);
    });
    const times = newest.map(([time]) => readNumber(time));
    return index.isWhole ? times[0] : times.sort((a, b) => b - a)[depth];
  }
  #candidates(index: Index, stretch: Stretch, since?: number): { sql: string; parameters: Value[] } {
    const window = windowOf(`${index.of}.created_at`, this.#filter, this.#after, since);
    const conditions = [stretch.condition, ...window.map(({ sql }) => sql)];
    const table = index.of === "a" ? "holdfast_attributes a" : "holdfast_runs r";
    const sql = `FROM ${table} INDEXED BY ${index.name} WHERE ${conditions.join(" AND ")}`;
    return { sql, parameters: [...stretch.parameters, ...window.flatMap(({ parameters }) => parameters)] };
  }
  #matching(index: Index, stretch: Stretch, since?: number, more: readonly Condition[] = []): { sql: string; parameters: Value[] } {
    const candidates = this.#candidates(index, stretch, since);
    const others = this.#conditions.filter(({ attribute }) => attribute === undefined || attribute !== index.attribute);
    const conditions = [...afterPlace(this.#after), ...others, ...more];
    const rest = conditions.map(({ sql }) => ` AND ${sql}`).join("");
    const sql =
      index.of === "a" ? candidates.sql.replace(" WHERE ", " CROSS JOIN holdfast_runs r ON r.key = a.run WHERE ") : candidates.sql;
    return { sql: sql + rest, parameters: [...candidates.parameters, ...conditions.flatMap(({ parameters }) => parameters)] };
  }

  // ── counts ──

  byStatus(index: Index): Row[] {
    return index.stretches.flatMap((stretch) => {
      const { sql, parameters } = this.#matching(index, stretch);
      return this.#rows(`SELECT r.status, count(*) ${sql} GROUP BY r.status`, parameters);
    });
  }
  /** Up to `limit`. */
  ofStatus(index: Index, status: RunStatus, limit: number): number {
    let count = 0;
    for (const stretch of index.stretches) {
      const { sql, parameters } = this.#matching(index, stretch, undefined, [{ sql: "r.status = ?", parameters: [status] }]);
      const [[found] = []] = this.#rows(`SELECT count(*) FROM (SELECT 1 ${sql} LIMIT ?)`, [...parameters, limit - count]);
      count += readNumber(found);
    }
    return count;
  }
}

export function countRuns(db: Connection, filter: RunFilter): RunCounts {
  const counts = Object.fromEntries(ALL_STATUSES.map((status) => [status, 0])) as Record<RunStatus, number>;
  if (findsNothing(filter)) return { ...counts, capped: [] };
  atOneMoment(db, () => {
    const search = new Search(db, filter);
    const { since, until, workflow } = filter;
    const sized =
      [...testsOf({ ...filter, workflow: undefined }), ...(workflow === undefined ? [] : [byWorkflow(workflow)]), ...(since ?? until) === undefined ? [] : [EVERY_RUN]] // biome-ignore format: a list
        .map((index) => ({ index, size: search.size(index, FEW) }))
        .sort((a, b) => a.size - b.size);
    const [narrowest] = sized;
    if (narrowest !== undefined && narrowest.size < FEW) {
      for (const [status, count] of search.byStatus(narrowest.index)) counts[readText(status) as RunStatus] += readNumber(count);
      return;
    }
    for (const status of ALL_STATUSES) {
      if (filter.status !== undefined && !filter.status.includes(status)) continue;
      const index = byStatus([status]);
      const isRare = narrowest === undefined || search.size(index, FEW) < FEW;
      counts[status] = search.ofStatus(isRare ? index : narrowest.index, status, MOST_COUNTED + 1);
    }
  });
  const capped = ALL_STATUSES.filter((status) => counts[status] > MOST_COUNTED);
  for (const status of capped) counts[status] = MOST_COUNTED;
  return { ...counts, capped };
}

// ── indexes ──

const EVERY_RUN: Index = {
  of: "r",
  name: "holdfast_runs_by_creation",
  isOrdered: true,
  isWhole: true,
  stretches: [{ condition: "true", parameters: [] }],
};

function byStatus(statuses: readonly RunStatus[]): Index {
  const stretches = [...new Set(statuses)].map((status) => ({ condition: "r.status = ?", parameters: [status] }));
  return whole({ of: "r", name: "holdfast_runs_by_status", isOrdered: true, stretches });
}
function byWorkflow(workflow: string | readonly string[]): Index {
  const stretches = listOf(workflow).map((name) => ({ condition: "r.workflow = ?", parameters: [text(name)] }));
  return whole({ of: "r", name: "holdfast_runs_by_workflow", isOrdered: true, stretches });
}
/** All runs that may be asked for, in order. Most runs of a workflow are completed: others are found sooner by their status. */
function walkOf({ status, workflow }: RunFilter): Index {
  if (status !== undefined && (workflow === undefined || !status.includes("completed"))) return byStatus(status);
  return workflow === undefined ? EVERY_RUN : byWorkflow(workflow);
}
/** Indexes that have some of the runs, one for each test. */
function testsOf(filter: RunFilter): Index[] {
  const { status, workflow, version, queue, key, schedule, parentId, idPrefix, finishedSince, finishedUntil, attributes = {} } = filter;
  const tests = Object.entries(attributes).map(([name, test]) => byAttribute(name, meaningOf(test)));
  const add = (name: string, isOrdered: boolean, ...stretches: Stretch[]): number =>
    tests.push(whole({ of: "r", name, isOrdered, stretches }));
  // With one of the two alone, the walk is along it.
  if (workflow !== undefined && status !== undefined) tests.push(byWorkflow(workflow));
  if (queue !== undefined && queue !== DEFAULT_QUEUE)
    add("holdfast_runs_by_queue", true, { condition: `r.queue = ? AND r.queue <> '${DEFAULT_QUEUE}'`, parameters: [text(queue)] });
  if (version !== undefined) add("holdfast_runs_by_version", true, { condition: "r.version = ?", parameters: [text(version)] });
  if (key !== undefined) add("holdfast_runs_by_work_key", true, { condition: "r.work_key = ?", parameters: [text(key)] });
  if (schedule !== undefined) add("holdfast_runs_by_schedule", true, { condition: "r.schedule = ?", parameters: [text(schedule)] });
  if (parentId !== undefined) add("holdfast_runs_by_parent", false, { condition: "r.parent_id = ?", parameters: [text(parentId)] });
  if (idPrefix !== undefined) add("sqlite_autoindex_holdfast_runs_1", false, ...stretchesOfIds(idPrefix));
  const ended = rangeOf("r.finished_at", finishedSince, finishedUntil);
  if (ended !== undefined) add("holdfast_runs_by_end", false, ended);
  return tests;
}
function rangeOf(column: string, since: number | undefined, until: number | undefined): Stretch | undefined {
  if (since === undefined && until === undefined) return undefined;
  const parts = [`${column} IS NOT NULL`];
  if (since !== undefined) parts.push(`${column} >= ?`);
  if (until !== undefined) parts.push(`${column} < ?`);
  return { condition: parts.join(" AND "), parameters: [since ?? [], until ?? []].flat() };
}
/** Ids with a NUL or half a surrogate pair are blobs of UTF-16: see `text`. */
function stretchesOfIds(prefix: string): Stretch[] {
  const units = Buffer.from(prefix, "utf16le");
  const blobs: Stretch = { condition: "r.id >= ? AND substr(r.id, 1, ?) = ?", parameters: [units, units.length, units] };
  const column = text(prefix);
  if (typeof column !== "string") return [blobs];
  const end = textAfter(prefix) ?? Buffer.alloc(0); // blobs are above texts
  return [{ condition: "r.id >= ? AND r.id < ?", parameters: [column, end] }, blobs];
}

function byAttribute(name: string, meaning: Meaning): Index {
  const stretches = stretchesOf(meaning).map(({ condition, parameters }) => ({
    condition: `a.name = ? AND ${condition("a.type", "a.value")}`,
    parameters: [text(name), ...parameters],
  }));
  return whole({ of: "a", name: "holdfast_attributes_by_value", attribute: name, isOrdered: meaning.kind === "values", stretches });
}
interface ValueStretch {
  readonly condition: (type: string, value: string) => string;
  readonly parameters: readonly Value[];
}
function stretchesOf(meaning: Meaning): ValueStretch[] {
  if (meaning.kind === "values") {
    const condition = (type: string, value: string): string => `${type} = ? AND ${value} = ?`;
    return meaning.values.map((value: Scalar) => ({ condition, parameters: [typeof value, indexed(value)] }));
  }
  const limits: { readonly operator: string; readonly value: Value }[] = [];
  if (meaning.kind === "prefix") {
    const end = endOfPrefix(meaning.prefix);
    limits.push({ operator: ">=", value: indexed(meaning.prefix) });
    if (end !== undefined) limits.push({ operator: "<", value: end });
  } else {
    const add = (limit: Limit | undefined, operator: string): unknown =>
      limit !== undefined && limits.push({ operator: limit.isInclusive ? `${operator}=` : operator, value: indexed(limit.value) });
    add(meaning.low, ">");
    add(meaning.high, "<");
  }
  const type = meaning.kind === "prefix" ? "string" : meaning.type;
  return [
    {
      condition: (typeColumn, column) => [`${typeColumn} = ?`, ...limits.map(({ operator }) => `${column} ${operator} ?`)].join(" AND "),
      parameters: [type, ...limits.map(({ value }) => value)],
    },
  ];
}

// ── conditions ──

interface Condition {
  /** Of a test of this attribute. */
  readonly attribute?: string;
  readonly sql: string;
  readonly parameters: readonly Value[];
}

/** The conditions on a run `r`, however it was found, except for when it was created. */
function conditionsOf(filter: RunFilter): Condition[] {
  const { status, workflow, version, queue, key, schedule, parentId, idPrefix, finishedSince, finishedUntil, attributes = {} } = filter;
  const conditions: Condition[] = [];
  // The plus keeps SQLite from another index than the one that was chosen.
  const add = (sql: string, ...parameters: Value[]): number => conditions.push({ sql, parameters });
  if (status !== undefined) add(`+r.status IN (${marks(status)})`, ...status);
  if (workflow !== undefined) add(`+r.workflow IN (${marks(listOf(workflow))})`, ...listOf(workflow).map(text));
  if (version !== undefined) add("+r.version = ?", text(version));
  if (queue !== undefined) add("+r.queue = ?", text(queue));
  if (key !== undefined) add("+r.work_key = ?", text(key));
  if (schedule !== undefined) add("+r.schedule = ?", text(schedule));
  if (parentId !== undefined) add("+r.parent_id = ?", text(parentId));
  const ended = rangeOf("+r.finished_at", finishedSince, finishedUntil);
  if (ended !== undefined) add(ended.condition, ...ended.parameters);
  if (idPrefix !== undefined) conditions.push(either(stretchesOfIds(idPrefix)));
  for (const [name, test] of Object.entries(attributes)) {
    const stretches = stretchesOf(meaningOf(test));
    const values = stretches.map(({ condition }) => `(${condition("+b.type", "+b.value")})`).join(" OR ");
    const sql = `EXISTS (SELECT 1 FROM holdfast_attributes b WHERE b.run = r.key AND b.name = ? AND (${values}))`;
    conditions.push({ attribute: name, sql, parameters: [text(name), ...stretches.flatMap(({ parameters }) => parameters)] });
  }
  return conditions;
}
function either(stretches: readonly Stretch[]): Condition {
  const sql = stretches.map(({ condition }) => `(${condition.replaceAll("r.id", "+r.id")})`).join(" OR ");
  return { sql: `(${sql})`, parameters: stretches.flatMap(({ parameters }) => parameters) };
}
function windowOf(column: string, { since, until }: RunFilter, after: Place | undefined, reach: number | undefined): Condition[] {
  const from = Math.max(since ?? Number.NEGATIVE_INFINITY, reach ?? Number.NEGATIVE_INFINITY);
  const conditions: Condition[] = [];
  if (from !== Number.NEGATIVE_INFINITY) conditions.push({ sql: `${column} >= ?`, parameters: [from] });
  if (until !== undefined) conditions.push({ sql: `${column} < ?`, parameters: [until] });
  if (after !== undefined) conditions.push({ sql: `${column} <= ?`, parameters: [after.createdAt] });
  return conditions;
}
function afterPlace(after: Place | undefined): Condition[] {
  return after === undefined ? [] : [{ sql: "(+r.created_at < ? OR +r.id < ?)", parameters: [after.createdAt, text(after.id)] }];
}
function marks(items: readonly unknown[]): string {
  return items.map(() => "?").join(", ");
}
function listOf(workflow: string | readonly string[]): readonly string[] {
  return typeof workflow === "string" ? [workflow] : [...new Set(workflow)];
}
/** As SQLite compares them: texts by their bytes of UTF-8, before blobs. */
function compareColumns(a: Value | undefined, b: Value | undefined): number {
  if (typeof a === "string" && typeof b === "string") return Buffer.compare(Buffer.from(a), Buffer.from(b));
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b);
  return typeof a === "string" ? -1 : 1;
}
