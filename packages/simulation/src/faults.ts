// The faults of a simulated world, and their rates.
// Owns: the rates, the draws of each kind, and how often each kind has occurred.
// Invariants: each kind draws from a separate stream; once the faults are over, none is drawn.

import type { Random } from "./random.ts";
import type { World } from "./world.ts";

/** Each rate is a probability: per event of a worker, per store call, per hint, per attempt, or per simulation. */
export interface Faults {
  /** A worker dies after one of its events, that is, between any two awaits. */
  readonly crash: number;
  /** A worker freezes and continues later, mostly after its leases have expired. */
  readonly freeze: number;
  /** A worker is stopped gracefully. */
  readonly stop: number;
  /** A store call fails without being carried out. */
  readonly refuse: number;
  /** A store call is carried out, but its answer is lost: the caller gets an error. */
  readonly loseAnswer: number;
  /** A store call times out; it is carried out before that or after. */
  readonly timeOut: number;
  /** A store call or its answer takes about as long as a lease. */
  readonly slow: number;
  /** A store call is answered twice. */
  readonly answerTwice: number;
  /** The chance that a wake-up is lost. */
  readonly loseHint: number;
  /** The chance that a wake-up comes twice. */
  readonly doubleHint: number;
  /** The chance that a wake-up is late. */
  readonly lateHint: number;
  /** The clock of a process is off by up to a minute and drifts. */
  readonly clock: number;
  /** The chance that a step throws. */
  readonly stepThrows: number;
  /** The chance that a step hangs. */
  readonly stepHangs: number;
  /** A step continues after its signal was aborted. */
  readonly stepIgnoresAbort: number;
  /** A client sends the same message twice under one key, possibly from another process. */
  readonly sendTwice: number;
  /** A client dies; another one repeats the call. */
  readonly clientCrash: number;
  /** A new build is deployed to workers; some builds diverge from existing histories. */
  readonly deploy: number;
  /** A worker can keep at most two parked runs in memory. */
  readonly evict: number;
  /** The clock of a worker's process is set back or forward by up to five seconds. */
  readonly clockSet: number;
  /** Another transaction holds a lock: some items of a store call are answered "busy", or the whole call fails as busy and writes nothing. */
  readonly locked: number;
}
/** The name of a fault. */
export type FaultKind = keyof Faults;

/** The usual rates. */
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
/** The names of all faults. */
export const FAULT_KINDS = Object.keys(FAULTS) as readonly FaultKind[];

export class FaultDraws {
  readonly #world: World;
  readonly #rates: Faults;
  readonly #streams = new Map<FaultKind, Random>();
  /** How often each kind has occurred. */
  readonly struck: Record<FaultKind, number> = noStrikes();
  /** Once true, no more faults are drawn. */
  isOver = false;

  constructor(world: World, rates: Faults) {
    this.#world = world;
    this.#rates = rates;
  }
  /** Whether all rates are zero. */
  get isCalm(): boolean {
    return FAULT_KINDS.every((kind) => this.#rates[kind] === 0);
  }
  rate(kind: FaultKind): number {
    return this.isOver ? 0 : this.#rates[kind];
  }
  /** Draws whether a fault occurs now, and counts it. */
  draw(kind: FaultKind): boolean {
    const happens = this.wants(kind);
    if (happens) this.struck[kind]++;
    return happens;
  }
  /** Draws without counting, for a fault that may turn out to be impossible: the caller counts it in `struck`. */
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

/** Kinds that were added later. They draw from another stream, so that existing seeds keep their worlds. */
const LATER: ReadonlySet<FaultKind> = new Set(["clockSet", "locked"]);

/** The rates of one seed: some kinds are off, the others have up to three times their usual rate. */
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
