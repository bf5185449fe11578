-- Notifications, and the processes that listen for them.

-- Notifies others, in a transaction that does not wait for the disk: the lock that notifications are queued under is held for microseconds.
CREATE FUNCTION holdfast.notify_1(p_channel text, p_notice text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM pg_notify(p_channel, p_notice);
END $$;

-- This process listens, if it has a name here. Returns how many others do; a process that was not heard of for a minute does not count.
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

-- Its calls are remembered for a while: a late copy of one may still be on its way.
CREATE FUNCTION holdfast.leave_1(p_instance text) RETURNS void LANGUAGE sql AS $$
  DELETE FROM holdfast.instances WHERE id = p_instance
$$;
