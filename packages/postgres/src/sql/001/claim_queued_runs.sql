-- Q2–Q6: which runs of a managed queue a claim gets. All is done under the lock on the queue's row.

-- The claim itself. Starts are noted where the queue has rates (Q4). p_slots: whether these runs take slots, where open runs count; p_under:
-- of their keys only, since an ancestor holds that of the queue. Returns those that were taken from a worker whose lease ran out.
CREATE FUNCTION holdfast.take_runs_1(q holdfast.queues, p_keys bigint[], p_worker text, p_lease bigint, p_now bigint, p_slots boolean, p_under boolean) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  v_recovered bigint[];
BEGIN
  IF q.longest_per IS NOT NULL THEN
    INSERT INTO holdfast.queue_starts (queue, kind, name, at) SELECT q.name, 'runs', coalesce('=' || r.work_key, ''), p_now FROM holdfast.runs r
      WHERE r.key = ANY (p_keys) AND r.started_at IS NULL;
  END IF;
  WITH claimed AS (
    UPDATE holdfast.runs r SET epoch = r.epoch + 1, status = CASE r.status WHEN 'rolling_back' THEN r.status ELSE 'running' END,
        recovered = r.worker_id IS NOT NULL, recoveries = r.recoveries + (r.worker_id IS NOT NULL)::integer, worker_id = p_worker,
        parked_by = coalesce(r.worker_id, r.parked_by), lane = -abs(r.lane),
        held = r.held OR q.counts_open AND p_slots, under = p_under AND (r.under OR NOT r.held),
        lease = p_lease, available_at = p_now + p_lease, started_at = coalesce(r.started_at, p_now), turns = CASE WHEN r.worker_id IS NULL THEN r.turns ELSE coalesce((SELECT max(t.turn) + 1 FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns), r.turns) END, history_length = CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE r.history_length + (SELECT count(*)::integer FROM holdfast.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns AND t.direction <> 'turn') END
      WHERE r.key = ANY (p_keys) RETURNING r.key, r.recovered
  )
  SELECT array_agg(c.key) INTO v_recovered FROM claimed c WHERE c.recovered;
  IF v_recovered IS NOT NULL THEN
    UPDATE holdfast.attempts a SET status = 'lost', ended_at = p_now
      WHERE a.run = ANY (v_recovered) AND a.execution = (SELECT r.execution FROM holdfast.runs r WHERE r.key = a.run) AND a.status = 'running' AND NOT a.task;
  END IF;
  RETURN v_recovered;
END $$;

-- Of a queue that counts open runs: those that are due and hold a slot of it or of their key, or that an ancestor holds one for. What each
-- lacks: only one that holds a slot of its key alone, and whose ancestors have ended, lacks one of the queue. p_paused: none of these keys (Q6);
-- p_passed: none of these runs.
CREATE FUNCTION holdfast.covered_runs_1(p_queue text, p_lanes integer[], p_limit integer, p_paused text[], p_passed bigint[], p_now bigint)
RETURNS TABLE (key bigint, lacks_queue boolean, lacks_key boolean) LANGUAGE plpgsql ROWS 10 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT r.key, r.under AND NOT (SELECT c.of_queue FROM holdfast.covered_1(p_queue, CASE WHEN r.under AND r.parent_close <> 'abandon' THEN r.parent_id END, r.work_key, false) c), false
    FROM holdfast.runs r WHERE r.queue = p_queue AND r.held AND r.ended_as IS NULL AND r.available_at <= p_now AND abs(r.lane) = ANY (p_lanes)
    AND (r.deadline_at IS NULL OR r.deadline_at > p_now OR r.expired OR r.status = 'rolling_back') AND r.key <> ALL (p_passed) AND coalesce(r.work_key <> ALL (p_paused), true)
    ORDER BY r.available_at, r.key LIMIT p_limit;
  RETURN QUERY WITH RECURSIVE family AS (
      SELECT r.id, r.work_key AS slot, r.under, NULL::bigint AS key, NULL::bigint AS available_at, NULL::integer AS lane, NULL::text COLLATE "C" AS work_key, false AS waits
        FROM holdfast.runs r WHERE r.queue = p_queue AND r.held AND r.ended_as IS NULL
      UNION ALL
      SELECT c.id, f.slot, f.under, c.key, c.available_at, c.lane, c.work_key, c.waits FROM family f CROSS JOIN LATERAL (
        SELECT x.id, x.key, x.available_at, x.lane, x.work_key,
            x.queue = p_queue AND NOT x.held AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back') AS waits
          FROM holdfast.runs x WHERE x.parent_id = f.id AND x.finished_at IS NULL AND x.parent_close <> 'abandon' OFFSET 0) c
    )
    SELECT f.key, false, NOT bool_or(f.work_key IS NOT DISTINCT FROM f.slot) FROM family f
      WHERE f.waits AND f.available_at <= p_now AND abs(f.lane) = ANY (p_lanes) AND f.key <> ALL (p_passed) AND coalesce(f.work_key <> ALL (p_paused), true) GROUP BY f.key, f.available_at HAVING bool_or(NOT f.under) ORDER BY f.available_at, f.key LIMIT p_limit;
END $$;

-- Q3: ends expired leases of a full queue, or of these keys of it, whose workflow this claim does not serve. Others can claim the runs, and
-- their slots are free.
CREATE FUNCTION holdfast.end_expired_1(p_queue text, p_names text[], p_lanes integer[], p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_keys bigint[] := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.queue = p_queue AND r.lane < 0 AND r.worker_id IS NOT NULL AND r.available_at <= p_now
    AND -r.lane <> ALL (p_lanes) AND (p_names IS NULL OR '=' || r.work_key = ANY (p_names)) ORDER BY r.available_at, r.key LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED);
BEGIN
  IF cardinality(v_keys) = 0 THEN RETURN false; END IF;
  PERFORM holdfast.count_turns_1(k.key) FROM unnest(v_keys) AS k(key);
  UPDATE holdfast.attempts a SET status = 'lost', ended_at = p_now
    WHERE a.run = ANY (v_keys) AND a.execution = (SELECT r.execution FROM holdfast.runs r WHERE r.key = a.run) AND a.status = 'running' AND NOT a.task;
  UPDATE holdfast.runs r SET epoch = r.epoch + 1, recoveries = r.recoveries + 1, parked_by = r.worker_id, worker_id = NULL, available_at = p_now,
      status = CASE r.status WHEN 'running' THEN 'sleeping' ELSE r.status END WHERE r.key = ANY (v_keys);
  RETURN true;
END $$;

-- Q5: keys with something due that may not be known as ready yet: those of the newest runs, and some more in the order of keys, from where
-- the claim before it stopped (p_cursor). `cursor` is where this one stopped: empty at the end. p_kind, p_fresh: as in next_runs_1.
CREATE FUNCTION holdfast.find_run_keys_1(p_queue text, p_kind text, p_fresh integer, p_lanes integer[], p_priority integer, p_cursor text, p_most integer, p_now bigint, OUT names text[], OUT cursor text)
LANGUAGE plpgsql AS $$
BEGIN
  WITH RECURSIVE walk AS (
    SELECT l.lane, 1 AS n, (SELECT x.work_key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.lane < 0 AND x.worker_id IS NULL
        AND x.available_at IS NOT NULL AND x.work_key >= p_cursor ORDER BY x.work_key LIMIT 1) AS work_key FROM unnest(p_lanes) AS l(lane)
    UNION ALL
    SELECT w.lane, w.n + 1, (SELECT x.work_key FROM holdfast.runs x WHERE x.lane = -w.lane AND x.lane < 0 AND x.worker_id IS NULL
        AND x.available_at IS NOT NULL AND x.work_key > w.work_key ORDER BY x.work_key LIMIT 1)
      FROM walk w WHERE w.work_key IS NOT NULL AND w.n <= p_most
  ), newest AS (
    SELECT l.lane, 0, r.work_key FROM unnest(p_lanes) AS l(lane) CROSS JOIN LATERAL (
      SELECT x.work_key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.available_at <= p_now AND x.worker_id IS NULL AND x.work_key IS NOT NULL
      ORDER BY x.available_at DESC, x.key DESC LIMIT least(p_most, 100)) r
  ), found AS MATERIALIZED (
    SELECT DISTINCT f.lane, f.work_key, k.wake_at FROM (SELECT lane, work_key FROM walk WHERE work_key IS NOT NULL UNION ALL SELECT lane, work_key FROM newest) f
      LEFT JOIN LATERAL (SELECT x.ready, x.wake_at FROM holdfast.queue_keys x WHERE x.queue = p_queue AND x.kind = p_kind AND x.name = '=' || f.work_key
        AND x.priority = p_priority OFFSET 0) k ON true
      WHERE k.ready IS NOT TRUE
  )
  -- One that may start nothing yet is found for what has begun only.
  SELECT array_agg(DISTINCT '=' || f.work_key), coalesce((SELECT min(w.work_key) FROM walk w WHERE w.n > p_most), '') INTO names, cursor FROM found f
    WHERE p_fresh IS DISTINCT FROM 0 AND f.wake_at IS NULL AND (SELECT 1 FROM holdfast.runs x WHERE x.lane = -f.lane AND x.lane < 0 AND x.worker_id IS NULL AND x.work_key = f.work_key
        AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 1 AND x.available_at <= p_now LIMIT 1) IS NOT NULL
      OR p_fresh IS DISTINCT FROM 1 AND (SELECT 1 FROM holdfast.runs x WHERE x.lane = -f.lane AND x.lane < 0 AND x.worker_id IS NULL AND x.work_key = f.work_key
        AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 0 AND x.available_at <= p_now LIMIT 1) IS NOT NULL;
END $$;

-- Makes keys ready that have something from now on, at one priority. Answers with its virtual time, and up to which key it has looked.
CREATE FUNCTION holdfast.look_for_run_keys_1(p_queue text, p_kind text, p_fresh integer, p_lanes integer[], p_priority integer, p_most integer, p_now bigint,
  OUT pass double precision, OUT cursor text) LANGUAGE plpgsql AS $$
DECLARE
  v_names text[];
BEGIN
  SELECT t.pass, t.walked INTO pass, cursor FROM holdfast.queue_times t WHERE t.queue = p_queue AND t.kind = p_kind AND t.priority = p_priority;
  pass := coalesce(pass, 0);
  -- What a pause or a rate of the key has held back has saved up nothing.
  UPDATE holdfast.queue_keys k SET ready = true, wake_at = NULL, pass = greatest(k.pass, look_for_run_keys_1.pass) WHERE k.queue = p_queue AND k.kind = p_kind AND k.priority = p_priority AND k.wake_at <= p_now;
  SELECT f.names, f.cursor INTO v_names, cursor FROM holdfast.find_run_keys_1(p_queue, p_kind, p_fresh, p_lanes, p_priority, coalesce(cursor, ''), p_most, p_now) f;
  -- Those without a key are one key together.
  PERFORM holdfast.ready_keys_1(p_queue, p_kind, p_priority, pass, v_names || ''::text);
END $$;

-- The next runs by the order of Q5, at most p_left and, of those that start, p_starts (null: no limit). p_kind: whose passes count; p_fresh:
-- 1 only runs that start, 0 only others, null both. p_done: keys that this claim is done with. Answers with the runs, the key of each and its
-- pass (tags), with the keys that were looked at: whether each has more, and its weight; and with the pass up to which it has looked.
CREATE FUNCTION holdfast.next_runs_1(q holdfast.queues, p_kind text, p_fresh integer, p_lanes integer[], p_priority integer, p_left integer, p_starts integer, p_done text[], p_only bigint[], p_tried bigint[], p_now bigint,
  OUT keys bigint[], OUT names text[], OUT tags double precision[], OUT of text[], OUT weights double precision[], OUT more boolean[], OUT wakes bigint[], OUT up_to double precision)
LANGUAGE plpgsql SET enable_sort = off AS $$
BEGIN
  WITH lowest AS MATERIALIZED (
    SELECT k.name, k.pass, l.weight, l.room, l.starts, CASE WHEN p_fresh IS DISTINCT FROM 0 OR l.room <= 0 THEN l.wake_at END AS wake_at FROM (
      SELECT x.name, x.pass FROM holdfast.queue_keys x WHERE x.queue = q.name AND x.kind = p_kind AND x.priority = p_priority AND x.ready AND x.name <> ALL (p_done)
      ORDER BY x.pass, x.name LIMIT p_left + 10) k CROSS JOIN LATERAL (SELECT x.* FROM holdfast.key_limits_1(q, 'runs', k.name, p_now) x OFFSET 0) l
  ), sums AS MATERIALIZED (
    SELECT sum(k.weight) OVER o AS weights, sum(k.pass * k.weight) OVER o AS passes FROM lowest k WHERE k.room IS NULL OR k.room > 0
      WINDOW o AS (ORDER BY k.pass, k.name ROWS UNBOUNDED PRECEDING)
  ), level AS MATERIALIZED (
    -- Up to this pass all of them would take what is left.
    SELECT min((p_left + s.passes) / s.weights) AS pass FROM sums s
  ), wanted AS MATERIALIZED (
    SELECT k.*, substr(k.name, 2) AS work_key,
        CASE WHEN k.name = '' AND p_fresh IS DISTINCT FROM 1 THEN p_lanes ELSE '{}' END AS plain_begun, CASE WHEN k.name <> '' AND p_fresh IS DISTINCT FROM 1 THEN p_lanes ELSE '{}' END AS keyed_begun,
        CASE WHEN k.name = '' AND p_fresh IS DISTINCT FROM 0 THEN p_lanes ELSE '{}' END AS plain_new, CASE WHEN k.name <> '' AND p_fresh IS DISTINCT FROM 0 THEN p_lanes ELSE '{}' END AS keyed_new,
        CASE WHEN k.room <= 0 THEN 0 ELSE least(k.room, p_left, floor((level.pass - k.pass) * k.weight)::integer + 1) END AS n,
        greatest(0, least(k.starts, p_starts, p_left + 1)) AS fresh
      FROM lowest k CROSS JOIN level WHERE k.room <= 0 OR k.pass <= level.pass
  ), due AS MATERIALIZED (
    SELECT w.name, w.n, w.pass + (row_number() OVER o - 1) / w.weight AS tag, row_number() OVER o AS i, c.key, c.fresh, c.available_at
    FROM wanted w CROSS JOIN LATERAL (
      SELECT * FROM (
        SELECT 0 AS fresh, r.* FROM unnest(w.keyed_begun) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key = w.work_key AND x.worker_id IS NULL AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 0 AND x.available_at <= p_now AND x.key <> ALL (p_tried)
          AND (p_only IS NULL OR x.key = ANY (p_only)) AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back') ORDER BY x.available_at, x.key LIMIT w.n + 1) r
        UNION ALL
        SELECT 0, r.* FROM unnest(w.plain_begun) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key IS NULL AND x.worker_id IS NULL AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 0 AND x.available_at <= p_now AND x.key <> ALL (p_tried)
          AND (p_only IS NULL OR x.key = ANY (p_only)) AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back')
          ORDER BY x.work_key, CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END, x.available_at, x.key LIMIT w.n + 1) r
        UNION ALL
        (SELECT 1, r.* FROM unnest(w.keyed_new) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.key FROM holdfast.runs x WHERE x.lane = -l.lane AND x.lane < 0
          AND x.work_key = w.work_key AND x.worker_id IS NULL AND CASE WHEN x.started_at IS NULL THEN 1 ELSE 0 END = 1 AND x.available_at <= p_now AND x.key <> ALL (p_tried)
          AND (p_only IS NULL OR x.key = ANY (p_only)) AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back') ORDER BY x.available_at, x.key LIMIT least(w.n + 1, w.fresh)) r
          ORDER BY r.available_at, r.key LIMIT least(w.n + 1, w.fresh))
        UNION ALL
        -- Runs without a key that have not begun are in the plain lanes, and those that were claimed before the queue had keys.
        (SELECT 1, r.* FROM unnest(w.plain_new) AS l(lane) CROSS JOIN LATERAL (SELECT x.available_at, x.key FROM holdfast.runs x WHERE x.lane = l.lane
          AND x.available_at <= p_now AND x.key <> ALL (p_tried)
          AND (p_only IS NULL OR x.key = ANY (p_only)) AND (x.deadline_at IS NULL OR x.deadline_at > p_now OR x.expired OR x.status = 'rolling_back') ORDER BY x.available_at, x.key LIMIT least(w.n + 1, w.fresh)) r
          ORDER BY r.available_at, r.key LIMIT least(w.n + 1, w.fresh))
      ) b ORDER BY b.fresh, b.available_at, b.key LIMIT w.n + 1) c
    WINDOW o AS (PARTITION BY w.name ORDER BY c.fresh, c.available_at, c.key)
  ), best AS MATERIALIZED (
    SELECT x.* FROM (SELECT d.*, row_number() OVER (PARTITION BY d.fresh ORDER BY d.tag, d.available_at, d.key) AS nth FROM due d WHERE d.i <= d.n) x
      WHERE x.fresh = 0 OR p_starts IS NULL OR x.nth <= p_starts ORDER BY x.tag, x.available_at, x.key LIMIT p_left
  ), looked AS MATERIALIZED (
    SELECT c.name, max(c.weight) AS weight, max(c.wake_at) AS wake_at, CASE WHEN max(c.room) <= 0 THEN max(c.wake_at) IS NULL ELSE sum(c.due) > sum(c.taken)
        OR coalesce(max(c.starts) > 0 AND max(c.starts) <= sum(c.fresh), false) OR coalesce(p_starts <= (SELECT count(*) FROM best b WHERE b.fresh = 1), false) END AS more
      FROM (SELECT w.name, w.weight, w.wake_at, w.room, w.starts, 0 AS due, 0 AS taken, 0 AS fresh FROM wanted w
        UNION ALL SELECT d.name, NULL, NULL, NULL, NULL, 1, 0, 0 FROM due d UNION ALL SELECT b.name, NULL, NULL, NULL, NULL, 0, 1, b.fresh FROM best b) c GROUP BY c.name
  )
  SELECT ARRAY (SELECT b.key FROM best b ORDER BY b.tag, b.available_at, b.key), ARRAY (SELECT b.name FROM best b ORDER BY b.tag, b.available_at, b.key),
      ARRAY (SELECT b.tag FROM best b ORDER BY b.tag, b.available_at, b.key), array_agg(l.name), array_agg(l.weight), array_agg(l.more), array_agg(l.wake_at),
      (SELECT v.pass FROM level v) INTO keys, names, tags, of, weights, more, wakes, up_to FROM looked l;
END $$;

-- Q5 in a queue with a rate: the next runs by the order of Q5, each with its place in it, by the time of runs: that of starts is p_lag behind.
-- `still`: the rate has no room by then, and the time of starts stands still. Answers for both kinds of passes: `kinds` says which one gave each
-- run its place, `of_kinds` which one each key was looked at by; `due`: that key has something, now or in the next look of this claim.
CREATE FUNCTION holdfast.next_shared_runs_1(q holdfast.queues, p_lanes integer[], p_priority integer, p_left integer, p_starts integer, p_done text[], p_done_starts text[], p_only bigint[], p_tried bigint[],
  p_lag double precision, p_now bigint, OUT keys bigint[], OUT names text[], OUT tags double precision[], OUT kinds text[], OUT still boolean[], OUT of text[], OUT weights double precision[], OUT more boolean[], OUT wakes bigint[], OUT of_kinds text[], OUT due boolean[])
LANGUAGE plpgsql AS $$
DECLARE
  b record;
  n record;
BEGIN
  SELECT * INTO b FROM holdfast.next_runs_1(q, 'runs', 0, p_lanes, p_priority, p_left, NULL, p_done, p_only, p_tried, p_now);
  SELECT * INTO n FROM holdfast.next_runs_1(q, 'starts', 1, p_lanes, p_priority, least(p_left, p_starts), p_starts, p_done_starts, p_only, p_tried, p_now) WHERE p_starts > 0;
  WITH found AS MATERIALIZED (
    SELECT 'runs' AS kind, u.key, u.name, u.tag AS at, u.i FROM unnest(b.keys, b.names, b.tags) WITH ORDINALITY AS u(key, name, tag, i)
    UNION ALL
    SELECT 'starts', u.key, u.name, u.tag + p_lag, u.i FROM unnest(n.keys, n.names, n.tags) WITH ORDINALITY AS u(key, name, tag, i)
  ), looked AS MATERIALIZED (
    SELECT 'runs' AS kind, u.* FROM unnest(b.of, b.weights, b.more, b.wakes) AS u(name, weight, more, wake)
    UNION ALL SELECT 'starts', u.* FROM unnest(n.of, n.weights, n.more, n.wakes) AS u(name, weight, more, wake)
  ), withheld AS MATERIALIZED (
    -- W2: these may have something that goes on, which comes before what they start.
    SELECT l.name FROM looked l WHERE l.kind = 'starts' AND l.name <> ALL (p_done) AND EXISTS (SELECT 1 FROM holdfast.queue_keys k
      WHERE k.queue = q.name AND k.kind = 'runs' AND k.name = l.name AND k.priority = p_priority AND k.ready)
  ), cut AS MATERIALIZED (
    -- What comes after the place that the first start of such a key gets then waits for the next look; what comes after that up to which both have
    -- looked, too.
    SELECT least(b.up_to, n.up_to + p_lag) + 1e-9 AS up_to, min(coalesce((SELECT max(f.at) FROM found f WHERE f.kind = 'runs' AND f.name = w.name) + 1 / l.weight, s.at)) AS at
      FROM withheld w JOIN looked l ON l.kind = 'runs' AND l.name = w.name
      CROSS JOIN LATERAL (SELECT min(f.at) AS at FROM found f WHERE f.kind = 'starts' AND f.name = w.name) s WHERE s.at IS NOT NULL
  ), best AS MATERIALIZED (
    SELECT f.*, count(*) FILTER (WHERE f.kind = 'starts') OVER (ORDER BY f.at, f.kind, f.i ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) >= p_starts AS still
      FROM found f CROSS JOIN cut c WHERE (f.kind = 'runs' OR f.name NOT IN (SELECT w.name FROM withheld w)) AND (c.at IS NULL OR f.at < c.at) AND (c.up_to IS NULL OR f.at <= c.up_to)
      ORDER BY f.at, f.kind, f.i LIMIT p_left
  )
  SELECT c.keys, c.names, c.tags, c.kinds, c.still, o.of, o.weights, o.more, o.wakes, o.of_kinds, o.due INTO keys, names, tags, kinds, still, of, weights, more, wakes, of_kinds, due
    FROM (SELECT array_agg(x.key ORDER BY x.at, x.kind, x.i) AS keys, array_agg(x.name ORDER BY x.at, x.kind, x.i) AS names, array_agg(x.at ORDER BY x.at, x.kind, x.i) AS tags,
        array_agg(x.kind ORDER BY x.at, x.kind, x.i) AS kinds, array_agg(x.still ORDER BY x.at, x.kind, x.i) AS still FROM best x) c
    CROSS JOIN (SELECT array_agg(l.name) AS of, array_agg(l.weight) AS weights, array_agg(l.wake) AS wakes, array_agg(l.kind) AS of_kinds, array_agg(e.due) AS due,
        array_agg(l.more OR EXISTS (SELECT 1 FROM found x WHERE x.kind = l.kind AND x.name = l.name AND NOT EXISTS (SELECT 1 FROM best y WHERE y.key = x.key))) AS more
      FROM looked l CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM found x WHERE x.kind = l.kind AND x.name = l.name) AS due) e) o;
END $$;

-- Claims up to p_limit runs. p_lanes, p_priorities: the lanes that the worker serves, as plain runs have them. p_only: only these runs.
-- p_blocked: these blocked runs instead, due or not (V4). Answers with the runs in order, those that were recovered, the time, and when a
-- claim may find more if this one has found less than it asked for.
CREATE FUNCTION holdfast.claim_queued_runs_1(p_queue text, p_now bigint, p_worker text, p_lease bigint, p_lanes integer[], p_priorities integer[], p_limit integer, p_only bigint[],
  p_blocked bigint[], OUT keys bigint[], OUT recovered bigint[], OUT at bigint, OUT next_at bigint)
LANGUAGE plpgsql AS $$
DECLARE
  q holdfast.queues;
  x record;
  f record;
  v_priority integer;
  v_lanes integer[];
  v_others integer[];
  v_room integer;
  v_starts integer;
  v_starts_at bigint;
  v_left integer;
  v_new bigint[];
  v_locked bigint[];
  v_tried bigint[] := '{}';
  v_done text[];
  v_found text[];
  v_pass double precision;
  v_cursor text;
  -- Of starts, where the queue has a rate.
  v_done_starts text[];
  v_pass_starts double precision;
  v_cursor_starts text;
  v_at_end boolean := true;
  v_lacking boolean;
  v_gained bigint[] := '{}';
  -- Where open runs count: paused keys, and runs that were passed over.
  v_paused text[];
  v_passed bigint[];
BEGIN
  keys := '{}';
  recovered := '{}';
  SELECT * INTO q FROM holdfast.queues WHERE name = p_queue FOR NO KEY UPDATE;
  at := holdfast.clock_1(p_now);
  IF q.paused AND coalesce(q.paused_until > at, true) THEN
    next_at := q.paused_until;
    RETURN;
  END IF;
  -- The lock on the queue's row lasts until the commit: without the wait for the disk. A claim that a crash of the server undoes was not
  -- made: turns that were computed under it are refused (D4), and a turn that is durable makes the claim before it durable.
  PERFORM set_config('synchronous_commit', 'off', true);
  v_room := CASE WHEN q.concurrency IS NULL THEN p_limit ELSE holdfast.slots_left_1(p_queue, 'runs', q.counts_open, NULL, q.concurrency) END;
  IF q.rate_limit IS NOT NULL THEN
    SELECT s.n, s.at INTO v_starts, v_starts_at FROM holdfast.starts_left_1(p_queue, 'runs', NULL, q.rate_limit, q.rate_per, at) s;
  END IF;

  IF p_blocked IS NOT NULL THEN
    FOR x IN SELECT r.key, r.held, r.under, coalesce('=' || r.work_key, '') AS name, c.of_queue, c.of_key FROM unnest(p_blocked) WITH ORDINALITY AS b(key, i) CROSS JOIN LATERAL (
        SELECT o.key, q.counts_open AND o.held AS held, o.under, o.work_key, CASE WHEN q.counts_open AND o.parent_close <> 'abandon' THEN o.parent_id END AS parent_id
          FROM holdfast.runs o WHERE o.key = b.key AND o.status = 'blocked'
            AND (NOT q.has_keys OR NOT EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = p_queue AND l.name = '=' || o.work_key AND l.paused AND coalesce(l.paused_until > at, true))) FOR NO KEY UPDATE SKIP LOCKED) r
        CROSS JOIN LATERAL (SELECT o.* FROM holdfast.covered_1(p_queue, r.parent_id, r.work_key, false) o OFFSET 0) c ORDER BY b.i LOOP
      EXIT WHEN cardinality(keys) >= p_limit;
      CONTINUE WHEN NOT x.held AND NOT x.of_key AND (SELECT l.room <= 0 FROM holdfast.key_limits_1(q, 'runs', x.name, at) l);
      v_lacking := NOT x.of_queue AND NOT (x.held AND NOT x.under);
      CONTINUE WHEN v_lacking AND v_room <= 0;
      IF v_lacking THEN v_room := v_room - 1; END IF;
      keys := keys || x.key;
      recovered := recovered || holdfast.take_runs_1(q, ARRAY[x.key], p_worker, p_lease, at, v_lacking OR NOT x.of_key, NOT v_lacking);
    END LOOP;
    RETURN;
  END IF;

  FOR v_priority, v_lanes IN SELECT l.priority, array_agg(l.lane) FROM unnest(p_lanes, p_priorities) AS l(lane, priority) GROUP BY l.priority ORDER BY l.priority DESC LOOP
    EXIT WHEN cardinality(keys) >= p_limit;
    -- What needs no slot, whether the queue is full or not (Q2, Q3).
    IF q.counts_open THEN
      v_paused := ARRAY (SELECT substr(l.name, 2) FROM holdfast.queue_limits l WHERE q.has_keys AND l.queue = p_queue AND l.paused AND coalesce(l.paused_until > at, true));
      v_passed := '{}';
      -- Those that a limit holds back are passed over: others may be behind them.
      LOOP
        v_new := '{}';
        FOR x IN SELECT s.key, s.lacks_queue, s.lacks_key, r.held, r.started_at, coalesce('=' || r.work_key, '') AS name
            FROM holdfast.covered_runs_1(p_queue, v_lanes, p_limit - cardinality(keys), v_paused, v_passed, at) s CROSS JOIN LATERAL (
              SELECT o.held, o.started_at, o.work_key FROM holdfast.runs o WHERE o.key = s.key AND o.available_at <= at AND (p_only IS NULL OR o.key = ANY (p_only)) FOR NO KEY UPDATE SKIP LOCKED) r LOOP
          EXIT WHEN cardinality(keys) >= p_limit;
          v_new := v_new || x.key;
          CONTINUE WHEN x.lacks_queue AND v_room <= 0;
          IF NOT x.held THEN
            CONTINUE WHEN x.started_at IS NULL AND v_starts <= 0;
            CONTINUE WHEN (SELECT l.room <= 0 AND x.lacks_key OR l.starts <= 0 AND x.started_at IS NULL FROM holdfast.key_limits_1(q, 'runs', x.name, at) l);
            IF x.started_at IS NULL THEN v_starts := v_starts - 1; END IF;
          END IF;
          IF x.lacks_queue THEN
            v_room := v_room - 1;
            v_gained := v_gained || x.key;
          END IF;
          keys := keys || x.key;
          recovered := recovered || holdfast.take_runs_1(q, ARRAY[x.key], p_worker, p_lease, at, x.lacks_key, NOT x.lacks_queue);
        END LOOP;
        EXIT WHEN v_new <@ keys OR cardinality(keys) >= p_limit;
        v_passed := v_passed || v_new;
      END LOOP;
    ELSE
      v_new := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.queue = p_queue AND r.lane < 0 AND r.worker_id IS NOT NULL AND r.available_at <= at AND -r.lane = ANY (v_lanes)
        AND (NOT q.has_keys OR NOT EXISTS (SELECT 1 FROM holdfast.queue_limits l WHERE l.queue = p_queue AND l.name = '=' || r.work_key AND l.paused AND coalesce(l.paused_until > at, true)))
        AND (p_only IS NULL OR r.key = ANY (p_only)) AND (r.deadline_at IS NULL OR r.deadline_at > at OR r.expired OR r.status = 'rolling_back')
        ORDER BY r.available_at, r.key LIMIT p_limit - cardinality(keys) FOR NO KEY UPDATE SKIP LOCKED);
      IF cardinality(v_new) > 0 THEN
        keys := keys || v_new;
        recovered := recovered || holdfast.take_runs_1(q, v_new, p_worker, p_lease, at, true, false);
      END IF;
      IF v_room <= 0 AND holdfast.end_expired_1(p_queue, NULL, p_lanes, at) THEN
        v_room := holdfast.slots_left_1(p_queue, 'runs', false, NULL, q.concurrency);
      END IF;
    END IF;
    v_left := least(v_room, p_limit - cardinality(keys));
    CONTINUE WHEN v_left <= 0;
    IF NOT q.keyed_runs THEN
      -- All of them are one key: by availability, and what has begun first.
      WHILE v_left > 0 LOOP
        v_new := ARRAY (SELECT c.key FROM (
            SELECT 0 AS fresh, r.* FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (SELECT o.available_at, o.key FROM holdfast.runs o WHERE o.lane = -l.lane AND o.lane < 0
              AND o.work_key IS NULL AND o.worker_id IS NULL AND CASE WHEN o.started_at IS NULL THEN 1 ELSE 0 END = 0 AND o.available_at <= at AND o.key <> ALL (v_tried)
              AND (p_only IS NULL OR o.key = ANY (p_only)) AND (o.deadline_at IS NULL OR o.deadline_at > at OR o.expired OR o.status = 'rolling_back')
              ORDER BY o.work_key, CASE WHEN o.started_at IS NULL THEN 1 ELSE 0 END, o.available_at, o.key LIMIT v_left) r
            UNION ALL
            (SELECT 1, r.* FROM unnest(v_lanes) AS l(lane) CROSS JOIN LATERAL (SELECT o.available_at, o.key FROM holdfast.runs o WHERE o.lane = l.lane AND o.available_at <= at AND o.key <> ALL (v_tried)
              AND (p_only IS NULL OR o.key = ANY (p_only)) AND (o.deadline_at IS NULL OR o.deadline_at > at OR o.expired OR o.status = 'rolling_back') ORDER BY o.available_at, o.key LIMIT greatest(0, least(v_left, v_starts))) r
              ORDER BY r.available_at, r.key LIMIT greatest(0, least(v_left, v_starts)))
          ) c ORDER BY c.fresh, c.available_at, c.key LIMIT v_left);
        EXIT WHEN cardinality(v_new) = 0;
        v_tried := v_tried || v_new;
        v_locked := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (v_new) AND r.available_at <= at AND (r.worker_id IS NULL OR r.lane > 0) FOR NO KEY UPDATE SKIP LOCKED);
        v_new := ARRAY (SELECT u.key FROM unnest(v_new) WITH ORDINALITY AS u(key, i) WHERE u.key = ANY (v_locked) ORDER BY u.i);
        CONTINUE WHEN cardinality(v_new) = 0;
        IF v_starts IS NOT NULL THEN v_starts := v_starts - (SELECT count(*) FROM holdfast.runs r WHERE r.key = ANY (v_new) AND r.started_at IS NULL); END IF;
        keys := keys || v_new;
        recovered := recovered || holdfast.take_runs_1(q, v_new, p_worker, p_lease, at, true, false);
        v_gained := v_gained || v_new;
        v_left := v_left - cardinality(v_new);
        v_room := v_room - cardinality(v_new);
      END LOOP;
      CONTINUE;
    END IF;
    SELECT * INTO f FROM holdfast.look_for_run_keys_1(p_queue, 'runs', CASE WHEN q.rate_limit IS NULL THEN NULL ELSE 0 END, v_lanes, v_priority, greatest(v_left, 100), at);
    v_pass := f.pass;
    v_cursor := f.cursor;
    v_at_end := v_at_end AND f.cursor = '';
    IF q.rate_limit IS NOT NULL THEN
      SELECT * INTO f FROM holdfast.look_for_run_keys_1(p_queue, 'starts', 1, v_lanes, v_priority, greatest(v_left, 100), at);
      v_pass_starts := f.pass;
      v_cursor_starts := f.cursor;
      v_at_end := v_at_end AND f.cursor = '';
    END IF;
    v_others := ARRAY (SELECT l.lane FROM holdfast.lanes l WHERE l.queue = p_queue AND l.priority = v_priority AND l.lane <> ALL (v_lanes));
    v_done := '{}';
    v_done_starts := '{}';
    WHILE v_left > 0 LOOP
      IF q.rate_limit IS NULL THEN
        SELECT n.*, array_fill('runs'::text, ARRAY[coalesce(cardinality(n.keys), 0)]) AS kinds, array_fill('runs'::text, ARRAY[coalesce(cardinality(n.of), 0)]) AS of_kinds, array_fill(false, ARRAY[coalesce(cardinality(n.keys), 0)]) AS still, ARRAY (SELECT u.name = ANY (n.names) FROM unnest(n.of) WITH ORDINALITY AS u(name, i) ORDER BY u.i) AS due INTO x
          FROM holdfast.next_runs_1(q, 'runs', NULL, v_lanes, v_priority, v_left, NULL, v_done, p_only, v_tried, at) n;
      ELSE
        SELECT * INTO x FROM holdfast.next_shared_runs_1(q, v_lanes, v_priority, v_left, v_starts, v_done, v_done_starts, p_only, v_tried, v_pass - v_pass_starts, at);
      END IF;
      EXIT WHEN x.of IS NULL;
      v_new := ARRAY (SELECT r.key FROM holdfast.runs r WHERE r.key = ANY (x.keys) AND r.available_at <= at AND (r.worker_id IS NULL OR r.lane > 0) FOR NO KEY UPDATE SKIP LOCKED);
      IF cardinality(v_new) > 0 THEN
        IF v_starts IS NOT NULL THEN v_starts := v_starts - (SELECT count(*) FROM holdfast.runs r WHERE r.key = ANY (v_new) AND r.started_at IS NULL); END IF;
        IF q.rate_limit IS NOT NULL THEN
          -- A start moves both passes of its key, too. That of starts does not move while their time stands still.
          PERFORM holdfast.moved_keys_1(p_queue, t.kind, v_priority, array_agg(t.name), array_agg(t.pass))
            FROM (SELECT o.name, k.kind, max(o.tag) + 1 / max(u.weight) - CASE k.kind WHEN 'starts' THEN v_pass - v_pass_starts ELSE 0 END AS pass
              FROM unnest(x.keys, x.names, x.tags, x.kinds, x.still) AS o(key, name, tag, kind, still) JOIN unnest(x.of, x.of_kinds, x.weights) AS u(name, kind, weight) ON u.name = o.name AND u.kind = o.kind
              CROSS JOIN (VALUES ('runs'), ('starts')) AS k(kind) WHERE o.key = ANY (v_new) AND (k.kind = 'runs' OR NOT o.still) GROUP BY o.name, k.kind) t GROUP BY t.kind;
        END IF;
        SELECT keys || array_agg(u.key ORDER BY u.i), greatest(v_pass, max(u.tag)), v_pass_starts + greatest(v_pass, max(u.tag) FILTER (WHERE NOT u.still)) - v_pass
          INTO keys, v_pass, v_pass_starts FROM unnest(x.keys, x.tags, x.still) WITH ORDINALITY AS u(key, tag, still, i) WHERE u.key = ANY (v_new);
        recovered := recovered || holdfast.take_runs_1(q, v_new, p_worker, p_lease, at, true, false);
        v_gained := v_gained || v_new;
      END IF;
      PERFORM holdfast.served_keys_1(p_queue, u.kind, v_priority, CASE u.kind WHEN 'starts' THEN v_pass_starts ELSE v_pass END, array_agg(u.name), array_agg(CASE WHEN q.rate_limit IS NULL THEN coalesce(t.n, 0) / u.weight ELSE 0 END),
          array_agg(u.more OR cardinality(v_others) > 0 AND EXISTS (SELECT 1 FROM unnest(v_others) AS l(lane) CROSS JOIN LATERAL (
            SELECT 1 FROM holdfast.runs r WHERE r.lane = -l.lane AND r.lane < 0 AND r.worker_id IS NULL AND r.work_key = substr(u.name, 2) AND r.available_at <= at LIMIT 1) e)),
          array_agg(CASE WHEN NOT u.more THEN u.wake END))
        FROM unnest(x.of, x.weights, x.more, x.wakes, x.of_kinds) AS u(name, weight, more, wake, kind)
        LEFT JOIN (SELECT o.name, o.kind, count(*) AS n FROM unnest(x.keys, x.names, x.kinds) AS o(key, name, kind) WHERE o.key = ANY (v_new) GROUP BY o.name, o.kind) t ON t.name = u.name AND t.kind = u.kind
        GROUP BY u.kind;
      v_tried := v_tried || x.keys;
      v_left := v_left - cardinality(v_new);
      v_room := v_room - cardinality(v_new);
      -- Those that have nothing get nothing in this claim.
      v_found := '{}';
      FOR f IN SELECT u.name, u.more, u.kind FROM unnest(x.of, x.more, x.of_kinds, x.due) AS u(name, more, kind, due) WHERE NOT u.due LOOP
        IF f.more THEN v_found := v_found || f.name; END IF;
        IF f.kind = 'starts' THEN v_done_starts := v_done_starts || f.name; ELSE v_done := v_done || f.name; END IF;
      END LOOP;
      IF cardinality(v_found) > 0 AND v_left > 0 AND NOT q.counts_open AND holdfast.end_expired_1(p_queue, v_found, p_lanes, at) THEN
        v_done := ARRAY (SELECT d.name FROM unnest(v_done) AS d(name) WHERE d.name <> ALL (v_found));
        v_done_starts := ARRAY (SELECT d.name FROM unnest(v_done_starts) AS d(name) WHERE d.name <> ALL (v_found));
      END IF;
    END LOOP;
    PERFORM holdfast.move_on_1(p_queue, 'runs', v_priority, v_pass, v_cursor);
    IF q.rate_limit IS NOT NULL THEN PERFORM holdfast.move_on_1(p_queue, 'starts', v_priority, v_pass_starts, v_cursor_starts); END IF;
  END LOOP;
  PERFORM holdfast.end_claim_1(q, 'runs', at);
  IF cardinality(keys) < p_limit THEN
    SELECT min(h.available_at) INTO next_at FROM (SELECT l.lane FROM unnest(p_lanes) AS l(lane) UNION ALL SELECT -l.lane FROM unnest(p_lanes) AS l(lane)) l CROSS JOIN LATERAL (
      SELECT r.available_at FROM holdfast.runs r WHERE r.lane = l.lane AND r.available_at > at AND r.key <> ALL (keys)
        AND (r.deadline_at IS NULL OR r.deadline_at > at OR r.expired OR r.status = 'rolling_back') ORDER BY r.available_at, r.key LIMIT 1) h;
    IF v_starts <= 0 THEN SELECT s.at INTO v_starts_at FROM holdfast.starts_left_1(p_queue, 'runs', NULL, q.rate_limit, q.rate_per, at) s; END IF;
    next_at := least(next_at, CASE WHEN v_starts <= 0 THEN v_starts_at END, CASE WHEN NOT v_at_end THEN at END,
      (SELECT min(k.wake_at) FROM holdfast.queue_keys k WHERE k.queue = p_queue AND k.kind IN ('runs', 'starts') AND k.wake_at > at AND k.wake_at < 9007199254740991),
      -- Q2 Q7: runs below those that have got slots may need none from now on.
      CASE WHEN q.counts_open AND EXISTS (SELECT 1 FROM unnest(v_gained) AS k(key) CROSS JOIN LATERAL (SELECT r.id FROM holdfast.runs r WHERE r.key = k.key) p
        CROSS JOIN LATERAL (SELECT 1 FROM holdfast.runs c WHERE c.parent_id = p.id AND c.finished_at IS NULL AND c.parent_close <> 'abandon' LIMIT 1) c) THEN at END);
  ELSE next_at := at;
  END IF;
END $$;
