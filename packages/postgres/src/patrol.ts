// Searches all waiting rows, a portion at a time, for those that would wait forever because something else has written to them.
// Owns: how far the search has come, what it looks for, and what it repairs. History is right where a row says something else.
// Invariants: V4 (no run is left waiting for what can't come); D9 (a wake-up too many does no harm). A store that is opened looks once at
// everything, at a portion when it opens and at another each time that it is asked to go on; a sound database is only read.

import { formatLocation, serializeError } from "@holdfast/core";
import { StoreCorruptError } from "holdfast/store";
import { json, readJson, readNumber, readText, text, type Value } from "./columns.ts";
import type { Connections, Parameter } from "./connection/connections.ts";

const AT_ONCE = 1_000;
/** Of JavaScript's clock, in the year 275760. */
const LAST_MOMENT = 8_640_000_000_000_000;

type Cursor = readonly [number, number];
const FROM_THE_START: Cursor = [Number.MIN_SAFE_INTEGER, Number.MIN_SAFE_INTEGER];

/** Of runs: status, time of creation, key. */
type RunCursor = readonly [string, number, number];

interface Ports {
  readonly connections: Connections;
  readonly s: string;
  readonly where: string;
  /** The store's time; undefined: the server's. */
  readonly now: () => number | null;
}

export class Patrol {
  readonly #ports: Ports;
  #messages: Cursor | undefined = FROM_THE_START;
  #tasks: number | undefined = 0;
  #runs: RunCursor | undefined = ["", ...FROM_THE_START];

  constructor(ports: Ports) {
    this.#ports = ports;
  }
  get isOver(): boolean {
    return this.#messages === undefined && this.#tasks === undefined && this.#runs === undefined;
  }
  /** Looks at the next portion. Returns how many runs, messages and activities were repaired or blocked. */
  async goOn(): Promise<number> {
    return (await this.#lookAtMessages()) + (await this.#lookAtTasks()) + (await this.#lookAtRuns());
  }
  #ask<R extends object>(sql: string, values: readonly Parameter[]): Promise<R[]> {
    return this.#ports.connections.query<R & Record<string, unknown>>(sql, values);
  }

  // ── messages ──

  async #lookAtMessages(): Promise<number> {
    if (this.#messages === undefined) return 0;
    const { s, now } = this.#ports;
    const rows = await this.#ask<MessageRow>(messagesSql(s), [...this.#messages, AT_ONCE, now()]);
    let count = 0;
    for (const { run, id, key, stray, unread } of rows) {
      const owner = stray ? await this.#ownerOf(run, id) : undefined;
      if (owner !== undefined) await this.#ask(`UPDATE ${s}.inbox SET run = $3 WHERE run = $1 AND id = $2`, [run, id, owner]);
      const reader = owner ?? (stray || unread ? key : null);
      if (reader === null) continue;
      await this.#ask(wakeReader(s), [reader, now()]);
      count++;
    }
    const last = rows.at(-1);
    this.#messages = rows.length < AT_ONCE || last === undefined ? undefined : [last.run, last.id];
    return count;
  }
  /** Ids of messages are never used twice: a run whose last one it is, or whose sender's key names it, is the one that it was for. */
  async #ownerOf(run: number, id: number): Promise<number | undefined> {
    const { s } = this.#ports;
    const owners = await this.#ask<{ key: number }>(
      `SELECT key FROM ${s}.runs WHERE last_message = $1 AND key <> $2
       UNION SELECT run FROM ${s}.message_keys WHERE inbox_id = $1 AND run <> $2
       UNION SELECT run FROM ${s}.updates WHERE inbox_id = $1 AND run <> $2`,
      [id, run],
    );
    return owners.length === 1 ? owners[0]?.key : undefined;
  }

  // ── activities ──

  async #lookAtTasks(): Promise<number> {
    if (this.#tasks === undefined) return 0;
    const { s } = this.#ports;
    const rows = await this.#ask<TaskRow>(tasksSql(s), [this.#tasks, AT_ONCE]);
    let count = 0;
    for (const row of rows) {
      const truth = row.is_open === true ? truthOf(row.command, row.of_run) : undefined;
      const isRight = truth !== undefined && isTrue(row, truth);
      if (row.misfiled) await this.#ask(`UPDATE ${s}.tasks SET lane = NULL WHERE id = $1`, [row.id]);
      if (isRight && row.at === null && row.due === null) {
        if (row.misfiled) count++;
        continue;
      }
      const owner = isRight ? truth : (truth ?? (await this.#operationOf(row)));
      if (owner !== undefined && !isRight)
        await this.#ask(
          `UPDATE ${s}.tasks SET run = $2, execution = $3, seq = $4, activity = $5, queue = coalesce($6, queue), location = $7, lane = NULL WHERE id = $1`,
          [row.id, owner.run, owner.execution, owner.seq, text(owner.activity), owner.queue ?? null, text(owner.location)],
        );
      if (row.at !== null) await this.#ask(`UPDATE ${s}.tasks SET available_at = $2 WHERE id = $1 AND worker_id IS NULL`, [row.id, row.at]);
      if (row.due !== null) await this.#ask(`UPDATE ${s}.tasks SET due_at = $2 WHERE id = $1 AND worker_id IS NOT NULL`, [row.id, row.due]);
      if (!isRight && owner === undefined && row.at === null && row.due === null) continue;
      count++;
    }
    this.#tasks = rows.length < AT_ONCE ? undefined : rows.at(-1)?.id;
    return count;
  }
  /** The only operation that it can belong to. Undefined if there is none, or if there are several: then the row is taken to be right. */
  async #operationOf({ id, location }: TaskRow): Promise<Truth | undefined> {
    const { s } = this.#ports;
    const rows = await this.#ask<{ command: CommandColumns; of_run: string | null }>(ownersSql(s), [id]);
    const owners = rows.flatMap(({ command, of_run }) => truthOf(command, of_run) ?? []);
    const right = owners.filter((one) => one.location === readText(location));
    return right.length === 1 ? right[0] : undefined;
  }

  // ── runs ──

  async #lookAtRuns(): Promise<number> {
    if (this.#runs === undefined) return 0;
    const { s, now, where } = this.#ports;
    const rows = await this.#ask<RunState>(runsSql(s), [...this.#runs, AT_ONCE, now()]);
    let count = 0;
    for (const { key, never, words, available_at, parent, orphan, lane, elsewhere, isOver } of rows) {
      const at = words === null ? undefined : earliest(words);
      if (lane !== null) {
        const [made] = await this.#ask<{ lanes: string }>(`SELECT ${s}.register_1($1, '[]') AS lanes`, [`[${lane}]`]);
        const [right] = (JSON.parse(made?.lanes ?? "{}") as { readonly lanes?: readonly number[] }).lanes ?? [];
        if (right !== undefined) await this.#ask(fileRun(s), [key, right]);
        count++;
      }
      if (isOver) {
        await this.#ask(`UPDATE ${s}.runs SET finished_at = NULL WHERE key = $1 AND ended_as IS NULL`, [key]);
        count++;
      }
      if (orphan) {
        await this.#ask(awaitAgain(s), [key]);
        await this.#ask(beginOrphan(s), [key, now()]);
        count++;
      }
      if (never || elsewhere) {
        const why = never
          ? "its available_at is not a moment, so that no worker would ever claim it"
          : "it and its lane name different queues";
        const error = new StoreCorruptError({ where, cause: new TypeError(`runs, key ${key}: ${why}.`) });
        await this.#ask(blockRun(s), [key, json(serializeError(error)), elsewhere]);
      } else if (at !== undefined && at < (available_at ?? Number.POSITIVE_INFINITY)) await this.#ask(wakeSleeper(s), [key, at]);
      else if (parent) {
        count += await this.#lookAtChildren(key);
        continue;
      } else continue;
      count++;
    }
    const last = rows.at(-1);
    this.#runs = rows.length < AT_ONCE || last === undefined ? undefined : [last.status, last.created_at, last.key];
    return count;
  }
  /** Children that would answer another run, or another operation: one of the three that they name may be wrong. */
  async #lookAtChildren(key: number): Promise<number> {
    const { s } = this.#ports;
    let count = 0;
    for (const { id, execution, seq, data } of await this.#ask<ChildCommand>(childrenSql(s), [key])) {
      const child = idIn(data);
      if (child === undefined) continue;
      const moved = await this.#ask(linkChild(s), [text(child), id, execution, seq]);
      count += moved.length;
    }
    return count;
  }
}

// ── messages ──

interface MessageRow {
  readonly run: number;
  readonly id: number;
  readonly key: number | null;
  /** Of a run that does not exist, or that never had one as late as this. */
  readonly stray: boolean;
  /** Its run is parked, and nothing would wake it. An update may be kept for later (M8). */
  readonly unread: boolean;
}
const messagesSql = (
  s: string,
): string => `SELECT i.run, i.id, r.key, r.key IS NULL OR r.ended_as IS NULL AND i.id > r.last_message AS stray,
    coalesce(r.ended_as IS NULL AND r.worker_id IS NULL AND r.status NOT IN ('blocked', 'pending') AND i.type <> 'update'
      AND (r.available_at IS NULL OR r.available_at > ${s}.clock_1($4)), false) AS unread
  FROM (SELECT run, id, type FROM ${s}.inbox WHERE (run, id) > ($1, $2) AND run > 0 ORDER BY run, id LIMIT $3) i
  LEFT JOIN LATERAL (SELECT * FROM ${s}.runs x WHERE x.key = i.run OFFSET 0) r ON true ORDER BY i.run, i.id`;
const wakeReader = (s: string): string => `UPDATE ${s}.runs r SET
    last_message = greatest(r.last_message, (SELECT max(i.id) FROM ${s}.inbox i WHERE i.run = r.key)),
    available_at = CASE WHEN r.worker_id IS NULL AND r.status NOT IN ('blocked', 'pending') THEN least(r.available_at, ${s}.clock_1($2)) ELSE r.available_at END
  WHERE r.key = $1 AND r.ended_as IS NULL`;

// ── activities ──

/** What a row should say of the operation that it is of. */
interface Truth {
  readonly run: number;
  readonly execution: number;
  readonly seq: number;
  readonly activity: string;
  /** Undefined: the run and its lane name different ones, so that nothing says which. */
  readonly queue: string | undefined;
  readonly location: string;
}
/** run, execution, seq, unit, name, n, data. */
type CommandColumns = readonly Value[];
interface TaskRow {
  readonly id: number;
  readonly run: number;
  readonly execution: number;
  readonly seq: number;
  readonly activity: string;
  readonly queue: string;
  readonly location: string;
  readonly is_open: boolean | null;
  readonly of_run: string | null;
  readonly command: CommandColumns | null;
  /** Q1: it is filed where no claim looks: in the lane of another activity, or without a key in a queue that has no limits. */
  readonly misfiled: boolean;
  /** When it should be available, or looked at: its own time would be never. */
  readonly at: number | null;
  readonly due: number | null;
}
const COMMAND = "json_build_array(h.run, h.execution, h.seq, h.unit, h.name, h.n, h.data)";
const ofRun = (s: string): string => `CASE WHEN r.queue = (SELECT l.queue FROM ${s}.lanes l WHERE l.lane = abs(r.lane)) THEN r.queue END`;
// It waits until its last attempt said, or from the start; a worker has it until its lease ends.
const tasksSql = (s: string): string => `WITH portion AS MATERIALIZED (
    SELECT t.*, r.execution AS current, r.ended_as IS NULL AS is_open, ${ofRun(s)} AS of_run,
      greatest(t.scheduled_at, (SELECT max(a.retry_at) FROM ${s}.attempts a WHERE (a.run, a.execution, a.seq) = (t.run, t.execution, t.seq))) AS latest
    FROM (SELECT * FROM ${s}.tasks WHERE id > $1 ORDER BY id LIMIT $2) t LEFT JOIN ${s}.runs r ON r.key = t.run
  ), commands AS MATERIALIZED (
    SELECT h.* FROM (SELECT DISTINCT run, current FROM portion) d JOIN ${s}.records h ON h.run = d.run AND h.execution = d.current
    WHERE h.type = 'activity'
  )
  SELECT t.id, t.run, t.execution, t.seq, t.activity, t.queue, t.location, t.is_open, t.of_run,
    CASE WHEN h.run IS NOT NULL THEN ${COMMAND} END AS command,
    t.lane IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ${s}.lanes l WHERE l.lane = -t.lane AND l.queue = t.queue AND l.workflow = t.activity
      AND (t.work_key IS NOT NULL OR EXISTS (SELECT 1 FROM ${s}.queues q WHERE q.name = t.queue))) AS misfiled,
    CASE WHEN t.worker_id IS NULL AND (t.available_at IS NULL OR t.available_at > t.latest) THEN t.latest END AS at,
    CASE WHEN t.worker_id IS NOT NULL AND (t.due_at IS NULL OR t.due_at > t.leased_until) THEN coalesce(t.leased_until, t.started_at, 0) END AS due
  FROM portion t LEFT JOIN commands h ON h.run = t.run AND h.seq = t.seq ORDER BY t.id`;
// The whole history is looked through, and only if such a row was found. One field is wrong, hence one of these is right.
const ownersSql = (s: string): string => `SELECT ${COMMAND} AS command, ${ofRun(s)} AS of_run FROM ${s}.tasks t
  JOIN ${s}.records h ON h.type = 'activity' AND (h.seq = t.seq OR h.run = t.run)
  JOIN ${s}.runs r ON r.key = h.run AND r.execution = h.execution AND r.ended_as IS NULL
  WHERE t.id = $1 AND NOT EXISTS (SELECT 1 FROM ${s}.tasks o WHERE (o.run, o.seq, o.execution) = (h.run, h.seq, h.execution))
    AND NOT EXISTS (SELECT 1 FROM ${s}.inbox i WHERE i.run = h.run AND i.type = 'resolve' AND i.seq = h.seq)
    AND NOT EXISTS (SELECT 1 FROM ${s}.records d WHERE (d.run, d.execution, d.seq) = (h.run, h.execution, h.seq) AND d.type IN ('resolve', 'settle', 'cancel'))`;

/** Undefined: the record can't be read, and the claim of its run says so. */
function truthOf(command: CommandColumns | null, queue: string | null): Truth | undefined {
  if (command === null) return undefined;
  const [run, execution, seq, unit, name, n, data] = command;
  try {
    const given = data === null ? undefined : readJson<{ readonly queue?: string }>(data).queue;
    const activity = readText(name);
    const location = formatLocation(readText(unit), activity, readNumber(n));
    const numbers = { run: readNumber(run), execution: readNumber(execution), seq: readNumber(seq) };
    return { ...numbers, activity, queue: given ?? queue ?? undefined, location };
  } catch {
    return undefined;
  }
}
/** If the location differs as well, two columns contradict one record: the claim of the run reports that. */
function isTrue(row: TaskRow, { execution, activity, queue, location }: Truth): boolean {
  if (readText(row.location) !== location) return true;
  return row.execution === execution && readText(row.activity) === activity && (queue ?? readText(row.queue)) === readText(row.queue);
}

// ── runs ──

interface RunState {
  readonly key: number;
  readonly status: string;
  readonly created_at: number;
  readonly available_at: number | null;
  /** It has no time to begin at, or its lease no end. */
  readonly never: boolean;
  /** It waits for a run whose end would not make it available: there is none, it has closed, or its row does not say that it is awaited. */
  readonly orphan: boolean;
  /** What it waits for, if a time is among it that it is not available at. */
  readonly words: string | null;
  readonly parent: boolean;
  /** Where it belongs, as JSON, if its lane says something else. */
  readonly lane: string | null;
  /** Its lane names another queue: nothing else says which is right. */
  readonly elsewhere: boolean;
  /** It has a time of its end, and has not ended. */
  readonly isOver: boolean;
}
const WORDS_OF_TIME = 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"';
// Words for people, with names of users among them: a time in a name wakes a run for nothing, once each time that a store is opened.
/** Q1: does the lane of a run have to be negative? One that was claimed in a queue with limits may be; without a key, it is in such a queue. */
const isFiled = (s: string): string =>
  `(r.work_key IS NOT NULL OR r.lane < 0 AND EXISTS (SELECT 1 FROM ${s}.queues q WHERE q.name = r.queue AND (q.limits IS NOT NULL OR q.paused OR q.keyed_runs)))`;
const fileRun = (s: string): string =>
  `UPDATE ${s}.runs r SET lane = CASE WHEN ${isFiled(s)} THEN -$2::integer ELSE $2::integer END WHERE r.key = $1`;
const runsSql = (s: string): string => `SELECT r.key, r.status, r.created_at, r.available_at,
    CASE WHEN r.status = 'blocked' THEN false WHEN r.available_at IS NULL THEN r.status = 'pending' AND r.after_id IS NULL OR r.worker_id IS NOT NULL
      ELSE r.available_at > ${LAST_MOMENT} AND r.status = 'pending' END AS never,
    r.after_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ${s}.runs o WHERE o.id = r.after_id AND o.ended_as IS NULL AND o.awaited)
      AND NOT EXISTS (SELECT 1 FROM ${s}.mail m WHERE m.error IS NULL AND m.run_id = r.after_id) AS orphan,
    CASE WHEN r.status IN ('sleeping', 'rolling_back') AND r.worker_id IS NULL AND (r.available_at IS NULL OR r.available_at > ${s}.clock_1($5))
      AND r.waiting_for ~ 'T\\d\\d:\\d\\d:\\d\\d[.]\\d\\d\\dZ' AND CASE WHEN r.available_at IS NULL OR r.available_at > ${LAST_MOMENT} THEN true
        ELSE position(to_char(to_timestamp(r.available_at / 1000.0) AT TIME ZONE 'UTC', '${WORDS_OF_TIME}') IN r.waiting_for) = 0 END
      THEN r.waiting_for END AS words,
    r.status IN ('sleeping', 'rolling_back') AND r.worker_id IS NULL AND r.available_at IS NULL AND coalesce(r.waiting_for LIKE '%child%', false)
      AND NOT EXISTS (SELECT 1 FROM ${s}.inbox i WHERE i.run = r.key AND i.type = 'resolve') AS parent,
    CASE WHEN l.lane IS NULL OR l.workflow <> r.workflow OR l.version IS DISTINCT FROM r.version OR r.lane > 0 AND ${isFiled(s)} OR r.lane < 0 AND NOT ${isFiled(s)}
      THEN (SELECT json_build_object('queue', r.queue, 'workflow', r.workflow, 'version', r.version, 'priority', r.priority)::text
        FROM ${s}.executions e WHERE (e.run, e.execution, e.workflow) = (r.key, r.execution, r.workflow) AND e.version IS NOT DISTINCT FROM r.version) END AS lane,
    -- A lane that one of its runs agrees with is right, and the other run is wrong: it is claimed all the same.
    coalesce(l.queue <> r.queue AND r.status <> 'blocked' AND r.worker_id IS NULL
      AND NOT EXISTS (SELECT 1 FROM ${s}.runs x WHERE x.lane IN (l.lane, -l.lane) AND x.queue = l.queue AND x.available_at IS NOT NULL), false) AS elsewhere,
    r.finished_at IS NOT NULL AND r.status NOT IN ('completed', 'failed', 'canceled', 'terminated') AS "isOver"
  FROM ${s}.runs r LEFT JOIN ${s}.lanes l ON l.lane = abs(r.lane) WHERE r.ended_as IS NULL AND (r.status, r.created_at, r.key) > ($1, $2, $3) ORDER BY r.status, r.created_at, r.key LIMIT $4`;
const wakeSleeper = (s: string): string => `UPDATE ${s}.runs SET available_at = $2
  WHERE key = $1 AND ended_as IS NULL AND worker_id IS NULL AND status IN ('sleeping', 'rolling_back') AND (available_at IS NULL OR available_at > $2)`;
// One that the other run's row forgot waits on; the others begin.
const awaitAgain = (s: string): string =>
  `UPDATE ${s}.runs SET awaited = true WHERE id = (SELECT after_id FROM ${s}.runs WHERE key = $1) AND ended_as IS NULL`;
const beginOrphan = (s: string): string => `UPDATE ${s}.runs r SET after_id = NULL, available_at = greatest(r.not_before, ${s}.clock_1($2))
  WHERE r.key = $1 AND r.ended_as IS NULL AND r.after_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM ${s}.runs o WHERE o.id = r.after_id AND o.ended_as IS NULL)`;
const blockRun = (s: string): string => `UPDATE ${s}.runs SET status = 'blocked', worker_id = NULL, available_at = NULL, waiting_for = NULL,
    blocked_code = '', error = $2
  WHERE key = $1 AND ended_as IS NULL AND CASE WHEN $3 THEN worker_id IS NULL ELSE available_at IS NULL OR available_at > ${LAST_MOMENT} END`;

const TIME = /\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g;

function earliest(words: string): number | undefined {
  const times = Array.from(words.matchAll(TIME), ([time]) => Date.parse(time)).filter((time) => !Number.isNaN(time));
  return times.length === 0 ? undefined : Math.min(...times);
}

// ── children ──

interface ChildCommand {
  /** Of the parent. */
  readonly id: string;
  readonly execution: number;
  readonly seq: number;
  readonly data: string | null;
}
const childrenSql = (s: string): string => `SELECT r.id, r.execution, c.seq, c.data FROM ${s}.runs r
  JOIN ${s}.records c ON c.run = r.key AND c.execution = r.execution AND c.type = 'child'
  WHERE r.key = $1 AND NOT EXISTS (SELECT 1 FROM ${s}.records d WHERE (d.run, d.execution, d.seq) = (c.run, c.execution, c.seq)
    AND d.type IN ('resolve', 'settle', 'cancel'))`;
const linkChild = (s: string): string => `UPDATE ${s}.runs k SET parent_id = $2, parent_execution = $3, parent_seq = $4
  WHERE k.id = $1 AND k.ended_as IS NULL AND (k.parent_id IS NOT DISTINCT FROM $2)::integer
    + (k.parent_execution IS NOT DISTINCT FROM $3)::integer + (k.parent_seq IS NOT DISTINCT FROM $4)::integer = 2
  RETURNING k.key`;

function idIn(data: string | null): string | undefined {
  try {
    const { id } = readJson<{ readonly id?: unknown }>(data);
    return typeof id === "string" ? id : undefined;
  } catch {
    return undefined;
  }
}
