// The tables of Holdfast in an SQLite file, and how a file gets them.
// Owns: the schema, and its version (the table `holdfast_schema`).
// Invariants: all that is ours is called `holdfast_…`, and nothing else in the file is touched: other tables, `user_version` and
// `application_id` are the user's. A newer version, one that was made by another text, and tables of that name that are not ours, are left
// as they are; migrations are all or nothing.
//
// A map, for reading the file with `sqlite3`. Times are milliseconds since 1970; values of users are JSON as the codec wrote it
// (bytes of a codec that encrypts are blobs). The views `holdfast_overview` (runs) and `holdfast_history` show the same with dates to
// read. Each name begins with `holdfast_`:
//
//   schema        One row: the version of the schema, and a hash of the text that made it.
//   runs          One row per run: what it is, its status, and the worker that has it. `key` is its number in the other tables.
//                 A run can be claimed when `available_at` has come; while a worker has it, `worker_id` names it and `available_at` is when
//                 its lease ends (`lease` is how long it was given for); null means that only a message wakes it. `epoch` counts claims: a write that names an old one is
//                 refused (D4). `last_message` is the highest inbox id that it ever had, `rollbacks` how many steps would be undone.
//                 `work_key` is the `key` of its start; `schedule` and `tick` what started it; `retention` how long its workflow keeps it once it
//                 has closed (-1: forever, null: as the engine says) and `remove_at` when it goes; `after_id` the run that it waits for
//                 (`not_before`: when it begins at the earliest, once that has closed), and `awaited` that others wait for it; `has_next` that it has a next start,
//                 `first_start` when the first of the starts was made that its execution has taken over (null: created_at); `held`
//                 which slots it holds in a queue that counts open runs, and `under` which of its parent's it goes under (bits: 1 the queue's,
//                 2 the key's). Of the link to its parent, a run whose parent was removed has `parent_close` alone.
//   schedules     One row per schedule (T). `spec` is text that the engine reads: when it ticks, and what it starts. `tick` is the next tick that is
//                 neither started nor missed, `due_at` when it is to be started; both null while it is paused. `revision` changes whenever
//                 a caller changes it, `last_tick` and `last_run` are those of its last tick that has a run.
//   start_keys    Idempotency keys of starts, by workflow, and the run that each started (M3): a run can have several, for its life.
//   next_starts   What a run begins with once it has closed (Q9): the newest start as JSON, when the first was made that it has taken over, and
//                 whether the run was canceled for it. Messages that wait with it are in the inbox under -key.
//   executions    One row per execution of a run (P10): its input, version and random seed. They never change, and inputs can be large:
//                 in the row of the run they would be copied with every turn.
//   states        The published state of a run (P5), for the same reason.
//   records       History: one row for each job that came into a turn and each command that went out of it, in order of `id`.
//                 `seq` is the operation's number, `unit`, `name` and `n` its location, `value` the user's value (a result, an input, a
//                 payload), `data` what else there is. What belongs to the turn as a whole (history_length, worker, state) is in its
//                 first row. A `start` says nothing that its execution says already.
//   inbox         Messages that wait for their run's next turn (M1), in order of `id`.
//   message_keys  Idempotency keys of messages (M3), for the life of the run.
//   updates       Updates by id, and how they ended (M10). `accept_until` is how long one may wait to be accepted (M8), `forget_at` when
//                 the outcome of one without a key may go; the column of that name in `runs` is the earliest of these, or earlier.
//   attempts      Attempts of steps that were tried more than once, and of activities (D12).
//   tasks         Activities that are waiting or being carried out (D11). `due_at` is when the store has to look at one again: a lease, a
//                 timeout or a missed heartbeat.
//   lanes         The distinct (queue, workflow, version, priority) of runs, by number. A claim looks at the first run of each lane that
//                 it serves, so it costs the same however many runs sleep, or belong to workflows that no worker serves.
//   queues        One row per queue that has limits, a pause or work with a key (Q): the limits as they were set, and until when it is paused.
//                 Work with a key, and all work of a queue with limits, is *filed*: its lane is negative.
//   queue_pauses  Keys that are paused, and until when.
//   filed_lanes   Two kinds of rows. Without `place`: where filed work of one workflow (or activity) and version is that is not due, or that
//                 a worker has. With `place`: what is due there of one key and priority, and needs the same (bits: a slot of the queue, a slot
//                 of the key, room for a start, and that the rate of the queue counts it). `runs.lane` is the number, negated. Claims move what becomes due from the first to the
//                 second, take the lanes with the lowest `pass` first, and delete those that are empty. `key` is '=' and the key, or ''
//                 for work without one. So a claim costs the same for one key and for 100,000, and with any backlog behind a key.
//   queue_keys    The pass of each key that was served lately; `queue_times`: the pass at which each priority was served last. `share` is what
//                 the pass is for: claims or, where the queue has a rate, starts, whose time stands still while the rate has no room.
//   queue_starts  When work was started in queues with a rate, for as long as the longest window.
//   workers       Names of workers, by number.
//   live_workers  Workers that are alive, and what they serve, as JSON. `seen_at` is their last beat, `alive_for` how long that counts.
//   workflows     What the messages of each workflow look like, as the last worker that started has registered it, as JSON.
//   attributes    The attributes of runs once more, one row each, for lists: texts are bytes of UTF-8. What counts is the column of `runs`.

import { createHash } from "node:crypto";
import { StoreCorruptError, StoreForeignError, StoreSchemaError, StoreVersionError } from "../errors.ts";
import type { Library } from "./library.ts";

const VERSION_1 = `
CREATE TABLE holdfast_schema (version INTEGER NOT NULL, hash TEXT NOT NULL);

CREATE TABLE holdfast_runs (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  workflow TEXT NOT NULL,
  version TEXT,
  status TEXT NOT NULL,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL,
  work_key TEXT,
  schedule TEXT,
  tick INTEGER,
  forked_from TEXT,
  retention INTEGER,
  remove_at INTEGER,
  after_id TEXT,
  not_before INTEGER,
  first_start INTEGER,
  awaited INTEGER NOT NULL DEFAULT 0,
  has_next INTEGER NOT NULL DEFAULT 0,
  held INTEGER NOT NULL DEFAULT 0,
  under INTEGER NOT NULL DEFAULT 0,
  lane INTEGER NOT NULL,
  available_at INTEGER,
  worker_id TEXT,
  lease INTEGER,
  epoch INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  history_length INTEGER NOT NULL,
  last_message INTEGER NOT NULL,
  rollbacks INTEGER NOT NULL,
  recoveries INTEGER NOT NULL,
  recovered INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  deadline_at INTEGER,
  expired INTEGER NOT NULL,
  resumable INTEGER NOT NULL,
  waiting_for TEXT,
  attributes TEXT NOT NULL,
  retry TEXT,
  parent_id TEXT,
  parent_execution INTEGER,
  parent_seq INTEGER,
  parent_close TEXT,
  parent_announce INTEGER,
  forget_at INTEGER,
  blocked_code TEXT,
  error TEXT,
  output
);
CREATE INDEX holdfast_runs_to_claim ON holdfast_runs (lane, available_at) WHERE available_at IS NOT NULL;
CREATE INDEX holdfast_runs_claimed ON holdfast_runs (queue, work_key) WHERE lane < 0 AND worker_id IS NOT NULL;
CREATE INDEX holdfast_runs_held ON holdfast_runs (queue, work_key) WHERE held > 0;
CREATE INDEX holdfast_runs_by_creation ON holdfast_runs (created_at);
CREATE INDEX holdfast_runs_by_status ON holdfast_runs (status, created_at);
CREATE INDEX holdfast_runs_by_workflow ON holdfast_runs (workflow, created_at);
CREATE INDEX holdfast_runs_by_queue ON holdfast_runs (queue, created_at) WHERE queue <> 'default';
CREATE INDEX holdfast_runs_by_version ON holdfast_runs (version, created_at) WHERE version IS NOT NULL;
CREATE INDEX holdfast_runs_by_work_key ON holdfast_runs (work_key, created_at) WHERE work_key IS NOT NULL;
CREATE INDEX holdfast_runs_by_schedule ON holdfast_runs (schedule, created_at) WHERE schedule IS NOT NULL;
CREATE INDEX holdfast_runs_by_end ON holdfast_runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX holdfast_runs_to_remove ON holdfast_runs (remove_at) WHERE remove_at IS NOT NULL;
CREATE INDEX holdfast_runs_by_parent ON holdfast_runs (parent_id, finished_at) WHERE parent_id IS NOT NULL;
CREATE INDEX holdfast_runs_by_after ON holdfast_runs (after_id) WHERE after_id IS NOT NULL;
CREATE INDEX holdfast_runs_by_deadline ON holdfast_runs (deadline_at)
  WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND expired = 0;
CREATE INDEX holdfast_runs_queued ON holdfast_runs (schedule) WHERE schedule IS NOT NULL AND after_id IS NOT NULL AND finished_at IS NULL;

CREATE TABLE holdfast_schedules (
  id TEXT NOT NULL PRIMARY KEY,
  revision TEXT NOT NULL,
  spec TEXT NOT NULL,
  paused INTEGER NOT NULL,
  tick INTEGER,
  due_at INTEGER,
  last_tick INTEGER,
  last_run TEXT,
  missed INTEGER NOT NULL
);
CREATE INDEX holdfast_schedules_due ON holdfast_schedules (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE holdfast_start_keys (
  workflow TEXT NOT NULL,
  key TEXT NOT NULL,
  run INTEGER NOT NULL,
  PRIMARY KEY (workflow, key)
) WITHOUT ROWID;
CREATE INDEX holdfast_start_keys_by_run ON holdfast_start_keys (run);

CREATE TABLE holdfast_next_starts (run INTEGER PRIMARY KEY, start TEXT NOT NULL, first_at INTEGER NOT NULL, replacing INTEGER NOT NULL);

CREATE TABLE holdfast_executions (
  run INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  workflow TEXT NOT NULL,
  version TEXT,
  seed TEXT NOT NULL,
  input NOT NULL,
  PRIMARY KEY (run, execution)
) WITHOUT ROWID;

CREATE TABLE holdfast_states (run INTEGER PRIMARY KEY, state NOT NULL);

-- In order of arrival and not clustered by run: a commit for a hundred runs then touches ten pages instead of a hundred
-- (100 runs of 100 turns: 326 ms against 629 ms on node:sqlite, 1.5 s against 2.3 s on libsql).
CREATE TABLE holdfast_records (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  position INTEGER NOT NULL,
  direction TEXT NOT NULL,
  type TEXT NOT NULL,
  seq INTEGER,
  unit TEXT,
  name TEXT,
  n INTEGER,
  data TEXT,
  value,
  time INTEGER NOT NULL,
  history_length INTEGER,
  worker INTEGER,
  state
);
CREATE INDEX holdfast_records_by_run ON holdfast_records (run, execution, turn);

CREATE TABLE holdfast_inbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  type TEXT NOT NULL,
  seq INTEGER,
  name TEXT,
  data TEXT,
  value,
  received_at INTEGER NOT NULL
);
CREATE INDEX holdfast_inbox_by_run ON holdfast_inbox (run);

CREATE TABLE holdfast_message_keys (
  run INTEGER NOT NULL,
  key TEXT NOT NULL,
  inbox_id INTEGER NOT NULL,
  PRIMARY KEY (run, key)
) WITHOUT ROWID;

CREATE TABLE holdfast_updates (
  run INTEGER NOT NULL,
  id TEXT NOT NULL,
  inbox_id INTEGER NOT NULL,
  keyless INTEGER NOT NULL,
  accept_until INTEGER,
  forget_at INTEGER,
  status TEXT,
  value,
  error TEXT,
  PRIMARY KEY (run, id)
) WITHOUT ROWID;

CREATE INDEX holdfast_updates_to_forget ON holdfast_updates (run, forget_at) WHERE forget_at IS NOT NULL;

CREATE TABLE holdfast_attempts (
  run INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  number INTEGER NOT NULL,
  task INTEGER NOT NULL,
  status TEXT NOT NULL,
  worker_id TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  retry_at INTEGER,
  error TEXT,
  PRIMARY KEY (run, execution, seq, number)
) WITHOUT ROWID;

CREATE TABLE holdfast_tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  activity TEXT NOT NULL,
  queue TEXT NOT NULL,
  location TEXT NOT NULL,
  input NOT NULL,
  retry TEXT NOT NULL,
  start_to_close INTEGER,
  schedule_to_close INTEGER,
  schedule_to_start INTEGER,
  heartbeat INTEGER,
  scheduled_at INTEGER NOT NULL,
  available_at INTEGER,
  due_at INTEGER,
  attempt INTEGER NOT NULL,
  token INTEGER NOT NULL,
  worker_id TEXT,
  started_at INTEGER,
  leased_until INTEGER,
  lease INTEGER,
  heartbeat_at INTEGER,
  last_heartbeat,
  work_key TEXT,
  priority INTEGER NOT NULL DEFAULT 0,
  lane INTEGER
);
CREATE INDEX holdfast_tasks_to_claim ON holdfast_tasks (queue, activity, available_at) WHERE available_at IS NOT NULL AND lane IS NULL;
CREATE INDEX holdfast_tasks_filed ON holdfast_tasks (lane, available_at) WHERE lane IS NOT NULL AND available_at IS NOT NULL;
CREATE INDEX holdfast_tasks_claimed ON holdfast_tasks (queue, work_key) WHERE lane IS NOT NULL AND worker_id IS NOT NULL;
CREATE INDEX holdfast_tasks_by_due ON holdfast_tasks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX holdfast_tasks_by_run ON holdfast_tasks (run, seq);

CREATE TABLE holdfast_lanes (
  lane INTEGER PRIMARY KEY,
  queue TEXT NOT NULL,
  workflow TEXT NOT NULL,
  version TEXT,
  priority INTEGER NOT NULL
);
CREATE INDEX holdfast_lanes_by_queue ON holdfast_lanes (queue, workflow, version, priority);

CREATE TABLE holdfast_queues (queue TEXT PRIMARY KEY, spec TEXT, paused_until INTEGER) WITHOUT ROWID;

CREATE TABLE holdfast_queue_pauses (queue TEXT NOT NULL, key TEXT NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (queue, key)) WITHOUT ROWID;

-- With AUTOINCREMENT no number is used again: a row of a run may still name one that is gone.
CREATE TABLE holdfast_filed_lanes (
  lane INTEGER PRIMARY KEY AUTOINCREMENT,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  version TEXT,
  place INTEGER,
  priority INTEGER,
  needs INTEGER,
  key TEXT,
  pass REAL
);
CREATE INDEX holdfast_filed_lanes_places ON holdfast_filed_lanes (queue, kind) WHERE place IS NULL;
CREATE INDEX holdfast_filed_lanes_by_pass ON holdfast_filed_lanes (place, priority, needs, pass, lane) WHERE place IS NOT NULL;
CREATE INDEX holdfast_filed_lanes_by_key ON holdfast_filed_lanes (queue, kind, key, priority) WHERE place IS NOT NULL;

CREATE TABLE holdfast_queue_keys (
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  share TEXT NOT NULL,
  pass REAL NOT NULL,
  idle INTEGER NOT NULL,
  PRIMARY KEY (queue, kind, key, share)
);
CREATE INDEX holdfast_queue_keys_by_pass ON holdfast_queue_keys (queue, kind, share, pass);

CREATE TABLE holdfast_queue_times (
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  share TEXT NOT NULL,
  priority INTEGER NOT NULL,
  time REAL NOT NULL,
  PRIMARY KEY (queue, kind, share, priority)
) WITHOUT ROWID;

CREATE TABLE holdfast_queue_starts (queue TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL);
CREATE INDEX holdfast_queue_starts_by_time ON holdfast_queue_starts (queue, kind, at);
CREATE INDEX holdfast_queue_starts_by_key ON holdfast_queue_starts (queue, kind, key, at);

CREATE TABLE holdfast_workers (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);

CREATE TABLE holdfast_live_workers (
  id TEXT PRIMARY KEY,
  info TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  alive_for INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE holdfast_workflows (workflow TEXT NOT NULL, version TEXT, info TEXT NOT NULL);
CREATE INDEX holdfast_workflows_by_name ON holdfast_workflows (workflow, version);

-- Twice: by run, for changes and for tests of runs that another index has found; by value, for lists.
CREATE TABLE holdfast_attributes (
  run INTEGER NOT NULL,
  name NOT NULL,
  type TEXT NOT NULL,
  value NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE INDEX holdfast_attributes_by_value ON holdfast_attributes (name, type, value, created_at);
CREATE TRIGGER holdfast_attributes_of_deleted_runs AFTER DELETE ON holdfast_runs WHEN OLD.attributes <> '{}'
  BEGIN DELETE FROM holdfast_attributes WHERE run = OLD.key; END;

CREATE VIEW holdfast_overview AS
SELECT r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.execution, r.attempt, r.waiting_for,
  e.input, r.output, r.error, s.state, r.attributes, r.parent_id, r.worker_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1000.0, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.available_at / 1000.0, 'unixepoch') AS available,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.finished_at / 1000.0, 'unixepoch') AS finished
FROM holdfast_runs r
JOIN holdfast_executions e ON e.run = r.key AND e.execution = r.execution
LEFT JOIN holdfast_states s ON s.run = r.key;

CREATE VIEW holdfast_history AS
SELECT r.id AS run_id, h.execution, h.turn, strftime('%Y-%m-%dT%H:%M:%fZ', h.time / 1000.0, 'unixepoch') AS time,
  h.direction, h.type, h.seq, h.unit, h.name, h.n, h.value, h.data
FROM holdfast_records h JOIN holdfast_runs r ON r.key = h.run ORDER BY h.run, h.execution, h.turn, h.id;
`;

const MIGRATIONS: readonly string[] = [VERSION_1];
export const SCHEMA_VERSION = MIGRATIONS.length;

/** Of the text of all migrations up to a version: what was made by another text is another schema. */
export function schemaHash(version: number = SCHEMA_VERSION): string {
  return createHash("sha256").update(MIGRATIONS.slice(0, version).join("")).digest("hex");
}

/** Refuses files whose tables are not ours, or newer than we are. True if there is something to migrate. */
export function needsMigration(library: Library, where: string): boolean {
  // One read for all of it: between two, another process may migrate.
  library.exec("BEGIN");
  try {
    return findVersion(library, where) < SCHEMA_VERSION;
  } finally {
    endLook(library);
  }
}

/** Within a transaction that holds the write lock. */
export function migrate(library: Library, where: string): void {
  const from = findVersion(library, where);
  if (from === SCHEMA_VERSION) return;
  library.exec(migrationStatements(from));
}

/** What brings a file from a version (0: it has no tables of Holdfast) to the newest. */
export function migrationStatements(from: number): string {
  if (from >= SCHEMA_VERSION) return "";
  const version = `DELETE FROM holdfast_schema;\nINSERT INTO holdfast_schema (version, hash) VALUES (${SCHEMA_VERSION}, '${schemaHash()}');\n`;
  return `${MIGRATIONS.slice(from).join("\n")}\n${version}`;
}

/** A lock that is kept would block other processes that have the file open. */
function endLook(library: Library): void {
  try {
    library.exec("ROLLBACK");
  } catch {
    // SQLite has done it already, after some errors.
  }
}

/** 0: there are no tables of Holdfast. */
function findVersion(library: Library, where: string): number {
  const names = findNames(library);
  if (names.length === 0) return 0;
  const version = readVersion(library);
  if (version === undefined) throw notOurs(where, names);
  if (version > SCHEMA_VERSION) throw new StoreVersionError({ where, found: version, known: SCHEMA_VERSION });
  const [found, expected] = [readHash(library), schemaHash(version)];
  if (found !== expected) {
    const instead = "name another file; if nothing in this one is needed, delete it, with the -wal and -shm beside it";
    throw new StoreSchemaError({
      where,
      version,
      found: found?.slice(0, SHOWN_HASH) ?? "none",
      expected: expected.slice(0, SHOWN_HASH),
      instead,
    });
  }
  const missing = tablesOf(version).filter((table) => !names.includes(table));
  if (missing.length > 0) {
    const cause = new Error(`It has version ${version} of Holdfast's schema, but not ${missing.join(", ")}.`);
    throw new StoreCorruptError({ where, cause, isFile: true });
  }
  return version;
}

/** What begins with `holdfast_`: tables, indexes, views. Names in SQLite differ by more than case. */
function findNames(library: Library): string[] {
  const sql = "SELECT lower(name) FROM sqlite_master WHERE lower(substr(name, 1, 9)) = 'holdfast_' ORDER BY 1";
  return library
    .prepare(sql)
    .all([])
    .map(([name]) => String(name));
}

/** Undefined if there is none, or if the table of that name is another program's. */
function readVersion(library: Library): number | undefined {
  const columns = library.prepare("SELECT name FROM pragma_table_info('holdfast_schema')").all([]);
  if (!columns.some(([name]) => name === "version")) return undefined;
  const rows = library.prepare("SELECT version FROM holdfast_schema").all([]);
  const version = Number(rows[0]?.[0]);
  return rows.length === 1 && Number.isInteger(version) && version > 0 ? version : undefined;
}

/** Undefined: it was made before there were any. */
function readHash(library: Library): string | undefined {
  const columns = library.prepare("SELECT name FROM pragma_table_info('holdfast_schema')").all([]);
  if (!columns.some(([name]) => name === "hash")) return undefined;
  return String(library.prepare("SELECT hash FROM holdfast_schema").all([])[0]?.[0]);
}
/** In messages. */
const SHOWN_HASH = 12;

function tablesOf(version: number): string[] {
  const sql = MIGRATIONS.slice(0, version).join("");
  return Array.from(sql.matchAll(/CREATE TABLE (\w+)/g), ([, name = ""]) => name);
}

const MOST_NAMED = 3;

function notOurs(where: string, names: readonly string[]): StoreForeignError {
  const named = names.slice(0, MOST_NAMED).join(", ") + (names.length > MOST_NAMED ? ", …" : "");
  const reason = `names that begin with holdfast_ are taken by something else (${named}): holdfast_schema has no version.`;
  return new StoreForeignError({ where, reason });
}
