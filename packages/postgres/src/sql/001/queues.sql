-- Queues with limits, keys and pauses (Q1–Q8): what claims of runs and of activities share.
--
-- A queue is managed if it has limits, a pause, or work with a key; it then has a row in `queues`, and its claims lock that row first and
-- wait for nothing after it. Whether it is managed is looked at under a shared advisory lock, which `lock_queue_1` takes alone: no claim
-- and no first turn that takes the queue for a plain one is under way while that changes.
--
-- A slot is the state of a row: a run or an activity of a managed queue counts while a worker has it (`worker_id`), or, where the queue
-- counts open runs, while `held` says so. So commits, ends and renewals know nothing of slots, and no counter can go wrong. What was
-- claimed in a managed queue, and what has a key, is filed: its lane is negative, and no plain claim finds it.
--
-- Keys share by stride (Q5): `pass` of a key grows by 1/weight with each claim that takes a slot, and the lowest pass is served first. Only
-- claims write `queue_keys`. A key that has no row there is at the virtual time of its priority, the pass at which a key was served there last:
-- that is where a key begins again that was idle or could not be admitted, so that nothing is saved up. One time for all priorities would
-- not do: a key that is new at a low priority would wait until all others there have caught up with it. In a queue with a rate of its own, keys
-- share starts and all else apart from each other: each has two rows, of the kinds `starts` and `runs`, as if it were two keys. Claims find keys with new work among the newest that are due, and by walking through the keys in order,
-- some with each claim. Rejected: moving what is due to a lane per key (another update for each run of a backlog, and a key behind 99,000
-- runs of another one waits until all of those are moved).

-- Q2: whether a run may be created with its first turn. p_changes: how often queues had become managed when the process last looked, and
-- found that this one was not. A sequence shows its newest value whatever the statement's snapshot is.
CREATE FUNCTION holdfast.may_begin_1(p_queue text, p_changes bigint) RETURNS boolean LANGUAGE sql AS $$
  SELECT CASE WHEN pg_try_advisory_xact_lock_shared(hashtextextended('holdfast.queues' || p_queue, 0))
    THEN (SELECT last_value FROM holdfast.queue_changes) = p_changes ELSE false END
$$;

-- How many slots are left to a queue, or to a key of it. p_name: '=' and the key; null: the whole queue.
CREATE FUNCTION holdfast.slots_left_1(p_queue text, p_kind text, p_open boolean, p_name text, p_most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_key text := substr(p_name, 2);
BEGIN
  IF p_kind = 'tasks' THEN
    IF p_name IS NULL THEN
      RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.tasks t WHERE t.queue = p_queue AND t.lane < 0 AND t.worker_id IS NOT NULL LIMIT p_most) h);
    END IF;
    RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.tasks t WHERE t.queue = p_queue AND t.lane < 0 AND t.worker_id IS NOT NULL
      AND t.work_key = v_key LIMIT p_most) h);
  END IF;
  IF p_open THEN
    IF p_name IS NULL THEN
      RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.runs r WHERE r.queue = p_queue AND r.held AND r.ended_as IS NULL AND NOT r.under LIMIT p_most) h);
    END IF;
    RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.runs r WHERE r.queue = p_queue AND r.held AND r.ended_as IS NULL AND r.work_key = v_key LIMIT p_most) h);
  END IF;
  IF p_name IS NULL THEN
    RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.runs r WHERE r.queue = p_queue AND r.lane < 0 AND r.worker_id IS NOT NULL LIMIT p_most) h);
  END IF;
  RETURN p_most - (SELECT count(*) FROM (SELECT 1 FROM holdfast.runs r WHERE r.queue = p_queue AND r.lane < 0 AND r.worker_id IS NOT NULL
    AND r.work_key = v_key LIMIT p_most) h);
END $$;

-- Q2: which slots of a queue the ancestors of a run hold for it: that of the queue, and that of its key. p_parent: the run that waits for it;
-- null: none does. Only through runs that are open, and not abandoned. p_begun: as if what has begun held slots, where it has to be found
-- out which do: the highest of those runs hold everything.
CREATE FUNCTION holdfast.covered_1(p_queue text, p_parent text, p_work_key text, p_begun boolean, OUT of_queue boolean, OUT of_key boolean) LANGUAGE plpgsql AS $$
BEGIN
  WITH RECURSIVE above AS (
    SELECT r.queue, r.work_key, r.started_at, r.held, r.under, CASE WHEN r.parent_close <> 'abandon' THEN r.parent_id END AS parent_id, 1 AS up
      FROM holdfast.runs r WHERE r.id = p_parent AND r.finished_at IS NULL
    UNION ALL
    -- Something else may have made a run its own ancestor.
    SELECT p.*, a.up + 1 FROM above a CROSS JOIN LATERAL (
      SELECT r.queue, r.work_key, r.started_at, r.held, r.under, CASE WHEN r.parent_close <> 'abandon' THEN r.parent_id END AS parent_id
        FROM holdfast.runs r WHERE r.id = a.parent_id AND r.finished_at IS NULL OFFSET 0) p WHERE a.up < 1000
  )
  SELECT coalesce(bool_or(p_begun OR NOT a.under), false), coalesce(bool_or(p_begun OR NOT a.under) AND bool_or(a.work_key IS NOT DISTINCT FROM p_work_key), false)
    INTO of_queue, of_key FROM above a WHERE a.queue = p_queue AND CASE WHEN p_begun THEN a.started_at IS NOT NULL ELSE a.held END;
END $$;

-- Q4: how many may start now, and when the next one may. The window that ends now has every start after p_now - p_per.
CREATE FUNCTION holdfast.starts_left_1(p_queue text, p_kind text, p_name text, p_limit integer, p_per bigint, p_now bigint, OUT n integer, OUT at bigint)
LANGUAGE plpgsql AS $$
BEGIN
  IF p_name IS NULL THEN
    SELECT p_limit - count(*), min(s.at) + p_per INTO n, at FROM (SELECT x.at FROM holdfast.queue_starts x
      WHERE x.queue = p_queue AND x.kind = p_kind AND x.at > p_now - p_per ORDER BY x.at DESC LIMIT p_limit) s;
  ELSE
    SELECT p_limit - count(*), min(s.at) + p_per INTO n, at FROM (SELECT x.at FROM holdfast.queue_starts x
      WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = p_name AND x.at > p_now - p_per ORDER BY x.at DESC LIMIT p_limit) s;
  END IF;
END $$;

-- What limits a key, in effect: what its entry leaves out is as in `perKey`. Work without a key has no limits but those of the queue (Q1).
-- room: how many slots it may have more; starts: how many may start; null: no limit. wake_at: when one that can't start may, or a pause ends.
CREATE FUNCTION holdfast.key_limits_1(q holdfast.queues, p_kind text, p_name text, p_now bigint,
  OUT weight double precision, OUT room integer, OUT starts integer, OUT wake_at bigint) LANGUAGE plpgsql AS $$
DECLARE
  l holdfast.queue_limits;
BEGIN
  weight := 1;
  IF p_name = '' THEN RETURN; END IF;
  IF q.has_keys THEN SELECT * INTO l FROM holdfast.queue_limits x WHERE x.queue = q.name AND x.name = p_name; END IF;
  IF l.paused AND coalesce(l.paused_until > p_now, true) THEN
    room := 0;
    wake_at := coalesce(l.paused_until, 9007199254740991);
    RETURN;
  END IF;
  weight := coalesce(l.weight, 1);
  IF coalesce(l.concurrency, q.key_concurrency) IS NOT NULL THEN
    room := holdfast.slots_left_1(q.name, p_kind, q.counts_open, p_name, coalesce(l.concurrency, q.key_concurrency));
  END IF;
  IF l.rate_limit IS NOT NULL THEN
    SELECT x.n, x.at INTO starts, wake_at FROM holdfast.starts_left_1(q.name, p_kind, p_name, l.rate_limit, l.rate_per, p_now) x;
  ELSIF q.key_rate_limit IS NOT NULL THEN
    SELECT x.n, x.at INTO starts, wake_at FROM holdfast.starts_left_1(q.name, p_kind, p_name, q.key_rate_limit, q.key_rate_per, p_now) x;
  END IF;
  IF starts > 0 THEN wake_at := NULL; END IF;
END $$;

-- These keys have something due. One that was idle begins at the virtual time, or at its own pass if that is higher.
CREATE FUNCTION holdfast.ready_keys_1(p_queue text, p_kind text, p_priority integer, p_pass double precision, p_names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO holdfast.queue_keys AS k (queue, kind, priority, name, pass, ready)
    SELECT p_queue, p_kind, p_priority, f.name, greatest(p_pass, o.pass), true FROM (SELECT DISTINCT u.name FROM unnest(p_names) AS u(name)) f CROSS JOIN LATERAL (
      SELECT max(x.pass) AS pass, bool_or(x.ready AND x.priority = p_priority) AS ready FROM holdfast.queue_keys x
        WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = f.name OFFSET 0) o
      WHERE o.ready IS NOT TRUE
    ON CONFLICT (queue, kind, name, priority) DO UPDATE SET ready = true, wake_at = NULL, pass = excluded.pass;
END $$;

-- What a claim has done with keys: p_steps is how far each moves on. One that got nothing though it has something moves with the virtual
-- time. One that is not ready has nothing more, or not before wake_at.
CREATE FUNCTION holdfast.served_keys_1(p_queue text, p_kind text, p_priority integer, p_pass double precision, p_names text[], p_steps double precision[], p_ready boolean[], p_wakes bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- Row by row, whatever the planner takes the table for.
  UPDATE holdfast.queue_keys k SET pass = CASE WHEN u.step = 0 AND u.ready AND k.priority = p_priority THEN greatest(k.pass, p_pass) ELSE k.pass + u.step END, ready = CASE k.priority WHEN p_priority THEN u.ready ELSE k.ready END,
      wake_at = CASE k.priority WHEN p_priority THEN u.wake ELSE k.wake_at END
    FROM (SELECT n.*, o.row FROM unnest(p_names, p_steps, p_ready, p_wakes) AS n(name, step, ready, wake) CROSS JOIN LATERAL (
      SELECT x.ctid AS row FROM holdfast.queue_keys x WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = n.name OFFSET 0) o) u
    WHERE k.ctid = u.row;
END $$;

-- Q5: keys that were served are this far now, at every priority.
CREATE FUNCTION holdfast.moved_keys_1(p_queue text, p_kind text, p_priority integer, p_names text[], p_passes double precision[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO holdfast.queue_keys AS k (queue, kind, priority, name, pass, ready) SELECT p_queue, p_kind, p_priority, u.name, u.pass, false FROM unnest(p_names, p_passes) AS u(name, pass)
    ON CONFLICT (queue, kind, name, priority) DO NOTHING;
  UPDATE holdfast.queue_keys k SET pass = u.pass FROM (SELECT n.pass, o.row FROM unnest(p_names, p_passes) AS n(name, pass) CROSS JOIN LATERAL (
      SELECT x.ctid AS row FROM holdfast.queue_keys x WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = n.name AND x.pass < n.pass OFFSET 0) o) u
    WHERE k.ctid = u.row;
END $$;

-- The end of a claim at a priority: its virtual time, and how far the walk through its keys went.
CREATE FUNCTION holdfast.move_on_1(p_queue text, p_kind text, p_priority integer, p_pass double precision, p_walked text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE holdfast.queue_times SET pass = p_pass, walked = p_walked WHERE queue = p_queue AND kind = p_kind AND priority = p_priority;
  IF NOT FOUND THEN INSERT INTO holdfast.queue_times (queue, kind, priority, pass, walked) VALUES (p_queue, p_kind, p_priority, p_pass, p_walked); END IF;
  -- Idle keys that are not ahead of the others need no row.
  DELETE FROM holdfast.queue_keys k WHERE k.ctid = ANY (ARRAY (SELECT x.ctid FROM holdfast.queue_keys x
    WHERE x.queue = p_queue AND x.kind = p_kind AND NOT x.ready AND x.priority = p_priority AND x.pass <= p_pass AND x.wake_at IS NULL LIMIT 1000));
END $$;

-- The end of a claim. If nothing waits any more all keys are equal again. Q4: starts that are in no window any more go.
CREATE FUNCTION holdfast.end_claim_1(q holdfast.queues, p_kind text, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_kinds text[] := CASE p_kind WHEN 'runs' THEN ARRAY['runs', 'starts'] ELSE ARRAY[p_kind] END;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM holdfast.queue_keys k WHERE k.queue = q.name AND k.kind = ANY (v_kinds) AND k.ready)
      AND NOT EXISTS (SELECT 1 FROM holdfast.queue_keys k WHERE k.queue = q.name AND k.kind = ANY (v_kinds) AND k.wake_at IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM holdfast.queue_times k WHERE k.queue = q.name AND k.kind = ANY (v_kinds) AND k.walked <> '') THEN
    DELETE FROM holdfast.queue_keys WHERE queue = q.name AND kind = ANY (v_kinds);
    DELETE FROM holdfast.queue_times WHERE queue = q.name AND kind = ANY (v_kinds);
  END IF;
  IF q.longest_per IS NOT NULL THEN
    DELETE FROM holdfast.queue_starts s WHERE s.ctid = ANY (ARRAY (SELECT x.ctid FROM holdfast.queue_starts x
      WHERE x.queue = q.name AND x.kind = p_kind AND x.at <= p_now - q.longest_per LIMIT 1000));
  END IF;
END $$;
