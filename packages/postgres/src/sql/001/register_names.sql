-- Numbers of lanes and workers.

-- Numbers of lanes and workers. p_lanes: queue, workflow, version, priority; kind: what of the queue has keys now. Made in order, so that two calls can't wait for each other.
CREATE FUNCTION holdfast.register_1(p_lanes text, p_workers text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_lanes json;
  v_workers json;
BEGIN
  INSERT INTO holdfast.lanes (queue, workflow, version, priority)
    SELECT n.* FROM (SELECT DISTINCT * FROM json_to_recordset(p_lanes::json) AS l(queue text, workflow text, version text, priority integer)) n
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.lanes o WHERE o.queue = n.queue AND o.workflow = n.workflow AND o.version IS NOT DISTINCT FROM n.version
      AND o.priority = n.priority)
    ORDER BY queue, workflow, version, priority ON CONFLICT DO NOTHING;
  INSERT INTO holdfast.workers (id)
    SELECT n.id FROM (SELECT DISTINCT id FROM json_array_elements_text(p_workers::json) AS w(id)) n
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.workers o WHERE o.id = n.id) ORDER BY id ON CONFLICT DO NOTHING;
  -- Q1: from now on claims look for keys. That is durable before anything is filed.
  INSERT INTO holdfast.queues AS q (name, keyed_runs, keyed_tasks)
    SELECT n.queue, bool_or(n.kind = 'runs'), bool_or(n.kind = 'tasks') FROM json_to_recordset(p_lanes::json) AS n(queue text, kind text) WHERE n.kind IS NOT NULL
      GROUP BY n.queue ORDER BY n.queue
    ON CONFLICT (name) DO UPDATE SET keyed_runs = q.keyed_runs OR excluded.keyed_runs, keyed_tasks = q.keyed_tasks OR excluded.keyed_tasks
      WHERE excluded.keyed_runs AND NOT q.keyed_runs OR excluded.keyed_tasks AND NOT q.keyed_tasks;
  SELECT json_agg(o.lane ORDER BY n.ord) INTO v_lanes
    FROM ROWS FROM (json_to_recordset(p_lanes::json) AS (queue text, workflow text, version text, priority integer)) WITH ORDINALITY
      AS n(queue, workflow, version, priority, ord)
    JOIN holdfast.lanes o ON o.queue = n.queue AND o.workflow = n.workflow AND o.version IS NOT DISTINCT FROM n.version AND o.priority = n.priority;
  SELECT json_agg(o.key ORDER BY n.ord) INTO v_workers
    FROM json_array_elements_text(p_workers::json) WITH ORDINALITY AS n(id, ord) JOIN holdfast.workers o ON o.id = n.id;
  RETURN json_build_object('lanes', v_lanes, 'workers', v_workers)::text;
END $$;
