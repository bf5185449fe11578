-- W3: extends leases, and returns new messages of the runs.

-- p_claims: i number, id run, e epoch, seen. Answers with the numbers of those that are lost, and new messages of the others; and of those
-- whose lease was not renewed since another transaction has locked their row, with p_wait for longer than a moment: they are held all the same. A lease
-- whose end is off by less than a tenth of its length is left as it is: workers ask at every hint that messages may be there. Too late an
-- end counts as well: the clock was set back, and a worker that died would keep the run for as long.
CREATE FUNCTION holdfast.renew_leases_1(p_now bigint, p_worker text, p_lease bigint, p_claims text, p_wait boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_held integer[];
  v_due bigint[];
  v_free bigint[];
  v_still bigint[];
  v_busy json;
  v_news boolean;
  v_inbox json;
BEGIN
  SELECT array_agg(c.i), array_agg(r.key) FILTER (WHERE abs(v_now + p_lease - r.available_at) > p_lease * 0.1), bool_or(r.last_message > c.seen)
    INTO v_held, v_due, v_news
    FROM json_to_recordset(p_claims::json) AS c(i integer, id text, e integer, seen bigint)
    CROSS JOIN LATERAL (SELECT * FROM holdfast.runs x WHERE x.id = c.id AND x.epoch = c.e AND x.worker_id = p_worker OFFSET 0) r;
  IF v_due IS NOT NULL THEN
    -- Never without a limit: all leases of the worker would end meanwhile.
    IF p_wait THEN v_free := holdfast.lock_soon_1(v_due);
    ELSE v_free := ARRAY (SELECT key FROM holdfast.runs WHERE key = ANY (v_due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    -- Again, now that they are locked.
    SELECT array_agg(c.i), array_agg(r.key), json_agg(c.i) FILTER (WHERE r.key = ANY (v_due) AND r.key <> ALL (v_free)) INTO v_held, v_still, v_busy
      FROM json_to_recordset(p_claims::json) AS c(i integer, id text, e integer)
      CROSS JOIN LATERAL (SELECT x.key FROM holdfast.runs x WHERE x.id = c.id AND x.epoch = c.e AND x.worker_id = p_worker OFFSET 0) r;
    UPDATE holdfast.runs SET available_at = v_now + p_lease WHERE key = ANY (v_free) AND key = ANY (v_still);
  END IF;
  IF v_news THEN
    SELECT json_agg(json_build_array(c.i, b.id, b.type, b.seq, b.name, b.refs, b.data, b.value) ORDER BY b.id) INTO v_inbox
      FROM json_to_recordset(p_claims::json) AS c(i integer, id text, e integer, seen bigint)
      CROSS JOIN LATERAL (SELECT * FROM holdfast.runs x WHERE x.id = c.id AND x.epoch = c.e AND x.worker_id = p_worker OFFSET 0) r
      CROSS JOIN LATERAL (SELECT * FROM holdfast.inbox x WHERE x.run = r.key AND x.id > c.seen OFFSET 0) b;
  END IF;
  RETURN json_build_object('inbox', v_inbox, 'busy', v_busy,
    'lost', (SELECT json_agg(c.i) FROM json_to_recordset(p_claims::json) AS c(i integer) WHERE v_held IS NULL OR c.i <> ALL (v_held)))::text;
END $$;
