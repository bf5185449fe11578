// A LevelDB that keeps any number of runs, each in a sublevel of its own, and one queue of alarms for all of them.
// Owns: the database, its writer, the drivers that were handed out.
// Invariants: one driver object a run while anybody has or watches it (H1 goes by it); an alarm is stored before `setAlarm` resolves.

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

export interface LevelStoreOptions {
  /** Wait for the disk with every batch, so that nothing is lost when the machine loses power. Default true. Without, a killed process loses nothing. */
  readonly sync?: boolean;
}

export class LevelStore {
  readonly writer: Writer;
  readonly #database: Database;
  readonly #alarmLevel: Sublevel;
  readonly #alarms = new Alarms();
  /** Alarms that are being stored. */
  readonly #storing = new Map<string, Promise<void>>();
  /** Runs whose alarm could not be stored as it stands here: whoever asks for it again has it written again. */
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

  /** Opens the database in this folder, and makes it if there is none. One process may have it open at a time. */
  static async open(folder: string, options: LevelStoreOptions = {}): Promise<LevelStore> {
    const { ClassicLevel } = await importLevel();
    const database: Database = new ClassicLevel(folder, { keyEncoding: "view", valueEncoding: "view" });
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 }); // for the user of this process alone; one that exists is left as it is
      await database.open();
    } catch (cause) {
      throw cannotOpen(folder, cause);
    }
    const store = new LevelStore(database, options.sync ?? true);
    for (const [key, value] of await store.#alarmLevel.iterator().all())
      store.#alarms.set(String(unpack(key)[0]), unpack(value)[0] as number);
    return store;
  }
  async close(): Promise<void> {
    await this.writer.settle();
    await this.#database.close();
  }

  // ── runs ──

  /** Of the run of this id, whether there is one or not. */
  driver(runId: string): LevelDriver {
    const known = this.#drivers.get(runId)?.deref();
    if (known !== undefined) return known;
    checkedId(runId, "LevelStore.driver");
    const driver = new LevelDriver(this, runId, sublevelOf(this.#database, ["runs", nameOf(runId)]));
    this.#drivers.set(runId, new WeakRef(driver));
    this.#gone.register(driver, runId);
    return driver;
  }
  /** Somebody watches it, as live runs do: it stays, whoever else lets go of it. */
  hold(driver: LevelDriver): void {
    this.#held.add(driver);
  }
  release(driver: LevelDriver): void {
    this.#held.delete(driver);
  }
  /** The ids of all runs that are stored. */
  async *runs(): AsyncGenerator<string> {
    const prefix = "!runs!!"; // how LevelDB's sublevels lie: !runs!!name!key
    const utf8 = new TextEncoder();
    const keys = this.#database.keys({ gte: utf8.encode(prefix), lt: utf8.encode('!runs!"') });
    try {
      for (let key = await keys.next(); key !== undefined; key = await keys.next()) {
        const name = new TextDecoder().decode(key.subarray(prefix.length, key.indexOf(33, prefix.length)));
        yield decodeURIComponent(name);
        keys.seek(utf8.encode(`${prefix}${name}"`)); // past all that it has
      }
    } finally {
      await keys.close();
    }
  }
  /** Deletes a run with all it has. Only of one that nobody runs. */
  async delete(runId: string): Promise<void> {
    await this.driver(runId).deletePrefix(new Uint8Array());
    await this.clearAlarm(runId);
  }

  // ── alarms ──

  get alarms(): AlarmQueue {
    return this.#alarms;
  }
  setAlarm(runId: string, at: number): Promise<void> {
    const time = Math.ceil(at); // never early
    if (!this.#alarms.set(runId, time) && !this.#unstored.has(runId)) return this.#stored(runId);
    return this.#store(runId, { type: "set", key: pack([runId]), value: pack([time]) });
  }
  clearAlarm(runId: string): Promise<void> {
    if (!this.#alarms.clear(runId) && !this.#unstored.has(runId)) return this.#stored(runId);
    return this.#store(runId, { type: "delete", key: pack([runId]) });
  }
  /** As it stands: at once, or when the write that is under way is through. */
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

/** Sublevels have names of printable characters. */
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
  const message = `${folder} can't be opened: ${reason}\nOne process at a time may have it open; look whether another has, and at the permissions of the folder.`;
  return new HoldfastError(message, { code: "HF_KV_CANNOT_OPEN", cause });
}
