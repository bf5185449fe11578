-- D8 D11: how attempts of activities end, and whether another follows. A token fences every answer.

-- How attempts end: by an answer, or (l) because the store has found that their time is up. p_answers: i number, id, token, s status of the
-- attempt, v value, e error, r retryable, n random share of the wait, w the wait if it is given, o over: no attempt follows.
-- Answers with the numbers of those that counted, and of those whose run another transaction has locked, with p_wait for longer than a moment: nothing
-- was written for them. And with the runs whose next attempt would come after their deadline (K7).
CREATE FUNCTION holdfast.settle_tasks_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_answers text, p_wait boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint;
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_taken integer[] := '{}';
  v_busy integer[];
  v_tasks bigint[] := ARRAY (SELECT id FROM json_to_recordset(p_answers::json) AS x(id bigint));
  v_runs bigint[];
  a record;
  v_task holdfast.tasks;
  v_delay bigint;
  v_again boolean;
  v_run text;
  v_deadline bigint;
  v_late json[];
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  v_runs := ARRAY (SELECT t.run FROM holdfast.tasks t WHERE t.id = ANY (v_tasks));
  IF p_wait THEN v_runs := holdfast.lock_soon_1(v_runs);
  ELSE v_runs := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_runs) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  PERFORM 1 FROM holdfast.tasks WHERE id = ANY (v_tasks) AND run = ANY (v_runs) ORDER BY id FOR UPDATE;
  v_now := holdfast.clock_1(p_now);
  FOR a IN SELECT * FROM json_to_recordset(p_answers::json) AS x(i integer, id bigint, token integer, s text, v text, e text, r boolean, n double precision,
      w bigint, o boolean, l boolean) LOOP
    SELECT * INTO v_task FROM holdfast.tasks WHERE id = a.id AND token = a.token;
    -- One whose time is up can't be answered any more, swept or not.
    CONTINUE WHEN NOT FOUND OR a.l IS NOT TRUE AND (v_task.worker_id IS NULL OR v_task.due_at <= v_now) OR a.l AND v_task.due_at > v_now;
    IF v_task.run <> ALL (v_runs) THEN
      v_busy := v_busy || a.i;
      CONTINUE;
    END IF;
    v_taken := v_taken || a.i;
    -- D8: as the core's `retryDelay`. A power that is too large for a number is over any cap.
    v_delay := coalesce(a.w, floor(least(v_task.initial_interval * CASE WHEN (v_task.attempt - 1) * ln(greatest(v_task.backoff, 1)) > 600 THEN 1e300
      ELSE power(v_task.backoff, v_task.attempt - 1) END, v_task.max_interval, 9e15) * (1 - v_task.jitter + v_task.jitter * coalesce(a.n, 0.5)) + 0.5)::bigint);
    v_again := a.s <> 'completed' AND coalesce(a.r, false) AND a.o IS NOT TRUE AND v_task.attempt < v_task.max_attempts
      AND (v_task.schedule_to_close IS NULL OR v_now + v_delay < v_task.scheduled_at + v_task.schedule_to_close);
    IF v_task.worker_id IS NOT NULL THEN
      INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
        VALUES (v_task.run, v_task.execution, v_task.seq, v_task.attempt, true, a.s, v_task.worker_id, v_task.started_at, v_now,
          CASE WHEN v_again THEN v_now + v_delay END, a.e)
        ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, ended_at = excluded.ended_at, retry_at = excluded.retry_at,
          error = excluded.error;
    END IF;
    IF v_again THEN
      SELECT id, deadline_at INTO v_run, v_deadline FROM holdfast.runs WHERE key = v_task.run;
      IF v_deadline <= v_now + v_delay THEN v_late := v_late || json_build_array(v_run, v_deadline); END IF;
      UPDATE holdfast.tasks SET worker_id = NULL, token = token + 1, available_at = v_now + v_delay, due_at = scheduled_at + schedule_to_close WHERE id = a.id;
    ELSE
      DELETE FROM holdfast.tasks WHERE id = a.id;
      SELECT id INTO v_run FROM holdfast.runs WHERE key = v_task.run;
      PERFORM holdfast.answer_1(v_run, v_task.execution, jsonb_build_object('y', 'resolve', 'q', v_task.seq) || CASE a.s
        WHEN 'completed' THEN jsonb_build_object('v', a.v)
        ELSE jsonb_build_object('d', '{"status":"failed","error":' || a.e || ',"attempts":' || v_task.attempt || '}') END, v_now);
    END IF;
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, json_build_object('taken', to_json(v_taken), 'busy', to_json(v_busy), 'late', to_json(v_late),
    'overdue', EXISTS (SELECT 1 FROM holdfast.tasks WHERE due_at <= v_now))::text);
END $$;
