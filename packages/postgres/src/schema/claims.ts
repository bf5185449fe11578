// In SQL: handing out runs and activities, and keeping what one has.
// Owns: which runs and tasks a worker gets, in which order, with what; leases; how attempts of activities end; what retention removes.
// Invariants: W1 W2 (only what is served; by priority, then by when it became available, then by arrival), W3 (leases), D7 (recoveries),
// D8 D11 (retries by policy, a token fences every answer), K7 (nothing of a run past its deadline begins). A claim never waits for a row that somebody else has locked.

import { BY_INDEX } from "./messages.ts";
import { lengthOfAny, turnsOfAny } from "./tail.ts";

/** A run as it is looked at, in the order that `runRow` reads. */
const columns = (
  historyLength: string,
  turns: string,
): string => `r.key, r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.output, r.error, r.waiting_for, r.execution, r.attempt,
  r.parent_id, r.parent_execution, r.parent_seq, r.parent_close, r.parent_announce, r.attributes::text AS attributes, r.retry, r.created_at, r.started_at,
  r.available_at, r.deadline_at, r.finished_at, r.worker_id, r.epoch, ${historyLength} AS history_length, ${turns} AS turns, r.recoveries,
  e.input, e.seed, s.state, r.resumable`;
export const runColumns = (s: string): string => columns(lengthOfAny(s), turnsOfAny(s));
const RUN_TYPES = `key bigint, id text, workflow text, version text, status text, queue text, priority integer, output text, error text, waiting_for text,
  execution integer, attempt integer, parent_id text, parent_execution integer, parent_seq integer, parent_close text, parent_announce boolean,
  attributes text, retry text, created_at bigint, started_at bigint, available_at bigint, deadline_at bigint, finished_at bigint, worker_id text,
  epoch integer, history_length integer, turns integer, recoveries integer, input text, seed text, state text, resumable boolean`;
export const runTables = (s: string): string =>
  `${s}.runs r JOIN ${s}.executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN ${s}.states s ON s.run = r.key`;

/** K7: whose deadline has passed, those excepted that are claimed for their rollbacks. `expire` ends them within a second. */
const notLate = (run: string): string =>
  `(${run}.deadline_at IS NULL OR ${run}.deadline_at > v_now OR ${run}.expired OR ${run}.status = 'rolling_back')`;
const claimable = "CASE WHEN p_after IS NULL THEN r.available_at <= v_now ELSE r.status = 'blocked' END";
const ofLateRun = (s: string, task: string): string =>
  `EXISTS (SELECT 1 FROM ${s}.runs x WHERE x.key = ${task}.run AND x.deadline_at <= v_now)`;

/** History as JSON, in the order that `turnsOf` reads. */
export const historyOf = (s: string, run: string, execution: string): string => `(SELECT json_agg(json_build_array(h.turn, h.time,
  h.history_length, h.worker, h.state, h.direction, h.type, h.seq, h.unit, h.name, h.n, h.refs, h.data, h.value) ORDER BY h.turn, h.position)
  FROM ${s}.records h WHERE h.run = ${run} AND h.execution = ${execution})`;
export const attemptsOf = (
  s: string,
  run: string,
  execution: string,
  condition: string,
): string => `(SELECT json_agg(json_build_array(a.seq, a.number,
  a.task, a.status, a.worker_id, a.started_at, a.ended_at, a.retry_at, a.error) ORDER BY a.seq, a.number)
  FROM ${s}.attempts a WHERE a.run = ${run} AND a.execution = ${execution} AND ${condition})`;

export const claims = (s: string): string => `
-- Numbers of lanes and workers. p_lanes: queue, workflow, version, priority. Made in order, so that two calls can't wait for each other.
CREATE FUNCTION ${s}.register_1(p_lanes text, p_workers text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_lanes json;
  v_workers json;
BEGIN
  INSERT INTO ${s}.lanes (queue, workflow, version, priority)
    SELECT n.* FROM (SELECT DISTINCT * FROM json_to_recordset(p_lanes::json) AS l(queue text, workflow text, version text, priority integer)) n
    WHERE NOT EXISTS (SELECT 1 FROM ${s}.lanes o WHERE o.queue = n.queue AND o.workflow = n.workflow AND o.version IS NOT DISTINCT FROM n.version
      AND o.priority = n.priority)
    ORDER BY queue, workflow, version, priority ON CONFLICT DO NOTHING;
  INSERT INTO ${s}.workers (id)
    SELECT n.id FROM (SELECT DISTINCT id FROM json_array_elements_text(p_workers::json) AS w(id)) n
    WHERE NOT EXISTS (SELECT 1 FROM ${s}.workers o WHERE o.id = n.id) ORDER BY id ON CONFLICT DO NOTHING;
  SELECT json_agg(o.lane ORDER BY n.ord) INTO v_lanes
    FROM ROWS FROM (json_to_recordset(p_lanes::json) AS (queue text, workflow text, version text, priority integer)) WITH ORDINALITY
      AS n(queue, workflow, version, priority, ord)
    JOIN ${s}.lanes o ON o.queue = n.queue AND o.workflow = n.workflow AND o.version IS NOT DISTINCT FROM n.version AND o.priority = n.priority;
  SELECT json_agg(o.key ORDER BY n.ord) INTO v_workers
    FROM json_array_elements_text(p_workers::json) WITH ORDINALITY AS n(id, ord) JOIN ${s}.workers o ON o.id = n.id;
  RETURN json_build_object('lanes', v_lanes, 'workers', v_workers)::text;
END $$;

-- p_serves: w workflow, v version, a all versions. p_after: blocked runs instead (V4), after this one. At least one row comes back; with key null it only tells the time and what is next.
CREATE FUNCTION ${s}.claim_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_worker text, p_queue text, p_serves text,
  p_limit integer, p_lease bigint, p_after bigint, p_again boolean)
RETURNS TABLE (now bigint, next_at bigint, recovered boolean, recovered_from text, records json, attempts json, inbox json, last_time bigint, ${RUN_TYPES}) LANGUAGE plpgsql ${BY_INDEX} AS $$
#variable_conflict use_column
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
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
  SELECT array_agg(l.lane), array_agg(l.priority) INTO v_lanes, v_priorities FROM ${s}.lanes l
    WHERE l.queue = p_queue AND EXISTS (SELECT 1 FROM json_to_recordset(p_serves::json) AS x(w text, v text, a boolean)
      WHERE x.w = l.workflow AND (x.a OR x.v IS NOT DISTINCT FROM l.version));
  IF p_again THEN v_answer := coalesce(${s}.begin_call_1(p_instance, p_slot, p_token), 'begun'); END IF;
  WHILE coalesce(v_answer, 'begun') = 'begun' LOOP
    v_new := CASE WHEN p_after IS NOT NULL THEN ARRAY (
      SELECT r.key FROM ${s}.runs r WHERE r.blocked_code IS NOT NULL AND r.status = 'blocked' AND r.lane = ANY (v_lanes) AND r.key > p_after
        AND r.key <> ALL (v_tried) AND ${notLate("r")} ORDER BY r.key LIMIT p_limit - cardinality(v_keys))
    ELSE ARRAY (
      SELECT c.key FROM unnest(v_lanes, v_priorities) AS l(lane, priority) CROSS JOIN LATERAL (
        SELECT r.key, r.available_at FROM ${s}.runs r WHERE r.lane = l.lane AND r.available_at <= v_now AND r.key <> ALL (v_tried) AND ${notLate("r")}
        ORDER BY r.available_at, r.key LIMIT p_limit - cardinality(v_keys)
      ) c ORDER BY l.priority DESC, c.available_at, c.key LIMIT p_limit - cardinality(v_keys)) END;
    EXIT WHEN cardinality(v_new) = 0;
    IF v_answer IS NULL THEN v_answer := coalesce(${s}.begin_call_1(p_instance, p_slot, p_token), 'begun'); END IF;
    EXIT WHEN v_answer <> 'begun';
    -- Whoever has one of them locked claims it, or has something to say about it: passed over.
    v_locked := ARRAY (SELECT r.key FROM ${s}.runs r WHERE r.key = ANY (v_new) AND ${claimable} AND r.lane = ANY (v_lanes)
      FOR NO KEY UPDATE SKIP LOCKED);
    v_keys := v_keys || ARRAY (SELECT u.key FROM unnest(v_new) WITH ORDINALITY AS u(key, ord) WHERE u.key = ANY (v_locked) ORDER BY u.ord);
    v_tried := v_tried || v_new;
    EXIT WHEN cardinality(v_keys) >= p_limit;
  END LOOP;
  IF cardinality(v_keys) = 0 AND cardinality(v_tried) > 0 THEN
    -- All that is due is in somebody's hands for a moment: worth a moment, but no wait for a lock. A row that had changed when it was
    -- locked stays locked though it was not returned, so that we may hold what the others wait for.
    PERFORM pg_sleep(0.002);
    v_keys := ARRAY (SELECT r.key FROM ${s}.runs r WHERE r.key = v_tried[1] AND ${claimable} AND r.lane = ANY (v_lanes)
      FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  IF v_answer IS NOT NULL AND v_answer <> 'begun' THEN
    -- The call was carried out before: what it claimed, as far as it is still held.
    v_keys := ARRAY (SELECT r.key FROM json_array_elements_text(coalesce(nullif(v_answer, '{}'), '[]')::json) WITH ORDINALITY AS u(key, ord)
      JOIN ${s}.runs r ON r.key = u.key::bigint AND r.worker_id = p_worker ORDER BY u.ord);
    v_recovered := ARRAY (SELECT r.key FROM ${s}.runs r WHERE r.key = ANY (v_keys) AND r.recovered);
  ELSE
    SELECT min(h.available_at) INTO v_next FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (
      SELECT r.available_at FROM ${s}.runs r WHERE r.lane = l.lane AND r.available_at IS NOT NULL AND r.key <> ALL (v_keys) AND ${notLate("r")}
      ORDER BY r.available_at, r.key LIMIT 1) h;
    IF cardinality(v_keys) > 0 THEN
      WITH claimed AS (
        UPDATE ${s}.runs r SET epoch = r.epoch + 1, status = CASE r.status WHEN 'rolling_back' THEN r.status ELSE 'running' END,
            recovered = r.worker_id IS NOT NULL, recoveries = r.recoveries + (r.worker_id IS NOT NULL)::integer, worker_id = p_worker,
            parked_by = coalesce(r.worker_id, r.parked_by),
            lease = p_lease, available_at = v_now + p_lease, started_at = coalesce(r.started_at, v_now), turns = ${turnsOfAny(s)}, history_length = ${lengthOfAny(s)}
          WHERE r.key = ANY (v_keys) RETURNING r.key, r.recovered
      )
      SELECT array_agg(c.key) INTO v_recovered FROM claimed c WHERE c.recovered;
      IF v_recovered IS NOT NULL THEN
        UPDATE ${s}.attempts a SET status = 'lost', ended_at = v_now
          WHERE a.run = ANY (v_recovered) AND a.execution = (SELECT r.execution FROM ${s}.runs r WHERE r.key = a.run)
            AND a.status = 'running' AND NOT a.task;
      END IF;
      PERFORM ${s}.end_call_1(p_instance, p_slot, to_json(v_keys)::text);
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
    CASE WHEN r.turns > 0 AND r.parked_by IS DISTINCT FROM p_worker THEN ${historyOf(s, "r.key", "r.execution")} END,
    CASE WHEN r.turns > 0 THEN ${attemptsOf(s, "r.key", "r.execution", "NOT a.task")} END,
    CASE WHEN r.last_message > 0 THEN (SELECT json_agg(json_build_array(b.id, b.type, b.seq, b.name, b.refs, b.data, b.value) ORDER BY b.id)
      FROM ${s}.inbox b WHERE b.run = r.key) END,
    -- P7: the next execution is not before the last turn of those before it.
    CASE WHEN r.turns = 0 AND r.execution > 1 THEN (SELECT h.time FROM ${s}.records h WHERE h.run = r.key AND h.execution < r.execution
      AND h.time IS NOT NULL ORDER BY h.execution DESC, h.turn DESC LIMIT 1) END,
    ${columns("r.history_length", "r.turns")}
  FROM ${s}.runs r CROSS JOIN LATERAL (SELECT x.input, x.seed FROM ${s}.executions x WHERE x.run = r.key AND x.execution = r.execution OFFSET 0) e
    LEFT JOIN LATERAL (SELECT x.state FROM ${s}.states x WHERE x.run = r.key OFFSET 0) s ON true
  WHERE r.key = ANY (v_keys) ORDER BY array_position(v_keys, r.key);
END $$;

-- p_claims: i number, id run, e epoch, seen. Answers with the numbers of those that are lost, and what has come for the others; and of those
-- whose lease was not renewed since somebody has their row locked, with p_wait for longer than a moment: they are held all the same. A lease
-- whose end is off by less than a tenth of its length is left as it is: workers ask at every hint that messages may be there. Too late an
-- end counts as well: the clock was set back, and a worker that died would keep the run for as long.
CREATE FUNCTION ${s}.renew_leases_1(p_now bigint, p_worker text, p_lease bigint, p_claims text, p_wait boolean) RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
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
    CROSS JOIN LATERAL (SELECT * FROM ${s}.runs x WHERE x.id = c.id AND x.epoch = c.e AND x.worker_id = p_worker OFFSET 0) r;
  IF v_due IS NOT NULL THEN
    -- Never for as long as somebody likes: all leases of the worker would end meanwhile.
    IF p_wait THEN v_free := ${s}.lock_soon_1(v_due);
    ELSE v_free := ARRAY (SELECT key FROM ${s}.runs WHERE key = ANY (v_due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    -- Again, now that nobody can take them away.
    SELECT array_agg(c.i), array_agg(r.key), json_agg(c.i) FILTER (WHERE r.key = ANY (v_due) AND r.key <> ALL (v_free)) INTO v_held, v_still, v_busy
      FROM json_to_recordset(p_claims::json) AS c(i integer, id text, e integer)
      CROSS JOIN LATERAL (SELECT x.key FROM ${s}.runs x WHERE x.id = c.id AND x.epoch = c.e AND x.worker_id = p_worker OFFSET 0) r;
    UPDATE ${s}.runs SET available_at = v_now + p_lease WHERE key = ANY (v_free) AND key = ANY (v_still);
  END IF;
  IF v_news THEN
    SELECT json_agg(json_build_array(c.i, b.id, b.type, b.seq, b.name, b.refs, b.data, b.value) ORDER BY b.id) INTO v_inbox
      FROM json_to_recordset(p_claims::json) AS c(i integer, id text, e integer, seen bigint)
      CROSS JOIN LATERAL (SELECT * FROM ${s}.runs x WHERE x.id = c.id AND x.epoch = c.e AND x.worker_id = p_worker OFFSET 0) r
      CROSS JOIN LATERAL (SELECT * FROM ${s}.inbox x WHERE x.run = r.key AND x.id > c.seen OFFSET 0) b;
  END IF;
  RETURN json_build_object('inbox', v_inbox, 'busy', v_busy,
    'lost', (SELECT json_agg(c.i) FROM json_to_recordset(p_claims::json) AS c(i integer) WHERE v_held IS NULL OR c.i <> ALL (v_held)))::text;
END $$;

-- ── activities ──

CREATE FUNCTION ${s}.claim_tasks_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_worker text, p_queue text, p_activities text,
  p_limit integer, p_lease bigint, p_again boolean)
RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
  v_activities text[] := ARRAY (SELECT * FROM json_array_elements_text(p_activities::json));
  v_overdue boolean := EXISTS (SELECT 1 FROM ${s}.tasks WHERE due_at <= v_now);
  v_found bigint[];
  v_ids bigint[] := '{}';
  v_next bigint;
  v_answer text;
BEGIN
  IF p_again THEN v_answer := ${s}.begin_call_1(p_instance, p_slot, p_token); END IF;
  v_found := ARRAY (
    SELECT c.id FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
      SELECT t.id, t.available_at FROM ${s}.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at <= v_now AND NOT ${ofLateRun(s, "t")}
      ORDER BY t.available_at, t.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) c ORDER BY c.available_at, c.id LIMIT p_limit);
  IF cardinality(v_found) > 0 AND NOT p_again THEN v_answer := ${s}.begin_call_1(p_instance, p_slot, p_token); END IF;
  IF v_answer IS NULL THEN v_ids := v_found;
  ELSE v_ids := ARRAY (SELECT t.id FROM json_array_elements_text(coalesce(nullif(v_answer, '{}'), '[]')::json) AS u(id) JOIN ${s}.tasks t ON t.id = u.id::bigint AND t.worker_id = p_worker);
  END IF;
  SELECT min(h.available_at) INTO v_next FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
    SELECT t.available_at FROM ${s}.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at IS NOT NULL AND t.id <> ALL (v_ids) AND NOT ${ofLateRun(s, "t")}
    ORDER BY t.available_at, t.id LIMIT 1) h;
  IF cardinality(v_ids) > 0 AND v_answer IS NULL THEN
    UPDATE ${s}.tasks t SET attempt = t.attempt + 1, token = t.token + 1, worker_id = p_worker, started_at = v_now, heartbeat_at = v_now,
        leased_until = v_now + least(p_lease, t.start_to_close), lease = least(p_lease, t.start_to_close), available_at = NULL,
        due_at = least(v_now + least(p_lease, t.start_to_close), t.scheduled_at + t.schedule_to_close, v_now + t.start_to_close, v_now + t.heartbeat)
      WHERE t.id = ANY (v_ids);
    INSERT INTO ${s}.attempts (run, execution, seq, number, task, status, worker_id, started_at)
      SELECT run, execution, seq, attempt, true, 'running', worker_id, started_at FROM ${s}.tasks WHERE id = ANY (v_ids)
      ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id, started_at = excluded.started_at,
        ended_at = NULL, retry_at = NULL, error = NULL;
    PERFORM ${s}.end_call_1(p_instance, p_slot, to_json(v_ids)::text);
  END IF;
  RETURN json_build_object('now', v_now, 'next', v_next, 'overdue', v_overdue, 'tasks', (
    SELECT json_agg(json_build_object('id', t.id, 'runId', r.id, 'execution', t.execution, 'seq', t.seq, 'activity', t.activity, 'queue', t.queue,
      'location', t.location, 'input', t.input, 'retry', t.retry, 'startToClose', t.start_to_close, 'scheduleToClose', t.schedule_to_close,
      'scheduleToStart', t.schedule_to_start, 'heartbeat', t.heartbeat, 'attempt', t.attempt, 'token', t.token, 'lastHeartbeat', t.last_heartbeat)
      ORDER BY array_position(v_ids, t.id))
    FROM ${s}.tasks t JOIN ${s}.runs r ON r.key = t.run WHERE t.id = ANY (v_ids)))::text;
END $$;

-- p_beats: i number, id, token, lease, details. Only a heartbeat of the activity's own, with details, is one for its heartbeat limit.
CREATE FUNCTION ${s}.heartbeat_1(p_now bigint, p_beats text) RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
  v_held json;
BEGIN
  PERFORM 1 FROM ${s}.tasks WHERE id = ANY (ARRAY (SELECT id FROM json_to_recordset(p_beats::json) AS b(id bigint))) ORDER BY id FOR UPDATE;
  WITH beaten AS (
    UPDATE ${s}.tasks t SET leased_until = v_now + b.lease, heartbeat_at = CASE WHEN b.details IS NULL THEN t.heartbeat_at ELSE v_now END,
        last_heartbeat = coalesce(b.details, t.last_heartbeat),
        due_at = least(v_now + b.lease, t.scheduled_at + t.schedule_to_close, t.started_at + t.start_to_close,
          CASE WHEN b.details IS NULL THEN t.heartbeat_at ELSE v_now END + t.heartbeat)
      FROM json_to_recordset(p_beats::json) AS b(i integer, id bigint, token integer, lease bigint, details text)
      WHERE t.id = ANY (ARRAY (SELECT id FROM json_to_recordset(p_beats::json) AS x(id bigint))) AND t.id = b.id AND t.token = b.token
        AND t.worker_id IS NOT NULL AND t.due_at > v_now
      RETURNING b.i
  )
  SELECT json_agg(i) INTO v_held FROM beaten;
  RETURN json_build_object('held', v_held, 'overdue', EXISTS (SELECT 1 FROM ${s}.tasks WHERE due_at <= v_now))::text;
END $$;

-- How attempts end: by an answer, or (l) because the store has found that their time is up. p_answers: i number, id, token, s status of the
-- attempt, v value, e error, r retryable, n random share of the wait, w the wait if it is given, o over: no attempt follows.
-- Answers with the numbers of those that counted, and of those whose run somebody has locked, with p_wait for longer than a moment: nothing
-- was done about them. And with the runs whose next attempt would come after their deadline (K7).
CREATE FUNCTION ${s}.settle_tasks_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_answers text, p_wait boolean) RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint;
  v_answer text := ${s}.begin_call_1(p_instance, p_slot, p_token);
  v_taken integer[] := '{}';
  v_busy integer[];
  v_tasks bigint[] := ARRAY (SELECT id FROM json_to_recordset(p_answers::json) AS x(id bigint));
  v_runs bigint[];
  a record;
  v_task ${s}.tasks;
  v_delay bigint;
  v_again boolean;
  v_run text;
  v_deadline bigint;
  v_late json[];
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  v_runs := ARRAY (SELECT t.run FROM ${s}.tasks t WHERE t.id = ANY (v_tasks));
  IF p_wait THEN v_runs := ${s}.lock_soon_1(v_runs);
  ELSE v_runs := ARRAY (SELECT key FROM ${s}.runs WHERE key = ANY (v_runs) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  PERFORM 1 FROM ${s}.tasks WHERE id = ANY (v_tasks) AND run = ANY (v_runs) ORDER BY id FOR UPDATE;
  v_now := ${s}.clock_1(p_now);
  FOR a IN SELECT * FROM json_to_recordset(p_answers::json) AS x(i integer, id bigint, token integer, s text, v text, e text, r boolean, n double precision,
      w bigint, o boolean, l boolean) LOOP
    SELECT * INTO v_task FROM ${s}.tasks WHERE id = a.id AND token = a.token;
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
      INSERT INTO ${s}.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
        VALUES (v_task.run, v_task.execution, v_task.seq, v_task.attempt, true, a.s, v_task.worker_id, v_task.started_at, v_now,
          CASE WHEN v_again THEN v_now + v_delay END, a.e)
        ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, ended_at = excluded.ended_at, retry_at = excluded.retry_at,
          error = excluded.error;
    END IF;
    IF v_again THEN
      SELECT id, deadline_at INTO v_run, v_deadline FROM ${s}.runs WHERE key = v_task.run;
      IF v_deadline <= v_now + v_delay THEN v_late := v_late || json_build_array(v_run, v_deadline); END IF;
      UPDATE ${s}.tasks SET worker_id = NULL, token = token + 1, available_at = v_now + v_delay, due_at = scheduled_at + schedule_to_close WHERE id = a.id;
    ELSE
      DELETE FROM ${s}.tasks WHERE id = a.id;
      SELECT id INTO v_run FROM ${s}.runs WHERE key = v_task.run;
      PERFORM ${s}.answer_1(v_run, v_task.execution, jsonb_build_object('y', 'resolve', 'q', v_task.seq) || CASE a.s
        WHEN 'completed' THEN jsonb_build_object('v', a.v)
        ELSE jsonb_build_object('d', '{"status":"failed","error":' || a.e || ',"attempts":' || v_task.attempt || '}') END, v_now);
    END IF;
  END LOOP;
  RETURN ${s}.end_call_1(p_instance, p_slot, json_build_object('taken', to_json(v_taken), 'busy', to_json(v_busy), 'late', to_json(v_late),
    'overdue', EXISTS (SELECT 1 FROM ${s}.tasks WHERE due_at <= v_now))::text);
END $$;

-- What the store has to look at: runs past their deadline, tasks whose time is up, mail. One look, which writes nothing.
CREATE FUNCTION ${s}.overdue_1(p_now bigint, p_limit integer, p_first boolean) RETURNS text LANGUAGE plpgsql STABLE ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
BEGIN
  RETURN json_build_object('now', v_now,
    'runs', (SELECT json_agg(json_build_array(l.id, l.deadline_at)) FROM (SELECT id, deadline_at FROM ${s}.runs
      WHERE deadline_at <= v_now AND deadline_at IS NOT NULL AND finished_at IS NULL AND NOT expired ORDER BY deadline_at LIMIT p_limit) l),
    'tasks', (SELECT json_agg(row_to_json(t)) FROM (SELECT id, token, attempt, activity, retry, worker_id, scheduled_at, started_at, heartbeat_at,
      schedule_to_close, schedule_to_start, start_to_close, heartbeat FROM ${s}.tasks WHERE due_at <= v_now ORDER BY due_at LIMIT p_limit) t),
    'mail', EXISTS (SELECT 1 FROM ${s}.mail WHERE error IS NULL),
    -- Another process has been told a later time than this.
    'back', p_first AND EXISTS (SELECT 1 FROM ${s}.calls WHERE at > clock_timestamp() + interval '1 second'))::text;
END $$;

-- W3. The clock was set back: no lease that is given now ends as late as these. Whoever lives renews them in time; those of the dead would
-- last until the old time has come round again. A run that somebody has locked is looked at again with the next call.
CREATE FUNCTION ${s}.cut_leases_1(p_now bigint) RETURNS void LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
BEGIN
  UPDATE ${s}.runs SET available_at = v_now + lease WHERE key = ANY (ARRAY (SELECT key FROM ${s}.runs
    WHERE ended_as IS NULL AND worker_id IS NOT NULL AND available_at > v_now + lease * 1.1 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED));
  -- W1: what was due by the old time is due. All of it was written after now.
  UPDATE ${s}.runs SET available_at = v_now WHERE key = ANY (ARRAY (SELECT key FROM ${s}.runs r
    WHERE ended_as IS NULL AND worker_id IS NULL AND available_at > v_now AND CASE status WHEN 'pending' THEN available_at <= created_at WHEN 'blocked' THEN false
      ELSE EXISTS (SELECT 1 FROM ${s}.inbox i WHERE i.run = r.key AND i.received_at > v_now) END ORDER BY id FOR NO KEY UPDATE SKIP LOCKED));
  UPDATE ${s}.tasks SET available_at = v_now WHERE id = ANY (ARRAY (SELECT id FROM ${s}.tasks
    WHERE worker_id IS NULL AND available_at > v_now AND available_at <= scheduled_at ORDER BY id FOR UPDATE SKIP LOCKED));
  UPDATE ${s}.tasks SET leased_until = v_now + lease, due_at = least(due_at, v_now + lease) WHERE id = ANY (ARRAY (SELECT id FROM ${s}.tasks
    WHERE worker_id IS NOT NULL AND leased_until > v_now + lease * 1.1 ORDER BY id FOR UPDATE SKIP LOCKED));
END $$;

-- ── notices, retention ──

-- Tells others, in a transaction that waits for no disk: the lock that notifications are queued under is held for microseconds.
CREATE FUNCTION ${s}.notify_1(p_channel text, p_notice text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM pg_notify(p_channel, p_notice);
END $$;

-- This process listens, if it has a name here. Returns how many others do; who has not been heard of for a minute does not.
CREATE FUNCTION ${s}.attend_1(p_instance text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  IF p_instance IS NOT NULL THEN
    INSERT INTO ${s}.instances (id, seen_at) VALUES (p_instance, clock_timestamp()) ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at;
  END IF;
  DELETE FROM ${s}.instances WHERE id IN (SELECT id FROM ${s}.instances WHERE seen_at < clock_timestamp() - interval '1 minute' FOR UPDATE SKIP LOCKED);
  DELETE FROM ${s}.calls WHERE (instance, slot) IN (SELECT instance, slot FROM ${s}.calls WHERE at < clock_timestamp() - interval '1 hour' FOR UPDATE SKIP LOCKED);
  RETURN (SELECT count(*) FROM ${s}.instances WHERE id <> p_instance);
END $$;

-- What it has called is remembered for a while: a call that was passed by may still be on its way.
CREATE FUNCTION ${s}.leave_1(p_instance text) RETURNS void LANGUAGE sql AS $$
  DELETE FROM ${s}.instances WHERE id = p_instance
$$;

-- Closed runs that ended before p_before, after the one that (p_at, p_key) names. Those whose parent is open stay: it may ask for them.
-- Answers with where it came to and how many are gone.
CREATE FUNCTION ${s}.retire_runs_1(p_before bigint, p_at bigint, p_key bigint, p_limit integer, p_archive boolean) RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_keys bigint[];
  v_seen integer;
  v_at bigint;
  v_key bigint;
BEGIN
  WITH old AS MATERIALIZED (
    SELECT r.key, r.finished_at, r.parent_id FROM ${s}.runs r
    WHERE r.finished_at IS NOT NULL AND r.finished_at < p_before AND (r.finished_at, r.key) > (p_at, p_key)
    ORDER BY r.finished_at, r.key LIMIT p_limit
  )
  SELECT count(*), (array_agg(o.finished_at ORDER BY o.finished_at DESC, o.key DESC))[1], (array_agg(o.key ORDER BY o.finished_at DESC, o.key DESC))[1],
    array_agg(o.key) FILTER (WHERE (SELECT p.finished_at IS NULL FROM ${s}.runs p WHERE p.id = o.parent_id) IS NOT TRUE)
  INTO v_seen, v_at, v_key, v_keys FROM old o;
  -- One that is just being restarted or resumed stays.
  v_keys := ARRAY (SELECT key FROM ${s}.runs WHERE key = ANY (v_keys) AND finished_at < p_before ORDER BY key FOR UPDATE SKIP LOCKED);
  IF p_archive THEN
    INSERT INTO ${s}.archive (run_id, workflow, status, created, finished, run, history)
      SELECT r.id, r.workflow, r.status, to_timestamp(r.created_at / 1000.0), to_timestamp(r.finished_at / 1000.0), row_to_json(r),
        coalesce((SELECT json_agg(row_to_json(h)) FROM (SELECT h.execution, h.turn, h.time, h.direction, h.type, h.seq, h.unit, h.name, h.n, h.refs, h.data, h.value
          FROM ${s}.records h WHERE h.run = k.key ORDER BY h.execution, h.turn, h.position) h), '[]')
      FROM unnest(v_keys) AS k(key) JOIN LATERAL (SELECT ${runColumns(s)} FROM ${runTables(s)} WHERE r.key = k.key) r ON true;
  END IF;
  DELETE FROM ${s}.records WHERE run = ANY (v_keys);
  DELETE FROM ${s}.inbox WHERE run = ANY (v_keys);
  DELETE FROM ${s}.attempts WHERE run = ANY (v_keys);
  DELETE FROM ${s}.tasks WHERE run = ANY (v_keys);
  DELETE FROM ${s}.start_keys WHERE run = ANY (v_keys);
  DELETE FROM ${s}.message_keys WHERE run = ANY (v_keys);
  DELETE FROM ${s}.updates WHERE run = ANY (v_keys);
  DELETE FROM ${s}.states WHERE run = ANY (v_keys);
  DELETE FROM ${s}.executions WHERE run = ANY (v_keys);
  DELETE FROM ${s}.runs WHERE key = ANY (v_keys);
  RETURN json_build_object('seen', v_seen, 'at', v_at, 'key', v_key, 'gone', cardinality(v_keys))::text;
END $$;
`;
