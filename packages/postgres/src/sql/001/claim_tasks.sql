-- D11: hands out activities.

-- p_known: the tasks that the worker knows of, if the answer to an earlier claim was lost. D7: others that are leased to it have not begun, and
-- are given out again as the same attempt. p_only: only these tasks.
CREATE FUNCTION holdfast.claim_tasks_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_worker text, p_queue text, p_activities text,
  p_limit integer, p_lease bigint, p_known text, p_only bigint[], p_again boolean)
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
  v_managed boolean;
  v_limited boolean;
  v_queued bigint[] := '{}';
  v_begun boolean := p_again;
  v_claim record;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('holdfast.queues' || p_queue, 0));
  SELECT q.limits IS NOT NULL OR q.paused OR q.keyed_tasks, q.limits IS NOT NULL INTO v_managed, v_limited FROM holdfast.queues q WHERE q.name = p_queue;
  IF p_again THEN v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token); END IF;
  IF p_known IS NOT NULL THEN
    v_lost := ARRAY (SELECT t.id FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = ANY (v_activities) AND t.worker_id = p_worker AND t.due_at > v_now AND (p_only IS NULL OR t.id = ANY (p_only))
      AND t.id <> ALL (ARRAY (SELECT k::bigint FROM json_array_elements_text(p_known::json) AS x(k))) ORDER BY t.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
  END IF;
  IF v_managed AND v_answer IS NULL THEN
    SELECT min(h.available_at) INTO v_next FROM (
      SELECT r.available_at FROM holdfast.lanes l CROSS JOIN LATERAL (SELECT t.available_at FROM holdfast.tasks t
          WHERE t.lane = -l.lane AND t.lane < 0 AND t.worker_id IS NULL AND t.available_at IS NOT NULL ORDER BY t.available_at LIMIT 1) r
        WHERE l.queue = p_queue AND l.workflow = ANY (v_activities) AND l.version IS NULL
      UNION ALL
      SELECT r.available_at FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (SELECT t.available_at FROM holdfast.tasks t
          WHERE t.queue = p_queue AND t.activity = a.activity AND t.lane IS NULL AND t.available_at IS NOT NULL ORDER BY t.available_at LIMIT 1) r) h;
    -- Most claims of a queue without work write nothing.
    IF v_next <= v_now AND p_limit > cardinality(v_lost) AND NOT v_begun THEN
      v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token);
      v_begun := true;
    END IF;
    IF v_next <= v_now AND p_limit > cardinality(v_lost) AND v_answer IS NULL THEN
      SELECT * INTO v_claim FROM holdfast.claim_queued_tasks_1(p_queue, p_now, p_worker, p_lease, v_activities, p_limit - cardinality(v_lost), p_only);
      v_queued := v_claim.ids;
      v_now := v_claim.at;
      v_next := v_claim.next_at;
    END IF;
  END IF;
  v_found := v_lost || CASE WHEN v_managed THEN v_queued WHEN p_only IS NOT NULL THEN ARRAY (
    SELECT t.id FROM holdfast.tasks t WHERE t.id = ANY (p_only) AND t.lane IS NULL AND t.queue = p_queue AND t.activity = ANY (v_activities) AND t.available_at <= v_now AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
    ORDER BY t.available_at, t.id LIMIT p_limit - cardinality(v_lost) FOR UPDATE SKIP LOCKED)
  ELSE ARRAY (
    SELECT c.id FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
      SELECT t.id, t.available_at FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at <= v_now AND t.lane IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
      ORDER BY t.available_at, t.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) c ORDER BY c.available_at, c.id LIMIT p_limit - cardinality(v_lost)) END;
  IF cardinality(v_found) > 0 AND NOT v_begun THEN v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token); END IF;
  IF v_answer IS NULL THEN v_ids := v_found;
  ELSE v_ids := ARRAY (SELECT t.id FROM json_array_elements_text(coalesce(nullif(v_answer, '{}'), '[]')::json) AS u(id) JOIN holdfast.tasks t ON t.id = u.id::bigint AND t.worker_id = p_worker);
  END IF;
  IF v_managed IS NOT TRUE THEN
    SELECT min(h.available_at) INTO v_next FROM unnest(v_activities) AS a(activity) CROSS JOIN LATERAL (
      SELECT t.available_at FROM holdfast.tasks t WHERE t.queue = p_queue AND t.activity = a.activity AND t.available_at IS NOT NULL AND t.lane IS NULL AND t.id <> ALL (v_ids) AND NOT EXISTS (SELECT 1 FROM holdfast.runs x WHERE x.key = t.run AND x.deadline_at <= v_now)
      ORDER BY t.available_at, t.id LIMIT 1) h;
  END IF;
  IF cardinality(v_ids) > 0 AND v_answer IS NULL THEN
    PERFORM holdfast.take_tasks_1(ARRAY (SELECT u.id FROM unnest(v_ids) AS u(id) WHERE u.id <> ALL (v_queued)), v_lost, p_worker, p_lease, v_now);
    PERFORM holdfast.end_call_1(p_instance, p_slot, to_json(v_ids)::text);
  END IF;
  RETURN json_build_object('now', v_now, 'next', v_next, 'overdue', v_overdue, 'limited', v_limited, 'tasks', (
    SELECT json_agg(json_build_object('id', t.id, 'runId', r.id, 'execution', t.execution, 'seq', t.seq, 'activity', t.activity, 'queue', t.queue,
      'location', t.location, 'input', t.input, 'retry', t.retry, 'startToClose', t.start_to_close, 'scheduleToClose', t.schedule_to_close,
      'scheduleToStart', t.schedule_to_start, 'heartbeat', t.heartbeat, 'attempt', t.attempt, 'token', t.token, 'lastHeartbeat', t.last_heartbeat, 'key', t.work_key, 'priority', nullif(t.priority, 0))
      ORDER BY array_position(v_ids, t.id))
    FROM holdfast.tasks t JOIN holdfast.runs r ON r.key = t.run WHERE t.id = ANY (v_ids)))::text;
END $$;
