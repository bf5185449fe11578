// A turn or a new run that shares its call with no other, as one plain statement.
// Owns: these statements, made for what a turn has; which turns and runs they are for.
// Invariants: D2 D4 as in `sql/001/commit_turns.sql`; a statement that can't do all of it does nothing, and says so: then the function is called, under
// the same name. One that was carried out has noted its name: it does nothing the second time, and the function answers for it.
//
// A function begins by looking at each of its expressions again: 460 µs for a turn of a step, without the disk, against 340 for a statement
// that has nothing but the turn in it, and 285 for a bare insert of one row (PostgreSQL 18, two cores, the driver included).

import type { ExecutionStart, NewRun, TurnCommit } from "holdfast/store";
import { optionalJson, optionalPayload, text, textArray } from "../columns.ts";
import type { Parameter, Statement } from "../connection/connections.ts";
import type { NameIds } from "../nameIds.ts";
import { ENDED, literal, mayBegin, NEW_RUN, NEW_RUN_COLUMNS, newRunValues, removeAt, stays } from "../sql/fragments.ts";
import { firstFields, isPlain } from "./createRuns.ts";
import { recordsOf, rowsOf } from "./history.ts";
import { commonFields, executionStartOf, isHearing, isUsual } from "./rowFields.ts";

/** A statement has a row for each; each number of rows is another statement. */
const MOST_RECORDS = 4;
/** As many are kept on a connection. Programs have a handful; one that has more goes through the functions. */
const MOST_SHAPES = 100;

/** The first three parameters of a statement are the name of the call, which it notes. It has no answer: if it was carried out, rows were written last. */
export class OneStatements {
  readonly #s: string;
  readonly #keptFor: string;
  readonly #texts = new Map<string, string>();

  /** `retention`: how long the engine keeps closed runs, in milliseconds. */
  constructor(s: string, retention: number | undefined) {
    this.#s = s;
    this.#keptFor = `${retention ?? "NULL"}::bigint`;
  }

  /** A usual turn after which the run just goes on, or ends. */
  turn(commit: TurnCommit, now: number | null, names: NameIds, executionStart: ExecutionStart | undefined): Statement | undefined {
    const { turn, close, consumed, state, updates, attempts } = commit;
    // M1: whether a caller has a signal for a run that ends has to be looked at once its row is locked, in a statement after that.
    if (turn === undefined || !isUsual(commit) || isHearing(commit) || !fits(turn)) return undefined;
    if ([consumed, state, updates, attempts].some((more) => more !== undefined)) return undefined;
    const values: Parameter[] = [text(commit.runId), commit.execution, commit.epoch, turn.index];
    const records = new Records(rowsOf(turn, names.worker(commit.workerId), executionStart), close === undefined ? 10 : 14);
    if (close !== undefined) {
      const { status, output, error, resumable = null } = close;
      const end = [status, optionalPayload(output), optionalJson(error), resumable, now, turn.historyLength + recordsOf(turn)];
      return this.#made(`end ${records.shape}`, () => this.#end(records), [...values, ...end, ...records.values]);
    }
    const { lease, status, waitingFor, blocked, seen = 0, rollbacks = -1 } = commit;
    if (lease !== "keep" || status !== "running" || waitingFor !== undefined || blocked !== undefined || recordsOf(turn) === 0)
      return undefined;
    return this.#made(`turn ${records.shape}`, () => this.#turn(records), [...values, seen, rollbacks, ...records.values]);
  }
  /** A new run alone, or with the first turn of one that goes on. */
  run(run: NewRun, now: number | null, names: NameIds, changes: number | null): Statement | undefined {
    const { first } = run;
    if (!isPlain(run) || first?.commit.state !== undefined) return undefined;
    const turn = first?.commit.turn;
    if (turn !== undefined && !fits(turn)) return undefined;
    const fields = { ...commonFields(run, names), ...(first !== undefined && firstFields(first)) } as Readonly<Record<string, unknown>>;
    const given = RUN_FIELDS.map(({ name, type }) => parameterOf(fields[name], type));
    const rows = turn === undefined ? [] : rowsOf(turn, names.worker(first?.commit.workerId ?? ""), executionStartOf(run));
    // Q2: whether it may begin is looked at with its first turn.
    const begins = first === undefined ? [] : [changes];
    const records = new Records(rows, 5 + RUN_FIELDS.length + begins.length);
    return this.#made(`run${begins.length} ${records.shape}`, () => this.#run(records, first !== undefined), [
      now,
      ...given,
      ...begins,
      ...records.values,
    ]);
  }

  #made(shape: string, compose: () => string, values: readonly Parameter[]): Statement | undefined {
    let sql = this.#texts.get(shape);
    if (sql === undefined) {
      if (this.#texts.size >= MOST_SHAPES) return undefined;
      sql = compose();
      this.#texts.set(shape, sql);
    }
    return { sql, values };
  }

  // ── the statements ──

  #turn(records: Records): string {
    const s = this.#s;
    return `WITH held AS (
        SELECT r.key FROM ${s}.runs r WHERE ${HOLDS} AND r.last_message <= $8::bigint AND ${stays("$9::integer")} FOR NO KEY UPDATE
      ), noted AS (${note(s, "held")} RETURNING held.key)
      ${records.insert(s, "noted", "$5::integer", "$7::integer")}`;
  }
  // A run that others wait for, or that has a next start, goes through the function (Q9, Q10). Only its own turns give a run children and activities; a run that never had a message has no update that waits for an answer. Only
  // signals come by mail: an end that should have seen those is not handled here.
  #end(records: Records): string {
    const s = this.#s;
    return `WITH held AS (
        SELECT r.key FROM ${s}.runs r WHERE ${HOLDS} AND r.last_message = 0 AND r.parent_id IS NULL AND NOT r.awaited AND NOT r.has_next
          AND NOT EXISTS (SELECT 1 FROM ${s}.runs c WHERE c.parent_id = $4 AND c.finished_at IS NULL)
          AND NOT EXISTS (SELECT 1 FROM ${s}.tasks x WHERE x.run = r.key) FOR NO KEY UPDATE OF r
      ), noted AS (${note(s, "held")} RETURNING held.key, ${s}.clock_1($12::bigint) AS v_now
      ), written AS (${records.insert(s, "noted", "$5::integer", "$7::integer")})
      UPDATE ${s}.runs r SET status = $8::text, ended_as = $8::text, output = $9::text, error = $10::text,
          resumable = $8::text = 'failed' AND coalesce($11::boolean, true), turns = $7::integer + 1, history_length = $13::integer, ${ENDED},
          ${removeAt(this.#keptFor)}
        FROM noted WHERE r.key = noted.key`;
  }
  // Of two that create the same run the second waits for the first, and then does nothing.
  #run(records: Records, isBegun: boolean): string {
    const s = this.#s;
    const fields = RUN_FIELDS.map(({ name, type }, i) => `$${i + 5}::${type} AS "${name}"`).join(", ");
    const begins = !isBegun ? "" : ` AND ${mayBegin(s, "given.queue", `$${5 + RUN_FIELDS.length}::bigint`)}`;
    return `WITH given AS (SELECT ${s}.clock_1($4::bigint) AS v_now, ${fields}
      ), created AS (
        INSERT INTO ${s}.runs (${NEW_RUN_COLUMNS}) SELECT nextval('${s}.run_keys'), ${newRunValues("")} FROM given
          WHERE EXISTS (SELECT 1 FROM ${s}.calls c WHERE c.instance = $1 AND c.slot = $2::integer AND c.token < $3::bigint)${begins}
          ON CONFLICT DO NOTHING RETURNING key
      ), noted AS (${note(s, "created")}
      )${records.isEmpty ? "" : `, written AS (${records.insert(s, "created", "1", "0")})`}
      INSERT INTO ${s}.executions (run, execution, workflow, version, seed, input)
        SELECT created.key, 1, workflow, version, seed, input FROM created CROSS JOIN given`;
  }
}

function fits(turn: NonNullable<TurnCommit["turn"]>): boolean {
  return recordsOf(turn) <= MOST_RECORDS;
}

/** D4: the claim that the turn names. */
const HOLDS = "r.id = $4::text AND r.execution = $5::integer AND r.epoch = $6::integer AND r.worker_id IS NOT NULL";

/** Like `beginCall`: a call that is repeated finds its name, and nothing follows from it. */
const note = (s: string, from: string): string =>
  `UPDATE ${s}.calls c SET token = $3::bigint, answer = NULL, at = now() FROM ${from} WHERE c.instance = $1::text AND c.slot = $2::integer AND c.token < $3::bigint`;

/** What a new run is given as, field by field. */
const RUN_FIELDS = `${NEW_RUN}, seed text, input text`.split(", ").map((field) => {
  const [name = "", type = ""] = field.replaceAll('"', "").split(" ");
  return { name, type };
});

/** As in JSON, which has no infinity. */
function parameterOf(value: unknown, type: string): Parameter {
  if (type === "jsonb") return JSON.stringify(value);
  return typeof value === "number" && !Number.isFinite(value) ? null : (value as Parameter);
}

const COLUMNS = { q: "seq", n: "n", w: "worker", c: "time", h: "history_length", u: "unit", m: "name", f: "refs", d: "data", v: "value", s: "state" } as const; // biome-ignore format: one line
const TYPES = { q: "integer", n: "integer", w: "integer", c: "bigint", h: "integer", u: "text", m: "text", f: "text[]", d: "text", v: "text", s: "text" } as const; // biome-ignore format: one line
const FIELDS = Object.keys(COLUMNS) as (keyof typeof COLUMNS)[];

/** The records of a turn as rows of a statement: what they have are parameters, what they have not is written out. */
class Records {
  readonly shape: string;
  readonly values: Parameter[] = [];
  readonly isEmpty: boolean;
  readonly #rows: ReturnType<typeof rowsOf>;
  readonly #from: number;

  /** `from`: the number of their first parameter. */
  constructor(rows: ReturnType<typeof rowsOf>, from: number) {
    this.#rows = rows;
    this.#from = from;
    this.isEmpty = rows.length === 0;
    let shape = "";
    for (const row of rows) {
      let has = 0;
      for (let i = 0; i < FIELDS.length; i++) {
        const value = row[FIELDS[i] as keyof typeof COLUMNS];
        if (value === undefined) continue;
        has |= 1 << i;
        this.values.push(typeof value === "object" ? textArray(value) : value);
      }
      shape += `${row.k} ${row.y} ${has},`;
    }
    this.shape = shape;
  }
  insert(s: string, from: string, execution: string, turn: string): string {
    let parameter = this.#from;
    const rows = this.#rows.map((row) => {
      const own = FIELDS.map((field) => `${row[field] === undefined ? "NULL" : `$${parameter++}`}::${TYPES[field]}`);
      return `(${row.p}, ${literal(row.k)}, ${literal(row.y)}, ${own.join(", ")})`;
    });
    const columns = ["position", "direction", "type", ...FIELDS.map((field) => COLUMNS[field])].join(", ");
    return `INSERT INTO ${s}.records (run, execution, turn, ${columns})
        SELECT ${from}.key, ${execution}, ${turn}, x.* FROM ${from} CROSS JOIN (VALUES ${rows.join(", ")}) AS x`;
  }
}
