-- W3: what to do when the server's clock was set back.

-- W3. The clock was set back: no lease that is given now ends as late as these. Living workers renew theirs in time; those of dead workers would
-- last until the old time is reached again. A run that another transaction has locked is left to the next call.
CREATE FUNCTION holdfast.cut_leases_1(p_now bigint) RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
BEGIN
  UPDATE holdfast.runs SET available_at = v_now + lease WHERE key = ANY (ARRAY (SELECT key FROM holdfast.runs
    WHERE ended_as IS NULL AND worker_id IS NOT NULL AND available_at > v_now + lease * 1.1 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED));
  -- W1: what was due by the old time is due. All of it was written after now.
  UPDATE holdfast.runs SET available_at = v_now WHERE key = ANY (ARRAY (SELECT key FROM holdfast.runs r
    WHERE ended_as IS NULL AND worker_id IS NULL AND available_at > v_now AND CASE status WHEN 'pending' THEN available_at <= created_at WHEN 'blocked' THEN false
      ELSE EXISTS (SELECT 1 FROM holdfast.inbox i WHERE i.run = r.key AND i.received_at > v_now) END ORDER BY id FOR NO KEY UPDATE SKIP LOCKED));
  UPDATE holdfast.tasks SET available_at = v_now WHERE id = ANY (ARRAY (SELECT id FROM holdfast.tasks
    WHERE worker_id IS NULL AND available_at > v_now AND available_at <= scheduled_at ORDER BY id FOR UPDATE SKIP LOCKED));
  UPDATE holdfast.tasks SET leased_until = v_now + lease, due_at = least(due_at, v_now + lease) WHERE id = ANY (ARRAY (SELECT id FROM holdfast.tasks
    WHERE worker_id IS NOT NULL AND leased_until > v_now + lease * 1.1 ORDER BY id FOR UPDATE SKIP LOCKED));
END $$;
