// A process of the simulated world: it has a clock that may be wrong, timers and an event loop, and may die at any time.
// Owns: whether the process is alive, and the environment of its engine.
// Invariants: nothing happens in a dead process; callbacks of `soon` run in order, as in Node; a timer is never early by the process's clock.

import type { Environment, Timer } from "@holdfast/host";
import { KnownClaims } from "./knownClaims.ts";
import type { Random } from "./random.ts";
import type { Owner, World } from "./world.ts";

export interface Clock {
  /** Milliseconds that the clock is ahead. */
  readonly offset: number;
  /** How fast the clock gains: 0.001 is one millisecond per second. */
  readonly drift: number;
}
export const TRUE_CLOCK: Clock = { offset: 0, drift: 0 };

export class SimProcess implements Owner {
  readonly name: string;
  readonly world: World;
  readonly random: Random;
  readonly #clock: Clock;
  readonly #born: number;
  /** Milliseconds that the wall clock was set forward by in all; negative if it was set back. */
  #ahead = 0;
  #lastSoon = 0;
  /** What its worker knows about its claims. */
  readonly told = new KnownClaims();
  /** The id of its worker, if it has one. */
  workerId: string | undefined;
  /** Whether its worker has started. */
  isReady = false;
  isDead = false;
  frozenUntil = 0;
  /** The owner of calls in transit: they are lost if the process dies, but still arrive while it is frozen. */
  readonly wire: Owner;
  /** Called when the process dies. */
  readonly #mourners = new Set<() => void>();

  constructor(world: World, name: string, clock: Clock) {
    this.world = world;
    this.name = name;
    this.random = world.random(`process ${name}`);
    this.#clock = clock;
    this.#born = world.age;
    const isDead = (): boolean => this.isDead;
    this.wire = {
      get isDead() {
        return isDead();
      },
      frozenUntil: 0,
    };
  }

  // ── life and death ──

  kill(why: string): void {
    if (this.isDead) return;
    this.isDead = true;
    this.world.note(this.name, `dies: ${why}`);
    for (const mourner of this.#mourners) mourner();
  }
  freeze(ms: number): void {
    this.frozenUntil = this.world.now + ms;
    this.world.note(this.name, `freezes for ${ms.toFixed(0)} ms`);
  }
  /** Sets the wall clock. Elapsed time and timers are not affected. */
  setClock(ms: number): void {
    this.#ahead += ms;
    this.world.note(this.name, `its clock is set ${ms < 0 ? "back" : "forward"} by ${Math.abs(ms).toFixed(0)} ms`);
  }
  get isFrozen(): boolean {
    return this.frozenUntil > this.world.now;
  }
  /** Resolves when the process dies. */
  get death(): Promise<"dead"> {
    return new Promise((resolve) => {
      if (this.isDead) resolve("dead");
      else this.#mourners.add(() => resolve("dead"));
    });
  }
  note(what: string): void {
    this.world.note(this.name, what);
  }

  // ── time ──

  /** Waits in true time. Never resolves once the process is dead. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.world.after(ms, this, resolve));
  }
  readonly environment: Environment = {
    now: () => Math.floor(this.world.now + this.#clock.offset + this.#elapsed * this.#clock.drift + this.#ahead),
    steady: () => Math.floor(this.#elapsed * (1 + this.#clock.drift)),
    elapsed: () => this.#elapsed * (1 + this.#clock.drift),
    worked: () => this.#elapsed * (1 + this.#clock.drift),
    after: (ms, callback) => this.world.after(Math.max(0, ms) / (1 + this.#clock.drift), this, callback),
    patience: (ms, callback) => this.world.after(Math.max(0, ms) / (1 + this.#clock.drift), this, callback),
    every: (ms, callback) => this.#every(ms / (1 + this.#clock.drift), callback),
    stayAlive: () => ({ cancel: () => {} }),
    soon: (callback) => this.#soon(callback),
    random: () => this.random.next(),
    uuid: () => this.random.uuid(),
  };
  get #elapsed(): number {
    return this.world.age - this.#born;
  }
  #every(ms: number, callback: () => void): Timer {
    let timer: Timer;
    const again = (): void => {
      timer = this.world.after(ms, this, () => {
        again();
        callback();
      });
    };
    again();
    return { cancel: () => timer.cancel() };
  }
  #soon(callback: () => void): void {
    const at = Math.max(this.#lastSoon, this.world.age + this.random.next() * 0.2);
    this.#lastSoon = at;
    this.world.after(at - this.world.age, this, callback);
  }
}
