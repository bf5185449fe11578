-- Messages into inboxes: M1 M3 M10 (once for each key, in order), D9 (a message makes a parked run available), K9. A message whose run is
-- locked by another transaction is left for later: others do not wait for it.

-- Into the inbox of an open run, key or no key. A run that is parked becomes available now; one that has not begun keeps its start, one
-- that is leased its lease. The run is locked.
CREATE FUNCTION holdfast.put_1(p_run bigint, p_message jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint := nextval('holdfast.inbox_ids');
BEGIN
  INSERT INTO holdfast.inbox (run, id, received_at, type, seq, name, refs, data, value)
    SELECT p_run, v_id, p_now, m.y, m.q, m.m, m.f, CASE WHEN m.aw IS NULL THEN m.d ELSE json_build_object('acceptUntil', p_now + m.aw)::text END, m.v
      FROM jsonb_to_record(p_message) AS m(y text, q integer, m text, f text[], d text, v text, aw bigint);
  UPDATE holdfast.runs SET last_message = v_id,
      available_at = CASE WHEN worker_id IS NULL AND status NOT IN ('pending', 'blocked') THEN least(available_at, p_now) ELSE available_at END
    WHERE key = p_run;
  RETURN v_id;
END $$;

-- The answer to an operation, if it still is one of the run's: closed runs and later executions did not ask.
CREATE FUNCTION holdfast.answer_1(p_run text, p_execution integer, p_message jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_key bigint;
BEGIN
  SELECT key INTO v_key FROM holdfast.runs WHERE id = p_run AND finished_at IS NULL AND execution = p_execution FOR NO KEY UPDATE NOWAIT;
  IF FOUND THEN PERFORM holdfast.put_1(v_key, p_message, p_now); END IF;
END $$;

-- From a message for a run id to the inbox, once. A message has: y type, q seq, m name, f refs, d data, v value; k idempotency key,
-- u id of the update, kl that its sender gave no key, aw how long it may wait to be accepted, wf the workflow that the run has to be of (M3). Answers with s status and either i inbox id, r status of the run or
-- w its workflow.
CREATE FUNCTION holdfast.deliver_1(p_run text, p_message jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_known bigint;
  v_update text := p_message ->> 'u';
  v_key text := p_message ->> 'k';
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE id = p_run FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN '{"s":"not-found"}'; END IF;
  IF v_run.workflow <> p_message ->> 'wf' THEN RETURN jsonb_build_object('s', 'other-workflow', 'w', v_run.workflow); END IF;
  IF p_message ->> 'y' = 'cancel' AND v_run.status = 'canceled' THEN RETURN '{"s":"duplicate","i":0}'; END IF;
  IF v_update IS NOT NULL THEN SELECT inbox_id INTO v_known FROM holdfast.updates WHERE run = v_run.key AND id = v_update;
  ELSIF v_key IS NOT NULL THEN SELECT inbox_id INTO v_known FROM holdfast.message_keys WHERE run = v_run.key AND key = v_key;
  END IF;
  IF v_known IS NOT NULL THEN RETURN jsonb_build_object('s', 'duplicate', 'i', v_known); END IF;
  IF v_run.finished_at IS NOT NULL THEN RETURN jsonb_build_object('s', 'closed', 'r', v_run.status); END IF;
  -- Q9: a caller that cancels the run wants nothing to follow.
  IF p_message ->> 'y' = 'cancel' AND v_run.has_next THEN PERFORM holdfast.drop_next_1(v_run.key, v_run.id, 'canceled'); END IF;
  IF p_message ->> 'y' = 'cancel' THEN v_known := holdfast.cancel_run_1(v_run.key, p_message, p_now);
  ELSE v_known := holdfast.put_1(v_run.key, p_message, p_now);
  END IF;
  IF v_update IS NOT NULL THEN INSERT INTO holdfast.updates (run, id, inbox_id, keyless, accept_until)
      VALUES (v_run.key, v_update, v_known, coalesce((p_message ->> 'kl')::boolean, false), p_now + (p_message ->> 'aw')::bigint);
  ELSIF v_key IS NOT NULL THEN INSERT INTO holdfast.message_keys (run, key, inbox_id) VALUES (v_run.key, v_key, v_known);
  END IF;
  RETURN jsonb_build_object('s', 'sent', 'i', v_known);
END $$;

-- Signals and cancellations, each for another run that is open and one of p_free, in a few statements; cancellations only of runs whose end
-- reaches no other run. One that has not begun ends. Answers in their places with the inbox id of each that was sent; null: it was not.
CREATE FUNCTION holdfast.send_together_1(p_messages jsonb, p_free bigint[], p_now bigint) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_sent bigint[];
  v_keys bigint[];
  v_inbox_ids bigint[];
  v_ended bigint[];
  v_errors text[];
BEGIN
  WITH items AS MATERIALIZED (
    SELECT t.*, count(*) OVER (PARTITION BY t.r) AS n FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (r text, y text, q integer, m text, f text[], d text,
      v text, k text, u text, wf text, aw bigint)) WITH ORDINALITY AS t(r, y, q, m, f, d, v, k, u, wf, aw, i)
  ), found AS MATERIALIZED (
    SELECT o.*, CASE o.how WHEN 'put' THEN nextval('holdfast.inbox_ids') WHEN 'end' THEN 0 END AS inbox_id FROM (
      SELECT t.*, r.key, CASE WHEN r.is_alone THEN CASE WHEN t.y = 'signal' OR r.is_begun THEN 'put' ELSE 'end' END END AS how
      FROM items t LEFT JOIN LATERAL (
        SELECT x.key, x.turns > 0 OR x.worker_id IS NOT NULL AS is_begun, t.y = 'signal' OR x.parent_id IS NULL AND x.after_id IS NULL AND NOT x.awaited
          AND (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = x.id AND c.finished_at IS NULL LIMIT 1) IS NULL AS is_alone
        FROM holdfast.runs x WHERE x.id = t.r AND t.n = 1 AND t.u IS NULL AND t.aw IS NULL AND t.y IN ('signal', 'cancel') AND x.finished_at IS NULL
          AND x.key = ANY (p_free) AND NOT (t.y = 'cancel' AND x.has_next) AND (t.wf IS NULL OR t.wf = x.workflow)
          AND (SELECT 1 FROM holdfast.message_keys k WHERE k.run = x.key AND k.key = t.k) IS NULL OFFSET 0) r ON true
      ORDER BY t.i) o
  ), put AS (
    INSERT INTO holdfast.inbox (run, id, received_at, type, seq, name, refs, data, value)
      SELECT key, inbox_id, p_now, y, q, m, f, d, v FROM found WHERE how = 'put'
  ), keyed AS (
    INSERT INTO holdfast.message_keys (run, key, inbox_id) SELECT key, k, inbox_id FROM found WHERE inbox_id IS NOT NULL AND k IS NOT NULL
  )
  SELECT array_agg(inbox_id ORDER BY i), array_agg(key) FILTER (WHERE how = 'put'), array_agg(inbox_id) FILTER (WHERE how = 'put'),
    array_agg(key ORDER BY i) FILTER (WHERE how = 'end'), array_agg(holdfast.canceled_error_1(p_messages -> (i::integer - 1)) ORDER BY i) FILTER (WHERE how = 'end')
    INTO v_sent, v_keys, v_inbox_ids, v_ended, v_errors FROM found;
  UPDATE holdfast.runs r SET last_message = v_inbox_ids[array_position(v_keys, r.key)],
      available_at = CASE WHEN r.worker_id IS NULL AND r.status NOT IN ('pending', 'blocked') THEN least(r.available_at, p_now) ELSE r.available_at END
    WHERE r.key = ANY (v_keys);
  IF v_ended IS NOT NULL THEN PERFORM holdfast.end_alone_1(v_ended, 'canceled', v_errors, p_now); END IF;
  RETURN v_sent;
END $$;

-- Messages for runs. p_plain: signals without keys, and updates of different ids, all in a few statements; p_others: any, of which those that
-- send_together_1 leaves go one by one. A batch is one or the other. The answer to one whose run another transaction has locked, with p_wait for longer than a moment, is null: it was not sent.
CREATE FUNCTION holdfast.send_messages_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_plain text, p_others text, p_wait boolean)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_messages jsonb := p_others::jsonb;
  v_results jsonb;
  v_answers jsonb[];
  v_message jsonb;
  v_place integer;
  v_ids text[];
  v_free bigint[];
  v_keys bigint[];
  v_inbox_ids bigint[];
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  IF p_others IS NOT NULL THEN
    -- Messages to a run that may end wait for all that its end may reach: they keep their order.
    v_ids := ARRAY (SELECT m ->> 'r' FROM jsonb_array_elements(v_messages) m WHERE m ->> 'y' = 'cancel');
    v_free := holdfast.lock_free_1(ARRAY (SELECT m ->> 'r' FROM jsonb_array_elements(v_messages) m), v_ids, p_wait);
    IF jsonb_array_length(v_messages) > 1 THEN v_inbox_ids := holdfast.send_together_1(v_messages, v_free, v_now); END IF;
    FOR v_message, v_place IN SELECT t.m, t.i FROM jsonb_array_elements(v_messages) WITH ORDINALITY AS t(m, i) ORDER BY t.i LOOP
      IF v_inbox_ids[v_place] IS NOT NULL THEN v_answers[v_place] := jsonb_build_object('s', 'sent', 'i', v_inbox_ids[v_place]);
      ELSIF EXISTS (SELECT 1 FROM holdfast.runs WHERE id = v_message ->> 'r' AND key <> ALL (v_free)) THEN v_answers[v_place] := 'null';
      ELSE v_answers[v_place] := holdfast.deliver_1(v_message ->> 'r', v_message, v_now);
      END IF;
    END LOOP;
    RETURN holdfast.end_call_1(p_instance, p_slot, to_jsonb(v_answers)::text);
  END IF;
  v_ids := ARRAY (SELECT r FROM json_to_recordset(p_plain::json) AS m(r text));
  IF p_wait THEN v_free := holdfast.lock_free_1(v_ids, '{}', true);
  ELSE v_free := ARRAY (SELECT key FROM holdfast.runs WHERE id = ANY (v_ids) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  WITH found AS MATERIALIZED (
    SELECT o.*, CASE WHEN o.key = ANY (v_free) AND o.finished_at IS NULL AND o.known IS NULL AND (o.wf IS NULL OR o.wf = o.workflow)
      THEN nextval('holdfast.inbox_ids') END AS inbox_id
    FROM (SELECT m.*, r.key, r.finished_at, r.status, r.workflow, k.inbox_id AS known
      FROM json_to_recordset(p_plain::json) AS m(o integer, r text, y text, m text, f text[], d text, v text, u text, wf text, kl boolean, aw bigint)
      LEFT JOIN LATERAL (SELECT x.key, x.finished_at, x.status, x.workflow FROM holdfast.runs x WHERE x.id = m.r OFFSET 0) r ON true
      LEFT JOIN LATERAL (SELECT x.inbox_id FROM holdfast.updates x WHERE (x.run, x.id) = (r.key, m.u) OFFSET 0) k ON true ORDER BY m.o) o
  ), put AS (
    INSERT INTO holdfast.inbox (run, id, received_at, type, name, refs, data, value)
      SELECT key, inbox_id, v_now, y, m, f, CASE WHEN aw IS NULL THEN d ELSE json_build_object('acceptUntil', v_now + aw)::text END, v FROM found WHERE inbox_id IS NOT NULL
  ), asked AS (
    INSERT INTO holdfast.updates (run, id, inbox_id, keyless, accept_until)
      SELECT key, u, inbox_id, coalesce(kl, false), v_now + aw FROM found WHERE inbox_id IS NOT NULL AND u IS NOT NULL
  )
  SELECT jsonb_agg(CASE WHEN wf <> workflow THEN jsonb_build_object('s', 'other-workflow', 'w', workflow)
      WHEN known IS NOT NULL THEN jsonb_build_object('s', 'duplicate', 'i', known) WHEN inbox_id IS NOT NULL THEN jsonb_build_object('s', 'sent', 'i', inbox_id)
      WHEN key IS NULL THEN '{"s":"not-found"}'::jsonb WHEN key <> ALL (v_free) THEN 'null'::jsonb ELSE jsonb_build_object('s', 'closed', 'r', status) END ORDER BY o),
    -- The last first, so that it is the one that is found.
    array_agg(key ORDER BY o DESC) FILTER (WHERE inbox_id IS NOT NULL), array_agg(inbox_id ORDER BY o DESC) FILTER (WHERE inbox_id IS NOT NULL)
    INTO v_results, v_keys, v_inbox_ids FROM found;
  UPDATE holdfast.runs r SET last_message = v_inbox_ids[array_position(v_keys, r.key)],
      available_at = CASE WHEN r.worker_id IS NULL AND r.status NOT IN ('pending', 'blocked') THEN least(r.available_at, v_now) ELSE r.available_at END
    WHERE r.key = ANY (v_keys);
  RETURN holdfast.end_call_1(p_instance, p_slot, v_results::text);
END $$;
