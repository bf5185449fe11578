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
