// Turns at the end of a history that the row of the run does not count yet.
// Owns: how many turns and records a run has, where its row is behind.
// Invariants: a statement that ends a lease, or changes the row anyway, writes both counts into it: only a run that a worker has can be behind.
//
// The usual turn of a worker that goes on writes its records and nothing else: no page of `holdfast_runs` (5 µs per turn in SQLite against
// 8, and a page less to write). What the row counts, `turns` and `history_length`, is therefore true up to turn `turns`, and the records
// from there on are the rest.
//
// Both are SQL for a statement that calls `holdfast_runs` r.

const UNCOUNTED = "FROM holdfast_records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns";

export const TURNS_NOW = `CASE WHEN r.worker_id IS NULL THEN r.turns
    ELSE coalesce((SELECT max(t.turn) + 1 ${UNCOUNTED}), r.turns) END`;

/** A turn without records is always counted. */
export const HISTORY_LENGTH_NOW = `CASE WHEN r.worker_id IS NULL THEN r.history_length
    ELSE r.history_length + (SELECT count(*) ${UNCOUNTED}) END`;
