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
