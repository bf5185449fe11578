-- Q1 Q8: limits and pauses of queues, and how queues are shown.

-- What was claimed in a queue before it had limits counts from now on, and what was claimed under limits that are gone is as any other.
CREATE FUNCTION holdfast.file_queue_1(p_queue text, p_filed boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE holdfast.runs r SET lane = -r.lane WHERE r.key = ANY (ARRAY (SELECT x.key FROM holdfast.runs x WHERE x.queue = p_queue AND x.ended_as IS NULL
    AND CASE WHEN p_filed THEN x.lane > 0 AND x.started_at IS NOT NULL ELSE x.lane < 0 AND x.work_key IS NULL END ORDER BY x.id FOR NO KEY UPDATE));
  IF p_filed THEN
    PERFORM holdfast.task_lanes_1(p_queue, ARRAY (SELECT DISTINCT t.activity FROM holdfast.tasks t WHERE t.queue = p_queue AND t.lane IS NULL AND t.worker_id IS NOT NULL));
    UPDATE holdfast.tasks t SET lane = -l.lane FROM holdfast.lanes l WHERE t.id = ANY (ARRAY (SELECT x.id FROM holdfast.tasks x WHERE x.queue = p_queue AND x.lane IS NULL
      AND x.worker_id IS NOT NULL ORDER BY x.id FOR UPDATE)) AND l.queue = t.queue AND l.workflow = t.activity AND l.version IS NULL AND l.priority = t.priority;
  ELSE
    UPDATE holdfast.tasks t SET lane = NULL WHERE t.id = ANY (ARRAY (SELECT x.id FROM holdfast.tasks x WHERE x.queue = p_queue AND x.lane < 0 AND x.work_key IS NULL
      AND x.priority = 0 ORDER BY x.id FOR UPDATE));
  END IF;
END $$;

-- Locks a queue for a change. The advisory lock is for claims and first turns that take it for a plain one: see queues.sql.
CREATE FUNCTION holdfast.lock_queue_1(p_queue text) RETURNS holdfast.queues LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.queues' || p_queue, 0));
  INSERT INTO holdfast.queues (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
  SELECT * INTO q FROM holdfast.queues WHERE name = p_queue FOR UPDATE;
  RETURN q;
END $$;

-- What follows from a change: p_before is how the queue was.
CREATE FUNCTION holdfast.queue_changed_1(p_before holdfast.queues) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues;
BEGIN
  SELECT * INTO q FROM holdfast.queues WHERE name = p_before.name;
  IF (q.limits IS NOT NULL OR q.paused) AND NOT (p_before.limits IS NOT NULL OR p_before.paused) THEN
    PERFORM nextval('holdfast.queue_changes');
    PERFORM holdfast.file_queue_1(q.name, true);
  ELSIF NOT (q.limits IS NOT NULL OR q.paused) AND (p_before.limits IS NOT NULL OR p_before.paused) THEN
    PERFORM holdfast.file_queue_1(q.name, false);
  END IF;
  IF q.counts_open AND NOT p_before.counts_open THEN
    -- Q2: those that have begun hold slots, but for those that an ancestor holds for them.
    UPDATE holdfast.runs r SET held = NOT s.of_key, under = s.of_queue FROM (
        SELECT x.key, c.of_queue, c.of_key FROM (
          SELECT o.key, o.work_key, CASE WHEN o.parent_close <> 'abandon' THEN o.parent_id END AS parent_id FROM holdfast.runs o
          WHERE o.queue = q.name AND o.ended_as IS NULL AND o.started_at IS NOT NULL ORDER BY o.id FOR NO KEY UPDATE) x
        CROSS JOIN LATERAL holdfast.covered_1(q.name, x.parent_id, x.work_key, true) c) s
      WHERE r.key = s.key;
  ELSIF p_before.counts_open AND NOT q.counts_open THEN
    UPDATE holdfast.runs r SET held = false, under = false WHERE r.key = ANY (ARRAY (SELECT x.key FROM holdfast.runs x WHERE x.queue = q.name AND x.held AND x.ended_as IS NULL
      ORDER BY x.id FOR NO KEY UPDATE));
  END IF;
  IF (q.rate_limit IS NULL) <> (p_before.rate_limit IS NULL) THEN
    DELETE FROM holdfast.queue_keys WHERE queue = q.name AND kind = 'starts';
    DELETE FROM holdfast.queue_times WHERE queue = q.name AND kind = 'starts';
  END IF;
  -- The next claim looks at them, and makes them begin at its time (Q5).
  UPDATE holdfast.queue_keys SET wake_at = 0 WHERE queue = q.name AND wake_at IS NOT NULL;
END $$;

-- p_limits: the limits as they are shown; null: there are none any more. p_fields: c concurrency, r rate, p its window, kc kr kp of each key,
-- l the longest window, o whether open runs count. p_keys: n name, c, r, p, w weight.
CREATE FUNCTION holdfast.set_queue_1(p_queue text, p_limits text, p_fields text, p_keys text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues := holdfast.lock_queue_1(p_queue);
BEGIN
  UPDATE holdfast.queues x SET limits = p_limits, concurrency = f.c, rate_limit = f.r, rate_per = f.p, key_concurrency = f.kc, key_rate_limit = f.kr, key_rate_per = f.kp,
      longest_per = f.l, counts_open = coalesce(f.o, false)
    FROM json_to_record(coalesce(p_fields, '{}')::json) AS f(c integer, r integer, p bigint, kc integer, kr integer, kp bigint, l bigint, o boolean) WHERE x.name = p_queue;
  DELETE FROM holdfast.queue_limits WHERE queue = p_queue AND NOT paused;
  UPDATE holdfast.queue_limits SET concurrency = NULL, rate_limit = NULL, rate_per = NULL, weight = NULL WHERE queue = p_queue;
  INSERT INTO holdfast.queue_limits (queue, name, concurrency, rate_limit, rate_per, weight)
    SELECT p_queue, k.n, k.c, k.r, k.p, k.w FROM json_to_recordset(coalesce(p_keys, '[]')::json) AS k(n text, c integer, r integer, p bigint, w double precision)
    ON CONFLICT (queue, name) DO UPDATE SET concurrency = excluded.concurrency, rate_limit = excluded.rate_limit, rate_per = excluded.rate_per, weight = excluded.weight;
  UPDATE holdfast.queues SET has_keys = EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = p_queue) WHERE name = p_queue;
  PERFORM holdfast.queue_changed_1(q);
END $$;

-- p_name: of a key; null: the whole queue. p_for: how long; null: until it is resumed.
CREATE FUNCTION holdfast.pause_queue_1(p_now bigint, p_queue text, p_name text, p_paused boolean, p_for bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues := holdfast.lock_queue_1(p_queue);
  v_until bigint := holdfast.clock_1(p_now) + p_for;
BEGIN
  IF p_name IS NULL THEN
    UPDATE holdfast.queues SET paused = p_paused, paused_until = v_until WHERE name = p_queue;
  ELSE
    IF p_paused THEN
      INSERT INTO holdfast.queue_limits (queue, name, paused, paused_until) VALUES (p_queue, p_name, true, v_until)
        ON CONFLICT (queue, name) DO UPDATE SET paused = true, paused_until = excluded.paused_until;
    ELSE
      UPDATE holdfast.queue_limits SET paused = false, paused_until = NULL WHERE queue = p_queue AND name = p_name;
    END IF;
    UPDATE holdfast.queues SET has_keys = EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = p_queue) WHERE name = p_queue;
  END IF;
  PERFORM holdfast.queue_changed_1(q);
END $$;

-- Names of all queues that have limits, a pause or work.
CREATE FUNCTION holdfast.queue_names_1() RETURNS text LANGUAGE sql AS $$
  SELECT coalesce(json_agg(n.name ORDER BY n.name), '[]')::text FROM (
    SELECT q.name FROM holdfast.queues q WHERE q.limits IS NOT NULL OR q.paused OR EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = q.name AND l.paused)
    UNION SELECT r.queue FROM holdfast.runs r WHERE r.ended_as IS NULL
    UNION SELECT t.queue FROM holdfast.tasks t) n
$$;

-- p_names: which. Counts stop at p_most.
CREATE FUNCTION holdfast.show_queues_1(p_now bigint, p_names text[], p_most integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_queues json[] := '{}';
  v_lanes integer[];
  v_name text;
  q holdfast.queues;
  r record;
  t record;
  v_held bigint;
BEGIN
  FOREACH v_name IN ARRAY p_names LOOP
    SELECT * INTO q FROM holdfast.queues WHERE name = v_name;
    v_lanes := ARRAY (SELECT l.lane FROM holdfast.lanes l WHERE l.queue = v_name UNION ALL SELECT -l.lane FROM holdfast.lanes l WHERE l.queue = v_name);
    SELECT count(*) AS n, min(w.available_at) AS oldest INTO r FROM (SELECT x.available_at FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (
      SELECT o.available_at FROM holdfast.runs o WHERE o.lane = l.lane AND o.available_at <= v_now AND o.worker_id IS NULL AND NOT (o.held AND NOT o.under) ORDER BY o.available_at LIMIT p_most) x
      ORDER BY x.available_at LIMIT p_most) w;
    IF q.counts_open THEN v_held := p_most - holdfast.slots_left_1(v_name, 'runs', true, NULL, p_most);
    ELSE
      SELECT count(*) INTO v_held FROM (SELECT 1 FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (
        SELECT 1 FROM holdfast.runs o WHERE o.lane = l.lane AND o.available_at IS NOT NULL AND o.worker_id IS NOT NULL LIMIT p_most) x LIMIT p_most) w;
    END IF;
    SELECT count(*) FILTER (WHERE x.worker_id IS NULL AND x.available_at <= v_now) AS n, count(*) FILTER (WHERE x.worker_id IS NOT NULL) AS held,
      min(x.available_at) FILTER (WHERE x.worker_id IS NULL AND x.available_at <= v_now) AS oldest INTO t FROM holdfast.tasks x WHERE x.queue = v_name;
    v_queues := v_queues || json_build_object('name', v_name, 'limits', q.limits, 'paused', coalesce(q.paused AND coalesce(q.paused_until > v_now, true), false),
      'until', q.paused_until, 'keys', (SELECT json_agg(substr(l.name, 2) ORDER BY l.name) FROM holdfast.queue_limits l WHERE l.queue = v_name AND l.paused AND coalesce(l.paused_until > v_now, true)),
      'runs', json_build_array(r.n, v_held, r.oldest), 'tasks', json_build_array(least(t.n, p_most), least(t.held, p_most), t.oldest));
  END LOOP;
  RETURN array_to_json(v_queues)::text;
END $$;

-- What limits leave: of a queue, or of a key of it (p_name; null: of the queue). slots: held and limit; starts: limit, window, and when there
-- is room for another one; both null without a limit.
CREATE FUNCTION holdfast.limit_use_1(p_queue text, p_kind text, p_open boolean, p_name text, p_concurrency integer, p_limit integer, p_per bigint, p_paused boolean, p_until bigint, p_now bigint, p_most integer)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  v_left integer;
  v_at bigint;
BEGIN
  IF p_limit IS NOT NULL THEN SELECT s.n, s.at INTO v_left, v_at FROM holdfast.starts_left_1(p_queue, p_kind, p_name, p_limit, p_per, p_now) s; END IF;
  RETURN json_build_object('paused', coalesce(p_paused AND coalesce(p_until > p_now, true), false), 'until', p_until,
    'slots', CASE WHEN p_concurrency IS NOT NULL THEN json_build_array(p_most - holdfast.slots_left_1(p_queue, p_kind, p_open, p_name, p_most), p_concurrency) END,
    'starts', CASE WHEN p_limit IS NOT NULL THEN json_build_array(p_limit, p_per, CASE WHEN v_left <= 0 THEN v_at END) END);
END $$;

-- What holds one run back, or an activity of this queue and key (p_name, as in `queue_keys`). 'null': there is no such run.
CREATE FUNCTION holdfast.show_limits_1(p_now bigint, p_run text, p_queue text, p_name text, p_most integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_kind text := CASE WHEN p_run IS NULL THEN 'tasks' ELSE 'runs' END;
  v_slot boolean := true;
  v_key_slot boolean := true;
  v_start boolean := true;
  r holdfast.runs;
  q holdfast.queues;
  l holdfast.queue_limits;
  c record;
BEGIN
  IF p_run IS NOT NULL THEN
    SELECT * INTO r FROM holdfast.runs WHERE id = p_run;
    IF NOT FOUND THEN RETURN 'null'; END IF;
    p_queue := r.queue;
    p_name := coalesce('=' || r.work_key, '');
    v_start := r.started_at IS NULL;
  END IF;
  SELECT * INTO q FROM holdfast.queues WHERE name = p_queue;
  SELECT * INTO l FROM holdfast.queue_limits x WHERE x.queue = p_queue AND x.name = p_name;
  IF p_run IS NOT NULL AND q.counts_open THEN
    SELECT * INTO c FROM holdfast.covered_1(p_queue, CASE WHEN r.parent_close <> 'abandon' THEN r.parent_id END, r.work_key, false);
    v_slot := NOT c.of_queue AND NOT (r.held AND NOT r.under);
    v_key_slot := NOT c.of_key AND NOT r.held;
  ELSIF r.worker_id IS NOT NULL THEN -- Q3
    v_slot := false;
    v_key_slot := false;
    v_start := false;
  END IF;
  RETURN json_build_object('needs', json_build_array(v_slot, v_key_slot, v_start),
    'queue', holdfast.limit_use_1(p_queue, v_kind, q.counts_open, NULL, q.concurrency, q.rate_limit, q.rate_per, q.paused, q.paused_until, v_now, p_most),
    'key', CASE WHEN p_name <> '' THEN holdfast.limit_use_1(p_queue, v_kind, q.counts_open, p_name, coalesce(l.concurrency, q.key_concurrency), coalesce(l.rate_limit, q.key_rate_limit),
      CASE WHEN l.rate_limit IS NULL THEN q.key_rate_per ELSE l.rate_per END, l.paused, l.paused_until, v_now, p_most) END)::text;
END $$;
