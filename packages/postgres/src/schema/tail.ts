// In SQL: the tail of a run's history, which its row does not count yet.
// Owns: how many turns and records a run has, where its row is behind.
// Invariants: whoever ends a lease, or changes the row of a run anyway, writes both counts into it: only a run that a worker has can be behind.
//
// The usual turn of a worker that goes on writes its records and no new version of the row. What the row counts, `turns` and
// `history_length`, is true up to turn `turns`; the records from there on are the rest.
//
// These are expressions for a statement that calls `runs` r.

const tail = (s: string): string => `FROM ${s}.records t WHERE t.run = r.key AND t.execution = r.execution AND t.turn >= r.turns`;

export const turnsNow = (s: string): string => `coalesce((SELECT max(t.turn) + 1 ${tail(s)}), r.turns)`;
export const lengthNow = (s: string): string => `r.history_length + (SELECT count(*)::integer ${tail(s)} AND t.direction <> 'turn')`;

/** The same where nobody may have the run. */
export const turnsOfAny = (s: string): string => `CASE WHEN r.worker_id IS NULL THEN r.turns ELSE ${turnsNow(s)} END`;
export const lengthOfAny = (s: string): string => `CASE WHEN r.worker_id IS NULL THEN r.history_length ELSE ${lengthNow(s)} END`;

/** Brings the row of one run up to date. */
export const settle = (s: string): string => `
CREATE FUNCTION ${s}.settle_1(p_run bigint) RETURNS void LANGUAGE sql AS $$
  UPDATE ${s}.runs r SET turns = ${turnsNow(s)}, history_length = ${lengthNow(s)}
    WHERE r.key = p_run AND r.worker_id IS NOT NULL AND EXISTS (SELECT 1 ${tail(s)})
$$;
`;
