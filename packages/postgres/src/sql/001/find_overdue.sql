-- What is overdue, for expire_runs, settle_tasks, deliver_mail, tick_schedules and retire_runs.

-- What the store has to look at: runs past their deadline, tasks whose time is up, mail, schedules that are due, closed
-- runs whose retention is over. One look, which writes nothing.
CREATE FUNCTION holdfast.overdue_1(p_now bigint, p_limit integer, p_first boolean) RETURNS text LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
BEGIN
  RETURN json_build_object('now', v_now,
    'runs', (SELECT json_agg(json_build_array(l.id, l.deadline_at)) FROM (SELECT id, deadline_at FROM holdfast.runs
      WHERE deadline_at <= v_now AND deadline_at IS NOT NULL AND finished_at IS NULL AND NOT expired ORDER BY deadline_at LIMIT p_limit) l),
    'tasks', (SELECT json_agg(row_to_json(t)) FROM (SELECT id, token, attempt, activity, retry, worker_id, scheduled_at, started_at, heartbeat_at,
      schedule_to_close, schedule_to_start, start_to_close, heartbeat FROM holdfast.tasks WHERE due_at <= v_now ORDER BY due_at LIMIT p_limit) t),
    'schedules', (SELECT json_agg(row_to_json(s)) FROM (
      -- Specs have inputs in them, which may be large: as many as an answer should have, and one in any case.
      SELECT x.*, sum(octet_length(x.spec)) OVER (ORDER BY x.due_at, x.id) - octet_length(x.spec) AS before
      FROM (SELECT * FROM holdfast.schedules WHERE due_at <= v_now AND due_at IS NOT NULL ORDER BY due_at LIMIT p_limit) x) s WHERE s.before < 8000000),
    'mail', EXISTS (SELECT 1 FROM holdfast.mail WHERE error IS NULL),
    'old', EXISTS (SELECT 1 FROM holdfast.runs WHERE remove_at < v_now),
    -- Another process has seen a later time than this.
    'back', p_first AND EXISTS (SELECT 1 FROM holdfast.calls WHERE at > clock_timestamp() + interval '1 second'))::text;
END $$;
