-- The end of a run and what follows from it: P1 (one end), K5 (the epoch rises: nothing that was computed before counts any more), K6
-- (children follow), K9, M10, Q9 (its next start begins), Q10 (runs that wait for it begin). Also cancellation, since it ends a run that has not begun.

-- B4: how long this engine keeps closed runs whose workflow says nothing; null: forever. The statement that calls a function says it.
CREATE FUNCTION holdfast.kept_for_1() RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT nullif(current_setting('runs.kept_for', true), '')::bigint
$$;

-- Abandons the activities of a run, all of them or those of these operations (C7). Workers that run one will be notified.
CREATE FUNCTION holdfast.drop_tasks_1(p_run bigint, p_seqs integer[], p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM holdfast.tasks WHERE run = p_run AND (p_seqs IS NULL OR seq = ANY (p_seqs)) FOR UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at)
    SELECT run, execution, seq, attempt, true, 'lost', worker_id, started_at, p_now FROM holdfast.tasks
    WHERE run = p_run AND (p_seqs IS NULL OR seq = ANY (p_seqs)) AND worker_id IS NOT NULL
    ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, ended_at = excluded.ended_at;
  DELETE FROM holdfast.tasks WHERE run = p_run AND (p_seqs IS NULL OR seq = ANY (p_seqs));
END $$;

-- Sends the outcome of closed runs to their parents, unless the parent has closed or is in a later execution, which did not ask.
-- Rows of parents are locked. False: nothing was sent.
CREATE FUNCTION holdfast.tell_parents_1(p_runs bigint[], p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_parents bigint[];
  v_ids bigint[];
BEGIN
  WITH told AS MATERIALIZED (
    SELECT o.*, nextval('holdfast.inbox_ids') AS inbox_id FROM (
      SELECT p.key AS parent, c.id, c.status, c.output, c.error, c.parent_seq FROM unnest(p_runs) WITH ORDINALITY AS u(key, i)
        CROSS JOIN LATERAL (SELECT * FROM holdfast.runs x WHERE x.key = u.key OFFSET 0) c
        CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = c.parent_id AND x.finished_at IS NULL AND x.execution = c.parent_execution
          FOR NO KEY UPDATE NOWAIT) p
      ORDER BY u.i) o
  ), put AS (
    INSERT INTO holdfast.inbox (run, id, received_at, type, seq, data, value)
      SELECT parent, inbox_id, p_now, 'resolve', parent_seq, CASE status
          WHEN 'completed' THEN NULL
          WHEN 'canceled' THEN '{"status":"canceled"}'
          ELSE '{"status":"failed","error":' || coalesce(error, holdfast.error_1('child-ended', id, status)) || '}' END,
        CASE status WHEN 'completed' THEN coalesce(output, '{"$undefined":true}') END
      FROM told
  )
  -- The last first, so that it is the one that is found.
  SELECT array_agg(parent ORDER BY inbox_id DESC), array_agg(inbox_id ORDER BY inbox_id DESC) INTO v_parents, v_ids FROM told;
  IF v_parents IS NULL THEN RETURN false; END IF;
  UPDATE holdfast.runs r SET last_message = v_ids[array_position(v_parents, r.key)],
      available_at = CASE WHEN r.worker_id IS NULL AND r.status NOT IN ('pending', 'blocked') THEN least(r.available_at, p_now) ELSE r.available_at END
    WHERE r.key = ANY (v_parents);
  RETURN true;
END $$;

-- Q10: a run has closed. Those that waited for it begin when their time has come, or wait for the run that it waited for itself.
CREATE FUNCTION holdfast.release_waiting_1(p_run bigint, p_id text, p_after text, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM holdfast.runs WHERE after_id = p_id ORDER BY id FOR NO KEY UPDATE NOWAIT;
  UPDATE holdfast.runs SET after_id = p_after, available_at = CASE WHEN p_after IS NULL THEN greatest(not_before, p_now) END WHERE after_id = p_id;
  UPDATE holdfast.runs SET after_id = NULL, awaited = false WHERE key = p_run;
END $$;

-- What follows from the end of a run, whose row says how it ended: its updates, messages and activities, its parent, its children, and
-- its next start, or else runs that wait for it.
CREATE FUNCTION holdfast.follow_end_1(p_run bigint, p_now bigint, p_unconsumed jsonb DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_child record;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run;
  -- M10: updates that were not taken are rejected, those that were taken and have no outcome have failed.
  UPDATE holdfast.updates u SET error = holdfast.error_1('closed', v_run.id, v_run.status),
      status = CASE WHEN EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = p_run AND i.id = u.inbox_id) THEN 'rejected' ELSE 'failed' END
    WHERE u.run = p_run AND u.status IS NULL
      AND NOT (v_run.has_next AND EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = -p_run AND i.id = u.inbox_id));
  -- D10: signals wait for a run that may be resumed. Q9: and for its next start.
  DELETE FROM holdfast.inbox WHERE run = p_run AND NOT ((v_run.resumable OR v_run.has_next) AND type = 'signal');
  PERFORM holdfast.drop_tasks_1(p_run, NULL, p_now);
  IF v_run.parent_id IS NOT NULL THEN PERFORM holdfast.tell_parents_1(ARRAY[p_run], p_now); END IF;
  FOR v_child IN SELECT key, id, parent_close FROM holdfast.runs WHERE parent_id = v_run.id AND finished_at IS NULL ORDER BY key LOOP
    IF v_child.parent_close = 'terminate' THEN
      PERFORM holdfast.close_run_1(v_child.key, 'terminated', NULL,
        holdfast.error_1('terminated', v_child.id, holdfast.reason_1('parent-ended', v_run.id)), false, p_now);
    ELSIF v_child.parent_close = 'cancel' THEN
      PERFORM holdfast.cancel_run_1(v_child.key, holdfast.cancel_message_1(holdfast.reason_1('parent-ended', v_run.id)), p_now);
    END IF;
  END LOOP;
  IF v_run.has_next THEN PERFORM holdfast.begin_next_1(p_run, p_unconsumed, p_now);
  ELSIF v_run.awaited OR v_run.after_id IS NOT NULL THEN PERFORM holdfast.release_waiting_1(p_run, v_run.id, v_run.after_id, p_now); END IF;
END $$;

-- p_turns, p_records: of the turn that it ends with, if it does; its row is up to date but for them. p_unconsumed: see begin_next_1.
CREATE FUNCTION holdfast.close_run_1(p_run bigint, p_status text, p_output text, p_error text, p_resumable boolean, p_now bigint,
  p_turns integer DEFAULT NULL, p_records integer DEFAULT NULL, p_unconsumed jsonb DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM holdfast.runs WHERE key = p_run AND finished_at IS NULL FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN; END IF;
  IF p_turns IS NULL THEN PERFORM holdfast.count_turns_1(p_run); END IF;
  UPDATE holdfast.runs SET status = p_status, ended_as = p_status, output = p_output, error = p_error,
      resumable = p_status = 'failed' AND coalesce(p_resumable, true), finished_at = p_now, turns = turns + coalesce(p_turns, 0),
      history_length = history_length + coalesce(p_records, 0), worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0,
      epoch = epoch + 1, remove_at = CASE WHEN retention IS NULL THEN p_now + holdfast.kept_for_1() WHEN retention >= 0 THEN p_now + retention END
    WHERE key = p_run;
  PERFORM holdfast.follow_end_1(p_run, p_now, p_unconsumed);
END $$;

-- For each of these ids, which are locked: the key of its run, if that is open and its end reaches no other run, and the id is the first of its
-- kind; else null.
CREATE FUNCTION holdfast.find_alone_1(p_ids text[]) RETURNS bigint[] LANGUAGE sql STABLE AS $$
  SELECT array_agg(r.key ORDER BY t.i)
    FROM (SELECT u.id, u.i, row_number() OVER (PARTITION BY u.id ORDER BY u.i) AS n FROM unnest(p_ids) WITH ORDINALITY AS u(id, i)) t
    LEFT JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = t.id AND t.n = 1 AND x.finished_at IS NULL AND x.parent_id IS NULL
      AND x.after_id IS NULL AND NOT x.awaited AND NOT x.has_next
      AND (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = x.id AND c.finished_at IS NULL LIMIT 1) IS NULL OFFSET 0) r ON true
$$;

-- Ends runs that find_alone_1 has found, all of them with a few statements, as close_run_1 does with one. p_errors: in the same places.
CREATE FUNCTION holdfast.end_alone_1(p_keys bigint[], p_status text, p_errors text[], p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_messages boolean;
BEGIN
  WITH ended AS (
    UPDATE holdfast.runs r SET status = p_status, ended_as = p_status, output = NULL, error = p_errors[array_position(p_keys, r.key)], resumable = false,
        finished_at = p_now, worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0, epoch = r.epoch + 1,
        turns = CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END,
        history_length = CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn') END,
        remove_at = CASE WHEN r.retention IS NULL THEN p_now + holdfast.kept_for_1() WHEN r.retention >= 0 THEN p_now + r.retention END
      WHERE r.key = ANY (p_keys) RETURNING r.last_message
  )
  SELECT bool_or(e.last_message > 0) INTO v_messages FROM ended e;
  IF v_messages THEN
    -- M10, as in follow_end_1.
    UPDATE holdfast.updates u SET error = holdfast.error_1('closed', (SELECT r.id FROM holdfast.runs r WHERE r.key = u.run), p_status),
        status = CASE WHEN EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = u.run AND i.id = u.inbox_id) THEN 'rejected' ELSE 'failed' END
      WHERE u.run = ANY (p_keys) AND u.status IS NULL;
    DELETE FROM holdfast.inbox WHERE run = ANY (p_keys);
  END IF;
  PERFORM holdfast.drop_tasks_1(t.run, NULL, p_now) FROM (SELECT DISTINCT x.run FROM holdfast.tasks x WHERE x.run = ANY (p_keys)) t;
END $$;

CREATE FUNCTION holdfast.cancel_message_1(p_reason text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('y', 'cancel', 'd', json_build_object('reason', p_reason)::text)
$$;

-- Asks an open run to cancel. One that no worker has begun with is canceled here and now (K9). Returns the inbox id, 0 if there is none.
CREATE FUNCTION holdfast.cancel_run_1(p_run bigint, p_message jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run AND finished_at IS NULL FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN 0; END IF;
  IF v_run.turns > 0 OR v_run.worker_id IS NOT NULL THEN RETURN holdfast.put_1(p_run, p_message, p_now); END IF;
  PERFORM holdfast.close_run_1(p_run, 'canceled', NULL, holdfast.canceled_error_1(p_message), false, p_now);
  RETURN 0;
END $$;
