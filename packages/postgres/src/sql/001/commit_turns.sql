-- Turns of many runs in one call: D2 (all or nothing), D3 (each stands alone), D4 (a stale epoch writes nothing), D9 (parking and ending see
-- every message). The usual turn (records in, the row of the run changed) goes through a few statements for the whole batch; turns with
-- anything else go one by one (commit_turn_1). Rows are locked first, in order of id; each statement after that sees what is there then.
--
-- Plans are kept for as long as a connection lives, and may have been made when the tables were small. So rows are named by `= ANY (array)`,
-- or fetched one by one in a LATERAL with OFFSET 0: whatever the planner estimates, it uses an index.
--
-- p_numbers and p_places hold several numbers for each turn and record, in the order of sql/fragments.ts. The number of each place is written
-- by `npm run sql`, from the name beside it.

CREATE FUNCTION holdfast.inbox_after_1(p_run bigint, p_seen bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_array(id, type, seq, name, refs, data, value) ORDER BY id), '[]') FROM holdfast.inbox WHERE run = p_run AND id > p_seen
$$;

-- D9: does the inbox of a run hold something that the end of the run should have waited for: a cancellation, a signal of one of these names?
CREATE FUNCTION holdfast.is_late_1(p_run bigint, p_cancel boolean, p_signals text[], p_consumed bigint[]) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT 1 FROM holdfast.inbox b WHERE b.run = p_run
    AND (b.type = 'cancel' AND p_cancel OR b.type = 'signal' AND b.name = ANY (p_signals)) AND b.id <> ALL (coalesce(p_consumed, '{}')))
$$;

-- One turn of one run, with everything that a turn can have.
CREATE FUNCTION holdfast.commit_turn_1(p_commit jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  c record;
  v_run holdfast.runs;
  v_item jsonb;
  v_result jsonb;
  v_sent jsonb;
  v_gone integer := 0;
  v_child record;
  v_answer jsonb;
  v_mailed boolean;
  v_busy boolean;
BEGIN
  SELECT * INTO c FROM jsonb_to_record(p_commit) AS x(id text, x integer, e integer, t integer, n integer, s text, k boolean, wf text, wake bigint,
    seen bigint, rb integer, ra integer, er text, bc text, state text, attributes jsonb, removed text[], "turnIndex" integer, trims jsonb,
    records jsonb, attempts jsonb, consumed bigint[], updates jsonb, accepts text[], tasks jsonb, "cancelTasks" integer[], children jsonb,
    "cancelChildren" integer[], sends jsonb, close jsonb, h boolean, lc boolean, ls text[], rt bigint);
  SELECT * INTO v_run FROM holdfast.runs WHERE id = c.id FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND OR v_run.worker_id IS NULL OR v_run.epoch <> c.e OR v_run.execution <> c.x THEN RETURN '{"stale":true}'; END IF;
  IF c.h THEN
    PERFORM 1 FROM holdfast.runs WHERE key = v_run.key FOR UPDATE SKIP LOCKED;
    v_busy := NOT FOUND;
  END IF;
  IF c.ls IS NOT NULL OR c.h THEN v_mailed := holdfast.take_mail_1(ARRAY[c.id], p_now); END IF;
  IF c.ls IS NOT NULL AND (v_mailed OR v_run.last_message > 0) AND holdfast.is_late_1(v_run.key, c.lc, c.ls, c.consumed) THEN
    RETURN jsonb_build_object('late', true, 'inbox', holdfast.inbox_after_1(v_run.key, c.seen));
  END IF;
  IF v_busy THEN RETURN '{"busy":true}'; END IF;
  -- M8: the update was rejected meanwhile.
  IF c.accepts IS NOT NULL AND EXISTS (SELECT 1 FROM holdfast.updates WHERE run = v_run.key AND id = ANY (c.accepts) AND status IS NOT NULL) THEN
    RETURN '{"stale":true}';
  END IF;
  PERFORM holdfast.count_turns_1(v_run.key);
  IF c.records IS NOT NULL THEN
    INSERT INTO holdfast.records (run, execution, turn, position, direction, type, seq, n, worker, time, history_length, unit, name, refs, data, value, state) SELECT v_run.key, c.x, r.t, r.p, r.k, r.y, r.q, r.n, r.w, r.c, r.h, r.u, r.m, r.f, r.d, r.v, r.s FROM jsonb_to_recordset(c.records) AS r(t integer, p integer, k text, y text, q integer, n integer, w integer, c bigint, h integer, u text, m text, f text[], d text, v text, s text);
  END IF;
  IF c.trims IS NOT NULL THEN v_gone := holdfast.trim_records_1(v_run.key, c.x, c."turnIndex", c.trims); END IF;
  IF c.state IS NOT NULL THEN
    INSERT INTO holdfast.states (run, state) VALUES (v_run.key, c.state) ON CONFLICT (run) DO UPDATE SET state = excluded.state;
  END IF;
  IF c.attempts IS NOT NULL THEN
    INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
      SELECT v_run.key, c.x, a.seq, a.number, false, a.status, a.worker, a.started, a.ended, a.retry, a.error FROM jsonb_to_recordset(c.attempts) AS a(seq integer, number integer, status text, worker text, started bigint, ended bigint, retry bigint, error text)
      ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id,
  started_at = excluded.started_at, ended_at = excluded.ended_at, retry_at = excluded.retry_at, error = excluded.error;
  END IF;
  IF c.consumed IS NOT NULL THEN DELETE FROM holdfast.inbox WHERE run = v_run.key AND id = ANY (c.consumed); END IF;
  IF c.updates IS NOT NULL THEN
    WITH gone AS (DELETE FROM holdfast.updates WHERE run = v_run.key AND forget_at <= p_now)
    INSERT INTO holdfast.updates AS u (run, id, inbox_id, status, value, error)
      SELECT v_run.key, x.id, 0, x.status, x.value, x.error FROM jsonb_to_recordset(c.updates) AS x(id text, status text, value text, error text)
      ON CONFLICT (run, id) DO UPDATE SET status = excluded.status, value = excluded.value,
        error = excluded.error, forget_at = CASE WHEN u.keyless THEN p_now + 3600000 END WHERE u.status IS NULL;
  END IF;
  IF c.tasks IS NOT NULL THEN
    INSERT INTO holdfast.tasks (run, execution, seq, activity, queue, location, input, retry, start_to_close, schedule_to_close, schedule_to_start, heartbeat,
        max_attempts, initial_interval, backoff, max_interval, jitter, attempt, scheduled_at, available_at, due_at, lane, work_key, priority)
      SELECT v_run.key, c.x, x.seq, x.activity, x.queue, x.location, x.input, x.retry, x.stc, x.sc, x.ss, x.hb, x.ma, x.ii, x.bo, x.mi, x.ji,
        coalesce(x.at, 0), p_now, p_now, least(p_now + x.sc, p_now + x.ss), x.lane, x.wk, coalesce(x.pr, 0)
      FROM jsonb_to_recordset(c.tasks) AS x(seq integer, activity text, queue text, location text, input text, retry text, stc bigint, sc bigint, ss bigint, hb bigint, ma double precision, ii double precision, bo double precision, mi double precision, ji double precision, at integer, lane integer, wk text, pr integer);
  END IF;
  -- C7: also activities of this turn.
  IF c."cancelTasks" IS NOT NULL THEN PERFORM holdfast.drop_tasks_1(v_run.key, c."cancelTasks", p_now); END IF;
  IF c.children IS NOT NULL THEN
    FOR v_item IN SELECT holdfast.create_children_1(c.children, p_now) LOOP
      v_result := holdfast.create_run_1(v_item, p_now);
      IF v_result ->> 's' = 'conflict' THEN
        PERFORM holdfast.put_1(v_run.key, jsonb_build_object('y', 'resolve', 'q', coalesce(v_item #> '{parent,seq}', '0'),
          'd', '{"status":"failed","error":' || CASE WHEN v_result ->> 'w' = v_item ->> 'workflow' THEN holdfast.error_1('exists', v_item ->> 'id')
            ELSE holdfast.error_1('exists-other', v_item ->> 'id', v_result ->> 'w') END || '}'), p_now);
      END IF;
    END LOOP;
  END IF;
  IF c."cancelChildren" IS NOT NULL THEN
    FOR v_child IN SELECT key FROM holdfast.runs WHERE parent_id = v_run.id AND finished_at IS NULL AND parent_execution = c.x
        AND parent_seq = ANY (c."cancelChildren") ORDER BY key LOOP
      PERFORM holdfast.cancel_run_1(v_child.key, holdfast.cancel_message_1(holdfast.reason_1('given-up', v_run.id)), p_now);
    END LOOP;
  END IF;
  IF c.sends IS NOT NULL THEN
    v_sent := '[]';
    FOR v_item IN SELECT * FROM jsonb_array_elements(c.sends) LOOP
      v_result := holdfast.deliver_1(v_item ->> 'r', v_item, p_now);
      v_sent := v_sent || v_result;
      -- M12: the sender gets the outcome in its own inbox.
      PERFORM holdfast.put_1(v_run.key, jsonb_build_object('y', 'resolve', 'q', v_item -> 'seq') || CASE v_result ->> 's'
        WHEN 'not-found' THEN jsonb_build_object('d', '{"status":"failed","error":' || holdfast.error_1('not-found', v_item ->> 'r') || '}')
        WHEN 'closed' THEN jsonb_build_object('d', '{"status":"failed","error":' || holdfast.error_1('closed', v_item ->> 'r', v_result ->> 'r') || '}')
        ELSE jsonb_build_object('v', '{"$undefined":true}') END, p_now);
    END LOOP;
  END IF;
  IF c.attributes IS NOT NULL THEN
    UPDATE holdfast.runs SET attributes = (attributes || c.attributes) - c.removed WHERE key = v_run.key;
  END IF;
  IF c.rt IS NOT NULL THEN UPDATE holdfast.runs SET retention = c.rt WHERE key = v_run.key; END IF;
  v_answer := jsonb_build_object('sent', v_sent);
  IF c.close IS NOT NULL THEN
    -- Q9: mail may have brought it.
    IF v_mailed THEN SELECT has_next INTO v_run.has_next FROM holdfast.runs WHERE key = v_run.key; END IF;
    IF c.close ->> 'status' = 'continued' THEN
      PERFORM holdfast.continue_run_1(v_run.key, c.close -> 'next', p_now);
    ELSE
      PERFORM holdfast.close_run_1(v_run.key, c.close ->> 'status', c.close ->> 'output', c.close ->> 'error', (c.close ->> 'resumable')::boolean,
        p_now, c.t, c.n - v_gone, c.close -> 'unconsumed');
      IF v_run.has_next THEN v_answer := v_answer || '{"next":true}'; END IF;
    END IF;
    RETURN v_answer;
  END IF;
  UPDATE holdfast.runs SET status = c.s, waiting_for = c.wf, error = c.er, blocked_code = c.bc, attempt = coalesce(c.ra, attempt),
      rollbacks = coalesce(c.rb, rollbacks), turns = turns + c.t, history_length = history_length + c.n - v_gone,
      recoveries = CASE WHEN c.t > 0 THEN 0 ELSE recoveries END,
      parked_by = CASE WHEN c.k THEN parked_by ELSE worker_id END, worker_id = CASE WHEN c.k THEN worker_id END,
      available_at = CASE WHEN c.k THEN available_at
        WHEN EXISTS (SELECT 1 FROM holdfast.inbox WHERE run = v_run.key AND id > c.seen) THEN least(c.wake, p_now) ELSE c.wake END
    WHERE key = v_run.key RETURNING * INTO v_run;
  IF c.k THEN v_answer := v_answer || jsonb_build_object('inbox', holdfast.inbox_after_1(v_run.key, c.seen), 'length', v_run.history_length); END IF;
  RETURN v_answer || jsonb_build_object('due', v_run.worker_id IS NULL AND v_run.available_at <= p_now);
END $$;

-- Turns of many runs. The usual ones, each of another run, are numbered from 1, in order of id. p_ids, p_numbers: which they are, and of each
-- 10 numbers (see commitTurns.ts); p_turns: what else the rows of those get that don't just run on, as JSON.
-- p_places: 5 numbers of each record; p_types … p_states: its texts. p_more: what else the turns have (consumed messages, states, updates,
-- attempts); p_others: turns that go one by one, after them; p_touched, p_ending: ids of runs that those may reach, or end. The answer is
-- {} if all are committed and there is nothing else to answer. Of a run that can't end yet nothing is written (busy).
CREATE FUNCTION holdfast.commit_turns_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_ids text[], p_numbers bigint[], p_turns text,
  p_places integer[], p_types text[], p_units text[], p_names text[], p_refs text[], p_data text[], p_values text[], p_states text[], p_more text,
  p_others text, p_touched text, p_ending text)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
  v_now bigint;
  v_answer text;
  v_more json := p_more::json;
  v_keys bigint[] := '{}';
  v_held bigint[];
  v_again integer[];
  v_open boolean;
  v_ended bigint[];
  v_hearing bigint[];
  v_free bigint[];
  v_busy integer[];
  v_left integer[];
  v_late integer[];
  v_turnless bigint[];
  v_news boolean;
  v_messages boolean;
  v_due boolean;
  v_inbox json;
  v_family integer[];
  v_told boolean;
  v_next integer[];
  v_item jsonb;
  v_results jsonb;
  v_result jsonb;
BEGIN
  UPDATE holdfast.calls SET token = p_token, answer = NULL, at = now() WHERE instance = p_instance AND slot = p_slot AND token < p_token;
  IF NOT FOUND THEN
    v_answer := holdfast.begin_call_1(p_instance, p_slot, p_token);
    IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  END IF;
  -- Most runs that end have neither parent nor open children. That does not change meanwhile: only their own turns give them any. Nor does
  -- another run wait for them (Q10), or their next start for another (Q9): one that has just begun to is locked with NOWAIT.
  IF p_touched IS NOT NULL OR p_ending IS NOT NULL AND EXISTS (SELECT 1 FROM json_array_elements_text(p_ending::json) AS e(id)
      WHERE (SELECT x.parent_id IS NOT NULL OR x.awaited OR x.has_next FROM holdfast.runs x WHERE x.id = e.id)
        OR (SELECT 1 FROM holdfast.runs x WHERE x.parent_id = e.id AND x.finished_at IS NULL LIMIT 1) IS NOT NULL) THEN
    PERFORM holdfast.lock_runs_1(p_ids || ARRAY (SELECT * FROM json_array_elements_text(p_touched::json)),
      ARRAY (SELECT * FROM json_array_elements_text(p_ending::json)));
  END IF;
  -- D4: the turns that may write. Zero: this one may not.
  SELECT array_agg(coalesce(l.key, 0)), bool_or(l.last_message > p_numbers[t.i::integer * 10 - 7 /* seen */]), bool_or(l.last_message > 0),
      array_agg(t.i::integer) FILTER (WHERE NOT l.stays AND p_numbers[t.i::integer * 10 - 6 /* kind */] = 0),
      bool_or(p_numbers[t.i::integer * 10 - 6 /* kind */] IN (1, 2)),
      array_agg(l.key) FILTER (WHERE p_numbers[t.i::integer * 10 - 6 /* kind */] IN (3, 4)),
      array_agg(l.key) FILTER (WHERE p_numbers[t.i::integer * 10 - 6 /* kind */] = 4),
      array_agg(l.key) FILTER (WHERE p_numbers[t.i::integer * 10 - 4 /* index */] = -1)
    INTO v_keys, v_news, v_messages, v_again, v_open, v_ended, v_hearing, v_turnless
    FROM unnest(p_ids) WITH ORDINALITY AS t(id, i) LEFT JOIN LATERAL (
      SELECT r.key, r.last_message,
        r.status = 'running' AND p_numbers[t.i::integer * 10 - 5 /* rollbacks */] IN (-1, r.rollbacks) AND r.recoveries = 0 AND r.waiting_for IS NULL AND r.error IS NULL AND r.blocked_code IS NULL AS stays
      FROM holdfast.runs r WHERE r.id = t.id AND r.execution = p_numbers[t.i::integer * 10 - 9 /* execution */] AND r.epoch = p_numbers[t.i::integer * 10 - 8 /* epoch */] AND r.worker_id IS NOT NULL
      FOR NO KEY UPDATE
    ) l ON true;
  v_keys := coalesce(v_keys, '{}');
  v_held := v_keys;
  v_now := holdfast.clock_1(p_now);
  IF v_hearing IS NOT NULL THEN
    -- M1: a run can't end while a caller's transaction that has a signal for it is open (see post_mail_1).
    v_free := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (v_hearing) ORDER BY r.id FOR UPDATE SKIP LOCKED);
    SELECT array_agg(array_position(v_keys, h.key)) INTO v_busy FROM unnest(v_hearing) AS h(key) WHERE h.key <> ALL (v_free);
  END IF;
  IF v_ended IS NOT NULL AND EXISTS (SELECT 1 FROM holdfast.mail WHERE error IS NULL AND run_id = ANY (p_ids))
    AND holdfast.take_mail_1(ARRAY (SELECT u.id FROM unnest(p_ids, v_keys) AS u(id, key) WHERE u.key = ANY (v_ended)), v_now) THEN
    v_messages := true;
    v_news := true;
  END IF;
  IF v_messages AND v_ended IS NOT NULL THEN
    SELECT array_agg(t.i) INTO v_late FROM json_to_recordset(p_turns::json) AS t(i integer, lc boolean, ls text[])
      WHERE t.ls IS NOT NULL AND v_keys[t.i] <> 0 AND holdfast.is_late_1(v_keys[t.i], t.lc, t.ls,
        ARRAY (SELECT m.id FROM json_to_recordset(v_more -> 'consumed') AS m(i integer, id bigint) WHERE m.i = t.i));
  END IF;
  v_left := v_busy || v_late;
  IF v_left IS NOT NULL THEN
    -- Nothing of these is written: as if they had lost their claims.
    v_ended := ARRAY (SELECT e.key FROM unnest(v_ended) AS e(key) WHERE array_position(v_keys, e.key) <> ALL (v_left));
    v_turnless := ARRAY (SELECT e.key FROM unnest(v_turnless) AS e(key) WHERE array_position(v_keys, e.key) <> ALL (v_left));
    v_keys := ARRAY (SELECT CASE WHEN u.i = ANY (v_left) THEN 0 ELSE u.key END FROM unnest(v_keys) WITH ORDINALITY AS u(key, i) ORDER BY u.i);
  END IF;
  -- A turn says what its row has to count; where there is none, the row is brought up to date first.
  IF v_turnless IS NOT NULL THEN PERFORM holdfast.count_turns_1(k.key) FROM unnest(v_turnless) AS k(key); END IF;
  IF p_places IS NOT NULL THEN
    INSERT INTO holdfast.records (run, execution, turn, position, direction, type, seq, n, worker, time, history_length, unit, name, refs, data, value, state)
      SELECT v_keys[r.i], p_numbers[r.i * 10 - 9 /* execution */], p_numbers[r.i * 10 - 4 /* index */], r.p, ('{job,command,turn}'::text[])[r.direction], r.y, nullif(r.q, -1), nullif(r.n, -1),
        CASE r.p WHEN 0 THEN p_numbers[r.i * 10 - 0 /* worker */] END, CASE r.p WHEN 0 THEN p_numbers[r.i * 10 - 3 /* time */] END,
        CASE r.p WHEN 0 THEN p_numbers[r.i * 10 - 2 /* length */] END, r.u, r.m, r.f::text[], r.d, r.v, r.s
      FROM (SELECT x.*, p_places[x.o::integer * 5 - 4 /* turn */] AS i, p_places[x.o::integer * 5 - 3 /* position */] AS p, p_places[x.o::integer * 5 - 2 /* direction */] AS direction, p_places[x.o::integer * 5 - 1 /* seq */] AS q, p_places[x.o::integer * 5 - 0 /* n */] AS n
        FROM unnest(p_types, p_units, p_names, p_refs, p_data, p_values, p_states) WITH ORDINALITY AS x(y, u, m, f, d, v, s, o)) r
      WHERE v_keys[r.i] <> 0;
  END IF;
  IF p_more IS NOT NULL THEN
    -- An id belongs to one message of one run: a turn that has lost its claim takes none (v_keys is zero).
    DELETE FROM holdfast.inbox b USING json_to_recordset(v_more -> 'consumed') AS m(i integer, id bigint) WHERE b.run = v_keys[m.i] AND b.id = m.id;
    INSERT INTO holdfast.states (run, state)
      SELECT v_keys[m.i], m.state FROM json_to_recordset(v_more -> 'states') AS m(i integer, state text) WHERE v_keys[m.i] <> 0
      ON CONFLICT (run) DO UPDATE SET state = excluded.state;
    INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
      SELECT v_keys[a.i], a.x, a.seq, a.number, false, a.status, a.worker, a.started, a.ended, a.retry, a.error
      FROM json_to_recordset(v_more -> 'attempts') AS a(i integer, x integer, seq integer, number integer, status text, worker text, started bigint, ended bigint, retry bigint, error text) WHERE v_keys[a.i] <> 0
      ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id,
  started_at = excluded.started_at, ended_at = excluded.ended_at, retry_at = excluded.retry_at, error = excluded.error;
    WITH settled AS MATERIALIZED (
      SELECT v_keys[m.i] AS run, m.id, m.status, m.value, m.error
      FROM json_to_recordset(v_more -> 'updates') AS m(i integer, id text, status text, value text, error text) WHERE v_keys[m.i] <> 0
    ), gone AS (
      DELETE FROM holdfast.updates WHERE run = ANY (ARRAY (SELECT x.run FROM settled x)) AND forget_at <= v_now
    )
    INSERT INTO holdfast.updates AS u (run, id, inbox_id, status, value, error) SELECT run, id, 0, status, value, error FROM settled
      ON CONFLICT (run, id) DO UPDATE SET status = excluded.status, value = excluded.value,
        error = excluded.error, forget_at = CASE WHEN u.keyless THEN v_now + 3600000 END WHERE u.status IS NULL;
  END IF;
  IF v_again IS NOT NULL THEN
    -- They had waited, or been recovered.
    UPDATE holdfast.runs r SET status = 'running', waiting_for = NULL, error = NULL, blocked_code = NULL, recoveries = 0, rollbacks = CASE p_numbers[t.i::integer * 10 - 5 /* rollbacks */] WHEN -1 THEN r.rollbacks ELSE p_numbers[t.i::integer * 10 - 5 /* rollbacks */] END, turns = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.turns ELSE p_numbers[t.i::integer * 10 - 4 /* index */] + 1 END,
        history_length = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.history_length ELSE p_numbers[t.i::integer * 10 - 2 /* length */] + p_numbers[t.i::integer * 10 - 1 /* records */] END
      FROM unnest(v_again) AS t(i) WHERE r.key = v_keys[t.i];
  END IF;
  IF v_open THEN WITH changed AS (
    UPDATE holdfast.runs r SET status = t.s, waiting_for = t.wf, error = t.er, blocked_code = t.bc, rollbacks = CASE p_numbers[t.i::integer * 10 - 5 /* rollbacks */] WHEN -1 THEN r.rollbacks ELSE p_numbers[t.i::integer * 10 - 5 /* rollbacks */] END, turns = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.turns ELSE p_numbers[t.i::integer * 10 - 4 /* index */] + 1 END,
        history_length = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.history_length ELSE p_numbers[t.i::integer * 10 - 2 /* length */] + p_numbers[t.i::integer * 10 - 1 /* records */] END,
        recoveries = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.recoveries ELSE 0 END,
        parked_by = CASE WHEN p_numbers[t.i::integer * 10 - 6 /* kind */] = 2 THEN r.worker_id ELSE r.parked_by END, worker_id = CASE WHEN NOT p_numbers[t.i::integer * 10 - 6 /* kind */] = 2 THEN r.worker_id END,
        available_at = CASE WHEN NOT p_numbers[t.i::integer * 10 - 6 /* kind */] = 2 THEN r.available_at
          WHEN r.last_message > p_numbers[t.i::integer * 10 - 7 /* seen */] AND EXISTS (SELECT 1 FROM holdfast.inbox b WHERE b.run = r.key AND b.id > p_numbers[t.i::integer * 10 - 7 /* seen */]) THEN least(t.wake, v_now)
          ELSE t.wake END
      FROM json_to_recordset(p_turns::json) AS t(i integer, s text, wf text, wake bigint, er text, bc text, c text)
      WHERE t.c IS NULL AND r.key = v_keys[t.i]
      RETURNING r.worker_id, r.available_at
  )
  SELECT bool_or(worker_id IS NULL AND available_at <= v_now) INTO v_due FROM changed; END IF;
  IF p_ending IS NOT NULL THEN
    -- All of them end before anything follows from it: a child that ends in the same batch does not follow its parent.
    SELECT array_agg(array_position(v_keys, e.key)) FILTER (WHERE r.leads), bool_or(r.parent_id IS NOT NULL), array_agg(array_position(v_keys, e.key)) FILTER (WHERE r.has_next)
      INTO v_family, v_told, v_next
      FROM unnest(v_ended) AS e(key) CROSS JOIN LATERAL (
        SELECT x.parent_id, x.has_next, EXISTS (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = x.id AND c.finished_at IS NULL)
          OR EXISTS (SELECT 1 FROM holdfast.tasks a WHERE a.run = x.key)
          OR EXISTS (SELECT 1 FROM holdfast.updates u WHERE u.run = x.key AND u.status IS NULL) OR x.awaited OR x.has_next AS leads
        FROM holdfast.runs x WHERE x.key = e.key OFFSET 0) r;
    UPDATE holdfast.runs r SET status = t.c, ended_as = t.c, output = t.o, error = t.er, resumable = t.c = 'failed' AND coalesce(t.rs, true),
        turns = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.turns ELSE p_numbers[t.i::integer * 10 - 4 /* index */] + 1 END,
        history_length = CASE p_numbers[t.i::integer * 10 - 4 /* index */] WHEN -1 THEN r.history_length ELSE p_numbers[t.i::integer * 10 - 2 /* length */] + p_numbers[t.i::integer * 10 - 1 /* records */] END, finished_at = v_now, worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0, epoch = epoch + 1,
        remove_at = CASE WHEN retention IS NULL THEN v_now + holdfast.kept_for_1() WHEN retention >= 0 THEN v_now + retention END
      FROM json_to_recordset(p_turns::json) AS t(i integer, c text, o text, er text, rs boolean)
      WHERE t.c IS NOT NULL AND r.key = v_keys[t.i];
    IF v_messages THEN
      -- D10: signals wait for a run that may be resumed. For those with a family the rest follows below.
      DELETE FROM holdfast.inbox b WHERE b.run = ANY (v_ended) AND (v_family IS NULL OR array_position(v_keys, b.run) <> ALL (v_family))
        AND NOT (b.type = 'signal' AND (SELECT r.resumable FROM holdfast.runs r WHERE r.key = b.run));
    END IF;
    IF v_family IS NOT NULL THEN
      PERFORM holdfast.follow_end_1(v_keys[f.i], v_now, CASE WHEN f.i = ANY (v_next) THEN (SELECT t.uc FROM json_to_recordset(p_turns::json) AS t(i integer, uc jsonb) WHERE t.i = f.i) END)
        FROM (SELECT unnest(v_family) AS i ORDER BY 1) f;
    END IF;
    IF v_told THEN v_told := holdfast.tell_parents_1(ARRAY (SELECT e.key FROM unnest(v_ended) AS e(key) WHERE v_family IS NULL OR array_position(v_keys, e.key) <> ALL (v_family)), v_now); END IF;
  END IF;
  IF v_news THEN
    SELECT json_agg(json_build_array(t.i, b.id, b.type, b.seq, b.name, b.refs, b.data, b.value) ORDER BY b.id) INTO v_inbox
      FROM generate_subscripts(p_ids, 1) AS t(i)
      CROSS JOIN LATERAL (SELECT * FROM holdfast.inbox x WHERE x.run = v_held[t.i] AND x.id > p_numbers[t.i::integer * 10 - 7 /* seen */] OFFSET 0) b
      WHERE p_numbers[t.i::integer * 10 - 6 /* kind */] IN (0, 1) OR t.i = ANY (v_late);
  END IF;
  IF p_others IS NOT NULL THEN
    v_results := '[]';
    FOR v_item IN SELECT * FROM jsonb_array_elements(p_others::jsonb) LOOP
      v_result := holdfast.commit_turn_1(v_item, v_now);
      v_due := coalesce(v_due, false) OR coalesce((v_result ->> 'due')::boolean, false);
      v_results := v_results || v_result;
    END LOOP;
  END IF;
  IF 0 <> ALL (v_keys) AND v_inbox IS NULL AND v_results IS NULL AND v_due IS NOT TRUE AND v_family IS NULL AND v_told IS NOT TRUE THEN RETURN '{}'; END IF;
  RETURN holdfast.end_call_1(p_instance, p_slot, json_build_object(
    'stale', (SELECT json_agg(i) FROM unnest(v_keys) WITH ORDINALITY AS u(key, i) WHERE key = 0),
    'late', to_json(v_late), 'busy', to_json(v_busy), 'inbox', v_inbox, 'others', v_results, 'due', v_due, 'family', v_family IS NOT NULL OR v_told, 'next', to_json(v_next))::text);
END $$;
