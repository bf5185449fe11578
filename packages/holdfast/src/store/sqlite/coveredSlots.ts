// Slots that the ancestors of a run hold for it, in queues that count open runs.
// Owns: the walk from a run to those that wait for it.
// Invariants: Q2 (only a slot that an ancestor holds now counts, and only through runs that are open and not abandoned).

import { type Ancestor, coveredBy, SLOTS } from "../filing/rules.ts";
import { readNumber, readOptionalText, readText } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { Value } from "./library.ts";

/** Something else may have made a run its own ancestor. */
export const MOST_ABOVE = 1_000;
/** Of a row of `holdfast_runs`: the run that waits for it, if there is one. */
export const ABOVE = "CASE WHEN parent_close <> 'abandon' THEN parent_id END";

const ANCESTORS = `WITH RECURSIVE above(id, up) AS (SELECT ?1, 0 UNION ALL SELECT r.parent_id, up + 1 FROM above a JOIN holdfast_runs r ON r.id = a.id
    WHERE r.finished_at IS NULL AND r.parent_id IS NOT NULL AND r.parent_close <> 'abandon' AND up < ${MOST_ABOVE})
  SELECT r.queue, r.work_key, r.held, r.started_at IS NOT NULL FROM above a JOIN holdfast_runs r ON r.id = a.id WHERE r.finished_at IS NULL`;

interface Below {
  readonly queue: string;
  readonly key: string | undefined;
  /** The id of the run that waits for it, or null. */
  readonly above: Value;
}
/** As bits. */
export function coveredAt(db: Connection, run: Below): number {
  return run.above === null ? 0 : coveredBy(ancestorsOf(db, run.above), run);
}
/** The same, once each run that has begun holds what those above it don't: the highest of them hold everything. */
export function coveredOnceCounted(db: Connection, run: Below): number {
  if (run.above === null) return 0;
  const begun = ancestorsOf(db, run.above).filter(({ isBegun }) => isBegun);
  return coveredBy(begun.map(({ queue, key }) => ({ queue, key, held: SLOTS })), run); // biome-ignore format: one line
}
function ancestorsOf(db: Connection, above: Value): (Ancestor & { readonly isBegun: boolean })[] {
  return db.all(ANCESTORS, [above]).map(([queue, key, held, isBegun]) => ({
    queue: readText(queue),
    key: readOptionalText(key),
    held: readNumber(held),
    isBegun: isBegun === 1,
  }));
}
