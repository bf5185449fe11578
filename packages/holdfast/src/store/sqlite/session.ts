// What the queries of one store share: the connection, and what it remembers between them.
// Owns: numbers of lanes and workers, once looked up; runs that are leased here; what has changed since watchers were last called.
// Invariants: nothing is remembered that was rolled back.

import type { Wakeup, WakeupKind } from "../port.ts";
import type { StoredQueueSpec } from "../queuePort.ts";
import { readJson, readNumber, text, textOrNull } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { findRun, type RunHead } from "./findRun.ts";
import { LeasedRunCache } from "./leasedRunCache.ts";

/** What is set for a queue. */
export interface Filing {
  readonly spec: StoredQueueSpec | undefined;
  /** 0: it is not paused. */
  readonly pausedUntil: number;
}
export function readFiling(db: Connection, queue: string): Filing {
  const [spec = null, until = null] = db.get("SELECT spec, paused_until FROM holdfast_queues WHERE queue = ?", [text(queue)]) ?? [];
  return { spec: spec === null ? undefined : readJson<StoredQueueSpec>(spec), pausedUntil: until === null ? 0 : readNumber(until) };
}

const MOST_REMEMBERED = 10_000;

export class Session {
  readonly db: Connection;
  readonly leasedRuns = new LeasedRunCache();
  /** B4: how long this engine keeps closed runs whose workflow says nothing. Undefined: forever. */
  readonly retention: number | undefined;
  #lanes = new Map<string, number>();
  #workers = new Map<string, number>();
  readonly #filings = new Map<string, Filing>();
  #version: unknown;
  #changed: { [K in WakeupKind]?: true } = {};

  constructor(db: Connection, retention?: number) {
    this.db = db;
    this.retention = retention;
  }

  /** Takes the write lock, or throws that it is busy. `trusting`: see `Connection.begin`. */
  begin(trusting = false): void {
    this.db.begin(trusting);
    try {
      const [version] = this.db.get("PRAGMA data_version", []) ?? [];
      this.leasedRuns.seen(version);
      // Another connection has written since: it may have set limits.
      if (version !== this.#version) this.#filings.clear();
      this.#version = version;
    } catch (error) {
      this.db.rollback();
      throw error;
    }
  }
  /** Within a transaction. */
  find(runId: string): RunHead | undefined {
    return this.leasedRuns.find(runId) ?? findRun(this.db, runId);
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
  /** A number that never changes. */
  numberOf(name: string, find: () => number): number {
    let number = this.#lanes.get(name);
    if (number === undefined) {
      number = find();
      remember(this.#lanes, name, number);
    }
    return number;
  }
  /** The limits and the pause of a queue. Within a transaction. */
  filing(queue: string): Filing {
    let filing = this.#filings.get(queue);
    if (filing === undefined) {
      filing = readFiling(this.db, queue);
      if (this.#filings.size >= MOST_REMEMBERED) this.#filings.clear();
      this.#filings.set(queue, filing);
    }
    return filing;
  }
  /** They are written. */
  forgetFiling(queue: string): void {
    this.#filings.delete(queue);
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

  /** Watchers are called after the commit. */
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
    this.#filings.clear();
    this.leasedRuns.clear();
    this.#changed = {};
  }
}

function remember(names: Map<string, number>, key: string, number: number): void {
  if (names.size >= MOST_REMEMBERED) names.clear();
  names.set(key, number);
}
