// The tables of a Holdfast database in SQLite, and how a file gets them.
// Owns: the schema, its version (`PRAGMA user_version`), the mark of our files (`PRAGMA application_id`).
// Invariants: a file of another program, or of a newer version, is left as it is; migrations are all or nothing.
//
// A map, for whoever opens the file with `sqlite3`. Times are milliseconds since 1970; values of users are JSON as the codec wrote it
// (bytes of a codec that encrypts are blobs). `holdfast_runs` and `holdfast_history` show the same with dates to read.
//
//   runs          One row a run: what it is, how it stands, who works on it. `key` is its number in the other tables.
//                 A run can be claimed when `available_at` has come; while a worker has it, `worker_id` says who and `available_at` when
//                 its lease ends; null means that only a message wakes it. `epoch` counts claims: a write that names an old one is
//                 refused (D4). `last_message` is the highest inbox id that it ever had, `rollbacks` how many steps would be undone.
//   executions    One row an execution of a run (P10): its input, version and random seed. They never change, and inputs can be large:
//                 in `runs` they would be copied with every turn.
//   states        The published state of a run (P5), for the same reason.
//   records       History: one row for each job that came into a turn and each command that went out of it, in order of `id`.
//                 `seq` is the operation's number, `unit`, `name` and `n` its location, `value` the user's value (a result, an input, a
//                 payload), `data` what else there is. What belongs to the turn as a whole (history_length, worker, state) is in its
//                 first row. A `start` says nothing that its execution says already.
//   inbox         Messages that wait for their run's next turn (M1), in order of `id`.
//   message_keys  Idempotency keys of messages (M3), for the life of the run.
//   updates       Updates by id, and how they ended (M10).
//   attempts      Attempts of steps that were tried more than once, and of activities (D12).
//   tasks         Activities that are waiting or being carried out (D11). `due_at` is when the store has to look at one again: a lease, a
//                 timeout or a missed heartbeat.
//   lanes         The distinct (queue, workflow, version, priority) of runs, by number. A claim looks at the first run of each lane that
//                 it serves, so it costs the same however many runs sleep, or belong to workflows that nobody serves.
//   workers       Names of workers, by number.

import { StoreForeignError, StoreVersionError } from "../errors.ts";
import type { Driver } from "./driver.ts";

/** "HFST". */
const APPLICATION_ID = 0x48465354;

const VERSION_1 = `
CREATE TABLE runs (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  workflow TEXT NOT NULL,
  version TEXT,
  status TEXT NOT NULL,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  available_at INTEGER,
  worker_id TEXT,
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
  idempotency_key TEXT,
  parent_id TEXT,
  parent_execution INTEGER,
  parent_seq INTEGER,
  parent_close TEXT,
  parent_announce INTEGER,
  blocked_code TEXT,
  error TEXT,
  output
);
CREATE INDEX runs_to_claim ON runs (lane, available_at) WHERE available_at IS NOT NULL;
CREATE INDEX runs_by_creation ON runs (created_at);
CREATE INDEX runs_by_status ON runs (status, created_at);
CREATE INDEX runs_by_workflow ON runs (workflow, created_at);
CREATE INDEX runs_by_parent ON runs (parent_id, finished_at) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_by_deadline ON runs (deadline_at) WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND expired = 0;
CREATE UNIQUE INDEX runs_by_idempotency_key ON runs (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE executions (
  run INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  workflow TEXT NOT NULL,
  version TEXT,
  seed TEXT NOT NULL,
  input NOT NULL,
  PRIMARY KEY (run, execution)
) WITHOUT ROWID;

CREATE TABLE states (run INTEGER PRIMARY KEY, state NOT NULL);

-- In order of arrival and not clustered by run: a commit for a hundred runs then touches ten pages instead of a hundred
-- (100 runs of 100 turns: 326 ms against 629 ms on node:sqlite, 1.5 s against 2.3 s on libsql).
CREATE TABLE records (
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
CREATE INDEX records_by_run ON records (run, execution, turn);

CREATE TABLE inbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  type TEXT NOT NULL,
  seq INTEGER,
  name TEXT,
  data TEXT,
  value,
  received_at INTEGER NOT NULL
);
CREATE INDEX inbox_by_run ON inbox (run);

CREATE TABLE message_keys (
  run INTEGER NOT NULL,
  key TEXT NOT NULL,
  inbox_id INTEGER NOT NULL,
  PRIMARY KEY (run, key)
) WITHOUT ROWID;

CREATE TABLE updates (
  run INTEGER NOT NULL,
  id TEXT NOT NULL,
  inbox_id INTEGER NOT NULL,
  status TEXT,
  value,
  error TEXT,
  PRIMARY KEY (run, id)
) WITHOUT ROWID;

CREATE TABLE attempts (
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

CREATE TABLE tasks (
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
  heartbeat_at INTEGER,
  last_heartbeat
);
CREATE INDEX tasks_to_claim ON tasks (queue, activity, available_at) WHERE available_at IS NOT NULL;
CREATE INDEX tasks_by_due ON tasks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_by_run ON tasks (run, seq);

CREATE TABLE lanes (
  lane INTEGER PRIMARY KEY,
  queue TEXT NOT NULL,
  workflow TEXT NOT NULL,
  version TEXT,
  priority INTEGER NOT NULL
);
CREATE INDEX lanes_by_queue ON lanes (queue, workflow, version, priority);

CREATE TABLE workers (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);

CREATE VIEW holdfast_runs AS
SELECT r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.execution, r.attempt, r.waiting_for, e.input, r.output, r.error, s.state,
  r.attributes, r.parent_id, r.worker_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1000.0, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.available_at / 1000.0, 'unixepoch') AS available,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.finished_at / 1000.0, 'unixepoch') AS finished
FROM runs r JOIN executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN states s ON s.run = r.key;

CREATE VIEW holdfast_history AS
SELECT r.id AS run_id, h.execution, h.turn, strftime('%Y-%m-%dT%H:%M:%fZ', h.time / 1000.0, 'unixepoch') AS time, h.direction, h.type, h.seq,
  h.unit, h.name, h.n, h.value, h.data
FROM records h JOIN runs r ON r.key = h.run ORDER BY h.run, h.execution, h.turn, h.id;
`;

const MIGRATIONS: readonly string[] = [VERSION_1];
export const SCHEMA_VERSION = MIGRATIONS.length;

/** Refuses files that are not ours, or newer than we are. True if there is something to migrate. */
export function needsMigration(driver: Driver, where: string): boolean {
  const number = (sql: string): number => Number(driver.prepare(sql).get([])?.[0] ?? 0);
  const application = number("PRAGMA application_id");
  const version = number("PRAGMA user_version");
  if (application === APPLICATION_ID) {
    if (version > SCHEMA_VERSION) throw new StoreVersionError({ where, found: version, known: SCHEMA_VERSION });
    return version < SCHEMA_VERSION;
  }
  if (application !== 0 || version !== 0) {
    throw new StoreForeignError({
      where,
      reason: `it belongs to another program (application_id ${application}, user_version ${version}).`,
    });
  }
  // Tables of the user's are welcome (D6: transactions write to them), unless they have the names of ours.
  const [taken] =
    driver.prepare("SELECT group_concat(name, ', ') FROM sqlite_master WHERE name IN ('runs', 'records', 'inbox', 'tasks')").get([]) ?? [];
  if (typeof taken === "string") throw new StoreForeignError({ where, reason: `it has tables of another program (${taken}).` });
  return true;
}

/** Within a transaction that holds the write lock. */
export function migrate(driver: Driver, where: string): void {
  if (!needsMigration(driver, where)) return;
  const from = Number(driver.prepare("PRAGMA user_version").get([])?.[0] ?? 0);
  for (const migration of MIGRATIONS.slice(from)) driver.exec(migration);
  driver.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}`);
}
