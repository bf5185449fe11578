-- P10: the next execution of a run.

-- P10: the next execution begins with an empty history.
CREATE FUNCTION holdfast.begin_execution_1(p_run bigint, p_workflow text, p_version text, p_lane integer, p_seed text, p_input text, p_at bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_execution integer;
BEGIN
  UPDATE holdfast.runs SET workflow = p_workflow, version = p_version, lane = p_lane, available_at = p_at, status = 'pending', ended_as = NULL,
      execution = execution + 1, epoch = epoch + 1, attempt = 1, turns = 0, history_length = 0, rollbacks = 0, recoveries = 0, worker_id = NULL,
      parked_by = NULL, finished_at = NULL, remove_at = NULL, expired = false, resumable = false, waiting_for = NULL, blocked_code = NULL, error = NULL, output = NULL
    WHERE key = p_run RETURNING execution INTO v_execution;
  INSERT INTO holdfast.executions (run, execution, workflow, version, seed, input) VALUES (p_run, v_execution, p_workflow, p_version, p_seed, p_input);
END $$;

-- Carried messages go before those that wait in the inbox; no worker holds an id of the run at this point.
CREATE FUNCTION holdfast.carry_over_1(p_run bigint, p_carried jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_first bigint;
  v_message jsonb;
  v_id bigint;
  v_moved bigint;
BEGIN
  FOR v_message IN SELECT * FROM jsonb_array_elements(p_carried) LOOP
    v_id := holdfast.put_1(p_run, v_message, p_now);
    v_first := coalesce(v_first, v_id);
  END LOOP;
  FOR v_id IN SELECT id FROM holdfast.inbox WHERE run = p_run AND id < v_first ORDER BY id LOOP
    v_moved := nextval('holdfast.inbox_ids');
    UPDATE holdfast.inbox SET id = v_moved WHERE run = p_run AND id = v_id;
    UPDATE holdfast.updates SET inbox_id = v_moved WHERE run = p_run AND inbox_id = v_id;
    UPDATE holdfast.message_keys SET inbox_id = v_moved WHERE run = p_run AND inbox_id = v_id;
    UPDATE holdfast.runs SET last_message = v_moved WHERE key = p_run;
  END LOOP;
END $$;

-- P10: as the code before it chose, on the same queue. Signals, updates and cancels wait for it, and carried ones go before them. Answers to
-- operations of the last execution go: the next one uses their numbers again.
CREATE FUNCTION holdfast.continue_run_1(p_run bigint, p_next jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_run holdfast.runs;
  v_lane integer;
  v_version text := p_next ->> 'version';
BEGIN
  SELECT * INTO v_run FROM holdfast.runs WHERE key = p_run;
  v_lane := v_run.lane;
  IF v_version IS DISTINCT FROM v_run.version THEN
    INSERT INTO holdfast.lanes (queue, workflow, version, priority) VALUES (v_run.queue, v_run.workflow, v_version, v_run.priority) ON CONFLICT DO NOTHING;
    SELECT lane * sign(v_run.lane) INTO STRICT v_lane FROM holdfast.lanes
      WHERE queue = v_run.queue AND workflow = v_run.workflow AND version IS NOT DISTINCT FROM v_version AND priority = v_run.priority;
  END IF;
  PERFORM holdfast.drop_tasks_1(p_run, NULL, p_now);
  PERFORM holdfast.begin_execution_1(p_run, v_run.workflow, v_version, v_lane, p_next ->> 'seed', p_next ->> 'input', p_now);
  DELETE FROM holdfast.inbox WHERE run = p_run AND type NOT IN ('signal', 'update', 'cancel');
  IF jsonb_array_length(p_next -> 'carried') > 0 THEN PERFORM holdfast.carry_over_1(p_run, p_next -> 'carried', p_now); END IF;
END $$;
