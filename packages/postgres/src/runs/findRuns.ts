// Lists and counts of runs: which index has them, and the page that it gives.
// Owns: filters as SQL, and the indexes that runs can be found by.
// Invariants: B1 (newest first, ties by id; a page for one test of equality costs what it shows, otherwise what the narrowest test
// matches), B2 (counts are capped). No statement reads all of `runs`; rows are read of no more runs than a page shows.

import type { RunStatus } from "@holdfast/core";
import {
  type Choice,
  chooseSource,
  DEFAULT_QUEUE,
  findsNothing,
  formatCursor,
  type Look,
  type Meaning,
  meaningOf,
  type Place,
  parseCursor,
  type RunCounts,
  type RunFilter,
  type RunQuery,
  type RunRow,
  type Source,
  textAfter,
} from "holdfast/store";
import { attributesOf, numberArray, orderedText, readNumber, text, textArray, type Value } from "../columns.ts";
import type { Connections, Parameter } from "../connection/connections.ts";
import { listedColumns, runColumns, runTables } from "../sql/fragments.ts";
import { ALL_STATUSES, CLOSED_STATUSES, type RunColumns, runRow } from "./runRow.ts";

const MOST_COUNTED = 10_000;
/** Up to so many runs are counted one by one whatever their status. */
const FEW = 2 * MOST_COUNTED;

// ── lists ──

export async function listRuns(
  db: Connections,
  s: string,
  query: RunQuery,
  values?: "without values",
): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
  if (findsNothing(query)) return { runs: [], cursor: undefined };
  const shown = values === undefined ? undefined : `${listedColumns(s)} FROM ${s}.runs r`;
  const search = new Search(db, s, query, query.cursor === undefined ? undefined : parseCursor(query.cursor), shown);
  const limit = Math.max(0, Math.floor(query.limit));
  const rows = await search.page(limit + 1);
  const runs = rows.slice(0, limit).map(runRow);
  const last = runs.at(-1);
  return { runs, cursor: rows.length > limit && last !== undefined ? formatCursor(last) : undefined };
}

/** Puts values of a statement where they belong. */
class Parameters {
  readonly values: Parameter[] = [];

  add(value: Parameter): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }
}
type Sql = (to: Parameters) => string;

/** A part of an index. */
interface Stretch {
  readonly condition: Sql;
  /** An array whose values, each as `v.value`, are looked up one after the other. */
  readonly values?: Sql;
}
interface Index extends Source {
  /** "a": of `attributes`, "r": of `runs`. */
  readonly of: "a" | "r";
  /** No run is in two of them. */
  readonly stretches: readonly Stretch[];
}

class Search {
  readonly #db: Connections;
  readonly #s: string;
  readonly #filter: RunFilter;
  readonly #after: Place | undefined;
  readonly #conditions: readonly Sql[];
  readonly #rows: string;
  #lastRead: (Choice<Index> & { readonly rows: RunColumns[] }) | undefined;

  /** `rows`: the columns that a page shows, and the tables that they are in. */
  constructor(db: Connections, s: string, filter: RunFilter, after?: Place, rows = `${runColumns(s)} FROM ${runTables(s)}`) {
    this.#db = db;
    this.#s = s;
    this.#rows = rows;
    this.#filter = filter;
    this.#after = after;
    this.#conditions = conditionsOf(filter, s);
  }

  async page(limit: number): Promise<RunColumns[]> {
    return this.#read(await this.#choose(limit), limit);
  }
  /** A page that was tried and is full is read once: read again, it may have lost runs to others that changed, and not be full. */
  async #read({ source, since }: Choice<Index>, limit: number): Promise<RunColumns[]> {
    const known = this.#lastRead;
    if (known?.source === source && known.since === since) return known.rows;
    const to = new Parameters();
    const keys = this.#keys(source, limit, since, to);
    const rows = await this.#db.query<RunColumns>(
      `SELECT ${this.#rows} WHERE r.key = ANY (ARRAY (SELECT r.key FROM ${keys} r)) ORDER BY r.created_at DESC, r.id DESC`,
      to.values,
    );
    this.#lastRead = { source, since, rows };
    return rows;
  }
  async #choose(limit: number): Promise<Choice<Index>> {
    const choosing = chooseSource({
      tests: testsOf(this.#filter),
      all: walkOf(this.#filter),
      isOneTest: this.#conditions.length === 1,
      limit,
    });
    let next = choosing.next();
    while (next.done !== true) next = choosing.next(await this.#look(next.value, limit));
    return next.value;
  }
  #look(look: Look<Index>, limit: number): Promise<readonly number[] | number | boolean | undefined> {
    switch (look.look) {
      case "count":
        return this.sizes(look.sources, look.limit);
      case "reach":
        return this.#reach(look.source, look.depth);
      case "fills":
        return this.#read(look, limit).then((rows) => rows.length === limit);
    }
  }

  /** The keys of a page, in no order. */
  #keys(index: Index, limit: number, since: number | undefined, to: Parameters): string {
    const order = index.isOrdered ? `ORDER BY created_at DESC FETCH FIRST ${limit} ROWS WITH TIES` : "";
    const parts = index.stretches.map((stretch) => this.#each(stretch, to, () => `${this.#matching(index, stretch, to, since)} ${order}`));
    return `(SELECT m.key, m.created_at, m.id FROM (${parts.join(" UNION ALL ")}) m ORDER BY m.created_at DESC, m.id DESC LIMIT ${limit})`;
  }
  /** How many runs each has, whatever else is asked of them. */
  async sizes(indexes: readonly Index[], limit: number): Promise<readonly number[]> {
    const to = new Parameters();
    const sizes = indexes.map((index) => {
      const parts = index.stretches.map((stretch) =>
        this.#each(stretch, to, () => `SELECT 1 ${this.#candidates(index, stretch, to)} LIMIT ${limit}`),
      );
      return `(SELECT count(*) FROM (SELECT 1 FROM (${parts.join(" UNION ALL ")}) x LIMIT ${limit}) y)`;
    });
    const [row] = await this.#db.query<{ sizes: string }>(`SELECT json_build_array(${sizes.join(", ")})::text AS sizes`, to.values);
    return JSON.parse(row?.sizes ?? "[]") as number[];
  }
  async #reach(index: Index, depth: number): Promise<number | undefined> {
    const to = new Parameters();
    const parts = index.stretches.map((stretch) =>
      this.#each(
        stretch,
        to,
        () =>
          `SELECT ${index.of}.created_at ${this.#candidates(index, stretch, to)} ORDER BY ${index.of}.created_at DESC LIMIT ${depth + 1}`,
      ),
    );
    const sql = `SELECT created_at FROM (${parts.join(" UNION ALL ")}) x ORDER BY created_at DESC LIMIT 1 OFFSET ${depth}`;
    const [row] = await this.#db.query<{ created_at: Value }>(sql, to.values);
    return row === undefined ? undefined : readNumber(row.created_at);
  }
  /** The part once for each value that is looked up, or just once. */
  #each({ values }: Stretch, to: Parameters, part: () => string): string {
    if (values === undefined) return `(${part()})`;
    return `(SELECT p.* FROM unnest(${values(to)}) AS v(value) CROSS JOIN LATERAL (${part()}) p)`;
  }
  #candidates(index: Index, { condition }: Stretch, to: Parameters, since?: number): string {
    const table = index.of === "a" ? `${this.#s}.attributes a` : `${this.#s}.runs r`;
    return `FROM ${table} WHERE ${[condition(to), ...this.#window(`${index.of}.created_at`, to, since)].join(" AND ")}`;
  }
  /** Statements for runs that match, with the columns of a page. Without an order the conditions must not lead to another index. */
  #matching(index: Index, stretch: Stretch, to: Parameters, since?: number, more: readonly Sql[] = []): string {
    const conditions = [...this.#conditions, ...more].map((condition) => condition(to));
    const after = this.#after;
    const place = after === undefined ? [] : [`(r.created_at < ${to.add(after.createdAt)} OR r.id < ${to.add(text(after.id))})`];
    const found = "r.key, r.created_at, r.id, r.status";
    if (index.of === "r" && index.isOrdered) {
      const others = [...conditions, ...place].map((condition) => ` AND ${condition}`).join("");
      return `SELECT ${found} ${this.#candidates(index, stretch, to, since)}${others}`;
    }
    const key = index.of === "a" ? "a.run" : "r.key";
    const candidates = `(SELECT ${key} AS key, ${index.of}.created_at ${this.#candidates(index, stretch, to, since)} ${index.isOrdered ? "ORDER BY created_at DESC" : ""} OFFSET 0) c`;
    const row = `(SELECT ${found} FROM ${this.#s}.runs r WHERE ${["r.key = c.key", ...conditions, ...place].join(" AND ")} OFFSET 0) r`;
    return `SELECT r.key, c.created_at, r.id, r.status FROM ${candidates} CROSS JOIN LATERAL ${row}`;
  }
  #window(column: string, to: Parameters, reach: number | undefined): string[] {
    const { since, until } = this.#filter;
    const from = Math.max(Math.ceil(since ?? Number.NEGATIVE_INFINITY), reach ?? Number.NEGATIVE_INFINITY);
    const parts: string[] = [];
    if (from !== Number.NEGATIVE_INFINITY) parts.push(`${column} >= ${to.add(from)}`);
    if (until !== undefined) parts.push(`${column} < ${to.add(Math.ceil(until))}`);
    if (this.#after !== undefined) parts.push(`${column} <= ${to.add(this.#after.createdAt)}`);
    return parts;
  }

  // ── counts ──

  /** Of all of them, by status. */
  byStatus(index: Index): Sql {
    return (to) => {
      const parts = index.stretches.map((stretch) => this.#each(stretch, to, () => this.#matching(index, stretch, to)));
      return `SELECT m.status, count(*) AS count FROM (${parts.join(" UNION ALL ")}) m GROUP BY m.status`;
    };
  }
  /** Of those that have this status, up to a limit. */
  ofStatus(index: Index, status: RunStatus, limit: number): Sql {
    return (to) => {
      const more: Sql = () => conditionOf(status);
      const parts = index.stretches.map((stretch) =>
        this.#each(stretch, to, () => `${this.#matching(index, stretch, to, undefined, [more])} LIMIT ${limit}`),
      );
      return `SELECT '${status}'::text AS status, count(*) AS count FROM (SELECT 1 FROM (${parts.join(" UNION ALL ")}) m LIMIT ${limit}) x`;
    };
  }
  /** In one statement, which sees one moment: a run that ends meanwhile is counted once. */
  count(parts: readonly Sql[]): Promise<readonly { readonly status: RunStatus; readonly count: Value }[]> {
    const to = new Parameters();
    return this.#db.query(parts.map((part) => `(${part(to)})`).join(" UNION ALL "), to.values);
  }
}

export async function countRuns(db: Connections, s: string, filter: RunFilter): Promise<RunCounts> {
  const counts = Object.fromEntries(ALL_STATUSES.map((status) => [status, 0])) as Record<RunStatus, number>;
  if (!findsNothing(filter)) await addCounts(new Search(db, s, filter), filter, counts);
  const capped = ALL_STATUSES.filter((status) => counts[status] > MOST_COUNTED);
  for (const status of capped) counts[status] = MOST_COUNTED;
  return { ...counts, capped };
}
async function addCounts(search: Search, filter: RunFilter, counts: Record<RunStatus, number>): Promise<void> {
  const { workflow, status: asked } = filter;
  const tests = [...testsOf(filter), ...(workflow === undefined ? [] : [byWorkflow(workflow)])];
  const sizes = tests.length === 0 ? [] : await search.sizes(tests, FEW);
  const least = Math.min(...sizes);
  const narrowest = tests[sizes.indexOf(least)];
  const counted: Sql[] = [];
  if (narrowest !== undefined && least < FEW) counted.push(search.byStatus(narrowest));
  else {
    const statuses = STORED_STATUSES.filter((one) => asked?.includes(one) !== false);
    const indexes = statuses.map((status) => byStatus([status]));
    const areFew = narrowest === undefined || statuses.length === 0 ? [] : await search.sizes(indexes, FEW);
    for (const [i, index] of indexes.entries()) {
      const isRare = narrowest === undefined || (areFew[i] ?? 0) < FEW;
      counted.push(search.ofStatus(isRare ? index : narrowest, statuses[i] as RunStatus, MOST_COUNTED + 1));
    }
  }
  if (counted.length === 0) return;
  for (const { status, count } of await search.count(counted)) counts[status] += readNumber(count);
}

// ── indexes ──

/** All runs that may be asked for, in order. None has all runs. */
function walkOf({ status, workflow }: RunFilter): Index {
  if (workflow !== undefined && status === undefined) return byWorkflow(workflow);
  return byStatus(STORED_STATUSES.filter((one) => status?.includes(one) !== false));
}
/** A run that continues as new is an open one: no row has that status. */
const STORED_STATUSES = ALL_STATUSES.filter((one) => one !== "continued");

function byStatus(statuses: readonly RunStatus[]): Index {
  const stretches = statuses.map((status): Stretch => ({ condition: () => conditionOf(status) }));
  return {
    of: "r",
    isOrdered: true,
    isWhole: stretches.length === 1,
    stretches: stretches.length === 0 ? [{ condition: () => "false" }] : stretches,
  };
}
function conditionOf(status: RunStatus): string {
  return CLOSED_STATUSES.has(status) ? `r.ended_as = '${status}'` : `r.ended_as IS NULL AND r.status = '${status}'`;
}
function byWorkflow(workflow: string | readonly string[]): Index {
  const names = listOf(workflow);
  const values: Sql = (to) => `${to.add(textArray(names.map(text)))}::text[]`;
  return {
    of: "r",
    isOrdered: true,
    isWhole: names.length === 1,
    stretches: [{ condition: () => 'r.workflow = v.value COLLATE "C"', values }],
  };
}
function listOf(workflow: string | readonly string[]): readonly string[] {
  return typeof workflow === "string" ? [workflow] : [...new Set(workflow)];
}
/** Indexes that have some of the runs, one for each test. */
function testsOf(filter: RunFilter): Index[] {
  const { version, queue, key, schedule, parentId, idPrefix, finishedSince, finishedUntil, attributes = {} } = filter;
  const tests = Object.entries(attributes).map(([name, test]) => byAttribute(name, meaningOf(test)));
  const add = (isOrdered: boolean, condition: Sql): number => tests.push({ of: "r", isOrdered, isWhole: true, stretches: [{ condition }] });
  if (version !== undefined) add(true, equals("r.version", version));
  if (queue !== undefined && queue !== DEFAULT_QUEUE)
    add(true, (to) => `${equals("r.queue", queue)(to)} AND r.queue <> '${DEFAULT_QUEUE}'`);
  if (key !== undefined) add(true, equals("r.work_key", key));
  if (schedule !== undefined) add(true, equals("r.schedule", schedule));
  if (parentId !== undefined) add(false, equals("r.parent_id", parentId));
  if (idPrefix !== undefined) add(false, hasPrefix("r.id", text(idPrefix)));
  if (finishedSince !== undefined || finishedUntil !== undefined) add(false, ended(finishedSince, finishedUntil));
  return tests;
}
function byAttribute(name: string, meaning: Meaning): Index {
  const isNamed = (to: Parameters): string => `a.name = ${to.add(cut(orderedText(name), LONGEST_NAME))}`;
  const stretches: Stretch[] = [];
  if (meaning.kind === "values") {
    const strings = meaning.values.filter((value) => typeof value === "string");
    if (strings.length > 0) {
      // Two long texts may be the same when they are cut.
      const values = new Set(strings.map((value) => cut(orderedText(value), LONGEST_STRING)));
      stretches.push({
        condition: (to) => `${isNamed(to)} AND a.string = v.value COLLATE "C"`,
        values: (to) => `${to.add(textArray([...values]))}::text[]`,
      });
    }
    for (const type of ["number", "boolean"] as const) {
      const numbers = meaning.values.filter((value) => typeof value === type).map(Number);
      const condition: Sql = (to) => `${isNamed(to)} AND a.type = '${type}' AND a.number = v.value`;
      if (numbers.length > 0) stretches.push({ condition, values: (to) => `${to.add(numberArray(numbers))}::double precision[]` });
    }
    return { of: "a", isOrdered: true, isWhole: meaning.values.length === 1, stretches };
  }
  const condition: Sql = (to) => [isNamed(to), ...limitsOf(meaning, to)].join(" AND ");
  return { of: "a", isOrdered: false, isWhole: true, stretches: [{ condition }] };
}
/** As `index_attributes_1` cuts them. */
const LONGEST_NAME = 128;
const LONGEST_STRING = 512;
function cut(ordered: string, longest: number): string {
  return ordered.length <= longest ? ordered : Array.from(ordered).slice(0, longest).join("");
}
/** What the index says of a range or a prefix. A limit that had to be cut is in it: the condition on the run decides. */
function limitsOf(meaning: Exclude<Meaning, { kind: "values" }>, to: Parameters): string[] {
  if (meaning.kind === "prefix") {
    const prefix = orderedText(meaning.prefix);
    const short = cut(prefix, LONGEST_STRING);
    const end = textAfter(short);
    return ["a.string IS NOT NULL", `a.string >= ${to.add(short)}`, ...(end === undefined ? [] : [`a.string < ${to.add(end)}`])];
  }
  const { type, low, high } = meaning;
  const parts = type === "string" ? ["a.string IS NOT NULL"] : [`a.type = 'number' AND a.number IS NOT NULL`];
  for (const [limit, operator] of [[low, ">"], [high, "<"]] as const) {
    if (limit === undefined) continue;
    if (typeof limit.value === "number") parts.push(`a.number ${operator}${limit.isInclusive ? "=" : ""} ${to.add(limit.value)}::double precision`);
    else {
      const ordered = orderedText(limit.value);
      const short = cut(ordered, LONGEST_STRING);
      const isWhole = Array.from(short).length < LONGEST_STRING;
      parts.push(`a.string ${operator}${limit.isInclusive || !isWhole ? "=" : ""} ${to.add(short)}`);
    }
  } // biome-ignore format: two of a kind
  return parts;
}

// ── conditions ──

/** The conditions on a run `r`, however it was found, except for when it was created. */
function conditionsOf(filter: RunFilter, s: string): Sql[] {
  const { status, workflow, version, queue, key, schedule, parentId, idPrefix, finishedSince, finishedUntil, attributes = {} } = filter;
  const conditions: Sql[] = [];
  if (status !== undefined) conditions.push((to) => `r.status = ANY (${to.add(textArray(status))}::text[])`);
  if (workflow !== undefined) conditions.push((to) => `r.workflow = ANY (${to.add(textArray(listOf(workflow).map(text)))}::text[])`);
  if (version !== undefined) conditions.push(equals("r.version", version));
  if (queue !== undefined) conditions.push(equals("r.queue", queue));
  if (key !== undefined) conditions.push(equals("r.work_key", key));
  if (schedule !== undefined) conditions.push(equals("r.schedule", schedule));
  if (parentId !== undefined) conditions.push(equals("r.parent_id", parentId));
  if (idPrefix !== undefined) conditions.push(hasPrefix("r.id", text(idPrefix)));
  if (finishedSince !== undefined || finishedUntil !== undefined) conditions.push(ended(finishedSince, finishedUntil));
  for (const [name, test] of Object.entries(attributes)) conditions.push(hasAttribute(name, meaningOf(test), s));
  return conditions;
}
function equals(column: string, value: string): Sql {
  return (to) => `${column} = ${to.add(text(value))}`;
}
function hasPrefix(column: string, prefix: string): Sql {
  const end = textAfter(prefix);
  return (to) => `${column} >= ${to.add(prefix)}${end === undefined ? "" : ` AND ${column} < ${to.add(end)}`}`;
}
function ended(since: number | undefined, until: number | undefined): Sql {
  return (to) =>
    [
      "r.finished_at IS NOT NULL",
      ...(since === undefined ? [] : [`r.finished_at >= ${to.add(Math.ceil(since))}`]),
      ...(until === undefined ? [] : [`r.finished_at < ${to.add(Math.ceil(until))}`]),
    ].join(" AND ");
}
function hasAttribute(name: string, meaning: Meaning, s: string): Sql {
  return (to) => {
    const at = to.add(text(name));
    const found = `r.attributes -> ${at}`;
    if (meaning.kind === "values") {
      const values = Object.values(attributesOf(Object.fromEntries(meaning.values.map((value, i) => [i, value]))));
      // An array contains the values that are in it, each of its type.
      return `${to.add(JSON.stringify(values))}::jsonb @> (${found})`;
    }
    const value = `(r.attributes ->> ${at})`;
    if (meaning.kind === "prefix")
      return `CASE WHEN jsonb_typeof(${found}) = 'string' THEN starts_with(${s}.ordered_text_1${value}, ${to.add(orderedText(meaning.prefix))}) END`;
    const isText = meaning.type === "string";
    const compared = isText ? `${s}.ordered_text_1${value} COLLATE "C"` : `${value}::double precision`;
    const limits = ([[meaning.low, ">"], [meaning.high, "<"]] as const).flatMap(([limit, operator]) => {
      if (limit === undefined) return [];
      const bound = typeof limit.value === "string" ? to.add(orderedText(limit.value)) : `${to.add(limit.value)}::double precision`;
      return [`${compared} ${operator}${limit.isInclusive ? "=" : ""} ${bound}`];
    }); // biome-ignore format: two of a kind
    return `CASE WHEN jsonb_typeof(${found}) = '${meaning.type}' THEN ${limits.join(" AND ")} END`;
  };
}
