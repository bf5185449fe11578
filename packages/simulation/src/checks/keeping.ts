// Checks which closed runs a store removes: the oracle "retention".
// Owns: whether any run is to be removed at all.
// Invariants: B4 (a run goes when its retention is over, not before, and not while the execution of the parent that started it is open;
// `delete` removes closed runs only).

import type { DeleteResult, NewRun, RunRow } from "holdfast/store";
import type { FreeStore } from "../stores.ts";
import type { World } from "../world.ts";
import { CLOSED, type SeenRuns } from "./seenRuns.ts";

export class KeepingChecks {
  readonly #world: World;
  readonly #inner: FreeStore;
  readonly #seen: SeenRuns;
  readonly #onGone: (id: string) => void;
  /** Most worlds keep everything. */
  hasRetention = false;

  constructor(world: World, inner: FreeStore, seen: SeenRuns, onGone: (id: string) => void) {
    this.#world = world;
    this.#inner = inner;
    this.#seen = seen;
    this.#onGone = onGone;
  }
  created(runs: readonly NewRun[]): void {
    this.hasRetention ||= runs.some(({ retention }) => typeof retention === "number");
  }
  #gone(id: string): void {
    this.#seen.forget(id);
    this.#onGone(id);
  }
  async retire(): Promise<number> {
    const ids = [...this.#seen.all.keys()];
    const before = await this.#inner.get(ids);
    const count = await this.#inner.retire();
    const after = await this.#inner.get(ids);
    const gone = before.flatMap((row, i) => (row !== undefined && after[i] === undefined ? [row] : []));
    for (const row of gone) {
      this.#world.note("db", `retire ${row.id}`);
      this.#checkRetired(row, before);
      this.#gone(row.id);
    }
    if (gone.length !== count) this.#broken(`${count} runs were removed, and ${gone.length} are gone`);
    return count;
  }
  #checkRetired({ id, status, finishedAt, retention, parent }: RunRow, rows: readonly (RunRow | undefined)[]): void {
    if (!CLOSED.has(status) || finishedAt === undefined) return this.#broken(`${id} was removed, and was ${status}`);
    if (typeof retention !== "number" || finishedAt + retention > this.#world.now)
      this.#broken(`${id} was removed ${this.#world.now - finishedAt} ms after its end; it is kept for ${retention} ms`);
    const starter = rows.find((row) => row !== undefined && row.id === parent?.runId);
    if (starter !== undefined && !CLOSED.has(starter.status) && starter.execution === parent?.execution)
      this.#broken(`${id} was removed while its parent ${starter.id} was open`);
  }
  async delete(ids: readonly string[]): Promise<DeleteResult[]> {
    const before = await this.#inner.get(ids);
    const results = await this.#inner.delete(ids);
    const after = await this.#inner.get(ids);
    for (const [i, id] of ids.entries()) {
      const result = results[i] as DeleteResult;
      this.#world.note("db", `delete ${id}: ${result}`);
      const row = before[i];
      const expected = row === undefined ? "not-found" : CLOSED.has(row.status) ? "deleted" : "open";
      const isAgain = ids.indexOf(id) !== i;
      if (result !== expected && !isAgain) this.#broken(`${id} is ${row?.status}, and its removal was answered ${result}`);
      if (result === "deleted" && after[i] !== undefined) this.#broken(`${id} was deleted, and is there`);
      if (result === "deleted") this.#gone(id);
    }
    return results;
  }
  #broken(message: string): void {
    this.#world.violate("retention", "B4", message);
  }
}
