// In SQL: messages, and the small functions that all others stand on.
// Owns: the clock, the memory of calls, errors as stored text, inboxes, idempotency keys.
// Invariants: M1 M3 M10 (once for each key, in order), D9 (a message makes a parked run available), K9; rows of runs that were not locked
// in order beforehand are locked with NOWAIT, so that no two calls ever wait for each other. What one run can't have (its row is locked by
// somebody, a message can't be written) is kept for later or put aside: others do not wait for it.

import {
  CanceledError,
  type HoldfastError,
  jsonCodec,
  RunAlreadyExistsError,
  RunClosedError,
  RunNotFoundError,
  RunTerminatedError,
  serializeError,
} from "@holdfast/core";

/** Stand for what an error is about, inside the text of it. */
const RUN = "%RUN%";
const DETAIL = "%DETAIL%";

/** An error as it is stored, as a literal of SQL. Where it was made says nothing. */
function errorText(error: HoldfastError): string {
  const { stack: _stack, ...serialized } = serializeError(error);
  return literal(jsonCodec.encode(serialized));
}
/** With backslashes it is an escape string: that means the same whatever `standard_conforming_strings` says. */
export function literal(text: string): string {
  const quoted = `'${text.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
  return text.includes("\\") ? `E${quoted}` : quoted;
}
/**
 * Of functions that go by batches: plans are made once, and go through indexes. Left to itself PostgreSQL plans some of the statements
 * anew each time: 620 µs of its time for a commit of one turn, against 380 with this. It also compiles what it thinks is dear: 43 ms for a
 * batch of retention.
 */
export const BY_INDEX =
  "SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off";
/** What shares a call with something that somebody has locked is taken out of it then (D3): see `CallOptions.isShared`. */
export const NOT_LONG = "SET lock_timeout = '1s'";

/**
 * How a function begins that must not be carried out twice: a call that was carried out before gets the answer that it had. Written out
 * where it matters, since a call of `begin_call_1` takes as long as its statement.
 */
export const beginCall = (s: string): string =>
  `
  UPDATE ${s}.calls SET token = p_token, answer = NULL, at = now() WHERE instance = p_instance AND slot = p_slot AND token < p_token;
  IF NOT FOUND THEN
    v_answer := ${s}.begin_call_1(p_instance, p_slot, p_token);
    IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  END IF;`.trim();

/** In place of an answer: the call was not carried out, and must not be any more. */
const GIVEN_UP = "given up";

/** What an operation without a value has as its value. */
export const NOTHING: string = literal(jsonCodec.encode(undefined));

/** M10: milliseconds for which the outcome of an update without a key is kept at least. */
export const KEYLESS_OUTCOME_KEPT = 3_600_000;

/** Data of a message with that time: M8, an update that may wait to be accepted. Such a one has no data of its own. */
const dataUntil = (data: string, within: string, now: string): string =>
  `CASE WHEN ${within} IS NULL THEN ${data} ELSE json_build_object('acceptUntil', ${now} + ${within})::text END`;

export const messages = (s: string): string => `
-- The store's time: the server's, unless a test has a clock of its own.
CREATE FUNCTION ${s}.clock_1(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(p_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- Null: go on. Otherwise this very call was carried out, and here is its answer. Waits for the first of the two to end. Tokens grow: one
-- that comes late, after its slot has gone on, is refused.
CREATE FUNCTION ${s}.begin_call_1(p_instance text, p_slot integer, p_token bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_token bigint;
  v_answer text;
BEGIN
  IF p_slot IS NULL THEN RETURN NULL; END IF;
  -- Almost always the slot is there: an update costs half of what an upsert does.
  UPDATE ${s}.calls SET token = p_token, answer = NULL, at = now() WHERE instance = p_instance AND slot = p_slot AND token < p_token;
  IF FOUND THEN RETURN NULL; END IF;
  INSERT INTO ${s}.calls AS c (instance, slot, token) VALUES (p_instance, p_slot, p_token)
    ON CONFLICT (instance, slot) DO UPDATE SET token = excluded.token, answer = NULL, at = now() WHERE c.token < excluded.token;
  IF FOUND THEN RETURN NULL; END IF;
  SELECT token, answer INTO v_token, v_answer FROM ${s}.calls WHERE instance = p_instance AND slot = p_slot;
  IF v_token <> p_token THEN RAISE EXCEPTION 'a call that came too late' USING ERRCODE = 'HF001'; END IF;
  RETURN coalesce(v_answer, '{}');
END $$;

-- What became of a call, once none of its copies is under way. Its answer, if it was carried out. Null: it was not, and never will be, however
-- late a copy of it comes: its name is taken. The same if it is asked twice.
CREATE FUNCTION ${s}.give_up_call_1(p_instance text, p_slot integer, p_token bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text := ${s}.begin_call_1(p_instance, p_slot, p_token);
BEGIN
  IF v_answer IS NOT NULL THEN RETURN nullif(v_answer, ${literal(GIVEN_UP)}); END IF;
  UPDATE ${s}.calls SET answer = ${literal(GIVEN_UP)} WHERE instance = p_instance AND slot = p_slot;
  RETURN NULL;
END $$;

CREATE FUNCTION ${s}.end_call_1(p_instance text, p_slot integer, p_answer text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF p_slot IS NOT NULL AND p_answer <> '{}' THEN
    UPDATE ${s}.calls SET answer = p_answer WHERE instance = p_instance AND slot = p_slot;
  END IF;
  RETURN p_answer;
END $$;

CREATE FUNCTION ${s}.error_1(p_kind text, p_run text, p_detail text DEFAULT '') RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT replace(replace(CASE p_kind
    WHEN 'closed' THEN ${errorText(new RunClosedError({ runId: RUN, status: DETAIL }))}
    WHEN 'not-found' THEN ${errorText(new RunNotFoundError({ runId: RUN }))}
    WHEN 'exists' THEN ${errorText(new RunAlreadyExistsError({ runId: RUN }))}
    WHEN 'exists-other' THEN ${errorText(new RunAlreadyExistsError({ runId: RUN, workflow: DETAIL }))}
    ELSE ${errorText(new RunTerminatedError({ runId: RUN, reason: DETAIL }))}
  END, '${RUN}', substr(to_json(p_run)::text, 2, length(to_json(p_run)::text) - 2)),
    '${DETAIL}', substr(to_json(p_detail)::text, 2, length(to_json(p_detail)::text) - 2))
$$;

-- With the reason of a cancel, if it has one. Taken from its data as text: it may have escapes that the server would not read.
CREATE FUNCTION ${s}.canceled_error_1(p_message jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT replace(${errorText(new CanceledError(DETAIL))}, '${DETAIL}', substring(p_message ->> 'd' from '^[{]"reason" ?: ?"(.*)"[}]$'))
$$;

-- Locks runs in order of id: those named, and for those that may end all that their end may reach: open descendants, and parents.
CREATE FUNCTION ${s}.lock_runs_1(p_ids text[], p_ending text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ids text[];
BEGIN
  WITH RECURSIVE ending AS (
    SELECT r.id, r.parent_id FROM ${s}.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT c.id, c.parent_id FROM ending e CROSS JOIN LATERAL (
      SELECT x.id, x.parent_id FROM ${s}.runs x WHERE x.parent_id = e.id AND x.finished_at IS NULL OFFSET 0) c
  )
  SELECT p_ids || array_agg(e.id) || array_agg(e.parent_id) FILTER (WHERE e.parent_id IS NOT NULL) INTO v_ids FROM ending e;
  PERFORM 1 FROM ${s}.runs WHERE id = ANY (v_ids) ORDER BY id FOR NO KEY UPDATE;
END $$;

-- Locks those of these runs that come free within moments, in order of id. Returns which. One that somebody keeps, a person at a console or
-- a transaction that is still open, costs those after it a tenth of a second, and three of them no more than that.
CREATE FUNCTION ${s}.lock_soon_1(p_keys bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_until timestamptz := clock_timestamp() + interval '300 milliseconds';
  v_before text := current_setting('lock_timeout');
  v_free bigint[] := '{}';
  v_key bigint;
BEGIN
  FOREACH v_key IN ARRAY ARRAY (SELECT key FROM ${s}.runs WHERE key = ANY (p_keys) ORDER BY id) LOOP
    PERFORM set_config('lock_timeout', CASE WHEN clock_timestamp() < v_until THEN '100ms' ELSE '1ms' END, true);
    BEGIN
      PERFORM 1 FROM ${s}.runs WHERE key = v_key FOR NO KEY UPDATE;
      v_free := v_free || v_key;
    EXCEPTION WHEN lock_not_available THEN NULL;
    END;
  END LOOP;
  PERFORM set_config('lock_timeout', v_before, true);
  RETURN v_free;
END $$;

-- Locks runs that nobody else has locked, with p_wait also those that come free within moments; those of p_ending with all that their end
-- may reach. Returns which are locked now: whatever a run's end may reach is in the way of it if somebody has that.
CREATE FUNCTION ${s}.lock_free_1(p_ids text[], p_ending text[], p_wait boolean) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_runs bigint[];
  v_members bigint[];
  v_free bigint[];
BEGIN
  WITH RECURSIVE family AS (
    SELECT r.key AS run, r.key, r.id, r.parent_id FROM ${s}.runs r WHERE r.id = ANY (p_ending)
    UNION
    SELECT f.run, c.key, c.id, c.parent_id FROM family f CROSS JOIN LATERAL (
      SELECT x.key, x.id, x.parent_id FROM ${s}.runs x WHERE x.parent_id = f.id AND x.finished_at IS NULL OFFSET 0) c
  ), members AS (
    SELECT r.key AS run, r.key FROM ${s}.runs r WHERE r.id = ANY (p_ids)
    UNION
    SELECT run, key FROM family
    UNION
    SELECT f.run, p.key FROM family f CROSS JOIN LATERAL (SELECT x.key FROM ${s}.runs x WHERE x.id = f.parent_id OFFSET 0) p
  )
  SELECT array_agg(m.run), array_agg(m.key) INTO v_runs, v_members FROM members m;
  IF p_wait THEN v_free := ${s}.lock_soon_1(v_members);
  ELSE v_free := ARRAY (SELECT key FROM ${s}.runs WHERE key = ANY (v_members) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  RETURN ARRAY (SELECT m.run FROM unnest(v_runs, v_members) AS m(run, key) GROUP BY m.run HAVING bool_and(m.key = ANY (v_free)));
END $$;

-- Into the inbox of an open run, key or no key. A run that is parked becomes available now; one that has not begun keeps its start, one
-- that is leased its lease. The run is locked.
CREATE FUNCTION ${s}.put_1(p_run bigint, p_message jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint := nextval('${s}.inbox_ids');
BEGIN
  INSERT INTO ${s}.inbox (run, id, received_at, type, seq, name, refs, data, value)
    SELECT p_run, v_id, p_now, m.y, m.q, m.m, m.f, ${dataUntil("m.d", "m.aw", "p_now")}, m.v
      FROM jsonb_to_record(p_message) AS m(y text, q integer, m text, f text[], d text, v text, aw bigint);
  UPDATE ${s}.runs SET last_message = v_id,
      available_at = CASE WHEN worker_id IS NULL AND status NOT IN ('pending', 'blocked') THEN least(available_at, p_now) ELSE available_at END
    WHERE key = p_run;
  RETURN v_id;
END $$;

-- The answer to an operation, if it still is one of the run's: closed runs and later executions did not ask.
CREATE FUNCTION ${s}.answer_1(p_run text, p_execution integer, p_message jsonb, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_key bigint;
BEGIN
  SELECT key INTO v_key FROM ${s}.runs WHERE id = p_run AND finished_at IS NULL AND execution = p_execution FOR NO KEY UPDATE NOWAIT;
  IF FOUND THEN PERFORM ${s}.put_1(v_key, p_message, p_now); END IF;
END $$;

-- From a message for a run id to the inbox, once. A message has: y type, q seq, m name, f refs, d data, v value; k idempotency key,
-- u id of the update, kl that its sender gave no key, aw how long it may wait to be accepted, wf the workflow that the run has to be of (M3). Answers with s status and either i inbox id, r status of the run or
-- w its workflow.
CREATE FUNCTION ${s}.deliver_1(p_run text, p_message jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run ${s}.runs;
  v_known bigint;
  v_update text := p_message ->> 'u';
  v_key text := p_message ->> 'k';
BEGIN
  SELECT * INTO v_run FROM ${s}.runs WHERE id = p_run FOR NO KEY UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN '{"s":"not-found"}'; END IF;
  IF v_run.workflow <> p_message ->> 'wf' THEN RETURN jsonb_build_object('s', 'other-workflow', 'w', v_run.workflow); END IF;
  IF p_message ->> 'y' = 'cancel' AND v_run.status = 'canceled' THEN RETURN '{"s":"duplicate","i":0}'; END IF;
  IF v_update IS NOT NULL THEN SELECT inbox_id INTO v_known FROM ${s}.updates WHERE run = v_run.key AND id = v_update;
  ELSIF v_key IS NOT NULL THEN SELECT inbox_id INTO v_known FROM ${s}.message_keys WHERE run = v_run.key AND key = v_key;
  END IF;
  IF v_known IS NOT NULL THEN RETURN jsonb_build_object('s', 'duplicate', 'i', v_known); END IF;
  IF v_run.finished_at IS NOT NULL THEN RETURN jsonb_build_object('s', 'closed', 'r', v_run.status); END IF;
  IF p_message ->> 'y' = 'cancel' THEN v_known := ${s}.cancel_run_1(v_run.key, p_message, p_now);
  ELSE v_known := ${s}.put_1(v_run.key, p_message, p_now);
  END IF;
  IF v_update IS NOT NULL THEN INSERT INTO ${s}.updates (run, id, inbox_id, keyless, accept_until)
      VALUES (v_run.key, v_update, v_known, coalesce((p_message ->> 'kl')::boolean, false), p_now + (p_message ->> 'aw')::bigint);
  ELSIF v_key IS NOT NULL THEN INSERT INTO ${s}.message_keys (run, key, inbox_id) VALUES (v_run.key, v_key, v_known);
  END IF;
  RETURN jsonb_build_object('s', 'sent', 'i', v_known);
END $$;

-- Messages for runs. p_plain: signals without keys, and updates of different ids, all in a few statements; p_others: one by one. A batch is
-- one or the other. The answer to one whose run somebody has locked, with p_wait for longer than a moment, is null: it was not sent.
CREATE FUNCTION ${s}.send_messages_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_plain text, p_others text, p_wait boolean)
RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
  v_answer text := ${s}.begin_call_1(p_instance, p_slot, p_token);
  v_messages jsonb := p_others::jsonb;
  v_results jsonb := '[]';
  v_message jsonb;
  v_ids text[];
  v_free bigint[];
  v_keys bigint[];
  v_inbox_ids bigint[];
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  IF p_others IS NOT NULL THEN
    -- Whatever is said to a run that may end waits for all that its end may reach: its messages keep their order.
    v_ids := ARRAY (SELECT m ->> 'r' FROM jsonb_array_elements(v_messages) m WHERE m ->> 'y' = 'cancel');
    v_free := ${s}.lock_free_1(ARRAY (SELECT m ->> 'r' FROM jsonb_array_elements(v_messages) m), v_ids, p_wait);
    FOR v_message IN SELECT * FROM jsonb_array_elements(v_messages) LOOP
      IF EXISTS (SELECT 1 FROM ${s}.runs WHERE id = v_message ->> 'r' AND key <> ALL (v_free)) THEN v_results := v_results || 'null'::jsonb;
      ELSE v_results := v_results || ${s}.deliver_1(v_message ->> 'r', v_message, v_now);
      END IF;
    END LOOP;
    RETURN ${s}.end_call_1(p_instance, p_slot, v_results::text);
  END IF;
  v_ids := ARRAY (SELECT r FROM json_to_recordset(p_plain::json) AS m(r text));
  IF p_wait THEN v_free := ${s}.lock_free_1(v_ids, '{}', true);
  ELSE v_free := ARRAY (SELECT key FROM ${s}.runs WHERE id = ANY (v_ids) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  WITH found AS MATERIALIZED (
    SELECT o.*, CASE WHEN o.key = ANY (v_free) AND o.finished_at IS NULL AND o.known IS NULL AND (o.wf IS NULL OR o.wf = o.workflow)
      THEN nextval('${s}.inbox_ids') END AS inbox_id
    FROM (SELECT m.*, r.key, r.finished_at, r.status, r.workflow, k.inbox_id AS known
      FROM json_to_recordset(p_plain::json) AS m(o integer, r text, y text, m text, f text[], d text, v text, u text, wf text, kl boolean, aw bigint)
      LEFT JOIN LATERAL (SELECT x.key, x.finished_at, x.status, x.workflow FROM ${s}.runs x WHERE x.id = m.r OFFSET 0) r ON true
      LEFT JOIN LATERAL (SELECT x.inbox_id FROM ${s}.updates x WHERE (x.run, x.id) = (r.key, m.u) OFFSET 0) k ON true ORDER BY m.o) o
  ), put AS (
    INSERT INTO ${s}.inbox (run, id, received_at, type, name, refs, data, value)
      SELECT key, inbox_id, v_now, y, m, f, ${dataUntil("d", "aw", "v_now")}, v FROM found WHERE inbox_id IS NOT NULL
  ), asked AS (
    INSERT INTO ${s}.updates (run, id, inbox_id, keyless, accept_until)
      SELECT key, u, inbox_id, coalesce(kl, false), v_now + aw FROM found WHERE inbox_id IS NOT NULL AND u IS NOT NULL
  )
  SELECT jsonb_agg(CASE WHEN wf <> workflow THEN jsonb_build_object('s', 'other-workflow', 'w', workflow)
      WHEN known IS NOT NULL THEN jsonb_build_object('s', 'duplicate', 'i', known) WHEN inbox_id IS NOT NULL THEN jsonb_build_object('s', 'sent', 'i', inbox_id)
      WHEN key IS NULL THEN '{"s":"not-found"}'::jsonb WHEN key <> ALL (v_free) THEN 'null'::jsonb ELSE jsonb_build_object('s', 'closed', 'r', status) END ORDER BY o),
    -- The last first, so that it is the one that is found.
    array_agg(key ORDER BY o DESC) FILTER (WHERE inbox_id IS NOT NULL), array_agg(inbox_id ORDER BY o DESC) FILTER (WHERE inbox_id IS NOT NULL)
    INTO v_results, v_keys, v_inbox_ids FROM found;
  UPDATE ${s}.runs r SET last_message = v_inbox_ids[array_position(v_keys, r.key)],
      available_at = CASE WHEN r.worker_id IS NULL AND r.status NOT IN ('pending', 'blocked') THEN least(r.available_at, v_now) ELSE r.available_at END
    WHERE r.key = ANY (v_keys);
  RETURN ${s}.end_call_1(p_instance, p_slot, v_results::text);
END $$;

-- M8: rejects updates that have waited too long to be accepted. p_updates: r run id, u update, e the error. Answers with null, "waiting" or
-- [status, value, error].
CREATE FUNCTION ${s}.reject_updates_1(p_instance text, p_slot integer, p_token bigint, p_now bigint, p_updates text) RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
  v_answer text := ${s}.begin_call_1(p_instance, p_slot, p_token);
  v_results json[] := '{}';
  v_item record;
  v_update ${s}.updates;
  v_waits boolean;
BEGIN
  IF v_answer IS NOT NULL THEN RETURN v_answer; END IF;
  -- With the row of the run, as whoever accepts one has it: one of the two is first.
  PERFORM ${s}.lock_runs_1(ARRAY (SELECT r FROM json_to_recordset(p_updates::json) AS x(r text)), ARRAY[]::text[]);
  FOR v_item IN SELECT * FROM json_to_recordset(p_updates::json) AS x(r text, u text, e text) LOOP
    SELECT * INTO v_update FROM ${s}.updates WHERE run = (SELECT key FROM ${s}.runs WHERE id = v_item.r) AND id = v_item.u;
    v_waits := v_update.status IS NULL AND v_update.accept_until IS NOT NULL
      AND EXISTS (SELECT 1 FROM ${s}.inbox WHERE run = v_update.run AND id = v_update.inbox_id);
    IF v_waits AND v_update.accept_until <= v_now THEN
      UPDATE ${s}.updates SET status = 'rejected', error = v_item.e, forget_at = CASE WHEN keyless THEN v_now + ${KEYLESS_OUTCOME_KEPT} END
        WHERE run = v_update.run AND id = v_update.id RETURNING * INTO v_update;
      DELETE FROM ${s}.inbox WHERE run = v_update.run AND id = v_update.inbox_id;
      v_waits := false;
    END IF;
    v_results := v_results || CASE WHEN v_waits THEN '"waiting"'::json WHEN v_update.status IS NULL THEN 'null'::json
      ELSE json_build_array(v_update.status, v_update.value, v_update.error) END;
  END LOOP;
  RETURN ${s}.end_call_1(p_instance, p_slot, to_json(v_results)::text);
END $$;

-- A message inside the transaction of the caller that sends it. The lock on the run is the weakest there is: until the transaction ends,
-- turns, claims, renewals and messages go on, and only an end that should hear the message waits (M1; commit_turns_1 locks FOR UPDATE then).
-- What ends a run without a look at its messages does not wait: terminate, a deadline.
CREATE FUNCTION ${s}.post_mail_1(p_now bigint, p_channel text, p_notice text, p_messages text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
  v_results jsonb := '[]';
  v_message jsonb;
  v_run ${s}.runs;
  v_known bigint;
BEGIN
  FOR v_message IN SELECT * FROM jsonb_array_elements(p_messages::jsonb) LOOP
    v_known := NULL;
    SELECT * INTO v_run FROM ${s}.runs WHERE id = v_message ->> 'r' FOR KEY SHARE;
    IF NOT FOUND THEN v_results := v_results || '{"s":"not-found"}'::jsonb; CONTINUE; END IF;
    IF v_run.workflow <> v_message ->> 'wf' THEN
      v_results := v_results || jsonb_build_object('s', 'other-workflow', 'w', v_run.workflow);
      CONTINUE;
    END IF;
    SELECT inbox_id INTO v_known FROM ${s}.updates WHERE run = v_run.key AND id = v_message ->> 'u';
    IF NOT FOUND THEN SELECT inbox_id INTO v_known FROM ${s}.message_keys WHERE run = v_run.key AND key = v_message ->> 'k'; END IF;
    IF v_known IS NOT NULL THEN v_results := v_results || jsonb_build_object('s', 'duplicate', 'i', v_known);
    ELSIF v_run.finished_at IS NOT NULL THEN v_results := v_results || jsonb_build_object('s', 'closed', 'r', v_run.status);
    ELSE
      INSERT INTO ${s}.mail (run_id, posted_at, message) VALUES (v_message ->> 'r', v_now, v_message);
      v_results := v_results || '{"s":"sent","i":0}'::jsonb;
    END IF;
  END LOOP;
  PERFORM pg_notify(p_channel, p_notice);
  RETURN v_results::text;
END $$;

-- One letter into the inbox of its run, which is locked: whoever has the run delivers its mail. False: somebody was faster.
CREATE FUNCTION ${s}.deliver_letter_1(p_id bigint, p_run text, p_message jsonb, p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_result jsonb;
BEGIN
  DELETE FROM ${s}.mail WHERE id = p_id;
  IF NOT FOUND THEN RETURN false; END IF;
  v_result := ${s}.deliver_1(p_run, p_message, p_now);
  -- M10: the run has closed since, and somebody waits for the outcome.
  IF v_result ->> 's' = 'closed' AND p_message ? 'u' THEN
    INSERT INTO ${s}.updates (run, id, inbox_id, status, error)
      SELECT key, p_message ->> 'u', 0, 'rejected', ${s}.error_1('closed', id, status) FROM ${s}.runs WHERE id = p_run;
  END IF;
  RETURN true;
END $$;

-- M1, D9: runs that are about to end, and are locked, get the mail that was posted by now. What can't be delivered is left for
-- deliver_mail_1, which says why. Was there any?
CREATE FUNCTION ${s}.take_mail_1(p_runs text[], p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_mail record;
  v_any boolean := false;
BEGIN
  FOR v_mail IN SELECT id, run_id, message FROM ${s}.mail WHERE error IS NULL AND run_id = ANY (p_runs) ORDER BY id LOOP
    BEGIN
      v_any := ${s}.deliver_letter_1(v_mail.id, v_mail.run_id, v_mail.message, p_now) OR v_any;
    EXCEPTION
      WHEN insufficient_resources THEN RAISE;
      WHEN OTHERS THEN NULL;
    END;
  END LOOP;
  RETURN v_any;
END $$;

-- Puts mail into the inboxes, those of each run in order: one process at a time does it. What can't be delivered stays, with the reason, and
-- stops no other. What is for a run that somebody has locked is left for later, with p_wait if it does not come free soon. Answers with how
-- many were delivered (n) and whether some were left (b).
CREATE FUNCTION ${s}.deliver_mail_1(p_now bigint, p_limit integer, p_wait boolean) RETURNS text LANGUAGE plpgsql ${BY_INDEX} AS $$
DECLARE
  v_now bigint := ${s}.clock_1(p_now);
  v_until timestamptz := clock_timestamp() + interval '300 milliseconds';
  v_busy text[] := '{}';
  v_count integer := 0;
  v_mail record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(${literal(`${s} mail`)}, 0));
  FOR v_mail IN SELECT id, run_id, message FROM ${s}.mail WHERE error IS NULL ORDER BY id LOOP
    EXIT WHEN v_count >= p_limit;
    CONTINUE WHEN v_mail.run_id = ANY (v_busy);
    BEGIN
      IF p_wait AND clock_timestamp() < v_until THEN
        PERFORM ${s}.lock_soon_1(ARRAY (SELECT key FROM ${s}.runs WHERE id = v_mail.run_id));
      END IF;
      PERFORM 1 FROM ${s}.runs WHERE id = v_mail.run_id FOR NO KEY UPDATE NOWAIT;
      IF ${s}.deliver_letter_1(v_mail.id, v_mail.run_id, v_mail.message, v_now) THEN v_count := v_count + 1; END IF;
    EXCEPTION
      WHEN lock_not_available OR serialization_failure OR deadlock_detected THEN v_busy := v_busy || v_mail.run_id;
      WHEN insufficient_resources THEN RAISE; -- nobody's mail can be written
      WHEN OTHERS THEN UPDATE ${s}.mail SET error = format('%s (SQLSTATE %s)', SQLERRM, SQLSTATE) WHERE id = v_mail.id;
    END;
  END LOOP;
  RETURN json_build_object('n', v_count, 'b', cardinality(v_busy) > 0)::text;
END $$;
`;
