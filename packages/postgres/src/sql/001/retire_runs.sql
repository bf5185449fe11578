-- B4: removes closed runs, with all that belongs to them: when their retention is over, or at once.

-- Removes these runs, which are locked; with p_archive each leaves one row. Runs that are left without a parent have none from then on: its id
-- may be that of another run soon. One that has a child which another transaction has locked stays. Answers with those that are gone.
CREATE FUNCTION holdfast.remove_runs_1(p_keys bigint[], p_archive boolean) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_children bigint[];
BEGIN
  v_children := ARRAY (SELECT c.key FROM holdfast.runs c WHERE c.parent_id = ANY (ARRAY (SELECT r.id FROM holdfast.runs r WHERE r.key = ANY (p_keys))) ORDER BY c.key FOR NO KEY UPDATE SKIP LOCKED);
  p_keys := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (p_keys)
    AND NOT EXISTS (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = r.id AND c.key <> ALL (v_children)));
  IF cardinality(v_children) > 0 THEN
    -- What is left of the link, parent_close, says that it had a parent.
    UPDATE holdfast.runs SET parent_id = NULL, parent_execution = NULL, parent_seq = NULL, parent_announce = NULL
      WHERE key = ANY (v_children) AND parent_id = ANY (ARRAY (SELECT r.id FROM holdfast.runs r WHERE r.key = ANY (p_keys)));
  END IF;
  IF p_archive THEN
    INSERT INTO holdfast.archive (run_id, workflow, status, created, finished, run, history)
      SELECT r.id, r.workflow, r.status, to_timestamp(r.created_at / 1000.0), to_timestamp(r.finished_at / 1000.0), row_to_json(r),
        coalesce((SELECT json_agg(row_to_json(h)) FROM (SELECT h.execution, h.turn, h.time, h.direction, h.type, h.seq, h.unit, h.name, h.n, h.refs, h.data, h.value
          FROM holdfast.records h WHERE h.run = k.key ORDER BY h.execution, h.turn, h.position) h), '[]')
      FROM unnest(p_keys) AS k(key) JOIN LATERAL (SELECT r.key, r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.output, r.error, r.waiting_for, r.execution, r.attempt,
  r.parent_id, r.parent_execution, r.parent_seq, r.parent_close, r.parent_announce, r.attributes::text AS attributes, r.retry, r.created_at, r.started_at,
  r.available_at, r.deadline_at, r.finished_at, r.worker_id, r.epoch, CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn') END AS history_length, CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END AS turns, r.recoveries,
  e.input, e.seed, s.state, r.resumable, CASE WHEN r.work_key IS NOT NULL OR r.schedule IS NOT NULL OR r.forked_from IS NOT NULL OR r.after_id IS NOT NULL OR r.retention IS NOT NULL THEN
    json_build_object('key', r.work_key, 'schedule', r.schedule, 'tick', r.tick, 'from', r.forked_from, 'after', r.after_id, 'retention', r.retention)::text END AS origin FROM holdfast.runs r JOIN holdfast.executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN holdfast.states s ON s.run = r.key WHERE r.key = k.key) r ON true;
  END IF;
  DELETE FROM holdfast.records WHERE run = ANY (p_keys);
  DELETE FROM holdfast.inbox WHERE run = ANY (p_keys);
  DELETE FROM holdfast.attempts WHERE run = ANY (p_keys);
  DELETE FROM holdfast.tasks WHERE run = ANY (p_keys);
  DELETE FROM holdfast.start_keys WHERE run = ANY (p_keys);
  DELETE FROM holdfast.message_keys WHERE run = ANY (p_keys);
  DELETE FROM holdfast.updates WHERE run = ANY (p_keys);
  DELETE FROM holdfast.states WHERE run = ANY (p_keys);
  DELETE FROM holdfast.executions WHERE run = ANY (p_keys);
  DELETE FROM holdfast.runs WHERE key = ANY (p_keys);
  RETURN p_keys;
END $$;

-- Closed runs whose time was over before now, after the one that (p_at, p_key) names. Those stay that an execution which is open has started:
-- it may ask for them. Answers with the last run that it looked at and how many are gone.
CREATE FUNCTION holdfast.retire_runs_1(p_now bigint, p_at bigint, p_key bigint, p_limit integer, p_archive boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_keys bigint[];
  v_seen integer;
  v_at bigint;
  v_key bigint;
BEGIN
  WITH old AS MATERIALIZED (
    SELECT r.key, r.remove_at, r.parent_id, r.parent_execution FROM holdfast.runs r
    WHERE r.remove_at IS NOT NULL AND r.remove_at < v_now AND (r.remove_at, r.key) > (p_at, p_key)
    ORDER BY r.remove_at, r.key LIMIT p_limit
  )
  SELECT count(*), (array_agg(o.remove_at ORDER BY o.remove_at DESC, o.key DESC))[1], (array_agg(o.key ORDER BY o.remove_at DESC, o.key DESC))[1],
    array_agg(o.key) FILTER (WHERE (SELECT p.finished_at IS NULL AND p.execution = o.parent_execution FROM holdfast.runs p WHERE p.id = o.parent_id) IS NOT TRUE)
  INTO v_seen, v_at, v_key, v_keys FROM old o;
  -- One that is just being restarted or resumed stays.
  v_keys := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_keys) AND remove_at < v_now ORDER BY key FOR UPDATE SKIP LOCKED);
  RETURN json_build_object('seen', v_seen, 'at', v_at, 'key', v_key, 'gone', cardinality(holdfast.remove_runs_1(v_keys, p_archive)))::text;
END $$;

-- These runs, now, if they are closed. Null: a child of this one is locked.
CREATE FUNCTION holdfast.delete_runs_1(p_instance text, p_slot integer, p_token bigint, p_ids text) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_ids text[] := ARRAY (SELECT * FROM json_array_elements_text(p_ids::json));
  v_keys bigint[];
  v_open boolean[];
  v_gone bigint[];
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  PERFORM holdfast.lock_runs_1(v_ids, ARRAY[]::text[]);
  SELECT array_agg(r.key ORDER BY t.i), array_agg(r.finished_at IS NULL ORDER BY t.i) INTO v_keys, v_open
    FROM unnest(v_ids) WITH ORDINALITY AS t(id, i)
    LEFT JOIN LATERAL (SELECT x.key, x.finished_at FROM holdfast.runs x WHERE x.id = t.id OFFSET 0) r ON true;
  v_gone := holdfast.remove_runs_1(ARRAY (SELECT DISTINCT u.key FROM unnest(v_keys, v_open) AS u(key, is_open) WHERE u.key IS NOT NULL AND NOT u.is_open), false);
  -- The second time that an id comes, its run is not there any more.
  RETURN holdfast.end_call_1(p_instance, p_slot, (SELECT json_agg(CASE WHEN u.key IS NULL THEN 'not-found' WHEN u.is_open THEN 'open'
      WHEN u.key <> ALL (v_gone) THEN NULL WHEN array_position(v_keys, u.key) = u.i THEN 'deleted' ELSE 'not-found' END ORDER BY u.i)
    FROM unnest(v_keys, v_open) WITH ORDINALITY AS u(key, is_open, i))::text);
END $$;
