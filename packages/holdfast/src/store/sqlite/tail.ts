// The tail of a run's history: turns that its row does not count yet.
// Owns: how many turns and records a run has, where its row is behind.
// Invariants: whoever ends a lease, or changes the row anyway, writes both counts into it: only a run that a worker has can be behind.
//
// The usual turn of a worker that goes on writes its records and nothing else: no page of `runs` (5 µs a turn in SQLite against 8, and a page less to write). What the
// row counts, `turns` and `history_length`, is therefore true up to turn `runs.turns`, and the records from there on are the rest.

const since = (runs: string): string =>
  `FROM records t WHERE t.run = ${runs}.key AND t.execution = ${runs}.execution AND t.turn >= ${runs}.turns`;

/** SQL for the turns of the run in the table of this name. */
export function turnsNow(runs: string): string {
  return `CASE WHEN ${runs}.worker_id IS NULL THEN ${runs}.turns ELSE coalesce((SELECT max(t.turn) + 1 ${since(runs)}), ${runs}.turns) END`;
}
/** SQL for its records. A turn without any is never in the tail. */
export function historyLengthNow(runs: string): string {
  return `CASE WHEN ${runs}.worker_id IS NULL THEN ${runs}.history_length ELSE ${runs}.history_length + (SELECT count(*) ${since(runs)}) END`;
}
