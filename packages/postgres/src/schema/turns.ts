// In SQL: new runs, turns, and the trimming of history.
// Owns: the fence around every commit, the order of its effects, what happens when a run of that id or key exists.
// Invariants: D2 (all or nothing), D3 (many in one call, each stands alone), D4 (a stale epoch writes nothing), D9 (parking and ending see
// every message), P10, M8, L4 R11.
//
// The usual turn (records in, the row of the run changed) goes through a few statements for the whole batch; whatever else a turn may ask
// for goes one by one. Rows are locked first, in order of id; each statement after that sees what is there then.
//
// Plans are kept for as long as a connection lives, and may have been made when the tables were small. So rows are named by `= ANY (array)`,
// or fetched one by one in a LATERAL with OFFSET 0: whatever the planner thinks of the tables, it goes through an index.

import { BY_INDEX, beginCall, KEYLESS_OUTCOME_KEPT, literal, NOT_LONG, NOTHING } from "./messages.ts";

/** What is said of a usual turn in numbers, in this order. A rollback count of -1: as it is. An index of -1: no turn, nothing was decided. */
export const TURN_NUMBERS = ["execution", "epoch", "seen", "kind", "rollbacks", "index", "time", "length", "records", "worker"] as const;
/**
 * How the run of a usual turn goes on: it just runs; it keeps its lease, and there is something to say about it; it parks; it ends; it ends
 * and signals that come before that matter (M1), also those in transactions of callers that are still open.
 */
export const TURN_KINDS = { runsOn: 0, keeps: 1, parks: 2, ends: 3, endsHearing: 4 } as const;
/** Of a record: the number of its turn in the batch, and its place there. No seq, no n: -1. */
export const PLACE_NUMBERS = ["turn", "position", "direction", "seq", "n"] as const;
export const DIRECTIONS = ["job", "command", "turn"] as const;

/** The numbers lie in one array, turn after turn: an element of an array of numbers is found at once. */
const numberAt = (array: string, width: number, at: number, ordinal: string): string =>
  /^\d+$/.test(ordinal)
    ? `${array}[${Number(ordinal) * width - (width - 1 - at)}]`
    : `${array}[(${ordinal})::integer * ${width} - ${width - 1 - at}]`;
const ofTurn = (name: (typeof TURN_NUMBERS)[number], ordinal = "t.i"): string =>
  numberAt("p_numbers", TURN_NUMBERS.length, TURN_NUMBERS.indexOf(name), ordinal);
const ofPlace = (name: (typeof PLACE_NUMBERS)[number]): string =>
  numberAt("p_places", PLACE_NUMBERS.length, PLACE_NUMBERS.indexOf(name), "x.o");
/** Its row is as it should be but for what it counts: nothing to write (see tail.ts). */
export const stays = (rollbacks: string): string =>
  `r.status = 'running' AND ${rollbacks} IN (-1, r.rollbacks) AND r.recoveries = 0 AND r.waiting_for IS NULL AND r.error IS NULL AND r.blocked_code IS NULL`;
/** What the row counts after a turn, if there was one. */
const COUNTED = `turns = CASE ${ofTurn("index")} WHEN -1 THEN r.turns ELSE ${ofTurn("index")} + 1 END,
        history_length = CASE ${ofTurn("index")} WHEN -1 THEN r.history_length ELSE ${ofTurn("length")} + ${ofTurn("records")} END`;
const ROLLBACKS = `rollbacks = CASE ${ofTurn("rollbacks")} WHEN -1 THEN r.rollbacks ELSE ${ofTurn("rollbacks")} END`;
const PARKS = `${ofTurn("kind")} = ${TURN_KINDS.parks}`;
/** What the end of a run leaves in its row, however it ends. */
export const ENDED =
  "finished_at = v_now, worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0, epoch = epoch + 1";
const DIRECTION_NAMES = `'{${DIRECTIONS.join(",")}}'::text[]`;

/** The columns of a record, as they are handed over; the same for both ways in. */
const RECORD =
  "t integer, p integer, k text, y text, q integer, n integer, w integer, c bigint, h integer, u text, m text, f text[], d text, v text, s text";
const RECORD_COLUMNS =
  "execution, turn, position, direction, type, seq, n, worker, time, history_length, unit, name, refs, data, value, state";
const RECORD_VALUES = "r.t, r.p, r.k, r.y, r.q, r.n, r.w, r.c, r.h, r.u, r.m, r.f, r.d, r.v, r.s";

/** A new run, as it is handed over: s status, w worker, l lease, t turns, n records, rb rollbacks, wf waits, of one that comes with its first turn. */
export const NEW_RUN =
  'id text, workflow text, version text, queue text, priority integer, lane integer, "startAt" bigint, delay bigint, deadline bigint, "deadlineAt" bigint, retry text, attributes jsonb, s text, w text, l bigint, t integer, n integer, rb integer, wf text';
export const NEW_RUN_COLUMNS =
  "key, id, workflow, version, queue, priority, lane, status, available_at, worker_id, lease, epoch, created_at, started_at, deadline_at, attributes, retry, turns, history_length, rollbacks, waiting_for";
export const newRunValues = (
  of: string,
): string => `${of}id, ${of}workflow, ${of}version, ${of}queue, ${of}priority, ${of}lane, coalesce(${of}s, 'pending'),
          CASE WHEN ${of}w IS NULL THEN coalesce(${of}"startAt", v_now + coalesce(${of}delay, 0)) ELSE v_now + ${of}l END, ${of}w, ${of}l,
          CASE WHEN ${of}w IS NULL THEN 0 ELSE 1 END, v_now, CASE WHEN ${of}w IS NOT NULL THEN v_now END,
          coalesce(${of}"deadlineAt", v_now + ${of}deadline), ${of}attributes, ${of}retry, coalesce(${of}t, 0), coalesce(${of}n, 0), coalesce(${of}rb, 0), ${of}wf`;

const ATTEMPT = "seq integer, number integer, status text, worker text, started bigint, ended bigint, retry bigint, error text";
const WRITE_ATTEMPT = `ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id,
  started_at = excluded.started_at, ended_at = excluded.ended_at, retry_at = excluded.retry_at, error = excluded.error`;

/** M10: the first outcome counts. One without a key may go after a while, with a statement that records another. */
const settleUpdate = (now: string): string => `ON CONFLICT (run, id) DO UPDATE SET status = excluded.status, value = excluded.value,
        error = excluded.error, forget_at = CASE WHEN u.keyless THEN ${now} + ${KEYLESS_OUTCOME_KEPT} END WHERE u.status IS NULL`;

const TASK =
  "seq integer, activity text, queue text, location text, input text, retry text, stc bigint, sc bigint, ss bigint, hb bigint, ma double precision, ii double precision, bo double precision, mi double precision, ji double precision, at integer";

export const turns = (s: string): string => `
CREATE FUNCTION ${s}.inbox_after_1(p_run bigint, p_seen bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_array(id, type, seq, name, refs, data, value) ORDER BY id), '[]') FROM ${s}.inbox WHERE run = p_run AND id > p_seen
$$;

-- L4, R11: deletes what the commit of a scope has left behind, as the core's \`trimmed\` does. p_trims: seq and unit of the scope, p the
-- position of its commit in the turn, trim the first iteration or dispatch whose records stay. Returns how many records are gone.
CREATE FUNCTION ${s}.trim_records_1(p_run bigint, p_execution integer, p_turn integer, p_trims jsonb) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_trim record;
  v_turn integer;
  v_position integer;
  v_gone integer[];
  v_opened integer[];
  v_consumed text[];
  v_total integer := 0;
  v_count integer;
  v_facts ${s}.records[];
  v_seqs integer[];
BEGIN
  FOR v_trim IN SELECT * FROM jsonb_to_recordset(p_trims) AS x(seq integer, unit text, p integer, trim integer) LOOP
    -- Where the scope was opened: all that it leaves behind came after that.
    SELECT turn, position INTO v_turn, v_position FROM ${s}.records
      WHERE run = p_run AND execution = p_execution AND seq = v_trim.seq AND n IS NOT NULL AND direction = 'command' ORDER BY turn, position LIMIT 1;
    IF NOT FOUND THEN v_turn := p_turn; v_position := v_trim.p; END IF;
    WITH before AS (
      SELECT seq, n, type, refs, (turn, position) > (v_turn, v_position) AND seq IS DISTINCT FROM v_trim.seq
          OR (turn, position) > (v_turn, v_position) AND n IS NULL AS beneath,
        CASE WHEN starts_with(unit, v_trim.unit || '/')
          THEN substring(substr(unit, length(v_trim.unit) + 2) FROM '^~h?([0-9]+)')::numeric < v_trim.trim END AS past
      FROM ${s}.records WHERE run = p_run AND execution = p_execution AND direction = 'command' AND (turn, position) < (p_turn, v_trim.p)
    ), gone AS (
      SELECT seq FROM before WHERE beneath AND n IS NOT NULL AND past
    )
    SELECT ARRAY (SELECT seq FROM gone),
      ARRAY (SELECT seq FROM before WHERE n IS NOT NULL),
      ARRAY (SELECT unnest(b.refs) FROM before b
        WHERE b.beneath AND (b.type = 'dispatch' AND b.past OR b.type = 'settle' AND b.seq IN (SELECT seq FROM gone)))
    INTO v_gone, v_opened, v_consumed;
    WITH dropped AS (
      DELETE FROM ${s}.records r WHERE run = p_run AND execution = p_execution AND (
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
    SELECT count(*) FILTER (WHERE d.direction <> 'turn'), array_agg(ROW (d.*)::${s}.records) FILTER (WHERE d.history_length IS NOT NULL),
      array_agg(d.seq) FILTER (WHERE d.n IS NOT NULL)
    INTO v_count, v_facts, v_seqs FROM dropped d;
    v_total := v_total + v_count;
    -- What belongs to a turn as a whole outlives its first row.
    UPDATE ${s}.records r SET time = f.time, history_length = f.history_length, worker = f.worker, state = f.state FROM unnest(v_facts) f
      WHERE r.run = p_run AND r.execution = p_execution AND r.turn = f.turn
        AND r.position = (SELECT min(q.position) FROM ${s}.records q WHERE q.run = p_run AND q.execution = p_execution AND q.turn = f.turn);
    DELETE FROM ${s}.attempts WHERE run = p_run AND execution = p_execution AND seq = ANY (v_seqs);
  END LOOP;
  RETURN v_total;
END $$;

-- New runs whose ids nobody has, all at once; returns the others, which go one by one.
CREATE FUNCTION ${s}.create_children_1(p_runs jsonb, p_now bigint) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
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
    SELECT o.*, nextval('${s}.run_keys') AS key
    FROM ROWS FROM (jsonb_to_recordset(p_runs) AS (id text, workflow text, version text, queue text, priority integer, lane integer, "startAt" bigint,
      delay bigint, deadline bigint, "deadlineAt" bigint, retry text, attributes jsonb, parent jsonb)) WITH ORDINALITY
      AS o(id, workflow, version, queue, priority, lane, "startAt", delay, deadline, "deadlineAt", retry, attributes, parent, i)
  ), inserted AS (
    INSERT INTO ${s}.runs (key, id, workflow, version, queue, priority, lane, status, available_at, created_at, deadline_at, attributes, retry,
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
  INSERT INTO ${s}.executions (run, execution, workflow, version, seed, input)
    SELECT v_keys[o.i], 1, o.workflow, o.version, o.seed, o.input
    FROM ROWS FROM (jsonb_to_recordset(p_runs) AS (workflow text, version text, seed text, input text)) WITH ORDINALITY AS o(workflow, version, seed, input, i)
    WHERE v_keys[o.i] <> 0;
  RETURN QUERY SELECT o.run FROM jsonb_array_elements(p_runs) WITH ORDINALITY AS o(run, i) WHERE v_keys[o.i] = 0;
END $$;

-- D9: does the inbox of a run hold something that the end of the run should have waited for: a cancellation, a signal of one of these names?
CREATE FUNCTION ${s}.is_late_1(p_run bigint, p_cancel boolean, p_signals text[], p_consumed bigint[]) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT 1 FROM ${s}.inbox b WHERE b.run = p_run
    AND (b.type = 'cancel' AND p_cancel OR b.type = 'signal' AND b.name = ANY (p_signals)) AND b.id <> ALL (coalesce(p_consumed, '{}')))
$$;

-- One turn of one run, with whatever it may ask for.
CREATE FUNCTION ${s}.commit_turn_1(p_commit jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  c record;
  v_run ${s}.runs;
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
  SELECT * INTO v_run FROM ${s}.runs WHERE id = c.id FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND OR v_run.worker_id IS NULL OR v_run.epoch <> c.e OR v_run.execution <> c.x THEN RETURN '{"stale":true}'; END IF;
  IF c.h THEN
    PERFORM 1 FROM ${s}.runs WHERE key = v_run.key FOR UPDATE SKIP LOCKED;
    v_busy := NOT FOUND;
  END IF;
  IF c.ls IS NOT NULL OR c.h THEN v_mailed := ${s}.take_mail_1(ARRAY[c.id], p_now); END IF;
  IF c.ls IS NOT NULL AND (v_mailed OR v_run.last_message > 0) AND ${s}.is_late_1(v_run.key, c.lc, c.ls, c.consumed) THEN
    RETURN jsonb_build_object('late', true, 'inbox', ${s}.inbox_after_1(v_run.key, c.seen));
  END IF;
  IF v_busy THEN RETURN '{"busy":true}'; END IF;
  -- M8: its sender was faster.
  IF c.accepts IS NOT NULL AND EXISTS (SELECT 1 FROM ${s}.updates WHERE run = v_run.key AND id = ANY (c.accepts) AND status IS NOT NULL) THEN
    RETURN '{"stale":true}';
  END IF;
  PERFORM ${s}.settle_1(v_run.key);
  IF c.records IS NOT NULL THEN
    INSERT INTO ${s}.records (run, ${RECORD_COLUMNS}) SELECT v_run.key, c.x, ${RECORD_VALUES} FROM jsonb_to_recordset(c.records) AS r(${RECORD});
  END IF;
  IF c.trims IS NOT NULL THEN v_gone := ${s}.trim_records_1(v_run.key, c.x, c."turnIndex", c.trims); END IF;
  IF c.state IS NOT NULL THEN
    INSERT INTO ${s}.states (run, state) VALUES (v_run.key, c.state) ON CONFLICT (run) DO UPDATE SET state = excluded.state;
  END IF;
  IF c.attempts IS NOT NULL THEN
    INSERT INTO ${s}.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
      SELECT v_run.key, c.x, a.seq, a.number, false, a.status, a.worker, a.started, a.ended, a.retry, a.error FROM jsonb_to_recordset(c.attempts) AS a(${ATTEMPT})
      ${WRITE_ATTEMPT};
  END IF;
  IF c.consumed IS NOT NULL THEN DELETE FROM ${s}.inbox WHERE run = v_run.key AND id = ANY (c.consumed); END IF;
  IF c.updates IS NOT NULL THEN
    WITH gone AS (DELETE FROM ${s}.updates WHERE run = v_run.key AND forget_at <= p_now)
    INSERT INTO ${s}.updates AS u (run, id, inbox_id, status, value, error)
      SELECT v_run.key, x.id, 0, x.status, x.value, x.error FROM jsonb_to_recordset(c.updates) AS x(id text, status text, value text, error text)
      ${settleUpdate("p_now")};
  END IF;
  IF c.tasks IS NOT NULL THEN
    INSERT INTO ${s}.tasks (run, execution, seq, activity, queue, location, input, retry, start_to_close, schedule_to_close, schedule_to_start, heartbeat,
        max_attempts, initial_interval, backoff, max_interval, jitter, attempt, scheduled_at, available_at, due_at)
      SELECT v_run.key, c.x, x.seq, x.activity, x.queue, x.location, x.input, x.retry, x.stc, x.sc, x.ss, x.hb, x.ma, x.ii, x.bo, x.mi, x.ji,
        coalesce(x.at, 0), p_now, p_now, least(p_now + x.sc, p_now + x.ss)
      FROM jsonb_to_recordset(c.tasks) AS x(${TASK});
  END IF;
  -- C7: also what was asked for in this very turn.
  IF c."cancelTasks" IS NOT NULL THEN PERFORM ${s}.drop_tasks_1(v_run.key, c."cancelTasks", p_now); END IF;
  IF c.children IS NOT NULL THEN
    FOR v_item IN SELECT ${s}.create_children_1(c.children, p_now) LOOP
      v_result := ${s}.create_run_1(v_item, p_now);
      IF v_result ->> 's' = 'conflict' THEN
        PERFORM ${s}.put_1(v_run.key, jsonb_build_object('y', 'resolve', 'q', coalesce(v_item #> '{parent,seq}', '0'),
          'd', '{"status":"failed","error":' || CASE WHEN v_result ->> 'w' = v_item ->> 'workflow' THEN ${s}.error_1('exists', v_item ->> 'id')
            ELSE ${s}.error_1('exists-other', v_item ->> 'id', v_result ->> 'w') END || '}'), p_now);
      END IF;
    END LOOP;
  END IF;
  IF c."cancelChildren" IS NOT NULL THEN
    FOR v_child IN SELECT key FROM ${s}.runs WHERE parent_id = v_run.id AND finished_at IS NULL AND parent_execution = c.x
        AND parent_seq = ANY (c."cancelChildren") ORDER BY key LOOP
      PERFORM ${s}.cancel_run_1(v_child.key, ${s}.cancel_message_1(format('its parent %s gave it up', v_run.id)), p_now);
    END LOOP;
  END IF;
  IF c.sends IS NOT NULL THEN
    v_sent := '[]';
    FOR v_item IN SELECT * FROM jsonb_array_elements(c.sends) LOOP
      v_result := ${s}.deliver_1(v_item ->> 'r', v_item, p_now);
      v_sent := v_sent || v_result;
      -- M12: the sender learns how it went, through its own inbox.
      PERFORM ${s}.put_1(v_run.key, jsonb_build_object('y', 'resolve', 'q', v_item -> 'seq') || CASE v_result ->> 's'
        WHEN 'not-found' THEN jsonb_build_object('d', '{"status":"failed","error":' || ${s}.error_1('not-found', v_item ->> 'r') || '}')
        WHEN 'closed' THEN jsonb_build_object('d', '{"status":"failed","error":' || ${s}.error_1('closed', v_item ->> 'r', v_result ->> 'r') || '}')
        ELSE jsonb_build_object('v', ${NOTHING}) END, p_now);
    END LOOP;
  END IF;
  IF c.attributes IS NOT NULL THEN
    UPDATE ${s}.runs SET attributes = (attributes || c.attributes) - c.removed WHERE key = v_run.key;
  END IF;
  v_answer := jsonb_build_object('sent', v_sent);
  IF c.close IS NOT NULL THEN
    IF c.close ->> 'status' = 'continued' THEN
      PERFORM ${s}.continue_run_1(v_run.key, c.close -> 'next', p_now);
    ELSE
      PERFORM ${s}.close_run_1(v_run.key, c.close ->> 'status', c.close ->> 'output', c.close ->> 'error', (c.close ->> 'resumable')::boolean,
        p_now, c.t, c.n - v_gone);
    END IF;
    RETURN v_answer;
  END IF;
  UPDATE ${s}.runs SET status = c.s, waiting_for = c.wf, error = c.er, blocked_code = c.bc, attempt = coalesce(c.ra, attempt),
      rollbacks = coalesce(c.rb, rollbacks), turns = turns + c.t, history_length = history_length + c.n - v_gone,
      recoveries = CASE WHEN c.t > 0 THEN 0 ELSE recoveries END,
      parked_by = CASE WHEN c.k THEN parked_by ELSE worker_id END, worker_id = CASE WHEN c.k THEN worker_id END,
      available_at = CASE WHEN c.k THEN available_at
        WHEN EXISTS (SELECT 1 FROM ${s}.inbox WHERE run = v_run.key AND id > c.seen) THEN least(c.wake, p_now) ELSE c.wake END
    WHERE key = v_run.key RETURNING * INTO v_run;
  IF c.k THEN v_answer := v_answer || jsonb_build_object('inbox', ${s}.inbox_after_1(v_run.key, c.seen), 'length', v_run.history_length); END IF;
  RETURN v_answer || jsonb_build_object('due', v_run.worker_id IS NULL AND v_run.available_at <= p_now);
END $$;

-- Turns of many runs. The usual ones, each of another run, are numbered from 1, in order of id. p_ids, p_numbers: which they are, and of each
-- ${TURN_NUMBERS.length} numbers (see commitTurns.ts); p_turns: what else the rows of those get that don't just run on, as JSON.
-- p_places: ${PLACE_NUMBERS.length} numbers of each record; p_types … p_states: its texts. p_more: what else the turns have (consumed messages, states, updates,
-- attempts); p_others: turns that go one by one, after them; p_touched, p_ending: ids of runs that those may reach, or end. The answer is
-- {} if all are committed and nothing else is to be said. Of a run that can't end yet nothing is written (busy).
CREATE FUNCTION ${s}.commit_turns_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_ids text[], p_numbers bigint[], p_turns text,
  p_places integer[], p_types text[], p_units text[], p_names text[], p_refs text[], p_data text[], p_values text[], p_states text[], p_more text,
  p_others text, p_touched text, p_ending text)
RETURNS text LANGUAGE plpgsql ${BY_INDEX} ${NOT_LONG} AS $$
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
  ${beginCall(s)}
  -- Most runs that end have neither parent nor open children. That does not change meanwhile: only turns of their own give them any.
  IF p_touched IS NOT NULL OR p_ending IS NOT NULL AND EXISTS (SELECT 1 FROM json_array_elements_text(p_ending::json) AS e(id)
      WHERE (SELECT x.parent_id FROM ${s}.runs x WHERE x.id = e.id) IS NOT NULL
        OR (SELECT 1 FROM ${s}.runs x WHERE x.parent_id = e.id AND x.finished_at IS NULL LIMIT 1) IS NOT NULL) THEN
    PERFORM ${s}.lock_runs_1(p_ids || ARRAY (SELECT * FROM json_array_elements_text(p_touched::json)),
      ARRAY (SELECT * FROM json_array_elements_text(p_ending::json)));
  END IF;
  -- D4: who may write. Zero stands for who may not.
  SELECT array_agg(coalesce(l.key, 0)), bool_or(l.last_message > ${ofTurn("seen")}), bool_or(l.last_message > 0),
      array_agg(t.i::integer) FILTER (WHERE NOT l.stays AND ${ofTurn("kind")} = ${TURN_KINDS.runsOn}),
      bool_or(${ofTurn("kind")} IN (${TURN_KINDS.keeps}, ${TURN_KINDS.parks})),
      array_agg(l.key) FILTER (WHERE ${ofTurn("kind")} IN (${TURN_KINDS.ends}, ${TURN_KINDS.endsHearing})),
      array_agg(l.key) FILTER (WHERE ${ofTurn("kind")} = ${TURN_KINDS.endsHearing}),
      array_agg(l.key) FILTER (WHERE ${ofTurn("index")} = -1)
    INTO v_keys, v_news, v_messages, v_again, v_open, v_ended, v_hearing, v_turnless
    FROM unnest(p_ids) WITH ORDINALITY AS t(id, i) LEFT JOIN LATERAL (
      SELECT r.key, r.last_message,
        ${stays(ofTurn("rollbacks"))} AS stays
      FROM ${s}.runs r WHERE r.id = t.id AND r.execution = ${ofTurn("execution")} AND r.epoch = ${ofTurn("epoch")} AND r.worker_id IS NOT NULL
      FOR NO KEY UPDATE
    ) l ON true;
  v_keys := coalesce(v_keys, '{}');
  v_held := v_keys;
  v_now := ${s}.clock_1(p_now);
  IF v_hearing IS NOT NULL THEN
    -- M1: a caller's transaction that has a signal for a run keeps the run from ending until it has ended itself (see post_mail_1).
    v_free := ARRAY (SELECT r.key FROM ${s}.runs r WHERE r.key = ANY (v_hearing) ORDER BY r.id FOR UPDATE SKIP LOCKED);
    SELECT array_agg(array_position(v_keys, h.key)) INTO v_busy FROM unnest(v_hearing) AS h(key) WHERE h.key <> ALL (v_free);
  END IF;
  IF v_ended IS NOT NULL AND EXISTS (SELECT 1 FROM ${s}.mail WHERE error IS NULL AND run_id = ANY (p_ids))
    AND ${s}.take_mail_1(ARRAY (SELECT u.id FROM unnest(p_ids, v_keys) AS u(id, key) WHERE u.key = ANY (v_ended)), v_now) THEN
    v_messages := true;
    v_news := true;
  END IF;
  IF v_messages AND v_ended IS NOT NULL THEN
    SELECT array_agg(t.i) INTO v_late FROM json_to_recordset(p_turns::json) AS t(i integer, lc boolean, ls text[])
      WHERE t.ls IS NOT NULL AND v_keys[t.i] <> 0 AND ${s}.is_late_1(v_keys[t.i], t.lc, t.ls,
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
  IF v_turnless IS NOT NULL THEN PERFORM ${s}.settle_1(k.key) FROM unnest(v_turnless) AS k(key); END IF;
  IF p_places IS NOT NULL THEN
    INSERT INTO ${s}.records (run, execution, turn, position, direction, type, seq, n, worker, time, history_length, unit, name, refs, data, value, state)
      SELECT v_keys[r.i], ${ofTurn("execution", "r.i")}, ${ofTurn("index", "r.i")}, r.p, (${DIRECTION_NAMES})[r.direction], r.y, nullif(r.q, -1), nullif(r.n, -1),
        CASE r.p WHEN 0 THEN ${ofTurn("worker", "r.i")} END, CASE r.p WHEN 0 THEN ${ofTurn("time", "r.i")} END,
        CASE r.p WHEN 0 THEN ${ofTurn("length", "r.i")} END, r.u, r.m, r.f::text[], r.d, r.v, r.s
      FROM (SELECT x.*, ${ofPlace("turn")} AS i, ${ofPlace("position")} AS p, ${ofPlace("direction")} AS direction, ${ofPlace("seq")} AS q, ${ofPlace("n")} AS n
        FROM unnest(p_types, p_units, p_names, p_refs, p_data, p_values, p_states) WITH ORDINALITY AS x(y, u, m, f, d, v, s, o)) r
      WHERE v_keys[r.i] <> 0;
  END IF;
  IF p_more IS NOT NULL THEN
    -- An id is one message's, of whatever run: who has lost its claim takes none (v_keys is zero).
    DELETE FROM ${s}.inbox b USING json_to_recordset(v_more -> 'consumed') AS m(i integer, id bigint) WHERE b.run = v_keys[m.i] AND b.id = m.id;
    INSERT INTO ${s}.states (run, state)
      SELECT v_keys[m.i], m.state FROM json_to_recordset(v_more -> 'states') AS m(i integer, state text) WHERE v_keys[m.i] <> 0
      ON CONFLICT (run) DO UPDATE SET state = excluded.state;
    INSERT INTO ${s}.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
      SELECT v_keys[a.i], a.x, a.seq, a.number, false, a.status, a.worker, a.started, a.ended, a.retry, a.error
      FROM json_to_recordset(v_more -> 'attempts') AS a(i integer, x integer, ${ATTEMPT}) WHERE v_keys[a.i] <> 0
      ${WRITE_ATTEMPT};
    WITH settled AS MATERIALIZED (
      SELECT v_keys[m.i] AS run, m.id, m.status, m.value, m.error
      FROM json_to_recordset(v_more -> 'updates') AS m(i integer, id text, status text, value text, error text) WHERE v_keys[m.i] <> 0
    ), gone AS (
      DELETE FROM ${s}.updates WHERE run = ANY (ARRAY (SELECT x.run FROM settled x)) AND forget_at <= v_now
    )
    INSERT INTO ${s}.updates AS u (run, id, inbox_id, status, value, error) SELECT run, id, 0, status, value, error FROM settled
      ${settleUpdate("v_now")};
  END IF;
  IF v_again IS NOT NULL THEN
    -- They had waited, or been recovered.
    UPDATE ${s}.runs r SET status = 'running', waiting_for = NULL, error = NULL, blocked_code = NULL, recoveries = 0, ${ROLLBACKS}, ${COUNTED}
      FROM unnest(v_again) AS t(i) WHERE r.key = v_keys[t.i];
  END IF;
  IF v_open THEN WITH changed AS (
    UPDATE ${s}.runs r SET status = t.s, waiting_for = t.wf, error = t.er, blocked_code = t.bc, ${ROLLBACKS}, ${COUNTED},
        recoveries = CASE ${ofTurn("index")} WHEN -1 THEN r.recoveries ELSE 0 END,
        parked_by = CASE WHEN ${PARKS} THEN r.worker_id ELSE r.parked_by END, worker_id = CASE WHEN NOT ${PARKS} THEN r.worker_id END,
        available_at = CASE WHEN NOT ${PARKS} THEN r.available_at
          WHEN r.last_message > ${ofTurn("seen")} AND EXISTS (SELECT 1 FROM ${s}.inbox b WHERE b.run = r.key AND b.id > ${ofTurn("seen")}) THEN least(t.wake, v_now)
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
        SELECT x.parent_id, EXISTS (SELECT 1 FROM ${s}.runs c WHERE c.parent_id = x.id AND c.finished_at IS NULL)
          OR EXISTS (SELECT 1 FROM ${s}.tasks a WHERE a.run = x.key)
          OR EXISTS (SELECT 1 FROM ${s}.updates u WHERE u.run = x.key AND u.status IS NULL) AS leads
        FROM ${s}.runs x WHERE x.key = e.key OFFSET 0) r;
    UPDATE ${s}.runs r SET status = t.c, ended_as = t.c, output = t.o, error = t.er, resumable = t.c = 'failed' AND coalesce(t.rs, true),
        ${COUNTED}, ${ENDED}
      FROM json_to_recordset(p_turns::json) AS t(i integer, c text, o text, er text, rs boolean)
      WHERE t.c IS NOT NULL AND r.key = v_keys[t.i];
    IF v_messages THEN
      -- D10: signals wait for a run that may be resumed. Of those with a family the rest is to be told of first.
      DELETE FROM ${s}.inbox b WHERE b.run = ANY (v_ended) AND (v_family IS NULL OR array_position(v_keys, b.run) <> ALL (v_family))
        AND NOT (b.type = 'signal' AND (SELECT r.resumable FROM ${s}.runs r WHERE r.key = b.run));
    END IF;
    IF v_family IS NOT NULL THEN
      PERFORM ${s}.follow_end_1(v_keys[i], v_now) FROM (SELECT unnest(v_family) AS i ORDER BY 1) f;
    END IF;
    IF v_told THEN v_told := ${s}.tell_parents_1(ARRAY (SELECT e.key FROM unnest(v_ended) AS e(key) WHERE v_family IS NULL OR array_position(v_keys, e.key) <> ALL (v_family)), v_now); END IF;
  END IF;
  IF v_news THEN
    SELECT json_agg(json_build_array(t.i, b.id, b.type, b.seq, b.name, b.refs, b.data, b.value) ORDER BY b.id) INTO v_inbox
      FROM generate_subscripts(p_ids, 1) AS t(i)
      CROSS JOIN LATERAL (SELECT * FROM ${s}.inbox x WHERE x.run = v_held[t.i] AND x.id > ${ofTurn("seen")} OFFSET 0) b
      WHERE ${ofTurn("kind")} IN (${TURN_KINDS.runsOn}, ${TURN_KINDS.keeps}) OR t.i = ANY (v_late);
  END IF;
  IF p_others IS NOT NULL THEN
    v_results := '[]';
    FOR v_item IN SELECT * FROM jsonb_array_elements(p_others::jsonb) LOOP
      v_result := ${s}.commit_turn_1(v_item, v_now);
      v_due := coalesce(v_due, false) OR coalesce((v_result ->> 'due')::boolean, false);
      v_results := v_results || v_result;
    END LOOP;
  END IF;
  IF 0 <> ALL (v_keys) AND v_inbox IS NULL AND v_results IS NULL AND v_due IS NOT TRUE AND v_family IS NULL AND v_told IS NOT TRUE THEN RETURN '{}'; END IF;
  RETURN ${s}.end_call_1(p_instance, p_slot, json_build_object(
    'stale', (SELECT json_agg(i) FROM unnest(v_keys) WITH ORDINALITY AS u(key, i) WHERE key = 0),
    'late', to_json(v_late), 'busy', to_json(v_busy), 'inbox', v_inbox, 'others', v_results, 'due', v_due, 'family', v_family IS NOT NULL OR v_told)::text);
END $$;

-- The parent learns that its child exists.
CREATE FUNCTION ${s}.announce_1(p_id text, p_parent jsonb, p_now bigint) RETURNS void LANGUAGE sql AS $$
  SELECT ${s}.answer_1(p_parent ->> 'runId', (p_parent ->> 'execution')::integer,
    jsonb_build_object('y', 'childStarted', 'q', p_parent -> 'seq', 'd', json_build_object('runId', p_id)::text), p_now)
$$;

-- One new run, with whatever may come with it. Answers with s status, x execution, b inbox ids, r status and w workflow of the run in the way.
CREATE FUNCTION ${s}.create_run_1(p_run jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  n record;
  v_run ${s}.runs;
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
    SELECT * INTO v_run FROM ${s}.runs WHERE key = (SELECT run FROM ${s}.start_keys WHERE workflow = n.workflow AND key = n.ikey);
    -- The same call, made again: its messages are there.
    IF FOUND THEN RETURN jsonb_build_object('s', 'existing', 'id', v_run.id, 'x', v_run.execution); END IF;
  END IF;
  SELECT * INTO v_run FROM ${s}.runs WHERE id = n.id;
  IF FOUND THEN
    v_closed := v_run.finished_at IS NOT NULL;
    v_key := v_run.key;
    IF n.conflict = 'reject' OR v_run.workflow <> n.workflow OR n.conflict <> 'reopen' AND n.parent IS NOT NULL AND NOT v_closed OR (n.messages IS NOT NULL AND v_closed AND n.conflict = 'use-existing')
        OR n.conflict = 'reopen' AND (n.parent IS NULL OR (v_run.parent_id, v_run.parent_execution, v_run.parent_seq)
          IS DISTINCT FROM (n.parent ->> 'runId', (n.parent ->> 'execution')::integer, (n.parent ->> 'seq')::integer)) THEN
      RETURN jsonb_build_object('s', 'conflict', 'r', v_run.status, 'w', v_run.workflow);
    END IF;
    IF n.conflict = 'reopen' AND (n.parent ->> 'announce')::boolean AND (NOT v_closed OR v_run.status = 'completed' OR v_run.status = 'failed' AND v_run.resumable AND v_run.turns > 0) THEN
      PERFORM ${s}.announce_1(n.id, n.parent, p_now);
    END IF;
    IF v_closed AND n.conflict = 'reopen' THEN
      -- D10: the parent goes on after a failure, and with it this child of its.
      IF v_run.status = 'completed' THEN
        PERFORM ${s}.answer_1(v_run.parent_id, v_run.parent_execution,
          jsonb_build_object('y', 'resolve', 'q', v_run.parent_seq, 'v', coalesce(v_run.output, ${NOTHING})), p_now);
        RETURN jsonb_build_object('s', 'existing', 'x', v_run.execution);
      END IF;
      PERFORM 1 FROM ${s}.runs WHERE key = v_run.key FOR NO KEY UPDATE NOWAIT;
      IF ${s}.resume_run_1(v_run.key, p_now) = 'resumed' THEN RETURN jsonb_build_object('s', 'created', 'x', v_run.execution); END IF;
    END IF;
    IF v_closed AND n.conflict IN ('restart-if-closed', 'reopen') THEN
      SELECT * INTO v_run FROM ${s}.runs WHERE key = v_run.key AND finished_at IS NOT NULL FOR NO KEY UPDATE NOWAIT;
      IF NOT FOUND THEN RAISE EXCEPTION 'the run has begun again meanwhile' USING ERRCODE = '40001'; END IF;
      DELETE FROM ${s}.inbox WHERE run = v_run.key;
      PERFORM ${s}.begin_execution_1(v_run.key, n.workflow, n.version, n.lane, n.seed, n.input, v_at);
      UPDATE ${s}.runs SET queue = n.queue, priority = n.priority, started_at = NULL, deadline_at = v_deadline, attributes = n.attributes,
          retry = n.retry, parent_id = n.parent ->> 'runId', parent_execution = (n.parent ->> 'execution')::integer,
          parent_seq = (n.parent ->> 'seq')::integer, parent_close = n.parent ->> 'parentClose', parent_announce = (n.parent ->> 'announce')::boolean
        WHERE key = v_run.key;
      v_execution := v_run.execution + 1;
    ELSE
      v_status := 'existing';
      v_execution := v_run.execution;
    END IF;
  ELSE
    v_key := nextval('${s}.run_keys');
    INSERT INTO ${s}.runs (key, id, workflow, version, queue, priority, lane, status, available_at, worker_id, lease, epoch, created_at, started_at, deadline_at,
        attributes, retry, parent_id, parent_execution, parent_seq, parent_close, parent_announce)
      VALUES (v_key, n.id, n.workflow, n.version, n.queue, n.priority, n.lane, CASE WHEN n.first IS NULL THEN 'pending' ELSE 'running' END,
        CASE WHEN n.first IS NULL THEN v_at ELSE p_now + (n.first ->> 'lease')::bigint END, n.first ->> 'worker', (n.first ->> 'lease')::bigint,
        CASE WHEN n.first IS NULL THEN 0 ELSE 1 END, p_now, CASE WHEN n.first IS NOT NULL THEN p_now END, v_deadline, n.attributes, n.retry,
        n.parent ->> 'runId', (n.parent ->> 'execution')::integer, (n.parent ->> 'seq')::integer, n.parent ->> 'parentClose',
        (n.parent ->> 'announce')::boolean)
      ON CONFLICT DO NOTHING;
    -- Somebody else was first, a moment ago: the next try meets the run.
    IF NOT FOUND THEN RAISE EXCEPTION 'the run was created meanwhile' USING ERRCODE = '40001'; END IF;
    INSERT INTO ${s}.executions (run, execution, workflow, version, seed, input) VALUES (v_key, 1, n.workflow, n.version, n.seed, n.input);
  END IF;
  IF n.ikey IS NOT NULL THEN
    INSERT INTO ${s}.start_keys (workflow, key, run) VALUES (n.workflow, n.ikey, v_key) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RAISE EXCEPTION 'the key was used meanwhile' USING ERRCODE = '40001'; END IF;
  END IF;
  IF v_status = 'created' AND (n.parent ->> 'announce')::boolean THEN PERFORM ${s}.announce_1(n.id, n.parent, p_now); END IF;
  IF n.messages IS NOT NULL THEN
    FOR v_message IN SELECT * FROM jsonb_array_elements(n.messages) LOOP
      v_inbox := v_inbox || coalesce(${s}.deliver_1(n.id, v_message, p_now) -> 'i', '0');
    END LOOP;
  END IF;
  IF n.first IS NOT NULL AND v_status = 'created' THEN PERFORM ${s}.commit_turn_1(n.first -> 'commit', p_now); END IF;
  RETURN jsonb_build_object('s', v_status, 'x', v_execution, 'b', v_inbox);
END $$;

-- New runs. p_runs: those that come alone or with a usual first turn, each of another id, numbered from 1; p_records, p_states: of their
-- turns; p_others: those that go one by one, after them. With a channel it tells others by itself, when its transaction commits.
CREATE FUNCTION ${s}.create_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_runs text, p_records text, p_states text,
  p_others text, p_touched text, p_ending text, p_channel text, p_notice text)
RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
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
  ${beginCall(s)}
  IF p_touched IS NOT NULL THEN
    PERFORM ${s}.lock_runs_1(
      ARRAY (SELECT * FROM json_array_elements_text(p_touched::json)), ARRAY (SELECT * FROM json_array_elements_text(p_ending::json)));
  END IF;
  v_now := ${s}.clock_1(p_now);
  IF p_runs IS NOT NULL THEN
    -- Keys in the order of the batch, rows in the order of ids: two batches with the same ids can't wait for each other.
    WITH new AS MATERIALIZED (
      SELECT o.*, nextval('${s}.run_keys') AS key FROM (
        SELECT * FROM json_to_recordset(v_runs) AS r(i integer, ${NEW_RUN}) ORDER BY i) o
    ), inserted AS (
      INSERT INTO ${s}.runs (${NEW_RUN_COLUMNS}) SELECT key, ${newRunValues("")}
        FROM new ORDER BY id ON CONFLICT DO NOTHING RETURNING key
    )
    SELECT array_agg(n.key ORDER BY n.i), (SELECT array_agg(i.key) FROM inserted i) INTO v_keys, v_inserted FROM new n;
    IF cardinality(v_inserted) IS DISTINCT FROM cardinality(v_keys) THEN
      v_keys := ARRAY (SELECT CASE WHEN k.key = ANY (v_inserted) THEN k.key ELSE 0 END FROM unnest(v_keys) WITH ORDINALITY AS k(key, i) ORDER BY k.i);
    END IF;
    INSERT INTO ${s}.executions (run, execution, workflow, version, seed, input)
      SELECT v_keys[r.i], 1, r.workflow, r.version, r.seed, r.input
      FROM json_to_recordset(v_runs) AS r(i integer, workflow text, version text, seed text, input text) WHERE v_keys[r.i] <> 0;
  END IF;
  IF p_runs IS NOT NULL THEN
    IF p_records IS NOT NULL THEN
      INSERT INTO ${s}.records (run, ${RECORD_COLUMNS})
        SELECT v_keys[r.i], r.x, ${RECORD_VALUES} FROM json_to_recordset(p_records::json) AS r(i integer, x integer, ${RECORD}) WHERE v_keys[r.i] <> 0;
    END IF;
    IF p_states IS NOT NULL THEN
      INSERT INTO ${s}.states (run, state)
        SELECT v_keys[r.i], r.state FROM json_to_recordset(p_states::json) AS r(i integer, state text) WHERE v_keys[r.i] <> 0;
    END IF;
    IF 0 = ANY (v_keys) THEN
      SELECT json_agg(json_build_array(r.i, r.conflict, e.execution, e.status, e.workflow)) INTO v_met
        FROM json_to_recordset(v_runs) AS r(i integer, id text, conflict text) CROSS JOIN LATERAL (SELECT * FROM ${s}.runs x WHERE x.id = r.id OFFSET 0) e
        WHERE v_keys[r.i] = 0;
    END IF;
  END IF;
  IF p_others IS NOT NULL THEN
    v_results := '[]';
    -- Two batches with the same new keys, each in its own order, would wait for each other: first all keys, in one order for all. Who uses one
    -- keeps it until its transaction ends, and that may be the caller's: there it is waited for. Of ours those go on whose keys are free.
    FOR v_item IN SELECT DISTINCT jsonb_build_array(x -> 'workflow', x -> 'ikey') FROM jsonb_array_elements(p_others::jsonb) x
        WHERE x ->> 'ikey' IS NOT NULL ORDER BY 1 LOOP
      IF p_slot IS NULL THEN PERFORM pg_advisory_xact_lock(hashtextextended(${literal(s)} || v_item::text, 0));
      ELSIF NOT pg_try_advisory_xact_lock(hashtextextended(${literal(s)} || v_item::text, 0)) THEN v_busy := v_busy || v_item;
      END IF;
    END LOOP;
    FOR v_item IN SELECT * FROM jsonb_array_elements(p_others::jsonb) LOOP
      v_results := v_results || CASE WHEN jsonb_build_array(v_item -> 'workflow', v_item -> 'ikey') = ANY (v_busy) THEN 'null'::jsonb ELSE ${s}.create_run_1(v_item, v_now) END;
    END LOOP;
  END IF;
  IF p_channel IS NOT NULL THEN PERFORM pg_notify(p_channel, p_notice); END IF;
  IF v_met IS NULL AND v_results IS NULL THEN RETURN '{}'; END IF;
  RETURN ${s}.end_call_1(p_instance, p_slot, json_build_object('met', v_met, 'others', v_results)::text);
END $$;

-- D6: the outcome of a transaction step, in the same transaction as the user's writes. Null: the claim is lost.
CREATE FUNCTION ${s}.finish_transaction_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_run text, p_epoch integer, p_message text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text := ${s}.begin_call_1(p_instance, p_slot, p_token);
  v_key bigint;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  SELECT key INTO v_key FROM ${s}.runs WHERE id = p_run AND epoch = p_epoch AND worker_id IS NOT NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  RETURN ${s}.end_call_1(p_instance, p_slot, ${s}.put_1(v_key, p_message::jsonb, ${s}.clock_1(p_now))::text);
END $$;
`;
