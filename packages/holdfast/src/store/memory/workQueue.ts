// Everything of one kind that can be claimed, in all queues: plain and filed.
// Owns: where each thing waits, and how a claim goes through both.
// Invariants: Q1 (work without a key in a queue without limits waits and is claimed as if there were no others; where others are filed it is
// one key among theirs).

import { admits, choose, limitsFor } from "../filing/choose.ts";
import { longestWindow, START } from "../filing/rules.ts";
import type { LimitsFor, StoredQueueSpec } from "../queuePort.ts";
import { type Accepts, ClaimQueue } from "./claimQueue.ts";
import { type Filed, type FiledHost, FiledWork } from "./filedWork.ts";
import type { QueueTable } from "./queueTable.ts";

export interface WorkHost<T> extends Omit<FiledHost<T>, "needs"> {
  /** What a claim of it would need now, as bits, in a queue with these limits. */
  needs(item: T, spec: StoredQueueSpec | undefined): number;
}
interface Claim<T> {
  readonly queue: string;
  readonly accepts: Accepts;
  readonly limit: number;
  /** K7: true if it is too late for it; it has ended then, or is set aside. */
  isPast(item: T): boolean;
  take(item: T): void;
}

export class WorkQueue<T extends Filed> {
  readonly #plain = new ClaimQueue<T>();
  readonly #filed = new Map<string, FiledWork<T>>();
  readonly #whereFiled = new WeakMap<T, FiledWork<T>>();
  readonly #table: QueueTable;
  readonly #host: WorkHost<T>;

  constructor(table: QueueTable, host: WorkHost<T>) {
    this.#table = table;
    this.#host = host;
  }
  /** Every queue that something was ever put into. */
  get queues(): Iterable<string> {
    return new Set([...this.#plain.queues, ...this.#filed.keys()]);
  }
  isFiled({ queue, key }: { readonly queue: string; readonly key?: string | undefined }): boolean {
    return key !== undefined || this.#table.specOf(queue) !== undefined;
  }
  /** Call it whenever `availableAt` has changed, and when the queue begins or ceases to have limits. */
  put(queue: string, name: string, variant: string | undefined, item: T & { readonly queue: string }): void {
    const before = this.#whereFiled.get(item);
    if (!this.isFiled(item)) {
      before?.remove(item);
      this.#whereFiled.delete(item);
      return this.#plain.put(queue, name, variant, item);
    }
    const filed = this.#filedIn(queue);
    if (before === undefined) this.#plain.remove(item);
    else if (before !== filed) before.remove(item);
    this.#whereFiled.set(item, filed);
    filed.put(name, variant, item);
  }
  #filedIn(queue: string): FiledWork<T> {
    const spec = () => this.#table.specOf(queue);
    const { holds, endLease } = this.#host;
    const filed = this.#filed.get(queue) ?? new FiledWork<T>({ needs: (item) => this.#host.needs(item, spec()), holds, endLease });
    this.#filed.set(queue, filed);
    return filed;
  }
  #isPlain(queue: string, now: number): boolean {
    const filed = this.#filed.get(queue);
    if (filed !== undefined && !filed.isEmpty) return false;
    return this.#table.specOf(queue) === undefined && this.#table.pauses(queue, now).queue === undefined;
  }

  /** Claims in the order of the queue. Returns when the next is due. */
  claim(claim: Claim<T>, now: number): number | undefined {
    const { queue, accepts, limit, isPast, take } = claim;
    if (this.#isPlain(queue, now)) return this.#claimPlain(claim, now);
    const spec = this.#table.specOf(queue);
    const filed = this.#filedIn(queue);
    const plain = {
      peek: (below: number): T | undefined => {
        const item = this.#plain.peek(queue, accepts, now);
        return item !== undefined && item.priority < below ? item : undefined;
      },
      take: (): void => this.#plain.pop(queue, accepts),
    };
    const takeFiled = (item: T): boolean => {
      if (isPast(item)) return false;
      const needs = this.#host.needs(item, spec);
      take(item);
      if (this.#whereFiled.get(item) === filed) this.#claimed(filed, item, needs, now);
      return true;
    };
    const pauses = this.#table.pauses(queue, now);
    const shelf = filed.shelf(accepts, now, takeFiled, spec === undefined ? plain : undefined);
    // Computed before anything is leased: new leases are not news to the worker that claims them.
    const arrivals = [filed.next(accepts), spec === undefined ? this.#plain.nextAfter(queue, accepts, now) : undefined];
    const { taken, nextAt } = choose(shelf, spec, pauses, limit, now);
    shelf.close();
    if (pauses.queue !== undefined) return nextAt;
    return taken >= limit ? now : earliest([nextAt, ...arrivals]);
  }
  /** Whether this one may be claimed out of its turn (V4); if so, it counts as claimed. */
  admit(item: T & { readonly queue: string }, now: number): boolean {
    const { queue, key } = item;
    if (this.#isPlain(queue, now)) return true;
    const [spec, filed] = [this.#table.specOf(queue), this.#filedIn(queue)];
    const needs = this.#host.needs(item, spec);
    const shelf = filed.shelf(() => false, now, () => false); // biome-ignore format: one line
    if (!admits(shelf, spec, this.#table.pauses(queue, now), { key, needs }, now)) return false;
    if (this.isFiled(item)) this.#claimed(filed, item, needs, now);
    return true;
  }
  /** What its limits leave it, if it waits in that queue under that key. */
  limitsFor(queue: string, key: string | undefined, needs: number, now: number): LimitsFor {
    const shelf = this.#filedIn(queue).shelf(() => false, now, () => false); // biome-ignore format: one line
    return limitsFor(shelf, this.#table.specOf(queue), this.#table.pauses(queue, now), { key, needs }, now);
  }
  #claimed(filed: FiledWork<T>, item: T & { readonly queue?: string }, needs: number, now: number): void {
    filed.hold(item);
    const window = item.queue === undefined ? 0 : longestWindow(this.#table.specOf(item.queue));
    if (window > 0 && (needs & START) !== 0) filed.started(item.key, now, now - window);
  }
  #claimPlain({ queue, accepts, limit, isPast, take }: Claim<T>, now: number): number | undefined {
    const taken = new Set<T>();
    // K7: those that are past leave room for others.
    for (let isAgain = true; isAgain; ) {
      isAgain = false;
      for (const item of this.#plain.due(queue, accepts, limit - taken.size, now)) {
        if (taken.has(item)) continue; // entered twice for one moment
        if (isPast(item)) isAgain = true;
        else taken.add(item);
      }
    }
    // Computed before they are leased, as above.
    const nextAt = this.#plain.next(queue, accepts);
    for (const item of taken) take(item);
    return nextAt;
  }

  /** Q1: all work of the queue is about to be put again. */
  fileAnew(queue: string): void {
    this.#filed.get(queue)?.forgetReady();
  }
  /** Q1: holds what it holds, in a queue that has just got its limits. */
  hold(queue: string, item: T): void {
    this.#filedIn(queue).hold(item);
  }
  cutStarts(now: number): void {
    for (const filed of this.#filed.values()) filed.cutStarts(now);
  }
}

function earliest(moments: readonly (number | undefined)[]): number | undefined {
  const known = moments.filter((moment) => moment !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
