-- The tables of a Holdfast schema in PostgreSQL.
-- A turn that keeps its lease changes no indexed column of `runs`, so that its update stays on its page (HOT); what is
-- claimable, leased or due is in partial indexes that closed runs are not in. A vacuum gives no pages back (`vacuum_truncate`): that would
-- lock the table for a moment, and a plan that is made for a table of a few pages is a bad one when it has grown.
--
-- A map, for reading the database with `psql`. Times are milliseconds since 1970; values of users are JSON as the codec wrote it
-- (bytes of a codec that encrypts are in an envelope, `{"$payload":"base64",…}`). `run_details` and `history` show the same with dates.
--
--   runs          One row per run: what it is, its status, and the worker that has it. `key` is its number in the other tables.
--                 A run can be claimed when `available_at` has come; while a worker has it, `worker_id` names it and `available_at` is when
--                 its lease ends (`lease` is how long it was given for); null means that only a message wakes it. `epoch` counts claims: a write that names an old one is
--                 refused (D4). `last_message` is the highest inbox id that it ever had, `ended_as` the status of a closed one: a separate
--                 column, so that indexes have either open or closed runs. `parked_by` is the worker that had it last, and may have its history.
--                 Of the link to its parent, a run whose parent was removed has `parent_close` alone.
--                 `work_key` is the `key` of its start; `schedule` and `tick` what started it; `retention` how long its workflow keeps it
--                 once it has closed (-1: forever, null: as the engine says) and `remove_at` when it goes; `after_id` the run that it waits
--                 for (`not_before`: when it begins at the earliest, once that has closed), `awaited` that others wait for it; `has_next` that it has
--                 a next start (`first_start`: when the first of the starts was made that its execution has taken over; null: created_at); `held` that it holds a slot of a queue that counts open runs, `under` that it holds one of its key only. A negative
--                 `lane` says that it is filed: see queues.sql.
--   schedules     One row per schedule (T). `spec` is text that the engine reads: when it ticks, and what it starts. `tick` is the next tick that is
--                 neither started nor missed, `due_at` when it is to be started; both null while it is paused. `revision` changes whenever a
--                 caller changes it; `last_tick` and `last_run` are those of its last tick that has a run.
--   start_keys    Idempotency keys of starts, by workflow, and the run that each started (M3): several per run, for its life.
--   next_starts   What a run begins with once it has closed (Q9): the newest start as JSON, when the first was made that it has taken over, and
--                 whether the run was canceled for it. Messages that wait with it are in the inbox under -key.
--   executions    One row per execution of a run (P10): its input, version and random seed. They never change, and inputs can be large:
--                 in `runs` they would be copied with every turn.
--   states        The published state of a run (P5), for the same reason.
--   records       History: one row for each job that came into a turn and each command that went out of it.
--                 `seq` is the operation's number, `unit`, `name` and `n` its location, `refs` the messages that it is about, `value` the
--                 user's value (a result, an input, a payload), `data` what else there is. What belongs to the turn as a whole (time,
--                 history_length, worker, state) is in its first row. A `start` says nothing that its execution says already.
--   inbox         Messages that wait for their run's next turn (M1), in order of `id`.
--   mail          Messages that callers sent in their own transactions: they go into the inbox once those have committed.
--                 `error` says why one can't: it stays, and others go on. With null there it is tried again.
--   message_keys  Idempotency keys of messages (M3), for the life of the run.
--   updates       Updates by id, and how they ended (M10). `accept_until` is how long one may wait to be accepted (M8), `forget_at` when
--                 the outcome of one without a key may go.
--   attempts      Attempts of steps that were tried more than once, and of activities (D12).
--   tasks         Activities that are waiting or being carried out (D11). `due_at` is when the store has to look at one again: a lease, a
--                 timeout or a missed heartbeat.
--   lanes         The distinct (queue, workflow, version, priority) of runs, by number. A claim looks at the first runs of each lane that
--                 it serves, so it costs the same however many runs sleep, or belong to workflows that no worker serves.
--   queues        Queues with limits, a pause, or work that has a key (see queues.sql): what limits them (`limits` is all of it as JSON), and
--                 up to when they pause.
--   queue_limits  Limits and pauses of single keys. `name`, here and below, is '=' and the key; empty for work without a key.
--   queue_keys    How far each key with work has got (`pass`), by kind (runs, starts, tasks) and priority. Not `ready`: nothing of it is due, or
--                 nothing may begin before `wake_at`.
--   queue_times   The virtual time of each priority of a queue, and the key up to which the last claim has looked for work. That of
--                 starts stands still while a rate has no room.
--   queue_starts  When runs began and activities were tried, in queues with a rate.
--   queue_changes How often a queue became a managed one.
--   workers       Names of workers, by number.
--   live_workers  Workers that are alive, and what they serve, as JSON. `seen_at` is their last beat, `alive_for` how long that counts.
--   workflows     What the messages of each workflow look like, as the last worker that started has registered it, as JSON. `key` is its name and version.
--   attributes    The attributes of runs once more, one row each, for lists. What counts is the column of `runs`.
--   calls         The last call of each connection of each process: one that is repeated because its answer was lost is recognised.
--   instances     Processes that listen for notifications.
--   archive       Closed runs that retention has removed, one row each, if the store has `archive` on.
--   migrations    Versions of this schema, when they were made, and a hash of the text that made each.

CREATE SEQUENCE holdfast.run_keys;
CREATE SEQUENCE holdfast.inbox_ids;

CREATE TABLE holdfast.runs (
  key bigint PRIMARY KEY,
  available_at bigint,
  last_message bigint NOT NULL DEFAULT 0,
  created_at bigint NOT NULL,
  started_at bigint,
  finished_at bigint,
  deadline_at bigint,
  lease bigint,
  lane integer NOT NULL,
  priority integer NOT NULL,
  epoch integer NOT NULL DEFAULT 0,
  execution integer NOT NULL DEFAULT 1,
  attempt integer NOT NULL DEFAULT 1,
  turns integer NOT NULL DEFAULT 0,
  history_length integer NOT NULL DEFAULT 0,
  rollbacks integer NOT NULL DEFAULT 0,
  recoveries integer NOT NULL DEFAULT 0,
  parent_execution integer,
  parent_seq integer,
  parent_announce boolean,
  recovered boolean NOT NULL DEFAULT false,
  expired boolean NOT NULL DEFAULT false,
  resumable boolean NOT NULL DEFAULT false,
  status text COLLATE "C" NOT NULL,
  ended_as text COLLATE "C",
  id text COLLATE "C" NOT NULL,
  workflow text COLLATE "C" NOT NULL,
  version text COLLATE "C",
  queue text COLLATE "C" NOT NULL,
  worker_id text COLLATE "C",
  parked_by text COLLATE "C",
  awaited boolean NOT NULL DEFAULT false,
  has_next boolean NOT NULL DEFAULT false,
  held boolean NOT NULL DEFAULT false,
  under boolean NOT NULL DEFAULT false,
  tick bigint,
  retention bigint,
  remove_at bigint,
  not_before bigint,
  first_start bigint,
  work_key text COLLATE "C",
  schedule text COLLATE "C",
  forked_from text COLLATE "C",
  after_id text COLLATE "C",
  parent_id text COLLATE "C",
  parent_close text COLLATE "C",
  blocked_code text COLLATE "C",
  waiting_for text,
  attributes jsonb NOT NULL DEFAULT '{}',
  retry text,
  error text,
  output text
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05, vacuum_truncate = off);
CREATE UNIQUE INDEX runs_by_id ON holdfast.runs (id);
CREATE INDEX runs_to_claim ON holdfast.runs (lane, available_at, key) WHERE available_at IS NOT NULL;
CREATE INDEX runs_by_workflow ON holdfast.runs (workflow, created_at, key);
CREATE INDEX runs_by_end ON holdfast.runs (ended_as, created_at, key) WHERE ended_as IS NOT NULL;
-- Not by finished_at, which the children of a run are asked for: this one must never be taken for theirs. The status of an open run changes
-- when it is claimed or parked, which changes available_at, too: no update leaves its page for this index alone.
CREATE INDEX runs_open ON holdfast.runs (status, created_at, key) WHERE ended_as IS NULL;
CREATE INDEX runs_finished ON holdfast.runs (finished_at, key) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_to_remove ON holdfast.runs (remove_at, key) WHERE remove_at IS NOT NULL;
CREATE INDEX runs_blocked ON holdfast.runs (workflow) WHERE blocked_code IS NOT NULL;
CREATE INDEX runs_by_parent ON holdfast.runs (parent_id, finished_at) WHERE parent_id IS NOT NULL;
-- Most runs are in the default queue: they cost no entry.
CREATE INDEX runs_by_queue ON holdfast.runs (queue, created_at, key) WHERE queue <> 'default';
CREATE INDEX runs_by_version ON holdfast.runs (version, created_at, key) WHERE version IS NOT NULL;
CREATE INDEX runs_by_work_key ON holdfast.runs (work_key, created_at, key) WHERE work_key IS NOT NULL;
CREATE INDEX runs_by_schedule ON holdfast.runs (schedule, created_at, key) WHERE schedule IS NOT NULL;
CREATE INDEX runs_by_after ON holdfast.runs (after_id) WHERE after_id IS NOT NULL;
CREATE INDEX runs_by_deadline ON holdfast.runs (deadline_at) WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND NOT expired;

CREATE TABLE holdfast.schedules (
  id text COLLATE "C" PRIMARY KEY,
  revision text COLLATE "C" NOT NULL,
  spec text NOT NULL,
  paused boolean NOT NULL,
  tick bigint,
  due_at bigint,
  last_tick bigint,
  last_run text COLLATE "C",
  missed bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX schedules_due ON holdfast.schedules (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_queued ON holdfast.runs (schedule) WHERE schedule IS NOT NULL AND after_id IS NOT NULL AND finished_at IS NULL;
-- Of managed queues only (see queues.sql): what is due by key, what workers have, what is open and holds a slot.
CREATE INDEX runs_filed ON holdfast.runs (lane, work_key, (CASE WHEN started_at IS NULL THEN 1 ELSE 0 END), available_at, key) WHERE lane < 0 AND worker_id IS NULL AND available_at IS NOT NULL;
CREATE INDEX runs_leased ON holdfast.runs (queue, work_key, available_at) WHERE lane < 0 AND worker_id IS NOT NULL;
CREATE INDEX runs_held ON holdfast.runs (queue, work_key) WHERE held AND ended_as IS NULL;
CREATE INDEX runs_held_due ON holdfast.runs (queue, available_at) WHERE held AND ended_as IS NULL;

CREATE TABLE holdfast.start_keys (
  workflow text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  run bigint NOT NULL,
  PRIMARY KEY (workflow, key)
);
CREATE INDEX start_keys_by_run ON holdfast.start_keys (run);

CREATE TABLE holdfast.next_starts (run bigint PRIMARY KEY, start jsonb NOT NULL, first_at bigint NOT NULL, replacing boolean NOT NULL);

CREATE TABLE holdfast.executions (
  run bigint NOT NULL,
  execution integer NOT NULL,
  workflow text COLLATE "C" NOT NULL,
  version text COLLATE "C",
  seed text NOT NULL,
  input text NOT NULL,
  PRIMARY KEY (run, execution)
);

CREATE TABLE holdfast.states (run bigint PRIMARY KEY, state text NOT NULL) WITH (fillfactor = 70);

CREATE TABLE holdfast.records (
  run bigint NOT NULL,
  time bigint,
  execution integer NOT NULL,
  turn integer NOT NULL,
  position integer NOT NULL,
  seq integer,
  n integer,
  worker integer,
  history_length integer,
  direction text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  unit text COLLATE "C",
  name text COLLATE "C",
  refs text[] COLLATE "C",
  data text,
  value text,
  state text,
  PRIMARY KEY (run, execution, turn, position)
);

CREATE TABLE holdfast.inbox (
  run bigint NOT NULL,
  id bigint NOT NULL,
  received_at bigint NOT NULL,
  seq integer,
  type text COLLATE "C" NOT NULL,
  name text COLLATE "C",
  refs text[] COLLATE "C",
  data text,
  value text,
  PRIMARY KEY (run, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE holdfast.mail (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id text COLLATE "C" NOT NULL,
  posted_at bigint NOT NULL,
  message jsonb NOT NULL,
  error text
);
CREATE INDEX mail_to_deliver ON holdfast.mail (id) WHERE error IS NULL;
CREATE INDEX mail_of_run ON holdfast.mail (run_id) WHERE error IS NULL;

CREATE TABLE holdfast.message_keys (
  run bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  inbox_id bigint NOT NULL,
  PRIMARY KEY (run, key)
);

CREATE TABLE holdfast.updates (
  run bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  inbox_id bigint NOT NULL,
  accept_until bigint,
  forget_at bigint,
  keyless boolean NOT NULL DEFAULT false,
  status text COLLATE "C",
  value text,
  error text,
  PRIMARY KEY (run, id)
);
CREATE INDEX updates_to_forget ON holdfast.updates (run, forget_at) WHERE forget_at IS NOT NULL;
CREATE INDEX updates_open ON holdfast.updates (run) WHERE status IS NULL;

CREATE TABLE holdfast.attempts (
  run bigint NOT NULL,
  execution integer NOT NULL,
  seq integer NOT NULL,
  number integer NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint,
  retry_at bigint,
  task boolean NOT NULL,
  status text COLLATE "C" NOT NULL,
  worker_id text COLLATE "C" NOT NULL,
  error text,
  PRIMARY KEY (run, execution, seq, number)
);

CREATE TABLE holdfast.tasks (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run bigint NOT NULL,
  scheduled_at bigint NOT NULL,
  available_at bigint,
  due_at bigint,
  started_at bigint,
  leased_until bigint,
  lease bigint,
  heartbeat_at bigint,
  start_to_close bigint,
  schedule_to_close bigint,
  schedule_to_start bigint,
  heartbeat bigint,
  execution integer NOT NULL,
  seq integer NOT NULL,
  attempt integer NOT NULL DEFAULT 0,
  token integer NOT NULL DEFAULT 0,
  lane integer,
  priority integer NOT NULL DEFAULT 0,
  max_attempts double precision NOT NULL,
  initial_interval double precision NOT NULL,
  backoff double precision NOT NULL,
  max_interval double precision NOT NULL,
  jitter double precision NOT NULL,
  activity text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  work_key text COLLATE "C",
  worker_id text COLLATE "C",
  location text NOT NULL,
  retry text NOT NULL,
  input text NOT NULL,
  last_heartbeat text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX tasks_to_claim ON holdfast.tasks (queue, activity, available_at, id) WHERE available_at IS NOT NULL AND lane IS NULL;
CREATE INDEX tasks_filed ON holdfast.tasks (lane, work_key, available_at, id) WHERE lane < 0 AND worker_id IS NULL AND available_at IS NOT NULL;
CREATE INDEX tasks_filed_by_time ON holdfast.tasks (lane, available_at, id) WHERE lane < 0 AND worker_id IS NULL AND available_at IS NOT NULL;
CREATE INDEX tasks_leased ON holdfast.tasks (queue, work_key) WHERE lane < 0 AND worker_id IS NOT NULL;
CREATE INDEX tasks_by_due ON holdfast.tasks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_by_run ON holdfast.tasks (run, seq);

CREATE TABLE holdfast.lanes (
  lane integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue text COLLATE "C" NOT NULL,
  workflow text COLLATE "C" NOT NULL,
  version text COLLATE "C",
  priority integer NOT NULL
);
CREATE INDEX lanes_by_queue ON holdfast.lanes (queue);
-- By 128 bits of hash: together the texts may be longer than an index takes, 2,704 bytes.
CREATE UNIQUE INDEX lanes_by_name ON holdfast.lanes ((hashtextextended(length(queue)::text || ',' || length(workflow)::text || ',' || queue || workflow || coalesce('=' || version, ''), 0)), (hashtextextended(length(queue)::text || ',' || length(workflow)::text || ',' || queue || workflow || coalesce('=' || version, ''), 1)), priority);

CREATE SEQUENCE holdfast.queue_changes;
SELECT setval('holdfast.queue_changes', 1);

CREATE TABLE holdfast.queues (
  name text COLLATE "C" PRIMARY KEY,
  paused_until bigint,
  rate_per bigint,
  key_rate_per bigint,
  longest_per bigint,
  concurrency integer,
  rate_limit integer,
  key_concurrency integer,
  key_rate_limit integer,
  counts_open boolean NOT NULL DEFAULT false,
  has_keys boolean NOT NULL DEFAULT false,
  keyed_runs boolean NOT NULL DEFAULT false,
  keyed_tasks boolean NOT NULL DEFAULT false,
  paused boolean NOT NULL DEFAULT false,
  limits text
) WITH (fillfactor = 20, vacuum_truncate = off);

CREATE TABLE holdfast.queue_limits (
  queue text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  weight double precision,
  rate_per bigint,
  paused_until bigint,
  concurrency integer,
  rate_limit integer,
  paused boolean NOT NULL DEFAULT false,
  PRIMARY KEY (queue, name)
);

CREATE TABLE holdfast.queue_keys (
  queue text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  priority integer NOT NULL,
  ready boolean NOT NULL,
  pass double precision NOT NULL,
  wake_at bigint,
  PRIMARY KEY (queue, kind, name, priority)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX queue_keys_ready ON holdfast.queue_keys (queue, kind, priority, pass, name) WHERE ready;
CREATE INDEX queue_keys_idle ON holdfast.queue_keys (queue, kind, priority, pass) WHERE NOT ready AND wake_at IS NULL;
CREATE INDEX queue_keys_to_wake ON holdfast.queue_keys (queue, kind, wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE holdfast.queue_times (
  queue text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  priority integer NOT NULL,
  pass double precision NOT NULL,
  walked text COLLATE "C" NOT NULL,
  PRIMARY KEY (queue, kind, priority)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);

CREATE TABLE holdfast.queue_starts (
  queue text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  at bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX queue_starts_by_time ON holdfast.queue_starts (queue, kind, at);
CREATE INDEX queue_starts_by_name ON holdfast.queue_starts (queue, kind, name, at);

CREATE TABLE holdfast.workers (key integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE);

CREATE TABLE holdfast.live_workers (
  id text COLLATE "C" PRIMARY KEY,
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL,
  alive_for bigint NOT NULL,
  info text NOT NULL
) WITH (fillfactor = 30);

CREATE TABLE holdfast.workflows (
  key text COLLATE "C" PRIMARY KEY,
  workflow text COLLATE "C" NOT NULL,
  version text COLLATE "C",
  info text NOT NULL
);

CREATE TABLE holdfast.calls (
  instance text COLLATE "C" NOT NULL,
  slot integer NOT NULL,
  token bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  answer text,
  PRIMARY KEY (instance, slot)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.1);

CREATE TABLE holdfast.instances (id text COLLATE "C" PRIMARY KEY, seen_at timestamptz NOT NULL DEFAULT now());

CREATE TABLE holdfast.archive (
  run_id text COLLATE "C" NOT NULL,
  workflow text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  created timestamptz NOT NULL,
  finished timestamptz NOT NULL,
  archived timestamptz NOT NULL DEFAULT now(),
  run json NOT NULL,
  history json NOT NULL
);
CREATE INDEX archive_by_run ON holdfast.archive (run_id);

CREATE VIEW holdfast.run_details AS
SELECT r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.execution, r.attempt, CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END AS turns, r.waiting_for, e.input, r.output, r.error,
  s.state, r.attributes, r.parent_id, r.worker_id, r.epoch,
  to_timestamp(r.created_at / 1000.0) AS created,
  to_timestamp(r.started_at / 1000.0) AS started,
  to_timestamp(r.available_at / 1000.0) AS available,
  to_timestamp(r.deadline_at / 1000.0) AS deadline,
  to_timestamp(r.finished_at / 1000.0) AS finished
FROM holdfast.runs r JOIN holdfast.executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN holdfast.states s ON s.run = r.key;

CREATE VIEW holdfast.history AS
SELECT r.id AS run_id, h.execution, h.turn, h.position, to_timestamp(h.time / 1000.0) AS time, h.direction, h.type, h.seq, h.unit, h.name, h.n,
  h.refs, h.value, h.data, w.id AS worker
FROM holdfast.records h JOIN holdfast.runs r ON r.key = h.run LEFT JOIN holdfast.workers w ON w.key = h.worker;
