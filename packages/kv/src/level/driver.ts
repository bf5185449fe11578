// The driver of one run: its namespace is a sublevel.
// Owns: only its place in the database. Writes go through the store's writer.
// Invariants: those of the port.

import type { EngineDriver, KvEntry, KvWrite } from "../driver.ts";
import { afterPrefix } from "../storage/tuple.ts";
import type { Sublevel } from "./database.ts";
import type { LevelStore } from "./store.ts";

/** The driver of one run of a `LevelStore`, made by `store.driver(runId)`. */
export class LevelDriver implements EngineDriver {
  /** The run whose namespace it is. */
  readonly runId: string;
  readonly #store: LevelStore;
  readonly #sublevel: Sublevel;
  readonly #watchers = new Set<() => void>();

  constructor(store: LevelStore, runId: string, sublevel: Sublevel) {
    this.runId = runId;
    this.#store = store;
    this.#sublevel = sublevel;
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return this.#sublevel.get(key);
  }
  set(key: Uint8Array, value: Uint8Array): Promise<void> {
    return this.batch([{ type: "set", key, value }]);
  }
  delete(key: Uint8Array): Promise<void> {
    return this.batch([{ type: "delete", key }]);
  }
  deletePrefix(prefix: Uint8Array): Promise<void> {
    return this.batch([{ type: "deletePrefix", prefix }]);
  }
  deleteRange(start: Uint8Array, end: Uint8Array): Promise<void> {
    return this.batch([{ type: "deleteRange", start, end }]);
  }
  batch(writes: readonly KvWrite[]): Promise<void> {
    return this.#store.writer.write(this.#sublevel, writes);
  }
  async list(prefix: Uint8Array): Promise<KvEntry[]> {
    const end = afterPrefix(prefix);
    const entries = await this.#sublevel.iterator(end === undefined ? { gte: prefix } : { gte: prefix, lt: end }).all();
    return entries.map(([key, value]) => ({ key, value }));
  }
  async last(prefix: Uint8Array): Promise<Uint8Array | undefined> {
    const end = afterPrefix(prefix);
    const [key] = await this.#sublevel.keys({ gte: prefix, ...(end !== undefined && { lt: end }), reverse: true, limit: 1 }).all();
    return key;
  }

  setAlarm(runId: string, at: number): Promise<void> {
    return this.#store.setAlarm(runId, at);
  }
  clearAlarm(runId: string): Promise<void> {
    return this.#store.clearAlarm(runId);
  }
  watch(onMessage: () => void): () => void {
    const watcher = (): void => onMessage();
    this.#watchers.add(watcher);
    this.#store.hold(this);
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.#store.release(this);
    };
  }
  /** Only one process has a LevelDB open, so all watchers are in this process. */
  announce(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }
}
