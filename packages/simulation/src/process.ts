// A process of the simulated world: a clock that may be wrong, timers, an event loop, and an end that may come at any time.
// Owns: whether it lives, and the environment that its engine is given.
// Invariants: nothing happens in a dead process; callbacks of `soon` come in order, as in Node; a timer is never early by its own clock.

import type { Environment, Timer } from "@holdfast/host";
import { KnownClaims } from "./knownClaims.ts";
import type { Random } from "./random.ts";
import type { Owner, World } from "./world.ts";

export interface Clock {
  /** Milliseconds that it is ahead. */
  readonly offset: number;
  /** What it gains, as a share: 0.001 is a millisecond a second. */
  readonly drift: number;
}
export const TRUE_CLOCK: Clock = { offset: 0, drift: 0 };

export class SimProcess implements Owner {
  readonly name: string;
  readonly world: World;
  readonly random: Random;
  readonly #clock: Clock;
  readonly #born: number;
  /** Milliseconds that its clock was set back by. */
  #ahead = 0;
  #lastSoon = 0;
  /** What the worker in it knows of its claims. */
  readonly told = new KnownClaims();
  /** Of the worker in it, if there is one. */
  workerId: string | undefined;
  /** That worker has started. */
  isReady = false;
  isDead = false;
  frozenUntil = 0;
  /** What it has sent and is lost if it dies, but on its way while it stands still. */
  readonly wire: Owner;
  /** KnownClaims when it dies. */
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
    this.world.note(this.name, `stands still for ${ms.toFixed(0)} ms`);
  }
  /** Its wall clock. What has elapsed goes on as before, and so do its timers. */
  setClock(ms: number): void {
    this.#ahead += ms;
    this.world.note(this.name, `has its clock set ${ms < 0 ? "back" : "forward"} by ${Math.abs(ms).toFixed(0)} ms`);
  }
  get isFrozen(): boolean {
    return this.frozenUntil > this.world.now;
  }
  /** Resolves when it dies. */
  get death(): Promise<"dead"> {
    return new Promise((resolve) => {
      if (this.isDead) resolve("dead");
      else this.#mourners.add(() => resolve("dead"));
    });
  }
  note(what: string): void {
    this.world.note(this.name, what);
  }

  // ── its time ──

  /** A pause in true time. Never over for the dead. */
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
