-- The history that a fork begins with, in the transaction that creates its run (F1): records, the workers and attempts of their operations
-- (D12), used keys (M3), the state at the cut. The records are text inside of it: json is faster to read than jsonb.

CREATE FUNCTION holdfast.copy_history_1(p_run bigint, p_copied jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  -- In their order: records have a place in this list.
  v_workers integer[] := ARRAY (SELECT (SELECT w.key FROM holdfast.workers w WHERE w.id = o.id)
    FROM jsonb_array_elements_text(p_copied -> 'workers') WITH ORDINALITY AS o(id, i) ORDER BY o.i);
BEGIN
  INSERT INTO holdfast.records (run, execution, turn, position, direction, type, seq, n, worker, time, history_length, unit, name, refs, data, value, state)
    SELECT p_run, 1, r.t, r.p, r.k, r.y, r.q, r.n, v_workers[r.w], r.c, r.h, r.u, r.m, r.f, r.d, r.v, r.s
    FROM json_to_recordset((p_copied ->> 'records')::json) AS r(t integer, p integer, k text, y text, q integer, n integer, w integer, c bigint, h integer, u text, m text, f text[], d text, v text, s text);
  INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
    SELECT p_run, 1, a.seq, a.number, coalesce(a.task, false), a.status, a.worker, a.started, a.ended, a.retry, a.error
    FROM jsonb_to_recordset(p_copied -> 'attempts') AS a(seq integer, number integer, task boolean, status text, worker text, started bigint, ended bigint, retry bigint, error text);
  INSERT INTO holdfast.message_keys (run, key, inbox_id) SELECT p_run, k.key, 0 FROM jsonb_array_elements_text(p_copied -> 'keys') AS k(key);
  IF p_copied ->> 'state' IS NOT NULL THEN INSERT INTO holdfast.states (run, state) VALUES (p_run, p_copied ->> 'state'); END IF;
  UPDATE holdfast.runs SET status = CASE WHEN (p_copied ->> 'turns')::integer = 0 THEN 'pending' ELSE 'sleeping' END, turns = (p_copied ->> 'turns')::integer, history_length = (p_copied ->> 'length')::integer,
    attempt = (p_copied ->> 'attempt')::integer, rollbacks = (p_copied ->> 'rollbacks')::integer WHERE key = p_run;
END $$;
