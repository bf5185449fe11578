-- L4, R11: deletes the records that a loop or a receive has left behind.

-- L4, R11: deletes what the commit of a scope has left behind, as the core's `trimmed` does. p_trims: seq and unit of the scope, p the
-- position of its commit in the turn, trim the first iteration or dispatch whose records stay. Returns how many records are gone.
CREATE FUNCTION holdfast.trim_records_1(p_run bigint, p_execution integer, p_turn integer, p_trims jsonb) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_trim record;
  v_turn integer;
  v_position integer;
  v_gone integer[];
  v_opened integer[];
  v_consumed text[];
  v_total integer := 0;
  v_count integer;
  v_facts holdfast.records[];
  v_seqs integer[];
BEGIN
  FOR v_trim IN SELECT * FROM jsonb_to_recordset(p_trims) AS x(seq integer, unit text, p integer, trim integer) LOOP
    -- Where the scope was opened: all that it leaves behind came after that.
    SELECT turn, position INTO v_turn, v_position FROM holdfast.records
      WHERE run = p_run AND execution = p_execution AND seq = v_trim.seq AND n IS NOT NULL AND direction = 'command' ORDER BY turn, position LIMIT 1;
    IF NOT FOUND THEN v_turn := p_turn; v_position := v_trim.p; END IF;
    WITH before AS (
      SELECT seq, n, type, refs, (turn, position) > (v_turn, v_position) AND seq IS DISTINCT FROM v_trim.seq
          OR (turn, position) > (v_turn, v_position) AND n IS NULL AS beneath,
        CASE WHEN starts_with(unit, v_trim.unit || '/')
          THEN substring(substr(unit, length(v_trim.unit) + 2) FROM '^~h?([0-9]+)')::numeric < v_trim.trim END AS past
      FROM holdfast.records WHERE run = p_run AND execution = p_execution AND direction = 'command' AND (turn, position) < (p_turn, v_trim.p)
    ), gone AS (
      SELECT seq FROM before WHERE beneath AND n IS NOT NULL AND past
    )
    SELECT ARRAY (SELECT seq FROM gone),
      ARRAY (SELECT seq FROM before WHERE n IS NOT NULL),
      ARRAY (SELECT unnest(b.refs) FROM before b
        WHERE b.beneath AND (b.type = 'dispatch' AND b.past OR b.type = 'settle' AND b.seq IN (SELECT seq FROM gone)))
    INTO v_gone, v_opened, v_consumed;
    WITH dropped AS (
      DELETE FROM holdfast.records r WHERE run = p_run AND execution = p_execution AND (
        direction = 'turn'
        OR direction = 'job' AND turn <= p_turn AND CASE
          WHEN type IN ('fire', 'resolve', 'childStarted') THEN seq = ANY (v_gone) OR seq > v_trim.seq AND seq <> ALL (v_opened)
          WHEN type IN ('signal', 'update') THEN refs[1] = ANY (v_consumed)
          ELSE false END
        OR direction = 'command' AND (turn, position) < (p_turn, v_trim.p) AND CASE
          WHEN n IS NOT NULL THEN seq = ANY (v_gone)
          WHEN type = 'commit' THEN seq = ANY (v_gone) OR seq = v_trim.seq
          WHEN type IN ('dispatch', 'handlerFailed') THEN (turn, position) > (v_turn, v_position) AND starts_with(unit, v_trim.unit || '/')
            AND substring(substr(unit, length(v_trim.unit) + 2) FROM '^~h?([0-9]+)')::numeric < v_trim.trim
          WHEN type IN ('acceptUpdate', 'completeUpdate') THEN seq = ANY (v_gone) OR refs[1] = ANY (v_consumed)
          ELSE seq = ANY (v_gone) END)
      RETURNING r.*
    )
    SELECT count(*) FILTER (WHERE d.direction <> 'turn'), array_agg(ROW (d.*)::holdfast.records) FILTER (WHERE d.history_length IS NOT NULL),
      array_agg(d.seq) FILTER (WHERE d.n IS NOT NULL)
    INTO v_count, v_facts, v_seqs FROM dropped d;
    v_total := v_total + v_count;
    -- What belongs to a turn as a whole outlives its first row.
    UPDATE holdfast.records r SET time = f.time, history_length = f.history_length, worker = f.worker, state = f.state FROM unnest(v_facts) f
      WHERE r.run = p_run AND r.execution = p_execution AND r.turn = f.turn
        AND r.position = (SELECT min(q.position) FROM holdfast.records q WHERE q.run = p_run AND q.execution = p_execution AND q.turn = f.turn);
    DELETE FROM holdfast.attempts WHERE run = p_run AND execution = p_execution AND seq = ANY (v_seqs);
  END LOOP;
  RETURN v_total;
END $$;
