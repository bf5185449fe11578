// Pieces of SQL that statements made in TypeScript share with the functions in `001/*.sql`.
// Owns: the order of the numbers that a batch is handed over as; the columns of runs, new runs and history as both sides name them.
// Invariants: the functions have the same text (test/sql.test.ts): change both.

/** What is said of a usual turn in numbers, in this order. A rollback count of -1: as it is. An index of -1: no turn, nothing was decided. */
export const TURN_NUMBERS = ["execution", "epoch", "seen", "kind", "rollbacks", "index", "time", "length", "records", "worker"] as const;
/**
 * How the run of a usual turn goes on: it just runs; it keeps its lease, and there is something to say about it; it parks; it ends; it ends
 * and signals that come before that matter (M1), also those in transactions of callers that are still open.
 */
export const TURN_KINDS = { runsOn: 0, keeps: 1, parks: 2, ends: 3, endsHearing: 4 } as const;
/** Of a record: the number of its turn in the batch, and its place there. No seq, no n: -1. */
export const PLACE_NUMBERS = ["turn", "position", "direction", "seq", "n"] as const;
export const DIRECTIONS = ["job", "command", "turn"] as const;

/** Its row is as it should be except for its counts: nothing to write (see `001/count_turns.sql`). */
export const stays = (rollbacks: string): string =>
  `r.status = 'running' AND ${rollbacks} IN (-1, r.rollbacks) AND r.recoveries = 0 AND r.waiting_for IS NULL AND r.error IS NULL AND r.blocked_code IS NULL`;
/** What the end of a run leaves in its row, however it ends. */
export const ENDED =
  "finished_at = v_now, worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0, epoch = epoch + 1";
/** B4: when a run that ends now is removed. `keptFor`: how long this engine keeps those whose workflow says nothing. */
export const removeAt = (keptFor: string): string =>
  `remove_at = CASE WHEN retention IS NULL THEN v_now + ${keptFor} WHEN retention >= 0 THEN v_now + retention END`;

/** A new run, as it is handed over: s status, w worker, l lease, t turns, n records, rb rollbacks, wf waits, of one that comes with its first turn. */
export const NEW_RUN =
  'id text, workflow text, version text, queue text, priority integer, lane integer, "startAt" bigint, delay bigint, deadline bigint, "deadlineAt" bigint, retry text, attributes jsonb, s text, w text, l bigint, t integer, n integer, rb integer, wf text';
export const NEW_RUN_COLUMNS =
  "key, id, workflow, version, queue, priority, lane, status, available_at, worker_id, lease, epoch, created_at, started_at, deadline_at, attributes, retry, turns, history_length, rollbacks, waiting_for";
export const newRunValues = (
  of: string,
): string => `${of}id, ${of}workflow, ${of}version, ${of}queue, ${of}priority, ${of}lane, coalesce(${of}s, 'pending'),
          CASE WHEN ${of}w IS NULL THEN coalesce(${of}"startAt", v_now + coalesce(${of}delay, 0)) ELSE v_now + ${of}l END, ${of}w, ${of}l,
          CASE WHEN ${of}w IS NULL THEN 0 ELSE 1 END, v_now, CASE WHEN ${of}w IS NOT NULL THEN v_now END,
          coalesce(${of}"deadlineAt", v_now + ${of}deadline), ${of}attributes, ${of}retry, coalesce(${of}t, 0), coalesce(${of}n, 0), coalesce(${of}rb, 0), ${of}wf`;

/** The history of a run that its row does not count yet: see `001/count_turns.sql`. Expressions for a statement that calls `runs` r. */
const uncounted = (s: string): string => `FROM ${s}.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns`;
const turnsNow = (s: string): string => `coalesce((SELECT max(t.turn) + 1 ${uncounted(s)}), r.turns)`;
const lengthNow = (s: string): string => `r.history_length + (SELECT count(*)::integer ${uncounted(s)} AND t.direction <> 'turn')`;
/** The same where no worker may have the run. */
const turnsOfAny = (s: string): string => `CASE WHEN r.worker_id IS NULL THEN r.turns ELSE ${turnsNow(s)} END`;
const lengthOfAny = (s: string): string => `CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE ${lengthNow(s)} END`;

/** Q2: as `may_begin_1` in `001/queues.sql`, which takes longer as a function. */
export const mayBegin = (s: string, queue: string, changes: string): string =>
  `CASE WHEN pg_try_advisory_xact_lock_shared(hashtextextended(${literal(`${s}.queues`)} || ${queue}, 0)) THEN (SELECT last_value FROM ${s}.queue_changes) = ${changes} ELSE false END`;

/** A run as it is looked at, in the order that `runRow` reads. */
const columns = (
  historyLength: string,
  turns: string,
  output = "r.output",
  values = "e.input, e.seed, s.state",
): string => `r.key, r.id, r.workflow, r.version, r.status, r.queue, r.priority, ${output}, r.error, r.waiting_for, r.execution, r.attempt,
  r.parent_id, r.parent_execution, r.parent_seq, r.parent_close, r.parent_announce, r.attributes::text AS attributes, r.retry, r.created_at, r.started_at,
  r.available_at, r.deadline_at, r.finished_at, r.worker_id, r.epoch, ${historyLength} AS history_length, ${turns} AS turns, r.recoveries,
  ${values}, r.resumable, CASE WHEN r.work_key IS NOT NULL OR r.schedule IS NOT NULL OR r.forked_from IS NOT NULL OR r.after_id IS NOT NULL OR r.retention IS NOT NULL THEN
    json_build_object('key', r.work_key, 'schedule', r.schedule, 'tick', r.tick, 'from', r.forked_from, 'after', r.after_id, 'retention', r.retention)::text END AS origin`;
export const runColumns = (s: string): string => columns(lengthOfAny(s), turnsOfAny(s));
/** The same for a list that shows no values, of `runs` r alone: what is not read is null, or as good as that. */
export const listedColumns = (s: string): string =>
  columns(lengthOfAny(s), turnsOfAny(s), "NULL AS output", "'null' AS input, '' AS seed, NULL AS state");
export const runTables = (s: string): string =>
  `${s}.runs r JOIN ${s}.executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN ${s}.states s ON s.run = r.key`;

/** History as JSON, in the order that `turnsOf` reads. */
export const historyOf = (s: string, run: string, execution: string): string => `(SELECT json_agg(json_build_array(h.turn, h.time,
  h.history_length, h.worker, h.state, h.direction, h.type, h.seq, h.unit, h.name, h.n, h.refs, h.data, h.value) ORDER BY h.turn, h.position)
  FROM ${s}.records h WHERE h.run = ${run} AND h.execution = ${execution})`;
export const attemptsOf = (
  s: string,
  run: string,
  execution: string,
  condition: string,
): string => `(SELECT json_agg(json_build_array(a.seq, a.number,
  a.task, a.status, a.worker_id, a.started_at, a.ended_at, a.retry_at, a.error) ORDER BY a.seq, a.number)
  FROM ${s}.attempts a WHERE a.run = ${run} AND a.execution = ${execution} AND ${condition})`;

/** With backslashes it is an escape string: that means the same whatever `standard_conforming_strings` says. */
export function literal(text: string): string {
  const quoted = `'${text.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
  return text.includes("\\") ? `E${quoted}` : quoted;
}
