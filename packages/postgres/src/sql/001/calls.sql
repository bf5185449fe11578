-- The clock, and calls that are carried out once. Each call has a name: process, slot, and a number (token) that grows. `calls` keeps the
-- last one of each slot with its answer, so that a call whose answer was lost can be repeated.

-- The store's time: the server's, unless a test has its own clock.
CREATE FUNCTION holdfast.clock_1(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(p_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- Null: go on. Otherwise this call was carried out before: its answer. Waits for the first of the two to end. Tokens grow: a copy that
-- comes late, after its slot was used again, is refused.
CREATE FUNCTION holdfast.begin_call_1(p_instance text, p_slot integer, p_token bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_token bigint;
  v_answer text;
BEGIN
  IF p_slot IS NULL THEN RETURN NULL; END IF;
  -- Almost always the slot exists: an update costs half of an upsert.
  UPDATE holdfast.calls SET token = p_token, answer = NULL, at = now() WHERE instance = p_instance AND slot = p_slot AND token < p_token;
  IF FOUND THEN RETURN NULL; END IF;
  INSERT INTO holdfast.calls AS c (instance, slot, token) VALUES (p_instance, p_slot, p_token)
    ON CONFLICT (instance, slot) DO UPDATE SET token = excluded.token, answer = NULL, at = now() WHERE c.token < excluded.token;
  IF FOUND THEN RETURN NULL; END IF;
  SELECT token, answer INTO v_token, v_answer FROM holdfast.calls WHERE instance = p_instance AND slot = p_slot;
  IF v_token <> p_token THEN RAISE EXCEPTION 'call-superseded' USING ERRCODE = 'HF001'; END IF;
  RETURN coalesce(v_answer, '{}');
END $$;

-- The fate of a call, once none of its copies is being carried out. Its answer, if it was carried out. Null: it was not, and never will be,
-- however late a copy comes: its token is used up. The same answer if it is called twice.
CREATE FUNCTION holdfast.give_up_call_1(p_instance text, p_slot integer, p_token bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text := holdfast.begin_call_1(p_instance, p_slot, p_token);
BEGIN
  IF v_answer IS NOT NULL THEN RETURN nullif(v_answer, 'given up'); END IF;
  UPDATE holdfast.calls SET answer = 'given up' WHERE instance = p_instance AND slot = p_slot;
  RETURN NULL;
END $$;

CREATE FUNCTION holdfast.end_call_1(p_instance text, p_slot integer, p_answer text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF p_slot IS NOT NULL AND p_answer <> '{}' THEN
    UPDATE holdfast.calls SET answer = p_answer WHERE instance = p_instance AND slot = p_slot;
  END IF;
  RETURN p_answer;
END $$;
