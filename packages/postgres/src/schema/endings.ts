// In SQL: the end of a run, what follows from it, and its next execution.
// Owns: closing, telling the parent, what happens to children; cancellation, since it may close a run that has not begun.
// Invariants: P1 (one end), K5 (the epoch rises: nothing that was computed before counts any more), K6 (children follow), K9, P10, M10.

import { BY_INDEX, NOTHING } from "./messages.ts";

export const endings = (s: string): string => `
-- Gives up the activities of a run, all of them or those of these operations (C7). What a worker has of them is over: it will be told.
CREATE FUNCTION ${s}.drop_tasks_1(p_run bigint, p_seqs integer[], p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM ${s}.tasks WHERE run = p_run AND (p_seqs IS NULL OR seq = ANY (p_seqs)) FOR UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  INSERT INTO ${s}.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at)
    SELECT run, execution, seq, attempt, true, 'lost', worker_id, started_at, p_now FROM ${s}.tasks
    WHERE run = p_run AND (p_seqs IS NULL OR seq = ANY (p_seqs)) AND worker_id IS NOT NULL
    ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, ended_at = excluded.ended_at;
  DELETE FROM ${s}.tasks WHERE run = p_run AND (p_seqs IS NULL OR seq = ANY (p_seqs));
END $$;

-- Tells the parents of closed runs how these ended, as far as they still are their parents: closed runs and later executions did not ask.
-- Rows of parents are locked. False: nobody was told.
CREATE FUNCTION ${s}.tell_parents_1(p_runs bigint[], p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_parents bigint[];
  v_ids bigint[];
BEGIN
  WITH told AS MATERIALIZED (
    SELECT o.*, nextval('${s}.inbox_ids') AS inbox_id FROM (
      SELECT p.key AS parent, c.id, c.status, c.output, c.error, c.parent_seq FROM unnest(p_runs) WITH ORDINALITY AS u(key, i)
        CROSS JOIN LATERAL (SELECT * FROM ${s}.runs x WHERE x.key = u.key OFFSET 0) c
        CROSS JOIN LATERAL (SELECT x.key FROM ${s}.runs x WHERE x.id = c.parent_id AND x.finished_at IS NULL AND x.execution = c.parent_execution
          FOR NO KEY UPDATE NOWAIT) p
      ORDER BY u.i) o
  ), put AS (
    INSERT INTO ${s}.inbox (run, id, received_at, type, seq, data, value)
      SELECT parent, inbox_id, p_now, 'resolve', parent_seq, CASE status
          WHEN 'completed' THEN NULL
          WHEN 'canceled' THEN '{"status":"canceled"}'
          ELSE '{"status":"failed","error":' || coalesce(error,
            json_build_object('name', 'Error', 'message', format('The child %s ended as %s.', id, status))::text) || '}' END,
        CASE status WHEN 'completed' THEN coalesce(output, ${NOTHING}) END
      FROM told
  )
  -- The last first, so that it is the one that is found.
  SELECT array_agg(parent ORDER BY inbox_id DESC), array_agg(inbox_id ORDER BY inbox_id DESC) INTO v_parents, v_ids FROM told;
  IF v_parents IS NULL THEN RETURN false; END IF;
  UPDATE ${s}.runs r SET last_message = v_ids[array_position(v_parents, r.key)],
      available_at = CASE WHEN r.worker_id IS NULL AND r.status NOT IN ('pending', 'blocked') THEN least(r.available_at, p_now) ELSE r.available_at END
    WHERE r.key = ANY (v_parents);
  RETURN true;
END $$;

-- What follows from the end of a run, whose row says how it ended: updates, messages and activities of its, its parent, its children.
CREATE FUNCTION ${s}.follow_end_1(p_run bigint, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_run ${s}.runs;
  v_child record;
BEGIN
  SELECT * INTO v_run FROM ${s}.runs WHERE key = p_run;
  -- M10: what nobody took is rejected, what was taken and has no outcome has failed.
  UPDATE ${s}.updates u SET error = ${s}.error_1('closed', v_run.id, v_run.status),
      status = CASE WHEN EXISTS (SELECT 1 FROM ${s}.inbox i WHERE i.run = p_run AND i.id = u.inbox_id) THEN 'rejected' ELSE 'failed' END
    WHERE u.run = p_run AND u.status IS NULL;
  -- D10: signals wait for a run that may be resumed.
  DELETE FROM ${s}.inbox WHERE run = p_run AND NOT (v_run.resumable AND type = 'signal');
  PERFORM ${s}.drop_tasks_1(p_run, NULL, p_now);
  IF v_run.parent_id IS NOT NULL THEN PERFORM ${s}.tell_parents_1(ARRAY[p_run], p_now); END IF;
  FOR v_child IN SELECT key, id, parent_close FROM ${s}.runs WHERE parent_id = v_run.id AND finished_at IS NULL ORDER BY key LOOP
    IF v_child.parent_close = 'terminate' THEN
      PERFORM ${s}.close_run_1(v_child.key, 'terminated', NULL,
        ${s}.error_1('terminated', v_child.id, format('its parent %s has ended', v_run.id)), false, p_now);
    ELSIF v_child.parent_close = 'cancel' THEN
      PERFORM ${s}.cancel_run_1(v_child.key, ${s}.cancel_message_1(format('its parent %s has ended', v_run.id)), p_now);
    END IF;
  END LOOP;
END $$;

-- p_turns, p_records: of the turn that it ends with, if it does; its row is up to date but for them.
CREATE FUNCTION ${s}.close_run_1(p_run bigint, p_status text, p_output text, p_error text, p_resumable boolean, p_now bigint,
  p_turns integer DEFAULT NULL, p_records integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM ${s}.runs WHERE key = p_run AND finished_at IS NULL FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN; END IF;
  IF p_turns IS NULL THEN PERFORM ${s}.settle_1(p_run); END IF;
  UPDATE ${s}.runs SET status = p_status, ended_as = p_status, output = p_output, error = p_error,
      resumable = p_status = 'failed' AND coalesce(p_resumable, true), finished_at = p_now, turns = turns + coalesce(p_turns, 0),
      history_length = history_length + coalesce(p_records, 0), worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0,
      epoch = epoch + 1
    WHERE key = p_run;
  PERFORM ${s}.follow_end_1(p_run, p_now);
END $$;

CREATE FUNCTION ${s}.cancel_message_1(p_reason text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('y', 'cancel', 'd', json_build_object('reason', p_reason)::text)
$$;

-- Asks an open run to cancel. One that no worker has begun with is canceled here and now (K9). Returns the inbox id, 0 if there is none.
CREATE FUNCTION ${s}.cancel_run_1(p_run bigint, p_message jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_run ${s}.runs;
BEGIN
  SELECT * INTO v_run FROM ${s}.runs WHERE key = p_run AND finished_at IS NULL FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN 0; END IF;
  IF v_run.turns > 0 OR v_run.worker_id IS NOT NULL THEN RETURN ${s}.put_1(p_run, p_message, p_now); END IF;
  PERFORM ${s}.close_run_1(p_run, 'canceled', NULL, ${s}.canceled_error_1(p_message), false, p_now);
  RETURN 0;
END $$;

-- P10: the next execution begins with an empty history.
CREATE FUNCTION ${s}.begin_execution_1(p_run bigint, p_workflow text, p_version text, p_lane integer, p_seed text, p_input text, p_at bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_execution integer;
BEGIN
  UPDATE ${s}.runs SET workflow = p_workflow, version = p_version, lane = p_lane, available_at = p_at, status = 'pending', ended_as = NULL,
      execution = execution + 1, epoch = epoch + 1, attempt = 1, turns = 0, history_length = 0, rollbacks = 0, recoveries = 0, worker_id = NULL,
      parked_by = NULL, finished_at = NULL, expired = false, resumable = false, waiting_for = NULL, blocked_code = NULL, error = NULL, output = NULL
    WHERE key = p_run RETURNING execution INTO v_execution;
  INSERT INTO ${s}.executions (run, execution, workflow, version, seed, input) VALUES (p_run, v_execution, p_workflow, p_version, p_seed, p_input);
END $$;

-- P10: as the code before it chose, on the same queue. Signals, updates and cancels wait for it, and carried ones go before them; no
-- worker holds an id of the run at this point. Answers to operations of the last execution go: the next one uses their numbers again.
CREATE FUNCTION ${s}.continue_run_1(p_run bigint, p_next jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_run ${s}.runs;
  v_lane integer;
  v_version text := p_next ->> 'version';
  v_first bigint;
  v_message jsonb;
  v_id bigint;
  v_moved bigint;
BEGIN
  SELECT * INTO v_run FROM ${s}.runs WHERE key = p_run;
  v_lane := v_run.lane;
  IF v_version IS DISTINCT FROM v_run.version THEN
    INSERT INTO ${s}.lanes (queue, workflow, version, priority) VALUES (v_run.queue, v_run.workflow, v_version, v_run.priority) ON CONFLICT DO NOTHING;
    SELECT lane INTO STRICT v_lane FROM ${s}.lanes
      WHERE queue = v_run.queue AND workflow = v_run.workflow AND version IS NOT DISTINCT FROM v_version AND priority = v_run.priority;
  END IF;
  PERFORM ${s}.drop_tasks_1(p_run, NULL, p_now);
  PERFORM ${s}.begin_execution_1(p_run, v_run.workflow, v_version, v_lane, p_next ->> 'seed', p_next ->> 'input', p_now);
  DELETE FROM ${s}.inbox WHERE run = p_run AND type NOT IN ('signal', 'update', 'cancel');
  IF jsonb_array_length(p_next -> 'carried') = 0 THEN RETURN; END IF;
  FOR v_message IN SELECT * FROM jsonb_array_elements(p_next -> 'carried') LOOP
    v_id := ${s}.put_1(p_run, v_message, p_now);
    v_first := coalesce(v_first, v_id);
  END LOOP;
  FOR v_id IN SELECT id FROM ${s}.inbox WHERE run = p_run AND id < v_first ORDER BY id LOOP
    v_moved := nextval('${s}.inbox_ids');
    UPDATE ${s}.inbox SET id = v_moved WHERE run = p_run AND id = v_id;
    UPDATE ${s}.updates SET inbox_id = v_moved WHERE run = p_run AND inbox_id = v_id;
    UPDATE ${s}.message_keys SET inbox_id = v_moved WHERE run = p_run AND inbox_id = v_id;
    UPDATE ${s}.runs SET last_message = v_moved WHERE key = p_run;
  END LOOP;
END $$;

-- K6. p_runs: r run id, e the error.
CREATE FUNCTION ${s}.terminate_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_runs text) RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
  v_answer text := ${s}.begin_call_1(p_instance, p_slot, p_token);
  v_results jsonb := '[]';
  v_item record;
  v_run ${s}.runs;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  PERFORM ${s}.lock_runs_1(ARRAY[]::text[], ARRAY (SELECT r FROM json_to_recordset(p_runs::json) AS t(r text)));
  FOR v_item IN SELECT * FROM json_to_recordset(p_runs::json) AS t(r text, e text) LOOP
    SELECT * INTO v_run FROM ${s}.runs WHERE id = v_item.r;
    IF NOT FOUND THEN v_results := v_results || '{"s":"not-found"}'::jsonb;
    ELSIF v_run.finished_at IS NOT NULL THEN v_results := v_results || jsonb_build_object('s', 'closed', 'r', v_run.status);
    ELSE
      PERFORM ${s}.close_run_1(v_run.key, 'terminated', NULL, v_item.e, false, v_now);
      v_results := v_results || '{"s":"sent","i":0}'::jsonb;
    END IF;
  END LOOP;
  RETURN ${s}.end_call_1(p_instance, p_slot, v_results::text);
END $$;

-- D10, another try for a blocked run (V4), or a wake-up for one that waits (V3). The run is locked.
CREATE FUNCTION ${s}.resume_run_1(p_run bigint, p_now bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_run ${s}.runs;
BEGIN
  SELECT * INTO v_run FROM ${s}.runs WHERE key = p_run;
  IF v_run.status = 'blocked' THEN
    UPDATE ${s}.runs SET available_at = least(available_at, p_now) WHERE key = p_run;
    RETURN 'resumed';
  END IF;
  IF v_run.finished_at IS NULL AND v_run.status <> 'pending' THEN
    IF v_run.worker_id IS NULL THEN UPDATE ${s}.runs SET available_at = least(available_at, p_now) WHERE key = p_run; END IF;
    RETURN 'woken';
  END IF;
  IF v_run.status <> 'failed' OR NOT v_run.resumable OR v_run.turns = 0 THEN RETURN 'not-resumable'; END IF;
  UPDATE ${s}.runs SET status = 'sleeping', ended_as = NULL, attempt = attempt + 1, error = NULL, output = NULL, finished_at = NULL,
      available_at = p_now WHERE key = p_run;
  PERFORM ${s}.put_1(p_run,
    jsonb_build_object('y', 'resume', 'd', json_build_object('attempt', v_run.attempt + 1, 'voids', '[]'::json)::text), p_now);
  RETURN 'resumed';
END $$;

CREATE FUNCTION ${s}.resume_runs_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_ids text) RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
  v_answer text := ${s}.begin_call_1(p_instance, p_slot, p_token);
  v_results jsonb := '[]';
  v_id text;
  v_key bigint;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  PERFORM ${s}.lock_runs_1(ARRAY (SELECT * FROM json_array_elements_text(p_ids::json)), ARRAY[]::text[]);
  FOR v_id IN SELECT * FROM json_array_elements_text(p_ids::json) LOOP
    SELECT key INTO v_key FROM ${s}.runs WHERE id = v_id;
    v_results := v_results || to_jsonb(CASE WHEN FOUND THEN ${s}.resume_run_1(v_key, v_now) ELSE 'not-found' END);
  END LOOP;
  RETURN ${s}.end_call_1(p_instance, p_slot, v_results::text);
END $$;

-- K7. p_runs: r run id, e the error that it fails with, n now: its deadline has not passed, but can't be met any more. Answers with how many are done with (n) and which are left (b): somebody has them
-- locked, or what their end would reach, with p_wait for longer than a moment.
CREATE FUNCTION ${s}.expire_runs_1(p_now bigint, p_runs text, p_wait boolean) RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
  v_count integer := 0;
  v_busy text[];
  v_free bigint[] := ${s}.lock_free_1('{}', ARRAY (SELECT r FROM json_to_recordset(p_runs::json) AS t(r text)), p_wait);
  v_item record;
  v_run ${s}.runs;
BEGIN
  FOR v_item IN SELECT * FROM json_to_recordset(p_runs::json) AS t(r text, e text, n boolean) LOOP
    SELECT * INTO v_run FROM ${s}.runs WHERE id = v_item.r AND (deadline_at <= v_now OR v_item.n) AND finished_at IS NULL AND NOT expired;
    IF NOT FOUND THEN CONTINUE; END IF;
    IF v_run.key <> ALL (v_free) THEN
      v_busy := v_busy || v_item.r;
      CONTINUE;
    END IF;
    v_count := v_count + 1;
    IF v_run.status = 'rolling_back' THEN
      -- S1: what it undoes is exempt.
      UPDATE ${s}.runs SET expired = true WHERE key = v_run.key;
    ELSIF v_run.rollbacks = 0 THEN
      PERFORM ${s}.close_run_1(v_run.key, 'failed', NULL, v_item.e, false, v_now);
    ELSE
      PERFORM ${s}.settle_1(v_run.key);
      UPDATE ${s}.runs SET expired = true, epoch = epoch + 1, worker_id = NULL,
          available_at = CASE status WHEN 'blocked' THEN available_at ELSE least(available_at, v_now) END,
          status = CASE status WHEN 'running' THEN 'sleeping' ELSE status END WHERE key = v_run.key;
      PERFORM ${s}.put_1(v_run.key, jsonb_build_object('y', 'expire', 'd', '{"error":' || v_item.e || '}'), v_now);
    END IF;
  END LOOP;
  RETURN json_build_object('n', v_count, 'b', v_busy)::text;
END $$;
`;
