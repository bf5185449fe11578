// The stores that a simulation can run on.
// Owns: the memory store with the world's clock and countable transactions; the real SQLite store with several connections to a temporary
// file.
// Invariants: every call is carried out within the event that makes it; nothing waits for real time.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Payload } from "@holdfast/core";
import type { InboxMessage, QueueStore, Store, Wakeup } from "holdfast/store";
import { MemoryStore, openLibrary, SqliteStore } from "holdfast/store";
import type { World } from "./world.ts";

type Transacted = Parameters<NonNullable<Store["transact"]>>[0];
export type StoreKind = "memory" | "sqlite";

/** A store that never answers "busy", because nothing else writes to its storage. In a simulation the network answers "busy". */
export type FreeStore = Omit<Store, BatchMethod | keyof QueueStore> & Pick<MemoryStore, BatchMethod> & QueueStore;
type BatchMethod = "create" | "commit" | "send" | "answerTasks" | "renew" | "heartbeat" | "terminate" | "resume" | "tick" | "delete";

export interface SimulatedStore {
  readonly store: FreeStore;
  /** The rows that transactions have written. */
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

/** A memory store whose transactions can write rows. */
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
  const inner = new ConnectedSqliteStore(path, world);
  await inner.open();
  return {
    store: inner,
    rows: () => readRows(path),
    close: async () => {
      await inner.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Connections in addition to the first. */
const OTHERS = 2;

/** Spreads the claims and commits of workers over several connections, as if from several processes; all other calls use the first. */
class ConnectedSqliteStore extends SqliteStore {
  readonly #others: readonly SqliteStore[];
  /** The connection of each worker: 0 is the first. */
  readonly #places = new Map<string, number>();

  constructor(path: string, world: World) {
    const options = { clock: () => world.now, synchronous: "NORMAL" } as const;
    super(path, options);
    this.#others = Array.from({ length: OTHERS }, () => new SqliteStore(path, options));
  }
  override async open(): Promise<void> {
    await super.open();
    for (const other of this.#others) await other.open();
  }
  override async close(): Promise<void> {
    for (const other of this.#others) await other.close();
    await super.close();
  }
  /** The connection of a worker; undefined for the first. */
  #of(workerId: string | undefined): SqliteStore | undefined {
    if (workerId === undefined) return undefined;
    const place = this.#places.get(workerId) ?? this.#places.size % (OTHERS + 1);
    this.#places.set(workerId, place);
    return this.#others[place - 1];
  }
  override create(...args: Parameters<Store["create"]>): ReturnType<SqliteStore["create"]> {
    const first = args[0].find((run) => run.first !== undefined)?.first;
    return this.#of(first?.workerId)?.create(...args) ?? super.create(...args);
  }
  override claim(...args: Parameters<Store["claim"]>): ReturnType<Store["claim"]> {
    return this.#of(args[0].workerId)?.claim(...args) ?? super.claim(...args);
  }
  override commit(...args: Parameters<Store["commit"]>): ReturnType<SqliteStore["commit"]> {
    return this.#of(args[0][0]?.workerId)?.commit(...args) ?? super.commit(...args);
  }
  override renew(...args: Parameters<SqliteStore["renew"]>): ReturnType<SqliteStore["renew"]> {
    return this.#of(args[0])?.renew(...args) ?? super.renew(...args);
  }
  /** Passes on only the hints of the connection that wrote, which come at once: a connection polls for the writes of others in real time. */
  override watch(onWakeup: (wakeup: Wakeup) => void): () => void {
    const onOwn = ({ isOwn, ...wakeup }: Wakeup): void => {
      if (isOwn === true) onWakeup(wakeup); // without isOwn: for most watchers it is the write of another process
    };
    const stops = [super.watch(onOwn), ...this.#others.map((other) => other.watch(onOwn))];
    return () => {
      for (const stop of stops) stop();
    };
  }
}

function readRows(path: string): string[] {
  const library = openLibrary(path);
  try {
    return library.prepare("SELECT key FROM simulated").all([]).map(([key]) => String(key)); // biome-ignore format: one line
  } catch {
    return []; // no transaction has written yet
  } finally {
    library.close();
  }
}
