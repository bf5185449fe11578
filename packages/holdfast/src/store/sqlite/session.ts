// What the queries of one store share: the connection, and what it remembers between them.
// Owns: numbers of lanes and workers, once looked up; runs that are leased here; what has changed since watchers were last told.
// Invariants: nothing is remembered that a rollback has taken back.

import type { Wakeup, WakeupKind } from "../port.ts";
import { text, textOrNull } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { isRefused } from "./failures.ts";
import { findRun, type RunHead } from "./findRun.ts";
import { LeasedRunCache } from "./leasedRunCache.ts";

const MOST_REMEMBERED = 10_000;

export interface Swept {
  readonly done: number;
  readonly refusal: unknown;
}

export class Session {
  readonly db: Connection;
  readonly leasedRuns = new LeasedRunCache();
  #lanes = new Map<string, number>();
  #workers = new Map<string, number>();
  #changed: { [K in WakeupKind]?: true } = {};

  constructor(db: Connection) {
    this.db = db;
  }

  /** Takes the write lock, or throws that it is busy. `trusting`: see `Connection.begin`. */
  begin(trusting = false): void {
    this.db.begin(trusting);
    try {
      this.leasedRuns.seen(this.db.get("PRAGMA data_version", [])?.[0]);
    } catch (error) {
      this.db.rollback();
      throw error;
    }
  }
  /** Within a transaction. */
  find(runId: string): RunHead | undefined {
    return this.leasedRuns.find(runId) ?? findRun(this.db, runId);
  }

  /**
   * Within a transaction, for what nobody has asked for: does it with each of them. What the database refuses is undone by itself, and keeps
   * nobody from the others, nor from what shares the transaction. Returns how many were done, and the last refusal.
   */
  each<T>(items: readonly T[], work: (item: T) => unknown): Swept {
    let done = 0;
    let refusal: unknown;
    for (const item of items) {
      this.db.run("SAVEPOINT item", []);
      try {
        work(item);
        done++;
      } catch (error) {
        if (!isRefused(error) || !this.db.isInTransaction()) throw error;
        this.db.run("ROLLBACK TO item", []);
        this.leasedRuns.clear();
        refusal = error;
      }
      this.db.run("RELEASE item", []);
    }
    return { done, refusal };
  }

  laneOf(queue: string, workflow: string, version: string | undefined, priority: number): number {
    const key = JSON.stringify([queue, workflow, version, priority]);
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      const names = [text(queue), text(workflow), textOrNull(version), priority];
      const [found] =
        this.db.get("SELECT lane FROM holdfast_lanes WHERE queue = ? AND workflow = ? AND version IS ? AND priority = ?", names) ??
        this.db.get("INSERT INTO holdfast_lanes (queue, workflow, version, priority) VALUES (?, ?, ?, ?) RETURNING lane", names) ??
        [];
      lane = Number(found);
      remember(this.#lanes, key, lane);
    }
    return lane;
  }
  workerKey(id: string): number {
    let key = this.#workers.get(id);
    if (key === undefined) {
      const name = [text(id)];
      const [found] =
        this.db.get("SELECT key FROM holdfast_workers WHERE id = ?", name) ??
        this.db.get("INSERT INTO holdfast_workers (id) VALUES (?) RETURNING key", name) ??
        [];
      key = Number(found);
      remember(this.#workers, id, key);
    }
    return key;
  }

  /** Watchers are told after the commit. */
  changed(what: WakeupKind): void {
    this.#changed[what] = true;
  }
  takeChanges(): Wakeup {
    const changed = this.#changed;
    this.#changed = {};
    return changed;
  }
  /** After a rollback. */
  forget(): void {
    this.#lanes = new Map();
    this.#workers = new Map();
    this.leasedRuns.clear();
    this.#changed = {};
  }
}

function remember(names: Map<string, number>, key: string, number: number): void {
  if (names.size >= MOST_REMEMBERED) names.clear();
  names.set(key, number);
}
