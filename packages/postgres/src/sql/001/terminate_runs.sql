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
