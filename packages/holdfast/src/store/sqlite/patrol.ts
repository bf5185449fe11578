// Searches all waiting rows, a portion at a time, for those that would wait forever because something else has written to them.
// Owns: how far the search has come. What it looks for is in `parkedRuns.ts` and `strayTasks.ts`.
// Invariants: a store that is opened looks once at everything, at a portion when it opens and at another each time that it is asked to go on;
// a sound file is only read.

import type { Connection } from "./connection.ts";
import { FIRST_PLACE, findMissed, type Place, wakeMissed } from "./parkedRuns.ts";
import type { Session } from "./session.ts";
import { findStrayTasks, repairTasks } from "./strayTasks.ts";

/** A millisecond or two: the event loop waits for it. */
const AT_ONCE = 500;

interface Ports {
  readonly now: () => number;
  readonly read: <T>(work: (db: Connection) => T) => Promise<T>;
  readonly write: <T>(work: (session: Session, now: number) => T) => Promise<T>;
}

export class Patrol {
  readonly #ports: Ports;
  #runs: Place | undefined = FIRST_PLACE;
  #tasks: number | undefined = 0;

  constructor(ports: Ports) {
    this.#ports = ports;
  }
  get isOver(): boolean {
    return this.#runs === undefined && this.#tasks === undefined;
  }
  /** Looks at the next portion. Returns how many runs and activities were repaired or blocked. */
  async goOn(): Promise<number> {
    return (await this.#lookAtTasks()) + (await this.#lookAtRuns());
  }
  async #lookAtTasks(): Promise<number> {
    const from = this.#tasks;
    if (from === undefined) return 0;
    const { stray, last } = await this.#ports.read((db) => findStrayTasks(db, from, AT_ONCE));
    const count = stray.length === 0 ? 0 : await this.#ports.write((session, now) => repairTasks(session, from, AT_ONCE, now));
    this.#tasks = last;
    return count;
  }
  async #lookAtRuns(): Promise<number> {
    let count = 0;
    for (let status = this.#runs?.status; this.#runs !== undefined && this.#runs.status === status; ) {
      const from = this.#runs;
      const { missed, links, next } = await this.#ports.read((db) => findMissed(db, from, AT_ONCE, this.#ports.now()));
      const isNeeded = missed.length + links.length > 0;
      if (isNeeded) count += await this.#ports.write((session, now) => wakeMissed(session, from, AT_ONCE, now));
      this.#runs = next;
      // Few runs, or none, had the status: the next one shares the portion.
      if (next === undefined || next.status === status) break;
      status = next.status;
    }
    return count;
  }
}
