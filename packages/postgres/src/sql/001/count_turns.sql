-- The usual turn of a worker that goes on writes records and no new version of the run's row. What the row counts (`turns`,
-- `history_length`) is true up to turn `turns`; the records from there on are the rest. A statement that ends a lease, or changes the row
-- anyway, brings both counts up to date: only a run that a worker has can be behind.

CREATE FUNCTION holdfast.count_turns_1(p_run bigint) RETURNS void LANGUAGE sql AS $$
  UPDATE holdfast.runs r SET turns = coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns), history_length = r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn')
    WHERE r.key = p_run AND r.worker_id IS NOT NULL AND EXISTS (SELECT 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns)
$$;
