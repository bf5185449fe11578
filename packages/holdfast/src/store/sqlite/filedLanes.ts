// Where filed work is: rows of `holdfast_filed_lanes`, and the limits that say what is filed.
// Owns: numbers of places and lanes, the passes that lanes begin with.
// Invariants: Q1 (with a key, or in a queue with limits: filed; all else is not), Q5 (an idle key begins at the time of its priority).

import { needsOf, SHARED_START, type Share, shareOf, TASK_NEEDS } from "../filing/rules.ts";
import type { NewRun } from "../port.ts";
import { readNumber, readOptionalText, readText, text, textOrNull } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { coveredAt, MOST_ABOVE } from "./coveredSlots.ts";
import type { Value } from "./library.ts";
import type { Session } from "./session.ts";

export type Kind = "run" | "task";
/** What a lane is for: the code that is needed. */
export interface Place {
  readonly queue: string;
  readonly kind: Kind;
  readonly name: string;
  readonly version: string | undefined;
}
export const keyName = (key: string | undefined): string => (key === undefined ? "" : `=${key}`);
export const keyOf = (name: string): string | undefined => (name === "" ? undefined : name.slice(1));

/** A run as far as it decides where it is filed. */
export interface Filable {
  readonly queue: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly priority: number;
  readonly key?: string | undefined;
}
/** The lane of a run that no worker has claimed since it was started, or restarted. */
export function laneFor(session: Session, run: Filable & Pick<NewRun, "parent">, availableAt: number | null, now: number): number {
  const { queue, workflow, version, priority, key, parent } = run;
  const { spec } = session.filing(queue);
  if (key === undefined && spec === undefined) return session.laneOf(queue, workflow, version, priority);
  const place: Place = { queue, kind: "run", name: workflow, version };
  const number = placeOf(session, place);
  if (availableAt === null || availableAt > now) return -number;
  const above = parent === undefined || parent.parentClose === "abandon" ? null : text(parent.runId);
  const covered = spec?.counts === "open" ? coveredAt(session.db, { queue, key, above }) : 0;
  const needs = needsOf({ isLeased: false, isBegun: false, held: 0, covered }, spec);
  return -readyLane(session.db, number, place, { priority, key, needs });
}
const REFILE = "UPDATE holdfast_runs SET lane = ? WHERE key = ?";
const FILED = "SELECT queue, workflow, version, priority, work_key FROM holdfast_runs WHERE key = ?";

/** Files an open run as its queue has it now. What it needs is found out when it is found due. */
export function refile(session: Session, key: number): void {
  const [queue = null, workflow = null, version = null, priority = null, workKey = null] = session.db.get(FILED, [key]) ?? [];
  const run = { queue: readText(queue), workflow: readText(workflow), version: readOptionalText(version), key: readOptionalText(workKey) };
  session.db.run(REFILE, [arrivalLane(session, { ...run, priority: readNumber(priority) }), key]);
}
/** Q2: a run has closed, is open again or has got slots: those below it may need other slots than before. */
export function refileBelow(session: Session, runId: string): void {
  const sql = `WITH RECURSIVE below(key, id, down) AS (SELECT key, id, 1 FROM holdfast_runs WHERE parent_id = ?1 AND finished_at IS NULL AND parent_close <> 'abandon'
      UNION ALL SELECT r.key, r.id, down + 1 FROM below b JOIN holdfast_runs r ON r.parent_id = b.id
      WHERE r.finished_at IS NULL AND r.parent_close <> 'abandon' AND down < ${MOST_ABOVE})
    SELECT DISTINCT r.key, r.queue FROM below b JOIN holdfast_runs r ON r.key = b.key WHERE r.lane < 0`;
  for (const [key, queue] of session.db.all(sql, [text(runId)])) {
    if (session.filing(readText(queue)).spec?.counts !== "open") continue;
    refile(session, readNumber(key));
    session.changed("work");
  }
}

/** The lane of a run that continues: it waits to be found due. */
export function arrivalLane(session: Session, { queue, workflow, version, priority, key }: Filable): number {
  if (key === undefined && session.filing(queue).spec === undefined) return session.laneOf(queue, workflow, version, priority);
  return -placeOf(session, { queue, kind: "run", name: workflow, version });
}
/** Null: it is not filed. Plain activities have no order but the time they became available: one with a priority is filed for that. */
export function laneForTask(
  session: Session,
  task: { readonly queue: string; readonly activity: string; readonly key?: string | undefined; readonly priority?: number | undefined },
  state: "due" | "any",
): number | null {
  const { queue, activity, key, priority = 0 } = task;
  if (key === undefined && priority === 0 && session.filing(queue).spec === undefined) return null;
  const place: Place = { queue, kind: "task", name: activity, version: undefined };
  const number = placeOf(session, place);
  return state === "any" ? -number : -readyLane(session.db, number, place, { priority, key, needs: TASK_NEEDS });
}

/** The number of a place. Work with a key makes its queue one that claims look at closely. */
export function placeOf(session: Session, { queue, kind, name, version }: Place): number {
  return session.numberOf(JSON.stringify(["place", queue, kind, name, version]), () => {
    const { db } = session;
    const values = [text(queue), kind, text(name), textOrNull(version)];
    db.run("INSERT INTO holdfast_queues (queue) VALUES (?) ON CONFLICT DO NOTHING", [text(queue)]);
    const [found] =
      db.get(
        "SELECT lane FROM holdfast_filed_lanes WHERE queue = ? AND kind = ? AND place IS NULL AND name = ? AND version IS ?",
        values,
      ) ??
      db.get("INSERT INTO holdfast_filed_lanes (queue, kind, name, version) VALUES (?, ?, ?, ?) RETURNING lane", values) ??
      [];
    return Number(found);
  });
}

/** Not remembered: claims delete lanes that are empty. */
export function readyLane(
  db: Connection,
  place: number,
  { queue, kind }: Pick<Place, "queue" | "kind">,
  { priority, key, needs }: { readonly priority: number; readonly key: string | undefined; readonly needs: number },
): number {
  const name = text(keyName(key));
  const [found] =
    db.get("SELECT lane FROM holdfast_filed_lanes WHERE queue = ? AND kind = ? AND key = ? AND priority = ? AND place = ? AND needs = ?", [
      text(queue),
      kind,
      name,
      priority,
      place,
      needs,
    ]) ?? [];
  if (found !== undefined) return readNumber(found);
  const [lane] =
    db.get(
      "INSERT INTO holdfast_filed_lanes (queue, kind, name, place, priority, needs, key, pass) VALUES (?, ?, '', ?, ?, ?, ?, ?) RETURNING lane",
      [text(queue), kind, place, priority, needs, name, firstPass(db, queue, kind, name, priority, shareOf(needs))],
    ) ?? [];
  return readNumber(lane);
}
/** Of a lane: whether it is for that share. */
export const SHARED_BY: Readonly<Record<Share, string>> = {
  claims: `needs & ${SHARED_START} = 0`,
  starts: `needs & ${SHARED_START} <> 0`,
};
/** Q5: that of the key, if it has something to give already; else not before the time of the priority. */
function firstPass(db: Connection, queue: string, kind: Kind, name: Value, priority: number, share: Share): number {
  const values = [text(queue), kind, name];
  const siblings = `SELECT pass FROM holdfast_filed_lanes WHERE queue = ? AND kind = ? AND key = ? AND place IS NOT NULL AND ${SHARED_BY[share]} LIMIT 1`;
  const [sibling] = db.get(siblings, values) ?? [];
  if (sibling !== undefined) return readNumber(sibling);
  const sql = "SELECT pass FROM holdfast_queue_keys WHERE queue = ? AND kind = ? AND key = ? AND share = ?";
  const [own = 0] = db.get(sql, [...values, share]) ?? [];
  return Math.max(readNumber(own), readTime(db, queue, kind, priority, share));
}
/** The pass at which a key of this priority was last served. A priority that was never served begins with the latest. */
export function readTime(db: Connection, queue: string, kind: Kind, priority: number, share: Share): number {
  const sql = `SELECT coalesce((SELECT time FROM holdfast_queue_times WHERE queue = ?1 AND kind = ?2 AND share = ?4 AND priority = ?3),
    (SELECT max(time) FROM holdfast_queue_times WHERE queue = ?1 AND kind = ?2 AND share = ?4), 0)`;
  return readNumber(db.get(sql, [text(queue), kind, priority, share])?.[0]);
}
