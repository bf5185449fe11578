-- M8: updates that were not accepted in time.

-- M8: rejects updates that have waited too long to be accepted. p_updates: r run id, u update, e the error. Answers with null, "waiting" or
-- [status, value, error].
CREATE FUNCTION holdfast.reject_updates_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_updates text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_results json[] := '{}';
  v_item record;
  v_update holdfast.updates;
  v_waits boolean;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  -- The row of the run is locked, as when an update is accepted: one of the two is first.
  PERFORM holdfast.lock_runs_1(ARRAY (SELECT r FROM json_to_recordset(p_updates::json) AS x(r text)), ARRAY[]::text[]);
  FOR v_item IN SELECT * FROM json_to_recordset(p_updates::json) AS x(r text, u text, e text) LOOP
    SELECT * INTO v_update FROM holdfast.updates WHERE run = (SELECT key FROM holdfast.runs WHERE id = v_item.r) AND id = v_item.u;
    v_waits := v_update.status IS NULL AND v_update.accept_until IS NOT NULL
      AND EXISTS (SELECT 1 FROM holdfast.inbox WHERE run IN (v_update.run, -v_update.run) AND id = v_update.inbox_id);
    IF v_waits AND v_update.accept_until <= v_now THEN
      UPDATE holdfast.updates SET status = 'rejected', error = v_item.e, forget_at = CASE WHEN keyless THEN v_now + 3600000 END
        WHERE run = v_update.run AND id = v_update.id RETURNING * INTO v_update;
      DELETE FROM holdfast.inbox WHERE run IN (v_update.run, -v_update.run) AND id = v_update.inbox_id;
      v_waits := false;
    END IF;
    v_results := v_results || CASE WHEN v_waits THEN '"waiting"'::json WHEN v_update.status IS NULL THEN 'null'::json
      ELSE json_build_array(v_update.status, v_update.value, v_update.error) END;
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, to_json(v_results)::text);
END $$;
