-- D11: hands out activities.

-- p_known: the tasks that the worker knows of, if the answer to an earlier claim was lost. D7: others that are leased to it have not begun, and
-- are given out again as the same attempt.
CREATE FUNCTION holdfast.claim_tasks_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_worker text, p_queue text, p_activities text,
  p_limit integer, p_lease bigint, p_known text, p_again boolean)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_activities text[] := ARRAY (SELECT * FROM json_array_elements_text(p_activities::json));
  v_overdue boolean := EXISTS (SELECT 1 FROM holdfast.tasks WHERE due_at <= v_now);
  v_lost bigint[] := '{}';
  v_found bigint[];
  v_ids bigint[] := '{}';
  v_next bigint;
  v_answer text;
BEGIN
  IF p_again THEN v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token); END IF;
  IF p_known IS NOT NULL THEN
    v_lost := ARRAY (SELECT t.id FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = ANY (v_activities) AND t.worker_id = p_worker AND t.due_at > v_now
      AND t.id <> ALL (ARRAY (SELECT k::bigint FROM json_array_elements_text(p_known::json) AS x(k))) ORDER BY t.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
  END IF;
  v_found := v_lost || ARRAY (
    SELECT c.id FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
      SELECT t.id, t.available_at FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at <= v_now AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
      ORDER BY t.available_at, t.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) c ORDER BY c.available_at, c.id LIMIT p_limit - cardinality(v_lost));
  IF cardinality(v_found) > 0 AND NOT p_again THEN v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token); END IF;
  IF v_answer IS NULL THEN v_ids := v_found;
  ELSE v_ids := ARRAY (SELECT t.id FROM json_array_elements_text(coalesce(nullif(v_answer, '{}'), '[]')::json) AS u(id) JOIN holdfast.tasks t ON t.id = u.id::bigint AND t.worker_id = p_worker);
  END IF;
  SELECT min(h.available_at) INTO v_next FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
    SELECT t.available_at FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at IS NOT NULL AND t.id <> ALL (v_ids) AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
    ORDER BY t.available_at, t.id LIMIT 1) h;
  IF cardinality(v_ids) > 0 AND v_answer IS NULL THEN
    UPDATE holdfast.tasks t SET attempt = t.attempt + CASE WHEN t.id = ANY (v_lost) THEN 0 ELSE 1 END, token = t.token + 1, worker_id = p_worker, started_at = v_now, heartbeat_at = v_now,
        leased_until = v_now + least(p_lease, t.start_to_close), lease = least(p_lease, t.start_to_close), available_at = NULL,
        due_at = least(v_now + least(p_lease, t.start_to_close), t.scheduled_at + t.schedule_to_close, v_now + t.start_to_close, v_now + t.heartbeat)
      WHERE t.id = ANY (v_ids);
    INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at)
      SELECT run, execution, seq, attempt, true, 'running', worker_id, started_at FROM holdfast.tasks WHERE id = ANY (v_ids)
      ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id, started_at = excluded.started_at,
        ended_at = NULL, retry_at = NULL, error = NULL;
    PERFORM holdfast.end_call_1(p_instance, p_slot, to_json(v_ids)::text);
  END IF;
  RETURN json_build_object('now', v_now, 'next', v_next, 'overdue', v_overdue, 'tasks', (
    SELECT json_agg(json_build_object('id', t.id, 'runId', r.id, 'execution', t.execution, 'seq', t.seq, 'activity', t.activity, 'queue', t.queue,
      'location', t.location, 'input', t.input, 'retry', t.retry, 'startToClose', t.start_to_close, 'scheduleToClose', t.schedule_to_close,
      'scheduleToStart', t.schedule_to_start, 'heartbeat', t.heartbeat, 'attempt', t.attempt, 'token', t.token, 'lastHeartbeat', t.last_heartbeat)
      ORDER BY array_position(v_ids, t.id))
    FROM holdfast.tasks t JOIN holdfast.runs r ON r.key = t.run WHERE t.id = ANY (v_ids)))::text;
END $$;
