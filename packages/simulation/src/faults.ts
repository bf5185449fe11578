// What goes wrong in a simulated world, and how often.
// Owns: the rates, the draws of each kind, and how often each has struck.
// Invariants: each kind draws from a stream of its own; once the faults are over, none is drawn any more.

import type { Random } from "./random.ts";
import type { World } from "./world.ts";

/** Each is a probability: per event of a worker, per call of the store, per hint, per attempt, or per simulation. */
export interface Faults {
  /** A worker dies, after any event of its own: between any two awaits. */
  readonly crash: number;
  /** A worker stands still, and comes back, mostly after its leases have run out. */
  readonly freeze: number;
  /** A worker is stopped gracefully (W4). */
  readonly stop: number;
  /** A call of the store fails, and nothing was done. */
  readonly refuse: number;
  /** A call is carried out, and its answer is lost: the caller sees an error. */
  readonly loseAnswer: number;
  /** A caller gives up on a call, which is carried out before that or after. */
  readonly timeOut: number;
  /** A call or its answer takes as long as a lease. */
  readonly slow: number;
  /** A call is answered twice. */
  readonly answerTwice: number;
  readonly loseHint: number;
  readonly doubleHint: number;
  readonly lateHint: number;
  /** The clock of a process is off by up to a minute and drifts. */
  readonly clock: number;
  readonly stepThrows: number;
  readonly stepHangs: number;
  /** A step goes on after its signal was aborted. */
  readonly stepIgnoresAbort: number;
  /** A client sends the same thing twice, under one key, also from another process. */
  readonly sendTwice: number;
  /** A client dies; another goes on with what it had begun. */
  readonly clientCrash: number;
  /** Workers get other code, some of it diverging. */
  readonly deploy: number;
  /** A worker has no room for parked runs in memory. */
  readonly evict: number;
  /** The clock of a worker's process is set back, or forward, by up to five seconds. */
  readonly clockSet: number;
  /** Another transaction holds a lock: items of a call are answered "busy", or the call is rejected as busy, with nothing written. */
  readonly locked: number;
}
export type FaultKind = keyof Faults;

/** The rates when all of them are on. */
export const FAULTS: Faults = {
  crash: 0.004,
  freeze: 0.003,
  stop: 0.002,
  refuse: 0.02,
  loseAnswer: 0.02,
  timeOut: 0.015,
  slow: 0.015,
  answerTwice: 0.05,
  loseHint: 0.3,
  doubleHint: 0.2,
  lateHint: 0.2,
  clock: 0.7,
  stepThrows: 0.2,
  stepHangs: 0.05,
  stepIgnoresAbort: 0.3,
  sendTwice: 0.3,
  clientCrash: 0.01,
  deploy: 0.003,
  evict: 0.5,
  clockSet: 0.002,
  locked: 0.03,
};
export const FAULT_KINDS = Object.keys(FAULTS) as readonly FaultKind[];

export class FaultDraws {
  readonly #world: World;
  readonly #rates: Faults;
  readonly #streams = new Map<FaultKind, Random>();
  /** How often each kind has happened. */
  readonly struck: Record<FaultKind, number> = noStrikes();
  /** From then on nothing goes wrong any more. */
  isOver = false;

  constructor(world: World, rates: Faults) {
    this.#world = world;
    this.#rates = rates;
  }
  /** All rates are zero. */
  get isCalm(): boolean {
    return FAULT_KINDS.every((kind) => this.#rates[kind] === 0);
  }
  rate(kind: FaultKind): number {
    return this.isOver ? 0 : this.#rates[kind];
  }
  /** Does it happen now? */
  draw(kind: FaultKind): boolean {
    const happens = this.wants(kind);
    if (happens) this.struck[kind]++;
    return happens;
  }
  /** The same for what may yet turn out not to be possible: whoever asks counts it in `struck`. */
  wants(kind: FaultKind): boolean {
    const rate = this.rate(kind);
    return rate > 0 && this.stream(kind).chance(rate);
  }
  stream(kind: FaultKind): Random {
    let stream = this.#streams.get(kind);
    if (stream === undefined) {
      stream = this.#world.random(`fault ${kind}`);
      this.#streams.set(kind, stream);
    }
    return stream;
  }
}

export function noStrikes(): Record<FaultKind, number> {
  return Object.fromEntries(FAULT_KINDS.map((kind) => [kind, 0])) as Record<FaultKind, number>;
}

/** Kinds that seeds did not have at first: they draw from another stream, so that a seed stays what it was without them. */
const LATER: ReadonlySet<FaultKind> = new Set(["clockSet", "locked"]);

/** The rates of one seed: some kinds are off, the others are anything up to three times as often as usual. */
export function drawnFaults(random: Random, later: Random, without: readonly FaultKind[]): Faults {
  const calm = random.chance(0.08);
  const rates = Object.fromEntries(
    FAULT_KINDS.map((kind) => {
      const stream = LATER.has(kind) ? later : random;
      const isOn = stream.chance(0.55);
      const rate = FAULTS[kind] * (0.3 + 2.7 * stream.next());
      return [kind, isOn && !calm && !without.includes(kind) ? Math.min(rate, 1) : 0];
    }),
  );
  return rates as unknown as Faults;
}
