// How long the outcomes of updates are kept.
// Owns: the hours of which there are outcomes that may go.
// Invariants: M10 (an outcome whose sender gave no key is kept for an hour at least, and goes with a later batch that records one; one with
// a key is kept for the life of the run). What an hour has left behind is looked up once, when it goes; a wake reads only which hours there are.

import type { EngineDriver, KvWrite } from "../driver.ts";
import { encode } from "./binary.ts";
import { outcomeHourKey, outcomeKey, outcomePrefix, updateKey } from "./layout.ts";
import { unpack } from "./tuple.ts";

const HOUR = 3_600_000;
/** Of one batch. */
const MOST = 500;
const KEYED = "key:";

/** The id of an update: by its sender's key, or its own. */
export function updateId(key: string | undefined, uuid: () => string): string {
  return key === undefined ? uuid() : KEYED + key;
}

export class Outcomes {
  readonly #hours = new Set<number>();

  /** Read from the storage. */
  found(hour: number): void {
    this.#hours.add(hour);
  }
  /** What is written beside an outcome that is recorded at that time. */
  recorded(id: string, time: number): KvWrite[] {
    if (id.startsWith(KEYED)) return [];
    const hour = Math.floor(time / HOUR);
    const value = encode(true);
    const entry: KvWrite = { type: "set", key: outcomeKey(hour, id), value };
    if (this.#hours.has(hour)) return [entry];
    this.#hours.add(hour);
    return [entry, { type: "set", key: outcomeHourKey(hour), value }];
  }
  /** What is over, in part if it is much. */
  async over(driver: EngineDriver, now: number): Promise<KvWrite[]> {
    const writes: KvWrite[] = [];
    const most = mostOf(driver);
    for (const hour of this.#hours) {
      if ((hour + 2) * HOUR > now || writes.length >= most) continue; // recorded at the end of it, it is an hour old then
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

/** A turn has the rest of the batch. */
function mostOf({ maxBatchBytes = Number.POSITIVE_INFINITY, maxBatchWrites = Number.POSITIVE_INFINITY }: EngineDriver): number {
  return Math.max(2, Math.floor(Math.min(MOST, maxBatchWrites / 8, maxBatchBytes / 800)));
}
