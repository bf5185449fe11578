-- Q2–Q6 for activities: which ones of a managed queue a claim gets. As claim_queued_runs.sql; each attempt needs a slot and counts for the
-- rate, and none is resumed.

-- Lanes of activities are numbered as those of workflows, without a version.
CREATE FUNCTION holdfast.task_lanes_1(p_queue text, p_activities text[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO holdfast.lanes (queue, workflow, version, priority) SELECT p_queue, a.activity, NULL, 0 FROM unnest(p_activities) AS a(activity)
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.lanes o WHERE o.queue = p_queue AND o.workflow = a.activity AND o.version IS NULL AND o.priority = 0)
    ORDER BY a.activity ON CONFLICT DO NOTHING
$$;

-- The claim itself. p_again: those that are given out again as the same attempt (D7).
CREATE FUNCTION holdfast.take_tasks_1(p_ids bigint[], p_again bigint[], p_worker text, p_lease bigint, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE holdfast.tasks t SET attempt = t.attempt + CASE WHEN t.id = ANY (p_again) THEN 0 ELSE 1 END, token = t.token + 1, worker_id = p_worker, started_at = p_now, heartbeat_at = p_now,
      leased_until = p_now + least(p_lease, t.start_to_close), lease = least(p_lease, t.start_to_close), available_at = NULL,
      due_at = least(p_now + least(p_lease, t.start_to_close), t.scheduled_at + t.schedule_to_close, p_now + t.start_to_close, p_now + t.heartbeat)
    WHERE t.id = ANY (p_ids);
  INSERT INTO holdfast.attempts (run, execution, seq, number, task, status, worker_id, started_at)
    SELECT run, execution, seq, attempt, true, 'running', worker_id, started_at FROM holdfast.tasks WHERE id = ANY (p_ids)
    ON CONFLICT (run, execution, seq, number) DO UPDATE SET status = excluded.status, worker_id = excluded.worker_id, started_at = excluded.started_at,
      ended_at = NULL, retry_at = NULL, error = NULL;
END $$;

CREATE FUNCTION holdfast.find_task_keys_1(p_queue text, p_lanes integer[], p_priority integer, p_cursor text, p_most integer, p_now bigint, OUT names text[], OUT cursor text)
LANGUAGE plpgsql AS $$
BEGIN
  WITH RECURSIVE walk AS (
    SELECT l.lane, 1 AS n, (SELECT x.work_key FROM holdfast.tasks x WHERE x.lane = -l.lane AND x.lane < 0 AND x.worker_id IS NULL
        AND x.available_at IS NOT NULL AND x.work_key >= p_cursor ORDER BY x.work_key LIMIT 1) AS work_key FROM unnest(p_lanes) AS l(lane)
    UNION ALL
    SELECT w.lane, w.n + 1, (SELECT x.work_key FROM holdfast.tasks x WHERE x.lane = -w.lane AND x.lane < 0 AND x.worker_id IS NULL
        AND x.available_at IS NOT NULL AND x.work_key > w.work_key ORDER BY x.work_key LIMIT 1)
      FROM walk w WHERE w.work_key IS NOT NULL AND w.n <= p_most
  ), found AS MATERIALIZED (
    SELECT DISTINCT f.lane, f.work_key FROM walk f
      LEFT JOIN LATERAL (SELECT x.ready, x.wake_at FROM holdfast.queue_keys x WHERE x.queue = p_queue AND x.kind = 'tasks' AND x.name = '=' || f.work_key
        AND x.priority = p_priority OFFSET 0) k ON true
      WHERE f.work_key IS NOT NULL AND k.ready IS NOT TRUE AND k.wake_at IS NULL
  )
  SELECT array_agg(DISTINCT '=' || f.work_key), coalesce((SELECT min(w.work_key) FROM walk w WHERE w.n > p_most), '') INTO names, cursor FROM found f
    WHERE (SELECT 1 FROM holdfast.tasks x WHERE x.lane = -f.lane AND x.lane < 0 AND x.worker_id IS NULL AND x.work_key = f.work_key AND x.available_at <= p_now LIMIT 1) IS NOT NULL;
END $$;

-- p_plain: activities whose tasks without a key, as they are before their first claim in a managed queue, belong to this priority.
CREATE FUNCTION holdfast.next_tasks_1(q holdfast.queues, p_lanes integer[], p_plain text[], p_priority integer, p_left integer, p_done text[], p_only bigint[], p_tried bigint[], p_now bigint,
  OUT keys bigint[], OUT names text[], OUT tags double precision[], OUT of text[], OUT weights double precision[], OUT more boolean[], OUT wakes bigint[])
LANGUAGE plpgsql SET enable_sort = off AS $$
BEGIN
  WITH lowest AS MATERIALIZED (
    SELECT k.name, k.pass, l.weight, least(l.room, l.starts) AS room, l.starts, l.wake_at FROM (
      SELECT x.name, x.pass FROM holdfast.queue_keys x WHERE x.queue = q.name AND x.kind = 'tasks' AND x.priority = p_priority AND x.ready AND x.name <> ALL (p_done)
      ORDER BY x.pass, x.name LIMIT p_left + 10) k CROSS JOIN LATERAL (SELECT x.* FROM holdfast.key_limits_1(q, 'tasks', k.name, p_now) x OFFSET 0) l
  ), sums AS MATERIALIZED (
    SELECT sum(k.weight) OVER o AS weights, sum(k.pass * k.weight) OVER o AS passes FROM lowest k WHERE k.room IS NULL OR k.room > 0
      WINDOW o AS (ORDER BY k.pass, k.name ROWS UNBOUNDED PRECEDING)
  ), level AS MATERIALIZED (
    SELECT min((p_left + s.passes) / s.weights) AS pass FROM sums s
  ), wanted AS MATERIALIZED (
    SELECT k.*, substr(k.name, 2) AS work_key, CASE k.name WHEN '' THEN p_lanes ELSE '{}' END AS unkeyed, CASE k.name WHEN '' THEN p_plain ELSE '{}' END AS plain,
        CASE k.name WHEN '' THEN '{}' ELSE p_lanes END AS keyed,
        CASE WHEN k.room <= 0 THEN 0 ELSE least(k.room, p_left, floor((level.pass - k.pass) * k.weight)::integer + 1) END AS n
      FROM lowest k CROSS JOIN level WHERE k.room <= 0 OR k.pass <= level.pass
  ), due AS MATERIALIZED (
    SELECT w.name, w.n, w.pass + (row_number() OVER o - 1) / w.weight AS tag, row_number() OVER o AS i, c.id, c.available_at
    FROM wanted w CROSS JOIN LATERAL (
      SELECT * FROM (
        SELECT r.* FROM unnest(w.keyed) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.id FROM holdfast.tasks x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key = w.work_key AND x.worker_id IS NULL AND x.available_at <= p_now AND x.id <> ALL (p_tried)
          AND (p_only IS NULL OR x.id = ANY (p_only)) AND NOT EXISTS (SELECT 1 FROM holdfast.runs o WHERE o.key = x.run AND o.deadline_at <= p_now) ORDER BY x.available_at, x.id LIMIT w.n + 1) r
        UNION ALL
        SELECT r.* FROM unnest(w.unkeyed) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.id FROM holdfast.tasks x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key IS NULL AND x.worker_id IS NULL AND x.available_at <= p_now AND x.id <> ALL (p_tried)
          AND (p_only IS NULL OR x.id = ANY (p_only)) AND NOT EXISTS (SELECT 1 FROM holdfast.runs o WHERE o.key = x.run AND o.deadline_at <= p_now) ORDER BY x.work_key, x.available_at, x.id LIMIT w.n + 1) r
        UNION ALL
        SELECT r.* FROM unnest(w.plain) AS a(activity) CROSS JOIN LATERAL (SELECT x.available_at, x.id FROM holdfast.tasks x WHERE x.queue = q.name AND x.activity = a.activity AND x.lane IS NULL
          AND x.available_at <= p_now AND x.id <> ALL (p_tried)
          AND (p_only IS NULL OR x.id = ANY (p_only)) AND NOT EXISTS (SELECT 1 FROM holdfast.runs o WHERE o.key = x.run AND o.deadline_at <= p_now) ORDER BY x.available_at, x.id LIMIT w.n + 1) r
      ) b ORDER BY b.available_at, b.id LIMIT w.n + 1) c
    WINDOW o AS (PARTITION BY w.name ORDER BY c.available_at, c.id)
  ), best AS MATERIALIZED (
    SELECT d.* FROM due d WHERE d.i <= d.n ORDER BY d.tag, d.available_at, d.id LIMIT p_left
  ), looked AS MATERIALIZED (
    SELECT c.name, max(c.weight) AS weight, max(c.wake_at) AS wake_at, CASE WHEN max(c.room) <= 0 THEN max(c.wake_at) IS NULL ELSE sum(c.due) > sum(c.taken) END AS more
      FROM (SELECT w.name, w.weight, w.wake_at, w.room, 0 AS due, 0 AS taken FROM wanted w
        UNION ALL SELECT d.name, NULL, NULL, NULL, 1, 0 FROM due d UNION ALL SELECT b.name, NULL, NULL, NULL, 0, 1 FROM best b) c GROUP BY c.name
  )
  SELECT ARRAY (SELECT b.id FROM best b ORDER BY b.tag, b.available_at, b.id), ARRAY (SELECT b.name FROM best b ORDER BY b.tag, b.available_at, b.id),
      ARRAY (SELECT b.tag FROM best b ORDER BY b.tag, b.available_at, b.id), array_agg(l.name), array_agg(l.weight), array_agg(l.more), array_agg(l.wake_at)
    INTO keys, names, tags, of, weights, more, wakes FROM looked l;
END $$;

-- Claims up to p_limit activities of these names. Answers as claim_queued_runs_1.
CREATE FUNCTION holdfast.claim_queued_tasks_1(p_queue text, p_now bigint, p_worker text, p_lease bigint, p_activities text[], p_limit integer, p_only bigint[],
  OUT ids bigint[], OUT at bigint, OUT next_at bigint) LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues;
  x record;
  f record;
  v_priority integer;
  v_lanes integer[];
  v_room integer;
  v_starts integer;
  v_left integer;
  v_new bigint[];
  v_tried bigint[] := '{}';
  v_done text[];
  v_found text[];
  v_pass double precision;
  v_cursor text;
  v_at_end boolean := true;
BEGIN
  ids := '{}';
  PERFORM holdfast.task_lanes_1(p_queue, p_activities);
  SELECT * INTO q FROM holdfast.queues WHERE name = p_queue FOR NO KEY UPDATE;
  at := holdfast.clock_1(p_now);
  IF q.paused AND coalesce(q.paused_until > at, true) THEN
    next_at := q.paused_until;
    RETURN;
  END IF;
  v_room := CASE WHEN q.concurrency IS NULL THEN p_limit ELSE holdfast.slots_left_1(p_queue, 'tasks', false, NULL, q.concurrency) END;
  IF q.rate_limit IS NOT NULL THEN
    SELECT s.n INTO v_starts FROM holdfast.starts_left_1(p_queue, 'tasks', NULL, q.rate_limit, q.rate_per, at) s;
  END IF;
  FOR v_priority, v_lanes IN SELECT l.priority, array_agg(l.lane) FROM holdfast.lanes l WHERE l.queue = p_queue AND l.workflow = ANY (p_activities) AND l.version IS NULL
      GROUP BY l.priority ORDER BY l.priority DESC LOOP
    v_left := least(v_room, v_starts, p_limit - cardinality(ids));
    EXIT WHEN v_left <= 0;
    v_found := '{}';
    SELECT t.pass, t.walked INTO v_pass, v_cursor FROM holdfast.queue_times t WHERE t.queue = p_queue AND t.kind = 'tasks' AND t.priority = v_priority;
    v_pass := coalesce(v_pass, 0);
    IF q.keyed_tasks THEN
      UPDATE holdfast.queue_keys k SET ready = true, wake_at = NULL, pass = greatest(k.pass, v_pass) WHERE k.queue = p_queue AND k.kind = 'tasks' AND k.priority = v_priority AND k.wake_at <= at;
      SELECT * INTO f FROM holdfast.find_task_keys_1(p_queue, v_lanes, v_priority, coalesce(v_cursor, ''), greatest(v_left, 100), at);
      v_found := coalesce(f.names, '{}');
      v_cursor := f.cursor;
      v_at_end := v_at_end AND f.cursor = '';
    END IF;
    PERFORM holdfast.ready_keys_1(p_queue, 'tasks', v_priority, v_pass, v_found || ''::text);
    v_done := '{}';
    WHILE v_left > 0 LOOP
      SELECT * INTO x FROM holdfast.next_tasks_1(q, v_lanes, CASE v_priority WHEN 0 THEN p_activities ELSE '{}' END, v_priority, v_left, v_done, p_only, v_tried, at);
      EXIT WHEN x.of IS NULL;
      v_new := ARRAY (SELECT t.id FROM holdfast.tasks t WHERE t.id = ANY (x.keys) AND t.available_at <= at AND t.worker_id IS NULL FOR UPDATE SKIP LOCKED);
      IF cardinality(v_new) > 0 THEN
        SELECT ids || array_agg(u.key ORDER BY u.i), greatest(v_pass, max(u.tag)) INTO ids, v_pass
          FROM unnest(x.keys, x.tags) WITH ORDINALITY AS u(key, tag, i) WHERE u.key = ANY (v_new);
        UPDATE holdfast.tasks t SET lane = -l.lane FROM holdfast.lanes l
          WHERE t.id = ANY (v_new) AND t.lane IS NULL AND l.lane = ANY (v_lanes) AND l.workflow = t.activity;
        PERFORM holdfast.take_tasks_1(v_new, '{}', p_worker, p_lease, at);
        IF q.longest_per IS NOT NULL THEN
          INSERT INTO holdfast.queue_starts (queue, kind, name, at) SELECT q.name, 'tasks', coalesce('=' || t.work_key, ''), claim_queued_tasks_1.at FROM holdfast.tasks t WHERE t.id = ANY (v_new);
        END IF;
      END IF;
      PERFORM holdfast.served_keys_1(p_queue, 'tasks', v_priority, v_pass, array_agg(u.name), array_agg(coalesce(t.n, 0) / u.weight),
          -- Other workers may serve activities that this one does not.
          array_agg(u.more OR EXISTS (SELECT 1 FROM holdfast.lanes l CROSS JOIN LATERAL (
            SELECT 1 FROM holdfast.tasks r WHERE r.lane = -l.lane AND r.lane < 0 AND r.worker_id IS NULL AND r.work_key = substr(u.name, 2) AND r.available_at <= at LIMIT 1) e
            WHERE l.queue = p_queue AND l.priority = v_priority AND l.lane <> ALL (v_lanes))),
          array_agg(CASE WHEN NOT u.more THEN u.wake END))
        FROM unnest(x.of, x.weights, x.more, x.wakes) AS u(name, weight, more, wake)
        LEFT JOIN (SELECT o.name, count(*) AS n FROM unnest(x.keys, x.names) AS o(key, name) WHERE o.key = ANY (v_new) GROUP BY o.name) t ON t.name = u.name;
      v_tried := v_tried || x.keys;
      v_left := v_left - cardinality(v_new);
      v_room := v_room - cardinality(v_new);
      v_starts := v_starts - cardinality(v_new);
      v_done := v_done || ARRAY (SELECT u.name FROM unnest(x.of) AS u(name) WHERE u.name <> ALL (x.names));
    END LOOP;
    PERFORM holdfast.move_on_1(p_queue, 'tasks', v_priority, v_pass, coalesce(v_cursor, ''));
  END LOOP;
  PERFORM holdfast.end_claim_1(q, 'tasks', at);
  IF cardinality(ids) < p_limit THEN
    SELECT min(h.available_at) INTO next_at FROM (
      SELECT r.available_at FROM holdfast.lanes l CROSS JOIN LATERAL (SELECT t.available_at FROM holdfast.tasks t
          WHERE t.lane = -l.lane AND t.lane < 0 AND t.worker_id IS NULL AND t.available_at > at AND t.id <> ALL (ids) ORDER BY t.available_at LIMIT 1) r
        WHERE l.queue = p_queue AND l.workflow = ANY (p_activities) AND l.version IS NULL
      UNION ALL
      SELECT r.available_at FROM unnest(p_activities) AS a(activity) CROSS JOIN LATERAL (SELECT t.available_at FROM holdfast.tasks t
          WHERE t.queue = p_queue AND t.activity = a.activity AND t.lane IS NULL AND t.available_at > at ORDER BY t.available_at LIMIT 1) r) h;
    next_at := least(next_at, CASE WHEN v_starts <= 0 THEN (SELECT s.at FROM holdfast.starts_left_1(p_queue, 'tasks', NULL, q.rate_limit, q.rate_per, at) s) END, CASE WHEN NOT v_at_end THEN at END,
      (SELECT min(k.wake_at) FROM holdfast.queue_keys k WHERE k.queue = p_queue AND k.kind = 'tasks' AND k.wake_at > at AND k.wake_at < 9007199254740991));
  ELSE next_at := at;
  END IF;
END $$;
