// Everything a host takes from the world besides its storage.
// Owns: nothing; one object of functions, so that a simulation can own time, timers, order and randomness.
// Invariants: X8 (activations begin in a fresh macrotask), P7 (randomness of a run comes from its seed, which comes from here); it works in
// any JavaScript runtime, with what that runtime has.

import { createTurnClock } from "@holdfast/core";

export interface Timer {
  cancel(): void;
}

export interface Environment {
  /** Wall time in milliseconds since 1970. It may be set while the process runs. */
  now(): number;
  /** Whole milliseconds from an arbitrary start, never set: for estimating the store's time from one answer to the next. */
  steady(): number;
  /** Monotonic milliseconds, for the length of attempts and calls. */
  elapsed(): number;
  /** The same, but standing still while the process does, where the runtime can tell: for the length of turns (X9). */
  worked(): number;
  /** Calls back once, not before `ms` have passed. */
  after(ms: number, callback: () => void): Timer;
  /** As `after`, for callers that don't want to wait longer: where time is skipped in tests, theirs is not. */
  patience(ms: number, callback: () => void): Timer;
  /** Calls back again and again, about this often: for finding what hints may have missed (D9). */
  every(ms: number, callback: () => void): Timer;
  /** Keeps the process alive until it is cancelled: a worker that waits for work, a client that waits for a result. */
  stayAlive(): Timer;
  /** Calls back in a separate macrotask. */
  soon(callback: () => void): void;
  random(): number;
  uuid(): string;
}

/** Of setTimeout and setInterval: a longer one fires at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

type CpuUsage = () => { readonly user: number; readonly system: number };
/** What runtimes have, each not all of it. */
interface Runtime {
  readonly setImmediate?: (callback: () => void) => unknown;
  readonly MessageChannel?: new () => unknown;
  readonly process?: { readonly threadCpuUsage?: CpuUsage; readonly cpuUsage?: CpuUsage };
}
type RuntimeTimer = { unref?: () => void } | number;

// As they are when this module is loaded: neither the determinism guard nor fake timers get between the host and the world.
const now = Date.now;
const random = Math.random;
const { performance } = globalThis;
const elapsed: () => number = performance.now.bind(performance);
const uuid: () => string = globalThis.crypto.randomUUID.bind(globalThis.crypto);
const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis as unknown as {
  setTimeout: (callback: () => void, ms: number) => RuntimeTimer;
  clearTimeout: (timer: RuntimeTimer) => void;
  setInterval: (callback: () => void, ms: number) => RuntimeTimer;
  clearInterval: (timer: RuntimeTimer) => void;
};

/** Where there is no setImmediate, a message to oneself is the macrotask that comes soonest. */
function macrotasks({ setImmediate, MessageChannel }: Runtime): (callback: () => void) => void {
  if (setImmediate !== undefined) return (callback) => void setImmediate(callback);
  if (MessageChannel === undefined) return (callback) => void setTimeout(callback, 0);
  const { port1, port2 } = new MessageChannel() as { port1: { onmessage: () => void }; port2: { postMessage(message: unknown): void } };
  const waiting: (() => void)[] = [];
  port1.onmessage = () => waiting.shift()?.();
  return (callback) => {
    waiting.push(callback);
    port2.postMessage(0);
  };
}

/** A clock for turns, by what this thread has worked, or where the runtime can't say, this process. Else by the monotonic clock. */
function turnClock({ process }: Runtime): () => number {
  const usage = process?.threadCpuUsage ?? process?.cpuUsage;
  if (usage === undefined) return () => elapsed();
  return createTurnClock(
    () => elapsed(),
    () => {
      const { user, system } = usage.call(process);
      return (user + system) / 1_000;
    },
  );
}

function unref(timer: RuntimeTimer): void {
  if (typeof timer === "object") timer.unref?.();
}
function timers(keepsAlive: boolean): Environment["after"] {
  return (ms, callback) => {
    let timer: RuntimeTimer;
    const arm = (left: number): void => {
      timer = left > LONGEST_TIMER ? setTimeout(() => arm(left - LONGEST_TIMER), LONGEST_TIMER) : setTimeout(callback, left);
      if (!keepsAlive) unref(timer);
    };
    arm(Math.max(0, Math.ceil(ms)));
    return { cancel: () => clearTimeout(timer) };
  };
}

const after = timers(false);
/** Its timers don't keep the process alive. */
export const realEnvironment: Environment = {
  now: () => now(),
  steady: () => Math.floor(elapsed()),
  elapsed: () => elapsed(),
  worked: turnClock(globalThis as Runtime),
  after,
  patience: after,
  every(ms, callback) {
    const timer = setInterval(callback, Math.min(ms, LONGEST_TIMER));
    unref(timer);
    return { cancel: () => clearInterval(timer) };
  },
  stayAlive() {
    const timer = setInterval(() => {}, LONGEST_TIMER);
    return { cancel: () => clearInterval(timer) };
  },
  soon: macrotasks(globalThis as Runtime),
  random: () => random(),
  uuid: () => uuid(),
};

const lastingAfter = timers(true);
/** The same, but a timer of `after` and `patience` keeps the process alive until it has fired or was cancelled. */
export const keepAliveEnvironment: Environment = { ...realEnvironment, after: lastingAfter, patience: lastingAfter };

/** Run ids sort by time of creation: 48 bits of milliseconds, then randomness (UUID version 7). */
export function timeOrderedId(environment: Pick<Environment, "now" | "uuid">): string {
  const time = Math.floor(environment.now()).toString(16).padStart(12, "0");
  const rest = environment.uuid();
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-7${rest.slice(15)}`;
}
