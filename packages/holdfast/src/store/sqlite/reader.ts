// An SQLite file that is only read: by a console, in this thread or in another.
// Owns: a connection of its own to the file, and the look for changes.
// Invariants: nothing is created or written; a file that is not there, or has no tables of Holdfast, reads as empty, and one that comes later,
// or takes the place of another, is read from then on.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { StoreClosedError, StoreCorruptError } from "../errors.ts";
import type { ReadStore } from "../inspectPort.ts";
import type { Wakeup } from "../port.ts";
import { Connection } from "./connection.ts";
import { isDamage } from "./failures.ts";
import type { LibraryName } from "./library.ts";
import { SqliteReads } from "./reads.ts";

/** A look takes microseconds, but wakes the thread. */
const LOOK_EVERY_MS = 50;
const ANYTHING: Wakeup = { work: true, messages: true, tasks: true, results: true };

export interface SqliteReaderOptions {
  /** Has to be the one that other connections of this process use. */
  readonly library?: LibraryName | undefined;
  readonly clock?: (() => number) | undefined;
}

export class SqliteReader extends SqliteReads implements ReadStore {
  readonly path: string;
  protected override readonly clock: () => number;
  readonly #library: LibraryName | undefined;
  readonly #watchers = new Set<() => void>();
  #connection: Connection | undefined;
  #opening: Promise<Connection | undefined> | undefined;
  /** What is read while there is no file. */
  #empty: Connection | undefined;
  #timer: NodeJS.Timeout | undefined;
  #seen: unknown;
  #isClosed = false;

  constructor(path: string, { library, clock = Date.now }: SqliteReaderOptions = {}) {
    super();
    this.path = resolve(path);
    this.#library = library;
    this.clock = clock;
  }

  protected override exists(): boolean {
    return this.#connection !== undefined;
  }
  protected override async read<T>(work: (db: Connection) => T): Promise<T> {
    if (this.#isClosed) throw new StoreClosedError({ where: this.path });
    const db = (await this.#current()) ?? this.#nothing();
    try {
      return await db.patiently(() => work(db));
    } catch (error) {
      throw isDamage(error) ? new StoreCorruptError({ where: this.path, cause: error }) : error;
    }
  }
  /** Undefined: there is no file, or nothing of Holdfast in it. */
  async #current(): Promise<Connection | undefined> {
    if (this.#connection?.isSameFile() === false) this.#drop();
    if (this.#connection !== undefined || statSync(this.path, { throwIfNoEntry: false }) === undefined) return this.#connection;
    this.#opening ??= Connection.openReadOnly(this.path, { library: this.#library }).finally(() => {
      this.#opening = undefined;
    });
    const opened = await this.#opening;
    if (this.#isClosed) {
      opened?.close();
      throw new StoreClosedError({ where: this.path });
    }
    this.#connection = opened;
    return opened;
  }
  #nothing(): Connection {
    this.#empty ??= Connection.empty(this.#library);
    return this.#empty;
  }
  #drop(): void {
    this.#connection?.close();
    this.#connection = undefined;
  }

  watch(onWakeup: (wakeup: Wakeup) => void): () => void {
    const own = (): void => onWakeup(ANYTHING);
    this.#watchers.add(own);
    if (this.#timer === undefined) {
      void this.#look();
      this.#timer = setInterval(() => void this.#look(), LOOK_EVERY_MS);
      this.#timer.unref();
    }
    return () => {
      this.#watchers.delete(own);
      if (this.#watchers.size === 0) this.#stop();
    };
  }
  #stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#seen = undefined;
  }
  /** The number changes when another connection has written. */
  async #look(): Promise<void> {
    let found: string;
    try {
      const db = await this.#current();
      found = db === undefined ? "nothing" : `${statSync(this.path).ino} ${String(db.get("PRAGMA data_version", [])?.[0])}`;
    } catch {
      return; // locked for a moment, or damaged: reads report that
    }
    const before = this.#seen;
    this.#seen = found;
    if (before !== undefined && before !== found) for (const watcher of [...this.#watchers]) watcher();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stop();
    this.#watchers.clear();
    await this.#opening?.catch(() => undefined);
    this.#drop();
    this.#empty?.close();
    this.#empty = undefined;
  }
}
