// Written by `npm run sql` from 001/*.sql: change those.

export const VERSION_1 = `-- The tables of a Holdfast schema in PostgreSQL.
-- A turn that keeps its lease changes no indexed column of \`runs\`, so that its update stays on its page (HOT); what is
-- claimable, leased or due is in partial indexes that closed runs are not in. A vacuum gives no pages back (\`vacuum_truncate\`): that would
-- lock the table for a moment, and a plan that is made for a table of a few pages is a bad one when it has grown.
--
-- A map, for reading the database with \`psql\`. Times are milliseconds since 1970; values of users are JSON as the codec wrote it
-- (bytes of a codec that encrypts are in an envelope, \`{"$payload":"base64",…}\`). \`run_details\` and \`history\` show the same with dates.
--
--   runs          One row per run: what it is, its status, and the worker that has it. \`key\` is its number in the other tables.
--                 A run can be claimed when \`available_at\` has come; while a worker has it, \`worker_id\` names it and \`available_at\` is when
--                 its lease ends (\`lease\` is how long it was given for); null means that only a message wakes it. \`epoch\` counts claims: a write that names an old one is
--                 refused (D4). \`last_message\` is the highest inbox id that it ever had, \`ended_as\` the status of a closed one: a separate
--                 column, so that indexes have either open or closed runs. \`parked_by\` is the worker that had it last, and may have its history.
--                 Of the link to its parent, a run whose parent was removed has \`parent_close\` alone.
--                 \`work_key\` is the \`key\` of its start; \`schedule\` and \`tick\` what started it; \`retention\` how long its workflow keeps it
--                 once it has closed (-1: forever, null: as the engine says) and \`remove_at\` when it goes; \`after_id\` the run that it waits
--                 for (\`not_before\`: when it begins at the earliest, once that has closed), \`awaited\` that others wait for it; \`has_next\` that it has
--                 a next start (\`first_start\`: when the first of the starts was made that its execution has taken over; null: created_at); \`held\` that it holds a slot of a queue that counts open runs, \`under\` that it holds one of its key only. A negative
--                 \`lane\` says that it is filed: see queues.sql.
--   schedules     One row per schedule (T). \`spec\` is text that the engine reads: when it ticks, and what it starts. \`tick\` is the next tick that is
--                 neither started nor missed, \`due_at\` when it is to be started; both null while it is paused. \`revision\` changes whenever a
--                 caller changes it; \`last_tick\` and \`last_run\` are those of its last tick that has a run.
--   start_keys    Idempotency keys of starts, by workflow, and the run that each started (M3): several per run, for its life.
--   next_starts   What a run begins with once it has closed (Q9): the newest start as JSON, when the first was made that it has taken over, and
--                 whether the run was canceled for it. Messages that wait with it are in the inbox under -key.
--   executions    One row per execution of a run (P10): its input, version and random seed. They never change, and inputs can be large:
--                 in \`runs\` they would be copied with every turn.
--   states        The published state of a run (P5), for the same reason.
--   records       History: one row for each job that came into a turn and each command that went out of it.
--                 \`seq\` is the operation's number, \`unit\`, \`name\` and \`n\` its location, \`refs\` the messages that it is about, \`value\` the
--                 user's value (a result, an input, a payload), \`data\` what else there is. What belongs to the turn as a whole (time,
--                 history_length, worker, state) is in its first row. A \`start\` says nothing that its execution says already.
--   inbox         Messages that wait for their run's next turn (M1), in order of \`id\`.
--   mail          Messages that callers sent in their own transactions: they go into the inbox once those have committed.
--                 \`error\` says why one can't: it stays, and others go on. With null there it is tried again.
--   message_keys  Idempotency keys of messages (M3), for the life of the run.
--   updates       Updates by id, and how they ended (M10). \`accept_until\` is how long one may wait to be accepted (M8), \`forget_at\` when
--                 the outcome of one without a key may go.
--   attempts      Attempts of steps that were tried more than once, and of activities (D12).
--   tasks         Activities that are waiting or being carried out (D11). \`due_at\` is when the store has to look at one again: a lease, a
--                 timeout or a missed heartbeat.
--   lanes         The distinct (queue, workflow, version, priority) of runs, by number. A claim looks at the first runs of each lane that
--                 it serves, so it costs the same however many runs sleep, or belong to workflows that no worker serves.
--   queues        Queues with limits, a pause, or work that has a key (see queues.sql): what limits them (\`limits\` is all of it as JSON), and
--                 up to when they pause.
--   queue_limits  Limits and pauses of single keys. \`name\`, here and below, is '=' and the key; empty for work without a key.
--   queue_keys    How far each key with work has got (\`pass\`), by kind (runs, starts, tasks) and priority. Not \`ready\`: nothing of it is due, or
--                 nothing may begin before \`wake_at\`.
--   queue_times   The virtual time of each priority of a queue, and the key up to which the last claim has looked for work. That of
--                 starts stands still while a rate has no room.
--   queue_starts  When runs began and activities were tried, in queues with a rate.
--   queue_changes How often a queue became a managed one.
--   workers       Names of workers, by number.
--   live_workers  Workers that are alive, and what they serve, as JSON. \`seen_at\` is their last beat, \`alive_for\` how long that counts.
--   workflows     What the messages of each workflow look like, as the last worker that started has registered it, as JSON. \`key\` is its name and version.
--   attributes    The attributes of runs once more, one row each, for lists. What counts is the column of \`runs\`.
--   calls         The last call of each connection of each process: one that is repeated because its answer was lost is recognised.
--   instances     Processes that listen for notifications.
--   archive       Closed runs that retention has removed, one row each, if the store has \`archive\` on.
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

-- The attributes of runs as rows, by which lists find them (B1): triggers keep them as the column \`attributes\` of \`runs\` is, whatever
-- writes it. A plain run has none, and costs a comparison.

CREATE TABLE holdfast.attributes (
  run bigint NOT NULL,
  created_at bigint NOT NULL,
  number double precision,
  name text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  string text COLLATE "C"
);
CREATE INDEX attributes_by_run ON holdfast.attributes (run);
CREATE INDEX attributes_by_string ON holdfast.attributes (name, string, created_at, run) WHERE string IS NOT NULL;
CREATE INDEX attributes_by_number ON holdfast.attributes (name, type, number, created_at, run) WHERE number IS NOT NULL;

-- A text in the order of code points. What no column can hold is written as U+001A and four digits (see columns.ts), in another order: here
-- NUL is two U+0001, and half of a surrogate pair is U+D7FF and its digits. These two are followed by U+0002 and by a minus.
CREATE FUNCTION holdfast.ordered_text_1(p_text text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN strpos(p_text, chr(1)) + strpos(p_text, chr(26)) + strpos(p_text, chr(55295)) = 0 THEN p_text
    ELSE replace(replace(replace(replace(replace(p_text, chr(1), chr(1) || chr(2)), chr(55295), chr(55295) || '-'),
      chr(26) || '0000', chr(1) || chr(1)), chr(26) || 'd', chr(55295) || 'd'), chr(26) || '001a', chr(26)) END
$$;

-- Texts are cut, since an index takes no more than 2,704 bytes: what a list finds by such a text is compared with the run.
CREATE FUNCTION holdfast.index_attributes_1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN DELETE FROM holdfast.attributes WHERE run = OLD.key; END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO holdfast.attributes (run, created_at, name, type, string, number)
      SELECT NEW.key, NEW.created_at, left(holdfast.ordered_text_1(e.key), 128), jsonb_typeof(e.value),
        CASE WHEN jsonb_typeof(e.value) = 'string' THEN left(holdfast.ordered_text_1(e.value #>> '{}'), 512) END,
        CASE jsonb_typeof(e.value) WHEN 'number' THEN (e.value #>> '{}')::double precision WHEN 'boolean' THEN (e.value #>> '{}')::boolean::integer END
      FROM jsonb_each(CASE WHEN jsonb_typeof(NEW.attributes) = 'object' THEN NEW.attributes ELSE '{}' END) e
      WHERE jsonb_typeof(e.value) IN ('string', 'number', 'boolean');
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER attributes_of_new_runs AFTER INSERT ON holdfast.runs FOR EACH ROW WHEN (NEW.attributes <> '{}') EXECUTE FUNCTION holdfast.index_attributes_1();
CREATE TRIGGER attributes_that_change AFTER UPDATE OF attributes ON holdfast.runs FOR EACH ROW WHEN (OLD.attributes <> NEW.attributes) EXECUTE FUNCTION holdfast.index_attributes_1();
CREATE TRIGGER attributes_of_deleted_runs AFTER DELETE ON holdfast.runs FOR EACH ROW WHEN (OLD.attributes <> '{}') EXECUTE FUNCTION holdfast.index_attributes_1();

-- The clock, and calls that are carried out once. Each call has a name: process, slot, and a number (token) that grows. \`calls\` keeps the
-- last one of each slot with its answer, so that a call whose answer was lost can be repeated.

-- The store's time: the server's, unless a test has its own clock.
CREATE FUNCTION holdfast.clock_1(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(p_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- Null: go on. Otherwise this call was carried out before: its answer. Waits for the first of the two to end. Tokens grow: a copy that
-- comes late, after its slot was used again, is refused.
CREATE FUNCTION holdfast.begin_call_1(p_instance text, p_slot integer, p_token bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_token bigint;
  v_answer text;
BEGIN
  IF p_slot IS NULL THEN RETURN NULL; END IF;
  -- Almost always the slot exists: an update costs half of an upsert.
  UPDATE holdfast.calls SET token = p_token, answer = NULL, at = now() WHERE instance = p_instance AND slot = p_slot AND token < p_token;
  IF FOUND THEN RETURN NULL; END IF;
  INSERT INTO holdfast.calls AS c (instance, slot, token) VALUES (p_instance, p_slot, p_token)
    ON CONFLICT (instance, slot) DO UPDATE SET token = excluded.token, answer = NULL, at = now() WHERE c.token < excluded.token;
  IF FOUND THEN RETURN NULL; END IF;
  SELECT token, answer INTO v_token, v_answer FROM holdfast.calls WHERE instance = p_instance AND slot = p_slot;
  IF v_token <> p_token THEN RAISE EXCEPTION 'call-superseded' USING ERRCODE = 'HF001'; END IF;
  RETURN coalesce(v_answer, '{}');
END $$;

-- The fate of a call, once none of its copies is being carried out. Its answer, if it was carried out. Null: it was not, and never will be,
-- however late a copy comes: its token is used up. The same answer if it is called twice.
CREATE FUNCTION holdfast.give_up_call_1(p_instance text, p_slot integer, p_token bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
BEGIN
  IF v_answer IS NOT NULL THEN RETURN nullif(v_answer, 'given up'); END IF;
  UPDATE holdfast.calls SET answer = 'given up' WHERE instance = p_instance AND slot = p_slot;
  RETURN NULL;
END $$;

CREATE FUNCTION holdfast.end_call_1(p_instance text, p_slot integer, p_answer text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF p_slot IS NOT NULL AND p_answer <> '{}' THEN
    UPDATE holdfast.calls SET answer = p_answer WHERE instance = p_instance AND slot = p_slot;
  END IF;
  RETURN p_answer;
END $$;

-- Errors as stored text. SQL knows kinds and details; the texts are in TypeScript (sql/errorTexts.ts), which installs
-- error_text_1 with the migration: for each kind a text with %RUN% and %DETAIL% in it.

-- An error, encoded: what it is about goes into its JSON.
CREATE FUNCTION holdfast.error_1(p_kind text, p_run text, p_detail text DEFAULT '') RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT replace(replace(holdfast.error_text_1(p_kind), '%RUN%', substr(to_json(p_run)::text, 2, length(to_json(p_run)::text) - 2)),
    '%DETAIL%', substr(to_json(p_detail)::text, 2, length(to_json(p_detail)::text) - 2))
$$;

-- A reason, as plain text.
CREATE FUNCTION holdfast.reason_1(p_kind text, p_run text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT replace(holdfast.error_text_1(p_kind), '%RUN%', p_run)
$$;

-- With the reason of a cancel, if it has one. Taken from its data as text: it may have escapes that the server would not read.
CREATE FUNCTION holdfast.canceled_error_1(p_message jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT replace(holdfast.error_text_1('canceled'), '%DETAIL%', substring(p_message ->> 'd' from '^[{]"reason" ?: ?"(.*)"[}]$'))
$$;

-- Locks on runs. Every function locks the runs that it writes to first, in order of id, FOR NO KEY UPDATE: two calls can't wait for each
-- other in a circle. A row that was not locked so is locked with NOWAIT or SKIP LOCKED.

-- Locks runs in order of id: those named, and for those that may end all that their end may reach: open descendants, parents, and runs that
-- wait for one of these (Q10), or that one of these waits for with its next start (Q9).
CREATE FUNCTION holdfast.lock_runs_1(p_ids text[], p_ending text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ids text[];
BEGIN
  WITH RECURSIVE ending AS (
    SELECT r.key, r.id, r.parent_id, r.awaited, r.has_next FROM holdfast.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT c.key, c.id, c.parent_id, c.awaited, c.has_next FROM ending e CROSS JOIN LATERAL (
      SELECT x.key, x.id, x.parent_id, x.awaited, x.has_next FROM holdfast.runs x WHERE x.parent_id = e.id AND x.finished_at IS NULL OFFSET 0) c
  ), reached AS (
    SELECT e.id FROM ending e
    UNION
    SELECT e.parent_id FROM ending e WHERE e.parent_id IS NOT NULL
    UNION
    SELECT w.id FROM ending e CROSS JOIN LATERAL (SELECT x.id FROM holdfast.runs x WHERE x.after_id = e.id OFFSET 0) w WHERE e.awaited
    UNION
    SELECT n.id FROM ending e CROSS JOIN LATERAL (SELECT x.start #>> '{origin,after}' AS id FROM holdfast.next_starts x WHERE x.run = e.key OFFSET 0) n
      WHERE e.has_next AND n.id IS NOT NULL
  )
  SELECT p_ids || array_agg(r.id) INTO v_ids FROM reached r;
  PERFORM 1 FROM holdfast.runs WHERE id = ANY (v_ids) ORDER BY id FOR NO KEY UPDATE;
END $$;

-- Locks those of these runs that come free within moments, in order of id. Returns which. One that stays locked, by a person at a console or
-- a transaction that is still open, delays those after it by a tenth of a second, and three of them by no more than that.
CREATE FUNCTION holdfast.lock_soon_1(p_keys bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_until timestamptz := clock_timestamp() + interval '300 milliseconds';
  v_before text := current_setting('lock_timeout');
  v_free bigint[] := '{}';
  v_key bigint;
BEGIN
  FOREACH v_key IN ARRAY ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (p_keys) ORDER BY id) LOOP
    PERFORM set_config('lock_timeout', CASE WHEN clock_timestamp() < v_until THEN '100ms' ELSE '1ms' END, true);
    BEGIN
      PERFORM 1 FROM holdfast.runs WHERE key = v_key FOR NO KEY UPDATE;
      v_free := v_free || v_key;
    EXCEPTION WHEN lock_not_available THEN NULL;
    END;
  END LOOP;
  PERFORM set_config('lock_timeout', v_before, true);
  RETURN v_free;
END $$;

-- Locks runs that no other transaction has locked, with p_wait also those that come free within moments; those of p_ending with all that their end
-- may reach. Returns which are locked now: a run can't end if another transaction has locked what its end may reach.
CREATE FUNCTION holdfast.lock_free_1(p_ids text[], p_ending text[], p_wait boolean) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_runs bigint[];
  v_members bigint[];
  v_free bigint[];
BEGIN
  WITH RECURSIVE family AS (
    SELECT r.key AS run, r.key, r.id, r.parent_id, r.awaited, r.has_next FROM holdfast.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT f.run, c.key, c.id, c.parent_id, c.awaited, c.has_next FROM family f CROSS JOIN LATERAL (
      SELECT x.key, x.id, x.parent_id, x.awaited, x.has_next FROM holdfast.runs x WHERE x.parent_id = f.id AND x.finished_at IS NULL OFFSET 0) c
  ), members AS (
    SELECT r.key AS run, r.key FROM holdfast.runs r WHERE r.id = ANY (p_ids)
    UNION
    SELECT run, key FROM family
    UNION
    SELECT f.run, p.key FROM family f CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = f.parent_id OFFSET 0) p
    UNION
    SELECT f.run, w.key FROM family f CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.after_id = f.id OFFSET 0) w WHERE f.awaited
    UNION
    SELECT f.run, n.key FROM family f CROSS JOIN LATERAL (SELECT o.key FROM holdfast.next_starts x JOIN holdfast.runs o ON o.id = x.start #>> '{origin,after}'
      WHERE x.run = f.key OFFSET 0) n WHERE f.has_next
  )
  SELECT array_agg(m.run), array_agg(m.key) INTO v_runs, v_members FROM members m;
  IF p_wait THEN v_free := holdfast.lock_soon_1(v_members);
  ELSE v_free := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_members) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  RETURN ARRAY (SELECT m.run FROM unnest(v_runs, v_members) AS m(run, key) GROUP BY m.run HAVING bool_and(m.key = ANY (v_free)));
END $$;

-- The usual turn of a worker that goes on writes records and no new version of the run's row. What the row counts (\`turns\`,
-- \`history_length\`) is true up to turn \`turns\`; the records from there on are the rest. A statement that ends a lease, or changes the row
-- anyway, brings both counts up to date: only a run that a worker has can be behind.

CREATE FUNCTION holdfast.count_turns_1(p_run bigint) RETURNS void LANGUAGE sql AS $$
  UPDATE holdfast.runs r SET turns = coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns), history_length = r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn')
    WHERE r.key = p_run AND r.worker_id IS NOT NULL AND EXISTS (SELECT 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns)
$$;

-- Messages into inboxes: M1 M3 M10 (once for each key, in order), D9 (a message makes a parked run available), K9. A message whose run is
-- locked by another transaction is left for later: others do not wait for it.

-- Into the inbox of an open run, key or no key. A run that is parked becomes available now; one that has not begun keeps its start, one
-- that is leased its lease. The run is locked.
CREATE FUNCTION holdfast.put_1(p_run bigint, p_message jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint := nextval('holdfast.inbox_ids');
BEGIN
  INSERT INTO holdfast.inbox (run, id, received_at, type, seq, name, refs, data, value)
    SELECT p_run, v_id, p_now, m.y, m.q, m.m, m.f, CASE WHEN m.aw IS NULL THEN m.d ELSE json_build_object('acceptUntil', p_now + m.aw)::text END, m.v
      FROM jsonb_to_record(p_message) AS m(y text, q integer, m text, f text[], d text, v text, aw bigint);
  UPDATE holdfast.runs SET last_message = v_id,
      available_at = CASE WHEN worker_id IS NULL AND status NOT IN ('pending', 'blocked') THEN least(available_at, p_now) ELSE available_at END
    WHERE key = p_run;
  RETURN v_id;
END $$;

-- The answer to an operation, if it still is one of the run's: closed runs and later executions did not ask.
CREATE FUNCTION holdfast.answer_1(p_run text, p_execution integer, p_message jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_key bigint;
BEGIN
  SELECT key INTO v_key FROM holdfast.runs WHERE id = p_run AND finished_at IS NULL AND execution = p_execution FOR NO KEY UPDATE NOWAIT;
  IF FOUND THEN PERFORM holdfast.put_1(v_key, p_message, p_now); END IF;
END $$;

-- From a message for a run id to the inbox, once. A message has: y type, q seq, m name, f refs, d data, v value; k idempotency key,
-- u id of the update, kl that its sender gave no key, aw how long it may wait to be accepted, wf the workflow that the run has to be of (M3). Answers with s status and either i inbox id, r status of the run or
-- w its workflow.
CREATE FUNCTION holdfast.deliver_1(p_run text, p_message jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_known bigint;
  v_update text := p_message ->> 'u';
  v_key text := p_message ->> 'k';
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE id = p_run FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN '{"s":"not-found"}'; END IF;
  IF v_run.workflow <> p_message ->> 'wf' THEN RETURN jsonb_build_object('s', 'other-workflow', 'w', v_run.workflow); END IF;
  IF p_message ->> 'y' = 'cancel' AND v_run.status = 'canceled' THEN RETURN '{"s":"duplicate","i":0}'; END IF;
  IF v_update IS NOT NULL THEN SELECT inbox_id INTO v_known FROM holdfast.updates WHERE run = v_run.key AND id = v_update;
  ELSIF v_key IS NOT NULL THEN SELECT inbox_id INTO v_known FROM holdfast.message_keys WHERE run = v_run.key AND key = v_key;
  END IF;
  IF v_known IS NOT NULL THEN RETURN jsonb_build_object('s', 'duplicate', 'i', v_known); END IF;
  IF v_run.finished_at IS NOT NULL THEN RETURN jsonb_build_object('s', 'closed', 'r', v_run.status); END IF;
  -- Q9: a caller that cancels the run wants nothing to follow.
  IF p_message ->> 'y' = 'cancel' AND v_run.has_next THEN PERFORM holdfast.drop_next_1(v_run.key, v_run.id, 'canceled'); END IF;
  IF p_message ->> 'y' = 'cancel' THEN v_known := holdfast.cancel_run_1(v_run.key, p_message, p_now);
  ELSE v_known := holdfast.put_1(v_run.key, p_message, p_now);
  END IF;
  IF v_update IS NOT NULL THEN INSERT INTO holdfast.updates (run, id, inbox_id, keyless, accept_until)
      VALUES (v_run.key, v_update, v_known, coalesce((p_message ->> 'kl')::boolean, false), p_now + (p_message ->> 'aw')::bigint);
  ELSIF v_key IS NOT NULL THEN INSERT INTO holdfast.message_keys (run, key, inbox_id) VALUES (v_run.key, v_key, v_known);
  END IF;
  RETURN jsonb_build_object('s', 'sent', 'i', v_known);
END $$;

-- Signals and cancellations, each for another run that is open and one of p_free, in a few statements; cancellations only of runs whose end
-- reaches no other run. One that has not begun ends. Answers in their places with the inbox id of each that was sent; null: it was not.
CREATE FUNCTION holdfast.send_together_1(p_messages jsonb, p_free bigint[], p_now bigint) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_sent bigint[];
  v_keys bigint[];
  v_inbox_ids bigint[];
  v_ended bigint[];
  v_errors text[];
BEGIN
  WITH items AS MATERIALIZED (
    SELECT t.*, count(*) OVER (PARTITION BY t.r) AS n FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (r text, y text, q integer, m text, f text[], d text,
      v text, k text, u text, wf text, aw bigint)) WITH ORDINALITY AS t(r, y, q, m, f, d, v, k, u, wf, aw, i)
  ), found AS MATERIALIZED (
    SELECT o.*, CASE o.how WHEN 'put' THEN nextval('holdfast.inbox_ids') WHEN 'end' THEN 0 END AS inbox_id FROM (
      SELECT t.*, r.key, CASE WHEN r.is_alone THEN CASE WHEN t.y = 'signal' OR r.is_begun THEN 'put' ELSE 'end' END END AS how
      FROM items t LEFT JOIN LATERAL (
        SELECT x.key, x.turns > 0 OR x.worker_id IS NOT NULL AS is_begun, t.y = 'signal' OR x.parent_id IS NULL AND x.after_id IS NULL AND NOT x.awaited
          AND (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = x.id AND c.finished_at IS NULL LIMIT 1) IS NULL AS is_alone
        FROM holdfast.runs x WHERE x.id = t.r AND t.n = 1 AND t.u IS NULL AND t.aw IS NULL AND t.y IN ('signal', 'cancel') AND x.finished_at IS NULL
          AND x.key = ANY (p_free) AND NOT (t.y = 'cancel' AND x.has_next) AND (t.wf IS NULL OR t.wf = x.workflow)
          AND (SELECT 1 FROM holdfast.message_keys k WHERE k.run = x.key AND k.key = t.k) IS NULL OFFSET 0) r ON true
      ORDER BY t.i) o
  ), put AS (
    INSERT INTO holdfast.inbox (run, id, received_at, type, seq, name, refs, data, value)
      SELECT key, inbox_id, p_now, y, q, m, f, d, v FROM found WHERE how = 'put'
  ), keyed AS (
    INSERT INTO holdfast.message_keys (run, key, inbox_id) SELECT key, k, inbox_id FROM found WHERE inbox_id IS NOT NULL AND k IS NOT NULL
  )
  SELECT array_agg(inbox_id ORDER BY i), array_agg(key) FILTER (WHERE how = 'put'), array_agg(inbox_id) FILTER (WHERE how = 'put'),
    array_agg(key ORDER BY i) FILTER (WHERE how = 'end'), array_agg(holdfast.canceled_error_1(p_messages -> (i::integer - 1)) ORDER BY i) FILTER (WHERE how = 'end')
    INTO v_sent, v_keys, v_inbox_ids, v_ended, v_errors FROM found;
  UPDATE holdfast.runs r SET last_message = v_inbox_ids[array_position(v_keys, r.key)],
      available_at = CASE WHEN r.worker_id IS NULL AND r.status NOT IN ('pending', 'blocked') THEN least(r.available_at, p_now) ELSE r.available_at END
    WHERE r.key = ANY (v_keys);
  IF v_ended IS NOT NULL THEN PERFORM holdfast.end_alone_1(v_ended, 'canceled', v_errors, p_now); END IF;
  RETURN v_sent;
END $$;

-- Messages for runs. p_plain: signals without keys, and updates of different ids, all in a few statements; p_others: any, of which those that
-- send_together_1 leaves go one by one. A batch is one or the other. The answer to one whose run another transaction has locked, with p_wait for longer than a moment, is null: it was not sent.
CREATE FUNCTION holdfast.send_messages_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_plain text, p_others text, p_wait boolean)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_messages jsonb := p_others::jsonb;
  v_results jsonb;
  v_answers jsonb[];
  v_message jsonb;
  v_place integer;
  v_ids text[];
  v_free bigint[];
  v_keys bigint[];
  v_inbox_ids bigint[];
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  IF p_others IS NOT NULL THEN
    -- Messages to a run that may end wait for all that its end may reach: they keep their order.
    v_ids := ARRAY (SELECT m ->> 'r' FROM jsonb_array_elements(v_messages) m WHERE m ->> 'y' = 'cancel');
    v_free := holdfast.lock_free_1(ARRAY (SELECT m ->> 'r' FROM jsonb_array_elements(v_messages) m), v_ids, p_wait);
    IF jsonb_array_length(v_messages) > 1 THEN v_inbox_ids := holdfast.send_together_1(v_messages, v_free, v_now); END IF;
    FOR v_message, v_place IN SELECT t.m, t.i FROM jsonb_array_elements(v_messages) WITH ORDINALITY AS t(m, i) ORDER BY t.i LOOP
      IF v_inbox_ids[v_place] IS NOT NULL THEN v_answers[v_place] := jsonb_build_object('s', 'sent', 'i', v_inbox_ids[v_place]);
      ELSIF EXISTS (SELECT 1 FROM holdfast.runs WHERE id = v_message ->> 'r' AND key <> ALL (v_free)) THEN v_answers[v_place] := 'null';
      ELSE v_answers[v_place] := holdfast.deliver_1(v_message ->> 'r', v_message, v_now);
      END IF;
    END LOOP;
    RETURN holdfast.end_call_1(p_instance, p_slot, to_jsonb(v_answers)::text);
  END IF;
  v_ids := ARRAY (SELECT r FROM json_to_recordset(p_plain::json) AS m(r text));
  IF p_wait THEN v_free := holdfast.lock_free_1(v_ids, '{}', true);
  ELSE v_free := ARRAY (SELECT key FROM holdfast.runs WHERE id = ANY (v_ids) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  WITH found AS MATERIALIZED (
    SELECT o.*, CASE WHEN o.key = ANY (v_free) AND o.finished_at IS NULL AND o.known IS NULL AND (o.wf IS NULL OR o.wf = o.workflow)
      THEN nextval('holdfast.inbox_ids') END AS inbox_id
    FROM (SELECT m.*, r.key, r.finished_at, r.status, r.workflow, k.inbox_id AS known
      FROM json_to_recordset(p_plain::json) AS m(o integer, r text, y text, m text, f text[], d text, v text, u text, wf text, kl boolean, aw bigint)
      LEFT JOIN LATERAL (SELECT x.key, x.finished_at, x.status, x.workflow FROM holdfast.runs x WHERE x.id = m.r OFFSET 0) r ON true
      LEFT JOIN LATERAL (SELECT x.inbox_id FROM holdfast.updates x WHERE (x.run, x.id) = (r.key, m.u) OFFSET 0) k ON true ORDER BY m.o) o
  ), put AS (
    INSERT INTO holdfast.inbox (run, id, received_at, type, name, refs, data, value)
      SELECT key, inbox_id, v_now, y, m, f, CASE WHEN aw IS NULL THEN d ELSE json_build_object('acceptUntil', v_now + aw)::text END, v FROM found WHERE inbox_id IS NOT NULL
  ), asked AS (
    INSERT INTO holdfast.updates (run, id, inbox_id, keyless, accept_until)
      SELECT key, u, inbox_id, coalesce(kl, false), v_now + aw FROM found WHERE inbox_id IS NOT NULL AND u IS NOT NULL
  )
  SELECT jsonb_agg(CASE WHEN wf <> workflow THEN jsonb_build_object('s', 'other-workflow', 'w', workflow)
      WHEN known IS NOT NULL THEN jsonb_build_object('s', 'duplicate', 'i', known) WHEN inbox_id IS NOT NULL THEN jsonb_build_object('s', 'sent', 'i', inbox_id)
      WHEN key IS NULL THEN '{"s":"not-found"}'::jsonb WHEN key <> ALL (v_free) THEN 'null'::jsonb ELSE jsonb_build_object('s', 'closed', 'r', status) END ORDER BY o),
    -- The last first, so that it is the one that is found.
    array_agg(key ORDER BY o DESC) FILTER (WHERE inbox_id IS NOT NULL), array_agg(inbox_id ORDER BY o DESC) FILTER (WHERE inbox_id IS NOT NULL)
    INTO v_results, v_keys, v_inbox_ids FROM found;
  UPDATE holdfast.runs r SET last_message = v_inbox_ids[array_position(v_keys, r.key)],
      available_at = CASE WHEN r.worker_id IS NULL AND r.status NOT IN ('pending', 'blocked') THEN least(r.available_at, v_now) ELSE r.available_at END
    WHERE r.key = ANY (v_keys);
  RETURN holdfast.end_call_1(p_instance, p_slot, v_results::text);
END $$;

-- M8: updates that were not accepted in time.

-- M8: rejects updates that have waited too long to be accepted. p_updates: r run id, u update, e the error. Answers with null, "waiting" or
-- [status, value, error].
CREATE FUNCTION holdfast.reject_updates_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_updates text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_results json[] := '{}';
  v_item record;
  v_update holdfast.updates;
  v_waits boolean;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  -- The row of the run is locked, as when an update is accepted: one of the two is first.
  PERFORM holdfast.lock_runs_1(ARRAY (SELECT r FROM json_to_recordset(p_updates::json) AS x(r text)), ARRAY[]::text[]);
  FOR v_item IN SELECT * FROM json_to_recordset(p_updates::json) AS x(r text, u text, e text) LOOP
    SELECT * INTO v_update FROM holdfast.updates WHERE run = (SELECT key FROM holdfast.runs WHERE id = v_item.r) AND id = v_item.u;
    v_waits := v_update.status IS NULL AND v_update.accept_until IS NOT NULL
      AND EXISTS (SELECT 1 FROM holdfast.inbox WHERE run IN (v_update.run, -v_update.run) AND id = v_update.inbox_id);
    IF v_waits AND v_update.accept_until <= v_now THEN
      UPDATE holdfast.updates SET status = 'rejected', error = v_item.e, forget_at = CASE WHEN keyless THEN v_now + 3600000 END
        WHERE run = v_update.run AND id = v_update.id RETURNING * INTO v_update;
      DELETE FROM holdfast.inbox WHERE run IN (v_update.run, -v_update.run) AND id = v_update.inbox_id;
      v_waits := false;
    END IF;
    v_results := v_results || CASE WHEN v_waits THEN '"waiting"'::json WHEN v_update.status IS NULL THEN 'null'::json
      ELSE json_build_array(v_update.status, v_update.value, v_update.error) END;
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, to_json(v_results)::text);
END $$;

-- Signals that callers send in their own transactions, and their way into the inbox (M1, D9). \`mail\` keeps them until the transaction has
-- committed: the inbox belongs to the run's worker, whose row must stay free.

-- A message inside the transaction of the caller that sends it. The lock on the run is the weakest there is: until the transaction ends,
-- turns, claims, renewals and messages go on, and only an end that has to see the message waits (M1; commit_turns_1 locks FOR UPDATE then).
-- Ends that don't look at messages don't wait: terminate, a deadline.
CREATE FUNCTION holdfast.post_mail_1(p_now bigint, p_channel text, p_notice text, p_messages text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_results jsonb := '[]';
  v_message jsonb;
  v_run holdfast.runs;
  v_known bigint;
BEGIN
  FOR v_message IN SELECT * FROM jsonb_array_elements(p_messages::jsonb) LOOP
    v_known := NULL;
    SELECT * INTO v_run FROM holdfast.runs WHERE id = v_message ->> 'r' FOR KEY SHARE;
    IF NOT FOUND THEN v_results := v_results || '{"s":"not-found"}'::jsonb; CONTINUE; END IF;
    IF v_run.workflow <> v_message ->> 'wf' THEN
      v_results := v_results || jsonb_build_object('s', 'other-workflow', 'w', v_run.workflow);
      CONTINUE;
    END IF;
    SELECT inbox_id INTO v_known FROM holdfast.updates WHERE run = v_run.key AND id = v_message ->> 'u';
    IF NOT FOUND THEN SELECT inbox_id INTO v_known FROM holdfast.message_keys WHERE run = v_run.key AND key = v_message ->> 'k'; END IF;
    IF v_known IS NOT NULL THEN v_results := v_results || jsonb_build_object('s', 'duplicate', 'i', v_known);
    ELSIF v_run.finished_at IS NOT NULL THEN v_results := v_results || jsonb_build_object('s', 'closed', 'r', v_run.status);
    ELSE
      INSERT INTO holdfast.mail (run_id, posted_at, message) VALUES (v_message ->> 'r', v_now, v_message);
      v_results := v_results || '{"s":"sent","i":0}'::jsonb;
    END IF;
  END LOOP;
  PERFORM pg_notify(p_channel, p_notice);
  RETURN v_results::text;
END $$;

-- One letter into the inbox of its run, which is locked, or (await, start) what else it is about. False: another transaction has delivered it.
CREATE FUNCTION holdfast.deliver_letter_1(p_id bigint, p_run text, p_message jsonb, p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_result jsonb;
BEGIN
  DELETE FROM holdfast.mail WHERE id = p_id;
  IF NOT FOUND THEN RETURN false; END IF;
  IF p_message ->> 'y' = 'await' THEN
    -- Q10: a run waits for this one, which may have closed since.
    UPDATE holdfast.runs SET awaited = true WHERE id = p_run AND finished_at IS NULL;
    IF NOT FOUND THEN PERFORM holdfast.release_waiting_1(NULL, p_run, NULL, p_now); END IF;
    RETURN true;
  ELSIF p_message ->> 'y' = 'start' THEN
    -- Q9: a newer start, for the run as it is now.
    PERFORM holdfast.create_run_1(p_message -> 'start', p_now);
    RETURN true;
  END IF;
  v_result := holdfast.deliver_1(p_run, p_message, p_now);
  -- M10: the run has closed since, and a caller waits for the outcome.
  IF v_result ->> 's' = 'closed' AND p_message ? 'u' THEN
    INSERT INTO holdfast.updates (run, id, inbox_id, status, error)
      SELECT key, p_message ->> 'u', 0, 'rejected', holdfast.error_1('closed', id, status) FROM holdfast.runs WHERE id = p_run;
  END IF;
  RETURN true;
END $$;

-- M1, D9: runs that are about to end, and are locked, get the mail that was posted by now. What can't be delivered is left for
-- deliver_mail_1, which stores the reason. True: there was mail.
CREATE FUNCTION holdfast.take_mail_1(p_runs text[], p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_mail record;
  v_any boolean := false;
BEGIN
  FOR v_mail IN SELECT id, run_id, message FROM holdfast.mail WHERE error IS NULL AND run_id = ANY (p_runs) ORDER BY id LOOP
    BEGIN
      v_any := holdfast.deliver_letter_1(v_mail.id, v_mail.run_id, v_mail.message, p_now) OR v_any;
    EXCEPTION
      WHEN insufficient_resources THEN RAISE;
      WHEN OTHERS THEN NULL;
    END;
  END LOOP;
  RETURN v_any;
END $$;

-- Puts mail into the inboxes, those of each run in order: one process at a time does it. What can't be delivered stays, with the reason, and
-- stops no other. Mail for a run that another transaction has locked is left for later, with p_wait if it does not come free soon. Answers with how
-- many were delivered (n) and whether some were left (b).
CREATE FUNCTION holdfast.deliver_mail_1(p_now bigint, p_limit integer, p_wait boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_until timestamptz := clock_timestamp() + interval '300 milliseconds';
  v_busy text[] := '{}';
  v_count integer := 0;
  v_mail record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.mail', 0));
  FOR v_mail IN SELECT id, run_id, message FROM holdfast.mail WHERE error IS NULL ORDER BY id LOOP
    EXIT WHEN v_count >= p_limit;
    CONTINUE WHEN v_mail.run_id = ANY (v_busy);
    BEGIN
      IF p_wait AND clock_timestamp() < v_until THEN
        PERFORM holdfast.lock_soon_1(ARRAY (SELECT key FROM holdfast.runs WHERE id = v_mail.run_id));
      END IF;
      PERFORM 1 FROM holdfast.runs WHERE id = v_mail.run_id FOR NO KEY UPDATE NOWAIT;
      IF holdfast.deliver_letter_1(v_mail.id, v_mail.run_id, v_mail.message, v_now) THEN v_count := v_count + 1; END IF;
    EXCEPTION
      WHEN lock_not_available OR serialization_failure OR deadlock_detected THEN v_busy := v_busy || v_mail.run_id;
      WHEN insufficient_resources THEN RAISE; -- no mail can be written
      WHEN OTHERS THEN UPDATE holdfast.mail SET error = format('%s (SQLSTATE %s)', SQLERRM, SQLSTATE) WHERE id = v_mail.id;
    END;
  END LOOP;
  RETURN json_build_object('n', v_count, 'b', cardinality(v_busy) > 0)::text;
END $$;

-- The end of a run and what follows from it: P1 (one end), K5 (the epoch rises: nothing that was computed before counts any more), K6
-- (children follow), K9, M10, Q9 (its next start begins), Q10 (runs that wait for it begin). Also cancellation, since it ends a run that has not begun.

-- B4: how long this engine keeps closed runs whose workflow says nothing; null: forever. The statement that calls a function says it.
CREATE FUNCTION holdfast.kept_for_1() RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT nullif(current_setting('runs.kept_for', true), '')::bigint
$$;

-- Abandons the activities of a run, all of them or those of these operations (C7). Workers that run one will be notified.
CREATE FUNCTION holdfast.drop_tasks_1(p_run bigint, p_seqs integer[], p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM holdfast.tasks WHERE run = p_run AND (p_seqs IS NULL OR seq = ANY (p_seqs)) FOR UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at)
    SELECT run, execution, seq, attempt, true, 'lost', worker_id, started_at, p_now FROM holdfast.tasks
    WHERE run = p_run AND (p_seqs IS NULL OR seq = ANY (p_seqs)) AND worker_id IS NOT NULL
    ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, ended_at = excluded.ended_at;
  DELETE FROM holdfast.tasks WHERE run = p_run AND (p_seqs IS NULL OR seq = ANY (p_seqs));
END $$;

-- Sends the outcome of closed runs to their parents, unless the parent has closed or is in a later execution, which did not ask.
-- Rows of parents are locked. False: nothing was sent.
CREATE FUNCTION holdfast.tell_parents_1(p_runs bigint[], p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_parents bigint[];
  v_ids bigint[];
BEGIN
  WITH told AS MATERIALIZED (
    SELECT o.*, nextval('holdfast.inbox_ids') AS inbox_id FROM (
      SELECT p.key AS parent, c.id, c.status, c.output, c.error, c.parent_seq FROM unnest(p_runs) WITH ORDINALITY AS u(key, i)
        CROSS JOIN LATERAL (SELECT * FROM holdfast.runs x WHERE x.key = u.key OFFSET 0) c
        CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = c.parent_id AND x.finished_at IS NULL AND x.execution = c.parent_execution
          FOR NO KEY UPDATE NOWAIT) p
      ORDER BY u.i) o
  ), put AS (
    INSERT INTO holdfast.inbox (run, id, received_at, type, seq, data, value)
      SELECT parent, inbox_id, p_now, 'resolve', parent_seq, CASE status
          WHEN 'completed' THEN NULL
          WHEN 'canceled' THEN '{"status":"canceled"}'
          ELSE '{"status":"failed","error":' || coalesce(error, holdfast.error_1('child-ended', id, status)) || '}' END,
        CASE status WHEN 'completed' THEN coalesce(output, '{"$undefined":true}') END
      FROM told
  )
  -- The last first, so that it is the one that is found.
  SELECT array_agg(parent ORDER BY inbox_id DESC), array_agg(inbox_id ORDER BY inbox_id DESC) INTO v_parents, v_ids FROM told;
  IF v_parents IS NULL THEN RETURN false; END IF;
  UPDATE holdfast.runs r SET last_message = v_ids[array_position(v_parents, r.key)],
      available_at = CASE WHEN r.worker_id IS NULL AND r.status NOT IN ('pending', 'blocked') THEN least(r.available_at, p_now) ELSE r.available_at END
    WHERE r.key = ANY (v_parents);
  RETURN true;
END $$;

-- Q10: a run has closed. Those that waited for it begin when their time has come, or wait for the run that it waited for itself.
CREATE FUNCTION holdfast.release_waiting_1(p_run bigint, p_id text, p_after text, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM holdfast.runs WHERE after_id = p_id ORDER BY id FOR NO KEY UPDATE NOWAIT;
  UPDATE holdfast.runs SET after_id = p_after, available_at = CASE WHEN p_after IS NULL THEN greatest(not_before, p_now) END WHERE after_id = p_id;
  UPDATE holdfast.runs SET after_id = NULL, awaited = false WHERE key = p_run;
END $$;

-- What follows from the end of a run, whose row says how it ended: its updates, messages and activities, its parent, its children, and
-- its next start, or else runs that wait for it.
CREATE FUNCTION holdfast.follow_end_1(p_run bigint, p_now bigint, p_unconsumed jsonb DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_child record;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run;
  -- M10: updates that were not taken are rejected, those that were taken and have no outcome have failed.
  UPDATE holdfast.updates u SET error = holdfast.error_1('closed', v_run.id, v_run.status),
      status = CASE WHEN EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = p_run AND i.id = u.inbox_id) THEN 'rejected' ELSE 'failed' END
    WHERE u.run = p_run AND u.status IS NULL
      AND NOT (v_run.has_next AND EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = -p_run AND i.id = u.inbox_id));
  -- D10: signals wait for a run that may be resumed. Q9: and for its next start.
  DELETE FROM holdfast.inbox WHERE run = p_run AND NOT ((v_run.resumable OR v_run.has_next) AND type = 'signal');
  PERFORM holdfast.drop_tasks_1(p_run, NULL, p_now);
  IF v_run.parent_id IS NOT NULL THEN PERFORM holdfast.tell_parents_1(ARRAY[p_run], p_now); END IF;
  FOR v_child IN SELECT key, id, parent_close FROM holdfast.runs WHERE parent_id = v_run.id AND finished_at IS NULL ORDER BY key LOOP
    IF v_child.parent_close = 'terminate' THEN
      PERFORM holdfast.close_run_1(v_child.key, 'terminated', NULL,
        holdfast.error_1('terminated', v_child.id, holdfast.reason_1('parent-ended', v_run.id)), false, p_now);
    ELSIF v_child.parent_close = 'cancel' THEN
      PERFORM holdfast.cancel_run_1(v_child.key, holdfast.cancel_message_1(holdfast.reason_1('parent-ended', v_run.id)), p_now);
    END IF;
  END LOOP;
  IF v_run.has_next THEN PERFORM holdfast.begin_next_1(p_run, p_unconsumed, p_now);
  ELSIF v_run.awaited OR v_run.after_id IS NOT NULL THEN PERFORM holdfast.release_waiting_1(p_run, v_run.id, v_run.after_id, p_now); END IF;
END $$;

-- p_turns, p_records: of the turn that it ends with, if it does; its row is up to date but for them. p_unconsumed: see begin_next_1.
CREATE FUNCTION holdfast.close_run_1(p_run bigint, p_status text, p_output text, p_error text, p_resumable boolean, p_now bigint,
  p_turns integer DEFAULT NULL, p_records integer DEFAULT NULL, p_unconsumed jsonb DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM holdfast.runs WHERE key = p_run AND finished_at IS NULL FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN; END IF;
  IF p_turns IS NULL THEN PERFORM holdfast.count_turns_1(p_run); END IF;
  UPDATE holdfast.runs SET status = p_status, ended_as = p_status, output = p_output, error = p_error,
      resumable = p_status = 'failed' AND coalesce(p_resumable, true), finished_at = p_now, turns = turns + coalesce(p_turns, 0),
      history_length = history_length + coalesce(p_records, 0), worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0,
      epoch = epoch + 1, remove_at = CASE WHEN retention IS NULL THEN p_now + holdfast.kept_for_1() WHEN retention >= 0 THEN p_now + retention END
    WHERE key = p_run;
  PERFORM holdfast.follow_end_1(p_run, p_now, p_unconsumed);
END $$;

-- For each of these ids, which are locked: the key of its run, if that is open and its end reaches no other run, and the id is the first of its
-- kind; else null.
CREATE FUNCTION holdfast.find_alone_1(p_ids text[]) RETURNS bigint[] LANGUAGE sql STABLE AS $$
  SELECT array_agg(r.key ORDER BY t.i)
    FROM (SELECT u.id, u.i, row_number() OVER (PARTITION BY u.id ORDER BY u.i) AS n FROM unnest(p_ids) WITH ORDINALITY AS u(id, i)) t
    LEFT JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = t.id AND t.n = 1 AND x.finished_at IS NULL AND x.parent_id IS NULL
      AND x.after_id IS NULL AND NOT x.awaited AND NOT x.has_next
      AND (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = x.id AND c.finished_at IS NULL LIMIT 1) IS NULL OFFSET 0) r ON true
$$;

-- Ends runs that find_alone_1 has found, all of them with a few statements, as close_run_1 does with one. p_errors: in the same places.
CREATE FUNCTION holdfast.end_alone_1(p_keys bigint[], p_status text, p_errors text[], p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_messages boolean;
BEGIN
  WITH ended AS (
    UPDATE holdfast.runs r SET status = p_status, ended_as = p_status, output = NULL, error = p_errors[array_position(p_keys, r.key)], resumable = false,
        finished_at = p_now, worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0, epoch = r.epoch + 1,
        turns = CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END,
        history_length = CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn') END,
        remove_at = CASE WHEN r.retention IS NULL THEN p_now + holdfast.kept_for_1() WHEN r.retention >= 0 THEN p_now + r.retention END
      WHERE r.key = ANY (p_keys) RETURNING r.last_message
  )
  SELECT bool_or(e.last_message > 0) INTO v_messages FROM ended e;
  IF v_messages THEN
    -- M10, as in follow_end_1.
    UPDATE holdfast.updates u SET error = holdfast.error_1('closed', (SELECT r.id FROM holdfast.runs r WHERE r.key = u.run), p_status),
        status = CASE WHEN EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = u.run AND i.id = u.inbox_id) THEN 'rejected' ELSE 'failed' END
      WHERE u.run = ANY (p_keys) AND u.status IS NULL;
    DELETE FROM holdfast.inbox WHERE run = ANY (p_keys);
  END IF;
  PERFORM holdfast.drop_tasks_1(t.run, NULL, p_now) FROM (SELECT DISTINCT x.run FROM holdfast.tasks x WHERE x.run = ANY (p_keys)) t;
END $$;

CREATE FUNCTION holdfast.cancel_message_1(p_reason text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('y', 'cancel', 'd', json_build_object('reason', p_reason)::text)
$$;

-- Asks an open run to cancel. One that no worker has begun with is canceled here and now (K9). Returns the inbox id, 0 if there is none.
CREATE FUNCTION holdfast.cancel_run_1(p_run bigint, p_message jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run AND finished_at IS NULL FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN 0; END IF;
  IF v_run.turns > 0 OR v_run.worker_id IS NOT NULL THEN RETURN holdfast.put_1(p_run, p_message, p_now); END IF;
  PERFORM holdfast.close_run_1(p_run, 'canceled', NULL, holdfast.canceled_error_1(p_message), false, p_now);
  RETURN 0;
END $$;

-- P10: the next execution of a run.

-- P10: the next execution begins with an empty history.
CREATE FUNCTION holdfast.begin_execution_1(p_run bigint, p_workflow text, p_version text, p_lane integer, p_seed text, p_input text, p_at bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_execution integer;
BEGIN
  UPDATE holdfast.runs SET workflow = p_workflow, version = p_version, lane = p_lane, available_at = p_at, status = 'pending', ended_as = NULL,
      execution = execution + 1, epoch = epoch + 1, attempt = 1, turns = 0, history_length = 0, rollbacks = 0, recoveries = 0, worker_id = NULL,
      parked_by = NULL, finished_at = NULL, remove_at = NULL, expired = false, resumable = false, waiting_for = NULL, blocked_code = NULL, error = NULL, output = NULL
    WHERE key = p_run RETURNING execution INTO v_execution;
  INSERT INTO holdfast.executions (run, execution, workflow, version, seed, input) VALUES (p_run, v_execution, p_workflow, p_version, p_seed, p_input);
END $$;

-- Carried messages go before those that wait in the inbox; no worker holds an id of the run at this point.
CREATE FUNCTION holdfast.carry_over_1(p_run bigint, p_carried jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_first bigint;
  v_message jsonb;
  v_id bigint;
  v_moved bigint;
BEGIN
  FOR v_message IN SELECT * FROM jsonb_array_elements(p_carried) LOOP
    v_id := holdfast.put_1(p_run, v_message, p_now);
    v_first := coalesce(v_first, v_id);
  END LOOP;
  FOR v_id IN SELECT id FROM holdfast.inbox WHERE run = p_run AND id < v_first ORDER BY id LOOP
    v_moved := nextval('holdfast.inbox_ids');
    UPDATE holdfast.inbox SET id = v_moved WHERE run = p_run AND id = v_id;
    UPDATE holdfast.updates SET inbox_id = v_moved WHERE run = p_run AND inbox_id = v_id;
    UPDATE holdfast.message_keys SET inbox_id = v_moved WHERE run = p_run AND inbox_id = v_id;
    UPDATE holdfast.runs SET last_message = v_moved WHERE key = p_run;
  END LOOP;
END $$;

-- P10: as the code before it chose, on the same queue. Signals, updates and cancels wait for it, and carried ones go before them. Answers to
-- operations of the last execution go: the next one uses their numbers again.
CREATE FUNCTION holdfast.continue_run_1(p_run bigint, p_next jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_lane integer;
  v_version text := p_next ->> 'version';
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run;
  v_lane := v_run.lane;
  IF v_version IS DISTINCT FROM v_run.version THEN
    INSERT INTO holdfast.lanes (queue, workflow, version, priority) VALUES (v_run.queue, v_run.workflow, v_version, v_run.priority) ON CONFLICT DO NOTHING;
    SELECT lane * sign(v_run.lane) INTO STRICT v_lane FROM holdfast.lanes
      WHERE queue = v_run.queue AND workflow = v_run.workflow AND version IS NOT DISTINCT FROM v_version AND priority = v_run.priority;
  END IF;
  PERFORM holdfast.drop_tasks_1(p_run, NULL, p_now);
  PERFORM holdfast.begin_execution_1(p_run, v_run.workflow, v_version, v_lane, p_next ->> 'seed', p_next ->> 'input', p_now);
  DELETE FROM holdfast.inbox WHERE run = p_run AND type NOT IN ('signal', 'update', 'cancel');
  IF jsonb_array_length(p_next -> 'carried') > 0 THEN PERFORM holdfast.carry_over_1(p_run, p_next -> 'carried', p_now); END IF;
END $$;

-- Q9: a newer start of a run that is there: taken over by a run that no worker has claimed, or kept as its next start until it has closed.
-- Messages that wait with a next start are in the inbox of -key. Starts are JSON as create_run_1 reads it; of those that wait \`startAt\` and
-- \`deadlineAt\` are set, and what is kept elsewhere (messages, key) is left out.

-- When a start begins at the earliest; with "debounce" maxDelay after the first start at most.
CREATE FUNCTION holdfast.start_time_1(p_start jsonb, p_first bigint, p_now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT least(coalesce((p_start ->> 'startAt')::bigint, p_now + coalesce((p_start ->> 'delay')::bigint, 0)),
    CASE WHEN p_start ->> 'conflict' = 'debounce' THEN p_first + (p_start ->> 'maxDelay')::bigint END)
$$;

-- What a start says of its run, besides its input and its parent.
CREATE FUNCTION holdfast.apply_start_1(p_run bigint, p_start jsonb, p_at bigint, p_now bigint, p_caller boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_after text := holdfast.await_run_1(p_start ->> 'id', p_start #>> '{origin,after}', p_now, p_caller);
BEGIN
  UPDATE holdfast.runs SET version = p_start ->> 'version', lane = (p_start ->> 'lane')::integer, queue = p_start ->> 'queue',
      priority = (p_start ->> 'priority')::integer, available_at = CASE WHEN v_after IS NULL THEN p_at END, after_id = v_after,
      not_before = CASE WHEN v_after IS NOT NULL THEN p_at END,
      deadline_at = coalesce((p_start ->> 'deadlineAt')::bigint, p_now + (p_start ->> 'deadline')::bigint), attributes = p_start -> 'attributes',
      retry = p_start ->> 'retry', work_key = p_start #>> '{origin,key}', schedule = p_start #>> '{origin,schedule}',
      tick = (p_start #>> '{origin,tick}')::bigint, forked_from = p_start #>> '{origin,from}', retention = (p_start #>> '{origin,retention}')::bigint
    WHERE key = p_run;
END $$;

-- The next execution of a run that has closed, as a new start says. p_first: when the first of the starts was made that it has taken over.
CREATE FUNCTION holdfast.begin_start_1(p_run bigint, p_start jsonb, p_at bigint, p_first bigint, p_now bigint, p_caller boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM holdfast.begin_execution_1(p_run, p_start ->> 'workflow', p_start ->> 'version', (p_start ->> 'lane')::integer, p_start ->> 'seed', p_start ->> 'input', NULL);
  UPDATE holdfast.runs SET started_at = NULL, first_start = p_first, held = false, under = false, parent_id = p_start #>> '{parent,runId}',
      parent_execution = (p_start #>> '{parent,execution}')::integer, parent_seq = (p_start #>> '{parent,seq}')::integer,
      parent_close = p_start #>> '{parent,parentClose}', parent_announce = (p_start #>> '{parent,announce}')::boolean
    WHERE key = p_run;
  PERFORM holdfast.apply_start_1(p_run, p_start, p_at, p_now, p_caller);
END $$;

-- The run has closed: its next start begins. Signals that it left unconsumed move on, and go before what came later.
CREATE FUNCTION holdfast.begin_next_1(p_run bigint, p_unconsumed jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_next holdfast.next_starts;
BEGIN
  DELETE FROM holdfast.next_starts WHERE run = p_run RETURNING * INTO v_next;
  UPDATE holdfast.runs SET has_next = false WHERE key = p_run;
  IF v_next.run IS NULL THEN RETURN; END IF;
  UPDATE holdfast.inbox SET run = p_run WHERE run = -p_run;
  PERFORM holdfast.begin_start_1(p_run, v_next.start, greatest((v_next.start ->> 'startAt')::bigint, p_now), v_next.first_at, p_now, false);
  PERFORM holdfast.carry_over_1(p_run, coalesce(p_unconsumed, '[]'), p_now);
  UPDATE holdfast.runs SET last_message = greatest(last_message, (SELECT max(id) FROM holdfast.inbox WHERE run = p_run)) WHERE key = p_run;
END $$;

-- A caller cancels or terminates the run, which is locked, and with it what would have followed.
CREATE FUNCTION holdfast.drop_next_1(p_run bigint, p_id text, p_status text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE holdfast.updates SET status = 'rejected', error = holdfast.error_1('closed', p_id, p_status)
    WHERE run = p_run AND status IS NULL AND inbox_id IN (SELECT id FROM holdfast.inbox WHERE run = -p_run);
  DELETE FROM holdfast.inbox WHERE run = -p_run;
  DELETE FROM holdfast.next_starts WHERE run = p_run;
  UPDATE holdfast.runs SET has_next = false WHERE key = p_run;
END $$;

-- A message that waits with the next start of a run, once for each key. Returns its id.
CREATE FUNCTION holdfast.put_aside_1(p_run bigint, p_message jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_known bigint;
  v_update text := p_message ->> 'u';
  v_key text := p_message ->> 'k';
BEGIN
  IF v_update IS NOT NULL THEN SELECT inbox_id INTO v_known FROM holdfast.updates WHERE run = p_run AND id = v_update;
  ELSIF v_key IS NOT NULL THEN SELECT inbox_id INTO v_known FROM holdfast.message_keys WHERE run = p_run AND key = v_key;
  END IF;
  IF v_known IS NOT NULL THEN RETURN v_known; END IF;
  v_known := holdfast.put_1(-p_run, p_message, p_now);
  IF v_update IS NOT NULL THEN INSERT INTO holdfast.updates (run, id, inbox_id, keyless, accept_until)
      VALUES (p_run, v_update, v_known, coalesce((p_message ->> 'kl')::boolean, false), p_now + (p_message ->> 'aw')::bigint);
  ELSIF v_key IS NOT NULL THEN INSERT INTO holdfast.message_keys (run, key, inbox_id) VALUES (p_run, v_key, v_known);
  END IF;
  RETURN v_known;
END $$;

-- A newer start of an open run, whose key is kept already. Answers as create_run_1.
CREATE FUNCTION holdfast.supersede_1(p_start jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_next holdfast.next_starts;
  v_message jsonb;
  v_inbox jsonb := '[]';
  v_at bigint;
  v_first bigint;
  v_cancels boolean;
  v_execution integer;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE id = p_start ->> 'id' FOR NO KEY UPDATE NOWAIT;
  -- It has closed or begun since it was looked at: the next try finds it so.
  IF v_run.finished_at IS NOT NULL THEN RAISE EXCEPTION 'run-closed' USING ERRCODE = '40001'; END IF;
  IF v_run.started_at IS NULL AND v_run.turns = 0 THEN
    v_at := holdfast.start_time_1(p_start, coalesce(v_run.first_start, v_run.created_at), p_now);
    IF v_at <= p_now THEN v_at := least(v_at, coalesce(v_run.available_at, v_run.not_before)); END IF;
    PERFORM holdfast.apply_start_1(v_run.key, p_start, v_at, p_now, false);
    UPDATE holdfast.executions SET version = p_start ->> 'version', seed = p_start ->> 'seed', input = p_start ->> 'input'
      WHERE run = v_run.key AND execution = v_run.execution;
    FOR v_message IN SELECT * FROM jsonb_array_elements(coalesce(p_start -> 'messages', '[]')) LOOP
      v_inbox := v_inbox || coalesce(holdfast.deliver_1(v_run.id, v_message, p_now) -> 'i', '0');
    END LOOP;
    RETURN jsonb_build_object('s', 'existing', 'x', v_run.execution, 'b', v_inbox);
  END IF;
  SELECT * INTO v_next FROM holdfast.next_starts WHERE run = v_run.key;
  v_first := coalesce(v_next.first_at, p_now);
  v_cancels := p_start ->> 'conflict' = 'replace' AND v_next.replacing IS NOT TRUE;
  INSERT INTO holdfast.next_starts AS x (run, start, first_at, replacing)
    VALUES (v_run.key, p_start - ARRAY['messages', 'ikey', 'first', 'delay', 'maxDelay', 'deadline'] || jsonb_build_object('startAt', holdfast.start_time_1(p_start, v_first, p_now),
      'deadlineAt', coalesce((p_start ->> 'deadlineAt')::bigint, p_now + (p_start ->> 'deadline')::bigint)), v_first, v_cancels)
    ON CONFLICT (run) DO UPDATE SET start = excluded.start, replacing = x.replacing OR excluded.replacing;
  IF NOT v_run.has_next THEN UPDATE holdfast.runs SET has_next = true WHERE key = v_run.key; END IF;
  FOR v_message IN SELECT * FROM jsonb_array_elements(coalesce(p_start -> 'messages', '[]')) LOOP
    v_inbox := v_inbox || to_jsonb(holdfast.put_aside_1(v_run.key, v_message, p_now));
  END LOOP;
  IF v_cancels THEN PERFORM holdfast.cancel_run_1(v_run.key, holdfast.cancel_message_1('a newer start replaced it'), p_now); END IF;
  SELECT execution INTO v_execution FROM holdfast.runs WHERE key = v_run.key;
  RETURN jsonb_build_object('s', CASE WHEN v_execution > v_run.execution THEN 'created' ELSE 'existing' END, 'x', v_execution, 'b', v_inbox);
END $$;

-- Queues with limits, keys and pauses (Q1–Q8): what claims of runs and of activities share.
--
-- A queue is managed if it has limits, a pause, or work with a key; it then has a row in \`queues\`, and its claims lock that row first and
-- wait for nothing after it. Whether it is managed is looked at under a shared advisory lock, which \`lock_queue_1\` takes alone: no claim
-- and no first turn that takes the queue for a plain one is under way while that changes.
--
-- A slot is the state of a row: a run or an activity of a managed queue counts while a worker has it (\`worker_id\`), or, where the queue
-- counts open runs, while \`held\` says so. So commits, ends and renewals know nothing of slots, and no counter can go wrong. What was
-- claimed in a managed queue, and what has a key, is filed: its lane is negative, and no plain claim finds it.
--
-- Keys share by stride (Q5): \`pass\` of a key grows by 1/weight with each claim that takes a slot, and the lowest pass is served first. Only
-- claims write \`queue_keys\`. A key that has no row there is at the virtual time of its priority, the pass at which a key was served there last:
-- that is where a key begins again that was idle or could not be admitted, so that nothing is saved up. One time for all priorities would
-- not do: a key that is new at a low priority would wait until all others there have caught up with it. In a queue with a rate of its own, keys
-- share starts and all else apart from each other: each has two rows, of the kinds \`starts\` and \`runs\`, as if it were two keys. Claims find keys with new work among the newest that are due, and by walking through the keys in order,
-- some with each claim. Rejected: moving what is due to a lane per key (another update for each run of a backlog, and a key behind 99,000
-- runs of another one waits until all of those are moved).

-- Q2: whether a run may be created with its first turn. p_changes: how often queues had become managed when the process last looked, and
-- found that this one was not. A sequence shows its newest value whatever the statement's snapshot is.
CREATE FUNCTION holdfast.may_begin_1(p_queue text, p_changes bigint) RETURNS boolean LANGUAGE sql AS $$
  SELECT CASE WHEN pg_try_advisory_xact_lock_shared(hashtextextended('holdfast.queues' || p_queue, 0))
    THEN (SELECT last_value FROM holdfast.queue_changes) = p_changes ELSE false END
$$;

-- How many slots are left to a queue, or to a key of it. p_name: '=' and the key; null: the whole queue.
CREATE FUNCTION holdfast.slots_left_1(p_queue text, p_kind text, p_open boolean, p_name text, p_most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_key text := substr(p_name, 2);
BEGIN
  IF p_kind = 'tasks' THEN
    IF p_name IS NULL THEN
      RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.tasks t WHERE t.queue = p_queue AND t.lane < 0 AND t.worker_id IS NOT NULL LIMIT p_most) h);
    END IF;
    RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.tasks t WHERE t.queue = p_queue AND t.lane < 0 AND t.worker_id IS NOT NULL
      AND t.work_key = v_key LIMIT p_most) h);
  END IF;
  IF p_open THEN
    IF p_name IS NULL THEN
      RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.runs r WHERE r.queue = p_queue AND r.held AND r.ended_as IS NULL AND NOT r.under LIMIT p_most) h);
    END IF;
    RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.runs r WHERE r.queue = p_queue AND r.held AND r.ended_as IS NULL AND r.work_key = v_key LIMIT p_most) h);
  END IF;
  IF p_name IS NULL THEN
    RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.runs r WHERE r.queue = p_queue AND r.lane < 0 AND r.worker_id IS NOT NULL LIMIT p_most) h);
  END IF;
  RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.runs r WHERE r.queue = p_queue AND r.lane < 0 AND r.worker_id IS NOT NULL
    AND r.work_key = v_key LIMIT p_most) h);
END $$;

-- Q2: which slots of a queue the ancestors of a run hold for it: that of the queue, and that of its key. p_parent: the run that waits for it;
-- null: none does. Only through runs that are open, and not abandoned. p_begun: as if what has begun held slots, where it has to be found
-- out which do: the highest of those runs hold everything.
CREATE FUNCTION holdfast.covered_1(p_queue text, p_parent text, p_work_key text, p_begun boolean, OUT of_queue boolean, OUT of_key boolean) LANGUAGE plpgsql AS $$
BEGIN
  WITH RECURSIVE above AS (
    SELECT r.queue, r.work_key, r.started_at, r.held, r.under, CASE WHEN r.parent_close <> 'abandon' THEN r.parent_id END AS parent_id, 1 AS up
      FROM holdfast.runs r WHERE r.id = p_parent AND r.finished_at IS NULL
    UNION ALL
    -- Something else may have made a run its own ancestor.
    SELECT p.*, a.up + 1 FROM above a CROSS JOIN LATERAL (
      SELECT r.queue, r.work_key, r.started_at, r.held, r.under, CASE WHEN r.parent_close <> 'abandon' THEN r.parent_id END AS parent_id
        FROM holdfast.runs r WHERE r.id = a.parent_id AND r.finished_at IS NULL OFFSET 0) p WHERE a.up < 1000
  )
  SELECT coalesce(bool_or(p_begun OR NOT a.under), false), coalesce(bool_or(p_begun OR NOT a.under) AND bool_or(a.work_key IS NOT DISTINCT FROM p_work_key), false)
    INTO of_queue, of_key FROM above a WHERE a.queue = p_queue AND CASE WHEN p_begun THEN a.started_at IS NOT NULL ELSE a.held END;
END $$;

-- Q4: how many may start now, and when the next one may. The window that ends now has every start after p_now - p_per.
CREATE FUNCTION holdfast.starts_left_1(p_queue text, p_kind text, p_name text, p_limit integer, p_per bigint, p_now bigint, OUT n integer, OUT at bigint)
LANGUAGE plpgsql AS $$
BEGIN
  IF p_name IS NULL THEN
    SELECT p_limit - count(*), min(s.at) + p_per INTO n, at FROM (SELECT x.at FROM holdfast.queue_starts x
      WHERE x.queue = p_queue AND x.kind = p_kind AND x.at > p_now - p_per ORDER BY x.at DESC LIMIT p_limit) s;
  ELSE
    SELECT p_limit - count(*), min(s.at) + p_per INTO n, at FROM (SELECT x.at FROM holdfast.queue_starts x
      WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = p_name AND x.at > p_now - p_per ORDER BY x.at DESC LIMIT p_limit) s;
  END IF;
END $$;

-- What limits a key, in effect: what its entry leaves out is as in \`perKey\`. Work without a key has no limits but those of the queue (Q1).
-- room: how many slots it may have more; starts: how many may start; null: no limit. wake_at: when one that can't start may, or a pause ends.
CREATE FUNCTION holdfast.key_limits_1(q holdfast.queues, p_kind text, p_name text, p_now bigint,
  OUT weight double precision, OUT room integer, OUT starts integer, OUT wake_at bigint) LANGUAGE plpgsql AS $$
DECLARE
  l holdfast.queue_limits;
BEGIN
  weight := 1;
  IF p_name = '' THEN RETURN; END IF;
  IF q.has_keys THEN SELECT * INTO l FROM holdfast.queue_limits x WHERE x.queue = q.name AND x.name = p_name; END IF;
  IF l.paused AND coalesce(l.paused_until > p_now, true) THEN
    room := 0;
    wake_at := coalesce(l.paused_until, 9007199254740991);
    RETURN;
  END IF;
  weight := coalesce(l.weight, 1);
  IF coalesce(l.concurrency, q.key_concurrency) IS NOT NULL THEN
    room := holdfast.slots_left_1(q.name, p_kind, q.counts_open, p_name, coalesce(l.concurrency, q.key_concurrency));
  END IF;
  IF l.rate_limit IS NOT NULL THEN
    SELECT x.n, x.at INTO starts, wake_at FROM holdfast.starts_left_1(q.name, p_kind, p_name, l.rate_limit, l.rate_per, p_now) x;
  ELSIF q.key_rate_limit IS NOT NULL THEN
    SELECT x.n, x.at INTO starts, wake_at FROM holdfast.starts_left_1(q.name, p_kind, p_name, q.key_rate_limit, q.key_rate_per, p_now) x;
  END IF;
  IF starts > 0 THEN wake_at := NULL; END IF;
END $$;

-- These keys have something due. One that was idle begins at the virtual time, or at its own pass if that is higher.
CREATE FUNCTION holdfast.ready_keys_1(p_queue text, p_kind text, p_priority integer, p_pass double precision, p_names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO holdfast.queue_keys AS k (queue, kind, priority, name, pass, ready)
    SELECT p_queue, p_kind, p_priority, f.name, greatest(p_pass, o.pass), true FROM (SELECT DISTINCT u.name FROM unnest(p_names) AS u(name)) f CROSS JOIN LATERAL (
      SELECT max(x.pass) AS pass, bool_or(x.ready AND x.priority = p_priority) AS ready FROM holdfast.queue_keys x
        WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = f.name OFFSET 0) o
      WHERE o.ready IS NOT TRUE
    ON CONFLICT (queue, kind, name, priority) DO UPDATE SET ready = true, wake_at = NULL, pass = excluded.pass;
END $$;

-- What a claim has done with keys: p_steps is how far each moves on. One that got nothing though it has something moves with the virtual
-- time. One that is not ready has nothing more, or not before wake_at.
CREATE FUNCTION holdfast.served_keys_1(p_queue text, p_kind text, p_priority integer, p_pass double precision, p_names text[], p_steps double precision[], p_ready boolean[], p_wakes bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- Row by row, whatever the planner takes the table for.
  UPDATE holdfast.queue_keys k SET pass = CASE WHEN u.step = 0 AND u.ready AND k.priority = p_priority THEN greatest(k.pass, p_pass) ELSE k.pass + u.step END, ready = CASE k.priority WHEN p_priority THEN u.ready ELSE k.ready END,
      wake_at = CASE k.priority WHEN p_priority THEN u.wake ELSE k.wake_at END
    FROM (SELECT n.*, o.row FROM unnest(p_names, p_steps, p_ready, p_wakes) AS n(name, step, ready, wake) CROSS JOIN LATERAL (
      SELECT x.ctid AS row FROM holdfast.queue_keys x WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = n.name OFFSET 0) o) u
    WHERE k.ctid = u.row;
END $$;

-- Q5: keys that were served are this far now, at every priority.
CREATE FUNCTION holdfast.moved_keys_1(p_queue text, p_kind text, p_priority integer, p_names text[], p_passes double precision[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO holdfast.queue_keys AS k (queue, kind, priority, name, pass, ready) SELECT p_queue, p_kind, p_priority, u.name, u.pass, false FROM unnest(p_names, p_passes) AS u(name, pass)
    ON CONFLICT (queue, kind, name, priority) DO NOTHING;
  UPDATE holdfast.queue_keys k SET pass = u.pass FROM (SELECT n.pass, o.row FROM unnest(p_names, p_passes) AS n(name, pass) CROSS JOIN LATERAL (
      SELECT x.ctid AS row FROM holdfast.queue_keys x WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = n.name AND x.pass < n.pass OFFSET 0) o) u
    WHERE k.ctid = u.row;
END $$;

-- The end of a claim at a priority: its virtual time, and how far the walk through its keys went.
CREATE FUNCTION holdfast.move_on_1(p_queue text, p_kind text, p_priority integer, p_pass double precision, p_walked text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE holdfast.queue_times SET pass = p_pass, walked = p_walked WHERE queue = p_queue AND kind = p_kind AND priority = p_priority;
  IF NOT FOUND THEN INSERT INTO holdfast.queue_times (queue, kind, priority, pass, walked) VALUES (p_queue, p_kind, p_priority, p_pass, p_walked); END IF;
  -- Idle keys that are not ahead of the others need no row.
  DELETE FROM holdfast.queue_keys k WHERE k.ctid = ANY (ARRAY (SELECT x.ctid FROM holdfast.queue_keys x
    WHERE x.queue = p_queue AND x.kind = p_kind AND NOT x.ready AND x.priority = p_priority AND x.pass <= p_pass AND x.wake_at IS NULL LIMIT 1000));
END $$;

-- The end of a claim. If nothing waits any more all keys are equal again. Q4: starts that are in no window any more go.
CREATE FUNCTION holdfast.end_claim_1(q holdfast.queues, p_kind text, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_kinds text[] := CASE p_kind WHEN 'runs' THEN ARRAY['runs', 'starts'] ELSE ARRAY[p_kind] END;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM holdfast.queue_keys k WHERE k.queue = q.name AND k.kind = ANY (v_kinds) AND k.ready)
      AND NOT EXISTS (SELECT 1 FROM holdfast.queue_keys k WHERE k.queue = q.name AND k.kind = ANY (v_kinds) AND k.wake_at IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM holdfast.queue_times k WHERE k.queue = q.name AND k.kind = ANY (v_kinds) AND k.walked <> '') THEN
    DELETE FROM holdfast.queue_keys WHERE queue = q.name AND kind = ANY (v_kinds);
    DELETE FROM holdfast.queue_times WHERE queue = q.name AND kind = ANY (v_kinds);
  END IF;
  IF q.longest_per IS NOT NULL THEN
    DELETE FROM holdfast.queue_starts s WHERE s.ctid = ANY (ARRAY (SELECT x.ctid FROM holdfast.queue_starts x
      WHERE x.queue = q.name AND x.kind = p_kind AND x.at <= p_now - q.longest_per LIMIT 1000));
  END IF;
END $$;

-- K6: ends runs at once, without a look at their messages.

-- K6. p_runs: r run id, e the error. Runs whose end reaches no other run end together, the others after them, one by one.
CREATE FUNCTION holdfast.terminate_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_runs text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_ids text[];
  v_errors text[];
  v_alone bigint[];
  v_results jsonb[];
  v_item record;
  v_run holdfast.runs;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  SELECT array_agg(t.r ORDER BY t.i), array_agg(t.e ORDER BY t.i) INTO v_ids, v_errors
    FROM ROWS FROM (json_to_recordset(p_runs::json) AS (r text, e text)) WITH ORDINALITY AS t(r, e, i);
  PERFORM holdfast.lock_runs_1(ARRAY[]::text[], v_ids);
  v_alone := holdfast.find_alone_1(v_ids);
  PERFORM holdfast.end_alone_1(v_alone, 'terminated', v_errors, v_now);
  FOR v_item IN SELECT t.r, t.e, t.i, v_alone[t.i] IS NOT NULL AS is_done FROM unnest(v_ids, v_errors) WITH ORDINALITY AS t(r, e, i) ORDER BY t.i LOOP
    IF v_item.is_done THEN v_results[v_item.i] := '{"s":"sent","i":0}'; CONTINUE; END IF;
    SELECT * INTO v_run FROM holdfast.runs WHERE id = v_item.r;
    IF NOT FOUND THEN v_results[v_item.i] := '{"s":"not-found"}';
    ELSIF v_run.finished_at IS NOT NULL THEN v_results[v_item.i] := jsonb_build_object('s', 'closed', 'r', v_run.status);
    ELSE
      IF v_run.has_next THEN PERFORM holdfast.drop_next_1(v_run.key, v_run.id, 'terminated'); END IF;
      PERFORM holdfast.close_run_1(v_run.key, 'terminated', NULL, v_item.e, false, v_now);
      v_results[v_item.i] := '{"s":"sent","i":0}';
    END IF;
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, to_jsonb(v_results)::text);
END $$;

-- D10, V3, V4: another try for failed and blocked runs, a wake-up for those that wait.

-- D10, another try for a blocked run (V4), or a wake-up for one that waits (V3). The run is locked.
CREATE FUNCTION holdfast.resume_run_1(p_run bigint, p_now bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run;
  IF v_run.status = 'blocked' THEN
    UPDATE holdfast.runs SET available_at = least(available_at, p_now) WHERE key = p_run;
    RETURN 'resumed';
  END IF;
  IF v_run.finished_at IS NULL AND v_run.status <> 'pending' THEN
    IF v_run.worker_id IS NULL THEN UPDATE holdfast.runs SET available_at = least(available_at, p_now) WHERE key = p_run; END IF;
    RETURN 'woken';
  END IF;
  IF v_run.status <> 'failed' OR NOT v_run.resumable OR v_run.turns = 0 THEN RETURN 'not-resumable'; END IF;
  -- Q2: it needs a slot again. Its queue may have become a plain one since; while that is changed the call is repeated.
  IF v_run.lane < 0 AND v_run.work_key IS NULL THEN
    IF NOT pg_try_advisory_xact_lock_shared(hashtextextended('holdfast.queues' || v_run.queue, 0)) THEN RAISE EXCEPTION 'queue-changed' USING ERRCODE = '40001'; END IF;
    IF NOT EXISTS (SELECT 1 FROM holdfast.queues q WHERE q.name = v_run.queue AND (q.limits IS NOT NULL OR q.paused)) THEN v_run.lane := -v_run.lane; END IF;
  END IF;
  UPDATE holdfast.runs SET status = 'sleeping', ended_as = NULL, attempt = attempt + 1, error = NULL, output = NULL, finished_at = NULL, remove_at = NULL,
      available_at = p_now, lane = v_run.lane, held = false, under = false WHERE key = p_run;
  PERFORM holdfast.put_1(p_run,
    jsonb_build_object('y', 'resume', 'd', json_build_object('attempt', v_run.attempt + 1, 'voids', '[]'::json)::text), p_now);
  RETURN 'resumed';
END $$;

CREATE FUNCTION holdfast.resume_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_ids text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_results jsonb := '[]';
  v_id text;
  v_key bigint;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  PERFORM holdfast.lock_runs_1(ARRAY (SELECT * FROM json_array_elements_text(p_ids::json)), ARRAY[]::text[]);
  FOR v_id IN SELECT * FROM json_array_elements_text(p_ids::json) LOOP
    SELECT key INTO v_key FROM holdfast.runs WHERE id = v_id;
    v_results := v_results || to_jsonb(CASE WHEN FOUND THEN holdfast.resume_run_1(v_key, v_now) ELSE 'not-found' END);
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, v_results::text);
END $$;

-- K7: runs whose deadline has passed.

-- K7. p_runs: r run id, e the error that it fails with, n now: its deadline has not passed, but can't be met any more. Answers with how many were ended (n) and which are left (b): another transaction has
-- locked them, or runs that their end would reach; with p_wait for longer than a moment.
CREATE FUNCTION holdfast.expire_runs_1(p_now bigint, p_runs text, p_wait boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_count integer := 0;
  v_busy text[];
  v_free bigint[] := holdfast.lock_free_1('{}', ARRAY (SELECT r FROM json_to_recordset(p_runs::json) AS t(r text)), p_wait);
  v_item record;
  v_run holdfast.runs;
BEGIN
  FOR v_item IN SELECT * FROM json_to_recordset(p_runs::json) AS t(r text, e text, n boolean) LOOP
    SELECT * INTO v_run FROM holdfast.runs WHERE id = v_item.r AND (deadline_at <= v_now OR v_item.n) AND finished_at IS NULL AND NOT expired;
    IF NOT FOUND THEN CONTINUE; END IF;
    IF v_run.key <> ALL (v_free) THEN
      v_busy := v_busy || v_item.r;
      CONTINUE;
    END IF;
    v_count := v_count + 1;
    IF v_run.status = 'rolling_back' THEN
      -- S1: what it undoes is exempt.
      UPDATE holdfast.runs SET expired = true WHERE key = v_run.key;
    ELSIF v_run.rollbacks = 0 THEN
      PERFORM holdfast.close_run_1(v_run.key, 'failed', NULL, v_item.e, false, v_now);
    ELSE
      PERFORM holdfast.count_turns_1(v_run.key);
      UPDATE holdfast.runs SET expired = true, epoch = epoch + 1, worker_id = NULL,
          available_at = CASE status WHEN 'blocked' THEN available_at ELSE least(available_at, v_now) END,
          status = CASE status WHEN 'running' THEN 'sleeping' ELSE status END WHERE key = v_run.key;
      PERFORM holdfast.put_1(v_run.key, jsonb_build_object('y', 'expire', 'd', '{"error":' || v_item.e || '}'), v_now);
    END IF;
  END LOOP;
  RETURN json_build_object('n', v_count, 'b', v_busy)::text;
END $$;

-- L4, R11: deletes the records that a loop or a receive has left behind.

-- L4, R11: deletes what the commit of a scope has left behind, as the core's \`trimmed\` does. p_trims: seq and unit of the scope, p the
-- position of its commit in the turn, trim the first iteration or dispatch whose records stay. Returns how many records are gone.
CREATE FUNCTION holdfast.trim_records_1(p_run bigint, p_execution integer, p_turn integer, p_trims jsonb) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_trim record;
  v_turn integer;
  v_position integer;
  v_gone integer[];
  v_opened integer[];
  v_consumed text[];
  v_total integer := 0;
  v_count integer;
  v_facts holdfast.records[];
  v_seqs integer[];
BEGIN
  FOR v_trim IN SELECT * FROM jsonb_to_recordset(p_trims) AS x(seq integer, unit text, p integer, trim integer) LOOP
    -- Where the scope was opened: all that it leaves behind came after that.
    SELECT turn, position INTO v_turn, v_position FROM holdfast.records
      WHERE run = p_run AND execution = p_execution AND seq = v_trim.seq AND n IS NOT NULL AND direction = 'command' ORDER BY turn, position LIMIT 1;
    IF NOT FOUND THEN v_turn := p_turn; v_position := v_trim.p; END IF;
    WITH before AS (
      SELECT seq, n, type, refs, (turn, position) > (v_turn, v_position) AND seq IS DISTINCT FROM v_trim.seq
          OR (turn, position) > (v_turn, v_position) AND n IS NULL AS beneath,
        CASE WHEN starts_with(unit, v_trim.unit || '/')
          THEN substring(substr(unit, length(v_trim.unit) + 2) FROM '^~h?([0-9]+)')::numeric < v_trim.trim END AS past
      FROM holdfast.records WHERE run = p_run AND execution = p_execution AND direction = 'command' AND (turn, position) < (p_turn, v_trim.p)
    ), gone AS (
      SELECT seq FROM before WHERE beneath AND n IS NOT NULL AND past
    )
    SELECT ARRAY (SELECT seq FROM gone),
      ARRAY (SELECT seq FROM before WHERE n IS NOT NULL),
      ARRAY (SELECT unnest(b.refs) FROM before b
        WHERE b.beneath AND (b.type = 'dispatch' AND b.past OR b.type = 'settle' AND b.seq IN (SELECT seq FROM gone)))
    INTO v_gone, v_opened, v_consumed;
    WITH dropped AS (
      DELETE FROM holdfast.records r WHERE run = p_run AND execution = p_execution AND (
        direction = 'turn'
        OR direction = 'job' AND turn <= p_turn AND CASE
          WHEN type IN ('fire', 'resolve', 'childStarted') THEN seq = ANY (v_gone) OR seq > v_trim.seq AND seq <> ALL (v_opened)
          WHEN type IN ('signal', 'update') THEN refs[1] = ANY (v_consumed)
          ELSE false END
        OR direction = 'command' AND (turn, position) < (p_turn, v_trim.p) AND CASE
          WHEN n IS NOT NULL THEN seq = ANY (v_gone)
          WHEN type = 'commit' THEN seq = ANY (v_gone) OR seq = v_trim.seq
          WHEN type IN ('dispatch', 'handlerFailed') THEN (turn, position) > (v_turn, v_position) AND starts_with(unit, v_trim.unit || '/')
            AND substring(substr(unit, length(v_trim.unit) + 2) FROM '^~h?([0-9]+)')::numeric < v_trim.trim
          WHEN type IN ('acceptUpdate', 'completeUpdate') THEN seq = ANY (v_gone) OR refs[1] = ANY (v_consumed)
          ELSE seq = ANY (v_gone) END)
      RETURNING r.*
    )
    SELECT count(*) FILTER (WHERE d.direction <> 'turn'), array_agg(ROW (d.*)::holdfast.records) FILTER (WHERE d.history_length IS NOT NULL),
      array_agg(d.seq) FILTER (WHERE d.n IS NOT NULL)
    INTO v_count, v_facts, v_seqs FROM dropped d;
    v_total := v_total + v_count;
    -- What belongs to a turn as a whole outlives its first row.
    UPDATE holdfast.records r SET time = f.time, history_length = f.history_length, worker = f.worker, state = f.state FROM unnest(v_facts) f
      WHERE r.run = p_run AND r.execution = p_execution AND r.turn = f.turn
        AND r.position = (SELECT min(q.position) FROM holdfast.records q WHERE q.run = p_run AND q.execution = p_execution AND q.turn = f.turn);
    DELETE FROM holdfast.attempts WHERE run = p_run AND execution = p_execution AND seq = ANY (v_seqs);
  END LOOP;
  RETURN v_total;
END $$;

-- The history that a fork begins with, in the transaction that creates its run (F1): records, the workers and attempts of their operations
-- (D12), used keys (M3), the state at the cut. The records are text inside of it: json is faster to read than jsonb.

CREATE FUNCTION holdfast.copy_history_1(p_run bigint, p_copied jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  -- In their order: records have a place in this list.
  v_workers integer[] := ARRAY (SELECT (SELECT w.key FROM holdfast.workers w WHERE w.id = o.id)
    FROM jsonb_array_elements_text(p_copied -> 'workers') WITH ORDINALITY AS o(id, i) ORDER BY o.i);
BEGIN
  INSERT INTO holdfast.records (run, execution, turn, position, direction, type, seq, n, worker, time, history_length, unit, name, refs, data, value, state)
    SELECT p_run, 1, r.t, r.p, r.k, r.y, r.q, r.n, v_workers[r.w], r.c, r.h, r.u, r.m, r.f, r.d, r.v, r.s
    FROM json_to_recordset((p_copied ->> 'records')::json) AS r(t integer, p integer, k text, y text, q integer, n integer, w integer, c bigint, h integer, u text, m text, f text[], d text, v text, s text);
  INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
    SELECT p_run, 1, a.seq, a.number, coalesce(a.task, false), a.status, a.worker, a.started, a.ended, a.retry, a.error
    FROM jsonb_to_recordset(p_copied -> 'attempts') AS a(seq integer, number integer, task boolean, status text, worker text, started bigint, ended bigint, retry bigint, error text);
  INSERT INTO holdfast.message_keys (run, key, inbox_id) SELECT p_run, k.key, 0 FROM jsonb_array_elements_text(p_copied -> 'keys') AS k(key);
  IF p_copied ->> 'state' IS NOT NULL THEN INSERT INTO holdfast.states (run, state) VALUES (p_run, p_copied ->> 'state'); END IF;
  UPDATE holdfast.runs SET status = CASE WHEN (p_copied ->> 'turns')::integer = 0 THEN 'pending' ELSE 'sleeping' END, turns = (p_copied ->> 'turns')::integer, history_length = (p_copied ->> 'length')::integer,
    attempt = (p_copied ->> 'attempt')::integer, rollbacks = (p_copied ->> 'rollbacks')::integer WHERE key = p_run;
END $$;

-- New runs, and what happens when a run of that id or key exists: D2 (all or nothing), M3, M8.

-- New runs whose ids are free, all at once; returns the others, which go one by one.
CREATE FUNCTION holdfast.create_children_1(p_runs jsonb, p_now bigint) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_keys bigint[];
  v_inserted bigint[];
BEGIN
  IF EXISTS (SELECT 1 FROM jsonb_array_elements(p_runs) AS o(run) WHERE o.run ? 'ikey' OR o.run ? 'origin' OR o.run ? 'messages' OR o.run ? 'first' OR o.run #> '{parent,announce}' = 'true') THEN
    -- One of them comes with more than itself: their order is kept.
    RETURN QUERY SELECT o.run FROM jsonb_array_elements(p_runs) AS o(run);
    RETURN;
  END IF;
  WITH new AS MATERIALIZED (
    SELECT o.*, nextval('holdfast.run_keys') AS key
    FROM ROWS FROM (jsonb_to_recordset(p_runs) AS (id text, workflow text, version text, queue text, priority integer, lane integer, "startAt" bigint,
      delay bigint, deadline bigint, "deadlineAt" bigint, retry text, attributes jsonb, parent jsonb)) WITH ORDINALITY
      AS o(id, workflow, version, queue, priority, lane, "startAt", delay, deadline, "deadlineAt", retry, attributes, parent, i)
  ), inserted AS (
    INSERT INTO holdfast.runs (key, id, workflow, version, queue, priority, lane, status, available_at, created_at, deadline_at, attributes, retry,
        parent_id, parent_execution, parent_seq, parent_close, parent_announce)
      SELECT key, id, workflow, version, queue, priority, lane, 'pending', coalesce("startAt", p_now + coalesce(delay, 0)), p_now,
        coalesce("deadlineAt", p_now + deadline), attributes, retry, parent ->> 'runId', (parent ->> 'execution')::integer, (parent ->> 'seq')::integer,
        parent ->> 'parentClose', (parent ->> 'announce')::boolean
      FROM new ORDER BY id COLLATE "C" ON CONFLICT DO NOTHING RETURNING key
  )
  SELECT array_agg(n.key ORDER BY n.i), (SELECT array_agg(key) FROM inserted) INTO v_keys, v_inserted FROM new n;
  IF cardinality(v_inserted) IS DISTINCT FROM cardinality(v_keys) THEN
    v_keys := ARRAY (SELECT CASE WHEN k.key = ANY (v_inserted) THEN k.key ELSE 0 END FROM unnest(v_keys) WITH ORDINALITY AS k(key, i) ORDER BY k.i);
  END IF;
  INSERT INTO holdfast.executions (run, execution, workflow, version, seed, input)
    SELECT v_keys[o.i], 1, o.workflow, o.version, o.seed, o.input
    FROM ROWS FROM (jsonb_to_recordset(p_runs) AS (workflow text, version text, seed text, input text)) WITH ORDINALITY AS o(workflow, version, seed, input, i)
    WHERE v_keys[o.i] <> 0;
  RETURN QUERY SELECT o.run FROM jsonb_array_elements(p_runs) WITH ORDINALITY AS o(run, i) WHERE v_keys[o.i] = 0;
END $$;

-- The parent learns that its child exists.
CREATE FUNCTION holdfast.announce_1(p_id text, p_parent jsonb, p_now bigint) RETURNS void LANGUAGE sql AS $$
  SELECT holdfast.answer_1(p_parent ->> 'runId', (p_parent ->> 'execution')::integer,
    jsonb_build_object('y', 'childStarted', 'q', p_parent -> 'seq', 'd', json_build_object('runId', p_id)::text), p_now)
$$;

-- Q10: the open run that a run of this id has to wait for, whose row says from now on that it is awaited. Null: it is closed or unknown, or
-- waits for this run itself. Its row is locked: it can't close meanwhile. In a caller's transaction it is not, since its worker must be able to
-- go on: mail tells it, once that has committed.
CREATE FUNCTION holdfast.await_run_1(p_run text, p_after text, p_now bigint, p_caller boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_next text;
BEGIN
  IF p_after IS NULL OR p_after = p_run THEN RETURN NULL; END IF;
  IF p_caller THEN SELECT * INTO v_run FROM holdfast.runs WHERE id = p_after AND finished_at IS NULL;
  ELSE SELECT * INTO v_run FROM holdfast.runs WHERE id = p_after AND finished_at IS NULL FOR NO KEY UPDATE NOWAIT;
  END IF;
  IF NOT FOUND THEN RETURN NULL; END IF;
  -- A circle needs a run that waits for this one: a new run has none, however long the line is that it joins.
  IF EXISTS (SELECT 1 FROM holdfast.runs WHERE after_id = p_run) THEN
    v_next := v_run.after_id;
    WHILE v_next IS NOT NULL LOOP
      IF v_next = p_run THEN RETURN NULL; END IF;
      v_next := (SELECT after_id FROM holdfast.runs WHERE id = v_next);
    END LOOP;
  END IF;
  IF p_caller THEN INSERT INTO holdfast.mail (run_id, posted_at, message) VALUES (p_after, p_now, '{"y":"await"}');
  ELSIF NOT v_run.awaited THEN UPDATE holdfast.runs SET awaited = true WHERE key = v_run.key; END IF;
  RETURN p_after;
END $$;

-- B4: a closed child whose parent was removed, which its workflow does not keep forever.
CREATE FUNCTION holdfast.is_orphan_1(p_run holdfast.runs, p_workflow text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT p_run.finished_at IS NOT NULL AND p_run.parent_id IS NULL AND p_run.parent_close IS NOT NULL AND p_run.workflow = p_workflow
    AND coalesce(p_run.retention, 0) >= 0
$$;

-- One new run, with everything that can come with it. p_caller: in a caller's transaction. Answers with s status, x execution, b inbox ids, r status and w workflow of the run in the way.
CREATE FUNCTION holdfast.create_run_1(p_run jsonb, p_now bigint, p_caller boolean DEFAULT false) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  n record;
  v_run holdfast.runs;
  v_key bigint;
  v_at bigint;
  v_after text;
  v_deadline bigint;
  v_status text := 'created';
  v_execution integer := 1;
  v_closed boolean;
  v_message jsonb;
  v_inbox jsonb := '[]';
BEGIN
  SELECT * INTO n FROM jsonb_to_record(p_run) AS x(id text, workflow text, version text, queue text, priority integer, lane integer, input text, seed text,
    "startAt" bigint, delay bigint, deadline bigint, "deadlineAt" bigint, retry text, attributes jsonb, ikey text, conflict text, parent jsonb,
    messages jsonb, first jsonb, origin jsonb, copied jsonb, "replacesOrphan" boolean);
  v_at := holdfast.start_time_1(p_run, p_now, p_now);
  v_deadline := coalesce(n."deadlineAt", p_now + n.deadline);
  IF n.ikey IS NOT NULL THEN
    SELECT * INTO v_run FROM holdfast.runs WHERE key = (SELECT run FROM holdfast.start_keys WHERE workflow = n.workflow AND key = n.ikey);
    -- The same call, made again: its messages are there.
    IF FOUND THEN RETURN jsonb_build_object('s', 'existing', 'id', v_run.id, 'x', v_run.execution); END IF;
  END IF;
  SELECT * INTO v_run FROM holdfast.runs WHERE id = n.id;
  IF FOUND AND n."replacesOrphan" AND holdfast.is_orphan_1(v_run, n.workflow) THEN
    -- B4: an earlier parent of the same id has left it. One that has begun again since it was looked at is no longer one.
    PERFORM 1 FROM holdfast.runs x WHERE x.key = v_run.key AND holdfast.is_orphan_1(x, n.workflow) FOR UPDATE NOWAIT;
    IF NOT FOUND OR cardinality(holdfast.remove_runs_1(ARRAY[v_run.key], false)) = 0 THEN RAISE EXCEPTION 'orphan-changed' USING ERRCODE = '40001'; END IF;
    v_run := NULL;
  END IF;
  IF v_run.key IS NOT NULL THEN
    v_closed := v_run.finished_at IS NOT NULL;
    v_key := v_run.key;
    IF n.conflict = 'reject' OR v_run.workflow <> n.workflow OR n.conflict <> 'reopen' AND n.parent IS NOT NULL AND NOT v_closed OR (n.messages IS NOT NULL AND v_closed AND n.conflict = 'use-existing')
        OR n.conflict = 'reopen' AND (n.parent IS NULL OR (v_run.parent_id, v_run.parent_execution, v_run.parent_seq)
          IS DISTINCT FROM (n.parent ->> 'runId', (n.parent ->> 'execution')::integer, (n.parent ->> 'seq')::integer)) THEN
      RETURN jsonb_build_object('s', 'conflict', 'r', v_run.status, 'w', v_run.workflow);
    END IF;
    IF n.conflict = 'reopen' AND (n.parent ->> 'announce')::boolean AND (NOT v_closed OR v_run.status = 'completed' OR v_run.status = 'failed' AND v_run.resumable AND v_run.turns > 0) THEN
      PERFORM holdfast.announce_1(n.id, n.parent, p_now);
    END IF;
    IF v_closed AND n.conflict = 'reopen' THEN
      -- D10: the parent goes on after a failure, and with it this child.
      IF v_run.status = 'completed' THEN
        PERFORM holdfast.answer_1(v_run.parent_id, v_run.parent_execution,
          jsonb_build_object('y', 'resolve', 'q', v_run.parent_seq, 'v', coalesce(v_run.output, '{"$undefined":true}')), p_now);
        RETURN jsonb_build_object('s', 'existing', 'x', v_run.execution);
      END IF;
      PERFORM 1 FROM holdfast.runs WHERE key = v_run.key FOR NO KEY UPDATE NOWAIT;
      IF holdfast.resume_run_1(v_run.key, p_now) = 'resumed' THEN RETURN jsonb_build_object('s', 'created', 'x', v_run.execution); END IF;
    END IF;
    IF v_closed AND n.conflict IN ('restart-if-closed', 'reopen', 'replace', 'debounce') THEN
      SELECT * INTO v_run FROM holdfast.runs WHERE key = v_run.key AND finished_at IS NOT NULL FOR NO KEY UPDATE NOWAIT;
      IF NOT FOUND THEN RAISE EXCEPTION 'run-restarted' USING ERRCODE = '40001'; END IF;
      DELETE FROM holdfast.inbox WHERE run = v_run.key;
      PERFORM holdfast.begin_start_1(v_run.key, p_run, v_at, p_now, p_now, p_caller);
      v_execution := v_run.execution + 1;
    ELSIF n.conflict IN ('replace', 'debounce') AND p_caller THEN
      -- A worker may have it: it gets this start by mail, once the caller's transaction has committed.
      INSERT INTO holdfast.mail (run_id, posted_at, message) VALUES (n.id, p_now, jsonb_build_object('y', 'start',
        'start', p_run - ARRAY['delay', 'deadline'] || jsonb_build_object('startAt', coalesce(n."startAt", p_now + coalesce(n.delay, 0)), 'deadlineAt', v_deadline)));
      RETURN jsonb_build_object('s', 'existing', 'x', v_run.execution);
    ELSE
      v_status := 'existing';
      v_execution := v_run.execution;
    END IF;
  ELSE
    v_key := nextval('holdfast.run_keys');
    v_after := holdfast.await_run_1(n.id, n.origin ->> 'after', p_now, p_caller);
    INSERT INTO holdfast.runs (key, id, workflow, version, queue, priority, lane, status, available_at, worker_id, lease, epoch, created_at, started_at, deadline_at,
        attributes, retry, parent_id, parent_execution, parent_seq, parent_close, parent_announce, work_key, schedule, tick, forked_from, after_id,
        not_before, retention)
      VALUES (v_key, n.id, n.workflow, n.version, n.queue, n.priority, n.lane, CASE WHEN n.first IS NULL THEN 'pending' ELSE 'running' END,
        CASE WHEN v_after IS NOT NULL THEN NULL WHEN n.first IS NULL THEN v_at ELSE p_now + (n.first ->> 'lease')::bigint END, n.first ->> 'worker', (n.first ->> 'lease')::bigint,
        CASE WHEN n.first IS NULL THEN 0 ELSE 1 END, p_now, CASE WHEN n.first IS NOT NULL THEN p_now END, v_deadline, n.attributes, n.retry,
        n.parent ->> 'runId', (n.parent ->> 'execution')::integer, (n.parent ->> 'seq')::integer, n.parent ->> 'parentClose',
        (n.parent ->> 'announce')::boolean, n.origin ->> 'key', n.origin ->> 'schedule', (n.origin ->> 'tick')::bigint, n.origin ->> 'from',
        v_after, CASE WHEN v_after IS NOT NULL THEN v_at END, (n.origin ->> 'retention')::bigint)
      ON CONFLICT DO NOTHING;
    -- Another transaction was first: the next try finds the run.
    IF NOT FOUND THEN RAISE EXCEPTION 'run-created' USING ERRCODE = '40001'; END IF;
    INSERT INTO holdfast.executions (run, execution, workflow, version, seed, input) VALUES (v_key, 1, n.workflow, n.version, n.seed, n.input);
    IF n.copied IS NOT NULL THEN PERFORM holdfast.copy_history_1(v_key, n.copied); END IF;
  END IF;
  IF n.ikey IS NOT NULL THEN
    INSERT INTO holdfast.start_keys (workflow, key, run) VALUES (n.workflow, n.ikey, v_key) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RAISE EXCEPTION 'key-used' USING ERRCODE = '40001'; END IF;
  END IF;
  IF v_status = 'existing' AND n.conflict IN ('replace', 'debounce') THEN RETURN holdfast.supersede_1(p_run, p_now); END IF;
  IF v_status = 'created' AND (n.parent ->> 'announce')::boolean THEN PERFORM holdfast.announce_1(n.id, n.parent, p_now); END IF;
  IF n.messages IS NOT NULL THEN
    FOR v_message IN SELECT * FROM jsonb_array_elements(n.messages) LOOP
      v_inbox := v_inbox || coalesce(holdfast.deliver_1(n.id, v_message, p_now) -> 'i', '0');
    END LOOP;
  END IF;
  IF n.first IS NOT NULL AND v_status = 'created' THEN PERFORM holdfast.commit_turn_1(n.first -> 'commit', p_now); END IF;
  RETURN jsonb_build_object('s', v_status, 'x', v_execution, 'b', v_inbox);
END $$;

-- New runs. p_runs: those that come alone or with a usual first turn, each of another id, numbered from 1; p_records, p_states: of their
-- turns; p_others: those that go one by one, after them. With a channel it notifies others when its transaction commits. p_changes: as
-- may_begin_1 takes it; if one of the runs that come with a first turn may not begin, nothing is written, and the answer says so.
CREATE FUNCTION holdfast.create_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_runs text, p_records text, p_states text,
  p_others text, p_touched text, p_ending text, p_channel text, p_notice text, p_changes bigint)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint;
  v_answer text;
  v_runs json := p_runs::json;
  -- A fork brings its whole history: it is read once.
  v_others jsonb := p_others::jsonb;
  v_keys bigint[] := '{}';
  v_inserted bigint[];
  v_met json;
  v_item jsonb;
  v_busy jsonb[] := '{}';
  v_results jsonb;
BEGIN
  UPDATE holdfast.calls SET token = p_token, answer = NULL, at = now() WHERE instance = p_instance AND slot = p_slot AND token < p_token;
  IF NOT FOUND THEN
    v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token);
    IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  END IF;
  IF p_changes IS NOT NULL AND EXISTS (SELECT 1 FROM (
      SELECT r.queue FROM json_to_recordset(v_runs) AS r(queue text, w text) WHERE r.w IS NOT NULL
      UNION SELECT r.queue FROM jsonb_to_recordset(v_others) AS r(queue text, first jsonb) WHERE r.first IS NOT NULL) b WHERE NOT holdfast.may_begin_1(b.queue, p_changes)) THEN
    RETURN holdfast.end_call_1(p_instance, p_slot, '{"filed":true}');
  END IF;
  -- D3: a call that waits longer for a lock is rejected as busy. In a caller's transaction the caller's lock_timeout applies.
  IF p_slot IS NOT NULL THEN PERFORM set_config('lock_timeout', '1s', true); END IF;
  IF p_touched IS NOT NULL THEN
    PERFORM holdfast.lock_runs_1(
      ARRAY (SELECT * FROM json_array_elements_text(p_touched::json)), ARRAY (SELECT * FROM json_array_elements_text(p_ending::json)));
  END IF;
  v_now := holdfast.clock_1(p_now);
  IF p_runs IS NOT NULL THEN
    -- Keys in the order of the batch, rows in the order of ids: two batches with the same ids can't wait for each other.
    WITH new AS MATERIALIZED (
      SELECT o.*, nextval('holdfast.run_keys') AS key FROM (
        SELECT * FROM json_to_recordset(v_runs) AS r(i integer, id text, workflow text, version text, queue text, priority integer, lane integer, "startAt" bigint, delay bigint, deadline bigint, "deadlineAt" bigint, retry text, attributes jsonb, s text, w text, l bigint, t integer, n integer, rb integer, wf text) ORDER BY i) o
    ), inserted AS (
      INSERT INTO holdfast.runs (key, id, workflow, version, queue, priority, lane, status, available_at, worker_id, lease, epoch, created_at, started_at, deadline_at, attributes, retry, turns, history_length, rollbacks, waiting_for) SELECT key, id, workflow, version, queue, priority, lane, coalesce(s, 'pending'),
          CASE WHEN w IS NULL THEN coalesce("startAt", v_now + coalesce(delay, 0)) ELSE v_now + l END, w, l,
          CASE WHEN w IS NULL THEN 0 ELSE 1 END, v_now, CASE WHEN w IS NOT NULL THEN v_now END,
          coalesce("deadlineAt", v_now + deadline), attributes, retry, coalesce(t, 0), coalesce(n, 0), coalesce(rb, 0), wf
        FROM new ORDER BY id ON CONFLICT DO NOTHING RETURNING key
    )
    SELECT array_agg(n.key ORDER BY n.i), (SELECT array_agg(i.key) FROM inserted i) INTO v_keys, v_inserted FROM new n;
    IF cardinality(v_inserted) IS DISTINCT FROM cardinality(v_keys) THEN
      v_keys := ARRAY (SELECT CASE WHEN k.key = ANY (v_inserted) THEN k.key ELSE 0 END FROM unnest(v_keys) WITH ORDINALITY AS k(key, i) ORDER BY k.i);
    END IF;
    INSERT INTO holdfast.executions (run, execution, workflow, version, seed, input)
      SELECT v_keys[r.i], 1, r.workflow, r.version, r.seed, r.input
      FROM json_to_recordset(v_runs) AS r(i integer, workflow text, version text, seed text, input text) WHERE v_keys[r.i] <> 0;
  END IF;
  IF p_runs IS NOT NULL THEN
    IF p_records IS NOT NULL THEN
      INSERT INTO holdfast.records (run, execution, turn, position, direction, type, seq, n, worker, time, history_length, unit, name, refs, data, value, state)
        SELECT v_keys[r.i], r.x, r.t, r.p, r.k, r.y, r.q, r.n, r.w, r.c, r.h, r.u, r.m, r.f, r.d, r.v, r.s FROM json_to_recordset(p_records::json) AS r(i integer, x integer, t integer, p integer, k text, y text, q integer, n integer, w integer, c bigint, h integer, u text, m text, f text[], d text, v text, s text) WHERE v_keys[r.i] <> 0;
    END IF;
    IF p_states IS NOT NULL THEN
      INSERT INTO holdfast.states (run, state)
        SELECT v_keys[r.i], r.state FROM json_to_recordset(p_states::json) AS r(i integer, state text) WHERE v_keys[r.i] <> 0;
    END IF;
    IF 0 = ANY (v_keys) THEN
      SELECT json_agg(json_build_array(r.i, r.conflict, e.execution, e.status, e.workflow)) INTO v_met
        FROM json_to_recordset(v_runs) AS r(i integer, id text, conflict text) CROSS JOIN LATERAL (SELECT * FROM holdfast.runs x WHERE x.id = r.id OFFSET 0) e
        WHERE v_keys[r.i] = 0;
    END IF;
  END IF;
  IF p_others IS NOT NULL THEN
    v_results := '[]';
    -- Two batches with the same new keys, each in its own order, would wait for each other: first all keys, in one order for all. A
    -- transaction that uses one keeps it until it ends. In a caller's transaction the call waits for that; otherwise runs with free keys go on.
    FOR v_item IN SELECT DISTINCT jsonb_build_array(x -> 'workflow', x -> 'ikey') FROM jsonb_array_elements(v_others) x
        WHERE x ->> 'ikey' IS NOT NULL ORDER BY 1 LOOP
      IF p_slot IS NULL THEN PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.start_keys' || v_item::text, 0));
      ELSIF NOT pg_try_advisory_xact_lock(hashtextextended('holdfast.start_keys' || v_item::text, 0)) THEN v_busy := v_busy || v_item;
      END IF;
    END LOOP;
    FOR v_item IN SELECT * FROM jsonb_array_elements(v_others) LOOP
      v_results := v_results || CASE WHEN jsonb_build_array(v_item -> 'workflow', v_item -> 'ikey') = ANY (v_busy) THEN 'null'::jsonb ELSE holdfast.create_run_1(v_item, v_now, p_slot IS NULL) END;
    END LOOP;
  END IF;
  IF p_channel IS NOT NULL THEN PERFORM pg_notify(p_channel, p_notice); END IF;
  IF v_met IS NULL AND v_results IS NULL THEN RETURN '{}'; END IF;
  RETURN holdfast.end_call_1(p_instance, p_slot, json_build_object('met', v_met, 'others', v_results)::text);
END $$;

-- Turns of many runs in one call: D2 (all or nothing), D3 (each stands alone), D4 (a stale epoch writes nothing), D9 (parking and ending see
-- every message). The usual turn (records in, the row of the run changed) goes through a few statements for the whole batch; turns with
-- anything else go one by one (commit_turn_1). Rows are locked first, in order of id; each statement after that sees what is there then.
--
-- Plans are kept for as long as a connection lives, and may have been made when the tables were small. So rows are named by \`= ANY (array)\`,
-- or fetched one by one in a LATERAL with OFFSET 0: whatever the planner estimates, it uses an index.
--
-- p_numbers and p_places hold several numbers for each turn and record, in the order of sql/fragments.ts. The number of each place is written
-- by \`npm run sql\`, from the name beside it.

CREATE FUNCTION holdfast.inbox_after_1(p_run bigint, p_seen bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_array(id, type, seq, name, refs, data, value) ORDER BY id), '[]') FROM holdfast.inbox WHERE run = p_run AND id > p_seen
$$;

-- D9: does the inbox of a run hold something that the end of the run should have waited for: a cancellation, a signal of one of these names?
CREATE FUNCTION holdfast.is_late_1(p_run bigint, p_cancel boolean, p_signals text[], p_consumed bigint[]) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT 1 FROM holdfast.inbox b WHERE b.run = p_run
    AND (b.type = 'cancel' AND p_cancel OR b.type = 'signal' AND b.name = ANY (p_signals)) AND b.id <> ALL (coalesce(p_consumed, '{}')))
$$;

-- One turn of one run, with everything that a turn can have.
CREATE FUNCTION holdfast.commit_turn_1(p_commit jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  c record;
  v_run holdfast.runs;
  v_item jsonb;
  v_result jsonb;
  v_sent jsonb;
  v_gone integer := 0;
  v_child record;
  v_answer jsonb;
  v_mailed boolean;
  v_busy boolean;
BEGIN
  SELECT * INTO c FROM jsonb_to_record(p_commit) AS x(id text, x integer, e integer, t integer, n integer, s text, k boolean, wf text, wake bigint,
    seen bigint, rb integer, ra integer, er text, bc text, state text, attributes jsonb, removed text[], "turnIndex" integer, trims jsonb,
    records jsonb, attempts jsonb, consumed bigint[], updates jsonb, accepts text[], tasks jsonb, "cancelTasks" integer[], children jsonb,
    "cancelChildren" integer[], sends jsonb, close jsonb, h boolean, lc boolean, ls text[], rt bigint);
  SELECT * INTO v_run FROM holdfast.runs WHERE id = c.id FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND OR v_run.worker_id IS NULL OR v_run.epoch <> c.e OR v_run.execution <> c.x THEN RETURN '{"stale":true}'; END IF;
  IF c.h THEN
    PERFORM 1 FROM holdfast.runs WHERE key = v_run.key FOR UPDATE SKIP LOCKED;
    v_busy := NOT FOUND;
  END IF;
  IF c.ls IS NOT NULL OR c.h THEN v_mailed := holdfast.take_mail_1(ARRAY[c.id], p_now); END IF;
  IF c.ls IS NOT NULL AND (v_mailed OR v_run.last_message > 0) AND holdfast.is_late_1(v_run.key, c.lc, c.ls, c.consumed) THEN
    RETURN jsonb_build_object('late', true, 'inbox', holdfast.inbox_after_1(v_run.key, c.seen));
  END IF;
  IF v_busy THEN RETURN '{"busy":true}'; END IF;
  -- M8: the update was rejected meanwhile.
  IF c.accepts IS NOT NULL AND EXISTS (SELECT 1 FROM holdfast.updates WHERE run = v_run.key AND id = ANY (c.accepts) AND status IS NOT NULL) THEN
    RETURN '{"stale":true}';
  END IF;
  PERFORM holdfast.count_turns_1(v_run.key);
  IF c.records IS NOT NULL THEN
    INSERT INTO holdfast.records (run, execution, turn, position, direction, type, seq, n, worker, time, history_length, unit, name, refs, data, value, state) SELECT v_run.key, c.x, r.t, r.p, r.k, r.y, r.q, r.n, r.w, r.c, r.h, r.u, r.m, r.f, r.d, r.v, r.s FROM jsonb_to_recordset(c.records) AS r(t integer, p integer, k text, y text, q integer, n integer, w integer, c bigint, h integer, u text, m text, f text[], d text, v text, s text);
  END IF;
  IF c.trims IS NOT NULL THEN v_gone := holdfast.trim_records_1(v_run.key, c.x, c."turnIndex", c.trims); END IF;
  IF c.state IS NOT NULL THEN
    INSERT INTO holdfast.states (run, state) VALUES (v_run.key, c.state) ON CONFLICT (run) DO UPDATE SET state = excluded.state;
  END IF;
  IF c.attempts IS NOT NULL THEN
    INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
      SELECT v_run.key, c.x, a.seq, a.number, false, a.status, a.worker, a.started, a.ended, a.retry, a.error FROM jsonb_to_recordset(c.attempts) AS a(seq integer, number integer, status text, worker text, started bigint, ended bigint, retry bigint, error text)
      ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id,
  started_at = excluded.started_at, ended_at = excluded.ended_at, retry_at = excluded.retry_at, error = excluded.error;
  END IF;
  IF c.consumed IS NOT NULL THEN DELETE FROM holdfast.inbox WHERE run = v_run.key AND id = ANY (c.consumed); END IF;
  IF c.updates IS NOT NULL THEN
    WITH gone AS (DELETE FROM holdfast.updates WHERE run = v_run.key AND forget_at <= p_now)
    INSERT INTO holdfast.updates AS u (run, id, inbox_id, status, value, error)
      SELECT v_run.key, x.id, 0, x.status, x.value, x.error FROM jsonb_to_recordset(c.updates) AS x(id text, status text, value text, error text)
      ON CONFLICT (run, id) DO UPDATE SET status = excluded.status, value = excluded.value,
        error = excluded.error, forget_at = CASE WHEN u.keyless THEN p_now + 3600000 END WHERE u.status IS NULL;
  END IF;
  IF c.tasks IS NOT NULL THEN
    INSERT INTO holdfast.tasks (run, execution, seq, activity, queue, location, input, retry, start_to_close, schedule_to_close, schedule_to_start, heartbeat,
        max_attempts, initial_interval, backoff, max_interval, jitter, attempt, scheduled_at, available_at, due_at, lane, work_key, priority)
      SELECT v_run.key, c.x, x.seq, x.activity, x.queue, x.location, x.input, x.retry, x.stc, x.sc, x.ss, x.hb, x.ma, x.ii, x.bo, x.mi, x.ji,
        coalesce(x.at, 0), p_now, p_now, least(p_now + x.sc, p_now + x.ss), x.lane, x.wk, coalesce(x.pr, 0)
      FROM jsonb_to_recordset(c.tasks) AS x(seq integer, activity text, queue text, location text, input text, retry text, stc bigint, sc bigint, ss bigint, hb bigint, ma double precision, ii double precision, bo double precision, mi double precision, ji double precision, at integer, lane integer, wk text, pr integer);
  END IF;
  -- C7: also activities of this turn.
  IF c."cancelTasks" IS NOT NULL THEN PERFORM holdfast.drop_tasks_1(v_run.key, c."cancelTasks", p_now); END IF;
  IF c.children IS NOT NULL THEN
    FOR v_item IN SELECT holdfast.create_children_1(c.children, p_now) LOOP
      v_result := holdfast.create_run_1(v_item, p_now);
      IF v_result ->> 's' = 'conflict' THEN
        PERFORM holdfast.put_1(v_run.key, jsonb_build_object('y', 'resolve', 'q', coalesce(v_item #> '{parent,seq}', '0'),
          'd', '{"status":"failed","error":' || CASE WHEN v_result ->> 'w' = v_item ->> 'workflow' THEN holdfast.error_1('exists', v_item ->> 'id')
            ELSE holdfast.error_1('exists-other', v_item ->> 'id', v_result ->> 'w') END || '}'), p_now);
      END IF;
    END LOOP;
  END IF;
  IF c."cancelChildren" IS NOT NULL THEN
    FOR v_child IN SELECT key FROM holdfast.runs WHERE parent_id = v_run.id AND finished_at IS NULL AND parent_execution = c.x
        AND parent_seq = ANY (c."cancelChildren") ORDER BY key LOOP
      PERFORM holdfast.cancel_run_1(v_child.key, holdfast.cancel_message_1(holdfast.reason_1('given-up', v_run.id)), p_now);
    END LOOP;
  END IF;
  IF c.sends IS NOT NULL THEN
    v_sent := '[]';
    FOR v_item IN SELECT * FROM jsonb_array_elements(c.sends) LOOP
      v_result := holdfast.deliver_1(v_item ->> 'r', v_item, p_now);
      v_sent := v_sent || v_result;
      -- M12: the sender gets the outcome in its own inbox.
      PERFORM holdfast.put_1(v_run.key, jsonb_build_object('y', 'resolve', 'q', v_item -> 'seq') || CASE v_result ->> 's'
        WHEN 'not-found' THEN jsonb_build_object('d', '{"status":"failed","error":' || holdfast.error_1('not-found', v_item ->> 'r') || '}')
        WHEN 'closed' THEN jsonb_build_object('d', '{"status":"failed","error":' || holdfast.error_1('closed', v_item ->> 'r', v_result ->> 'r') || '}')
        ELSE jsonb_build_object('v', '{"$undefined":true}') END, p_now);
    END LOOP;
  END IF;
  IF c.attributes IS NOT NULL THEN
    UPDATE holdfast.runs SET attributes = (attributes || c.attributes) - c.removed WHERE key = v_run.key;
  END IF;
  IF c.rt IS NOT NULL THEN UPDATE holdfast.runs SET retention = c.rt WHERE key = v_run.key; END IF;
  v_answer := jsonb_build_object('sent', v_sent);
  IF c.close IS NOT NULL THEN
    -- Q9: mail may have brought it.
    IF v_mailed THEN SELECT has_next INTO v_run.has_next FROM holdfast.runs WHERE key = v_run.key; END IF;
    IF c.close ->> 'status' = 'continued' THEN
      PERFORM holdfast.continue_run_1(v_run.key, c.close -> 'next', p_now);
    ELSE
      PERFORM holdfast.close_run_1(v_run.key, c.close ->> 'status', c.close ->> 'output', c.close ->> 'error', (c.close ->> 'resumable')::boolean,
        p_now, c.t, c.n - v_gone, c.close -> 'unconsumed');
      IF v_run.has_next THEN v_answer := v_answer || '{"next":true}'; END IF;
    END IF;
    RETURN v_answer;
  END IF;
  UPDATE holdfast.runs SET status = c.s, waiting_for = c.wf, error = c.er, blocked_code = c.bc, attempt = coalesce(c.ra, attempt),
      rollbacks = coalesce(c.rb, rollbacks), turns = turns + c.t, history_length = history_length + c.n - v_gone,
      recoveries = CASE WHEN c.t > 0 THEN 0 ELSE recoveries END,
      parked_by = CASE WHEN c.k THEN parked_by ELSE worker_id END, worker_id = CASE WHEN c.k THEN worker_id END,
      available_at = CASE WHEN c.k THEN available_at
        WHEN EXISTS (SELECT 1 FROM holdfast.inbox WHERE run = v_run.key AND id > c.seen) THEN least(c.wake, p_now) ELSE c.wake END
    WHERE key = v_run.key RETURNING * INTO v_run;
  IF c.k THEN v_answer := v_answer || jsonb_build_object('inbox', holdfast.inbox_after_1(v_run.key, c.seen), 'length', v_run.history_length); END IF;
  RETURN v_answer || jsonb_build_object('due', v_run.worker_id IS NULL AND v_run.available_at <= p_now);
END $$;

-- Turns of many runs. The usual ones, each of another run, are numbered from 1, in order of id. p_ids, p_numbers: which they are, and of each
-- 10 numbers (see commitTurns.ts); p_turns: what else the rows of those get that don't just run on, as JSON.
-- p_places: 5 numbers of each record; p_types … p_states: its texts. p_more: what else the turns have (consumed messages, states, updates,
-- attempts); p_others: turns that go one by one, after them; p_touched, p_ending: ids of runs that those may reach, or end. The answer is
-- {} if all are committed and there is nothing else to answer. Of a run that can't end yet nothing is written (busy).
CREATE FUNCTION holdfast.commit_turns_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_ids text[], p_numbers bigint[], p_turns text,
  p_places integer[], p_types text[], p_units text[], p_names text[], p_refs text[], p_data text[], p_values text[], p_states text[], p_more text,
  p_others text, p_touched text, p_ending text)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_now bigint;
  v_answer text;
  v_more json := p_more::json;
  v_keys bigint[] := '{}';
  v_held bigint[];
  v_again integer[];
  v_open boolean;
  v_ended bigint[];
  v_hearing bigint[];
  v_free bigint[];
  v_busy integer[];
  v_left integer[];
  v_late integer[];
  v_turnless bigint[];
  v_news boolean;
  v_messages boolean;
  v_due boolean;
  v_inbox json;
  v_family integer[];
  v_told boolean;
  v_next integer[];
  v_item jsonb;
  v_results jsonb;
  v_result jsonb;
BEGIN
  UPDATE holdfast.calls SET token = p_token, answer = NULL, at = now() WHERE instance = p_instance AND slot = p_slot AND token < p_token;
  IF NOT FOUND THEN
    v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token);
    IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  END IF;
  -- Most runs that end have neither parent nor open children. That does not change meanwhile: only their own turns give them any. Nor does
  -- another run wait for them (Q10), or their next start for another (Q9): one that has just begun to is locked with NOWAIT.
  IF p_touched IS NOT NULL OR p_ending IS NOT NULL AND EXISTS (SELECT 1 FROM json_array_elements_text(p_ending::json) AS e(id)
      WHERE (SELECT x.parent_id IS NOT NULL OR x.awaited OR x.has_next FROM holdfast.runs x WHERE x.id = e.id)
        OR (SELECT 1 FROM holdfast.runs x WHERE x.parent_id = e.id AND x.finished_at IS NULL LIMIT 1) IS NOT NULL) THEN
    PERFORM holdfast.lock_runs_1(p_ids || ARRAY (SELECT * FROM json_array_elements_text(p_touched::json)),
      ARRAY (SELECT * FROM json_array_elements_text(p_ending::json)));
  END IF;
  -- D4: the turns that may write. Zero: this one may not.
  SELECT array_agg(coalesce(l.key, 0)), bool_or(l.last_message > p_numbers[t.i::integer * 10 - 7 /* seen */]), bool_or(l.last_message > 0),
      array_agg(t.i::integer) FILTER (WHERE NOT l.stays AND p_numbers[t.i::integer * 10 - 6 /* kind */] = 0),
      bool_or(p_numbers[t.i::integer * 10 - 6 /* kind */] IN (1, 2)),
      array_agg(l.key) FILTER (WHERE p_numbers[t.i::integer * 10 - 6 /* kind */] IN (3, 4)),
      array_agg(l.key) FILTER (WHERE p_numbers[t.i::integer * 10 - 6 /* kind */] = 4),
      array_agg(l.key) FILTER (WHERE p_numbers[t.i::integer * 10 - 4 /* index */] = -1)
    INTO v_keys, v_news, v_messages, v_again, v_open, v_ended, v_hearing, v_turnless
    FROM unnest(p_ids) WITH ORDINALITY AS t(id, i) LEFT JOIN LATERAL (
      SELECT r.key, r.last_message,
        r.status = 'running' AND p_numbers[t.i::integer * 10 - 5 /* rollbacks */] IN (-1, r.rollbacks) AND r.recoveries = 0 AND r.waiting_for IS NULL AND r.error IS NULL AND r.blocked_code IS NULL AS stays
      FROM holdfast.runs r WHERE r.id = t.id AND r.execution = p_numbers[t.i::integer * 10 - 9 /* execution */] AND r.epoch = p_numbers[t.i::integer * 10 - 8 /* epoch */] AND r.worker_id IS NOT NULL
      FOR NO KEY UPDATE
    ) l ON true;
  v_keys := coalesce(v_keys, '{}');
  v_held := v_keys;
  v_now := holdfast.clock_1(p_now);
  IF v_hearing IS NOT NULL THEN
    -- M1: a run can't end while a caller's transaction that has a signal for it is open (see post_mail_1).
    v_free := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (v_hearing) ORDER BY r.id FOR UPDATE SKIP LOCKED);
    SELECT array_agg(array_position(v_keys, h.key)) INTO v_busy FROM unnest(v_hearing) AS h(key) WHERE h.key <> ALL (v_free);
  END IF;
  IF v_ended IS NOT NULL AND EXISTS (SELECT 1 FROM holdfast.mail WHERE error IS NULL AND run_id = ANY (p_ids))
    AND holdfast.take_mail_1(ARRAY (SELECT u.id FROM unnest(p_ids, v_keys) AS u(id, key) WHERE u.key = ANY (v_ended)), v_now) THEN
    v_messages := true;
    v_news := true;
  END IF;
  IF v_messages AND v_ended IS NOT NULL THEN
    SELECT array_agg(t.i) INTO v_late FROM json_to_recordset(p_turns::json) AS t(i integer, lc boolean, ls text[])
      WHERE t.ls IS NOT NULL AND v_keys[t.i] <> 0 AND holdfast.is_late_1(v_keys[t.i], t.lc, t.ls,
        ARRAY (SELECT m.id FROM json_to_recordset(v_more -> 'consumed') AS m(i integer, id bigint) WHERE m.i = t.i));
  END IF;
  v_left := v_busy || v_late;
  IF v_left IS NOT NULL THEN
    -- Nothing of these is written: as if they had lost their claims.
    v_ended := ARRAY (SELECT e.key FROM unnest(v_ended) AS e(key) WHERE array_position(v_keys, e.key) <> ALL (v_left));
    v_turnless := ARRAY (SELECT e.key FROM unnest(v_turnless) AS e(key) WHERE array_position(v_keys, e.key) <> ALL (v_left));
    v_keys := ARRAY (SELECT CASE WHEN u.i = ANY (v_left) THEN 0 ELSE u.key END FROM unnest(v_keys) WITH ORDINALITY AS u(key, i) ORDER BY u.i);
  END IF;
  -- A turn says what its row has to count; where there is none, the row is brought up to date first.
  IF v_turnless IS NOT NULL THEN PERFORM holdfast.count_turns_1(k.key) FROM unnest(v_turnless) AS k(key); END IF;
  IF p_places IS NOT NULL THEN
    INSERT INTO holdfast.records (run, execution, turn, position, direction, type, seq, n, worker, time, history_length, unit, name, refs, data, value, state)
      SELECT v_keys[r.i], p_numbers[r.i * 10 - 9 /* execution */], p_numbers[r.i * 10 - 4 /* index */], r.p, ('{job,command,turn}'::text[])[r.direction], r.y, nullif(r.q, -1), nullif(r.n, -1),
        CASE r.p WHEN 0 THEN p_numbers[r.i * 10 - 0 /* worker */] END, CASE r.p WHEN 0 THEN p_numbers[r.i * 10 - 3 /* time */] END,
        CASE r.p WHEN 0 THEN p_numbers[r.i * 10 - 2 /* length */] END, r.u, r.m, r.f::text[], r.d, r.v, r.s
      FROM (SELECT x.*, p_places[x.o::integer * 5 - 4 /* turn */] AS i, p_places[x.o::integer * 5 - 3 /* position */] AS p, p_places[x.o::integer * 5 - 2 /* direction */] AS direction, p_places[x.o::integer * 5 - 1 /* seq */] AS q, p_places[x.o::integer * 5 - 0 /* n */] AS n
        FROM unnest(p_types, p_units, p_names, p_refs, p_data, p_values, p_states) WITH ORDINALITY AS x(y, u, m, f, d, v, s, o)) r
      WHERE v_keys[r.i] <> 0;
  END IF;
  IF p_more IS NOT NULL THEN
    -- An id belongs to one message of one run: a turn that has lost its claim takes none (v_keys is zero).
    DELETE FROM holdfast.inbox b USING json_to_recordset(v_more -> 'consumed') AS m(i integer, id bigint) WHERE b.run = v_keys[m.i] AND b.id = m.id;
    INSERT INTO holdfast.states (run, state)
      SELECT v_keys[m.i], m.state FROM json_to_recordset(v_more -> 'states') AS m(i integer, state text) WHERE v_keys[m.i] <> 0
      ON CONFLICT (run) DO UPDATE SET state = excluded.state;
    INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
      SELECT v_keys[a.i], a.x, a.seq, a.number, false, a.status, a.worker, a.started, a.ended, a.retry, a.error
      FROM json_to_recordset(v_more -> 'attempts') AS a(i integer, x integer, seq integer, number integer, status text, worker text, started bigint, ended bigint, retry bigint, error text) WHERE v_keys[a.i] <> 0
      ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id,
  started_at = excluded.started_at, ended_at = excluded.ended_at, retry_at = excluded.retry_at, error = excluded.error;
    WITH settled AS MATERIALIZED (
      SELECT v_keys[m.i] AS run, m.id, m.status, m.value, m.error
      FROM json_to_recordset(v_more -> 'updates') AS m(i integer, id text, status text, value text, error text) WHERE v_keys[m.i] <> 0
    ), gone AS (
      DELETE FROM holdfast.updates WHERE run = ANY (ARRAY (SELECT x.run FROM settled x)) AND forget_at <= v_now
    )
    INSERT INTO holdfast.updates AS u (run, id, inbox_id, status, value, error) SELECT run, id, 0, status, value, error FROM settled
      ON CONFLICT (run, id) DO UPDATE SET status = excluded.status, value = excluded.value,
        error = excluded.error, forget_at = CASE WHEN u.keyless THEN v_now + 3600000 END WHERE u.status IS NULL;
  END IF;
  IF v_again IS NOT NULL THEN
    -- They had waited, or been recovered.
    UPDATE holdfast.runs r SET status = 'running', waiting_for = NULL, error = NULL, blocked_code = NULL, recoveries = 0, rollbacks = CASE p_numbers[t.i::integer * 10 - 5 /* rollbacks */] WHEN -1 THEN r.rollbacks ELSE p_numbers[t.i::integer * 10 - 5 /* rollbacks */] END, turns = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.turns ELSE p_numbers[t.i::integer * 10 - 4 /* index */] + 1 END,
        history_length = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.history_length ELSE p_numbers[t.i::integer * 10 - 2 /* length */] + p_numbers[t.i::integer * 10 - 1 /* records */] END
      FROM unnest(v_again) AS t(i) WHERE r.key = v_keys[t.i];
  END IF;
  IF v_open THEN WITH changed AS (
    UPDATE holdfast.runs r SET status = t.s, waiting_for = t.wf, error = t.er, blocked_code = t.bc, rollbacks = CASE p_numbers[t.i::integer * 10 - 5 /* rollbacks */] WHEN -1 THEN r.rollbacks ELSE p_numbers[t.i::integer * 10 - 5 /* rollbacks */] END, turns = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.turns ELSE p_numbers[t.i::integer * 10 - 4 /* index */] + 1 END,
        history_length = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.history_length ELSE p_numbers[t.i::integer * 10 - 2 /* length */] + p_numbers[t.i::integer * 10 - 1 /* records */] END,
        recoveries = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.recoveries ELSE 0 END,
        parked_by = CASE WHEN p_numbers[t.i::integer * 10 - 6 /* kind */] = 2 THEN r.worker_id ELSE r.parked_by END, worker_id = CASE WHEN NOT p_numbers[t.i::integer * 10 - 6 /* kind */] = 2 THEN r.worker_id END,
        available_at = CASE WHEN NOT p_numbers[t.i::integer * 10 - 6 /* kind */] = 2 THEN r.available_at
          WHEN r.last_message > p_numbers[t.i::integer * 10 - 7 /* seen */] AND EXISTS (SELECT 1 FROM holdfast.inbox b WHERE b.run = r.key AND b.id > p_numbers[t.i::integer * 10 - 7 /* seen */]) THEN least(t.wake, v_now)
          ELSE t.wake END
      FROM json_to_recordset(p_turns::json) AS t(i integer, s text, wf text, wake bigint, er text, bc text, c text)
      WHERE t.c IS NULL AND r.key = v_keys[t.i]
      RETURNING r.worker_id, r.available_at
  )
  SELECT bool_or(worker_id IS NULL AND available_at <= v_now) INTO v_due FROM changed; END IF;
  IF p_ending IS NOT NULL THEN
    -- All of them end before anything follows from it: a child that ends in the same batch does not follow its parent.
    SELECT array_agg(array_position(v_keys, e.key)) FILTER (WHERE r.leads), bool_or(r.parent_id IS NOT NULL), array_agg(array_position(v_keys, e.key)) FILTER (WHERE r.has_next)
      INTO v_family, v_told, v_next
      FROM unnest(v_ended) AS e(key) CROSS JOIN LATERAL (
        SELECT x.parent_id, x.has_next, EXISTS (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = x.id AND c.finished_at IS NULL)
          OR EXISTS (SELECT 1 FROM holdfast.tasks a WHERE a.run = x.key)
          OR EXISTS (SELECT 1 FROM holdfast.updates u WHERE u.run = x.key AND u.status IS NULL) OR x.awaited OR x.has_next AS leads
        FROM holdfast.runs x WHERE x.key = e.key OFFSET 0) r;
    UPDATE holdfast.runs r SET status = t.c, ended_as = t.c, output = t.o, error = t.er, resumable = t.c = 'failed' AND coalesce(t.rs, true),
        turns = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.turns ELSE p_numbers[t.i::integer * 10 - 4 /* index */] + 1 END,
        history_length = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.history_length ELSE p_numbers[t.i::integer * 10 - 2 /* length */] + p_numbers[t.i::integer * 10 - 1 /* records */] END, finished_at = v_now, worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0, epoch = epoch + 1,
        remove_at = CASE WHEN retention IS NULL THEN v_now + holdfast.kept_for_1() WHEN retention >= 0 THEN v_now + retention END
      FROM json_to_recordset(p_turns::json) AS t(i integer, c text, o text, er text, rs boolean)
      WHERE t.c IS NOT NULL AND r.key = v_keys[t.i];
    IF v_messages THEN
      -- D10: signals wait for a run that may be resumed. For those with a family the rest follows below.
      DELETE FROM holdfast.inbox b WHERE b.run = ANY (v_ended) AND (v_family IS NULL OR array_position(v_keys, b.run) <> ALL (v_family))
        AND NOT (b.type = 'signal' AND (SELECT r.resumable FROM holdfast.runs r WHERE r.key = b.run));
    END IF;
    IF v_family IS NOT NULL THEN
      PERFORM holdfast.follow_end_1(v_keys[f.i], v_now, CASE WHEN f.i = ANY (v_next) THEN (SELECT t.uc FROM json_to_recordset(p_turns::json) AS t(i integer, uc jsonb) WHERE t.i = f.i) END)
        FROM (SELECT unnest(v_family) AS i ORDER BY 1) f;
    END IF;
    IF v_told THEN v_told := holdfast.tell_parents_1(ARRAY (SELECT e.key FROM unnest(v_ended) AS e(key) WHERE v_family IS NULL OR array_position(v_keys, e.key) <> ALL (v_family)), v_now); END IF;
  END IF;
  IF v_news THEN
    SELECT json_agg(json_build_array(t.i, b.id, b.type, b.seq, b.name, b.refs, b.data, b.value) ORDER BY b.id) INTO v_inbox
      FROM generate_subscripts(p_ids, 1) AS t(i)
      CROSS JOIN LATERAL (SELECT * FROM holdfast.inbox x WHERE x.run = v_held[t.i] AND x.id > p_numbers[t.i::integer * 10 - 7 /* seen */] OFFSET 0) b
      WHERE p_numbers[t.i::integer * 10 - 6 /* kind */] IN (0, 1) OR t.i = ANY (v_late);
  END IF;
  IF p_others IS NOT NULL THEN
    v_results := '[]';
    FOR v_item IN SELECT * FROM jsonb_array_elements(p_others::jsonb) LOOP
      v_result := holdfast.commit_turn_1(v_item, v_now);
      v_due := coalesce(v_due, false) OR coalesce((v_result ->> 'due')::boolean, false);
      v_results := v_results || v_result;
    END LOOP;
  END IF;
  IF 0 <> ALL (v_keys) AND v_inbox IS NULL AND v_results IS NULL AND v_due IS NOT TRUE AND v_family IS NULL AND v_told IS NOT TRUE THEN RETURN '{}'; END IF;
  RETURN holdfast.end_call_1(p_instance, p_slot, json_build_object(
    'stale', (SELECT json_agg(i) FROM unnest(v_keys) WITH ORDINALITY AS u(key, i) WHERE key = 0),
    'late', to_json(v_late), 'busy', to_json(v_busy), 'inbox', v_inbox, 'others', v_results, 'due', v_due, 'family', v_family IS NOT NULL OR v_told, 'next', to_json(v_next))::text);
END $$;

-- D6: the end of a transaction step.

-- D6: the outcome of a transaction step, in the same transaction as the user's writes. Null: the claim is lost.
CREATE FUNCTION holdfast.finish_transaction_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_run text, p_epoch integer, p_message text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_key bigint;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  SELECT key INTO v_key FROM holdfast.runs WHERE id = p_run AND epoch = p_epoch AND worker_id IS NOT NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  RETURN holdfast.end_call_1(p_instance, p_slot, holdfast.put_1(v_key, p_message::jsonb, holdfast.clock_1(p_now))::text);
END $$;

-- Numbers of lanes and workers.

-- Numbers of lanes and workers. p_lanes: queue, workflow, version, priority; kind: what of the queue has keys now. Made in order, so that two calls can't wait for each other.
CREATE FUNCTION holdfast.register_1(p_lanes text, p_workers text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_lanes json;
  v_workers json;
BEGIN
  INSERT INTO holdfast.lanes (queue, workflow, version, priority)
    SELECT n.* FROM (SELECT DISTINCT * FROM json_to_recordset(p_lanes::json) AS l(queue text, workflow text, version text, priority integer)) n
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.lanes o WHERE o.queue = n.queue AND o.workflow = n.workflow AND o.version IS NOT DISTINCT FROM n.version
      AND o.priority = n.priority)
    ORDER BY queue, workflow, version, priority ON CONFLICT DO NOTHING;
  INSERT INTO holdfast.workers (id)
    SELECT n.id FROM (SELECT DISTINCT id FROM json_array_elements_text(p_workers::json) AS w(id)) n
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.workers o WHERE o.id = n.id) ORDER BY id ON CONFLICT DO NOTHING;
  -- Q1: from now on claims look for keys. That is durable before anything is filed.
  INSERT INTO holdfast.queues AS q (name, keyed_runs, keyed_tasks)
    SELECT n.queue, bool_or(n.kind = 'runs'), bool_or(n.kind = 'tasks') FROM json_to_recordset(p_lanes::json) AS n(queue text, kind text) WHERE n.kind IS NOT NULL
      GROUP BY n.queue ORDER BY n.queue
    ON CONFLICT (name) DO UPDATE SET keyed_runs = q.keyed_runs OR excluded.keyed_runs, keyed_tasks = q.keyed_tasks OR excluded.keyed_tasks
      WHERE excluded.keyed_runs AND NOT q.keyed_runs OR excluded.keyed_tasks AND NOT q.keyed_tasks;
  SELECT json_agg(o.lane ORDER BY n.ord) INTO v_lanes
    FROM ROWS FROM (json_to_recordset(p_lanes::json) AS (queue text, workflow text, version text, priority integer)) WITH ORDINALITY
      AS n(queue, workflow, version, priority, ord)
    JOIN holdfast.lanes o ON o.queue = n.queue AND o.workflow = n.workflow AND o.version IS NOT DISTINCT FROM n.version AND o.priority = n.priority;
  SELECT json_agg(o.key ORDER BY n.ord) INTO v_workers
    FROM json_array_elements_text(p_workers::json) WITH ORDINALITY AS n(id, ord) JOIN holdfast.workers o ON o.id = n.id;
  RETURN json_build_object('lanes', v_lanes, 'workers', v_workers)::text;
END $$;

-- Q2–Q6: which runs of a managed queue a claim gets. All is done under the lock on the queue's row.

-- The claim itself. Starts are noted where the queue has rates (Q4). p_slots: whether these runs take slots, where open runs count; p_under:
-- of their keys only, since an ancestor holds that of the queue. Returns those that were taken from a worker whose lease ran out.
CREATE FUNCTION holdfast.take_runs_1(q holdfast.queues, p_keys bigint[], p_worker text, p_lease bigint, p_now bigint, p_slots boolean, p_under boolean) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  v_recovered bigint[];
BEGIN
  IF q.longest_per IS NOT NULL THEN
    INSERT INTO holdfast.queue_starts (queue, kind, name, at) SELECT q.name, 'runs', coalesce('=' || r.work_key, ''), p_now FROM holdfast.runs r
      WHERE r.key = ANY (p_keys) AND r.started_at IS NULL;
  END IF;
  WITH claimed AS (
    UPDATE holdfast.runs r SET epoch = r.epoch + 1, status = CASE r.status WHEN 'rolling_back' THEN r.status ELSE 'running' END,
        recovered = r.worker_id IS NOT NULL, recoveries = r.recoveries + (r.worker_id IS NOT NULL)::integer, worker_id = p_worker,
        parked_by = coalesce(r.worker_id, r.parked_by), lane = -abs(r.lane),
        held = r.held OR q.counts_open AND p_slots, under = p_under AND (r.under OR NOT r.held),
        lease = p_lease, available_at = p_now + p_lease, started_at = coalesce(r.started_at, p_now), turns = CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END, history_length = CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn') END
      WHERE r.key = ANY (p_keys) RETURNING r.key, r.recovered
  )
  SELECT array_agg(c.key) INTO v_recovered FROM claimed c WHERE c.recovered;
  IF v_recovered IS NOT NULL THEN
    UPDATE holdfast.attempts a SET status = 'lost', ended_at = p_now
      WHERE a.run = ANY (v_recovered) AND a.execution = (SELECT r.execution FROM holdfast.runs r WHERE r.key = a.run) AND a.status = 'running' AND NOT a.task;
  END IF;
  RETURN v_recovered;
END $$;

-- Of a queue that counts open runs: those that are due and hold a slot of it or of their key, or that an ancestor holds one for. What each
-- lacks: only one that holds a slot of its key alone, and whose ancestors have ended, lacks one of the queue. p_paused: none of these keys (Q6);
-- p_passed: none of these runs.
CREATE FUNCTION holdfast.covered_runs_1(p_queue text, p_lanes integer[], p_limit integer, p_paused text[], p_passed bigint[], p_now bigint)
RETURNS TABLE (key bigint, lacks_queue boolean, lacks_key boolean) LANGUAGE plpgsql ROWS 10 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT r.key, r.under AND NOT (SELECT c.of_queue FROM holdfast.covered_1(p_queue, CASE WHEN r.under AND r.parent_close <> 'abandon' THEN r.parent_id END, r.work_key, false) c), false
    FROM holdfast.runs r WHERE r.queue = p_queue AND r.held AND r.ended_as IS NULL AND r.available_at <= p_now AND abs(r.lane) = ANY (p_lanes)
    AND (r.deadline_at IS NULL OR r.deadline_at > p_now OR r.expired OR r.status = 'rolling_back') AND r.key <> ALL (p_passed) AND coalesce(r.work_key <> ALL (p_paused), true)
    ORDER BY r.available_at, r.key LIMIT p_limit;
  RETURN QUERY WITH RECURSIVE family AS (
      SELECT r.id, r.work_key AS slot, r.under, NULL::bigint AS key, NULL::bigint AS available_at, NULL::integer AS lane, NULL::text COLLATE "C" AS work_key, false AS waits
        FROM holdfast.runs r WHERE r.queue = p_queue AND r.held AND r.ended_as IS NULL
      UNION ALL
      SELECT c.id, f.slot, f.under, c.key, c.available_at, c.lane, c.work_key, c.waits FROM family f CROSS JOIN LATERAL (
        SELECT x.id, x.key, x.available_at, x.lane, x.work_key,
            x.queue = p_queue AND NOT x.held AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back') AS waits
          FROM holdfast.runs x WHERE x.parent_id = f.id AND x.finished_at IS NULL AND x.parent_close <> 'abandon' OFFSET 0) c
    )
    SELECT f.key, false, NOT bool_or(f.work_key IS NOT DISTINCT FROM f.slot) FROM family f
      WHERE f.waits AND f.available_at <= p_now AND abs(f.lane) = ANY (p_lanes) AND f.key <> ALL (p_passed) AND coalesce(f.work_key <> ALL (p_paused), true) GROUP BY f.key, f.available_at HAVING bool_or(NOT f.under) ORDER BY f.available_at, f.key LIMIT p_limit;
END $$;

-- Q3: ends expired leases of a full queue, or of these keys of it, whose workflow this claim does not serve. Others can claim the runs, and
-- their slots are free.
CREATE FUNCTION holdfast.end_expired_1(p_queue text, p_names text[], p_lanes integer[], p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_keys bigint[] := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.queue = p_queue AND r.lane < 0 AND r.worker_id IS NOT NULL AND r.available_at <= p_now
    AND -r.lane <> ALL (p_lanes) AND (p_names IS NULL OR '=' || r.work_key = ANY (p_names)) ORDER BY r.available_at, r.key LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED);
BEGIN
  IF cardinality(v_keys) = 0 THEN RETURN false; END IF;
  PERFORM holdfast.count_turns_1(k.key) FROM unnest(v_keys) AS k(key);
  UPDATE holdfast.attempts a SET status = 'lost', ended_at = p_now
    WHERE a.run = ANY (v_keys) AND a.execution = (SELECT r.execution FROM holdfast.runs r WHERE r.key = a.run) AND a.status = 'running' AND NOT a.task;
  UPDATE holdfast.runs r SET epoch = r.epoch + 1, recoveries = r.recoveries + 1, parked_by = r.worker_id, worker_id = NULL, available_at = p_now,
      status = CASE r.status WHEN 'running' THEN 'sleeping' ELSE r.status END WHERE r.key = ANY (v_keys);
  RETURN true;
END $$;

-- Q5: keys with something due that may not be known as ready yet: those of the newest runs, and some more in the order of keys, from where
-- the claim before it stopped (p_cursor). \`cursor\` is where this one stopped: empty at the end. p_kind, p_fresh: as in next_runs_1.
CREATE FUNCTION holdfast.find_run_keys_1(p_queue text, p_kind text, p_fresh integer, p_lanes integer[], p_priority integer, p_cursor text, p_most integer, p_now bigint, OUT names text[], OUT cursor text)
LANGUAGE plpgsql AS $$
BEGIN
  WITH RECURSIVE walk AS (
    SELECT l.lane, 1 AS n, (SELECT x.work_key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.lane < 0 AND x.worker_id IS NULL
        AND x.available_at IS NOT NULL AND x.work_key >= p_cursor ORDER BY x.work_key LIMIT 1) AS work_key FROM unnest(p_lanes) AS l(lane)
    UNION ALL
    SELECT w.lane, w.n + 1, (SELECT x.work_key FROM holdfast.runs x WHERE x.lane = -w.lane AND x.lane < 0 AND x.worker_id IS NULL
        AND x.available_at IS NOT NULL AND x.work_key > w.work_key ORDER BY x.work_key LIMIT 1)
      FROM walk w WHERE w.work_key IS NOT NULL AND w.n <= p_most
  ), newest AS (
    SELECT l.lane, 0, r.work_key FROM unnest(p_lanes) AS l(lane) CROSS JOIN LATERAL (
      SELECT x.work_key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.available_at <= p_now AND x.worker_id IS NULL AND x.work_key IS NOT NULL
      ORDER BY x.available_at DESC, x.key DESC LIMIT least(p_most, 100)) r
  ), found AS MATERIALIZED (
    SELECT DISTINCT f.lane, f.work_key, k.wake_at FROM (SELECT lane, work_key FROM walk WHERE work_key IS NOT NULL UNION ALL SELECT lane, work_key FROM newest) f
      LEFT JOIN LATERAL (SELECT x.ready, x.wake_at FROM holdfast.queue_keys x WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = '=' || f.work_key
        AND x.priority = p_priority OFFSET 0) k ON true
      WHERE k.ready IS NOT TRUE
  )
  -- One that may start nothing yet is found for what has begun only.
  SELECT array_agg(DISTINCT '=' || f.work_key), coalesce((SELECT min(w.work_key) FROM walk w WHERE w.n > p_most), '') INTO names, cursor FROM found f
    WHERE p_fresh IS DISTINCT FROM 0 AND f.wake_at IS NULL AND (SELECT 1 FROM holdfast.runs x WHERE x.lane = -f.lane AND x.lane < 0 AND x.worker_id IS NULL AND x.work_key = f.work_key
        AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 1 AND x.available_at <= p_now LIMIT 1) IS NOT NULL
      OR p_fresh IS DISTINCT FROM 1 AND (SELECT 1 FROM holdfast.runs x WHERE x.lane = -f.lane AND x.lane < 0 AND x.worker_id IS NULL AND x.work_key = f.work_key
        AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 0 AND x.available_at <= p_now LIMIT 1) IS NOT NULL;
END $$;

-- Makes keys ready that have something from now on, at one priority. Answers with its virtual time, and up to which key it has looked.
CREATE FUNCTION holdfast.look_for_run_keys_1(p_queue text, p_kind text, p_fresh integer, p_lanes integer[], p_priority integer, p_most integer, p_now bigint,
  OUT pass double precision, OUT cursor text) LANGUAGE plpgsql AS $$
DECLARE
  v_names text[];
BEGIN
  SELECT t.pass, t.walked INTO pass, cursor FROM holdfast.queue_times t WHERE t.queue = p_queue AND t.kind = p_kind AND t.priority = p_priority;
  pass := coalesce(pass, 0);
  -- What a pause or a rate of the key has held back has saved up nothing.
  UPDATE holdfast.queue_keys k SET ready = true, wake_at = NULL, pass = greatest(k.pass, look_for_run_keys_1.pass) WHERE k.queue = p_queue AND k.kind = p_kind AND k.priority = p_priority AND k.wake_at <= p_now;
  SELECT f.names, f.cursor INTO v_names, cursor FROM holdfast.find_run_keys_1(p_queue, p_kind, p_fresh, p_lanes, p_priority, coalesce(cursor, ''), p_most, p_now) f;
  -- Those without a key are one key together.
  PERFORM holdfast.ready_keys_1(p_queue, p_kind, p_priority, pass, v_names || ''::text);
END $$;

-- The next runs by the order of Q5, at most p_left and, of those that start, p_starts (null: no limit). p_kind: whose passes count; p_fresh:
-- 1 only runs that start, 0 only others, null both. p_done: keys that this claim is done with. Answers with the runs, the key of each and its
-- pass (tags), with the keys that were looked at: whether each has more, and its weight; and with the pass up to which it has looked.
CREATE FUNCTION holdfast.next_runs_1(q holdfast.queues, p_kind text, p_fresh integer, p_lanes integer[], p_priority integer, p_left integer, p_starts integer, p_done text[], p_only bigint[], p_tried bigint[], p_now bigint,
  OUT keys bigint[], OUT names text[], OUT tags double precision[], OUT of text[], OUT weights double precision[], OUT more boolean[], OUT wakes bigint[], OUT up_to double precision)
LANGUAGE plpgsql SET enable_sort = off AS $$
BEGIN
  WITH lowest AS MATERIALIZED (
    SELECT k.name, k.pass, l.weight, l.room, l.starts, CASE WHEN p_fresh IS DISTINCT FROM 0 OR l.room <= 0 THEN l.wake_at END AS wake_at FROM (
      SELECT x.name, x.pass FROM holdfast.queue_keys x WHERE x.queue = q.name AND x.kind = p_kind AND x.priority = p_priority AND x.ready AND x.name <> ALL (p_done)
      ORDER BY x.pass, x.name LIMIT p_left + 10) k CROSS JOIN LATERAL (SELECT x.* FROM holdfast.key_limits_1(q, 'runs', k.name, p_now) x OFFSET 0) l
  ), sums AS MATERIALIZED (
    SELECT sum(k.weight) OVER o AS weights, sum(k.pass * k.weight) OVER o AS passes FROM lowest k WHERE k.room IS NULL OR k.room > 0
      WINDOW o AS (ORDER BY k.pass, k.name ROWS UNBOUNDED PRECEDING)
  ), level AS MATERIALIZED (
    -- Up to this pass all of them would take what is left.
    SELECT min((p_left + s.passes) / s.weights) AS pass FROM sums s
  ), wanted AS MATERIALIZED (
    SELECT k.*, substr(k.name, 2) AS work_key,
        CASE WHEN k.name = '' AND p_fresh IS DISTINCT FROM 1 THEN p_lanes ELSE '{}' END AS plain_begun, CASE WHEN k.name <> '' AND p_fresh IS DISTINCT FROM 1 THEN p_lanes ELSE '{}' END AS keyed_begun,
        CASE WHEN k.name = '' AND p_fresh IS DISTINCT FROM 0 THEN p_lanes ELSE '{}' END AS plain_new, CASE WHEN k.name <> '' AND p_fresh IS DISTINCT FROM 0 THEN p_lanes ELSE '{}' END AS keyed_new,
        CASE WHEN k.room <= 0 THEN 0 ELSE least(k.room, p_left, floor((level.pass - k.pass) * k.weight)::integer + 1) END AS n,
        greatest(0, least(k.starts, p_starts, p_left + 1)) AS fresh
      FROM lowest k CROSS JOIN level WHERE k.room <= 0 OR k.pass <= level.pass
  ), due AS MATERIALIZED (
    SELECT w.name, w.n, w.pass + (row_number() OVER o - 1) / w.weight AS tag, row_number() OVER o AS i, c.key, c.fresh, c.available_at
    FROM wanted w CROSS JOIN LATERAL (
      SELECT * FROM (
        SELECT 0 AS fresh, r.* FROM unnest(w.keyed_begun) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key = w.work_key AND x.worker_id IS NULL AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 0 AND x.available_at <= p_now AND x.key <> ALL (p_tried)
          AND (p_only IS NULL OR x.key = ANY (p_only)) AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back') ORDER BY x.available_at, x.key LIMIT w.n + 1) r
        UNION ALL
        SELECT 0, r.* FROM unnest(w.plain_begun) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key IS NULL AND x.worker_id IS NULL AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 0 AND x.available_at <= p_now AND x.key <> ALL (p_tried)
          AND (p_only IS NULL OR x.key = ANY (p_only)) AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back')
          ORDER BY x.work_key, CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END, x.available_at, x.key LIMIT w.n + 1) r
        UNION ALL
        (SELECT 1, r.* FROM unnest(w.keyed_new) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key = w.work_key AND x.worker_id IS NULL AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 1 AND x.available_at <= p_now AND x.key <> ALL (p_tried)
          AND (p_only IS NULL OR x.key = ANY (p_only)) AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back') ORDER BY x.available_at, x.key LIMIT least(w.n + 1, w.fresh)) r
          ORDER BY r.available_at, r.key LIMIT least(w.n + 1, w.fresh))
        UNION ALL
        -- Runs without a key that have not begun are in the plain lanes, and those that were claimed before the queue had keys.
        (SELECT 1, r.* FROM unnest(w.plain_new) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.key FROM holdfast.runs x WHERE x.lane = l.lane
          AND x.available_at <= p_now AND x.key <> ALL (p_tried)
          AND (p_only IS NULL OR x.key = ANY (p_only)) AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back') ORDER BY x.available_at, x.key LIMIT least(w.n + 1, w.fresh)) r
          ORDER BY r.available_at, r.key LIMIT least(w.n + 1, w.fresh))
      ) b ORDER BY b.fresh, b.available_at, b.key LIMIT w.n + 1) c
    WINDOW o AS (PARTITION BY w.name ORDER BY c.fresh, c.available_at, c.key)
  ), best AS MATERIALIZED (
    SELECT x.* FROM (SELECT d.*, row_number() OVER (PARTITION BY d.fresh ORDER BY d.tag, d.available_at, d.key) AS nth FROM due d WHERE d.i <= d.n) x
      WHERE x.fresh = 0 OR p_starts IS NULL OR x.nth <= p_starts ORDER BY x.tag, x.available_at, x.key LIMIT p_left
  ), looked AS MATERIALIZED (
    SELECT c.name, max(c.weight) AS weight, max(c.wake_at) AS wake_at, CASE WHEN max(c.room) <= 0 THEN max(c.wake_at) IS NULL ELSE sum(c.due) > sum(c.taken)
        OR coalesce(max(c.starts) > 0 AND max(c.starts) <= sum(c.fresh), false) OR coalesce(p_starts <= (SELECT count(*) FROM best b WHERE b.fresh = 1), false) END AS more
      FROM (SELECT w.name, w.weight, w.wake_at, w.room, w.starts, 0 AS due, 0 AS taken, 0 AS fresh FROM wanted w
        UNION ALL SELECT d.name, NULL, NULL, NULL, NULL, 1, 0, 0 FROM due d UNION ALL SELECT b.name, NULL, NULL, NULL, NULL, 0, 1, b.fresh FROM best b) c GROUP BY c.name
  )
  SELECT ARRAY (SELECT b.key FROM best b ORDER BY b.tag, b.available_at, b.key), ARRAY (SELECT b.name FROM best b ORDER BY b.tag, b.available_at, b.key),
      ARRAY (SELECT b.tag FROM best b ORDER BY b.tag, b.available_at, b.key), array_agg(l.name), array_agg(l.weight), array_agg(l.more), array_agg(l.wake_at),
      (SELECT v.pass FROM level v) INTO keys, names, tags, of, weights, more, wakes, up_to FROM looked l;
END $$;

-- Q5 in a queue with a rate: the next runs by the order of Q5, each with its place in it, by the time of runs: that of starts is p_lag behind.
-- \`still\`: the rate has no room by then, and the time of starts stands still. Answers for both kinds of passes: \`kinds\` says which one gave each
-- run its place, \`of_kinds\` which one each key was looked at by; \`due\`: that key has something, now or in the next look of this claim.
CREATE FUNCTION holdfast.next_shared_runs_1(q holdfast.queues, p_lanes integer[], p_priority integer, p_left integer, p_starts integer, p_done text[], p_done_starts text[], p_only bigint[], p_tried bigint[],
  p_lag double precision, p_now bigint, OUT keys bigint[], OUT names text[], OUT tags double precision[], OUT kinds text[], OUT still boolean[], OUT of text[], OUT weights double precision[], OUT more boolean[], OUT wakes bigint[], OUT of_kinds text[], OUT due boolean[])
LANGUAGE plpgsql AS $$
DECLARE
  b record;
  n record;
BEGIN
  SELECT * INTO b FROM holdfast.next_runs_1(q, 'runs', 0, p_lanes, p_priority, p_left, NULL, p_done, p_only, p_tried, p_now);
  SELECT * INTO n FROM holdfast.next_runs_1(q, 'starts', 1, p_lanes, p_priority, least(p_left, p_starts), p_starts, p_done_starts, p_only, p_tried, p_now) WHERE p_starts > 0;
  WITH found AS MATERIALIZED (
    SELECT 'runs' AS kind, u.key, u.name, u.tag AS at, u.i FROM unnest(b.keys, b.names, b.tags) WITH ORDINALITY AS u(key, name, tag, i)
    UNION ALL
    SELECT 'starts', u.key, u.name, u.tag + p_lag, u.i FROM unnest(n.keys, n.names, n.tags) WITH ORDINALITY AS u(key, name, tag, i)
  ), looked AS MATERIALIZED (
    SELECT 'runs' AS kind, u.* FROM unnest(b.of, b.weights, b.more, b.wakes) AS u(name, weight, more, wake)
    UNION ALL SELECT 'starts', u.* FROM unnest(n.of, n.weights, n.more, n.wakes) AS u(name, weight, more, wake)
  ), withheld AS MATERIALIZED (
    -- W2: these may have something that goes on, which comes before what they start.
    SELECT l.name FROM looked l WHERE l.kind = 'starts' AND l.name <> ALL (p_done) AND EXISTS (SELECT 1 FROM holdfast.queue_keys k
      WHERE k.queue = q.name AND k.kind = 'runs' AND k.name = l.name AND k.priority = p_priority AND k.ready)
  ), cut AS MATERIALIZED (
    -- What comes after the place that the first start of such a key gets then waits for the next look; what comes after that up to which both have
    -- looked, too.
    SELECT least(b.up_to, n.up_to + p_lag) + 1e-9 AS up_to, min(coalesce((SELECT max(f.at) FROM found f WHERE f.kind = 'runs' AND f.name = w.name) + 1 / l.weight, s.at)) AS at
      FROM withheld w JOIN looked l ON l.kind = 'runs' AND l.name = w.name
      CROSS JOIN LATERAL (SELECT min(f.at) AS at FROM found f WHERE f.kind = 'starts' AND f.name = w.name) s WHERE s.at IS NOT NULL
  ), best AS MATERIALIZED (
    SELECT f.*, count(*) FILTER (WHERE f.kind = 'starts') OVER (ORDER BY f.at, f.kind, f.i ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) >= p_starts AS still
      FROM found f CROSS JOIN cut c WHERE (f.kind = 'runs' OR f.name NOT IN (SELECT w.name FROM withheld w)) AND (c.at IS NULL OR f.at < c.at) AND (c.up_to IS NULL OR f.at <= c.up_to)
      ORDER BY f.at, f.kind, f.i LIMIT p_left
  )
  SELECT c.keys, c.names, c.tags, c.kinds, c.still, o.of, o.weights, o.more, o.wakes, o.of_kinds, o.due INTO keys, names, tags, kinds, still, of, weights, more, wakes, of_kinds, due
    FROM (SELECT array_agg(x.key ORDER BY x.at, x.kind, x.i) AS keys, array_agg(x.name ORDER BY x.at, x.kind, x.i) AS names, array_agg(x.at ORDER BY x.at, x.kind, x.i) AS tags,
        array_agg(x.kind ORDER BY x.at, x.kind, x.i) AS kinds, array_agg(x.still ORDER BY x.at, x.kind, x.i) AS still FROM best x) c
    CROSS JOIN (SELECT array_agg(l.name) AS of, array_agg(l.weight) AS weights, array_agg(l.wake) AS wakes, array_agg(l.kind) AS of_kinds, array_agg(e.due) AS due,
        array_agg(l.more OR EXISTS (SELECT 1 FROM found x WHERE x.kind = l.kind AND x.name = l.name AND NOT EXISTS (SELECT 1 FROM best y WHERE y.key = x.key))) AS more
      FROM looked l CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM found x WHERE x.kind = l.kind AND x.name = l.name) AS due) e) o;
END $$;

-- Claims up to p_limit runs. p_lanes, p_priorities: the lanes that the worker serves, as plain runs have them. p_only: only these runs.
-- p_blocked: these blocked runs instead, due or not (V4). Answers with the runs in order, those that were recovered, the time, and when a
-- claim may find more if this one has found less than it asked for.
CREATE FUNCTION holdfast.claim_queued_runs_1(p_queue text, p_now bigint, p_worker text, p_lease bigint, p_lanes integer[], p_priorities integer[], p_limit integer, p_only bigint[],
  p_blocked bigint[], OUT keys bigint[], OUT recovered bigint[], OUT at bigint, OUT next_at bigint)
LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues;
  x record;
  f record;
  v_priority integer;
  v_lanes integer[];
  v_others integer[];
  v_room integer;
  v_starts integer;
  v_starts_at bigint;
  v_left integer;
  v_new bigint[];
  v_locked bigint[];
  v_tried bigint[] := '{}';
  v_done text[];
  v_found text[];
  v_pass double precision;
  v_cursor text;
  -- Of starts, where the queue has a rate.
  v_done_starts text[];
  v_pass_starts double precision;
  v_cursor_starts text;
  v_at_end boolean := true;
  v_lacking boolean;
  v_gained bigint[] := '{}';
  -- Where open runs count: paused keys, and runs that were passed over.
  v_paused text[];
  v_passed bigint[];
BEGIN
  keys := '{}';
  recovered := '{}';
  SELECT * INTO q FROM holdfast.queues WHERE name = p_queue FOR NO KEY UPDATE;
  at := holdfast.clock_1(p_now);
  IF q.paused AND coalesce(q.paused_until > at, true) THEN
    next_at := q.paused_until;
    RETURN;
  END IF;
  -- The lock on the queue's row lasts until the commit: without the wait for the disk. A claim that a crash of the server undoes was not
  -- made: turns that were computed under it are refused (D4), and a turn that is durable makes the claim before it durable.
  PERFORM set_config('synchronous_commit', 'off', true);
  v_room := CASE WHEN q.concurrency IS NULL THEN p_limit ELSE holdfast.slots_left_1(p_queue, 'runs', q.counts_open, NULL, q.concurrency) END;
  IF q.rate_limit IS NOT NULL THEN
    SELECT s.n, s.at INTO v_starts, v_starts_at FROM holdfast.starts_left_1(p_queue, 'runs', NULL, q.rate_limit, q.rate_per, at) s;
  END IF;

  IF p_blocked IS NOT NULL THEN
    FOR x IN SELECT r.key, r.held, r.under, coalesce('=' || r.work_key, '') AS name, c.of_queue, c.of_key FROM unnest(p_blocked) WITH ORDINALITY AS b(key, i) CROSS JOIN LATERAL (
        SELECT o.key, q.counts_open AND o.held AS held, o.under, o.work_key, CASE WHEN q.counts_open AND o.parent_close <> 'abandon' THEN o.parent_id END AS parent_id
          FROM holdfast.runs o WHERE o.key = b.key AND o.status = 'blocked'
            AND (NOT q.has_keys OR NOT EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = p_queue AND l.name = '=' || o.work_key AND l.paused AND coalesce(l.paused_until > at, true))) FOR NO KEY UPDATE SKIP LOCKED) r
        CROSS JOIN LATERAL (SELECT o.* FROM holdfast.covered_1(p_queue, r.parent_id, r.work_key, false) o OFFSET 0) c ORDER BY b.i LOOP
      EXIT WHEN cardinality(keys) >= p_limit;
      CONTINUE WHEN NOT x.held AND NOT x.of_key AND (SELECT l.room <= 0 FROM holdfast.key_limits_1(q, 'runs', x.name, at) l);
      v_lacking := NOT x.of_queue AND NOT (x.held AND NOT x.under);
      CONTINUE WHEN v_lacking AND v_room <= 0;
      IF v_lacking THEN v_room := v_room - 1; END IF;
      keys := keys || x.key;
      recovered := recovered || holdfast.take_runs_1(q, ARRAY[x.key], p_worker, p_lease, at, v_lacking OR NOT x.of_key, NOT v_lacking);
    END LOOP;
    RETURN;
  END IF;

  FOR v_priority, v_lanes IN SELECT l.priority, array_agg(l.lane) FROM unnest(p_lanes, p_priorities) AS l(lane, priority) GROUP BY l.priority ORDER BY l.priority DESC LOOP
    EXIT WHEN cardinality(keys) >= p_limit;
    -- What needs no slot, whether the queue is full or not (Q2, Q3).
    IF q.counts_open THEN
      v_paused := ARRAY (SELECT substr(l.name, 2) FROM holdfast.queue_limits l WHERE q.has_keys AND l.queue = p_queue AND l.paused AND coalesce(l.paused_until > at, true));
      v_passed := '{}';
      -- Those that a limit holds back are passed over: others may be behind them.
      LOOP
        v_new := '{}';
        FOR x IN SELECT s.key, s.lacks_queue, s.lacks_key, r.held, r.started_at, coalesce('=' || r.work_key, '') AS name
            FROM holdfast.covered_runs_1(p_queue, v_lanes, p_limit - cardinality(keys), v_paused, v_passed, at) s CROSS JOIN LATERAL (
              SELECT o.held, o.started_at, o.work_key FROM holdfast.runs o WHERE o.key = s.key AND o.available_at <= at AND (p_only IS NULL OR o.key = ANY (p_only)) FOR NO KEY UPDATE SKIP LOCKED) r LOOP
          EXIT WHEN cardinality(keys) >= p_limit;
          v_new := v_new || x.key;
          CONTINUE WHEN x.lacks_queue AND v_room <= 0;
          IF NOT x.held THEN
            CONTINUE WHEN x.started_at IS NULL AND v_starts <= 0;
            CONTINUE WHEN (SELECT l.room <= 0 AND x.lacks_key OR l.starts <= 0 AND x.started_at IS NULL FROM holdfast.key_limits_1(q, 'runs', x.name, at) l);
            IF x.started_at IS NULL THEN v_starts := v_starts - 1; END IF;
          END IF;
          IF x.lacks_queue THEN
            v_room := v_room - 1;
            v_gained := v_gained || x.key;
          END IF;
          keys := keys || x.key;
          recovered := recovered || holdfast.take_runs_1(q, ARRAY[x.key], p_worker, p_lease, at, x.lacks_key, NOT x.lacks_queue);
        END LOOP;
        EXIT WHEN v_new <@ keys OR cardinality(keys) >= p_limit;
        v_passed := v_passed || v_new;
      END LOOP;
    ELSE
      v_new := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.queue = p_queue AND r.lane < 0 AND r.worker_id IS NOT NULL AND r.available_at <= at AND -r.lane = ANY (v_lanes)
        AND (NOT q.has_keys OR NOT EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = p_queue AND l.name = '=' || r.work_key AND l.paused AND coalesce(l.paused_until > at, true)))
        AND (p_only IS NULL OR r.key = ANY (p_only)) AND (r.deadline_at IS NULL OR r.deadline_at > at OR r.expired OR r.status = 'rolling_back')
        ORDER BY r.available_at, r.key LIMIT p_limit - cardinality(keys) FOR NO KEY UPDATE SKIP LOCKED);
      IF cardinality(v_new) > 0 THEN
        keys := keys || v_new;
        recovered := recovered || holdfast.take_runs_1(q, v_new, p_worker, p_lease, at, true, false);
      END IF;
      IF v_room <= 0 AND holdfast.end_expired_1(p_queue, NULL, p_lanes, at) THEN
        v_room := holdfast.slots_left_1(p_queue, 'runs', false, NULL, q.concurrency);
      END IF;
    END IF;
    v_left := least(v_room, p_limit - cardinality(keys));
    CONTINUE WHEN v_left <= 0;
    IF NOT q.keyed_runs THEN
      -- All of them are one key: by availability, and what has begun first.
      WHILE v_left > 0 LOOP
        v_new := ARRAY (SELECT c.key FROM (
            SELECT 0 AS fresh, r.* FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (SELECT o.available_at, o.key FROM holdfast.runs o WHERE o.lane = -l.lane AND o.lane < 0
              AND o.work_key IS NULL AND o.worker_id IS NULL AND CASE WHEN o.started_at IS NULL THEN 1 ELSE 0 END = 0 AND o.available_at <= at AND o.key <> ALL (v_tried)
              AND (p_only IS NULL OR o.key = ANY (p_only)) AND (o.deadline_at IS NULL OR o.deadline_at > at OR o.expired OR o.status = 'rolling_back')
              ORDER BY o.work_key, CASE WHEN o.started_at IS NULL THEN 1 ELSE 0 END, o.available_at, o.key LIMIT v_left) r
            UNION ALL
            (SELECT 1, r.* FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (SELECT o.available_at, o.key FROM holdfast.runs o WHERE o.lane = l.lane AND o.available_at <= at AND o.key <> ALL (v_tried)
              AND (p_only IS NULL OR o.key = ANY (p_only)) AND (o.deadline_at IS NULL OR o.deadline_at > at OR o.expired OR o.status = 'rolling_back') ORDER BY o.available_at, o.key LIMIT greatest(0, least(v_left, v_starts))) r
              ORDER BY r.available_at, r.key LIMIT greatest(0, least(v_left, v_starts)))
          ) c ORDER BY c.fresh, c.available_at, c.key LIMIT v_left);
        EXIT WHEN cardinality(v_new) = 0;
        v_tried := v_tried || v_new;
        v_locked := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (v_new) AND r.available_at <= at AND (r.worker_id IS NULL OR r.lane > 0) FOR NO KEY UPDATE SKIP LOCKED);
        v_new := ARRAY (SELECT u.key FROM unnest(v_new) WITH ORDINALITY AS u(key, i) WHERE u.key = ANY (v_locked) ORDER BY u.i);
        CONTINUE WHEN cardinality(v_new) = 0;
        IF v_starts IS NOT NULL THEN v_starts := v_starts - (SELECT count(*) FROM holdfast.runs r WHERE r.key = ANY (v_new) AND r.started_at IS NULL); END IF;
        keys := keys || v_new;
        recovered := recovered || holdfast.take_runs_1(q, v_new, p_worker, p_lease, at, true, false);
        v_gained := v_gained || v_new;
        v_left := v_left - cardinality(v_new);
        v_room := v_room - cardinality(v_new);
      END LOOP;
      CONTINUE;
    END IF;
    SELECT * INTO f FROM holdfast.look_for_run_keys_1(p_queue, 'runs', CASE WHEN q.rate_limit IS NULL THEN NULL ELSE 0 END, v_lanes, v_priority, greatest(v_left, 100), at);
    v_pass := f.pass;
    v_cursor := f.cursor;
    v_at_end := v_at_end AND f.cursor = '';
    IF q.rate_limit IS NOT NULL THEN
      SELECT * INTO f FROM holdfast.look_for_run_keys_1(p_queue, 'starts', 1, v_lanes, v_priority, greatest(v_left, 100), at);
      v_pass_starts := f.pass;
      v_cursor_starts := f.cursor;
      v_at_end := v_at_end AND f.cursor = '';
    END IF;
    v_others := ARRAY (SELECT l.lane FROM holdfast.lanes l WHERE l.queue = p_queue AND l.priority = v_priority AND l.lane <> ALL (v_lanes));
    v_done := '{}';
    v_done_starts := '{}';
    WHILE v_left > 0 LOOP
      IF q.rate_limit IS NULL THEN
        SELECT n.*, array_fill('runs'::text, ARRAY[coalesce(cardinality(n.keys), 0)]) AS kinds, array_fill('runs'::text, ARRAY[coalesce(cardinality(n.of), 0)]) AS of_kinds, array_fill(false, ARRAY[coalesce(cardinality(n.keys), 0)]) AS still, ARRAY (SELECT u.name = ANY (n.names) FROM unnest(n.of) WITH ORDINALITY AS u(name, i) ORDER BY u.i) AS due INTO x
          FROM holdfast.next_runs_1(q, 'runs', NULL, v_lanes, v_priority, v_left, NULL, v_done, p_only, v_tried, at) n;
      ELSE
        SELECT * INTO x FROM holdfast.next_shared_runs_1(q, v_lanes, v_priority, v_left, v_starts, v_done, v_done_starts, p_only, v_tried, v_pass - v_pass_starts, at);
      END IF;
      EXIT WHEN x.of IS NULL;
      v_new := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (x.keys) AND r.available_at <= at AND (r.worker_id IS NULL OR r.lane > 0) FOR NO KEY UPDATE SKIP LOCKED);
      IF cardinality(v_new) > 0 THEN
        IF v_starts IS NOT NULL THEN v_starts := v_starts - (SELECT count(*) FROM holdfast.runs r WHERE r.key = ANY (v_new) AND r.started_at IS NULL); END IF;
        IF q.rate_limit IS NOT NULL THEN
          -- A start moves both passes of its key, too. That of starts does not move while their time stands still.
          PERFORM holdfast.moved_keys_1(p_queue, t.kind, v_priority, array_agg(t.name), array_agg(t.pass))
            FROM (SELECT o.name, k.kind, max(o.tag) + 1 / max(u.weight) - CASE k.kind WHEN 'starts' THEN v_pass - v_pass_starts ELSE 0 END AS pass
              FROM unnest(x.keys, x.names, x.tags, x.kinds, x.still) AS o(key, name, tag, kind, still) JOIN unnest(x.of, x.of_kinds, x.weights) AS u(name, kind, weight) ON u.name = o.name AND u.kind = o.kind
              CROSS JOIN (VALUES ('runs'), ('starts')) AS k(kind) WHERE o.key = ANY (v_new) AND (k.kind = 'runs' OR NOT o.still) GROUP BY o.name, k.kind) t GROUP BY t.kind;
        END IF;
        SELECT keys || array_agg(u.key ORDER BY u.i), greatest(v_pass, max(u.tag)), v_pass_starts + greatest(v_pass, max(u.tag) FILTER (WHERE NOT u.still)) - v_pass
          INTO keys, v_pass, v_pass_starts FROM unnest(x.keys, x.tags, x.still) WITH ORDINALITY AS u(key, tag, still, i) WHERE u.key = ANY (v_new);
        recovered := recovered || holdfast.take_runs_1(q, v_new, p_worker, p_lease, at, true, false);
        v_gained := v_gained || v_new;
      END IF;
      PERFORM holdfast.served_keys_1(p_queue, u.kind, v_priority, CASE u.kind WHEN 'starts' THEN v_pass_starts ELSE v_pass END, array_agg(u.name), array_agg(CASE WHEN q.rate_limit IS NULL THEN coalesce(t.n, 0) / u.weight ELSE 0 END),
          array_agg(u.more OR cardinality(v_others) > 0 AND EXISTS (SELECT 1 FROM unnest(v_others) AS l(lane) CROSS JOIN LATERAL (
            SELECT 1 FROM holdfast.runs r WHERE r.lane = -l.lane AND r.lane < 0 AND r.worker_id IS NULL AND r.work_key = substr(u.name, 2) AND r.available_at <= at LIMIT 1) e)),
          array_agg(CASE WHEN NOT u.more THEN u.wake END))
        FROM unnest(x.of, x.weights, x.more, x.wakes, x.of_kinds) AS u(name, weight, more, wake, kind)
        LEFT JOIN (SELECT o.name, o.kind, count(*) AS n FROM unnest(x.keys, x.names, x.kinds) AS o(key, name, kind) WHERE o.key = ANY (v_new) GROUP BY o.name, o.kind) t ON t.name = u.name AND t.kind = u.kind
        GROUP BY u.kind;
      v_tried := v_tried || x.keys;
      v_left := v_left - cardinality(v_new);
      v_room := v_room - cardinality(v_new);
      -- Those that have nothing get nothing in this claim.
      v_found := '{}';
      FOR f IN SELECT u.name, u.more, u.kind FROM unnest(x.of, x.more, x.of_kinds, x.due) AS u(name, more, kind, due) WHERE NOT u.due LOOP
        IF f.more THEN v_found := v_found || f.name; END IF;
        IF f.kind = 'starts' THEN v_done_starts := v_done_starts || f.name; ELSE v_done := v_done || f.name; END IF;
      END LOOP;
      IF cardinality(v_found) > 0 AND v_left > 0 AND NOT q.counts_open AND holdfast.end_expired_1(p_queue, v_found, p_lanes, at) THEN
        v_done := ARRAY (SELECT d.name FROM unnest(v_done) AS d(name) WHERE d.name <> ALL (v_found));
        v_done_starts := ARRAY (SELECT d.name FROM unnest(v_done_starts) AS d(name) WHERE d.name <> ALL (v_found));
      END IF;
    END LOOP;
    PERFORM holdfast.move_on_1(p_queue, 'runs', v_priority, v_pass, v_cursor);
    IF q.rate_limit IS NOT NULL THEN PERFORM holdfast.move_on_1(p_queue, 'starts', v_priority, v_pass_starts, v_cursor_starts); END IF;
  END LOOP;
  PERFORM holdfast.end_claim_1(q, 'runs', at);
  IF cardinality(keys) < p_limit THEN
    SELECT min(h.available_at) INTO next_at FROM (SELECT l.lane FROM unnest(p_lanes) AS l(lane) UNION ALL SELECT -l.lane FROM unnest(p_lanes) AS l(lane)) l CROSS JOIN LATERAL (
      SELECT r.available_at FROM holdfast.runs r WHERE r.lane = l.lane AND r.available_at > at AND r.key <> ALL (keys)
        AND (r.deadline_at IS NULL OR r.deadline_at > at OR r.expired OR r.status = 'rolling_back') ORDER BY r.available_at, r.key LIMIT 1) h;
    IF v_starts <= 0 THEN SELECT s.at INTO v_starts_at FROM holdfast.starts_left_1(p_queue, 'runs', NULL, q.rate_limit, q.rate_per, at) s; END IF;
    next_at := least(next_at, CASE WHEN v_starts <= 0 THEN v_starts_at END, CASE WHEN NOT v_at_end THEN at END,
      (SELECT min(k.wake_at) FROM holdfast.queue_keys k WHERE k.queue = p_queue AND k.kind IN ('runs', 'starts') AND k.wake_at > at AND k.wake_at < 9007199254740991),
      -- Q2 Q7: runs below those that have got slots may need none from now on.
      CASE WHEN q.counts_open AND EXISTS (SELECT 1 FROM unnest(v_gained) AS k(key) CROSS JOIN LATERAL (SELECT r.id FROM holdfast.runs r WHERE r.key = k.key) p
        CROSS JOIN LATERAL (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = p.id AND c.finished_at IS NULL AND c.parent_close <> 'abandon' LIMIT 1) c) THEN at END);
  ELSE next_at := at;
  END IF;
END $$;

-- W1 W2: hands out runs that are served, by priority, then by when they became available, then by arrival. D7 counts recoveries. K7:
-- nothing of a run past its deadline begins. A claim never waits for a row that another transaction has locked.

-- The runs of a managed queue (see queues.sql) are claimed by claim_queued_runs_1; whether it is one is looked at in the same call.
-- p_serves: w workflow, v version, a all versions, q its queue, if that is not p_queue: other queues have few runs, and come first, so that no
-- backlog of p_queue keeps them waiting. p_after: blocked runs instead (V4), after this one. p_only: only these runs, in this order. At least one row is returned; with key null it only has the time and when the next run is due. With p_after next_at is the last blocked run that was tried, if there may be more, and held_back those up to there that stay blocked.
CREATE FUNCTION holdfast.claim_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_worker text, p_queue text, p_serves text,
  p_limit integer, p_lease bigint, p_after bigint, p_only bigint[], p_again boolean)
RETURNS TABLE (now bigint, next_at bigint, held_back json, recovered boolean, recovered_from text, records json, attempts json, inbox json, last_time bigint, key bigint, id text, workflow text, version text, status text, queue text, priority integer, output text, error text, waiting_for text,
  execution integer, attempt integer, parent_id text, parent_execution integer, parent_seq integer, parent_close text, parent_announce boolean,
  attributes text, retry text, created_at bigint, started_at bigint, available_at bigint, deadline_at bigint, finished_at bigint, worker_id text,
  epoch integer, history_length integer, turns integer, recoveries integer, input text, seed text, state text, resumable boolean, origin text, limited boolean) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_lanes integer[];
  v_priorities integer[];
  v_keys bigint[] := '{}';
  v_tried bigint[] := '{}';
  v_new bigint[];
  v_locked bigint[];
  v_recovered bigint[];
  v_next bigint;
  v_answer text;
  v_others text[] := ARRAY (SELECT x.q FROM json_to_recordset(p_serves::json) AS x(q text) WHERE x.q IS NOT NULL);
  v_other_lanes integer[];
  v_other_priorities integer[];
  v_other_queues text[];
  v_queue text;
  v_managed text[];
  v_limited text[];
  v_served integer[];
  v_ranks integer[];
  v_filed integer[];
  v_window bigint[];
  v_queued bigint[] := '{}';
  v_limit integer := p_limit;
  v_claim record;
  v_held_back json;
BEGIN
  SELECT array_agg(l.lane), array_agg(l.priority) INTO v_lanes, v_priorities FROM holdfast.lanes l
    WHERE l.queue = p_queue AND EXISTS (SELECT 1 FROM json_to_recordset(p_serves::json) AS x(w text, v text, a boolean, q text)
      WHERE x.w = l.workflow AND (x.a OR x.v IS NOT DISTINCT FROM l.version) AND coalesce(x.q, p_queue) = p_queue);
  -- Other queues have lanes once something was started there.
  IF cardinality(v_others) > 0 THEN
    SELECT array_agg(l.lane), array_agg(l.priority), array_agg(l.queue) INTO v_other_lanes, v_other_priorities, v_other_queues FROM holdfast.lanes l
      WHERE l.queue = ANY (v_others) AND l.queue <> p_queue AND EXISTS (SELECT 1 FROM json_to_recordset(p_serves::json) AS x(w text, v text, a boolean, q text)
        WHERE x.w = l.workflow AND (x.a OR x.v IS NOT DISTINCT FROM l.version) AND x.q = l.queue);
  END IF;
  IF v_other_lanes IS NULL THEN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('holdfast.queues' || p_queue, 0));
    SELECT ARRAY[q.name], CASE WHEN q.limits IS NOT NULL THEN ARRAY[q.name] END INTO v_managed, v_limited FROM holdfast.queues q
      WHERE q.name = p_queue AND (q.limits IS NOT NULL OR q.paused OR q.keyed_runs);
  ELSE
    v_others := ARRAY (SELECT DISTINCT u.name FROM unnest(v_other_queues) AS u(name) ORDER BY u.name) || p_queue;
    FOREACH v_queue IN ARRAY v_others LOOP
      PERFORM pg_advisory_xact_lock_shared(hashtextextended('holdfast.queues' || v_queue, 0));
    END LOOP;
    SELECT array_agg(q.name ORDER BY array_position(v_others, q.name)), array_agg(q.name) FILTER (WHERE q.limits IS NOT NULL) INTO v_managed, v_limited
      FROM holdfast.queues q WHERE q.name = ANY (v_others) AND (q.limits IS NOT NULL OR q.paused OR q.keyed_runs);
  END IF;
  IF p_after IS NOT NULL THEN
    -- Those that this call tries, whether a limit lets it claim them or not: the next call goes on behind them.
    v_filed := v_lanes || v_other_lanes;
    v_filed := v_filed || ARRAY (SELECT -l.lane FROM unnest(v_filed) AS l(lane));
    v_window := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.blocked_code IS NOT NULL AND r.status = 'blocked' AND r.lane = ANY (v_filed) AND r.key > p_after
      AND (p_only IS NULL OR r.key = ANY (p_only)) AND (r.deadline_at IS NULL OR r.deadline_at > v_now OR r.expired OR r.status = 'rolling_back') ORDER BY r.key LIMIT p_limit);
  END IF;
  IF cardinality(v_managed) > 1 AND p_limit > 0 THEN
    -- In one order for all claims: two that cover each other's queues would wait for each other.
    v_filed := v_lanes || v_other_lanes;
    v_filed := v_filed || ARRAY (SELECT -l.lane FROM unnest(v_filed) AS l(lane));
    IF cardinality(v_window) > 0 OR p_after IS NULL AND EXISTS (SELECT 1 FROM unnest(v_filed) AS l(lane) CROSS JOIN LATERAL (
        SELECT 1 FROM holdfast.runs x WHERE x.lane = l.lane AND x.available_at <= v_now LIMIT 1) r) THEN
      PERFORM 1 FROM holdfast.queues q WHERE q.name = ANY (v_managed) ORDER BY q.name FOR NO KEY UPDATE;
      v_now := holdfast.clock_1(p_now);
    END IF;
  END IF;
  IF v_managed IS NOT NULL THEN
    FOREACH v_queue IN ARRAY v_managed LOOP
      v_limit := p_limit - cardinality(v_queued);
      IF v_queue = p_queue THEN
        v_served := v_lanes;
        v_ranks := v_priorities;
        v_lanes := NULL;
        v_priorities := NULL;
        -- What is due in plain queues besides.
        IF v_other_lanes IS NOT NULL AND p_after IS NULL THEN
          v_limit := v_limit - (SELECT count(*) FROM (SELECT 1 FROM unnest(v_other_lanes, v_other_queues) AS l(lane, queue) CROSS JOIN LATERAL (
            SELECT 1 FROM holdfast.runs r WHERE r.lane = l.lane AND r.available_at <= v_now LIMIT v_limit) r WHERE l.queue <> ALL (v_managed) LIMIT v_limit) d);
        END IF;
      ELSE
        SELECT array_agg(l.lane), array_agg(l.priority) INTO v_served, v_ranks FROM unnest(v_other_lanes, v_other_priorities, v_other_queues) AS l(lane, priority, queue)
          WHERE l.queue = v_queue;
      END IF;
      v_filed := v_served || ARRAY (SELECT -l.lane FROM unnest(v_served) AS l(lane));
      IF p_again AND v_answer IS NULL THEN v_answer := coalesce(holdfast.begin_call_1(p_instance, p_slot, p_token), 'begun'); END IF;
      IF p_after IS NOT NULL THEN
        v_new := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (v_window) AND r.lane = ANY (v_filed) ORDER BY r.key);
      ELSE
        -- Most claims of a queue without work end here, and write nothing.
        v_new := ARRAY (SELECT r.key FROM unnest(v_filed) AS l(lane) CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.lane = l.lane AND x.available_at <= v_now LIMIT 1) r LIMIT 1);
      END IF;
      IF coalesce(v_answer, 'begun') = 'begun' AND cardinality(v_new) > 0 AND v_limit > 0 THEN
        IF v_answer IS NULL THEN v_answer := coalesce(holdfast.begin_call_1(p_instance, p_slot, p_token), 'begun'); END IF;
        IF v_answer = 'begun' THEN
          SELECT * INTO v_claim FROM holdfast.claim_queued_runs_1(v_queue, p_now, p_worker, p_lease, v_served, v_ranks, v_limit, p_only, CASE WHEN p_after IS NOT NULL THEN v_new END);
          v_now := v_claim.at;
          v_queued := v_queued || v_claim.keys;
          v_recovered := v_recovered || v_claim.recovered;
          v_next := least(v_next, v_claim.next_at);
        END IF;
      ELSE
        SELECT least(v_next, min(h.available_at)) INTO v_next FROM unnest(v_filed) AS l(lane) CROSS JOIN LATERAL (
          SELECT r.available_at FROM holdfast.runs r WHERE r.lane = l.lane AND r.available_at IS NOT NULL AND (r.deadline_at IS NULL OR r.deadline_at > v_now OR r.expired OR r.status = 'rolling_back')
          ORDER BY r.available_at, r.key LIMIT 1) h;
      END IF;
    END LOOP;
    v_limit := p_limit - cardinality(v_queued);
  END IF;
  IF v_other_lanes IS NOT NULL THEN
    SELECT v_lanes || array_agg(l.lane), v_priorities || array_agg(l.priority) INTO v_lanes, v_priorities FROM unnest(v_other_lanes, v_other_priorities, v_other_queues) AS l(lane, priority, queue)
      WHERE v_managed IS NULL OR l.queue <> ALL (v_managed);
  END IF;
  IF p_again AND v_answer IS NULL THEN v_answer := coalesce(holdfast.begin_call_1(p_instance, p_slot, p_token), 'begun'); END IF;
  WHILE coalesce(v_answer, 'begun') = 'begun' LOOP
    v_new := CASE WHEN p_only IS NOT NULL THEN ARRAY (
      SELECT r.key FROM unnest(p_only) WITH ORDINALITY AS o(key, ord) JOIN holdfast.runs r ON r.key = o.key
        WHERE r.key <> ALL (v_tried) AND (r.deadline_at IS NULL OR r.deadline_at > v_now OR r.expired OR r.status = 'rolling_back') AND CASE WHEN p_after IS NULL THEN r.available_at <= v_now ELSE r.status = 'blocked' END AND r.lane = ANY (v_lanes)
        ORDER BY o.ord LIMIT v_limit - cardinality(v_keys))
    WHEN p_after IS NOT NULL THEN ARRAY (
      SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (v_window) AND r.status = 'blocked' AND r.lane = ANY (v_lanes) AND r.key <> ALL (v_tried) ORDER BY r.key)
    ELSE ARRAY (
      SELECT c.key FROM unnest(v_lanes, v_priorities) AS l(lane, priority) CROSS JOIN LATERAL (
        SELECT r.key, r.available_at FROM holdfast.runs r WHERE r.lane = l.lane AND r.available_at <= v_now AND r.key <> ALL (v_tried) AND (r.deadline_at IS NULL OR r.deadline_at > v_now OR r.expired OR r.status = 'rolling_back')
        ORDER BY r.available_at, r.key LIMIT v_limit - cardinality(v_keys)
      ) c ORDER BY l.priority DESC, c.available_at, c.key LIMIT v_limit - cardinality(v_keys)) END;
    EXIT WHEN cardinality(v_new) = 0;
    IF v_answer IS NULL THEN v_answer := coalesce(holdfast.begin_call_1(p_instance, p_slot, p_token), 'begun'); END IF;
    EXIT WHEN v_answer <> 'begun';
    -- Another transaction that has locked one of them claims or changes it: passed over.
    v_locked := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (v_new) AND CASE WHEN p_after IS NULL THEN r.available_at <= v_now ELSE r.status = 'blocked' END AND r.lane = ANY (v_lanes)
      FOR NO KEY UPDATE SKIP LOCKED);
    v_keys := v_keys || ARRAY (SELECT u.key FROM unnest(v_new) WITH ORDINALITY AS u(key, ord) WHERE u.key = ANY (v_locked) ORDER BY u.ord);
    v_tried := v_tried || v_new;
    EXIT WHEN cardinality(v_keys) >= v_limit;
  END LOOP;
  IF cardinality(v_keys) = 0 AND cardinality(v_tried) > 0 THEN
    -- Other transactions have locked all runs that are due: worth a short wait, but not for a lock. A row that had changed when it was
    -- locked stays locked though it was not returned, so that this transaction may hold what the others wait for.
    PERFORM pg_sleep(0.002);
    v_keys := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = v_tried[1] AND CASE WHEN p_after IS NULL THEN r.available_at <= v_now ELSE r.status = 'blocked' END AND r.lane = ANY (v_lanes)
      FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  IF v_answer IS NOT NULL AND v_answer <> 'begun' THEN
    -- The call was carried out before: what it claimed, as far as it is still held.
    v_keys := ARRAY (SELECT r.key FROM json_array_elements_text(coalesce(nullif(v_answer, '{}'), '[]')::json) WITH ORDINALITY AS u(key, ord)
      JOIN holdfast.runs r ON r.key = u.key::bigint AND r.worker_id = p_worker ORDER BY u.ord);
    v_recovered := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (v_keys) AND r.recovered);
  ELSE
    SELECT least(v_next, min(h.available_at)) INTO v_next FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (
      SELECT r.available_at FROM holdfast.runs r WHERE r.lane = l.lane AND r.available_at IS NOT NULL AND r.key <> ALL (v_keys) AND (r.deadline_at IS NULL OR r.deadline_at > v_now OR r.expired OR r.status = 'rolling_back')
      ORDER BY r.available_at, r.key LIMIT 1) h;
    IF cardinality(v_keys) > 0 THEN
      WITH claimed AS (
        UPDATE holdfast.runs r SET epoch = r.epoch + 1, status = CASE r.status WHEN 'rolling_back' THEN r.status ELSE 'running' END,
            recovered = r.worker_id IS NOT NULL, recoveries = r.recoveries + (r.worker_id IS NOT NULL)::integer, worker_id = p_worker,
            parked_by = coalesce(r.worker_id, r.parked_by),
            lease = p_lease, available_at = v_now + p_lease, started_at = coalesce(r.started_at, v_now), turns = CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END, history_length = CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn') END
          WHERE r.key = ANY (v_keys) RETURNING r.key, r.recovered
      )
      SELECT array_agg(c.key) INTO v_locked FROM claimed c WHERE c.recovered;
      IF v_locked IS NOT NULL THEN
        v_recovered := v_recovered || v_locked;
        UPDATE holdfast.attempts a SET status = 'lost', ended_at = v_now
          WHERE a.run = ANY (v_locked) AND a.execution = (SELECT r.execution FROM holdfast.runs r WHERE r.key = a.run)
            AND a.status = 'running' AND NOT a.task;
      END IF;
    END IF;
    v_keys := v_queued || v_keys;
    IF cardinality(v_keys) > 0 THEN PERFORM holdfast.end_call_1(p_instance, p_slot, to_json(v_keys)::text); END IF;
  END IF;
  IF p_after IS NOT NULL THEN
    v_next := CASE WHEN coalesce(v_answer, 'begun') <> 'begun' THEN (SELECT max(k.key) FROM unnest(v_keys) AS k(key)) WHEN cardinality(v_window) >= p_limit THEN v_window[p_limit] END;
    v_held_back := (SELECT json_agg(w.key ORDER BY w.key) FROM unnest(v_window) AS w(key) WHERE w.key <> ALL (v_keys) AND coalesce(w.key <= v_next, true));
  END IF;
  IF cardinality(v_keys) = 0 THEN
    now := v_now;
    next_at := v_next;
    held_back := v_held_back;
    RETURN NEXT;
    RETURN;
  END IF;
  RETURN QUERY SELECT v_now, v_next, v_held_back, r.key = ANY (coalesce(v_recovered, '{}')), CASE WHEN r.key = ANY (v_recovered) THEN r.parked_by END,
    -- The worker that parked it usually has its history; if not, it asks again.
    CASE WHEN r.turns > 0 AND r.parked_by IS DISTINCT FROM p_worker THEN (SELECT json_agg(json_build_array(h.turn, h.time,
  h.history_length, h.worker, h.state, h.direction, h.type, h.seq, h.unit, h.name, h.n, h.refs, h.data, h.value) ORDER BY h.turn, h.position)
  FROM holdfast.records h WHERE h.run = r.key AND h.execution = r.execution) END,
    CASE WHEN r.turns > 0 THEN (SELECT json_agg(json_build_array(a.seq, a.number,
  a.task, a.status, a.worker_id, a.started_at, a.ended_at, a.retry_at, a.error) ORDER BY a.seq, a.number)
  FROM holdfast.attempts a WHERE a.run = r.key AND a.execution = r.execution AND NOT a.task) END,
    CASE WHEN r.last_message > 0 THEN (SELECT json_agg(json_build_array(b.id, b.type, b.seq, b.name, b.refs, b.data, b.value) ORDER BY b.id)
      FROM holdfast.inbox b WHERE b.run = r.key) END,
    -- P7: the next execution is not before the last turn of those before it.
    CASE WHEN r.turns = 0 AND r.execution > 1 THEN (SELECT h.time FROM holdfast.records h WHERE h.run = r.key AND h.execution < r.execution
      AND h.time IS NOT NULL ORDER BY h.execution DESC, h.turn DESC LIMIT 1) END,
    r.key, r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.output, r.error, r.waiting_for, r.execution, r.attempt,
  r.parent_id, r.parent_execution, r.parent_seq, r.parent_close, r.parent_announce, r.attributes::text AS attributes, r.retry, r.created_at, r.started_at,
  r.available_at, r.deadline_at, r.finished_at, r.worker_id, r.epoch, r.history_length AS history_length, r.turns AS turns, r.recoveries,
  e.input, e.seed, s.state, r.resumable, CASE WHEN r.work_key IS NOT NULL OR r.schedule IS NOT NULL OR r.forked_from IS NOT NULL OR r.after_id IS NOT NULL OR r.retention IS NOT NULL THEN
    json_build_object('key', r.work_key, 'schedule', r.schedule, 'tick', r.tick, 'from', r.forked_from, 'after', r.after_id, 'retention', r.retention)::text END AS origin, r.lane < 0 AND r.queue = ANY (v_limited)
  FROM holdfast.runs r LEFT JOIN LATERAL (SELECT x.input, x.seed FROM holdfast.executions x WHERE x.run = r.key AND x.execution = r.execution
      AND x.workflow = r.workflow AND x.version IS NOT DISTINCT FROM r.version OFFSET 0) e ON true
    LEFT JOIN LATERAL (SELECT x.state FROM holdfast.states x WHERE x.run = r.key OFFSET 0) s ON true
  WHERE r.key = ANY (v_keys) ORDER BY array_position(v_keys, r.key);
END $$;

-- W3: extends leases, and returns new messages of the runs.

-- p_claims: i number, id run, e epoch, seen. Answers with the numbers of those that are lost, and new messages of the others; and of those
-- whose lease was not renewed since another transaction has locked their row, with p_wait for longer than a moment: they are held all the same. A lease
-- whose end is off by less than a tenth of its length is left as it is: workers ask at every hint that messages may be there. Too late an
-- end counts as well: the clock was set back, and a worker that died would keep the run for as long.
CREATE FUNCTION holdfast.renew_leases_1(p_now bigint, p_worker text, p_lease bigint, p_claims text, p_wait boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_held integer[];
  v_due bigint[];
  v_free bigint[];
  v_still bigint[];
  v_busy json;
  v_news boolean;
  v_inbox json;
BEGIN
  SELECT array_agg(c.i), array_agg(r.key) FILTER (WHERE abs(v_now + p_lease - r.available_at) > p_lease * 0.1), bool_or(r.last_message > c.seen)
    INTO v_held, v_due, v_news
    FROM json_to_recordset(p_claims::json) AS c(i integer, id text, e integer, seen bigint)
    CROSS JOIN LATERAL (SELECT * FROM holdfast.runs x WHERE x.id = c.id AND x.epoch = c.e AND x.worker_id = p_worker OFFSET 0) r;
  IF v_due IS NOT NULL THEN
    -- Never without a limit: all leases of the worker would end meanwhile.
    IF p_wait THEN v_free := holdfast.lock_soon_1(v_due);
    ELSE v_free := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    -- Again, now that they are locked.
    SELECT array_agg(c.i), array_agg(r.key), json_agg(c.i) FILTER (WHERE r.key = ANY (v_due) AND r.key <> ALL (v_free)) INTO v_held, v_still, v_busy
      FROM json_to_recordset(p_claims::json) AS c(i integer, id text, e integer)
      CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = c.id AND x.epoch = c.e AND x.worker_id = p_worker OFFSET 0) r;
    UPDATE holdfast.runs SET available_at = v_now + p_lease WHERE key = ANY (v_free) AND key = ANY (v_still);
  END IF;
  IF v_news THEN
    SELECT json_agg(json_build_array(c.i, b.id, b.type, b.seq, b.name, b.refs, b.data, b.value) ORDER BY b.id) INTO v_inbox
      FROM json_to_recordset(p_claims::json) AS c(i integer, id text, e integer, seen bigint)
      CROSS JOIN LATERAL (SELECT * FROM holdfast.runs x WHERE x.id = c.id AND x.epoch = c.e AND x.worker_id = p_worker OFFSET 0) r
      CROSS JOIN LATERAL (SELECT * FROM holdfast.inbox x WHERE x.run = r.key AND x.id > c.seen OFFSET 0) b;
  END IF;
  RETURN json_build_object('inbox', v_inbox, 'busy', v_busy,
    'lost', (SELECT json_agg(c.i) FROM json_to_recordset(p_claims::json) AS c(i integer) WHERE v_held IS NULL OR c.i <> ALL (v_held)))::text;
END $$;

-- Q2–Q6 for activities: which ones of a managed queue a claim gets. As claim_queued_runs.sql; each attempt needs a slot and counts for the
-- rate, and none is resumed.

-- Lanes of activities are numbered as those of workflows, without a version.
CREATE FUNCTION holdfast.task_lanes_1(p_queue text, p_activities text[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO holdfast.lanes (queue, workflow, version, priority) SELECT p_queue, a.activity, NULL, 0 FROM unnest(p_activities) AS a(activity)
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.lanes o WHERE o.queue = p_queue AND o.workflow = a.activity AND o.version IS NULL AND o.priority = 0)
    ORDER BY a.activity ON CONFLICT DO NOTHING
$$;

-- The claim itself. p_again: those that are given out again as the same attempt (D7).
CREATE FUNCTION holdfast.take_tasks_1(p_ids bigint[], p_again bigint[], p_worker text, p_lease bigint, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE holdfast.tasks t SET attempt = t.attempt + CASE WHEN t.id = ANY (p_again) THEN 0 ELSE 1 END, token = t.token + 1, worker_id = p_worker, started_at = p_now, heartbeat_at = p_now,
      leased_until = p_now + least(p_lease, t.start_to_close), lease = least(p_lease, t.start_to_close), available_at = NULL,
      due_at = least(p_now + least(p_lease, t.start_to_close), t.scheduled_at + t.schedule_to_close, p_now + t.start_to_close, p_now + t.heartbeat)
    WHERE t.id = ANY (p_ids);
  INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at)
    SELECT run, execution, seq, attempt, true, 'running', worker_id, started_at FROM holdfast.tasks WHERE id = ANY (p_ids)
    ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id, started_at = excluded.started_at,
      ended_at = NULL, retry_at = NULL, error = NULL;
END $$;

CREATE FUNCTION holdfast.find_task_keys_1(p_queue text, p_lanes integer[], p_priority integer, p_cursor text, p_most integer, p_now bigint, OUT names text[], OUT cursor text)
LANGUAGE plpgsql AS $$
BEGIN
  WITH RECURSIVE walk AS (
    SELECT l.lane, 1 AS n, (SELECT x.work_key FROM holdfast.tasks x WHERE x.lane = -l.lane AND x.lane < 0 AND x.worker_id IS NULL
        AND x.available_at IS NOT NULL AND x.work_key >= p_cursor ORDER BY x.work_key LIMIT 1) AS work_key FROM unnest(p_lanes) AS l(lane)
    UNION ALL
    SELECT w.lane, w.n + 1, (SELECT x.work_key FROM holdfast.tasks x WHERE x.lane = -w.lane AND x.lane < 0 AND x.worker_id IS NULL
        AND x.available_at IS NOT NULL AND x.work_key > w.work_key ORDER BY x.work_key LIMIT 1)
      FROM walk w WHERE w.work_key IS NOT NULL AND w.n <= p_most
  ), found AS MATERIALIZED (
    SELECT DISTINCT f.lane, f.work_key FROM walk f
      LEFT JOIN LATERAL (SELECT x.ready, x.wake_at FROM holdfast.queue_keys x WHERE x.queue = p_queue AND x.kind = 'tasks' AND x.name = '=' || f.work_key
        AND x.priority = p_priority OFFSET 0) k ON true
      WHERE f.work_key IS NOT NULL AND k.ready IS NOT TRUE AND k.wake_at IS NULL
  )
  SELECT array_agg(DISTINCT '=' || f.work_key), coalesce((SELECT min(w.work_key) FROM walk w WHERE w.n > p_most), '') INTO names, cursor FROM found f
    WHERE (SELECT 1 FROM holdfast.tasks x WHERE x.lane = -f.lane AND x.lane < 0 AND x.worker_id IS NULL AND x.work_key = f.work_key AND x.available_at <= p_now LIMIT 1) IS NOT NULL;
END $$;

-- p_plain: activities whose tasks without a key, as they are before their first claim in a managed queue, belong to this priority.
CREATE FUNCTION holdfast.next_tasks_1(q holdfast.queues, p_lanes integer[], p_plain text[], p_priority integer, p_left integer, p_done text[], p_only bigint[], p_tried bigint[], p_now bigint,
  OUT keys bigint[], OUT names text[], OUT tags double precision[], OUT of text[], OUT weights double precision[], OUT more boolean[], OUT wakes bigint[])
LANGUAGE plpgsql SET enable_sort = off AS $$
BEGIN
  WITH lowest AS MATERIALIZED (
    SELECT k.name, k.pass, l.weight, least(l.room, l.starts) AS room, l.starts, l.wake_at FROM (
      SELECT x.name, x.pass FROM holdfast.queue_keys x WHERE x.queue = q.name AND x.kind = 'tasks' AND x.priority = p_priority AND x.ready AND x.name <> ALL (p_done)
      ORDER BY x.pass, x.name LIMIT p_left + 10) k CROSS JOIN LATERAL (SELECT x.* FROM holdfast.key_limits_1(q, 'tasks', k.name, p_now) x OFFSET 0) l
  ), sums AS MATERIALIZED (
    SELECT sum(k.weight) OVER o AS weights, sum(k.pass * k.weight) OVER o AS passes FROM lowest k WHERE k.room IS NULL OR k.room > 0
      WINDOW o AS (ORDER BY k.pass, k.name ROWS UNBOUNDED PRECEDING)
  ), level AS MATERIALIZED (
    SELECT min((p_left + s.passes) / s.weights) AS pass FROM sums s
  ), wanted AS MATERIALIZED (
    SELECT k.*, substr(k.name, 2) AS work_key, CASE k.name WHEN '' THEN p_lanes ELSE '{}' END AS unkeyed, CASE k.name WHEN '' THEN p_plain ELSE '{}' END AS plain,
        CASE k.name WHEN '' THEN '{}' ELSE p_lanes END AS keyed,
        CASE WHEN k.room <= 0 THEN 0 ELSE least(k.room, p_left, floor((level.pass - k.pass) * k.weight)::integer + 1) END AS n
      FROM lowest k CROSS JOIN level WHERE k.room <= 0 OR k.pass <= level.pass
  ), due AS MATERIALIZED (
    SELECT w.name, w.n, w.pass + (row_number() OVER o - 1) / w.weight AS tag, row_number() OVER o AS i, c.id, c.available_at
    FROM wanted w CROSS JOIN LATERAL (
      SELECT * FROM (
        SELECT r.* FROM unnest(w.keyed) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.id FROM holdfast.tasks x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key = w.work_key AND x.worker_id IS NULL AND x.available_at <= p_now AND x.id <> ALL (p_tried)
          AND (p_only IS NULL OR x.id = ANY (p_only)) AND NOT EXISTS (SELECT 1 FROM holdfast.runs o WHERE o.key = x.run AND o.deadline_at <= p_now) ORDER BY x.available_at, x.id LIMIT w.n + 1) r
        UNION ALL
        SELECT r.* FROM unnest(w.unkeyed) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.id FROM holdfast.tasks x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key IS NULL AND x.worker_id IS NULL AND x.available_at <= p_now AND x.id <> ALL (p_tried)
          AND (p_only IS NULL OR x.id = ANY (p_only)) AND NOT EXISTS (SELECT 1 FROM holdfast.runs o WHERE o.key = x.run AND o.deadline_at <= p_now) ORDER BY x.work_key, x.available_at, x.id LIMIT w.n + 1) r
        UNION ALL
        SELECT r.* FROM unnest(w.plain) AS a(activity) CROSS JOIN LATERAL (SELECT x.available_at, x.id FROM holdfast.tasks x WHERE x.queue = q.name AND x.activity = a.activity AND x.lane IS NULL
          AND x.available_at <= p_now AND x.id <> ALL (p_tried)
          AND (p_only IS NULL OR x.id = ANY (p_only)) AND NOT EXISTS (SELECT 1 FROM holdfast.runs o WHERE o.key = x.run AND o.deadline_at <= p_now) ORDER BY x.available_at, x.id LIMIT w.n + 1) r
      ) b ORDER BY b.available_at, b.id LIMIT w.n + 1) c
    WINDOW o AS (PARTITION BY w.name ORDER BY c.available_at, c.id)
  ), best AS MATERIALIZED (
    SELECT d.* FROM due d WHERE d.i <= d.n ORDER BY d.tag, d.available_at, d.id LIMIT p_left
  ), looked AS MATERIALIZED (
    SELECT c.name, max(c.weight) AS weight, max(c.wake_at) AS wake_at, CASE WHEN max(c.room) <= 0 THEN max(c.wake_at) IS NULL ELSE sum(c.due) > sum(c.taken) END AS more
      FROM (SELECT w.name, w.weight, w.wake_at, w.room, 0 AS due, 0 AS taken FROM wanted w
        UNION ALL SELECT d.name, NULL, NULL, NULL, 1, 0 FROM due d UNION ALL SELECT b.name, NULL, NULL, NULL, 0, 1 FROM best b) c GROUP BY c.name
  )
  SELECT ARRAY (SELECT b.id FROM best b ORDER BY b.tag, b.available_at, b.id), ARRAY (SELECT b.name FROM best b ORDER BY b.tag, b.available_at, b.id),
      ARRAY (SELECT b.tag FROM best b ORDER BY b.tag, b.available_at, b.id), array_agg(l.name), array_agg(l.weight), array_agg(l.more), array_agg(l.wake_at)
    INTO keys, names, tags, of, weights, more, wakes FROM looked l;
END $$;

-- Claims up to p_limit activities of these names. Answers as claim_queued_runs_1.
CREATE FUNCTION holdfast.claim_queued_tasks_1(p_queue text, p_now bigint, p_worker text, p_lease bigint, p_activities text[], p_limit integer, p_only bigint[],
  OUT ids bigint[], OUT at bigint, OUT next_at bigint) LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues;
  x record;
  f record;
  v_priority integer;
  v_lanes integer[];
  v_room integer;
  v_starts integer;
  v_left integer;
  v_new bigint[];
  v_tried bigint[] := '{}';
  v_done text[];
  v_found text[];
  v_pass double precision;
  v_cursor text;
  v_at_end boolean := true;
BEGIN
  ids := '{}';
  PERFORM holdfast.task_lanes_1(p_queue, p_activities);
  SELECT * INTO q FROM holdfast.queues WHERE name = p_queue FOR NO KEY UPDATE;
  at := holdfast.clock_1(p_now);
  IF q.paused AND coalesce(q.paused_until > at, true) THEN
    next_at := q.paused_until;
    RETURN;
  END IF;
  v_room := CASE WHEN q.concurrency IS NULL THEN p_limit ELSE holdfast.slots_left_1(p_queue, 'tasks', false, NULL, q.concurrency) END;
  IF q.rate_limit IS NOT NULL THEN
    SELECT s.n INTO v_starts FROM holdfast.starts_left_1(p_queue, 'tasks', NULL, q.rate_limit, q.rate_per, at) s;
  END IF;
  FOR v_priority, v_lanes IN SELECT l.priority, array_agg(l.lane) FROM holdfast.lanes l WHERE l.queue = p_queue AND l.workflow = ANY (p_activities) AND l.version IS NULL
      GROUP BY l.priority ORDER BY l.priority DESC LOOP
    v_left := least(v_room, v_starts, p_limit - cardinality(ids));
    EXIT WHEN v_left <= 0;
    v_found := '{}';
    SELECT t.pass, t.walked INTO v_pass, v_cursor FROM holdfast.queue_times t WHERE t.queue = p_queue AND t.kind = 'tasks' AND t.priority = v_priority;
    v_pass := coalesce(v_pass, 0);
    IF q.keyed_tasks THEN
      UPDATE holdfast.queue_keys k SET ready = true, wake_at = NULL, pass = greatest(k.pass, v_pass) WHERE k.queue = p_queue AND k.kind = 'tasks' AND k.priority = v_priority AND k.wake_at <= at;
      SELECT * INTO f FROM holdfast.find_task_keys_1(p_queue, v_lanes, v_priority, coalesce(v_cursor, ''), greatest(v_left, 100), at);
      v_found := coalesce(f.names, '{}');
      v_cursor := f.cursor;
      v_at_end := v_at_end AND f.cursor = '';
    END IF;
    PERFORM holdfast.ready_keys_1(p_queue, 'tasks', v_priority, v_pass, v_found || ''::text);
    v_done := '{}';
    WHILE v_left > 0 LOOP
      SELECT * INTO x FROM holdfast.next_tasks_1(q, v_lanes, CASE v_priority WHEN 0 THEN p_activities ELSE '{}' END, v_priority, v_left, v_done, p_only, v_tried, at);
      EXIT WHEN x.of IS NULL;
      v_new := ARRAY (SELECT t.id FROM holdfast.tasks t WHERE t.id = ANY (x.keys) AND t.available_at <= at AND t.worker_id IS NULL FOR UPDATE SKIP LOCKED);
      IF cardinality(v_new) > 0 THEN
        SELECT ids || array_agg(u.key ORDER BY u.i), greatest(v_pass, max(u.tag)) INTO ids, v_pass
          FROM unnest(x.keys, x.tags) WITH ORDINALITY AS u(key, tag, i) WHERE u.key = ANY (v_new);
        UPDATE holdfast.tasks t SET lane = -l.lane FROM holdfast.lanes l
          WHERE t.id = ANY (v_new) AND t.lane IS NULL AND l.lane = ANY (v_lanes) AND l.workflow = t.activity;
        PERFORM holdfast.take_tasks_1(v_new, '{}', p_worker, p_lease, at);
        IF q.longest_per IS NOT NULL THEN
          INSERT INTO holdfast.queue_starts (queue, kind, name, at) SELECT q.name, 'tasks', coalesce('=' || t.work_key, ''), claim_queued_tasks_1.at FROM holdfast.tasks t WHERE t.id = ANY (v_new);
        END IF;
      END IF;
      PERFORM holdfast.served_keys_1(p_queue, 'tasks', v_priority, v_pass, array_agg(u.name), array_agg(coalesce(t.n, 0) / u.weight),
          -- Other workers may serve activities that this one does not.
          array_agg(u.more OR EXISTS (SELECT 1 FROM holdfast.lanes l CROSS JOIN LATERAL (
            SELECT 1 FROM holdfast.tasks r WHERE r.lane = -l.lane AND r.lane < 0 AND r.worker_id IS NULL AND r.work_key = substr(u.name, 2) AND r.available_at <= at LIMIT 1) e
            WHERE l.queue = p_queue AND l.priority = v_priority AND l.lane <> ALL (v_lanes))),
          array_agg(CASE WHEN NOT u.more THEN u.wake END))
        FROM unnest(x.of, x.weights, x.more, x.wakes) AS u(name, weight, more, wake)
        LEFT JOIN (SELECT o.name, count(*) AS n FROM unnest(x.keys, x.names) AS o(key, name) WHERE o.key = ANY (v_new) GROUP BY o.name) t ON t.name = u.name;
      v_tried := v_tried || x.keys;
      v_left := v_left - cardinality(v_new);
      v_room := v_room - cardinality(v_new);
      v_starts := v_starts - cardinality(v_new);
      v_done := v_done || ARRAY (SELECT u.name FROM unnest(x.of) AS u(name) WHERE u.name <> ALL (x.names));
    END LOOP;
    PERFORM holdfast.move_on_1(p_queue, 'tasks', v_priority, v_pass, coalesce(v_cursor, ''));
  END LOOP;
  PERFORM holdfast.end_claim_1(q, 'tasks', at);
  IF cardinality(ids) < p_limit THEN
    SELECT min(h.available_at) INTO next_at FROM (
      SELECT r.available_at FROM holdfast.lanes l CROSS JOIN LATERAL (SELECT t.available_at FROM holdfast.tasks t
          WHERE t.lane = -l.lane AND t.lane < 0 AND t.worker_id IS NULL AND t.available_at > at AND t.id <> ALL (ids) ORDER BY t.available_at LIMIT 1) r
        WHERE l.queue = p_queue AND l.workflow = ANY (p_activities) AND l.version IS NULL
      UNION ALL
      SELECT r.available_at FROM unnest(p_activities) AS a(activity) CROSS JOIN LATERAL (SELECT t.available_at FROM holdfast.tasks t
          WHERE t.queue = p_queue AND t.activity = a.activity AND t.lane IS NULL AND t.available_at > at ORDER BY t.available_at LIMIT 1) r) h;
    next_at := least(next_at, CASE WHEN v_starts <= 0 THEN (SELECT s.at FROM holdfast.starts_left_1(p_queue, 'tasks', NULL, q.rate_limit, q.rate_per, at) s) END, CASE WHEN NOT v_at_end THEN at END,
      (SELECT min(k.wake_at) FROM holdfast.queue_keys k WHERE k.queue = p_queue AND k.kind = 'tasks' AND k.wake_at > at AND k.wake_at < 9007199254740991));
  ELSE next_at := at;
  END IF;
END $$;

-- D11: hands out activities.

-- p_known: the tasks that the worker knows of, if the answer to an earlier claim was lost. D7: others that are leased to it have not begun, and
-- are given out again as the same attempt. p_only: only these tasks.
CREATE FUNCTION holdfast.claim_tasks_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_worker text, p_queue text, p_activities text,
  p_limit integer, p_lease bigint, p_known text, p_only bigint[], p_again boolean)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_activities text[] := ARRAY (SELECT * FROM json_array_elements_text(p_activities::json));
  v_overdue boolean := EXISTS (SELECT 1 FROM holdfast.tasks WHERE due_at <= v_now);
  v_lost bigint[] := '{}';
  v_found bigint[];
  v_ids bigint[] := '{}';
  v_next bigint;
  v_answer text;
  v_managed boolean;
  v_limited boolean;
  v_queued bigint[] := '{}';
  v_begun boolean := p_again;
  v_claim record;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('holdfast.queues' || p_queue, 0));
  SELECT q.limits IS NOT NULL OR q.paused OR q.keyed_tasks, q.limits IS NOT NULL INTO v_managed, v_limited FROM holdfast.queues q WHERE q.name = p_queue;
  IF p_again THEN v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token); END IF;
  IF p_known IS NOT NULL THEN
    v_lost := ARRAY (SELECT t.id FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = ANY (v_activities) AND t.worker_id = p_worker AND t.due_at > v_now AND (p_only IS NULL OR t.id = ANY (p_only))
      AND t.id <> ALL (ARRAY (SELECT k::bigint FROM json_array_elements_text(p_known::json) AS x(k))) ORDER BY t.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
  END IF;
  IF v_managed AND v_answer IS NULL THEN
    SELECT min(h.available_at) INTO v_next FROM (
      SELECT r.available_at FROM holdfast.lanes l CROSS JOIN LATERAL (SELECT t.available_at FROM holdfast.tasks t
          WHERE t.lane = -l.lane AND t.lane < 0 AND t.worker_id IS NULL AND t.available_at IS NOT NULL ORDER BY t.available_at LIMIT 1) r
        WHERE l.queue = p_queue AND l.workflow = ANY (v_activities) AND l.version IS NULL
      UNION ALL
      SELECT r.available_at FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (SELECT t.available_at FROM holdfast.tasks t
          WHERE t.queue = p_queue AND t.activity = a.activity AND t.lane IS NULL AND t.available_at IS NOT NULL ORDER BY t.available_at LIMIT 1) r) h;
    -- Most claims of a queue without work write nothing.
    IF v_next <= v_now AND p_limit > cardinality(v_lost) AND NOT v_begun THEN
      v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token);
      v_begun := true;
    END IF;
    IF v_next <= v_now AND p_limit > cardinality(v_lost) AND v_answer IS NULL THEN
      SELECT * INTO v_claim FROM holdfast.claim_queued_tasks_1(p_queue, p_now, p_worker, p_lease, v_activities, p_limit - cardinality(v_lost), p_only);
      v_queued := v_claim.ids;
      v_now := v_claim.at;
      v_next := v_claim.next_at;
    END IF;
  END IF;
  v_found := v_lost || CASE WHEN v_managed THEN v_queued WHEN p_only IS NOT NULL THEN ARRAY (
    SELECT t.id FROM holdfast.tasks t WHERE t.id = ANY (p_only) AND t.lane IS NULL AND t.queue = p_queue AND t.activity = ANY (v_activities) AND t.available_at <= v_now AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
    ORDER BY t.available_at, t.id LIMIT p_limit - cardinality(v_lost) FOR UPDATE SKIP LOCKED)
  ELSE ARRAY (
    SELECT c.id FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
      SELECT t.id, t.available_at FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at <= v_now AND t.lane IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
      ORDER BY t.available_at, t.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) c ORDER BY c.available_at, c.id LIMIT p_limit - cardinality(v_lost)) END;
  IF cardinality(v_found) > 0 AND NOT v_begun THEN v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token); END IF;
  IF v_answer IS NULL THEN v_ids := v_found;
  ELSE v_ids := ARRAY (SELECT t.id FROM json_array_elements_text(coalesce(nullif(v_answer, '{}'), '[]')::json) AS u(id) JOIN holdfast.tasks t ON t.id = u.id::bigint AND t.worker_id = p_worker);
  END IF;
  IF v_managed IS NOT TRUE THEN
    SELECT min(h.available_at) INTO v_next FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
      SELECT t.available_at FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at IS NOT NULL AND t.lane IS NULL AND t.id <> ALL (v_ids) AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
      ORDER BY t.available_at, t.id LIMIT 1) h;
  END IF;
  IF cardinality(v_ids) > 0 AND v_answer IS NULL THEN
    PERFORM holdfast.take_tasks_1(ARRAY (SELECT u.id FROM unnest(v_ids) AS u(id) WHERE u.id <> ALL (v_queued)), v_lost, p_worker, p_lease, v_now);
    PERFORM holdfast.end_call_1(p_instance, p_slot, to_json(v_ids)::text);
  END IF;
  RETURN json_build_object('now', v_now, 'next', v_next, 'overdue', v_overdue, 'limited', v_limited, 'tasks', (
    SELECT json_agg(json_build_object('id', t.id, 'runId', r.id, 'execution', t.execution, 'seq', t.seq, 'activity', t.activity, 'queue', t.queue,
      'location', t.location, 'input', t.input, 'retry', t.retry, 'startToClose', t.start_to_close, 'scheduleToClose', t.schedule_to_close,
      'scheduleToStart', t.schedule_to_start, 'heartbeat', t.heartbeat, 'attempt', t.attempt, 'token', t.token, 'lastHeartbeat', t.last_heartbeat, 'key', t.work_key, 'priority', nullif(t.priority, 0))
      ORDER BY array_position(v_ids, t.id))
    FROM holdfast.tasks t JOIN holdfast.runs r ON r.key = t.run WHERE t.id = ANY (v_ids)))::text;
END $$;

-- Q1 Q8: limits and pauses of queues, and how queues are shown.

-- What was claimed in a queue before it had limits counts from now on, and what was claimed under limits that are gone is as any other.
CREATE FUNCTION holdfast.file_queue_1(p_queue text, p_filed boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE holdfast.runs r SET lane = -r.lane WHERE r.key = ANY (ARRAY (SELECT x.key FROM holdfast.runs x WHERE x.queue = p_queue AND x.ended_as IS NULL
    AND CASE WHEN p_filed THEN x.lane > 0 AND x.started_at IS NOT NULL ELSE x.lane < 0 AND x.work_key IS NULL END ORDER BY x.id FOR NO KEY UPDATE));
  IF p_filed THEN
    PERFORM holdfast.task_lanes_1(p_queue, ARRAY (SELECT DISTINCT t.activity FROM holdfast.tasks t WHERE t.queue = p_queue AND t.lane IS NULL AND t.worker_id IS NOT NULL));
    UPDATE holdfast.tasks t SET lane = -l.lane FROM holdfast.lanes l WHERE t.id = ANY (ARRAY (SELECT x.id FROM holdfast.tasks x WHERE x.queue = p_queue AND x.lane IS NULL
      AND x.worker_id IS NOT NULL ORDER BY x.id FOR UPDATE)) AND l.queue = t.queue AND l.workflow = t.activity AND l.version IS NULL AND l.priority = t.priority;
  ELSE
    UPDATE holdfast.tasks t SET lane = NULL WHERE t.id = ANY (ARRAY (SELECT x.id FROM holdfast.tasks x WHERE x.queue = p_queue AND x.lane < 0 AND x.work_key IS NULL
      AND x.priority = 0 ORDER BY x.id FOR UPDATE));
  END IF;
END $$;

-- Locks a queue for a change. The advisory lock is for claims and first turns that take it for a plain one: see queues.sql.
CREATE FUNCTION holdfast.lock_queue_1(p_queue text) RETURNS holdfast.queues LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.queues' || p_queue, 0));
  INSERT INTO holdfast.queues (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
  SELECT * INTO q FROM holdfast.queues WHERE name = p_queue FOR UPDATE;
  RETURN q;
END $$;

-- What follows from a change: p_before is how the queue was.
CREATE FUNCTION holdfast.queue_changed_1(p_before holdfast.queues) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues;
BEGIN
  SELECT * INTO q FROM holdfast.queues WHERE name = p_before.name;
  IF (q.limits IS NOT NULL OR q.paused) AND NOT (p_before.limits IS NOT NULL OR p_before.paused) THEN
    PERFORM nextval('holdfast.queue_changes');
    PERFORM holdfast.file_queue_1(q.name, true);
  ELSIF NOT (q.limits IS NOT NULL OR q.paused) AND (p_before.limits IS NOT NULL OR p_before.paused) THEN
    PERFORM holdfast.file_queue_1(q.name, false);
  END IF;
  IF q.counts_open AND NOT p_before.counts_open THEN
    -- Q2: those that have begun hold slots, but for those that an ancestor holds for them.
    UPDATE holdfast.runs r SET held = NOT s.of_key, under = s.of_queue FROM (
        SELECT x.key, c.of_queue, c.of_key FROM (
          SELECT o.key, o.work_key, CASE WHEN o.parent_close <> 'abandon' THEN o.parent_id END AS parent_id FROM holdfast.runs o
          WHERE o.queue = q.name AND o.ended_as IS NULL AND o.started_at IS NOT NULL ORDER BY o.id FOR NO KEY UPDATE) x
        CROSS JOIN LATERAL holdfast.covered_1(q.name, x.parent_id, x.work_key, true) c) s
      WHERE r.key = s.key;
  ELSIF p_before.counts_open AND NOT q.counts_open THEN
    UPDATE holdfast.runs r SET held = false, under = false WHERE r.key = ANY (ARRAY (SELECT x.key FROM holdfast.runs x WHERE x.queue = q.name AND x.held AND x.ended_as IS NULL
      ORDER BY x.id FOR NO KEY UPDATE));
  END IF;
  IF (q.rate_limit IS NULL) <> (p_before.rate_limit IS NULL) THEN
    DELETE FROM holdfast.queue_keys WHERE queue = q.name AND kind = 'starts';
    DELETE FROM holdfast.queue_times WHERE queue = q.name AND kind = 'starts';
  END IF;
  -- The next claim looks at them, and makes them begin at its time (Q5).
  UPDATE holdfast.queue_keys SET wake_at = 0 WHERE queue = q.name AND wake_at IS NOT NULL;
END $$;

-- p_limits: the limits as they are shown; null: there are none any more. p_fields: c concurrency, r rate, p its window, kc kr kp of each key,
-- l the longest window, o whether open runs count. p_keys: n name, c, r, p, w weight.
CREATE FUNCTION holdfast.set_queue_1(p_queue text, p_limits text, p_fields text, p_keys text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues := holdfast.lock_queue_1(p_queue);
BEGIN
  UPDATE holdfast.queues x SET limits = p_limits, concurrency = f.c, rate_limit = f.r, rate_per = f.p, key_concurrency = f.kc, key_rate_limit = f.kr, key_rate_per = f.kp,
      longest_per = f.l, counts_open = coalesce(f.o, false)
    FROM json_to_record(coalesce(p_fields, '{}')::json) AS f(c integer, r integer, p bigint, kc integer, kr integer, kp bigint, l bigint, o boolean) WHERE x.name = p_queue;
  DELETE FROM holdfast.queue_limits WHERE queue = p_queue AND NOT paused;
  UPDATE holdfast.queue_limits SET concurrency = NULL, rate_limit = NULL, rate_per = NULL, weight = NULL WHERE queue = p_queue;
  INSERT INTO holdfast.queue_limits (queue, name, concurrency, rate_limit, rate_per, weight)
    SELECT p_queue, k.n, k.c, k.r, k.p, k.w FROM json_to_recordset(coalesce(p_keys, '[]')::json) AS k(n text, c integer, r integer, p bigint, w double precision)
    ON CONFLICT (queue, name) DO UPDATE SET concurrency = excluded.concurrency, rate_limit = excluded.rate_limit, rate_per = excluded.rate_per, weight = excluded.weight;
  UPDATE holdfast.queues SET has_keys = EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = p_queue) WHERE name = p_queue;
  PERFORM holdfast.queue_changed_1(q);
END $$;

-- p_name: of a key; null: the whole queue. p_for: how long; null: until it is resumed.
CREATE FUNCTION holdfast.pause_queue_1(p_now bigint, p_queue text, p_name text, p_paused boolean, p_for bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues := holdfast.lock_queue_1(p_queue);
  v_until bigint := holdfast.clock_1(p_now) + p_for;
BEGIN
  IF p_name IS NULL THEN
    UPDATE holdfast.queues SET paused = p_paused, paused_until = v_until WHERE name = p_queue;
  ELSE
    IF p_paused THEN
      INSERT INTO holdfast.queue_limits (queue, name, paused, paused_until) VALUES (p_queue, p_name, true, v_until)
        ON CONFLICT (queue, name) DO UPDATE SET paused = true, paused_until = excluded.paused_until;
    ELSE
      UPDATE holdfast.queue_limits SET paused = false, paused_until = NULL WHERE queue = p_queue AND name = p_name;
    END IF;
    UPDATE holdfast.queues SET has_keys = EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = p_queue) WHERE name = p_queue;
  END IF;
  PERFORM holdfast.queue_changed_1(q);
END $$;

-- Names of all queues that have limits, a pause or work.
CREATE FUNCTION holdfast.queue_names_1() RETURNS text LANGUAGE sql AS $$
  SELECT coalesce(json_agg(n.name ORDER BY n.name), '[]')::text FROM (
    SELECT q.name FROM holdfast.queues q WHERE q.limits IS NOT NULL OR q.paused OR EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = q.name AND l.paused)
    UNION SELECT r.queue FROM holdfast.runs r WHERE r.ended_as IS NULL
    UNION SELECT t.queue FROM holdfast.tasks t) n
$$;

-- p_names: which. Counts stop at p_most.
CREATE FUNCTION holdfast.show_queues_1(p_now bigint, p_names text[], p_most integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_queues json[] := '{}';
  v_lanes integer[];
  v_name text;
  q holdfast.queues;
  r record;
  t record;
  v_held bigint;
BEGIN
  FOREACH v_name IN ARRAY p_names LOOP
    SELECT * INTO q FROM holdfast.queues WHERE name = v_name;
    v_lanes := ARRAY (SELECT l.lane FROM holdfast.lanes l WHERE l.queue = v_name UNION ALL SELECT -l.lane FROM holdfast.lanes l WHERE l.queue = v_name);
    SELECT count(*) AS n, min(w.available_at) AS oldest INTO r FROM (SELECT x.available_at FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (
      SELECT o.available_at FROM holdfast.runs o WHERE o.lane = l.lane AND o.available_at <= v_now AND o.worker_id IS NULL AND NOT (o.held AND NOT o.under) ORDER BY o.available_at LIMIT p_most) x
      ORDER BY x.available_at LIMIT p_most) w;
    IF q.counts_open THEN v_held := p_most - holdfast.slots_left_1(v_name, 'runs', true, NULL, p_most);
    ELSE
      SELECT count(*) INTO v_held FROM (SELECT 1 FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (
        SELECT 1 FROM holdfast.runs o WHERE o.lane = l.lane AND o.available_at IS NOT NULL AND o.worker_id IS NOT NULL LIMIT p_most) x LIMIT p_most) w;
    END IF;
    SELECT count(*) FILTER (WHERE x.worker_id IS NULL AND x.available_at <= v_now) AS n, count(*) FILTER (WHERE x.worker_id IS NOT NULL) AS held,
      min(x.available_at) FILTER (WHERE x.worker_id IS NULL AND x.available_at <= v_now) AS oldest INTO t FROM holdfast.tasks x WHERE x.queue = v_name;
    v_queues := v_queues || json_build_object('name', v_name, 'limits', q.limits, 'paused', coalesce(q.paused AND coalesce(q.paused_until > v_now, true), false),
      'until', q.paused_until, 'keys', (SELECT json_agg(substr(l.name, 2) ORDER BY l.name) FROM holdfast.queue_limits l WHERE l.queue = v_name AND l.paused AND coalesce(l.paused_until > v_now, true)),
      'runs', json_build_array(r.n, v_held, r.oldest), 'tasks', json_build_array(least(t.n, p_most), least(t.held, p_most), t.oldest));
  END LOOP;
  RETURN array_to_json(v_queues)::text;
END $$;

-- What limits leave: of a queue, or of a key of it (p_name; null: of the queue). slots: held and limit; starts: limit, window, and when there
-- is room for another one; both null without a limit.
CREATE FUNCTION holdfast.limit_use_1(p_queue text, p_kind text, p_open boolean, p_name text, p_concurrency integer, p_limit integer, p_per bigint, p_paused boolean, p_until bigint, p_now bigint, p_most integer)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  v_left integer;
  v_at bigint;
BEGIN
  IF p_limit IS NOT NULL THEN SELECT s.n, s.at INTO v_left, v_at FROM holdfast.starts_left_1(p_queue, p_kind, p_name, p_limit, p_per, p_now) s; END IF;
  RETURN json_build_object('paused', coalesce(p_paused AND coalesce(p_until > p_now, true), false), 'until', p_until,
    'slots', CASE WHEN p_concurrency IS NOT NULL THEN json_build_array(p_most - holdfast.slots_left_1(p_queue, p_kind, p_open, p_name, p_most), p_concurrency) END,
    'starts', CASE WHEN p_limit IS NOT NULL THEN json_build_array(p_limit, p_per, CASE WHEN v_left <= 0 THEN v_at END) END);
END $$;

-- What holds one run back, or an activity of this queue and key (p_name, as in \`queue_keys\`). 'null': there is no such run.
CREATE FUNCTION holdfast.show_limits_1(p_now bigint, p_run text, p_queue text, p_name text, p_most integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_kind text := CASE WHEN p_run IS NULL THEN 'tasks' ELSE 'runs' END;
  v_slot boolean := true;
  v_key_slot boolean := true;
  v_start boolean := true;
  r holdfast.runs;
  q holdfast.queues;
  l holdfast.queue_limits;
  c record;
BEGIN
  IF p_run IS NOT NULL THEN
    SELECT * INTO r FROM holdfast.runs WHERE id = p_run;
    IF NOT FOUND THEN RETURN 'null'; END IF;
    p_queue := r.queue;
    p_name := coalesce('=' || r.work_key, '');
    v_start := r.started_at IS NULL;
  END IF;
  SELECT * INTO q FROM holdfast.queues WHERE name = p_queue;
  SELECT * INTO l FROM holdfast.queue_limits x WHERE x.queue = p_queue AND x.name = p_name;
  IF p_run IS NOT NULL AND q.counts_open THEN
    SELECT * INTO c FROM holdfast.covered_1(p_queue, CASE WHEN r.parent_close <> 'abandon' THEN r.parent_id END, r.work_key, false);
    v_slot := NOT c.of_queue AND NOT (r.held AND NOT r.under);
    v_key_slot := NOT c.of_key AND NOT r.held;
  ELSIF r.worker_id IS NOT NULL THEN -- Q3
    v_slot := false;
    v_key_slot := false;
    v_start := false;
  END IF;
  RETURN json_build_object('needs', json_build_array(v_slot, v_key_slot, v_start),
    'queue', holdfast.limit_use_1(p_queue, v_kind, q.counts_open, NULL, q.concurrency, q.rate_limit, q.rate_per, q.paused, q.paused_until, v_now, p_most),
    'key', CASE WHEN p_name <> '' THEN holdfast.limit_use_1(p_queue, v_kind, q.counts_open, p_name, coalesce(l.concurrency, q.key_concurrency), coalesce(l.rate_limit, q.key_rate_limit),
      CASE WHEN l.rate_limit IS NULL THEN q.key_rate_per ELSE l.rate_per END, l.paused, l.paused_until, v_now, p_most) END)::text;
END $$;

-- D11: extends the leases of activities.

-- p_beats: i number, id, token, lease, details. Only a heartbeat with details, which the activity sends, counts for its heartbeat limit.
CREATE FUNCTION holdfast.heartbeat_1(p_now bigint, p_beats text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_held json;
BEGIN
  PERFORM 1 FROM holdfast.tasks WHERE id = ANY (ARRAY (SELECT id FROM json_to_recordset(p_beats::json) AS b(id bigint))) ORDER BY id FOR UPDATE;
  WITH beaten AS (
    UPDATE holdfast.tasks t SET leased_until = v_now + b.lease, heartbeat_at = CASE WHEN b.details IS NULL THEN t.heartbeat_at ELSE v_now END,
        last_heartbeat = coalesce(b.details, t.last_heartbeat),
        due_at = least(v_now + b.lease, t.scheduled_at + t.schedule_to_close, t.started_at + t.start_to_close,
          CASE WHEN b.details IS NULL THEN t.heartbeat_at ELSE v_now END + t.heartbeat)
      FROM json_to_recordset(p_beats::json) AS b(i integer, id bigint, token integer, lease bigint, details text)
      WHERE t.id = ANY (ARRAY (SELECT id FROM json_to_recordset(p_beats::json) AS x(id bigint))) AND t.id = b.id AND t.token = b.token
        AND t.worker_id IS NOT NULL AND t.due_at > v_now
      RETURNING b.i
  )
  SELECT json_agg(i) INTO v_held FROM beaten;
  RETURN json_build_object('held', v_held, 'overdue', EXISTS (SELECT 1 FROM holdfast.tasks WHERE due_at <= v_now))::text;
END $$;

-- D8 D11: how attempts of activities end, and whether another follows. A token fences every answer.

-- How attempts end: by an answer, or (l) because the store has found that their time is up. p_answers: i number, id, token, s status of the
-- attempt, v value, e error, r retryable, n random share of the wait, w the wait if it is given, o over: no attempt follows.
-- Answers with the numbers of those that counted, and of those whose run another transaction has locked, with p_wait for longer than a moment: nothing
-- was written for them. And with the runs whose next attempt would come after their deadline (K7).
CREATE FUNCTION holdfast.settle_tasks_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_answers text, p_wait boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint;
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_taken integer[] := '{}';
  v_busy integer[];
  v_tasks bigint[] := ARRAY (SELECT id FROM json_to_recordset(p_answers::json) AS x(id bigint));
  v_runs bigint[];
  a record;
  v_task holdfast.tasks;
  v_delay bigint;
  v_again boolean;
  v_run text;
  v_deadline bigint;
  v_late json[];
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  v_runs := ARRAY (SELECT t.run FROM holdfast.tasks t WHERE t.id = ANY (v_tasks));
  IF p_wait THEN v_runs := holdfast.lock_soon_1(v_runs);
  ELSE v_runs := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_runs) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  PERFORM 1 FROM holdfast.tasks WHERE id = ANY (v_tasks) AND run = ANY (v_runs) ORDER BY id FOR UPDATE;
  v_now := holdfast.clock_1(p_now);
  FOR a IN SELECT * FROM json_to_recordset(p_answers::json) AS x(i integer, id bigint, token integer, s text, v text, e text, r boolean, n double precision,
      w bigint, o boolean, l boolean) LOOP
    SELECT * INTO v_task FROM holdfast.tasks WHERE id = a.id AND token = a.token;
    -- One whose time is up can't be answered any more, swept or not.
    CONTINUE WHEN NOT FOUND OR a.l IS NOT TRUE AND (v_task.worker_id IS NULL OR v_task.due_at <= v_now) OR a.l AND v_task.due_at > v_now;
    IF v_task.run <> ALL (v_runs) THEN
      v_busy := v_busy || a.i;
      CONTINUE;
    END IF;
    v_taken := v_taken || a.i;
    -- D8: as the core's \`retryDelay\`. A power that is too large for a number is over any cap.
    v_delay := coalesce(a.w, floor(least(v_task.initial_interval * CASE WHEN (v_task.attempt - 1) * ln(greatest(v_task.backoff, 1)) > 600 THEN 1e300
      ELSE power(v_task.backoff, v_task.attempt - 1) END, v_task.max_interval, 9e15) * (1 - v_task.jitter + v_task.jitter * coalesce(a.n, 0.5)) + 0.5)::bigint);
    v_again := a.s <> 'completed' AND coalesce(a.r, false) AND a.o IS NOT TRUE AND v_task.attempt < v_task.max_attempts
      AND (v_task.schedule_to_close IS NULL OR v_now + v_delay < v_task.scheduled_at + v_task.schedule_to_close);
    IF v_task.worker_id IS NOT NULL THEN
      INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
        VALUES (v_task.run, v_task.execution, v_task.seq, v_task.attempt, true, a.s, v_task.worker_id, v_task.started_at, v_now,
          CASE WHEN v_again THEN v_now + v_delay END, a.e)
        ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, ended_at = excluded.ended_at, retry_at = excluded.retry_at,
          error = excluded.error;
    END IF;
    IF v_again THEN
      SELECT id, deadline_at INTO v_run, v_deadline FROM holdfast.runs WHERE key = v_task.run;
      IF v_deadline <= v_now + v_delay THEN v_late := v_late || json_build_array(v_run, v_deadline); END IF;
      UPDATE holdfast.tasks SET worker_id = NULL, token = token + 1, available_at = v_now + v_delay, due_at = scheduled_at + schedule_to_close WHERE id = a.id;
    ELSE
      DELETE FROM holdfast.tasks WHERE id = a.id;
      SELECT id INTO v_run FROM holdfast.runs WHERE key = v_task.run;
      PERFORM holdfast.answer_1(v_run, v_task.execution, jsonb_build_object('y', 'resolve', 'q', v_task.seq) || CASE a.s
        WHEN 'completed' THEN jsonb_build_object('v', a.v)
        ELSE jsonb_build_object('d', '{"status":"failed","error":' || a.e || ',"attempts":' || v_task.attempt || '}') END, v_now);
    END IF;
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, json_build_object('taken', to_json(v_taken), 'busy', to_json(v_busy), 'late', to_json(v_late),
    'overdue', EXISTS (SELECT 1 FROM holdfast.tasks WHERE due_at <= v_now))::text);
END $$;

-- What is overdue, for expire_runs, settle_tasks, deliver_mail, tick_schedules and retire_runs.

-- What the store has to look at: runs past their deadline, tasks whose time is up, mail, schedules that are due, closed
-- runs whose retention is over. One look, which writes nothing.
CREATE FUNCTION holdfast.overdue_1(p_now bigint, p_limit integer, p_first boolean) RETURNS text LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
BEGIN
  RETURN json_build_object('now', v_now,
    'runs', (SELECT json_agg(json_build_array(l.id, l.deadline_at)) FROM (SELECT id, deadline_at FROM holdfast.runs
      WHERE deadline_at <= v_now AND deadline_at IS NOT NULL AND finished_at IS NULL AND NOT expired ORDER BY deadline_at LIMIT p_limit) l),
    'tasks', (SELECT json_agg(row_to_json(t)) FROM (SELECT id, token, attempt, activity, retry, worker_id, scheduled_at, started_at, heartbeat_at,
      schedule_to_close, schedule_to_start, start_to_close, heartbeat FROM holdfast.tasks WHERE due_at <= v_now ORDER BY due_at LIMIT p_limit) t),
    'schedules', (SELECT json_agg(row_to_json(s)) FROM (
      -- Specs have inputs in them, which may be large: as many as an answer should have, and one in any case.
      SELECT x.*, sum(octet_length(x.spec)) OVER (ORDER BY x.due_at, x.id) - octet_length(x.spec) AS before
      FROM (SELECT * FROM holdfast.schedules WHERE due_at <= v_now AND due_at IS NOT NULL ORDER BY due_at LIMIT p_limit) x) s WHERE s.before < 8000000),
    'mail', EXISTS (SELECT 1 FROM holdfast.mail WHERE error IS NULL),
    'old', EXISTS (SELECT 1 FROM holdfast.runs WHERE remove_at < v_now),
    -- Another process has seen a later time than this.
    'back', p_first AND EXISTS (SELECT 1 FROM holdfast.calls WHERE at > clock_timestamp() + interval '1 second'))::text;
END $$;

-- W3: what to do when the server's clock was set back.

-- W3. The clock was set back: no lease that is given now ends as late as these. Living workers renew theirs in time; those of dead workers would
-- last until the old time is reached again. A run that another transaction has locked is left to the next call.
CREATE FUNCTION holdfast.cut_leases_1(p_now bigint) RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
BEGIN
  UPDATE holdfast.runs SET available_at = v_now + lease WHERE key = ANY (ARRAY (SELECT key FROM holdfast.runs
    WHERE ended_as IS NULL AND worker_id IS NOT NULL AND available_at > v_now + lease * 1.1 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED));
  -- W1: what was due by the old time is due. All of it was written after now.
  UPDATE holdfast.runs SET available_at = v_now WHERE key = ANY (ARRAY (SELECT key FROM holdfast.runs r
    WHERE ended_as IS NULL AND worker_id IS NULL AND available_at > v_now AND CASE status WHEN 'pending' THEN available_at <= created_at WHEN 'blocked' THEN false
      ELSE EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = r.key AND i.received_at > v_now) END ORDER BY id FOR NO KEY UPDATE SKIP LOCKED));
  UPDATE holdfast.tasks SET available_at = v_now WHERE id = ANY (ARRAY (SELECT id FROM holdfast.tasks
    WHERE worker_id IS NULL AND available_at > v_now AND available_at <= scheduled_at ORDER BY id FOR UPDATE SKIP LOCKED));
  UPDATE holdfast.tasks SET leased_until = v_now + lease, due_at = least(due_at, v_now + lease) WHERE id = ANY (ARRAY (SELECT id FROM holdfast.tasks
    WHERE worker_id IS NOT NULL AND leased_until > v_now + lease * 1.1 ORDER BY id FOR UPDATE SKIP LOCKED));
END $$;

-- Notifications, and the processes that listen for them.

-- Notifies others, in a transaction that does not wait for the disk: the lock that notifications are queued under is held for microseconds.
CREATE FUNCTION holdfast.notify_1(p_channel text, p_notice text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM pg_notify(p_channel, p_notice);
END $$;

-- This process listens, if it has a name here. Returns how many others do; a process that was not heard of for a minute does not count.
CREATE FUNCTION holdfast.attend_1(p_instance text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  IF p_instance IS NOT NULL THEN
    INSERT INTO holdfast.instances (id, seen_at) VALUES (p_instance, clock_timestamp()) ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at;
  END IF;
  DELETE FROM holdfast.instances WHERE id IN (SELECT id FROM holdfast.instances WHERE seen_at < clock_timestamp() - interval '1 minute' FOR UPDATE SKIP LOCKED);
  DELETE FROM holdfast.calls WHERE (instance, slot) IN (SELECT instance, slot FROM holdfast.calls WHERE at < clock_timestamp() - interval '1 hour' FOR UPDATE SKIP LOCKED);
  RETURN (SELECT count(*) FROM holdfast.instances WHERE id <> p_instance);
END $$;

-- Its calls are remembered for a while: a late copy of one may still be on its way.
CREATE FUNCTION holdfast.leave_1(p_instance text) RETURNS void LANGUAGE sql AS $$
  DELETE FROM holdfast.instances WHERE id = p_instance
$$;

-- Schedules, and the ticks that start their runs: T1 (a tick replaces the one that it names, or writes nothing), T6 (overlap).

CREATE FUNCTION holdfast.read_schedules_1(p_now bigint, p_ids text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT json_build_object('now', holdfast.clock_1(p_now), 'schedules', (SELECT json_agg(row_to_json(s)) FROM holdfast.schedules s
    WHERE s.id = ANY (ARRAY (SELECT * FROM json_array_elements_text(p_ids::json)))))::text
$$;

-- In the order of their ids.
CREATE FUNCTION holdfast.list_schedules_1(p_now bigint, p_after text, p_limit integer) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT json_build_object('now', holdfast.clock_1(p_now), 'schedules', (SELECT json_agg(row_to_json(s)) FROM (SELECT * FROM holdfast.schedules
    WHERE p_after IS NULL OR id > p_after ORDER BY id LIMIT p_limit) s))::text
$$;

-- What a caller makes of a schedule, if it is still as the caller has read it: p_revision and p_tick, both null if there is none.
CREATE FUNCTION holdfast.change_schedule_1(p_instance text, p_slot integer, p_token bigint, p_id text, p_revision text, p_tick bigint, p_after text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  n record;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  SELECT * INTO n FROM json_to_record(p_after::json) AS x(revision text, spec text, paused boolean, tick bigint, "dueAt" bigint);
  IF p_revision IS NULL THEN
    INSERT INTO holdfast.schedules (id, revision, spec, paused, tick, due_at) VALUES (p_id, n.revision, n.spec, n.paused, n.tick, n."dueAt")
      ON CONFLICT DO NOTHING;
  ELSE
    UPDATE holdfast.schedules SET revision = n.revision, spec = n.spec, paused = n.paused, tick = n.tick, due_at = n."dueAt"
      WHERE id = p_id AND revision = p_revision AND tick IS NOT DISTINCT FROM p_tick;
  END IF;
  RETURN holdfast.end_call_1(p_instance, p_slot, CASE WHEN FOUND THEN 'changed' ELSE 'as it was' END);
END $$;

CREATE FUNCTION holdfast.delete_schedule_1(p_id text) RETURNS text LANGUAGE sql AS $$
  DELETE FROM holdfast.schedules WHERE id = p_id;
  SELECT '{}'
$$;

-- Ticks, in order. Each has: i schedule, v revision, f the tick that it replaces, m how many are too late, o overlap, n the next tick, d when
-- that is due, r the run to be started (as create_run reads it), c the cancellation of the run before it, q how many may wait.
-- The answer to one whose schedule, or the run that it has to wait for or to cancel, another transaction has locked is null.
CREATE FUNCTION holdfast.tick_schedules_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_ticks text, p_wait boolean)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint;
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_ticks jsonb := p_ticks::jsonb;
  v_tick jsonb;
  v_run jsonb;
  v_row holdfast.schedules;
  v_locked text[];
  v_touched text[];
  v_free bigint[];
  v_busy text[];
  v_previous text;
  v_result text;
  v_results jsonb := '[]';
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  PERFORM set_config('lock_timeout', '1s', true);
  v_locked := ARRAY (SELECT s.id FROM holdfast.schedules s
    WHERE s.id = ANY (ARRAY (SELECT DISTINCT t ->> 'i' FROM jsonb_array_elements(v_ticks) t)) ORDER BY s.id FOR UPDATE SKIP LOCKED);
  -- Schedules first, runs after them, as everywhere. A run that is canceled may end here and now.
  v_touched := ARRAY (SELECT s.last_run FROM jsonb_array_elements(v_ticks) t JOIN LATERAL (SELECT x.last_run FROM holdfast.schedules x
    WHERE x.id = t ->> 'i' OFFSET 0) s ON true WHERE t ->> 'o' IN ('queue', 'cancel-previous') AND t ? 'r' AND s.last_run IS NOT NULL);
  IF cardinality(v_touched) > 0 THEN
    v_free := holdfast.lock_free_1(v_touched, v_touched, p_wait);
    v_busy := ARRAY (SELECT id FROM holdfast.runs WHERE id = ANY (v_touched) AND key <> ALL (v_free));
  END IF;
  v_now := holdfast.clock_1(p_now);
  FOR v_tick IN SELECT * FROM jsonb_array_elements(v_ticks) LOOP
    v_run := v_tick -> 'r';
    SELECT * INTO v_row FROM holdfast.schedules WHERE id = v_tick ->> 'i';
    IF NOT FOUND THEN v_result := 'lost';
    ELSIF v_row.id <> ALL (v_locked) OR v_row.last_run = ANY (v_busy) THEN
      -- Those behind it keep their order: their ticks are not the one that the schedule has.
      v_results := v_results || 'null'::jsonb;
      CONTINUE;
    ELSIF v_row.revision <> v_tick ->> 'v' OR v_row.tick IS DISTINCT FROM (v_tick ->> 'f')::bigint THEN v_result := 'lost';
    ELSIF v_run IS NULL THEN v_result := 'moved';
    ELSIF EXISTS (SELECT 1 FROM holdfast.runs WHERE id = v_run ->> 'id') THEN v_result := 'started';
    ELSE
      v_result := 'started';
      v_previous := (SELECT id FROM holdfast.runs WHERE id = v_row.last_run AND finished_at IS NULL);
      IF v_previous IS NOT NULL AND v_tick ->> 'o' <> 'allow' THEN
        IF v_tick ->> 'o' = 'skip' THEN v_result := 'skipped';
        ELSIF v_tick ->> 'o' = 'queue' AND (SELECT count(*) FROM holdfast.runs WHERE schedule = v_row.id AND schedule IS NOT NULL AND after_id IS NOT NULL
          AND finished_at IS NULL AND tick IS NOT NULL) >= (v_tick ->> 'q')::integer THEN v_result := 'skipped';
        ELSE v_run := jsonb_set(v_run, '{origin,after}', to_jsonb(v_previous));
        END IF;
      END IF;
      IF v_result = 'started' THEN
        PERFORM holdfast.create_run_1(v_run, v_now);
        -- Q10: only then, so that this run waits for what that one waits for, if it has not begun.
        IF v_previous IS NOT NULL AND v_tick ? 'c' THEN PERFORM holdfast.deliver_1(v_previous, v_tick -> 'c', v_now); END IF;
      END IF;
    END IF;
    IF v_result <> 'lost' THEN
      UPDATE holdfast.schedules SET tick = (v_tick ->> 'n')::bigint, due_at = (v_tick ->> 'd')::bigint,
          missed = missed + (v_tick ->> 'm')::bigint + CASE WHEN v_result = 'skipped' THEN 1 ELSE 0 END,
          last_tick = CASE WHEN v_result = 'started' THEN (v_run #>> '{origin,tick}')::bigint ELSE last_tick END,
          last_run = CASE WHEN v_result = 'started' THEN v_run ->> 'id' ELSE last_run END
        WHERE id = v_row.id;
    END IF;
    v_results := v_results || to_jsonb(v_result);
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, v_results::text);
END $$;

-- B4: removes closed runs, with all that belongs to them: when their retention is over, or at once.

-- Removes these runs, which are locked; with p_archive each leaves one row. Runs that are left without a parent have none from then on: its id
-- may be that of another run soon. One that has a child which another transaction has locked stays. Answers with those that are gone.
CREATE FUNCTION holdfast.remove_runs_1(p_keys bigint[], p_archive boolean) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_children bigint[];
BEGIN
  v_children := ARRAY (SELECT c.key FROM holdfast.runs c WHERE c.parent_id = ANY (ARRAY (SELECT r.id FROM holdfast.runs r WHERE r.key = ANY (p_keys))) ORDER BY c.key FOR NO KEY UPDATE SKIP LOCKED);
  p_keys := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (p_keys)
    AND NOT EXISTS (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = r.id AND c.key <> ALL (v_children)));
  IF cardinality(v_children) > 0 THEN
    -- What is left of the link, parent_close, says that it had a parent.
    UPDATE holdfast.runs SET parent_id = NULL, parent_execution = NULL, parent_seq = NULL, parent_announce = NULL
      WHERE key = ANY (v_children) AND parent_id = ANY (ARRAY (SELECT r.id FROM holdfast.runs r WHERE r.key = ANY (p_keys)));
  END IF;
  IF p_archive THEN
    INSERT INTO holdfast.archive (run_id, workflow, status, created, finished, run, history)
      SELECT r.id, r.workflow, r.status, to_timestamp(r.created_at / 1000.0), to_timestamp(r.finished_at / 1000.0), row_to_json(r),
        coalesce((SELECT json_agg(row_to_json(h)) FROM (SELECT h.execution, h.turn, h.time, h.direction, h.type, h.seq, h.unit, h.name, h.n, h.refs, h.data, h.value
          FROM holdfast.records h WHERE h.run = k.key ORDER BY h.execution, h.turn, h.position) h), '[]')
      FROM unnest(p_keys) AS k(key) JOIN LATERAL (SELECT r.key, r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.output, r.error, r.waiting_for, r.execution, r.attempt,
  r.parent_id, r.parent_execution, r.parent_seq, r.parent_close, r.parent_announce, r.attributes::text AS attributes, r.retry, r.created_at, r.started_at,
  r.available_at, r.deadline_at, r.finished_at, r.worker_id, r.epoch, CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn') END AS history_length, CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END AS turns, r.recoveries,
  e.input, e.seed, s.state, r.resumable, CASE WHEN r.work_key IS NOT NULL OR r.schedule IS NOT NULL OR r.forked_from IS NOT NULL OR r.after_id IS NOT NULL OR r.retention IS NOT NULL THEN
    json_build_object('key', r.work_key, 'schedule', r.schedule, 'tick', r.tick, 'from', r.forked_from, 'after', r.after_id, 'retention', r.retention)::text END AS origin FROM holdfast.runs r JOIN holdfast.executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN holdfast.states s ON s.run = r.key WHERE r.key = k.key) r ON true;
  END IF;
  DELETE FROM holdfast.records WHERE run = ANY (p_keys);
  DELETE FROM holdfast.inbox WHERE run = ANY (p_keys);
  DELETE FROM holdfast.attempts WHERE run = ANY (p_keys);
  DELETE FROM holdfast.tasks WHERE run = ANY (p_keys);
  DELETE FROM holdfast.start_keys WHERE run = ANY (p_keys);
  DELETE FROM holdfast.message_keys WHERE run = ANY (p_keys);
  DELETE FROM holdfast.updates WHERE run = ANY (p_keys);
  DELETE FROM holdfast.states WHERE run = ANY (p_keys);
  DELETE FROM holdfast.executions WHERE run = ANY (p_keys);
  DELETE FROM holdfast.runs WHERE key = ANY (p_keys);
  RETURN p_keys;
END $$;

-- Closed runs whose time was over before now, after the one that (p_at, p_key) names. Those stay that an execution which is open has started:
-- it may ask for them. Answers with the last run that it looked at and how many are gone.
CREATE FUNCTION holdfast.retire_runs_1(p_now bigint, p_at bigint, p_key bigint, p_limit integer, p_archive boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_keys bigint[];
  v_seen integer;
  v_at bigint;
  v_key bigint;
BEGIN
  WITH old AS MATERIALIZED (
    SELECT r.key, r.remove_at, r.parent_id, r.parent_execution FROM holdfast.runs r
    WHERE r.remove_at IS NOT NULL AND r.remove_at < v_now AND (r.remove_at, r.key) > (p_at, p_key)
    ORDER BY r.remove_at, r.key LIMIT p_limit
  )
  SELECT count(*), (array_agg(o.remove_at ORDER BY o.remove_at DESC, o.key DESC))[1], (array_agg(o.key ORDER BY o.remove_at DESC, o.key DESC))[1],
    array_agg(o.key) FILTER (WHERE (SELECT p.finished_at IS NULL AND p.execution = o.parent_execution FROM holdfast.runs p WHERE p.id = o.parent_id) IS NOT TRUE)
  INTO v_seen, v_at, v_key, v_keys FROM old o;
  -- One that is just being restarted or resumed stays.
  v_keys := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_keys) AND remove_at < v_now ORDER BY key FOR UPDATE SKIP LOCKED);
  RETURN json_build_object('seen', v_seen, 'at', v_at, 'key', v_key, 'gone', cardinality(holdfast.remove_runs_1(v_keys, p_archive)))::text;
END $$;

-- These runs, now, if they are closed. Null: a child of this one is locked.
CREATE FUNCTION holdfast.delete_runs_1(p_instance text, p_slot integer, p_token bigint, p_ids text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_ids text[] := ARRAY (SELECT * FROM json_array_elements_text(p_ids::json));
  v_keys bigint[];
  v_open boolean[];
  v_gone bigint[];
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  PERFORM holdfast.lock_runs_1(v_ids, ARRAY[]::text[]);
  SELECT array_agg(r.key ORDER BY t.i), array_agg(r.finished_at IS NULL ORDER BY t.i) INTO v_keys, v_open
    FROM unnest(v_ids) WITH ORDINALITY AS t(id, i)
    LEFT JOIN LATERAL (SELECT x.key, x.finished_at FROM holdfast.runs x WHERE x.id = t.id OFFSET 0) r ON true;
  v_gone := holdfast.remove_runs_1(ARRAY (SELECT DISTINCT u.key FROM unnest(v_keys, v_open) AS u(key, is_open) WHERE u.key IS NOT NULL AND NOT u.is_open), false);
  -- The second time that an id comes, its run is not there any more.
  RETURN holdfast.end_call_1(p_instance, p_slot, (SELECT json_agg(CASE WHEN u.key IS NULL THEN 'not-found' WHEN u.is_open THEN 'open'
      WHEN u.key <> ALL (v_gone) THEN NULL WHEN array_position(v_keys, u.key) = u.i THEN 'deleted' ELSE 'not-found' END ORDER BY u.i)
    FROM unnest(v_keys, v_open) WITH ORDINALITY AS u(key, is_open, i))::text);
END $$;

-- Workers that are alive (B6): each beats every few seconds.

-- A worker is alive, for p_alive milliseconds at least. It says so without waiting for the disk. Rows of workers that died go.
CREATE FUNCTION holdfast.beat_1(p_now bigint, p_id text, p_info text, p_alive bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  DELETE FROM holdfast.live_workers WHERE id IN (SELECT id FROM holdfast.live_workers WHERE seen_at + alive_for < v_now FOR UPDATE SKIP LOCKED);
  INSERT INTO holdfast.live_workers (id, info, started_at, seen_at, alive_for) VALUES (p_id, p_info, v_now, v_now, p_alive)
    ON CONFLICT (id) DO UPDATE SET info = excluded.info, seen_at = excluded.seen_at, alive_for = excluded.alive_for;
  RETURN '';
END $$;

CREATE FUNCTION holdfast.leave_worker_1(p_id text) RETURNS text LANGUAGE sql AS $$
  DELETE FROM holdfast.live_workers WHERE id = p_id;
  SELECT ''
$$;

-- A row from before the clock was set back counts again once its worker has beaten.
CREATE FUNCTION holdfast.live_workers_1(p_now bigint) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(json_agg(json_build_array(w.id, w.info, w.started_at, w.seen_at) ORDER BY w.started_at, w.id), '[]')::text
    FROM holdfast.live_workers w, (SELECT holdfast.clock_1(p_now) AS now) c WHERE w.seen_at + w.alive_for >= c.now AND w.seen_at <= c.now
$$;

-- What the messages of workflows look like, as a worker registers it when it starts. A row that says the same already is left as it is.
CREATE FUNCTION holdfast.register_workflows_1(p_rows text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO holdfast.workflows (key, workflow, version, info)
    SELECT x.key, x.workflow, x.version, x.info FROM json_to_recordset(p_rows::json) AS x(key text, workflow text, version text, info text) ORDER BY x.key
    ON CONFLICT (key) DO UPDATE SET info = excluded.info WHERE workflows.info <> excluded.info;
  RETURN '';
END $$;
`;
