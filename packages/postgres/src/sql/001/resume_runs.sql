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
