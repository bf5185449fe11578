// The stores that can be underneath a simulated world.
// Owns: the memory store with the world's clock and transactions to count, and the real SQLite store on a file that is deleted.
// Invariants: every call is carried out within the event that makes it: nothing waits for real time.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Payload } from "@holdfast/core";
import { MemoryStore } from "../store/memory/store.ts";
import type { InboxMessage, Store } from "../store/port.ts";
import { openDriver } from "../store/sqlite/driver.ts";
import { SqliteStore } from "../store/sqlite/store.ts";
import type { World } from "./world.ts";

type Transacted = Parameters<NonNullable<Store["transact"]>>[0];
export type StoreKind = "memory" | "sqlite";

export interface SimulatedStore {
  readonly store: Store;
  /** What transactions have written. */
  rows(): readonly string[];
  close(): Promise<void>;
}

export function openSimulatedStore(kind: StoreKind, world: World): Promise<SimulatedStore> {
  return kind === "memory" ? memory(world) : sqlite(world);
}

async function memory(world: World): Promise<SimulatedStore> {
  const store = new WritingMemoryStore({ clock: () => world.now });
  return {
    store,
    rows: () => store.written,
    close: async () => {},
  };
}

/** Its transactions have somewhere to write to. */
class WritingMemoryStore extends MemoryStore {
  readonly written: string[] = [];

  override async transact(claim: Transacted, body: (tx: unknown) => Payload | Promise<Payload>): Promise<InboxMessage | "stale"> {
    const staged: string[] = [];
    const result = await super.transact(claim, () => body({ insert: (key: string) => staged.push(key) }));
    if (result !== "stale") this.written.push(...staged);
    return result;
  }
}

async function sqlite(world: World): Promise<SimulatedStore> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-simulation-"));
  const path = join(folder, "simulation.db");
  const inner = new SqliteStore(path, { clock: () => world.now, synchronous: "NORMAL" });
  await inner.open();
  // Its look at what other connections write goes by real time, and finds nothing here: all processes share this one.
  return {
    store: inner,
    rows: () => readRows(path),
    close: async () => {
      await inner.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function readRows(path: string): string[] {
  const driver = openDriver(path);
  try {
    return driver.prepare("SELECT key FROM simulated").all([]).map(([key]) => String(key)); // biome-ignore format: one line
  } catch {
    return []; // no transaction has written yet
  } finally {
    driver.close();
  }
}
