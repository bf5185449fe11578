// The world of a simulation: one clock, one queue of future events, one seed.
// Owns: time, the order of events, the trace.
// Invariants: one event at a time, each in a separate macrotask with all its microtasks (X8); time never goes back; the same seed gives
// the same trace, byte for byte.

import { Random } from "./random.ts";
import { Violation } from "./violation.ts";

/** What an event belongs to. Events of a dead owner are dropped; those of a frozen owner wait until it continues. */
export interface Owner {
  readonly isDead: boolean;
  /** The owner is frozen until this time. */
  readonly frozenUntil: number;
}
interface Event {
  at: number;
  readonly order: number;
  readonly owner: Owner | undefined;
  readonly run: () => void;
  isCanceled: boolean;
}

/** The original, saved before a test can patch it. */
const { setImmediate } = globalThis;

/** The time at which every simulation starts. */
const BEGINNING = Date.UTC(2026, 0, 1);

export class World {
  readonly seed: number;
  readonly trace: string[] = [];
  /** The first violation. */
  violation: Violation | undefined;
  /** Called after each event with its owner. */
  onEvent: ((owner: Owner) => void) | undefined;
  #time = BEGINNING;
  #order = 0;
  #events = 0;
  readonly #heap: Event[] = [];

  constructor(seed: number) {
    this.seed = seed;
  }
  /** A separate stream of draws. */
  random(stream: string): Random {
    return new Random(`${this.seed}/${stream}`);
  }
  /** True time in whole milliseconds, which is the store's time. */
  get now(): number {
    return Math.floor(this.#time);
  }
  /** Milliseconds since the world began. */
  get age(): number {
    return this.#time - BEGINNING;
  }
  /** Events so far. */
  get events(): number {
    return this.#events;
  }

  // ── the trace ──

  note(who: string, what: string): void {
    this.trace.push(`${this.age.toFixed(1).padStart(9)} ${who.padEnd(4)} ${what}`);
  }
  violate(oracle: string, rule: string, message: string): void {
    this.found(new Violation(oracle, rule, message));
  }
  found(violation: Violation): void {
    this.note("!!", violation.message);
    this.violation ??= violation;
  }

  // ── events ──

  /** Schedules an event after `ms` milliseconds of true time. */
  after(ms: number, owner: Owner | undefined, run: () => void): { cancel(): void } {
    const event: Event = { at: this.#time + Math.max(0, ms), order: this.#order++, owner, run, isCanceled: false };
    this.#push(event);
    return {
      cancel: () => {
        event.isCanceled = true;
      },
    };
  }
  /** Runs the next event and the microtasks that follow from it. False if there is no event. */
  async step(): Promise<boolean> {
    for (;;) {
      const event = this.#pop();
      if (event === undefined) return false;
      const { owner } = event;
      if (event.isCanceled || owner?.isDead === true) continue;
      if (owner !== undefined && owner.frozenUntil > event.at) {
        event.at = owner.frozenUntil;
        this.#push(event);
        continue;
      }
      this.#time = Math.max(this.#time, event.at);
      this.#events++;
      try {
        event.run();
      } catch (error) {
        this.violate("crash", "X11", `an exception left the engine: ${String(error)}`);
      }
      await new Promise<void>((done) => void setImmediate(done));
      if (owner !== undefined) this.onEvent?.(owner);
      return true;
    }
  }

  // A binary heap, earliest first; events that are due at the same time run in the order in which they were scheduled.
  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const other = heap[above] as Event;
      if (isBefore(other, event)) break;
      heap[at] = other;
      at = above;
    }
    heap[at] = event;
  }
  #pop(): Event | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return top;
    let at = 0;
    for (let below = 1; below < heap.length; below = 2 * at + 1) {
      if (below + 1 < heap.length && isBefore(heap[below + 1] as Event, heap[below] as Event)) below++;
      const other = heap[below] as Event;
      if (isBefore(last, other)) break;
      heap[at] = other;
      at = below;
    }
    heap[at] = last;
    return top;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
