// Written by `npm run sql` from 001/*.sql: change those.

export const VERSION_1 = `-- The tables of a Holdfast schema in PostgreSQL.
-- A turn that keeps its lease changes no indexed column of \`runs\`, so that its update stays on its page (HOT); what is
-- claimable, leased or due is in partial indexes that closed runs are not in. A vacuum gives no pages back (\`vacuum_truncate\`): that would
-- lock out everybody for a moment, and a plan that is made for a table of a few pages is a bad one when it has grown.
--
-- A map, for whoever opens the database with \`psql\`. Times are milliseconds since 1970; values of users are JSON as the codec wrote it
-- (bytes of a codec that encrypts are in an envelope, \`{"$payload":"base64",…}\`). \`run_details\` and \`history\` show the same with dates.
--
--   runs          One row a run: what it is, how it stands, who works on it. \`key\` is its number in the other tables.
--                 A run can be claimed when \`available_at\` has come; while a worker has it, \`worker_id\` says who and \`available_at\` when
--                 its lease ends (\`lease\` is how long it was given for); null means that only a message wakes it. \`epoch\` counts claims: a write that names an old one is
--                 refused (D4). \`last_message\` is the highest inbox id that it ever had, \`ended_as\` the status of a closed one: a column
--                 of its own, so that the status of an open run is in no index. \`parked_by\` is who had it last, and may have its history.
--   start_keys    Idempotency keys of starts, by workflow, and the run that each started (M3): several a run, for its life.
--   executions    One row an execution of a run (P10): its input, version and random seed. They never change, and inputs can be large:
--                 in \`runs\` they would be copied with every turn.
--   states        The published state of a run (P5), for the same reason.
--   records       History: one row for each job that came into a turn and each command that went out of it.
--                 \`seq\` is the operation's number, \`unit\`, \`name\` and \`n\` its location, \`refs\` the messages that it is about, \`value\` the
--                 user's value (a result, an input, a payload), \`data\` what else there is. What belongs to the turn as a whole (time,
--                 history_length, worker, state) is in its first row. A \`start\` says nothing that its execution says already.
--   inbox         Messages that wait for their run's next turn (M1), in order of \`id\`.
--   mail          Messages that callers sent in transactions of their own: they go into the inbox once those have committed.
--                 \`error\` says why one can't: it stays, and others go on. With null there it is tried again.
--   message_keys  Idempotency keys of messages (M3), for the life of the run.
--   updates       Updates by id, and how they ended (M10). \`accept_until\` is how long one may wait to be accepted (M8), \`forget_at\` when
--                 the outcome of one without a key may go.
--   attempts      Attempts of steps that were tried more than once, and of activities (D12).
--   tasks         Activities that are waiting or being carried out (D11). \`due_at\` is when the store has to look at one again: a lease, a
--                 timeout or a missed heartbeat.
--   lanes         The distinct (queue, workflow, version, priority) of runs, by number. A claim looks at the first runs of each lane that
--                 it serves, so it costs the same however many runs sleep, or belong to workflows that nobody serves.
--   workers       Names of workers, by number.
--   calls         The last call of each connection of each process: one that is repeated because its answer was lost is recognised.
--   instances     Processes that listen for notifications.
--   archive       Closed runs that retention has removed, one row each, if the store is told to keep them so.
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
-- Not by finished_at, which the children of a run are asked for: this one must never be taken for theirs.
CREATE INDEX runs_open ON holdfast.runs (created_at, key) WHERE ended_as IS NULL;
CREATE INDEX runs_finished ON holdfast.runs (finished_at, key) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_blocked ON holdfast.runs (workflow) WHERE blocked_code IS NOT NULL;
CREATE INDEX runs_by_parent ON holdfast.runs (parent_id, finished_at) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_by_deadline ON holdfast.runs (deadline_at) WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND NOT expired;
CREATE INDEX runs_by_attributes ON holdfast.runs USING gin (attributes jsonb_path_ops) WHERE attributes <> '{}';

CREATE TABLE holdfast.start_keys (
  workflow text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  run bigint NOT NULL,
  PRIMARY KEY (workflow, key)
);
CREATE INDEX start_keys_by_run ON holdfast.start_keys (run);

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
  max_attempts double precision NOT NULL,
  initial_interval double precision NOT NULL,
  backoff double precision NOT NULL,
  max_interval double precision NOT NULL,
  jitter double precision NOT NULL,
  activity text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  worker_id text COLLATE "C",
  location text NOT NULL,
  retry text NOT NULL,
  input text NOT NULL,
  last_heartbeat text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX tasks_to_claim ON holdfast.tasks (queue, activity, available_at, id) WHERE available_at IS NOT NULL;
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

CREATE TABLE holdfast.workers (key integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE);

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

-- The clock, and calls that are carried out once. Each call has a name: process, slot, and a number (token) that grows. \`calls\` keeps the
-- last one of each slot with its answer, so that a call whose answer was lost can be repeated.

-- The store's time: the server's, unless a test has a clock of its own.
CREATE FUNCTION holdfast.clock_1(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(p_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- Null: go on. Otherwise this very call was carried out, and here is its answer. Waits for the first of the two to end. Tokens grow: one
-- that comes late, after its slot has gone on, is refused.
CREATE FUNCTION holdfast.begin_call_1(p_instance text, p_slot integer, p_token bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_token bigint;
  v_answer text;
BEGIN
  IF p_slot IS NULL THEN RETURN NULL; END IF;
  -- Almost always the slot is there: an update costs half of what an upsert does.
  UPDATE holdfast.calls SET token = p_token, answer = NULL, at = now() WHERE instance = p_instance AND slot = p_slot AND token < p_token;
  IF FOUND THEN RETURN NULL; END IF;
  INSERT INTO holdfast.calls AS c (instance, slot, token) VALUES (p_instance, p_slot, p_token)
    ON CONFLICT (instance, slot) DO UPDATE SET token = excluded.token, answer = NULL, at = now() WHERE c.token < excluded.token;
  IF FOUND THEN RETURN NULL; END IF;
  SELECT token, answer INTO v_token, v_answer FROM holdfast.calls WHERE instance = p_instance AND slot = p_slot;
  IF v_token <> p_token THEN RAISE EXCEPTION 'call-superseded' USING ERRCODE = 'HF001'; END IF;
  RETURN coalesce(v_answer, '{}');
END $$;

-- What became of a call, once none of its copies is under way. Its answer, if it was carried out. Null: it was not, and never will be, however
-- late a copy of it comes: its name is taken. The same if it is asked twice.
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

-- Errors as stored text. SQL knows kinds and what they are about; the words are TypeScript's (sql/errorTexts.ts), which installs
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

-- Locks runs in order of id: those named, and for those that may end all that their end may reach: open descendants, and parents.
CREATE FUNCTION holdfast.lock_runs_1(p_ids text[], p_ending text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ids text[];
BEGIN
  WITH RECURSIVE ending AS (
    SELECT r.id, r.parent_id FROM holdfast.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT c.id, c.parent_id FROM ending e CROSS JOIN LATERAL (
      SELECT x.id, x.parent_id FROM holdfast.runs x WHERE x.parent_id = e.id AND x.finished_at IS NULL OFFSET 0) c
  )
  SELECT p_ids || array_agg(e.id) || array_agg(e.parent_id) FILTER (WHERE e.parent_id IS NOT NULL) INTO v_ids FROM ending e;
  PERFORM 1 FROM holdfast.runs WHERE id = ANY (v_ids) ORDER BY id FOR NO KEY UPDATE;
END $$;

-- Locks those of these runs that come free within moments, in order of id. Returns which. One that somebody keeps, a person at a console or
-- a transaction that is still open, costs those after it a tenth of a second, and three of them no more than that.
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

-- Locks runs that nobody else has locked, with p_wait also those that come free within moments; those of p_ending with all that their end
-- may reach. Returns which are locked now: whatever a run's end may reach is in the way of it if somebody has that.
CREATE FUNCTION holdfast.lock_free_1(p_ids text[], p_ending text[], p_wait boolean) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_runs bigint[];
  v_members bigint[];
  v_free bigint[];
BEGIN
  WITH RECURSIVE family AS (
    SELECT r.key AS run, r.key, r.id, r.parent_id FROM holdfast.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT f.run, c.key, c.id, c.parent_id FROM family f CROSS JOIN LATERAL (
      SELECT x.key, x.id, x.parent_id FROM holdfast.runs x WHERE x.parent_id = f.id AND x.finished_at IS NULL OFFSET 0) c
  ), members AS (
    SELECT r.key AS run, r.key FROM holdfast.runs r WHERE r.id = ANY (p_ids)
    UNION
    SELECT run, key FROM family
    UNION
    SELECT f.run, p.key FROM family f CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = f.parent_id OFFSET 0) p
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
  IF p_message ->> 'y' = 'cancel' THEN v_known := holdfast.cancel_run_1(v_run.key, p_message, p_now);
  ELSE v_known := holdfast.put_1(v_run.key, p_message, p_now);
  END IF;
  IF v_update IS NOT NULL THEN INSERT INTO holdfast.updates (run, id, inbox_id, keyless, accept_until)
      VALUES (v_run.key, v_update, v_known, coalesce((p_message ->> 'kl')::boolean, false), p_now + (p_message ->> 'aw')::bigint);
  ELSIF v_key IS NOT NULL THEN INSERT INTO holdfast.message_keys (run, key, inbox_id) VALUES (v_run.key, v_key, v_known);
  END IF;
  RETURN jsonb_build_object('s', 'sent', 'i', v_known);
END $$;

-- Messages for runs. p_plain: signals without keys, and updates of different ids, all in a few statements; p_others: one by one. A batch is
-- one or the other. The answer to one whose run somebody has locked, with p_wait for longer than a moment, is null: it was not sent.
CREATE FUNCTION holdfast.send_messages_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_plain text, p_others text, p_wait boolean)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_messages jsonb := p_others::jsonb;
  v_results jsonb := '[]';
  v_message jsonb;
  v_ids text[];
  v_free bigint[];
  v_keys bigint[];
  v_inbox_ids bigint[];
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  IF p_others IS NOT NULL THEN
    -- Whatever is said to a run that may end waits for all that its end may reach: its messages keep their order.
    v_ids := ARRAY (SELECT m ->> 'r' FROM jsonb_array_elements(v_messages) m WHERE m ->> 'y' = 'cancel');
    v_free := holdfast.lock_free_1(ARRAY (SELECT m ->> 'r' FROM jsonb_array_elements(v_messages) m), v_ids, p_wait);
    FOR v_message IN SELECT * FROM jsonb_array_elements(v_messages) LOOP
      IF EXISTS (SELECT 1 FROM holdfast.runs WHERE id = v_message ->> 'r' AND key <> ALL (v_free)) THEN v_results := v_results || 'null'::jsonb;
      ELSE v_results := v_results || holdfast.deliver_1(v_message ->> 'r', v_message, v_now);
      END IF;
    END LOOP;
    RETURN holdfast.end_call_1(p_instance, p_slot, v_results::text);
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
  -- With the row of the run, as whoever accepts one has it: one of the two is first.
  PERFORM holdfast.lock_runs_1(ARRAY (SELECT r FROM json_to_recordset(p_updates::json) AS x(r text)), ARRAY[]::text[]);
  FOR v_item IN SELECT * FROM json_to_recordset(p_updates::json) AS x(r text, u text, e text) LOOP
    SELECT * INTO v_update FROM holdfast.updates WHERE run = (SELECT key FROM holdfast.runs WHERE id = v_item.r) AND id = v_item.u;
    v_waits := v_update.status IS NULL AND v_update.accept_until IS NOT NULL
      AND EXISTS (SELECT 1 FROM holdfast.inbox WHERE run = v_update.run AND id = v_update.inbox_id);
    IF v_waits AND v_update.accept_until <= v_now THEN
      UPDATE holdfast.updates SET status = 'rejected', error = v_item.e, forget_at = CASE WHEN keyless THEN v_now + 3600000 END
        WHERE run = v_update.run AND id = v_update.id RETURNING * INTO v_update;
      DELETE FROM holdfast.inbox WHERE run = v_update.run AND id = v_update.inbox_id;
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
-- turns, claims, renewals and messages go on, and only an end that should hear the message waits (M1; commit_turns_1 locks FOR UPDATE then).
-- What ends a run without a look at its messages does not wait: terminate, a deadline.
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

-- One letter into the inbox of its run, which is locked: whoever has the run delivers its mail. False: somebody was faster.
CREATE FUNCTION holdfast.deliver_letter_1(p_id bigint, p_run text, p_message jsonb, p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_result jsonb;
BEGIN
  DELETE FROM holdfast.mail WHERE id = p_id;
  IF NOT FOUND THEN RETURN false; END IF;
  v_result := holdfast.deliver_1(p_run, p_message, p_now);
  -- M10: the run has closed since, and somebody waits for the outcome.
  IF v_result ->> 's' = 'closed' AND p_message ? 'u' THEN
    INSERT INTO holdfast.updates (run, id, inbox_id, status, error)
      SELECT key, p_message ->> 'u', 0, 'rejected', holdfast.error_1('closed', id, status) FROM holdfast.runs WHERE id = p_run;
  END IF;
  RETURN true;
END $$;

-- M1, D9: runs that are about to end, and are locked, get the mail that was posted by now. What can't be delivered is left for
-- deliver_mail_1, which says why. Was there any?
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
-- stops no other. What is for a run that somebody has locked is left for later, with p_wait if it does not come free soon. Answers with how
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
      WHEN insufficient_resources THEN RAISE; -- nobody's mail can be written
      WHEN OTHERS THEN UPDATE holdfast.mail SET error = format('%s (SQLSTATE %s)', SQLERRM, SQLSTATE) WHERE id = v_mail.id;
    END;
  END LOOP;
  RETURN json_build_object('n', v_count, 'b', cardinality(v_busy) > 0)::text;
END $$;

-- The end of a run and what follows from it: P1 (one end), K5 (the epoch rises: nothing that was computed before counts any more), K6
-- (children follow), K9, M10. Also cancellation, since it ends a run that has not begun.

-- Gives up the activities of a run, all of them or those of these operations (C7). What a worker has of them is over: it will be told.
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

-- Tells the parents of closed runs how these ended, as far as they still are their parents: closed runs and later executions did not ask.
-- Rows of parents are locked. False: nobody was told.
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

-- What follows from the end of a run, whose row says how it ended: updates, messages and activities of its, its parent, its children.
CREATE FUNCTION holdfast.follow_end_1(p_run bigint, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_child record;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run;
  -- M10: what nobody took is rejected, what was taken and has no outcome has failed.
  UPDATE holdfast.updates u SET error = holdfast.error_1('closed', v_run.id, v_run.status),
      status = CASE WHEN EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = p_run AND i.id = u.inbox_id) THEN 'rejected' ELSE 'failed' END
    WHERE u.run = p_run AND u.status IS NULL;
  -- D10: signals wait for a run that may be resumed.
  DELETE FROM holdfast.inbox WHERE run = p_run AND NOT (v_run.resumable AND type = 'signal');
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
END $$;

-- p_turns, p_records: of the turn that it ends with, if it does; its row is up to date but for them.
CREATE FUNCTION holdfast.close_run_1(p_run bigint, p_status text, p_output text, p_error text, p_resumable boolean, p_now bigint,
  p_turns integer DEFAULT NULL, p_records integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM holdfast.runs WHERE key = p_run AND finished_at IS NULL FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN; END IF;
  IF p_turns IS NULL THEN PERFORM holdfast.count_turns_1(p_run); END IF;
  UPDATE holdfast.runs SET status = p_status, ended_as = p_status, output = p_output, error = p_error,
      resumable = p_status = 'failed' AND coalesce(p_resumable, true), finished_at = p_now, turns = turns + coalesce(p_turns, 0),
      history_length = history_length + coalesce(p_records, 0), worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0,
      epoch = epoch + 1
    WHERE key = p_run;
  PERFORM holdfast.follow_end_1(p_run, p_now);
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
      parked_by = NULL, finished_at = NULL, expired = false, resumable = false, waiting_for = NULL, blocked_code = NULL, error = NULL, output = NULL
    WHERE key = p_run RETURNING execution INTO v_execution;
  INSERT INTO holdfast.executions (run, execution, workflow, version, seed, input) VALUES (p_run, v_execution, p_workflow, p_version, p_seed, p_input);
END $$;

-- P10: as the code before it chose, on the same queue. Signals, updates and cancels wait for it, and carried ones go before them; no
-- worker holds an id of the run at this point. Answers to operations of the last execution go: the next one uses their numbers again.
CREATE FUNCTION holdfast.continue_run_1(p_run bigint, p_next jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_lane integer;
  v_version text := p_next ->> 'version';
  v_first bigint;
  v_message jsonb;
  v_id bigint;
  v_moved bigint;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run;
  v_lane := v_run.lane;
  IF v_version IS DISTINCT FROM v_run.version THEN
    INSERT INTO holdfast.lanes (queue, workflow, version, priority) VALUES (v_run.queue, v_run.workflow, v_version, v_run.priority) ON CONFLICT DO NOTHING;
    SELECT lane INTO STRICT v_lane FROM holdfast.lanes
      WHERE queue = v_run.queue AND workflow = v_run.workflow AND version IS NOT DISTINCT FROM v_version AND priority = v_run.priority;
  END IF;
  PERFORM holdfast.drop_tasks_1(p_run, NULL, p_now);
  PERFORM holdfast.begin_execution_1(p_run, v_run.workflow, v_version, v_lane, p_next ->> 'seed', p_next ->> 'input', p_now);
  DELETE FROM holdfast.inbox WHERE run = p_run AND type NOT IN ('signal', 'update', 'cancel');
  IF jsonb_array_length(p_next -> 'carried') = 0 THEN RETURN; END IF;
  FOR v_message IN SELECT * FROM jsonb_array_elements(p_next -> 'carried') LOOP
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

-- K6: ends runs at once, without a look at their messages.

-- K6. p_runs: r run id, e the error.
CREATE FUNCTION holdfast.terminate_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_runs text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_results jsonb := '[]';
  v_item record;
  v_run holdfast.runs;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  PERFORM holdfast.lock_runs_1(ARRAY[]::text[], ARRAY (SELECT r FROM json_to_recordset(p_runs::json) AS t(r text)));
  FOR v_item IN SELECT * FROM json_to_recordset(p_runs::json) AS t(r text, e text) LOOP
    SELECT * INTO v_run FROM holdfast.runs WHERE id = v_item.r;
    IF NOT FOUND THEN v_results := v_results || '{"s":"not-found"}'::jsonb;
    ELSIF v_run.finished_at IS NOT NULL THEN v_results := v_results || jsonb_build_object('s', 'closed', 'r', v_run.status);
    ELSE
      PERFORM holdfast.close_run_1(v_run.key, 'terminated', NULL, v_item.e, false, v_now);
      v_results := v_results || '{"s":"sent","i":0}'::jsonb;
    END IF;
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, v_results::text);
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
  UPDATE holdfast.runs SET status = 'sleeping', ended_as = NULL, attempt = attempt + 1, error = NULL, output = NULL, finished_at = NULL,
      available_at = p_now WHERE key = p_run;
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

-- K7. p_runs: r run id, e the error that it fails with, n now: its deadline has not passed, but can't be met any more. Answers with how many are done with (n) and which are left (b): somebody has them
-- locked, or what their end would reach, with p_wait for longer than a moment.
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

-- New runs, and what happens when a run of that id or key exists: D2 (all or nothing), M3, M8.

-- New runs whose ids nobody has, all at once; returns the others, which go one by one.
CREATE FUNCTION holdfast.create_children_1(p_runs jsonb, p_now bigint) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_keys bigint[];
  v_inserted bigint[];
BEGIN
  IF EXISTS (SELECT 1 FROM jsonb_array_elements(p_runs) AS o(run) WHERE o.run ? 'ikey' OR o.run ? 'messages' OR o.run ? 'first' OR o.run #> '{parent,announce}' = 'true') THEN
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

-- One new run, with whatever may come with it. Answers with s status, x execution, b inbox ids, r status and w workflow of the run in the way.
CREATE FUNCTION holdfast.create_run_1(p_run jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  n record;
  v_run holdfast.runs;
  v_key bigint;
  v_at bigint;
  v_deadline bigint;
  v_status text := 'created';
  v_execution integer := 1;
  v_closed boolean;
  v_message jsonb;
  v_inbox jsonb := '[]';
BEGIN
  SELECT * INTO n FROM jsonb_to_record(p_run) AS x(id text, workflow text, version text, queue text, priority integer, lane integer, input text, seed text,
    "startAt" bigint, delay bigint, deadline bigint, "deadlineAt" bigint, retry text, attributes jsonb, ikey text, conflict text, parent jsonb,
    messages jsonb, first jsonb);
  v_at := coalesce(n."startAt", p_now + coalesce(n.delay, 0));
  v_deadline := coalesce(n."deadlineAt", p_now + n.deadline);
  IF n.ikey IS NOT NULL THEN
    SELECT * INTO v_run FROM holdfast.runs WHERE key = (SELECT run FROM holdfast.start_keys WHERE workflow = n.workflow AND key = n.ikey);
    -- The same call, made again: its messages are there.
    IF FOUND THEN RETURN jsonb_build_object('s', 'existing', 'id', v_run.id, 'x', v_run.execution); END IF;
  END IF;
  SELECT * INTO v_run FROM holdfast.runs WHERE id = n.id;
  IF FOUND THEN
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
      -- D10: the parent goes on after a failure, and with it this child of its.
      IF v_run.status = 'completed' THEN
        PERFORM holdfast.answer_1(v_run.parent_id, v_run.parent_execution,
          jsonb_build_object('y', 'resolve', 'q', v_run.parent_seq, 'v', coalesce(v_run.output, '{"$undefined":true}')), p_now);
        RETURN jsonb_build_object('s', 'existing', 'x', v_run.execution);
      END IF;
      PERFORM 1 FROM holdfast.runs WHERE key = v_run.key FOR NO KEY UPDATE NOWAIT;
      IF holdfast.resume_run_1(v_run.key, p_now) = 'resumed' THEN RETURN jsonb_build_object('s', 'created', 'x', v_run.execution); END IF;
    END IF;
    IF v_closed AND n.conflict IN ('restart-if-closed', 'reopen') THEN
      SELECT * INTO v_run FROM holdfast.runs WHERE key = v_run.key AND finished_at IS NOT NULL FOR NO KEY UPDATE NOWAIT;
      IF NOT FOUND THEN RAISE EXCEPTION 'run-restarted' USING ERRCODE = '40001'; END IF;
      DELETE FROM holdfast.inbox WHERE run = v_run.key;
      PERFORM holdfast.begin_execution_1(v_run.key, n.workflow, n.version, n.lane, n.seed, n.input, v_at);
      UPDATE holdfast.runs SET queue = n.queue, priority = n.priority, started_at = NULL, deadline_at = v_deadline, attributes = n.attributes,
          retry = n.retry, parent_id = n.parent ->> 'runId', parent_execution = (n.parent ->> 'execution')::integer,
          parent_seq = (n.parent ->> 'seq')::integer, parent_close = n.parent ->> 'parentClose', parent_announce = (n.parent ->> 'announce')::boolean
        WHERE key = v_run.key;
      v_execution := v_run.execution + 1;
    ELSE
      v_status := 'existing';
      v_execution := v_run.execution;
    END IF;
  ELSE
    v_key := nextval('holdfast.run_keys');
    INSERT INTO holdfast.runs (key, id, workflow, version, queue, priority, lane, status, available_at, worker_id, lease, epoch, created_at, started_at, deadline_at,
        attributes, retry, parent_id, parent_execution, parent_seq, parent_close, parent_announce)
      VALUES (v_key, n.id, n.workflow, n.version, n.queue, n.priority, n.lane, CASE WHEN n.first IS NULL THEN 'pending' ELSE 'running' END,
        CASE WHEN n.first IS NULL THEN v_at ELSE p_now + (n.first ->> 'lease')::bigint END, n.first ->> 'worker', (n.first ->> 'lease')::bigint,
        CASE WHEN n.first IS NULL THEN 0 ELSE 1 END, p_now, CASE WHEN n.first IS NOT NULL THEN p_now END, v_deadline, n.attributes, n.retry,
        n.parent ->> 'runId', (n.parent ->> 'execution')::integer, (n.parent ->> 'seq')::integer, n.parent ->> 'parentClose',
        (n.parent ->> 'announce')::boolean)
      ON CONFLICT DO NOTHING;
    -- Somebody else was first, a moment ago: the next try meets the run.
    IF NOT FOUND THEN RAISE EXCEPTION 'run-created' USING ERRCODE = '40001'; END IF;
    INSERT INTO holdfast.executions (run, execution, workflow, version, seed, input) VALUES (v_key, 1, n.workflow, n.version, n.seed, n.input);
  END IF;
  IF n.ikey IS NOT NULL THEN
    INSERT INTO holdfast.start_keys (workflow, key, run) VALUES (n.workflow, n.ikey, v_key) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RAISE EXCEPTION 'key-used' USING ERRCODE = '40001'; END IF;
  END IF;
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
-- turns; p_others: those that go one by one, after them. With a channel it tells others by itself, when its transaction commits.
CREATE FUNCTION holdfast.create_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_runs text, p_records text, p_states text,
  p_others text, p_touched text, p_ending text, p_channel text, p_notice text)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint;
  v_answer text;
  v_runs json := p_runs::json;
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
  -- D3: a call that waits longer for a lock is rejected as busy. In a transaction of the caller's, locks are waited for as that has set it.
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
    -- Two batches with the same new keys, each in its own order, would wait for each other: first all keys, in one order for all. Who uses one
    -- keeps it until its transaction ends, and that may be the caller's: there it is waited for. Of ours those go on whose keys are free.
    FOR v_item IN SELECT DISTINCT jsonb_build_array(x -> 'workflow', x -> 'ikey') FROM jsonb_array_elements(p_others::jsonb) x
        WHERE x ->> 'ikey' IS NOT NULL ORDER BY 1 LOOP
      IF p_slot IS NULL THEN PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.start_keys' || v_item::text, 0));
      ELSIF NOT pg_try_advisory_xact_lock(hashtextextended('holdfast.start_keys' || v_item::text, 0)) THEN v_busy := v_busy || v_item;
      END IF;
    END LOOP;
    FOR v_item IN SELECT * FROM jsonb_array_elements(p_others::jsonb) LOOP
      v_results := v_results || CASE WHEN jsonb_build_array(v_item -> 'workflow', v_item -> 'ikey') = ANY (v_busy) THEN 'null'::jsonb ELSE holdfast.create_run_1(v_item, v_now) END;
    END LOOP;
  END IF;
  IF p_channel IS NOT NULL THEN PERFORM pg_notify(p_channel, p_notice); END IF;
  IF v_met IS NULL AND v_results IS NULL THEN RETURN '{}'; END IF;
  RETURN holdfast.end_call_1(p_instance, p_slot, json_build_object('met', v_met, 'others', v_results)::text);
END $$;

-- Turns of many runs in one call: D2 (all or nothing), D3 (each stands alone), D4 (a stale epoch writes nothing), D9 (parking and ending see
-- every message). The usual turn (records in, the row of the run changed) goes through a few statements for the whole batch; whatever else a
-- turn may ask for goes one by one (commit_turn_1). Rows are locked first, in order of id; each statement after that sees what is there then.
--
-- Plans are kept for as long as a connection lives, and may have been made when the tables were small. So rows are named by \`= ANY (array)\`,
-- or fetched one by one in a LATERAL with OFFSET 0: whatever the planner thinks of the tables, it goes through an index.
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

-- One turn of one run, with whatever it may ask for.
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
    "cancelChildren" integer[], sends jsonb, close jsonb, h boolean, lc boolean, ls text[]);
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
  -- M8: its sender was faster.
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
        max_attempts, initial_interval, backoff, max_interval, jitter, attempt, scheduled_at, available_at, due_at)
      SELECT v_run.key, c.x, x.seq, x.activity, x.queue, x.location, x.input, x.retry, x.stc, x.sc, x.ss, x.hb, x.ma, x.ii, x.bo, x.mi, x.ji,
        coalesce(x.at, 0), p_now, p_now, least(p_now + x.sc, p_now + x.ss)
      FROM jsonb_to_recordset(c.tasks) AS x(seq integer, activity text, queue text, location text, input text, retry text, stc bigint, sc bigint, ss bigint, hb bigint, ma double precision, ii double precision, bo double precision, mi double precision, ji double precision, at integer);
  END IF;
  -- C7: also what was asked for in this very turn.
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
      -- M12: the sender learns how it went, through its own inbox.
      PERFORM holdfast.put_1(v_run.key, jsonb_build_object('y', 'resolve', 'q', v_item -> 'seq') || CASE v_result ->> 's'
        WHEN 'not-found' THEN jsonb_build_object('d', '{"status":"failed","error":' || holdfast.error_1('not-found', v_item ->> 'r') || '}')
        WHEN 'closed' THEN jsonb_build_object('d', '{"status":"failed","error":' || holdfast.error_1('closed', v_item ->> 'r', v_result ->> 'r') || '}')
        ELSE jsonb_build_object('v', '{"$undefined":true}') END, p_now);
    END LOOP;
  END IF;
  IF c.attributes IS NOT NULL THEN
    UPDATE holdfast.runs SET attributes = (attributes || c.attributes) - c.removed WHERE key = v_run.key;
  END IF;
  v_answer := jsonb_build_object('sent', v_sent);
  IF c.close IS NOT NULL THEN
    IF c.close ->> 'status' = 'continued' THEN
      PERFORM holdfast.continue_run_1(v_run.key, c.close -> 'next', p_now);
    ELSE
      PERFORM holdfast.close_run_1(v_run.key, c.close ->> 'status', c.close ->> 'output', c.close ->> 'error', (c.close ->> 'resumable')::boolean,
        p_now, c.t, c.n - v_gone);
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
-- {} if all are committed and nothing else is to be said. Of a run that can't end yet nothing is written (busy).
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
  v_item jsonb;
  v_results jsonb;
  v_result jsonb;
BEGIN
  UPDATE holdfast.calls SET token = p_token, answer = NULL, at = now() WHERE instance = p_instance AND slot = p_slot AND token < p_token;
  IF NOT FOUND THEN
    v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token);
    IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  END IF;
  -- Most runs that end have neither parent nor open children. That does not change meanwhile: only turns of their own give them any.
  IF p_touched IS NOT NULL OR p_ending IS NOT NULL AND EXISTS (SELECT 1 FROM json_array_elements_text(p_ending::json) AS e(id)
      WHERE (SELECT x.parent_id FROM holdfast.runs x WHERE x.id = e.id) IS NOT NULL
        OR (SELECT 1 FROM holdfast.runs x WHERE x.parent_id = e.id AND x.finished_at IS NULL LIMIT 1) IS NOT NULL) THEN
    PERFORM holdfast.lock_runs_1(p_ids || ARRAY (SELECT * FROM json_array_elements_text(p_touched::json)),
      ARRAY (SELECT * FROM json_array_elements_text(p_ending::json)));
  END IF;
  -- D4: who may write. Zero stands for who may not.
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
    -- M1: a caller's transaction that has a signal for a run keeps the run from ending until it has ended itself (see post_mail_1).
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
    -- Nothing of them is written: as if they had lost their claims.
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
    -- An id is one message's, of whatever run: who has lost its claim takes none (v_keys is zero).
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
    -- All of them end before anything follows from it: a child that ends by itself does not follow its parent.
    SELECT array_agg(array_position(v_keys, e.key)) FILTER (WHERE r.leads), bool_or(r.parent_id IS NOT NULL) INTO v_family, v_told
      FROM unnest(v_ended) AS e(key) CROSS JOIN LATERAL (
        SELECT x.parent_id, EXISTS (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = x.id AND c.finished_at IS NULL)
          OR EXISTS (SELECT 1 FROM holdfast.tasks a WHERE a.run = x.key)
          OR EXISTS (SELECT 1 FROM holdfast.updates u WHERE u.run = x.key AND u.status IS NULL) AS leads
        FROM holdfast.runs x WHERE x.key = e.key OFFSET 0) r;
    UPDATE holdfast.runs r SET status = t.c, ended_as = t.c, output = t.o, error = t.er, resumable = t.c = 'failed' AND coalesce(t.rs, true),
        turns = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.turns ELSE p_numbers[t.i::integer * 10 - 4 /* index */] + 1 END,
        history_length = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.history_length ELSE p_numbers[t.i::integer * 10 - 2 /* length */] + p_numbers[t.i::integer * 10 - 1 /* records */] END, finished_at = v_now, worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0, epoch = epoch + 1
      FROM json_to_recordset(p_turns::json) AS t(i integer, c text, o text, er text, rs boolean)
      WHERE t.c IS NOT NULL AND r.key = v_keys[t.i];
    IF v_messages THEN
      -- D10: signals wait for a run that may be resumed. Of those with a family the rest is to be told of first.
      DELETE FROM holdfast.inbox b WHERE b.run = ANY (v_ended) AND (v_family IS NULL OR array_position(v_keys, b.run) <> ALL (v_family))
        AND NOT (b.type = 'signal' AND (SELECT r.resumable FROM holdfast.runs r WHERE r.key = b.run));
    END IF;
    IF v_family IS NOT NULL THEN
      PERFORM holdfast.follow_end_1(v_keys[i], v_now) FROM (SELECT unnest(v_family) AS i ORDER BY 1) f;
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
    'late', to_json(v_late), 'busy', to_json(v_busy), 'inbox', v_inbox, 'others', v_results, 'due', v_due, 'family', v_family IS NOT NULL OR v_told)::text);
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

-- Numbers of lanes and workers. p_lanes: queue, workflow, version, priority. Made in order, so that two calls can't wait for each other.
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
  SELECT json_agg(o.lane ORDER BY n.ord) INTO v_lanes
    FROM ROWS FROM (json_to_recordset(p_lanes::json) AS (queue text, workflow text, version text, priority integer)) WITH ORDINALITY
      AS n(queue, workflow, version, priority, ord)
    JOIN holdfast.lanes o ON o.queue = n.queue AND o.workflow = n.workflow AND o.version IS NOT DISTINCT FROM n.version AND o.priority = n.priority;
  SELECT json_agg(o.key ORDER BY n.ord) INTO v_workers
    FROM json_array_elements_text(p_workers::json) WITH ORDINALITY AS n(id, ord) JOIN holdfast.workers o ON o.id = n.id;
  RETURN json_build_object('lanes', v_lanes, 'workers', v_workers)::text;
END $$;

-- W1 W2: hands out runs that are served, by priority, then by when they became available, then by arrival. D7 counts recoveries. K7:
-- nothing of a run past its deadline begins. A claim never waits for a row that another transaction has locked.

-- p_serves: w workflow, v version, a all versions. p_after: blocked runs instead (V4), after this one. At least one row comes back; with key null it only tells the time and what is next.
CREATE FUNCTION holdfast.claim_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_worker text, p_queue text, p_serves text,
  p_limit integer, p_lease bigint, p_after bigint, p_again boolean)
RETURNS TABLE (now bigint, next_at bigint, recovered boolean, recovered_from text, records json, attempts json, inbox json, last_time bigint, key bigint, id text, workflow text, version text, status text, queue text, priority integer, output text, error text, waiting_for text,
  execution integer, attempt integer, parent_id text, parent_execution integer, parent_seq integer, parent_close text, parent_announce boolean,
  attributes text, retry text, created_at bigint, started_at bigint, available_at bigint, deadline_at bigint, finished_at bigint, worker_id text,
  epoch integer, history_length integer, turns integer, recoveries integer, input text, seed text, state text, resumable boolean) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
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
BEGIN
  SELECT array_agg(l.lane), array_agg(l.priority) INTO v_lanes, v_priorities FROM holdfast.lanes l
    WHERE l.queue = p_queue AND EXISTS (SELECT 1 FROM json_to_recordset(p_serves::json) AS x(w text, v text, a boolean)
      WHERE x.w = l.workflow AND (x.a OR x.v IS NOT DISTINCT FROM l.version));
  IF p_again THEN v_answer := coalesce(holdfast.begin_call_1(p_instance, p_slot, p_token), 'begun'); END IF;
  WHILE coalesce(v_answer, 'begun') = 'begun' LOOP
    v_new := CASE WHEN p_after IS NOT NULL THEN ARRAY (
      SELECT r.key FROM holdfast.runs r WHERE r.blocked_code IS NOT NULL AND r.status = 'blocked' AND r.lane = ANY (v_lanes) AND r.key > p_after
        AND r.key <> ALL (v_tried) AND (r.deadline_at IS NULL OR r.deadline_at > v_now OR r.expired OR r.status = 'rolling_back') ORDER BY r.key LIMIT p_limit - cardinality(v_keys))
    ELSE ARRAY (
      SELECT c.key FROM unnest(v_lanes, v_priorities) AS l(lane, priority) CROSS JOIN LATERAL (
        SELECT r.key, r.available_at FROM holdfast.runs r WHERE r.lane = l.lane AND r.available_at <= v_now AND r.key <> ALL (v_tried) AND (r.deadline_at IS NULL OR r.deadline_at > v_now OR r.expired OR r.status = 'rolling_back')
        ORDER BY r.available_at, r.key LIMIT p_limit - cardinality(v_keys)
      ) c ORDER BY l.priority DESC, c.available_at, c.key LIMIT p_limit - cardinality(v_keys)) END;
    EXIT WHEN cardinality(v_new) = 0;
    IF v_answer IS NULL THEN v_answer := coalesce(holdfast.begin_call_1(p_instance, p_slot, p_token), 'begun'); END IF;
    EXIT WHEN v_answer <> 'begun';
    -- Whoever has one of them locked claims it, or has something to say about it: passed over.
    v_locked := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (v_new) AND CASE WHEN p_after IS NULL THEN r.available_at <= v_now ELSE r.status = 'blocked' END AND r.lane = ANY (v_lanes)
      FOR NO KEY UPDATE SKIP LOCKED);
    v_keys := v_keys || ARRAY (SELECT u.key FROM unnest(v_new) WITH ORDINALITY AS u(key, ord) WHERE u.key = ANY (v_locked) ORDER BY u.ord);
    v_tried := v_tried || v_new;
    EXIT WHEN cardinality(v_keys) >= p_limit;
  END LOOP;
  IF cardinality(v_keys) = 0 AND cardinality(v_tried) > 0 THEN
    -- All that is due is in somebody's hands for a moment: worth a moment, but no wait for a lock. A row that had changed when it was
    -- locked stays locked though it was not returned, so that we may hold what the others wait for.
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
    SELECT min(h.available_at) INTO v_next FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (
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
      SELECT array_agg(c.key) INTO v_recovered FROM claimed c WHERE c.recovered;
      IF v_recovered IS NOT NULL THEN
        UPDATE holdfast.attempts a SET status = 'lost', ended_at = v_now
          WHERE a.run = ANY (v_recovered) AND a.execution = (SELECT r.execution FROM holdfast.runs r WHERE r.key = a.run)
            AND a.status = 'running' AND NOT a.task;
      END IF;
      PERFORM holdfast.end_call_1(p_instance, p_slot, to_json(v_keys)::text);
    END IF;
  END IF;
  IF cardinality(v_keys) = 0 THEN
    now := v_now;
    next_at := v_next;
    RETURN NEXT;
    RETURN;
  END IF;
  RETURN QUERY SELECT v_now, v_next, r.key = ANY (coalesce(v_recovered, '{}')), CASE WHEN r.key = ANY (v_recovered) THEN r.parked_by END,
    -- Who parked it has its history, as a rule: whoever has not asks again.
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
  e.input, e.seed, s.state, r.resumable
  FROM holdfast.runs r LEFT JOIN LATERAL (SELECT x.input, x.seed FROM holdfast.executions x WHERE x.run = r.key AND x.execution = r.execution
      AND x.workflow = r.workflow AND x.version IS NOT DISTINCT FROM r.version OFFSET 0) e ON true
    LEFT JOIN LATERAL (SELECT x.state FROM holdfast.states x WHERE x.run = r.key OFFSET 0) s ON true
  WHERE r.key = ANY (v_keys) ORDER BY array_position(v_keys, r.key);
END $$;

-- W3: extends leases, and brings what has come for the runs.

-- p_claims: i number, id run, e epoch, seen. Answers with the numbers of those that are lost, and what has come for the others; and of those
-- whose lease was not renewed since somebody has their row locked, with p_wait for longer than a moment: they are held all the same. A lease
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
    -- Never for as long as somebody likes: all leases of the worker would end meanwhile.
    IF p_wait THEN v_free := holdfast.lock_soon_1(v_due);
    ELSE v_free := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    -- Again, now that nobody can take them away.
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

-- D11: hands out activities.

-- p_known: the tasks that the worker knows of, if the answer to an earlier claim was lost. D7: others that are leased to it have not begun, and
-- are given out again as the same attempt.
CREATE FUNCTION holdfast.claim_tasks_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_worker text, p_queue text, p_activities text,
  p_limit integer, p_lease bigint, p_known text, p_again boolean)
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
BEGIN
  IF p_again THEN v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token); END IF;
  IF p_known IS NOT NULL THEN
    v_lost := ARRAY (SELECT t.id FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = ANY (v_activities) AND t.worker_id = p_worker AND t.due_at > v_now
      AND t.id <> ALL (ARRAY (SELECT k::bigint FROM json_array_elements_text(p_known::json) AS x(k))) ORDER BY t.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
  END IF;
  v_found := v_lost || ARRAY (
    SELECT c.id FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
      SELECT t.id, t.available_at FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at <= v_now AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
      ORDER BY t.available_at, t.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) c ORDER BY c.available_at, c.id LIMIT p_limit - cardinality(v_lost));
  IF cardinality(v_found) > 0 AND NOT p_again THEN v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token); END IF;
  IF v_answer IS NULL THEN v_ids := v_found;
  ELSE v_ids := ARRAY (SELECT t.id FROM json_array_elements_text(coalesce(nullif(v_answer, '{}'), '[]')::json) AS u(id) JOIN holdfast.tasks t ON t.id = u.id::bigint AND t.worker_id = p_worker);
  END IF;
  SELECT min(h.available_at) INTO v_next FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
    SELECT t.available_at FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at IS NOT NULL AND t.id <> ALL (v_ids) AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
    ORDER BY t.available_at, t.id LIMIT 1) h;
  IF cardinality(v_ids) > 0 AND v_answer IS NULL THEN
    UPDATE holdfast.tasks t SET attempt = t.attempt + CASE WHEN t.id = ANY (v_lost) THEN 0 ELSE 1 END, token = t.token + 1, worker_id = p_worker, started_at = v_now, heartbeat_at = v_now,
        leased_until = v_now + least(p_lease, t.start_to_close), lease = least(p_lease, t.start_to_close), available_at = NULL,
        due_at = least(v_now + least(p_lease, t.start_to_close), t.scheduled_at + t.schedule_to_close, v_now + t.start_to_close, v_now + t.heartbeat)
      WHERE t.id = ANY (v_ids);
    INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at)
      SELECT run, execution, seq, attempt, true, 'running', worker_id, started_at FROM holdfast.tasks WHERE id = ANY (v_ids)
      ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id, started_at = excluded.started_at,
        ended_at = NULL, retry_at = NULL, error = NULL;
    PERFORM holdfast.end_call_1(p_instance, p_slot, to_json(v_ids)::text);
  END IF;
  RETURN json_build_object('now', v_now, 'next', v_next, 'overdue', v_overdue, 'tasks', (
    SELECT json_agg(json_build_object('id', t.id, 'runId', r.id, 'execution', t.execution, 'seq', t.seq, 'activity', t.activity, 'queue', t.queue,
      'location', t.location, 'input', t.input, 'retry', t.retry, 'startToClose', t.start_to_close, 'scheduleToClose', t.schedule_to_close,
      'scheduleToStart', t.schedule_to_start, 'heartbeat', t.heartbeat, 'attempt', t.attempt, 'token', t.token, 'lastHeartbeat', t.last_heartbeat)
      ORDER BY array_position(v_ids, t.id))
    FROM holdfast.tasks t JOIN holdfast.runs r ON r.key = t.run WHERE t.id = ANY (v_ids)))::text;
END $$;

-- D11: extends the leases of activities.

-- p_beats: i number, id, token, lease, details. Only a heartbeat of the activity's own, with details, is one for its heartbeat limit.
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
-- Answers with the numbers of those that counted, and of those whose run somebody has locked, with p_wait for longer than a moment: nothing
-- was done about them. And with the runs whose next attempt would come after their deadline (K7).
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
    -- D8: as the core's \`retryDelay\`. A power that no number can hold is over any cap; a number that can't be is none of ours.
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

-- What time has brought about, to be dealt with by expire_runs, settle_tasks and deliver_mail.

-- What the store has to look at: runs past their deadline, tasks whose time is up, mail. One look, which writes nothing.
CREATE FUNCTION holdfast.overdue_1(p_now bigint, p_limit integer, p_first boolean) RETURNS text LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
BEGIN
  RETURN json_build_object('now', v_now,
    'runs', (SELECT json_agg(json_build_array(l.id, l.deadline_at)) FROM (SELECT id, deadline_at FROM holdfast.runs
      WHERE deadline_at <= v_now AND deadline_at IS NOT NULL AND finished_at IS NULL AND NOT expired ORDER BY deadline_at LIMIT p_limit) l),
    'tasks', (SELECT json_agg(row_to_json(t)) FROM (SELECT id, token, attempt, activity, retry, worker_id, scheduled_at, started_at, heartbeat_at,
      schedule_to_close, schedule_to_start, start_to_close, heartbeat FROM holdfast.tasks WHERE due_at <= v_now ORDER BY due_at LIMIT p_limit) t),
    'mail', EXISTS (SELECT 1 FROM holdfast.mail WHERE error IS NULL),
    -- Another process has been told a later time than this.
    'back', p_first AND EXISTS (SELECT 1 FROM holdfast.calls WHERE at > clock_timestamp() + interval '1 second'))::text;
END $$;

-- W3: what to do when the server's clock was set back.

-- W3. The clock was set back: no lease that is given now ends as late as these. Whoever lives renews them in time; those of the dead would
-- last until the old time has come round again. A run that somebody has locked is looked at again with the next call.
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

-- Tells others, in a transaction that waits for no disk: the lock that notifications are queued under is held for microseconds.
CREATE FUNCTION holdfast.notify_1(p_channel text, p_notice text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM pg_notify(p_channel, p_notice);
END $$;

-- This process listens, if it has a name here. Returns how many others do; who has not been heard of for a minute does not.
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

-- What it has called is remembered for a while: a call that was passed by may still be on its way.
CREATE FUNCTION holdfast.leave_1(p_instance text) RETURNS void LANGUAGE sql AS $$
  DELETE FROM holdfast.instances WHERE id = p_instance
$$;

-- Retention: deletes closed runs, with all that belongs to them.

-- Closed runs that ended before p_before, after the one that (p_at, p_key) names. Those whose parent is open stay: it may ask for them.
-- Answers with where it came to and how many are gone.
CREATE FUNCTION holdfast.retire_runs_1(p_before bigint, p_at bigint, p_key bigint, p_limit integer, p_archive boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_keys bigint[];
  v_seen integer;
  v_at bigint;
  v_key bigint;
BEGIN
  WITH old AS MATERIALIZED (
    SELECT r.key, r.finished_at, r.parent_id FROM holdfast.runs r
    WHERE r.finished_at IS NOT NULL AND r.finished_at < p_before AND (r.finished_at, r.key) > (p_at, p_key)
    ORDER BY r.finished_at, r.key LIMIT p_limit
  )
  SELECT count(*), (array_agg(o.finished_at ORDER BY o.finished_at DESC, o.key DESC))[1], (array_agg(o.key ORDER BY o.finished_at DESC, o.key DESC))[1],
    array_agg(o.key) FILTER (WHERE (SELECT p.finished_at IS NULL FROM holdfast.runs p WHERE p.id = o.parent_id) IS NOT TRUE)
  INTO v_seen, v_at, v_key, v_keys FROM old o;
  -- One that is just being restarted or resumed stays.
  v_keys := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_keys) AND finished_at < p_before ORDER BY key FOR UPDATE SKIP LOCKED);
  IF p_archive THEN
    INSERT INTO holdfast.archive (run_id, workflow, status, created, finished, run, history)
      SELECT r.id, r.workflow, r.status, to_timestamp(r.created_at / 1000.0), to_timestamp(r.finished_at / 1000.0), row_to_json(r),
        coalesce((SELECT json_agg(row_to_json(h)) FROM (SELECT h.execution, h.turn, h.time, h.direction, h.type, h.seq, h.unit, h.name, h.n, h.refs, h.data, h.value
          FROM holdfast.records h WHERE h.run = k.key ORDER BY h.execution, h.turn, h.position) h), '[]')
      FROM unnest(v_keys) AS k(key) JOIN LATERAL (SELECT r.key, r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.output, r.error, r.waiting_for, r.execution, r.attempt,
  r.parent_id, r.parent_execution, r.parent_seq, r.parent_close, r.parent_announce, r.attributes::text AS attributes, r.retry, r.created_at, r.started_at,
  r.available_at, r.deadline_at, r.finished_at, r.worker_id, r.epoch, CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn') END AS history_length, CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END AS turns, r.recoveries,
  e.input, e.seed, s.state, r.resumable FROM holdfast.runs r JOIN holdfast.executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN holdfast.states s ON s.run = r.key WHERE r.key = k.key) r ON true;
  END IF;
  DELETE FROM holdfast.records WHERE run = ANY (v_keys);
  DELETE FROM holdfast.inbox WHERE run = ANY (v_keys);
  DELETE FROM holdfast.attempts WHERE run = ANY (v_keys);
  DELETE FROM holdfast.tasks WHERE run = ANY (v_keys);
  DELETE FROM holdfast.start_keys WHERE run = ANY (v_keys);
  DELETE FROM holdfast.message_keys WHERE run = ANY (v_keys);
  DELETE FROM holdfast.updates WHERE run = ANY (v_keys);
  DELETE FROM holdfast.states WHERE run = ANY (v_keys);
  DELETE FROM holdfast.executions WHERE run = ANY (v_keys);
  DELETE FROM holdfast.runs WHERE key = ANY (v_keys);
  RETURN json_build_object('seen', v_seen, 'at', v_at, 'key', v_key, 'gone', cardinality(v_keys))::text;
END $$;
`;
