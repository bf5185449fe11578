// Everything the host takes from the world besides its store.
// Owns: nothing; one object of functions, so that a simulation can own time, timers, order and randomness.
// Invariants: X8 (activations begin in a fresh macrotask), P7 (randomness of a run comes from its seed, which comes from here).

import { randomUUID } from "node:crypto";
import { createTurnClock } from "@holdfast/core";

export interface Timer {
  cancel(): void;
}

export interface Environment {
  /** Wall time in milliseconds, for the ids of runs. Somebody may set it. */
  now(): number;
  /** Whole milliseconds since no matter when, that nobody sets: for estimating the store's time from one answer to the next. */
  steady(): number;
  /** Monotonic milliseconds, for the length of attempts and calls. */
  elapsed(): number;
  /** The same, but standing still while the process does: for the length of turns (X9). */
  worked(): number;
  /** Calls back once, not before `ms` have passed. Does not keep the process alive. */
  after(ms: number, callback: () => void): Timer;
  /** As `after`, for callers that don't want to wait longer: where time is skipped in tests, theirs is not. */
  patience(ms: number, callback: () => void): Timer;
  /** Calls back again and again, about this often: for looking after what hints may have missed (D9). */
  every(ms: number, callback: () => void): Timer;
  /** Keeps the process alive until it is cancelled: a worker that waits for work, a client that waits for a result. */
  stayAlive(): Timer;
  /** Calls back in a macrotask of its own. */
  soon(callback: () => void): void;
  random(): number;
  uuid(): string;
}

/** Node takes a longer one for one of a millisecond. */
const LONGEST_TIMER = 2 ** 31 - 1;

// As they are when this module is loaded: neither the determinism guard nor fake timers get between the host and the world.
const { now } = Date;
const elapsed = performance.now.bind(performance);
const { random } = Math;
const uuid = randomUUID;
const processor = processorTime();
const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate } = globalThis;

/** Milliseconds that this thread has worked, or where Node can't say, this process. */
function processorTime(): () => number {
  const { threadCpuUsage = process.cpuUsage } = process as { threadCpuUsage?: typeof process.cpuUsage };
  return () => {
    const { user, system } = threadCpuUsage.call(process);
    return (user + system) / 1_000;
  };
}

function after(ms: number, callback: () => void): Timer {
  let timer: NodeJS.Timeout;
  const arm = (left: number): void => {
    timer = left > LONGEST_TIMER ? setTimeout(() => arm(left - LONGEST_TIMER), LONGEST_TIMER) : setTimeout(callback, left);
    timer.unref();
  };
  arm(Math.max(0, Math.ceil(ms)));
  return { cancel: () => clearTimeout(timer) };
}

export const realEnvironment: Environment = {
  now: () => now(),
  steady: () => Math.floor(elapsed()),
  elapsed: () => elapsed(),
  worked: createTurnClock(() => elapsed(), processor),
  after,
  patience: after,
  every(ms, callback) {
    const timer = setInterval(callback, Math.min(ms, LONGEST_TIMER));
    timer.unref();
    return { cancel: () => clearInterval(timer) };
  },
  stayAlive() {
    const timer = setInterval(() => {}, LONGEST_TIMER);
    return { cancel: () => clearInterval(timer) };
  },
  soon: (callback) => void setImmediate(callback),
  random: () => random(),
  uuid: () => uuid(),
};

/** Run ids sort by time of creation: 48 bits of milliseconds, then randomness (UUID version 7). */
export function timeOrderedId(environment: Environment): string {
  const time = Math.floor(environment.now()).toString(16).padStart(12, "0");
  const rest = environment.uuid();
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-7${rest.slice(15)}`;
}
