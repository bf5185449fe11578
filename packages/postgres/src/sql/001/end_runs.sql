-- The end of a run and what follows from it: P1 (one end), K5 (the epoch rises: nothing that was computed before counts any more), K6
-- (children follow), K9, M10. Also cancellation, since it ends a run that has not begun.

-- Gives up the activities of a run, all of them or those of these operations (C7). What a worker has of them is over: it will be told.
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

-- Tells the parents of closed runs how these ended, as far as they still are their parents: closed runs and later executions did not ask.
-- Rows of parents are locked. False: nobody was told.
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

-- What follows from the end of a run, whose row says how it ended: updates, messages and activities of its, its parent, its children.
CREATE FUNCTION holdfast.follow_end_1(p_run bigint, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_child record;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run;
  -- M10: what nobody took is rejected, what was taken and has no outcome has failed.
  UPDATE holdfast.updates u SET error = holdfast.error_1('closed', v_run.id, v_run.status),
      status = CASE WHEN EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = p_run AND i.id = u.inbox_id) THEN 'rejected' ELSE 'failed' END
    WHERE u.run = p_run AND u.status IS NULL;
  -- D10: signals wait for a run that may be resumed.
  DELETE FROM holdfast.inbox WHERE run = p_run AND NOT (v_run.resumable AND type = 'signal');
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
END $$;

-- p_turns, p_records: of the turn that it ends with, if it does; its row is up to date but for them.
CREATE FUNCTION holdfast.close_run_1(p_run bigint, p_status text, p_output text, p_error text, p_resumable boolean, p_now bigint,
  p_turns integer DEFAULT NULL, p_records integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM holdfast.runs WHERE key = p_run AND finished_at IS NULL FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN; END IF;
  IF p_turns IS NULL THEN PERFORM holdfast.count_turns_1(p_run); END IF;
  UPDATE holdfast.runs SET status = p_status, ended_as = p_status, output = p_output, error = p_error,
      resumable = p_status = 'failed' AND coalesce(p_resumable, true), finished_at = p_now, turns = turns + coalesce(p_turns, 0),
      history_length = history_length + coalesce(p_records, 0), worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0,
      epoch = epoch + 1
    WHERE key = p_run;
  PERFORM holdfast.follow_end_1(p_run, p_now);
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
