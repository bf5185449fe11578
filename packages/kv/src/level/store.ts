// A LevelDB that stores any number of runs, each in its own sublevel, and one queue of alarms for all of them.
// Owns: the database, its writer, and the drivers that it returned.
// Invariants: one driver object per run while it is in use or watched (H1 relies on it); an alarm is stored before `setAlarm` resolves.

import { mkdirSync } from "node:fs";
import { HoldfastError } from "@holdfast/core";
import type { ClassicLevel } from "classic-level";
import { checkedId } from "../checkedOptions.ts";
import type { KvWrite } from "../driver.ts";
import { pack, unpack } from "../storage/tuple.ts";
import { type AlarmQueue, Alarms } from "./alarms.ts";
import { type Database, type Sublevel, sublevelOf } from "./database.ts";
import { LevelDriver } from "./driver.ts";
import { Writer } from "./writer.ts";

/** Options of `LevelStore.open`. */
export interface LevelStoreOptions {
  /**
   * Wait for the disk with every batch, so that nothing is lost if the machine loses power. With false, a killed process still loses
   * nothing.
   * @defaultValue `true`
   */
  readonly sync?: boolean;
}

/** Any number of runs in one LevelDB database, with one queue of alarms. */
export class LevelStore {
  /**
   * Gathers the writes of all runs, so that they share waits for the disk.
   * @internal
   */
  readonly writer: Writer;
  readonly #database: Database;
  readonly #alarmLevel: Sublevel;
  readonly #alarms = new Alarms();
  /** Alarms that are being written. */
  readonly #storing = new Map<string, Promise<void>>();
  /** Runs whose alarm could not be written: the next call for it writes it again. */
  readonly #unstored = new Set<string>();
  readonly #drivers = new Map<string, WeakRef<LevelDriver>>();
  readonly #held = new Set<LevelDriver>();
  readonly #gone = new FinalizationRegistry((runId: string) => {
    if (this.#drivers.get(runId)?.deref() === undefined) this.#drivers.delete(runId);
  });

  private constructor(database: Database, sync: boolean) {
    this.#database = database;
    this.#alarmLevel = sublevelOf(database, ["alarms"]);
    this.writer = new Writer(database, sync);
  }

  /** Opens the database in this folder, or creates it. Only one process can have it open. */
  static async open(folder: string, options: LevelStoreOptions = {}): Promise<LevelStore> {
    const { ClassicLevel } = await importLevel();
    const database: Database = new ClassicLevel(folder, { keyEncoding: "view", valueEncoding: "view" });
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 }); // readable only by the user of this process; an existing folder is left as it is
      await database.open();
    } catch (cause) {
      throw cannotOpen(folder, cause);
    }
    const store = new LevelStore(database, options.sync ?? true);
    for (const [key, value] of await store.#alarmLevel.iterator().all())
      store.#alarms.set(String(unpack(key)[0]), unpack(value)[0] as number);
    return store;
  }
  /** Closes the database. */
  async close(): Promise<void> {
    await this.writer.settle();
    await this.#database.close();
  }

  // ── runs ──

  /** The driver for this id, whether the run exists or not. */
  driver(runId: string): LevelDriver {
    const known = this.#drivers.get(runId)?.deref();
    if (known !== undefined) return known;
    checkedId(runId, "LevelStore.driver");
    const driver = new LevelDriver(this, runId, sublevelOf(this.#database, ["runs", nameOf(runId)]));
    this.#drivers.set(runId, new WeakRef(driver));
    this.#gone.register(driver, runId);
    return driver;
  }
  /** Keeps a driver that is watched, as those of live runs are, even if all other code discards it. */
  hold(driver: LevelDriver): void {
    this.#held.add(driver);
  }
  /**
   * Forgets a driver that no run uses.
   * @internal
   */
  release(driver: LevelDriver): void {
    this.#held.delete(driver);
  }
  /** The ids of all stored runs. */
  async *runs(): AsyncGenerator<string> {
    const prefix = "!runs!!"; // keys of LevelDB's sublevels: !runs!!name!key
    const utf8 = new TextEncoder();
    const keys = this.#database.keys({ gte: utf8.encode(prefix), lt: utf8.encode('!runs!"') });
    try {
      for (let key = await keys.next(); key !== undefined; key = await keys.next()) {
        const name = new TextDecoder().decode(key.subarray(prefix.length, key.indexOf(33, prefix.length)));
        yield decodeURIComponent(name);
        keys.seek(utf8.encode(`${prefix}${name}"`)); // past all keys of this run
      }
    } finally {
      await keys.close();
    }
  }
  /** Deletes a run and all its data. It must not be live. */
  async delete(runId: string): Promise<void> {
    await this.driver(runId).deletePrefix(new Uint8Array());
    await this.clearAlarm(runId);
  }

  // ── alarms ──

  /** The alarms of all runs, for the host that wakes them. */
  get alarms(): AlarmQueue {
    return this.#alarms;
  }
  /** Sets the alarm of a run; it replaces the one before. */
  setAlarm(runId: string, at: number): Promise<void> {
    const time = Math.ceil(at); // never early
    if (!this.#alarms.set(runId, time) && !this.#unstored.has(runId)) return this.#stored(runId);
    return this.#store(runId, { type: "set", key: pack([runId]), value: pack([time]) });
  }
  /** Removes the alarm of a run. */
  clearAlarm(runId: string): Promise<void> {
    if (!this.#alarms.clear(runId) && !this.#unstored.has(runId)) return this.#stored(runId);
    return this.#store(runId, { type: "delete", key: pack([runId]) });
  }
  /** Resolves once the alarm is stored: at once, or after the write in progress. */
  #stored(runId: string): Promise<void> {
    return this.#storing.get(runId) ?? Promise.resolve();
  }
  #store(runId: string, write: KvWrite): Promise<void> {
    const stored = this.#write(runId, write).finally(() => {
      if (this.#storing.get(runId) === stored) this.#storing.delete(runId);
    });
    this.#storing.set(runId, stored);
    return stored;
  }
  async #write(runId: string, write: KvWrite): Promise<void> {
    try {
      await this.writer.write(this.#alarmLevel, [write]);
      this.#unstored.delete(runId);
    } catch (error) {
      this.#unstored.add(runId);
      throw error;
    }
  }
}

/** The names of sublevels consist of printable characters. */
function nameOf(runId: string): string {
  return encodeURIComponent(runId).replaceAll("!", "%21");
}

async function importLevel(): Promise<{ ClassicLevel: typeof ClassicLevel }> {
  try {
    return await import("classic-level");
  } catch (cause) {
    throw new HoldfastError('LevelDB is not installed. Run "npm install classic-level@3".', { code: "HF_KV_NO_LEVELDB", cause });
  }
}
function cannotOpen(folder: string, cause: unknown): HoldfastError {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const reason = inner instanceof Error ? inner.message : String(inner);
  const message = `${folder} can't be opened: ${reason}\nOnly one process can have it open: check whether another process has, and check the permissions of the folder.`;
  return new HoldfastError(message, { code: "HF_KV_CANNOT_OPEN", cause });
}
