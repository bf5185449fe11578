// Checks the order in which a store hands out runs: the oracle "claim order".
// Owns: the ids of the runs that a claim may find.
// Invariants: W2 (runs are claimed by priority, then by when they became available; no run is left behind for one that comes after it).

import type { ClaimRequest, ClaimResult, RunRow, Served, Store } from "holdfast/store";
import type { World } from "../world.ts";

export class ClaimOrder {
  readonly #world: World;
  readonly #inner: Store;
  readonly #ids = new Set<string>();

  constructor(world: World, inner: Store) {
    this.#world = world;
    this.#inner = inner;
  }
  /** The run is new, or open again. */
  opened(id: string): void {
    this.#ids.add(id);
  }

  /** The open runs before a claim, by id. */
  async look(): Promise<ReadonlyMap<string, RunRow>> {
    const open = new Map<string, RunRow>();
    for (const row of await this.#inner.get([...this.#ids])) {
      if (row === undefined) continue;
      if (row.finishedAt === undefined) open.set(row.id, row);
      else this.#ids.delete(row.id);
    }
    return open;
  }
  check(before: ReadonlyMap<string, RunRow>, request: ClaimRequest, { now, runs }: ClaimResult): void {
    const taken = runs.flatMap(({ run: { id } }) => before.get(id) ?? []).filter((row) => !isLate(row, now));
    for (const [i, row] of taken.entries()) {
      const next = taken[i + 1];
      if (next !== undefined && isBefore(next, row)) this.#broken(next, row, "was handed out after");
    }
    const last = taken.at(-1);
    if (last === undefined) return;
    const ids = new Set(taken.map(({ id }) => id));
    for (const row of before.values())
      if (!ids.has(row.id) && isDue(row, request, now) && !isLate(row, now) && isBefore(row, last))
        this.#broken(row, last, "was left behind for");
  }
  #broken(first: RunRow, second: RunRow, how: string): void {
    this.#world.violate("claim order", "W2", `${this.#shown(first)} ${how} ${this.#shown(second)}`);
  }
  #shown({ id, priority, availableAt = 0 }: RunRow): string {
    return `${id} (priority ${priority}, available for ${this.#world.now - availableAt} ms)`;
  }
}

/** K7: a run past its deadline has no place in the order: the claim ends it, or claims it for its rollbacks after the others. */
function isLate({ deadlineAt = Number.POSITIVE_INFINITY }: RunRow, now: number): boolean {
  return deadlineAt <= now;
}
/** Runs that became available in the same millisecond have no order. */
function isBefore(a: RunRow, b: RunRow): boolean {
  return a.priority === b.priority ? (a.availableAt ?? 0) < (b.availableAt ?? 0) : a.priority > b.priority;
}
function isDue({ queue, workflow, version, availableAt }: RunRow, request: ClaimRequest, now: number): boolean {
  if (availableAt === undefined || availableAt > now || queue !== request.queue) return false;
  return request.serves.some((served) => served.workflow === workflow && has(served, version));
}
function has({ versions }: Served, version: string | undefined): boolean {
  return versions === "*" || versions.includes(version);
}
