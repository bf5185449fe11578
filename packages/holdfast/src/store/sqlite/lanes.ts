// Lanes that no longer say what their runs say: no claim would ever find those runs.
// Owns: the comparison, which looks at one run of each lane, and the repair.
// Invariants: W1 (what a worker serves is found), V4 (where it can't be told who is right, the runs are blocked); what is sound is left as it
// is; costs a look at each lane, however many runs there are.

import { StoreCorruptError } from "../errors.ts";
import { readNumber, readOptionalText, readText } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { blockDamaged } from "./damage.ts";
import type { Value } from "./library.ts";
import type { Session } from "./session.ts";

/** From one lane to the next by the index: runs of a lane are not counted. */
const LOST = `WITH RECURSIVE lanes(lane) AS (
    SELECT min(lane) FROM holdfast_runs WHERE available_at IS NOT NULL
    UNION ALL SELECT (SELECT min(lane) FROM holdfast_runs WHERE available_at IS NOT NULL AND lane > l.lane) FROM lanes l WHERE l.lane IS NOT NULL)
  SELECT lane FROM lanes WHERE lane IS NOT NULL AND lane NOT IN (SELECT lane FROM holdfast_lanes)`;
/** One that a run of it agrees with is right, and the other run is at fault: the claim of that one finds out. */
const WRONG = `SELECT l.lane, r.workflow, r.version, r.queue IS l.queue, r.workflow IS e.workflow AND r.version IS e.version
  FROM holdfast_lanes l
  JOIN holdfast_runs r ON r.key = (SELECT key FROM holdfast_runs WHERE lane = l.lane AND available_at IS NOT NULL LIMIT 1)
  JOIN holdfast_executions e ON e.run = r.key AND e.execution = r.execution
  WHERE NOT (l.queue IS r.queue AND l.workflow IS r.workflow AND l.version IS r.version) AND NOT EXISTS (SELECT 1 FROM holdfast_runs x
    WHERE x.lane = l.lane AND x.available_at IS NOT NULL AND l.queue IS x.queue AND l.workflow IS x.workflow AND l.version IS x.version)`;

interface BrokenLanes {
  readonly lost: readonly Value[];
  readonly wrong: readonly WrongLane[];
}
interface WrongLane {
  readonly lane: Value;
  readonly workflow: Value;
  readonly version: Value;
  readonly isSameQueue: boolean;
  /** The execution of its run agrees with the run: two against the lane. */
  readonly isRunRight: boolean;
}

export function findBrokenLanes(db: Connection): BrokenLanes | undefined {
  const lost = db.all(LOST, []).map(([lane = null]) => lane);
  const wrong = db.all(WRONG, []).map(
    ([lane = null, workflow = null, version = null, queue, run]): WrongLane => ({
      ...{ lane, workflow, version },
      isSameQueue: queue === 1,
      isRunRight: run === 1,
    }),
  );
  return lost.length + wrong.length === 0 ? undefined : { lost, wrong };
}

/** Returns which, in words. */
export function repairLanes(session: Session): string[] {
  const { lost, wrong } = findBrokenLanes(session.db) ?? { lost: [], wrong: [] };
  for (const one of wrong) {
    if (!one.isSameQueue) blockRuns(session, one.lane);
    else if (one.isRunRight)
      session.db.run("UPDATE holdfast_lanes SET workflow = ?, version = ? WHERE lane = ?", [one.workflow, one.version, one.lane]);
    // Else the run is at fault: the lane is as its execution says, and the claim of the run blocks it.
  }
  for (const lane of lost) moveRuns(session, lane);
  session.forget();
  session.changed("work");
  return [...lost, ...wrong.map(({ lane }) => lane)].map(String);
}

function moveRuns(session: Session, lane: Value): void {
  const sql = "SELECT key, queue, workflow, version, priority FROM holdfast_runs WHERE lane = ? AND available_at IS NOT NULL";
  for (const [key, queue, workflow, version, priority] of session.db.all(sql, [lane])) {
    const found = session.laneOf(readText(queue), readText(workflow), readOptionalText(version), Number(priority) || 0);
    session.db.run("UPDATE holdfast_runs SET lane = ? WHERE key = ?", [found, readNumber(key)]);
  }
}

/** Nothing else says in which queue they belong. */
function blockRuns(session: Session, lane: Value): void {
  const cause = new TypeError(`holdfast_lanes, lane ${String(lane)}, and holdfast_runs: they name different queues.`);
  for (const [key] of session.db.all("SELECT key FROM holdfast_runs WHERE lane = ? AND available_at IS NOT NULL", [lane]))
    blockDamaged(session, readNumber(key), new StoreCorruptError({ where: session.db.path, cause }));
}
