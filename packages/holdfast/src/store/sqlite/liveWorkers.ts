// Workers that are alive (B6).
// Owns: the rows of `live_workers`.
// Invariants: a beat is one small write; rows of workers that died go with the beat of another.

import { type WorkerBeat, type WorkerRow, workerInfoOf } from "../workerPort.ts";
import { readNumber, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { Session } from "./session.ts";

const BEAT = `INSERT INTO holdfast_live_workers (id, info, started_at, seen_at, alive_for) VALUES (?1, ?2, ?3, ?3, ?4)
  ON CONFLICT (id) DO UPDATE SET info = excluded.info, seen_at = excluded.seen_at, alive_for = excluded.alive_for`;
const DEAD = "DELETE FROM holdfast_live_workers WHERE seen_at + alive_for < ?";
/** A row from before the clock was set back counts again once its worker has beaten. */
const ALIVE = `SELECT id, info, started_at, seen_at FROM holdfast_live_workers WHERE seen_at + alive_for >= ?1 AND seen_at <= ?1
  ORDER BY started_at, id`;

export function beat({ db }: Session, { id, aliveFor, ...info }: WorkerBeat, now: number): void {
  db.run(DEAD, [now]);
  db.run(BEAT, [text(id), JSON.stringify(info), now, Math.ceil(aliveFor)]);
}
export function leave({ db }: Session, id: string): void {
  db.run("DELETE FROM holdfast_live_workers WHERE id = ?", [text(id)]);
}
export function readLiveWorkers(db: Connection, now: number): WorkerRow[] {
  return db.all(ALIVE, [now]).map(([id, info, startedAt, seenAt]) => ({
    ...workerInfoOf(readText(info)),
    id: readText(id),
    startedAt: readNumber(startedAt),
    seenAt: readNumber(seenAt),
  }));
}
