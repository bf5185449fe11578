// Lanes that no longer say what their runs say: no claim would ever find those runs.
// Owns: the comparison, which looks at one run of each lane, and the repair.
// Invariants: W1 (what a worker serves is found), V4 (if it can't be decided which of them is right, the runs are blocked); what is sound is left as it
// is; costs a look at each lane, however many runs there are.

import { StoreCorruptError } from "../errors.ts";
import { readNumber, readOptionalText, readText } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { blockDamaged } from "./damage.ts";
import { arrivalLane } from "./filedLanes.ts";
import type { Value } from "./library.ts";
import type { Session } from "./session.ts";

/** From one lane to the next by the index: runs of a lane are not counted. */
// Of filed runs (negative numbers) there may be as many lanes as keys: `findLostFiled` looks at them when a file is opened.
const LOST = `WITH RECURSIVE lanes(lane) AS (
    SELECT min(lane) FROM holdfast_runs WHERE available_at IS NOT NULL AND lane >= 0
    UNION ALL SELECT (SELECT min(lane) FROM holdfast_runs WHERE available_at IS NOT NULL AND lane > l.lane) FROM lanes l WHERE l.lane IS NOT NULL)
  SELECT lane FROM lanes WHERE lane IS NOT NULL AND lane NOT IN (SELECT lane FROM holdfast_lanes)`;
/** A lane that one of its runs agrees with is right, and the other run is wrong: the claim of that run finds out. */
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

const LOST_FILED = `SELECT DISTINCT lane FROM holdfast_runs r WHERE available_at IS NOT NULL AND lane < 0
  AND NOT EXISTS (SELECT 1 FROM holdfast_filed_lanes f WHERE f.lane = -r.lane)`;

/** `filed`: also looks at those of filed runs, of which there may be many. */
export function findBrokenLanes(db: Connection, filed: "filed" | undefined = undefined): BrokenLanes | undefined {
  const lost = [...db.all(LOST, []), ...(filed === undefined ? [] : db.all(LOST_FILED, []))].map(([lane = null]) => lane);
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
  const { lost, wrong } = findBrokenLanes(session.db, "filed") ?? { lost: [], wrong: [] };
  for (const one of wrong) {
    if (!one.isSameQueue) blockRuns(session, one.lane);
    else if (one.isRunRight)
      session.db.run("UPDATE holdfast_lanes SET workflow = ?, version = ? WHERE lane = ?", [one.workflow, one.version, one.lane]);
    // Otherwise the run is wrong: the lane is as its execution says, and the claim of the run blocks it.
  }
  for (const lane of lost) moveRuns(session, lane);
  session.forget();
  session.changed("work");
  return [...lost, ...wrong.map(({ lane }) => lane)].map(String);
}

function moveRuns(session: Session, lane: Value): void {
  const sql = "SELECT key, queue, workflow, version, priority, work_key FROM holdfast_runs WHERE lane = ? AND available_at IS NOT NULL";
  for (const [key, queue, workflow, version, priority, workKey] of session.db.all(sql, [lane])) {
    const run = {
      queue: readText(queue),
      workflow: readText(workflow),
      version: readOptionalText(version),
      priority: Number(priority) || 0,
    };
    const found = arrivalLane(session, { ...run, key: readOptionalText(workKey) });
    session.db.run("UPDATE holdfast_runs SET lane = ? WHERE key = ?", [found, readNumber(key)]);
  }
}

/** Nothing else says in which queue they belong. */
function blockRuns(session: Session, lane: Value): void {
  const cause = new TypeError(`holdfast_lanes, lane ${String(lane)}, and holdfast_runs: they name different queues.`);
  for (const [key] of session.db.all("SELECT key FROM holdfast_runs WHERE lane = ? AND available_at IS NOT NULL", [lane]))
    blockDamaged(session, readNumber(key), new StoreCorruptError({ where: session.db.path, cause }));
}
