// How long the outcomes of updates are kept.
// Owns: the hours that have outcomes that may be deleted.
// Invariants: M10 (an outcome without a sender's key is kept for at least an hour, and deleted with a later batch that records an outcome;
// an outcome with a key is kept as long as the run). The outcomes of an hour are read once, when they are deleted; a wake-up reads only the
// list of hours.

import type { EngineDriver, KvWrite } from "../driver.ts";
import { encode } from "./binary.ts";
import { outcomeHourKey, outcomeKey, outcomePrefix, updateKey } from "./layout.ts";
import { unpack } from "./tuple.ts";

const HOUR = 3_600_000;
/** Maximum number of deletions in one batch. */
const MOST = 500;
const KEYED = "key:";

/** The id of an update: derived from its sender's key, or a new one. */
export function updateId(key: string | undefined, uuid: () => string): string {
  return key === undefined ? uuid() : KEYED + key;
}

export class Outcomes {
  readonly #hours = new Set<number>();

  /** Adds an hour that was read from the storage. */
  found(hour: number): void {
    this.#hours.add(hour);
  }
  /** The writes that accompany an outcome recorded at that time. */
  recorded(id: string, time: number): KvWrite[] {
    if (id.startsWith(KEYED)) return [];
    const hour = Math.floor(time / HOUR);
    const value = encode(true);
    const entry: KvWrite = { type: "set", key: outcomeKey(hour, id), value };
    if (this.#hours.has(hour)) return [entry];
    this.#hours.add(hour);
    return [entry, { type: "set", key: outcomeHourKey(hour), value }];
  }
  /** Deletes expired outcomes; only some of them if there are many. */
  async over(driver: EngineDriver, now: number): Promise<KvWrite[]> {
    const writes: KvWrite[] = [];
    const most = mostOf(driver);
    for (const hour of this.#hours) {
      if ((hour + 2) * HOUR > now || writes.length >= most) continue; // an outcome recorded at the end of the hour is an hour old then
      const entries = await driver.list(outcomePrefix(hour));
      const gone = entries.slice(0, Math.floor((most - writes.length) / 2));
      for (const { key } of gone) writes.push({ type: "delete", key }, { type: "delete", key: updateKey(String(unpack(key)[2])) });
      if (gone.length < entries.length) continue;
      writes.push({ type: "delete", key: outcomeHourKey(hour) });
      this.#hours.delete(hour);
    }
    return writes;
  }
}

/** The rest of the batch is left for the turn. */
function mostOf({ maxBatchBytes = Number.POSITIVE_INFINITY, maxBatchWrites = Number.POSITIVE_INFINITY }: EngineDriver): number {
  return Math.max(2, Math.floor(Math.min(MOST, maxBatchWrites / 8, maxBatchBytes / 800)));
}
