-- Q9: a newer start of a run that is there: taken over by a run that no worker has claimed, or kept as its next start until it has closed.
-- Messages that wait with a next start are in the inbox of -key. Starts are JSON as create_run_1 reads it; of those that wait `startAt` and
-- `deadlineAt` are set, and what is kept elsewhere (messages, key) is left out.

-- When a start begins at the earliest; with "debounce" maxDelay after the first start at most.
CREATE FUNCTION holdfast.start_time_1(p_start jsonb, p_first bigint, p_now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT least(coalesce((p_start ->> 'startAt')::bigint, p_now + coalesce((p_start ->> 'delay')::bigint, 0)),
    CASE WHEN p_start ->> 'conflict' = 'debounce' THEN p_first + (p_start ->> 'maxDelay')::bigint END)
$$;

-- What a start says of its run, besides its input and its parent.
CREATE FUNCTION holdfast.apply_start_1(p_run bigint, p_start jsonb, p_at bigint, p_now bigint, p_caller boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_after text := holdfast.await_run_1(p_start ->> 'id', p_start #>> '{origin,after}', p_now, p_caller);
BEGIN
  UPDATE holdfast.runs SET version = p_start ->> 'version', lane = (p_start ->> 'lane')::integer, queue = p_start ->> 'queue',
      priority = (p_start ->> 'priority')::integer, available_at = CASE WHEN v_after IS NULL THEN p_at END, after_id = v_after,
      not_before = CASE WHEN v_after IS NOT NULL THEN p_at END,
      deadline_at = coalesce((p_start ->> 'deadlineAt')::bigint, p_now + (p_start ->> 'deadline')::bigint), attributes = p_start -> 'attributes',
      retry = p_start ->> 'retry', work_key = p_start #>> '{origin,key}', schedule = p_start #>> '{origin,schedule}',
      tick = (p_start #>> '{origin,tick}')::bigint, forked_from = p_start #>> '{origin,from}', retention = (p_start #>> '{origin,retention}')::bigint
    WHERE key = p_run;
END $$;

-- The next execution of a run that has closed, as a new start says. p_first: when the first of the starts was made that it has taken over.
CREATE FUNCTION holdfast.begin_start_1(p_run bigint, p_start jsonb, p_at bigint, p_first bigint, p_now bigint, p_caller boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM holdfast.begin_execution_1(p_run, p_start ->> 'workflow', p_start ->> 'version', (p_start ->> 'lane')::integer, p_start ->> 'seed', p_start ->> 'input', NULL);
  UPDATE holdfast.runs SET started_at = NULL, first_start = p_first, held = false, under = false, parent_id = p_start #>> '{parent,runId}',
      parent_execution = (p_start #>> '{parent,execution}')::integer, parent_seq = (p_start #>> '{parent,seq}')::integer,
      parent_close = p_start #>> '{parent,parentClose}', parent_announce = (p_start #>> '{parent,announce}')::boolean
    WHERE key = p_run;
  PERFORM holdfast.apply_start_1(p_run, p_start, p_at, p_now, p_caller);
END $$;

-- The run has closed: its next start begins. Signals that it left unconsumed move on, and go before what came later.
CREATE FUNCTION holdfast.begin_next_1(p_run bigint, p_unconsumed jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_next holdfast.next_starts;
BEGIN
  DELETE FROM holdfast.next_starts WHERE run = p_run RETURNING * INTO v_next;
  UPDATE holdfast.runs SET has_next = false WHERE key = p_run;
  IF v_next.run IS NULL THEN RETURN; END IF;
  UPDATE holdfast.inbox SET run = p_run WHERE run = -p_run;
  PERFORM holdfast.begin_start_1(p_run, v_next.start, greatest((v_next.start ->> 'startAt')::bigint, p_now), v_next.first_at, p_now, false);
  PERFORM holdfast.carry_over_1(p_run, coalesce(p_unconsumed, '[]'), p_now);
  UPDATE holdfast.runs SET last_message = greatest(last_message, (SELECT max(id) FROM holdfast.inbox WHERE run = p_run)) WHERE key = p_run;
END $$;

-- A caller cancels or terminates the run, which is locked, and with it what would have followed.
CREATE FUNCTION holdfast.drop_next_1(p_run bigint, p_id text, p_status text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE holdfast.updates SET status = 'rejected', error = holdfast.error_1('closed', p_id, p_status)
    WHERE run = p_run AND status IS NULL AND inbox_id IN (SELECT id FROM holdfast.inbox WHERE run = -p_run);
  DELETE FROM holdfast.inbox WHERE run = -p_run;
  DELETE FROM holdfast.next_starts WHERE run = p_run;
  UPDATE holdfast.runs SET has_next = false WHERE key = p_run;
END $$;

-- A message that waits with the next start of a run, once for each key. Returns its id.
CREATE FUNCTION holdfast.put_aside_1(p_run bigint, p_message jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_known bigint;
  v_update text := p_message ->> 'u';
  v_key text := p_message ->> 'k';
BEGIN
  IF v_update IS NOT NULL THEN SELECT inbox_id INTO v_known FROM holdfast.updates WHERE run = p_run AND id = v_update;
  ELSIF v_key IS NOT NULL THEN SELECT inbox_id INTO v_known FROM holdfast.message_keys WHERE run = p_run AND key = v_key;
  END IF;
  IF v_known IS NOT NULL THEN RETURN v_known; END IF;
  v_known := holdfast.put_1(-p_run, p_message, p_now);
  IF v_update IS NOT NULL THEN INSERT INTO holdfast.updates (run, id, inbox_id, keyless, accept_until)
      VALUES (p_run, v_update, v_known, coalesce((p_message ->> 'kl')::boolean, false), p_now + (p_message ->> 'aw')::bigint);
  ELSIF v_key IS NOT NULL THEN INSERT INTO holdfast.message_keys (run, key, inbox_id) VALUES (p_run, v_key, v_known);
  END IF;
  RETURN v_known;
END $$;

-- A newer start of an open run, whose key is kept already. Answers as create_run_1.
CREATE FUNCTION holdfast.supersede_1(p_start jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_next holdfast.next_starts;
  v_message jsonb;
  v_inbox jsonb := '[]';
  v_at bigint;
  v_first bigint;
  v_cancels boolean;
  v_execution integer;
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE id = p_start ->> 'id' FOR NO KEY UPDATE NOWAIT;
  -- It has closed or begun since it was looked at: the next try finds it so.
  IF v_run.finished_at IS NOT NULL THEN RAISE EXCEPTION 'run-closed' USING ERRCODE = '40001'; END IF;
  IF v_run.started_at IS NULL AND v_run.turns = 0 THEN
    v_at := holdfast.start_time_1(p_start, coalesce(v_run.first_start, v_run.created_at), p_now);
    IF v_at <= p_now THEN v_at := least(v_at, coalesce(v_run.available_at, v_run.not_before)); END IF;
    PERFORM holdfast.apply_start_1(v_run.key, p_start, v_at, p_now, false);
    UPDATE holdfast.executions SET version = p_start ->> 'version', seed = p_start ->> 'seed', input = p_start ->> 'input'
      WHERE run = v_run.key AND execution = v_run.execution;
    FOR v_message IN SELECT * FROM jsonb_array_elements(coalesce(p_start -> 'messages', '[]')) LOOP
      v_inbox := v_inbox || coalesce(holdfast.deliver_1(v_run.id, v_message, p_now) -> 'i', '0');
    END LOOP;
    RETURN jsonb_build_object('s', 'existing', 'x', v_run.execution, 'b', v_inbox);
  END IF;
  SELECT * INTO v_next FROM holdfast.next_starts WHERE run = v_run.key;
  v_first := coalesce(v_next.first_at, p_now);
  v_cancels := p_start ->> 'conflict' = 'replace' AND v_next.replacing IS NOT TRUE;
  INSERT INTO holdfast.next_starts AS x (run, start, first_at, replacing)
    VALUES (v_run.key, p_start - ARRAY['messages', 'ikey', 'first', 'delay', 'maxDelay', 'deadline'] || jsonb_build_object('startAt', holdfast.start_time_1(p_start, v_first, p_now),
      'deadlineAt', coalesce((p_start ->> 'deadlineAt')::bigint, p_now + (p_start ->> 'deadline')::bigint)), v_first, v_cancels)
    ON CONFLICT (run) DO UPDATE SET start = excluded.start, replacing = x.replacing OR excluded.replacing;
  IF NOT v_run.has_next THEN UPDATE holdfast.runs SET has_next = true WHERE key = v_run.key; END IF;
  FOR v_message IN SELECT * FROM jsonb_array_elements(coalesce(p_start -> 'messages', '[]')) LOOP
    v_inbox := v_inbox || to_jsonb(holdfast.put_aside_1(v_run.key, v_message, p_now));
  END LOOP;
  IF v_cancels THEN PERFORM holdfast.cancel_run_1(v_run.key, holdfast.cancel_message_1('a newer start replaced it'), p_now); END IF;
  SELECT execution INTO v_execution FROM holdfast.runs WHERE key = v_run.key;
  RETURN jsonb_build_object('s', CASE WHEN v_execution > v_run.execution THEN 'created' ELSE 'existing' END, 'x', v_execution, 'b', v_inbox);
END $$;
