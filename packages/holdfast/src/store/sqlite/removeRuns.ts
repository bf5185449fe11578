// B4: removes closed runs, with all that belongs to them: when their retention is over, or at once.
// Owns: the statements, and how far the search for old runs has come.
// Invariants: from the oldest on, in small batches; a run that an execution which is open has started stays until that has ended; a run that
// can't be removed stops no other.

import { isolate } from "../isolate.ts";
import type { DeleteResult } from "../keepingPort.ts";
import type { NewRun } from "../port.ts";
import { readNumber, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { Session } from "./session.ts";

const REMOVED_AT_ONCE = 100;

/** By when they are to be removed, then by key. */
interface Place {
  readonly at: number;
  readonly key: number;
}
const FIRST: Place = { at: Number.MIN_SAFE_INTEGER, key: 0 };

const OLD = `SELECT r.remove_at, r.key,
    EXISTS (SELECT 1 FROM holdfast_runs p WHERE p.id = r.parent_id AND p.finished_at IS NULL AND p.execution = r.parent_execution)
  FROM holdfast_runs r WHERE r.remove_at < ?1 AND (r.remove_at > ?2 OR (r.remove_at = ?2 AND r.key > ?3)) AND r.remove_at >= ?2
  ORDER BY r.remove_at, r.key LIMIT ?4`;

const TABLES = ["records", "inbox", "attempts", "tasks", "start_keys", "message_keys", "updates", "states", "executions"];

function removeRun(session: Session, key: number): void {
  const { db } = session;
  session.leasedRuns.forget(key);
  for (const table of TABLES) db.run(`DELETE FROM holdfast_${table} WHERE run = ?`, [key]);
  const children = db.all("SELECT key FROM holdfast_runs WHERE parent_id = (SELECT id FROM holdfast_runs WHERE key = ?)", [key]);
  for (const [child] of children) leaveParent(session, readNumber(child));
  db.run("DELETE FROM holdfast_runs WHERE key = ?", [key]);
}

/** What is left of the link says that it had a parent. */
function leaveParent(session: Session, key: number): void {
  session.leasedRuns.forget(key);
  session.db.run(
    "UPDATE holdfast_runs SET parent_id = NULL, parent_execution = NULL, parent_seq = NULL, parent_announce = NULL WHERE key = ?",
    [key],
  );
}

const ORPHAN = `SELECT key FROM holdfast_runs WHERE id = ? AND workflow = ? AND finished_at IS NOT NULL AND parent_id IS NULL
  AND parent_close IS NOT NULL AND coalesce(retention, 0) >= 0`;

/** A closed child that an earlier parent of the same id has left. False: the run of this id is not one. */
export function removeOrphan(session: Session, { id, workflow }: Pick<NewRun, "id" | "workflow">): boolean {
  const row = session.db.get(ORPHAN, [text(id), text(workflow)]);
  if (row === undefined) return false;
  removeRun(session, readNumber(row[0]));
  return true;
}

export function deleteRun(session: Session, runId: string): DeleteResult {
  const row = session.db.get("SELECT key, finished_at FROM holdfast_runs WHERE id = ?", [text(runId)]);
  if (row === undefined) return "not-found";
  if (row[1] === null) return "open";
  removeRun(session, readNumber(row[0]));
  return "deleted";
}

interface RemovalOptions {
  readonly now: () => number;
  readonly read: <T>(work: (db: Connection) => T) => Promise<T>;
  readonly write: <T>(weight: number, work: (session: Session, now: number) => T) => Promise<T>;
}

export class OldRuns {
  readonly #options: RemovalOptions;
  /** Runs up to this one were looked at. Undefined: none in this round. */
  #seen: Place | undefined;

  constructor(options: RemovalOptions) {
    this.#options = options;
  }
  /** Returns how many runs were removed; 0 once there are no more. */
  async retire(): Promise<number> {
    let refusal: unknown;
    for (;;) {
      const after = this.#seen ?? FIRST;
      const old = await this.#options.read((db) => db.all(OLD, [this.#options.now(), after.at, after.key, REMOVED_AT_ONCE]));
      const [at, last] = old.at(-1) ?? [];
      this.#seen = old.length < REMOVED_AT_ONCE ? undefined : { at: readNumber(at), key: readNumber(last) };
      const keys = old.filter(([, , isAsked]) => isAsked === 0).map(([, key]) => readNumber(key));
      let gone = 0;
      const [refused] = await isolate(keys, async (some) => {
        gone += await this.#options.write(some.length, (session, now) => removeOld(session, some, now));
      });
      refusal ??= refused?.error;
      if (gone > 0) return gone;
      if (this.#seen !== undefined) continue;
      if (refusal !== undefined) throw refusal;
      return 0;
    }
  }
}

/** One that was resumed or started again meanwhile stays. */
function removeOld(session: Session, keys: readonly number[], now: number): number {
  let count = 0;
  for (const key of keys) {
    if (session.db.get("SELECT 1 FROM holdfast_runs WHERE key = ? AND remove_at < ?", [key, now]) === undefined) continue;
    removeRun(session, key);
    count++;
  }
  return count;
}
