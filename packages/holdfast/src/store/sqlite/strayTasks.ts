// Activities whose rows do not say what the history of their run says, because something else has written to them.
// Owns: the comparison, some rows at a time, and the repair. History is right: it says all that an activity was begun with.
// Invariants: V4 (the run that waits for it is not left waiting); D11; a sound row is left as it is.

import { formatLocation } from "@holdfast/core";
import { readJson, readNumber, readOptionalText, readText, text, textOrNull } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { laneForTask } from "./filedLanes.ts";
import type { Row, Value } from "./library.ts";
import type { Session } from "./session.ts";

/** What a row should say of the operation that it is of. */
interface Truth {
  readonly run: number;
  readonly execution: number;
  readonly seq: number;
  readonly activity: string;
  /** Undefined: the run and its lane name different ones, so that nothing says which. */
  readonly queue: string | undefined;
  readonly location: string;
}
interface StrayTask {
  readonly id: number;
  /** Undefined: its run has no such operation. */
  readonly truth: Truth | undefined;
  /** When it should be available, or looked at: its own time would be never. */
  readonly availableAt: number | undefined;
  readonly dueAt: number | undefined;
}

// It waits until its last attempt said, or from the start; a worker has it until its lease ends.
const OF_RUN =
  "CASE WHEN r.queue IS coalesce((SELECT l.queue FROM holdfast_lanes l WHERE l.lane = r.lane), (SELECT f.queue FROM holdfast_filed_lanes f WHERE f.lane = -r.lane)) THEN r.queue END";
const TASKS = `SELECT t.id, t.run, t.execution, t.seq, t.activity, t.queue, t.location, r.execution, ${OF_RUN}, r.finished_at IS NULL,
    CASE WHEN t.worker_id IS NULL AND t.available_at > max(t.scheduled_at, coalesce((SELECT max(a.retry_at) FROM holdfast_attempts a
      WHERE a.run = t.run AND a.execution = t.execution AND a.seq = t.seq), t.scheduled_at))
      THEN max(t.scheduled_at, coalesce((SELECT max(a.retry_at) FROM holdfast_attempts a
        WHERE a.run = t.run AND a.execution = t.execution AND a.seq = t.seq), t.scheduled_at)) END,
    CASE WHEN t.worker_id IS NOT NULL AND (t.due_at IS NULL OR t.due_at > t.leased_until) THEN coalesce(t.leased_until, t.started_at, 0) END,
    t.lane IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holdfast_filed_lanes f WHERE f.lane = -t.lane)
  FROM holdfast_tasks t LEFT JOIN holdfast_runs r ON r.key = t.run WHERE t.id > ? ORDER BY t.id LIMIT ?`;
const COMMANDS =
  "SELECT run, execution, seq, unit, name, n, data FROM holdfast_records WHERE run = ? AND execution = ? AND type = 'activity'";

/** Those of the next rows that are not right, and where the rows end. Undefined: there are no more. */
export function findStrayTasks(db: Connection, after: number, limit: number): { stray: StrayTask[]; last: number | undefined } {
  const rows = db.all(TASKS, [after, limit]);
  const known = new Map<Value, Map<Value, Truth>>();
  const stray: StrayTask[] = [];
  for (const row of rows) {
    const [id, run = null, execution, seq = null, activity, queue, location, current = null, ofRun, isOpen, ...times] = row;
    let commands = known.get(run);
    if (commands === undefined) {
      commands = new Map(db.all(COMMANDS, [run, current]).flatMap((one) => truthOf(one, ofRun)).map((truth) => [truth.seq, truth])); // biome-ignore format: one line
      known.set(run, commands);
    }
    const truth = isOpen === 1 ? commands.get(seq) : undefined;
    // If the location differs as well, two columns contradict one record: the claim of the run reports that.
    const isRight =
      truth !== undefined &&
      (truth.location !== readText(location) ||
        (truth.execution === execution && truth.activity === readText(activity) && (truth.queue ?? readText(queue)) === readText(queue)));
    const [availableAt, dueAt] = times.map(momentOf);
    const isLost = times.at(-1) === 1;
    if (!isRight || isLost || availableAt !== undefined || dueAt !== undefined)
      stray.push({ id: readNumber(id), truth, availableAt, dueAt });
  }
  return { stray, last: rows.length < limit ? undefined : readNumber(rows.at(-1)?.[0]) };
}
const momentOf = (value: Value | undefined): number | undefined => (typeof value === "number" ? value : undefined);

/** None of a record that can't be read: the claim of its run says so. */
function truthOf([run, execution, seq, unit, name, n, data]: Row, ofRun: Value | undefined): Truth[] {
  if (typeof seq !== "number" || typeof n !== "number") return [];
  try {
    const given = data === null ? undefined : readJson<{ readonly queue?: string }>(data).queue;
    const activity = readText(name);
    const location = formatLocation(readText(unit), activity, n);
    const queue = given ?? readOptionalText(ofRun);
    return [{ run: readNumber(run), execution: readNumber(execution), seq, activity, queue, location }];
  } catch {
    return [];
  }
}

const MOVE =
  "UPDATE holdfast_tasks SET run = ?, execution = ?, seq = ?, activity = ?, queue = coalesce(?, queue), location = ? WHERE id = ?";
// The whole history is looked through, and only if such a row was found. One field is wrong, hence one of these is right.
const OWNERS = `SELECT h.run, h.execution, h.seq, h.unit, h.name, h.n, h.data, ${OF_RUN} FROM holdfast_tasks t
  JOIN holdfast_records h ON h.type = 'activity' AND (h.seq = t.seq OR h.run = t.run)
  JOIN holdfast_runs r ON r.key = h.run AND r.execution = h.execution AND r.finished_at IS NULL
  WHERE t.id = ? AND NOT EXISTS (SELECT 1 FROM holdfast_tasks o WHERE o.run = h.run AND o.seq = h.seq AND o.execution = h.execution)
    AND NOT EXISTS (SELECT 1 FROM holdfast_inbox i WHERE i.run = h.run AND i.type = 'resolve' AND i.seq = h.seq)
    AND NOT EXISTS (SELECT 1 FROM holdfast_records d WHERE d.run = h.run AND d.execution = h.execution AND d.seq = h.seq
      AND d.type IN ('resolve', 'settle', 'cancel'))`;

/** In the transaction that writes: finds them again. Returns how many. */
export function repairTasks(session: Session, after: number, limit: number, now: number): number {
  const { db } = session;
  const { stray } = findStrayTasks(db, after, limit);
  for (const { id, truth, availableAt, dueAt } of stray) {
    const owner = truth ?? findOwner(db, id);
    if (owner !== undefined) {
      const { run, execution, seq, activity, queue, location } = owner;
      db.run(MOVE, [run, execution, seq, text(activity), textOrNull(queue), text(location), id]);
    }
    fileTask(session, id);
    if (availableAt !== undefined) db.run("UPDATE holdfast_tasks SET available_at = ? WHERE id = ?", [availableAt, id]);
    if (dueAt !== undefined) db.run("UPDATE holdfast_tasks SET due_at = ? WHERE id = ?", [Math.min(dueAt, now), id]);
  }
  if (stray.length > 0) session.changed("tasks");
  return stray.length;
}

/** Where it is filed follows from what it is. */
function fileTask(session: Session, id: number): void {
  const sql = "SELECT queue, activity, work_key, priority FROM holdfast_tasks WHERE id = ?";
  const [queue, activity, key, priority] = session.db.get(sql, [id]) ?? [];
  const task = { queue: readText(queue), activity: readText(activity), key: readOptionalText(key), priority: Number(priority) || 0 };
  session.db.run("UPDATE holdfast_tasks SET lane = ? WHERE id = ?", [laneForTask(session, task, "any"), id]);
}

/** The only operation that it can belong to. Undefined if there is none, or if there are several: then the row is taken to be right. */
function findOwner(db: Connection, id: number): Truth | undefined {
  const at = readOptionalText(db.get("SELECT location FROM holdfast_tasks WHERE id = ?", [id])?.[0]);
  const owners = db.all(OWNERS, [id]).flatMap((row) => truthOf(row, row.at(-1)).filter(({ location }) => location === at));
  return owners.length === 1 ? owners[0] : undefined;
}
