-- Schedules, and the ticks that start their runs: T1 (a tick replaces the one that it names, or writes nothing), T6 (overlap).

CREATE FUNCTION holdfast.read_schedules_1(p_now bigint, p_ids text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT json_build_object('now', holdfast.clock_1(p_now), 'schedules', (SELECT json_agg(row_to_json(s)) FROM holdfast.schedules s
    WHERE s.id = ANY (ARRAY (SELECT * FROM json_array_elements_text(p_ids::json)))))::text
$$;

-- In the order of their ids.
CREATE FUNCTION holdfast.list_schedules_1(p_now bigint, p_after text, p_limit integer) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT json_build_object('now', holdfast.clock_1(p_now), 'schedules', (SELECT json_agg(row_to_json(s)) FROM (SELECT * FROM holdfast.schedules
    WHERE p_after IS NULL OR id > p_after ORDER BY id LIMIT p_limit) s))::text
$$;

-- What a caller makes of a schedule, if it is still as the caller has read it: p_revision and p_tick, both null if there is none.
CREATE FUNCTION holdfast.change_schedule_1(p_instance text, p_slot integer, p_token bigint, p_id text, p_revision text, p_tick bigint, p_after text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  n record;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  SELECT * INTO n FROM json_to_record(p_after::json) AS x(revision text, spec text, paused boolean, tick bigint, "dueAt" bigint);
  IF p_revision IS NULL THEN
    INSERT INTO holdfast.schedules (id, revision, spec, paused, tick, due_at) VALUES (p_id, n.revision, n.spec, n.paused, n.tick, n."dueAt")
      ON CONFLICT DO NOTHING;
  ELSE
    UPDATE holdfast.schedules SET revision = n.revision, spec = n.spec, paused = n.paused, tick = n.tick, due_at = n."dueAt"
      WHERE id = p_id AND revision = p_revision AND tick IS NOT DISTINCT FROM p_tick;
  END IF;
  RETURN holdfast.end_call_1(p_instance, p_slot, CASE WHEN FOUND THEN 'changed' ELSE 'as it was' END);
END $$;

CREATE FUNCTION holdfast.delete_schedule_1(p_id text) RETURNS text LANGUAGE sql AS $$
  DELETE FROM holdfast.schedules WHERE id = p_id;
  SELECT '{}'
$$;

-- Ticks, in order. Each has: i schedule, v revision, f the tick that it replaces, m how many are too late, o overlap, n the next tick, d when
-- that is due, r the run to be started (as create_run reads it), c the cancellation of the run before it, q how many may wait.
-- The answer to one whose schedule, or the run that it has to wait for or to cancel, another transaction has locked is null.
CREATE FUNCTION holdfast.tick_schedules_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_ticks text, p_wait boolean)
RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint;
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_ticks jsonb := p_ticks::jsonb;
  v_tick jsonb;
  v_run jsonb;
  v_row holdfast.schedules;
  v_locked text[];
  v_touched text[];
  v_free bigint[];
  v_busy text[];
  v_previous text;
  v_result text;
  v_results jsonb := '[]';
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  PERFORM set_config('lock_timeout', '1s', true);
  v_locked := ARRAY (SELECT s.id FROM holdfast.schedules s
    WHERE s.id = ANY (ARRAY (SELECT DISTINCT t ->> 'i' FROM jsonb_array_elements(v_ticks) t)) ORDER BY s.id FOR UPDATE SKIP LOCKED);
  -- Schedules first, runs after them, as everywhere. A run that is canceled may end here and now.
  v_touched := ARRAY (SELECT s.last_run FROM jsonb_array_elements(v_ticks) t JOIN LATERAL (SELECT x.last_run FROM holdfast.schedules x
    WHERE x.id = t ->> 'i' OFFSET 0) s ON true WHERE t ->> 'o' IN ('queue', 'cancel-previous') AND t ? 'r' AND s.last_run IS NOT NULL);
  IF cardinality(v_touched) > 0 THEN
    v_free := holdfast.lock_free_1(v_touched, v_touched, p_wait);
    v_busy := ARRAY (SELECT id FROM holdfast.runs WHERE id = ANY (v_touched) AND key <> ALL (v_free));
  END IF;
  v_now := holdfast.clock_1(p_now);
  FOR v_tick IN SELECT * FROM jsonb_array_elements(v_ticks) LOOP
    v_run := v_tick -> 'r';
    SELECT * INTO v_row FROM holdfast.schedules WHERE id = v_tick ->> 'i';
    IF NOT FOUND THEN v_result := 'lost';
    ELSIF v_row.id <> ALL (v_locked) OR v_row.last_run = ANY (v_busy) THEN
      -- Those behind it keep their order: their ticks are not the one that the schedule has.
      v_results := v_results || 'null'::jsonb;
      CONTINUE;
    ELSIF v_row.revision <> v_tick ->> 'v' OR v_row.tick IS DISTINCT FROM (v_tick ->> 'f')::bigint THEN v_result := 'lost';
    ELSIF v_run IS NULL THEN v_result := 'moved';
    ELSIF EXISTS (SELECT 1 FROM holdfast.runs WHERE id = v_run ->> 'id') THEN v_result := 'started';
    ELSE
      v_result := 'started';
      v_previous := (SELECT id FROM holdfast.runs WHERE id = v_row.last_run AND finished_at IS NULL);
      IF v_previous IS NOT NULL AND v_tick ->> 'o' <> 'allow' THEN
        IF v_tick ->> 'o' = 'skip' THEN v_result := 'skipped';
        ELSIF v_tick ->> 'o' = 'queue' AND (SELECT count(*) FROM holdfast.runs WHERE schedule = v_row.id AND schedule IS NOT NULL AND after_id IS NOT NULL
          AND finished_at IS NULL AND tick IS NOT NULL) >= (v_tick ->> 'q')::integer THEN v_result := 'skipped';
        ELSE v_run := jsonb_set(v_run, '{origin,after}', to_jsonb(v_previous));
        END IF;
      END IF;
      IF v_result = 'started' THEN
        PERFORM holdfast.create_run_1(v_run, v_now);
        -- Q10: only then, so that this run waits for what that one waits for, if it has not begun.
        IF v_previous IS NOT NULL AND v_tick ? 'c' THEN PERFORM holdfast.deliver_1(v_previous, v_tick -> 'c', v_now); END IF;
      END IF;
    END IF;
    IF v_result <> 'lost' THEN
      UPDATE holdfast.schedules SET tick = (v_tick ->> 'n')::bigint, due_at = (v_tick ->> 'd')::bigint,
          missed = missed + (v_tick ->> 'm')::bigint + CASE WHEN v_result = 'skipped' THEN 1 ELSE 0 END,
          last_tick = CASE WHEN v_result = 'started' THEN (v_run #>> '{origin,tick}')::bigint ELSE last_tick END,
          last_run = CASE WHEN v_result = 'started' THEN v_run ->> 'id' ELSE last_run END
        WHERE id = v_row.id;
    END IF;
    v_results := v_results || to_jsonb(v_result);
  END LOOP;
  RETURN holdfast.end_call_1(p_instance, p_slot, v_results::text);
END $$;
