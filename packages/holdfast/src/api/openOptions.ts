// The options of `Holdfast.open`.
// Owns: the type only.
// Invariants: names and shapes are fixed.

import type { Codec, Duration, Limits, Logger } from "@holdfast/core";
import type { TemporalOptions } from "../backend/port.ts";

/**
 * Options of `Holdfast.open`.
 * @example
 * ```ts
 * const quiet = { debug() {}, info() {}, warn: console.warn, error: console.error };
 * const engine = await Holdfast.open("memory:", { logger: quiet, retention: "30d", limits: { payloadBytes: 64_000 } });
 * console.log(await engine.schedules.list()); // []
 * await engine.close();
 * ```
 */
export interface OpenOptions {
  /**
   * Encodes all user values. Every process that uses the runs needs the same codec.
   * @defaultValue `jsonCodec`
   */
  codec?: Codec;
  /**
   * Namespaces share nothing. On SQLite each is a file, `app.<namespace>.db`; on Postgres a schema; in memory a store per name and process
   * (without a name each engine has its own); on Temporal its namespace. Letters, digits, "_" and "-".
   * @defaultValue none
   */
  namespace?: string;
  /**
   * Where the engine writes its messages.
   * @defaultValue warnings and errors go to the console
   */
  logger?: Logger;
  /**
   * Upper bounds for payloads and histories. What is left out has its default.
   * @defaultValue payloads of 2 MiB, a warning at 10,000 records, failure at 50,000
   */
  limits?: Partial<Limits>;
  /**
   * How long closed runs are kept that this engine ends and whose workflow has no `retention`. Then they are removed with their history,
   * and their ids and keys are free. Not on Temporal, where the namespace has a retention.
   * @defaultValue `"forever"`
   */
  retention?: Duration | "forever";
  /**
   * For `temporal://` and `temporals://`: keys, certificates, search attributes.
   * @defaultValue none
   */
  temporal?: TemporalOptions;
}
