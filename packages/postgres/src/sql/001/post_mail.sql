-- Signals that callers send in their own transactions, and their way into the inbox (M1, D9). `mail` keeps them until the transaction has
-- committed: the inbox belongs to the run's worker, whose row must stay free.

-- A message inside the transaction of the caller that sends it. The lock on the run is the weakest there is: until the transaction ends,
-- turns, claims, renewals and messages go on, and only an end that has to see the message waits (M1; commit_turns_1 locks FOR UPDATE then).
-- Ends that don't look at messages don't wait: terminate, a deadline.
CREATE FUNCTION holdfast.post_mail_1(p_now bigint, p_channel text, p_notice text, p_messages text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_results jsonb := '[]';
  v_message jsonb;
  v_run holdfast.runs;
  v_known bigint;
BEGIN
  FOR v_message IN SELECT * FROM jsonb_array_elements(p_messages::jsonb) LOOP
    v_known := NULL;
    SELECT * INTO v_run FROM holdfast.runs WHERE id = v_message ->> 'r' FOR KEY SHARE;
    IF NOT FOUND THEN v_results := v_results || '{"s":"not-found"}'::jsonb; CONTINUE; END IF;
    IF v_run.workflow <> v_message ->> 'wf' THEN
      v_results := v_results || jsonb_build_object('s', 'other-workflow', 'w', v_run.workflow);
      CONTINUE;
    END IF;
    SELECT inbox_id INTO v_known FROM holdfast.updates WHERE run = v_run.key AND id = v_message ->> 'u';
    IF NOT FOUND THEN SELECT inbox_id INTO v_known FROM holdfast.message_keys WHERE run = v_run.key AND key = v_message ->> 'k'; END IF;
    IF v_known IS NOT NULL THEN v_results := v_results || jsonb_build_object('s', 'duplicate', 'i', v_known);
    ELSIF v_run.finished_at IS NOT NULL THEN v_results := v_results || jsonb_build_object('s', 'closed', 'r', v_run.status);
    ELSE
      INSERT INTO holdfast.mail (run_id, posted_at, message) VALUES (v_message ->> 'r', v_now, v_message);
      v_results := v_results || '{"s":"sent","i":0}'::jsonb;
    END IF;
  END LOOP;
  PERFORM pg_notify(p_channel, p_notice);
  RETURN v_results::text;
END $$;

-- One letter into the inbox of its run, which is locked, or (await, start) what else it is about. False: another transaction has delivered it.
CREATE FUNCTION holdfast.deliver_letter_1(p_id bigint, p_run text, p_message jsonb, p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_result jsonb;
BEGIN
  DELETE FROM holdfast.mail WHERE id = p_id;
  IF NOT FOUND THEN RETURN false; END IF;
  IF p_message ->> 'y' = 'await' THEN
    -- Q10: a run waits for this one, which may have closed since.
    UPDATE holdfast.runs SET awaited = true WHERE id = p_run AND finished_at IS NULL;
    IF NOT FOUND THEN PERFORM holdfast.release_waiting_1(NULL, p_run, NULL, p_now); END IF;
    RETURN true;
  ELSIF p_message ->> 'y' = 'start' THEN
    -- Q9: a newer start, for the run as it is now.
    PERFORM holdfast.create_run_1(p_message -> 'start', p_now);
    RETURN true;
  END IF;
  v_result := holdfast.deliver_1(p_run, p_message, p_now);
  -- M10: the run has closed since, and a caller waits for the outcome.
  IF v_result ->> 's' = 'closed' AND p_message ? 'u' THEN
    INSERT INTO holdfast.updates (run, id, inbox_id, status, error)
      SELECT key, p_message ->> 'u', 0, 'rejected', holdfast.error_1('closed', id, status) FROM holdfast.runs WHERE id = p_run;
  END IF;
  RETURN true;
END $$;

-- M1, D9: runs that are about to end, and are locked, get the mail that was posted by now. What can't be delivered is left for
-- deliver_mail_1, which stores the reason. True: there was mail.
CREATE FUNCTION holdfast.take_mail_1(p_runs text[], p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_mail record;
  v_any boolean := false;
BEGIN
  FOR v_mail IN SELECT id, run_id, message FROM holdfast.mail WHERE error IS NULL AND run_id = ANY (p_runs) ORDER BY id LOOP
    BEGIN
      v_any := holdfast.deliver_letter_1(v_mail.id, v_mail.run_id, v_mail.message, p_now) OR v_any;
    EXCEPTION
      WHEN insufficient_resources THEN RAISE;
      WHEN OTHERS THEN NULL;
    END;
  END LOOP;
  RETURN v_any;
END $$;

-- Puts mail into the inboxes, those of each run in order: one process at a time does it. What can't be delivered stays, with the reason, and
-- stops no other. Mail for a run that another transaction has locked is left for later, with p_wait if it does not come free soon. Answers with how
-- many were delivered (n) and whether some were left (b).
CREATE FUNCTION holdfast.deliver_mail_1(p_now bigint, p_limit integer, p_wait boolean) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_now bigint := holdfast.clock_1(p_now);
  v_until timestamptz := clock_timestamp() + interval '300 milliseconds';
  v_busy text[] := '{}';
  v_count integer := 0;
  v_mail record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.mail', 0));
  FOR v_mail IN SELECT id, run_id, message FROM holdfast.mail WHERE error IS NULL ORDER BY id LOOP
    EXIT WHEN v_count >= p_limit;
    CONTINUE WHEN v_mail.run_id = ANY (v_busy);
    BEGIN
      IF p_wait AND clock_timestamp() < v_until THEN
        PERFORM holdfast.lock_soon_1(ARRAY (SELECT key FROM holdfast.runs WHERE id = v_mail.run_id));
      END IF;
      PERFORM 1 FROM holdfast.runs WHERE id = v_mail.run_id FOR NO KEY UPDATE NOWAIT;
      IF holdfast.deliver_letter_1(v_mail.id, v_mail.run_id, v_mail.message, v_now) THEN v_count := v_count + 1; END IF;
    EXCEPTION
      WHEN lock_not_available OR serialization_failure OR deadlock_detected THEN v_busy := v_busy || v_mail.run_id;
      WHEN insufficient_resources THEN RAISE; -- no mail can be written
      WHEN OTHERS THEN UPDATE holdfast.mail SET error = format('%s (SQLSTATE %s)', SQLERRM, SQLSTATE) WHERE id = v_mail.id;
    END;
  END LOOP;
  RETURN json_build_object('n', v_count, 'b', cardinality(v_busy) > 0)::text;
END $$;
