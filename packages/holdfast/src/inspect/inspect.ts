// `inspect` and `openReadOnly`: how an inspection is opened.
// Owns: which hosts are read in which way.
// Invariants: an inspection writes nothing. On SQLite it has a connection of its own, in another thread unless the caller declines it.

import { type Codec, DEFAULT_LIMITS, jsonCodec, type Logger, type OptionNames } from "@holdfast/core";
import { realEnvironment } from "@holdfast/host";
import { clientOf, type Holdfast } from "../api/holdfast.ts";
import { consoleLogger } from "../api/logger.ts";
import { openBackend } from "../api/open.ts";
import { checkedCodec, checkedLogger, checkedOptions } from "../api/options.ts";
import type { TemporalOptions } from "../backend/port.ts";
import { Engine } from "../engine/engine.ts";
import type { ReadStore } from "../store/inspectPort.ts";
import { openForReading } from "../store/open.ts";
import { SqliteReader } from "../store/sqlite/reader.ts";
import { SqliteStore } from "../store/sqlite/store.ts";
import { BackendInspection } from "./backendInspection.ts";
import type { Source } from "./changes.ts";
import { StoreInspection } from "./storeInspection.ts";
import { readSqlite } from "./thread.ts";
import type { Inspection } from "./types.ts";

/**
 * Reads an engine that is open: everything that a console shows. Closing the inspection leaves the engine open.
 * @example
 * ```ts
 * import { inspect } from "holdfast/inspect";
 *
 * const engine = await Holdfast.open("memory:");
 * await engine.start("order", "book", { id: "order-1" });
 * const inspection = inspect(engine);
 * console.log((await inspection.list()).runs.map((run) => run.id)); // ["order-1"]
 * await inspection.close();
 * await engine.close();
 * ```
 */
export function inspect(engine: Holdfast): Inspection {
  const { backend, codec } = clientOf(engine);
  if (!(backend instanceof Engine)) return new BackendInspection(backend, codec, async () => undefined);
  const commits: Source = (changed) => backend.watchCommits(changed);
  if (backend.store instanceof SqliteStore) {
    const store = readSqlite(backend.store.reading);
    return new StoreInspection({ store, codec, sources: [watching(store), commits], close: () => store.close() });
  }
  return new StoreInspection({ store: backend.store, codec, sources: [watching(backend.store), commits], close: async () => undefined });
}

/** Options of `openReadOnly`. */
export interface OpenReadOnlyOptions {
  /**
   * The codec that the values were written with.
   * @defaultValue `jsonCodec`
   */
  codec?: Codec;
  /**
   * The namespace of the runs.
   * @defaultValue none
   */
  namespace?: string;
  /**
   * Where messages go.
   * @defaultValue warnings and errors go to the console
   */
  logger?: Logger;
  /**
   * For `temporal://` and `temporals://`: keys, certificates, search attributes.
   * @defaultValue none
   */
  temporal?: TemporalOptions;
  /**
   * Whether SQLite is read in another thread. Without one a program that only reads, such as a replay of many histories, takes less time:
   * nothing is copied between threads.
   * @defaultValue `true`
   */
  thread?: boolean;
}
const OPTIONS: OptionNames<OpenReadOnlyOptions> = { codec: true, namespace: true, logger: true, temporal: true, thread: true };

/**
 * Opens a store for reading: "file:./app.db", "postgres://…", "temporal://…". It never writes: a store that does not exist is an empty one.
 * @throws `InvalidInputError` for an invalid url or option.
 * @example
 * ```ts
 * import { openReadOnly } from "holdfast/inspect";
 *
 * const inspection = await openReadOnly("file:./app.db");
 * console.log((await inspection.list()).runs); // []
 * await inspection.close();
 * ```
 */
export async function openReadOnly(url?: string, given?: OpenReadOnlyOptions): Promise<Inspection> {
  const options = checkedOptions("openReadOnly", given, OPTIONS);
  const { codec: asked = jsonCodec, namespace, logger: log = consoleLogger, temporal, thread = true } = options;
  const [codec, logger] = [checkedCodec(asked), checkedLogger(log)];
  if (typeof url === "string" && /^temporals?:/.test(url)) {
    const settings = { codec, logger, limits: DEFAULT_LIMITS, namespace, temporal, retention: undefined };
    const backend = await openBackend(url, settings, realEnvironment);
    return new BackendInspection(backend, codec, () => backend.close());
  }
  const found = await openForReading(url, { logger, namespace });
  const store = "path" in found ? (thread ? readSqlite(found) : new SqliteReader(found.path)) : found.store;
  return new StoreInspection({ store, codec, sources: [watching(store)], close: () => store.close() });
}

function watching(store: ReadStore): Source {
  return (changed) => store.watch(() => changed());
}
