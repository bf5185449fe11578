-- D6: the end of a transaction step.

-- D6: the outcome of a transaction step, in the same transaction as the user's writes. Null: the claim is lost.
CREATE FUNCTION holdfast.finish_transaction_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_run text, p_epoch integer, p_message text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
  v_key bigint;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  SELECT key INTO v_key FROM holdfast.runs WHERE id = p_run AND epoch = p_epoch AND worker_id IS NOT NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  RETURN holdfast.end_call_1(p_instance, p_slot, holdfast.put_1(v_key, p_message::jsonb, holdfast.clock_1(p_now))::text);
END $$;
