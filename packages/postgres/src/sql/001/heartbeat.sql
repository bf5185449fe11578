-- D11: extends the leases of activities.

-- p_beats: i number, id, token, lease, details. Only a heartbeat with details, which the activity sends, counts for its heartbeat limit.
CREATE FUNCTION holdfast.heartbeat_1(p_now bigint, p_beats text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_held json;
BEGIN
  PERFORM 1 FROM holdfast.tasks WHERE id = ANY (ARRAY (SELECT id FROM json_to_recordset(p_beats::json) AS b(id bigint))) ORDER BY id FOR UPDATE;
  WITH beaten AS (
    UPDATE holdfast.tasks t SET leased_until = v_now + b.lease, heartbeat_at = CASE WHEN b.details IS NULL THEN t.heartbeat_at ELSE v_now END,
        last_heartbeat = coalesce(b.details, t.last_heartbeat),
        due_at = least(v_now + b.lease, t.scheduled_at + t.schedule_to_close, t.started_at + t.start_to_close,
          CASE WHEN b.details IS NULL THEN t.heartbeat_at ELSE v_now END + t.heartbeat)
      FROM json_to_recordset(p_beats::json) AS b(i integer, id bigint, token integer, lease bigint, details text)
      WHERE t.id = ANY (ARRAY (SELECT id FROM json_to_recordset(p_beats::json) AS x(id bigint))) AND t.id = b.id AND t.token = b.token
        AND t.worker_id IS NOT NULL AND t.due_at > v_now
      RETURNING b.i
  )
  SELECT json_agg(i) INTO v_held FROM beaten;
  RETURN json_build_object('held', v_held, 'overdue', EXISTS (SELECT 1 FROM holdfast.tasks WHERE due_at <= v_now))::text;
END $$;
