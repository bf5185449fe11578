// One claim in a queue with limits, a pause or keys, step by step: what is held, and what could be claimed instead.
// Owns: a model of the queue during the claim.
// Invariants: what counts as held for sure is held by Q2 and Q3; what could be claimed for sure is admissible by every limit.

import type { ClaimRequest, RunRow } from "holdfast/store";
import { BOTH_SLOTS, KEY_SLOT, PARTS, type Part, QUEUE_SLOT, type QueueState } from "./queueState.ts";

/** What a claim of a run takes. */
export interface Needs {
  readonly slots: number;
  readonly isStart: boolean;
}
/** Q5: what keys share in a queue: claims and, where the queue has a rate, the starts that it lets through. */
export const SHARES = ["claims", "starts"] as const;
export type Share = (typeof SHARES)[number];
const SLOT_OF: Readonly<Record<Part, number>> = { queue: QUEUE_SLOT, key: KEY_SLOT };

export class QueueClaim {
  readonly #queue: QueueState;
  /** All open runs before the claim. */
  readonly #rows: ReadonlyMap<string, RunRow>;
  readonly #request: ClaimRequest;
  readonly #now: number;
  /** The slots that runs hold for sure, and those that they may hold, as bits. They differ only where open runs count. */
  readonly #held = new Map<string, number>();
  readonly #mayHold = new Map<string, number>();
  readonly #taken = new Set<string>();

  /** `held`: what runs have taken so far, where open runs count. */
  constructor(queue: QueueState, rows: ReadonlyMap<string, RunRow>, request: ClaimRequest, now: number, held: ReadonlyMap<string, number>) {
    this.#queue = queue;
    this.#rows = rows;
    this.#request = request;
    this.#now = now;
    for (const row of rows.values()) {
      if (row.queue !== queue.name) continue;
      if (this.isOpenCounted) {
        if (row.startedAt === undefined) continue;
        this.#held.set(row.id, held.get(row.id) ?? 0);
        this.#mayHold.set(row.id, BOTH_SLOTS);
      } else if (row.workerId !== undefined && !this.#isLost(row)) {
        this.#held.set(row.id, BOTH_SLOTS);
        this.#mayHold.set(row.id, BOTH_SLOTS);
      }
    }
  }
  get isOpenCounted(): boolean {
    return this.#queue.spec?.counts === "open";
  }
  /** Q3: the lease has ended, and the claimer has no code for the run: the claim may end the lease. */
  #isLost(row: RunRow): boolean {
    return (row.availableAt ?? 0) <= this.#now && !this.#isServed(row);
  }
  #isServed({ workflow, version }: RunRow): boolean {
    return this.#request.serves.some((one) => one.workflow === workflow && (one.versions === "*" || one.versions.includes(version)));
  }

  /** What a claim of the run takes at least. */
  needs(row: RunRow): Needs {
    const isStart = row.startedAt === undefined;
    if (!this.isOpenCounted) return { slots: row.workerId === undefined ? BOTH_SLOTS : 0, isStart };
    return { slots: BOTH_SLOTS & ~(this.#held.get(row.id) ?? 0) & ~this.#slotsAbove(row), isStart };
  }
  /** What it takes at most: ancestors may hold no slot for it. */
  #mayNeed(row: RunRow): number {
    return this.isOpenCounted ? BOTH_SLOTS & ~(this.#held.get(row.id) ?? 0) : this.needs(row).slots;
  }
  /** Q2: the slots that open ancestors may have for it, as bits. */
  #slotsAbove({ parent, queue, key }: RunRow): number {
    let slots = 0;
    for (let link = parent; link !== undefined && link.parentClose !== "abandon"; ) {
      const above = this.#rows.get(link.runId);
      if (above === undefined) break;
      if (above.queue === queue) slots |= above.key === key ? BOTH_SLOTS : QUEUE_SLOT;
      link = above.parent;
    }
    return slots;
  }
  #countIn(part: Part, key: string | undefined, which: ReadonlyMap<string, number>): number {
    let count = 0;
    for (const [id, slots] of which) if ((slots & SLOT_OF[part]) !== 0 && (part === "queue" || this.#rows.get(id)?.key === key)) count++;
    return count;
  }
  /** Why the run must not be claimed now, with the rule. */
  refusal(row: RunRow): { readonly oracle: string; readonly rule: string; readonly why: string } | undefined {
    const { key } = row;
    const needs = this.needs(row);
    if (this.#queue.pausedUntil(key, this.#now) !== undefined) return { oracle: "pauses", rule: "Q8", why: "is paused" };
    for (const part of PARTS) {
      const { concurrency, rate } = this.#queue.limitOf(part, key);
      const held = this.#countIn(part, key, this.#held);
      if (concurrency !== undefined && (needs.slots & SLOT_OF[part]) !== 0 && held >= concurrency)
        return { oracle: "slots", rule: "Q2", why: `has ${held} held at a limit of ${concurrency}` };
      if (rate === undefined || !needs.isStart) continue;
      const started = this.#queue.runStarts.within(rate, this.#now, part === "key" ? { key } : undefined, "sure").length;
      if (started >= rate.limit)
        return { oracle: "rates", rule: "Q4", why: `has started ${started} within ${rate.per} ms at a limit of ${rate.limit}` };
    }
    return undefined;
  }
  take(row: RunRow): Needs {
    const needs = this.needs(row);
    this.#taken.add(row.id);
    this.#held.set(row.id, (this.#held.get(row.id) ?? 0) | needs.slots);
    this.#mayHold.set(row.id, BOTH_SLOTS);
    if (needs.isStart) this.#queue.runStarts.add(this.#now, row.key);
    return needs;
  }
  /** The slots that are held for sure, for the next claim. */
  get held(): ReadonlyMap<string, number> {
    return this.#held;
  }

  /** What the claim could have had, and has not taken so far. Runs past their deadline have no place in the order (K7). */
  waiting(): RunRow[] {
    return [...this.#rows.values()].filter(
      (row) =>
        row.queue === this.#queue.name &&
        !this.#taken.has(row.id) &&
        row.availableAt !== undefined &&
        row.availableAt <= this.#now &&
        (row.deadlineAt === undefined || row.deadlineAt > this.#now) &&
        this.#isServed(row),
    );
  }
  /** The queue has a rate, and may start nothing now. */
  get isRateFull(): boolean {
    const { rate } = this.#queue.spec ?? {};
    return rate !== undefined && this.#queue.runStarts.within(rate, this.#now, undefined, "all").length >= rate.limit;
  }
  /** Whether it is ready to be claimed, or to be started as soon as the rate of the queue has room. All keys wait for slots of the queue alike. */
  isReadyFor(share: Share, row: RunRow): boolean {
    const { slots, isStart } = this.needs(row);
    if (slots === 0 || this.admissibleAt(row, ["key"]) > this.#now) return false;
    return share === "starts" ? isStart && this.#queue.spec?.rate !== undefined : !isStart || !this.isRateFull;
  }
  /** When the run can be claimed for sure if nothing else changes; infinite: when a slot is free, or it is resumed. `without`: had that one not been taken. */
  admissibleAt(row: RunRow, parts: readonly Part[] = PARTS, without?: RunRow): number {
    const { key } = row;
    const { isStart } = this.needs(row);
    const slots = this.#mayNeed(row);
    let at = this.#queue.pausedUntil(key, this.#now) ?? this.#now;
    for (const part of parts) {
      const { concurrency, rate } = this.#queue.limitOf(part, key);
      const isBack = without !== undefined && (part === "queue" || without.key === key);
      const held = this.#countIn(part, key, this.#mayHold) - (isBack ? 1 : 0) - (this.#mayHold.has(row.id) ? 1 : 0);
      if (concurrency !== undefined && (slots & SLOT_OF[part]) !== 0 && held >= concurrency) return Number.POSITIVE_INFINITY;
      if (rate === undefined || !isStart) continue;
      const started = this.#queue.runStarts.within(rate, this.#now, part === "key" ? { key } : undefined, "all");
      const count = started.length - (isBack && without.startedAt === undefined ? 1 : 0);
      if (count >= rate.limit) at = Math.max(at, (started.at(-rate.limit) ?? this.#now) + rate.per);
    }
    return at;
  }
}
