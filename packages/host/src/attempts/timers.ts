// The timers of one run: sleeps, timeouts, and the next attempts of operations.
// Owns: their due times, and one alarm for the earliest.
// Invariants: K8 (no timer fires early; overdue timers fire when the host checks), D8 (the due time of a retry survives the process: rows
// have it too).

import type { Environment, Timer } from "../environment.ts";

const NONE: readonly number[] = [];

export class Timers {
  readonly #environment: Pick<Environment, "after">;
  readonly #now: () => number;
  readonly #onAlarm: () => void;
  /** Due times of sleeps and timeouts, by operation. */
  readonly #due = new Map<number, number>();
  /** Due times of next attempts, by operation. */
  readonly #retries = new Map<number, number>();
  #alarm: Timer | undefined;
  #isArmed = false;
  /** K8: the latest due time of the timers that have fired. */
  #latest = 0;

  constructor(environment: Pick<Environment, "after">, now: () => number, onAlarm: () => void) {
    this.#environment = environment;
    this.#now = now;
    this.#onAlarm = onAlarm;
  }
  set(seq: number, due: number): void {
    this.#due.set(seq, due);
  }
  setRetry(seq: number, due: number): void {
    this.#retries.set(seq, due);
  }
  clearRetry(seq: number): void {
    this.#retries.delete(seq);
  }
  /** Makes every retry due now. */
  hurryRetries(): void {
    for (const seq of this.#retries.keys()) this.#retries.set(seq, 0);
  }
  settled(seq: number): void {
    this.#due.delete(seq);
    this.#retries.delete(seq);
  }
  clear(): void {
    this.#due.clear();
    this.#retries.clear();
  }
  dueOf(seq: number): number | undefined {
    return this.#due.get(seq);
  }
  get retries(): ReadonlyMap<number, number> {
    return this.#retries;
  }
  /** The earliest due time. */
  get next(): number | undefined {
    let next: number | undefined;
    if (this.#due.size > 0) for (const due of this.#due.values()) if (next === undefined || due < next) next = due;
    if (this.#retries.size > 0) for (const due of this.#retries.values()) if (next === undefined || due < next) next = due;
    return next;
  }
  get latest(): number {
    return this.#latest;
  }
  /** Removes and returns the operations whose timer is due. */
  takeFired(): readonly number[] {
    if (this.#due.size === 0) return NONE;
    const now = this.#now();
    for (const due of this.#due.values()) if (due <= now && due > this.#latest) this.#latest = due;
    return takeDue(this.#due, now);
  }
  /** Removes and returns the operations whose next attempt is due. */
  takeRetries(): readonly number[] {
    return this.#retries.size === 0 ? NONE : takeDue(this.#retries, this.#now());
  }
  /** Calls back when the earliest timer is due. */
  arm(): void {
    this.disarm();
    this.#isArmed = true;
    const { next } = this;
    if (next !== undefined) this.#alarm = this.#environment.after(next - this.#now(), this.#ring);
  }
  readonly #ring = (): void => {
    this.#onAlarm();
    if (this.#isArmed) this.arm();
  };
  disarm(): void {
    this.#alarm?.cancel();
    this.#alarm = undefined;
    this.#isArmed = false;
  }
  get isArmed(): boolean {
    return this.#isArmed;
  }
}

function takeDue(moments: Map<number, number>, now: number): number[] {
  const taken: number[] = [];
  for (const [seq, due] of moments) {
    if (due > now) continue;
    moments.delete(seq);
    taken.push(seq);
  }
  return taken;
}
