-- Workers that are alive (B6): each beats every few seconds.

-- A worker is alive, for p_alive milliseconds at least. It says so without waiting for the disk. Rows of workers that died go.
CREATE FUNCTION holdfast.beat_1(p_now bigint, p_id text, p_info text, p_alive bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  DELETE FROM holdfast.live_workers WHERE id IN (SELECT id FROM holdfast.live_workers WHERE seen_at + alive_for < v_now FOR UPDATE SKIP LOCKED);
  INSERT INTO holdfast.live_workers (id, info, started_at, seen_at, alive_for) VALUES (p_id, p_info, v_now, v_now, p_alive)
    ON CONFLICT (id) DO UPDATE SET info = excluded.info, seen_at = excluded.seen_at, alive_for = excluded.alive_for;
  RETURN '';
END $$;

CREATE FUNCTION holdfast.leave_worker_1(p_id text) RETURNS text LANGUAGE sql AS $$
  DELETE FROM holdfast.live_workers WHERE id = p_id;
  SELECT ''
$$;

-- A row from before the clock was set back counts again once its worker has beaten.
CREATE FUNCTION holdfast.live_workers_1(p_now bigint) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(json_agg(json_build_array(w.id, w.info, w.started_at, w.seen_at) ORDER BY w.started_at, w.id), '[]')::text
    FROM holdfast.live_workers w, (SELECT holdfast.clock_1(p_now) AS now) c WHERE w.seen_at + w.alive_for >= c.now AND w.seen_at <= c.now
$$;

-- What the messages of workflows look like, as a worker registers it when it starts. A row that says the same already is left as it is.
CREATE FUNCTION holdfast.register_workflows_1(p_rows text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO holdfast.workflows (key, workflow, version, info)
    SELECT x.key, x.workflow, x.version, x.info FROM json_to_recordset(p_rows::json) AS x(key text, workflow text, version text, info text) ORDER BY x.key
    ON CONFLICT (key) DO UPDATE SET info = excluded.info WHERE workflows.info <> excluded.info;
  RETURN '';
END $$;
