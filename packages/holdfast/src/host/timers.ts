// The timers of one run: sleeps, timeouts, and the next attempts of steps.
// Owns: when each is due, and the one alarm for the first of them.
// Invariants: K8 (none early; late ones fire when somebody looks), D8 (a retry is a moment that outlives the process: rows say it too).

import type { Environment, Timer } from "@holdfast/host";

interface Taken {
  readonly fired: readonly number[];
  readonly retries: readonly number[];
  readonly latest: number;
}
const NOTHING: Taken = { fired: [], retries: [], latest: 0 };

export class Timers {
  readonly #environment: Environment;
  readonly #now: () => number;
  readonly #onAlarm: () => void;
  /** By the operation that sleeps or times out. */
  readonly #due = new Map<number, number>();
  /** By the step that is tried again. */
  readonly #retries = new Map<number, number>();
  #alarm: Timer | undefined;

  constructor(environment: Environment, now: () => number, onAlarm: () => void) {
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
  get #isEmpty(): boolean {
    return this.#due.size === 0 && this.#retries.size === 0;
  }
  /** The moment of the first. */
  get next(): number | undefined {
    if (this.#isEmpty) return undefined;
    let next: number | undefined;
    for (const due of this.#due.values()) if (next === undefined || due < next) next = due;
    for (const due of this.#retries.values()) if (next === undefined || due < next) next = due;
    return next;
  }
  /** Those whose time has come; they are no longer set. `latest`: when the last of them was due. */
  take(): Taken {
    if (this.#isEmpty) return NOTHING;
    const now = this.#now();
    let latest = 0;
    for (const due of this.#due.values()) if (due <= now && due > latest) latest = due;
    return { fired: takeDue(this.#due, now), retries: takeDue(this.#retries, now), latest };
  }
  /** Calls back when the first is due. */
  arm(): void {
    this.disarm();
    const { next } = this;
    if (next === undefined) return;
    this.#alarm = this.#environment.after(next - this.#now(), () => {
      this.#onAlarm();
    });
  }
  disarm(): void {
    this.#alarm?.cancel();
    this.#alarm = undefined;
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
