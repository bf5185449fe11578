-- Locks on runs. Every function locks the runs that it writes to first, in order of id, FOR NO KEY UPDATE: two calls can't wait for each
-- other in a circle. A row that was not locked so is locked with NOWAIT or SKIP LOCKED.

-- Locks runs in order of id: those named, and for those that may end all that their end may reach: open descendants, and parents.
CREATE FUNCTION holdfast.lock_runs_1(p_ids text[], p_ending text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ids text[];
BEGIN
  WITH RECURSIVE ending AS (
    SELECT r.id, r.parent_id FROM holdfast.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT c.id, c.parent_id FROM ending e CROSS JOIN LATERAL (
      SELECT x.id, x.parent_id FROM holdfast.runs x WHERE x.parent_id = e.id AND x.finished_at IS NULL OFFSET 0) c
  )
  SELECT p_ids || array_agg(e.id) || array_agg(e.parent_id) FILTER (WHERE e.parent_id IS NOT NULL) INTO v_ids FROM ending e;
  PERFORM 1 FROM holdfast.runs WHERE id = ANY (v_ids) ORDER BY id FOR NO KEY UPDATE;
END $$;

-- Locks those of these runs that come free within moments, in order of id. Returns which. One that somebody keeps, a person at a console or
-- a transaction that is still open, costs those after it a tenth of a second, and three of them no more than that.
CREATE FUNCTION holdfast.lock_soon_1(p_keys bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_until timestamptz := clock_timestamp() + interval '300 milliseconds';
  v_before text := current_setting('lock_timeout');
  v_free bigint[] := '{}';
  v_key bigint;
BEGIN
  FOREACH v_key IN ARRAY ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (p_keys) ORDER BY id) LOOP
    PERFORM set_config('lock_timeout', CASE WHEN clock_timestamp() < v_until THEN '100ms' ELSE '1ms' END, true);
    BEGIN
      PERFORM 1 FROM holdfast.runs WHERE key = v_key FOR NO KEY UPDATE;
      v_free := v_free || v_key;
    EXCEPTION WHEN lock_not_available THEN NULL;
    END;
  END LOOP;
  PERFORM set_config('lock_timeout', v_before, true);
  RETURN v_free;
END $$;

-- Locks runs that nobody else has locked, with p_wait also those that come free within moments; those of p_ending with all that their end
-- may reach. Returns which are locked now: whatever a run's end may reach is in the way of it if somebody has that.
CREATE FUNCTION holdfast.lock_free_1(p_ids text[], p_ending text[], p_wait boolean) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_runs bigint[];
  v_members bigint[];
  v_free bigint[];
BEGIN
  WITH RECURSIVE family AS (
    SELECT r.key AS run, r.key, r.id, r.parent_id FROM holdfast.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT f.run, c.key, c.id, c.parent_id FROM family f CROSS JOIN LATERAL (
      SELECT x.key, x.id, x.parent_id FROM holdfast.runs x WHERE x.parent_id = f.id AND x.finished_at IS NULL OFFSET 0) c
  ), members AS (
    SELECT r.key AS run, r.key FROM holdfast.runs r WHERE r.id = ANY (p_ids)
    UNION
    SELECT run, key FROM family
    UNION
    SELECT f.run, p.key FROM family f CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = f.parent_id OFFSET 0) p
  )
  SELECT array_agg(m.run), array_agg(m.key) INTO v_runs, v_members FROM members m;
  IF p_wait THEN v_free := holdfast.lock_soon_1(v_members);
  ELSE v_free := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_members) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  RETURN ARRAY (SELECT m.run FROM unnest(v_runs, v_members) AS m(run, key) GROUP BY m.run HAVING bool_and(m.key = ANY (v_free)));
END $$;
