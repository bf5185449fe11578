// Checks starts that replace or put off a run of the same id: the oracle "starts".
// Owns: the newest start of each of these runs.
// Invariants: Q9 (an unclaimed run takes the start; a delay restarts, to `maxDelay` after the first start at most; the newest start is
// what the run begins with next; a caller's cancellation drops it; a repeated key changes nothing).

import type { NewRun, RunRow, Store } from "holdfast/store";
import type { World } from "../world.ts";
import { CLOSED, stable } from "./seenRuns.ts";

interface Newest {
  start: NewRun;
  execution: number;
  /** When the first of the starts was made that this execution has taken over. */
  firstAt: number;
  /** The same, of the next start. */
  nextFirstAt: number | undefined;
  /** The execution after which no other begins, unless it is started again. */
  last: number | undefined;
}

export class StartChecks {
  readonly #world: World;
  readonly #inner: Store;
  readonly #newest = new Map<string, Newest>();

  constructor(world: World, inner: Store) {
    this.#world = world;
    this.#inner = inner;
  }
  #broken(message: string): void {
    this.#world.violate("starts", "Q9", message);
  }
  /** The runs that these starts replace or put off. */
  async look(starts: readonly NewRun[]): Promise<readonly (RunRow | undefined)[]> {
    return starts.some(isSuperseding) ? this.#inner.get(starts.map(({ id }) => id)) : [];
  }
  async started(starts: readonly NewRun[], before: readonly (RunRow | undefined)[], isRepeated: (run: NewRun) => boolean): Promise<void> {
    const after = await this.look(starts);
    for (const [i, start] of starts.entries()) {
      if (!isSuperseding(start)) continue;
      const isAlone = starts.filter(({ id }) => id === start.id).length === 1;
      if (!isAlone)
        this.#newest.delete(start.id); // in one transaction: which came first can't be seen
      else if (!isRepeated(start)) this.#started(start, before[i], after[i]);
      else if (stable(before[i]) !== stable(after[i])) this.#broken(`a repeated start of ${start.id} has changed it`);
    }
  }
  #started(start: NewRun, before: RunRow | undefined, after: RunRow | undefined): void {
    const { now } = this.#world;
    const { id } = start;
    if (after === undefined) return this.#broken(`${id} was started, and does not exist`);
    if (before?.workflow !== undefined && before.workflow !== start.workflow) return;
    const known = this.#newest.get(id);
    if (known !== undefined && before !== undefined && before.execution > known.execution && known.nextFirstAt !== undefined)
      Object.assign(known, { execution: before.execution, firstAt: known.nextFirstAt, nextFirstAt: undefined });
    const { execution } = after;
    if (before === undefined || CLOSED.has(before.status)) {
      if (execution !== (before?.execution ?? 0) + 1) this.#broken(`${id} was started again, and is at execution ${execution}`);
      this.#newest.set(id, { start, execution, firstAt: now, nextFirstAt: undefined, last: undefined });
      return this.#checkTaken(start, after, now, undefined);
    }
    if (known === undefined) return;
    Object.assign(known, { start, last: undefined });
    if (before.startedAt === undefined && before.turns === 0) return this.#checkTaken(start, after, known.firstAt, before);
    known.nextFirstAt ??= now;
    if (execution === before.execution && stable(after.input) !== stable(before.input))
      this.#broken(`${id} had begun, and has another input`);
  }
  /** The run has this start, and begins when it says. */
  #checkTaken(start: NewRun, after: RunRow, firstAt: number, before: RunRow | undefined): void {
    const { id, delay = 0, maxDelay, onConflict } = start;
    if (stable(after.input) !== stable(start.input)) this.#broken(`${id} was not begun, and did not take a newer start`);
    if (start.after !== undefined || start.startAt !== undefined || CLOSED.has(after.status)) return;
    const latest = onConflict === "debounce" && maxDelay !== undefined ? firstAt + maxDelay : Number.POSITIVE_INFINITY;
    const { now } = this.#world;
    const at = Math.min(now + delay, latest);
    const expected = at <= now && before?.availableAt !== undefined ? Math.min(at, before.availableAt) : at;
    if (after.availableAt !== expected)
      this.#broken(`${id} begins in ${(after.availableAt ?? 0) - now} ms instead of ${expected - now} ms`);
  }
  /** A caller has cancelled or terminated the run: what would have followed is dropped. */
  dropped(before: RunRow | undefined): void {
    const known = before === undefined ? undefined : this.#newest.get(before.id);
    if (known !== undefined && before !== undefined) known.last = before.execution;
  }
  forget(id: string): void {
    this.#newest.delete(id);
  }
  /** The input of the newest start; undefined if it was dropped, or is not known. */
  newestInput(id: string): NewRun["input"] | undefined {
    const known = this.#newest.get(id);
    return known?.last === undefined ? known?.start.input : undefined;
  }
  /** Everything has ended. */
  async checkEnd(): Promise<void> {
    for (const [id, { start, last }] of this.#newest) {
      const [row] = await this.#inner.get([id]);
      if (row === undefined) continue;
      if (last === undefined && stable(row.input) !== stable(start.input)) this.#broken(`${id} has not begun with its newest start`);
      if (last !== undefined && row.execution !== last)
        this.#broken(`${id} was cancelled in execution ${last}, and is at execution ${row.execution}`);
    }
  }
}

const isSuperseding = ({ onConflict }: NewRun): boolean => onConflict === "replace" || onConflict === "debounce";
