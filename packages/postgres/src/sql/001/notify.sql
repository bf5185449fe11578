-- Notifications, and the processes that listen for them.

-- Tells others, in a transaction that waits for no disk: the lock that notifications are queued under is held for microseconds.
CREATE FUNCTION holdfast.notify_1(p_channel text, p_notice text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM pg_notify(p_channel, p_notice);
END $$;

-- This process listens, if it has a name here. Returns how many others do; who has not been heard of for a minute does not.
CREATE FUNCTION holdfast.attend_1(p_instance text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  IF p_instance IS NOT NULL THEN
    INSERT INTO holdfast.instances (id, seen_at) VALUES (p_instance, clock_timestamp()) ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at;
  END IF;
  DELETE FROM holdfast.instances WHERE id IN (SELECT id FROM holdfast.instances WHERE seen_at < clock_timestamp() - interval '1 minute' FOR UPDATE SKIP LOCKED);
  DELETE FROM holdfast.calls WHERE (instance, slot) IN (SELECT instance, slot FROM holdfast.calls WHERE at < clock_timestamp() - interval '1 hour' FOR UPDATE SKIP LOCKED);
  RETURN (SELECT count(*) FROM holdfast.instances WHERE id <> p_instance);
END $$;

-- What it has called is remembered for a while: a call that was passed by may still be on its way.
CREATE FUNCTION holdfast.leave_1(p_instance text) RETURNS void LANGUAGE sql AS $$
  DELETE FROM holdfast.instances WHERE id = p_instance
$$;
