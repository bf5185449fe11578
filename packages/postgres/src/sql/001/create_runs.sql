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
