// Retention (B4): closed runs are removed once their time is over, or when they are deleted.
// Owns: how far the search has come.
// Invariants: from the oldest on; a run that must stay is passed over until the next round; so is one that can't be removed, which the call
// at the end of a round says; no statement while nothing is due.

import { type Answer, type DeleteResult, isolate, isRefusal, type Refused } from "holdfast/store";
import { text } from "../columns.ts";
import type { Context } from "../context.ts";

const RETIRED_AT_ONCE = 100;

interface RetiredAnswer {
  readonly seen: number;
  readonly at: number;
  readonly key: number;
  readonly gone: number;
}
/** By when they are to be removed, then by key. */
interface Place {
  readonly at: number;
  readonly key: number;
}
const FIRST: Place = { at: Number.MIN_SAFE_INTEGER, key: 0 };
interface Retired {
  readonly seen: number;
  readonly last: Place;
  readonly gone: number;
  readonly refused: Refused<unknown> | undefined;
}

export class Retention {
  readonly #context: Context;
  readonly #archive: boolean;
  /** Runs up to this one were looked at. Undefined: none in this round. */
  #seen: Place | undefined;
  /** Whether the last look at what is overdue found one. */
  isDue = true;

  constructor(context: Context, archive: boolean) {
    this.#context = context;
    this.#archive = archive;
  }
  /** Returns how many runs were removed; 0 once there are no more. */
  async retire(): Promise<number> {
    if (!this.isDue) return 0;
    let refusal: unknown;
    for (;;) {
      const { seen, last, gone, refused } = await this.#some(this.#seen ?? FIRST);
      this.#seen = seen < RETIRED_AT_ONCE ? undefined : last;
      refusal ??= refused?.error;
      if (gone > 0) return gone;
      if (this.#seen !== undefined) continue;
      this.isDue = false; // until the next look
      if (refusal !== undefined) throw refusal;
      return 0;
    }
  }
  async delete(runIds: readonly string[]): Promise<Answer<DeleteResult>[]> {
    const answer = await this.#context.functions.call("delete_runs_1", [JSON.stringify(runIds.map(text))], { isBatch: true });
    return (JSON.parse(answer) as (DeleteResult | null)[]).map((one) => one ?? "busy");
  }
  async #some(after: Place): Promise<Retired> {
    try {
      const { seen, at, key, gone } = await this.#call(after, RETIRED_AT_ONCE);
      return { seen, last: { at, key }, gone, refused: undefined };
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
    const { connections, place, now } = this.#context;
    const sql = `SELECT remove_at AS at, key FROM ${place.s}.runs WHERE remove_at < ${place.s}.clock_1($1) AND (remove_at, key) > ($2, $3)
      ORDER BY remove_at, key LIMIT $4`;
    const rows = await connections.query<Place & { [column: string]: unknown }>(sql, [now(), after.at, after.key, RETIRED_AT_ONCE]);
    const found = rows.map(({ at, key }, i) => ({ after: rows[i - 1] ?? after, at: Number(at), key: Number(key) }));
    let gone = 0;
    // They are in order: a part of them is the runs after the one before its first.
    const [refused] = await isolate(found, async (some) => {
      const [first] = some;
      if (first !== undefined) gone += (await this.#call(first.after, some.length)).gone;
    });
    return { seen: found.length, last: found.at(-1) ?? after, gone, refused };
  }
  async #call({ at, key }: Place, limit: number): Promise<RetiredAnswer> {
    const { functions, now } = this.#context;
    return JSON.parse(await functions.ask("retire_runs_1", [now(), at, key, limit, this.#archive])) as RetiredAnswer;
  }
}
