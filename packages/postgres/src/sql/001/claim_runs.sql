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
