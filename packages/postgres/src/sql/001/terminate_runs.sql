-- K6: ends runs at once, without a look at their messages.

-- K6. p_runs: r run id, e the error. Runs whose end reaches no other run end together, the others after them, one by one.
CREATE FUNCTION holdfast.terminate_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_runs text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_ids text[];
  v_errors text[];
  v_alone bigint[];
  v_results jsonb[];
  v_item record;
  v_run holdfast.runs;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  SELECT array_agg(t.r ORDER BY t.i), array_agg(t.e ORDER BY t.i) INTO v_ids, v_errors
    FROM ROWS FROM (json_to_recordset(p_runs::json) AS (r text, e text)) WITH ORDINALITY AS t(r, e, i);
  PERFORM holdfast.lock_runs_1(ARRAY[]::text[], v_ids);
  v_alone := holdfast.find_alone_1(v_ids);
  PERFORM holdfast.end_alone_1(v_alone, 'terminated', v_errors, v_now);
  FOR v_item IN SELECT t.r, t.e, t.i, v_alone[t.i] IS NOT NULL AS is_done FROM unnest(v_ids, v_errors) WITH ORDINALITY AS t(r, e, i) ORDER BY t.i LOOP
    IF v_item.is_done THEN v_results[v_item.i] := '{"s":"sent","i":0}'; CONTINUE; END IF;
    SELECT * INTO v_run FROM holdfast.runs WHERE id = v_item.r;
    IF NOT FOUND THEN v_results[v_item.i] := '{"s":"not-found"}';
    ELSIF v_run.finished_at IS NOT NULL THEN v_results[v_item.i] := jsonb_build_object('s', 'closed', 'r', v_run.status);
    ELSE
      IF v_run.has_next THEN PERFORM holdfast.drop_next_1(v_run.key, v_run.id, 'terminated'); END IF;
      PERFORM holdfast.close_run_1(v_run.key, 'terminated', NULL, v_item.e, false, v_now);
      v_results[v_item.i] := '{"s":"sent","i":0}';
    END IF;
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, to_jsonb(v_results)::text);
END $$;
