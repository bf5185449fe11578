// Combines the writes of all runs of a store into few batches of LevelDB.
// Owns: the queue of writes.
// Invariants: each write is complete in one batch, in the order of the calls; writes that arrive while a batch is being written share the
// next one (D3). LevelDB writes a batch completely or not at all, even if the process is killed.

import type { KvWrite } from "../driver.ts";
import { afterPrefix, compareBytes } from "../storage/tuple.ts";
import type { Database, Sublevel } from "./database.ts";

interface Pending {
  readonly sublevel: Sublevel;
  readonly writes: readonly KvWrite[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}
type Operation =
  | { readonly type: "put"; readonly sublevel: Sublevel; readonly key: Uint8Array; readonly value: Uint8Array }
  | { readonly type: "del"; readonly sublevel: Sublevel; readonly key: Uint8Array };

export class Writer {
  readonly #database: Database;
  readonly #sync: boolean;
  #pending: Pending[] = [];
  #writing: Promise<void> | undefined;

  constructor(database: Database, sync: boolean) {
    this.#database = database;
    this.#sync = sync;
  }
  write(sublevel: Sublevel, writes: readonly KvWrite[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ sublevel, writes, resolve, reject });
      this.#writing ??= this.#writeAll();
    });
  }
  /** Resolves when no write is in progress. */
  async settle(): Promise<void> {
    await this.#writing;
  }
  async #writeAll(): Promise<void> {
    await undefined; // writes requested in the same microtask share the batch
    while (this.#pending.length > 0) {
      const group = this.#pending;
      this.#pending = [];
      try {
        const operations: Operation[] = [];
        for (const { sublevel, writes } of group) for (const write of writes) await expand(sublevel, write, operations);
        await this.#database.batch<Uint8Array, Uint8Array>(operations as never, { sync: this.#sync });
        for (const { resolve } of group) resolve();
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    this.#writing = undefined;
  }
}

/** LevelDB deletes single keys: a range is looked up, including the keys that this batch put into it before. */
async function expand(sublevel: Sublevel, write: KvWrite, operations: Operation[]): Promise<void> {
  if (write.type === "set") operations.push({ type: "put", sublevel, key: write.key, value: write.value });
  else if (write.type === "delete") operations.push({ type: "del", sublevel, key: write.key });
  else {
    const start = write.type === "deleteRange" ? write.start : write.prefix;
    const end = write.type === "deleteRange" ? write.end : afterPrefix(write.prefix);
    const isWithin = (key: Uint8Array) => compareBytes(key, start) >= 0 && (end === undefined || compareBytes(key, end) < 0);
    if (end !== undefined && compareBytes(start, end) >= 0) return;
    const stored = await sublevel.keys(end === undefined ? { gte: start } : { gte: start, lt: end }).all();
    const before = operations.filter((one) => one.sublevel === sublevel && isWithin(one.key)).map(({ key }) => key);
    for (const key of [...stored, ...before]) operations.push({ type: "del", sublevel, key });
  }
}
