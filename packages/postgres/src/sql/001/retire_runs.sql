-- Retention: deletes closed runs, with all that belongs to them.

-- Closed runs that ended before p_before, after the one that (p_at, p_key) names. Those whose parent is open stay: it may ask for them.
-- Answers with where it came to and how many are gone.
CREATE FUNCTION holdfast.retire_runs_1(p_before bigint, p_at bigint, p_key bigint, p_limit integer, p_archive boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_keys bigint[];
  v_seen integer;
  v_at bigint;
  v_key bigint;
BEGIN
  WITH old AS MATERIALIZED (
    SELECT r.key, r.finished_at, r.parent_id FROM holdfast.runs r
    WHERE r.finished_at IS NOT NULL AND r.finished_at < p_before AND (r.finished_at, r.key) > (p_at, p_key)
    ORDER BY r.finished_at, r.key LIMIT p_limit
  )
  SELECT count(*), (array_agg(o.finished_at ORDER BY o.finished_at DESC, o.key DESC))[1], (array_agg(o.key ORDER BY o.finished_at DESC, o.key DESC))[1],
    array_agg(o.key) FILTER (WHERE (SELECT p.finished_at IS NULL FROM holdfast.runs p WHERE p.id = o.parent_id) IS NOT TRUE)
  INTO v_seen, v_at, v_key, v_keys FROM old o;
  -- One that is just being restarted or resumed stays.
  v_keys := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_keys) AND finished_at < p_before ORDER BY key FOR UPDATE SKIP LOCKED);
  IF p_archive THEN
    INSERT INTO holdfast.archive (run_id, workflow, status, created, finished, run, history)
      SELECT r.id, r.workflow, r.status, to_timestamp(r.created_at / 1000.0), to_timestamp(r.finished_at / 1000.0), row_to_json(r),
        coalesce((SELECT json_agg(row_to_json(h)) FROM (SELECT h.execution, h.turn, h.time, h.direction, h.type, h.seq, h.unit, h.name, h.n, h.refs, h.data, h.value
          FROM holdfast.records h WHERE h.run = k.key ORDER BY h.execution, h.turn, h.position) h), '[]')
      FROM unnest(v_keys) AS k(key) JOIN LATERAL (SELECT r.key, r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.output, r.error, r.waiting_for, r.execution, r.attempt,
  r.parent_id, r.parent_execution, r.parent_seq, r.parent_close, r.parent_announce, r.attributes::text AS attributes, r.retry, r.created_at, r.started_at,
  r.available_at, r.deadline_at, r.finished_at, r.worker_id, r.epoch, CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn') END AS history_length, CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END AS turns, r.recoveries,
  e.input, e.seed, s.state, r.resumable FROM holdfast.runs r JOIN holdfast.executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN holdfast.states s ON s.run = r.key WHERE r.key = k.key) r ON true;
  END IF;
  DELETE FROM holdfast.records WHERE run = ANY (v_keys);
  DELETE FROM holdfast.inbox WHERE run = ANY (v_keys);
  DELETE FROM holdfast.attempts WHERE run = ANY (v_keys);
  DELETE FROM holdfast.tasks WHERE run = ANY (v_keys);
  DELETE FROM holdfast.start_keys WHERE run = ANY (v_keys);
  DELETE FROM holdfast.message_keys WHERE run = ANY (v_keys);
  DELETE FROM holdfast.updates WHERE run = ANY (v_keys);
  DELETE FROM holdfast.states WHERE run = ANY (v_keys);
  DELETE FROM holdfast.executions WHERE run = ANY (v_keys);
  DELETE FROM holdfast.runs WHERE key = ANY (v_keys);
  RETURN json_build_object('seen', v_seen, 'at', v_at, 'key', v_key, 'gone', cardinality(v_keys))::text;
END $$;
