-- Locks on runs. Every function locks the runs that it writes to first, in order of id, FOR NO KEY UPDATE: two calls can't wait for each
-- other in a circle. A row that was not locked so is locked with NOWAIT or SKIP LOCKED.

-- Locks runs in order of id: those named, and for those that may end all that their end may reach: open descendants, parents, and runs that
-- wait for one of these (Q10), or that one of these waits for with its next start (Q9).
CREATE FUNCTION holdfast.lock_runs_1(p_ids text[], p_ending text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ids text[];
BEGIN
  WITH RECURSIVE ending AS (
    SELECT r.key, r.id, r.parent_id, r.awaited, r.has_next FROM holdfast.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT c.key, c.id, c.parent_id, c.awaited, c.has_next FROM ending e CROSS JOIN LATERAL (
      SELECT x.key, x.id, x.parent_id, x.awaited, x.has_next FROM holdfast.runs x WHERE x.parent_id = e.id AND x.finished_at IS NULL OFFSET 0) c
  ), reached AS (
    SELECT e.id FROM ending e
    UNION
    SELECT e.parent_id FROM ending e WHERE e.parent_id IS NOT NULL
    UNION
    SELECT w.id FROM ending e CROSS JOIN LATERAL (SELECT x.id FROM holdfast.runs x WHERE x.after_id = e.id OFFSET 0) w WHERE e.awaited
    UNION
    SELECT n.id FROM ending e CROSS JOIN LATERAL (SELECT x.start #>> '{origin,after}' AS id FROM holdfast.next_starts x WHERE x.run = e.key OFFSET 0) n
      WHERE e.has_next AND n.id IS NOT NULL
  )
  SELECT p_ids || array_agg(r.id) INTO v_ids FROM reached r;
  PERFORM 1 FROM holdfast.runs WHERE id = ANY (v_ids) ORDER BY id FOR NO KEY UPDATE;
END $$;

-- Locks those of these runs that come free within moments, in order of id. Returns which. One that stays locked, by a person at a console or
-- a transaction that is still open, delays those after it by a tenth of a second, and three of them by no more than that.
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

-- Locks runs that no other transaction has locked, with p_wait also those that come free within moments; those of p_ending with all that their end
-- may reach. Returns which are locked now: a run can't end if another transaction has locked what its end may reach.
CREATE FUNCTION holdfast.lock_free_1(p_ids text[], p_ending text[], p_wait boolean) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_runs bigint[];
  v_members bigint[];
  v_free bigint[];
BEGIN
  WITH RECURSIVE family AS (
    SELECT r.key AS run, r.key, r.id, r.parent_id, r.awaited, r.has_next FROM holdfast.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT f.run, c.key, c.id, c.parent_id, c.awaited, c.has_next FROM family f CROSS JOIN LATERAL (
      SELECT x.key, x.id, x.parent_id, x.awaited, x.has_next FROM holdfast.runs x WHERE x.parent_id = f.id AND x.finished_at IS NULL OFFSET 0) c
  ), members AS (
    SELECT r.key AS run, r.key FROM holdfast.runs r WHERE r.id = ANY (p_ids)
    UNION
    SELECT run, key FROM family
    UNION
    SELECT f.run, p.key FROM family f CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = f.parent_id OFFSET 0) p
    UNION
    SELECT f.run, w.key FROM family f CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.after_id = f.id OFFSET 0) w WHERE f.awaited
    UNION
    SELECT f.run, n.key FROM family f CROSS JOIN LATERAL (SELECT o.key FROM holdfast.next_starts x JOIN holdfast.runs o ON o.id = x.start #>> '{origin,after}'
      WHERE x.run = f.key OFFSET 0) n WHERE f.has_next
  )
  SELECT array_agg(m.run), array_agg(m.key) INTO v_runs, v_members FROM members m;
  IF p_wait THEN v_free := holdfast.lock_soon_1(v_members);
  ELSE v_free := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_members) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  RETURN ARRAY (SELECT m.run FROM unnest(v_runs, v_members) AS m(run, key) GROUP BY m.run HAVING bool_and(m.key = ANY (v_free)));
END $$;
