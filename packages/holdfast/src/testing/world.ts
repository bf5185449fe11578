// The clock of a test engine: it stands still while anything runs, and jumps when nothing can run.
// Owns: the clock and the timers of a test engine.
// Invariants: K8 (a timer never fires before its time); no real waiting.

import { type Environment, realEnvironment, type Timer } from "@holdfast/host";

interface Alarm {
  readonly at: number;
  readonly order: number;
  readonly callback: () => void;
}

export class TestWorld implements Environment {
  #time: number;
  #alarms: Alarm[] = [];
  readonly #chores = new Set<() => void>();
  readonly #alive = new Set<Timer>();
  #order = 0;
  #soon = 0;

  constructor(startTime: number) {
    this.#time = startTime;
  }
  now(): number {
    return this.#time;
  }
  steady(): number {
    return this.#time;
  }
  elapsed(): number {
    return realEnvironment.elapsed();
  }
  readonly worked = realEnvironment.worked;
  after(ms: number, callback: () => void): Timer {
    const alarm = { at: this.#time + Math.max(0, ms), order: this.#order++, callback };
    this.#alarms.push(alarm);
    return {
      cancel: () => {
        this.#alarms = this.#alarms.filter((one) => one !== alarm);
      },
    };
  }
  patience(ms: number, callback: () => void): Timer {
    return realEnvironment.patience(ms, callback);
  }
  /** Called whenever the clock has advanced: the callbacks look for work that became due. */
  every(_ms: number, callback: () => void): Timer {
    this.#chores.add(callback);
    return { cancel: () => this.#chores.delete(callback) };
  }
  stayAlive(): Timer {
    const timer = realEnvironment.stayAlive();
    this.#alive.add(timer);
    return {
      cancel: () => {
        this.#alive.delete(timer);
        timer.cancel();
      },
    };
  }
  /** Number of timers that only keep the process alive. */
  get alive(): number {
    return this.#alive.size;
  }
  soon(callback: () => void): void {
    this.#soon++;
    realEnvironment.soon(() => {
      this.#soon--;
      callback();
    });
  }
  random(): number {
    return realEnvironment.random();
  }
  uuid(): string {
    return realEnvironment.uuid();
  }

  /** True if no callback waits for its macrotask. */
  get idle(): boolean {
    return this.#soon === 0;
  }
  /** When the next timer is due. */
  get nextAlarm(): number | undefined {
    return this.#alarms.length === 0 ? undefined : Math.min(...this.#alarms.map(({ at }) => at));
  }
  /** Advances the clock and calls back what is due, in order. */
  moveTo(time: number): void {
    this.#time = Math.max(this.#time, time);
    const due = this.#alarms.filter(({ at }) => at <= this.#time).sort((a, b) => a.at - b.at || a.order - b.order);
    this.#alarms = this.#alarms.filter(({ at }) => at > this.#time);
    for (const { callback } of due) callback();
    for (const chore of this.#chores) chore();
  }
}
