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
