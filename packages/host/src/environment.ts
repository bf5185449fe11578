// Everything a host needs from its surroundings besides storage: time, timers, macrotasks, randomness.
// Owns: nothing; it is one object of functions, so that a simulation can replace them.
// Invariants: X8 (activations begin in a fresh macrotask), P7 (a run's randomness comes from its seed, which is created here); it works in
// any JavaScript runtime, with the features that the runtime has.

import { createTurnClock } from "@holdfast/core";

/** A timer that was set. */
export interface Timer {
  /** Cancels it. No error if it has fired. */
  cancel(): void;
}

/** Time, timers and randomness of a host. Tests and simulations replace it. */
export interface Environment {
  /** Wall-clock time in milliseconds since 1970. It may be set while the process runs. */
  now(): number;
  /** Whole milliseconds from an arbitrary start, never set: to estimate the store's time between two answers. */
  steady(): number;
  /** Monotonic milliseconds, to measure attempts and calls. */
  elapsed(): number;
  /** The same, but it stands still while the process is suspended, if the runtime can tell: to measure turns (X9). */
  worked(): number;
  /** Calls back once, after at least `ms`. */
  after(ms: number, callback: () => void): Timer;
  /** Like `after`, for the timeouts of callers: they use real time even where a test skips time. */
  patience(ms: number, callback: () => void): Timer;
  /** Calls back repeatedly, about this often: to find work whose notification was lost (D9). */
  every(ms: number, callback: () => void): Timer;
  /** Keeps the process alive until cancelled: for a worker that waits for work, or a client that waits for a result. */
  stayAlive(): Timer;
  /** Calls back in a separate macrotask. */
  soon(callback: () => void): void;
  /** A random number from 0 up to 1. */
  random(): number;
  /** A new UUID. */
  uuid(): string;
}

/** The longest delay of setTimeout and setInterval: a longer one fires at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

type CpuUsage = () => { readonly user: number; readonly system: number };
/** Features that some runtimes lack. */
interface Runtime {
  readonly setImmediate?: (callback: () => void) => unknown;
  readonly MessageChannel?: new () => unknown;
  readonly process?: { readonly threadCpuUsage?: CpuUsage; readonly cpuUsage?: CpuUsage };
}
type RuntimeTimer = { unref?: () => void } | number;

// Captured when this module is loaded, so that neither the determinism guard nor fake timers affect the host.
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

/** Without setImmediate, a message to its own port is the fastest macrotask. */
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

/** A clock for turns, based on the CPU time of this thread, or of the process if the runtime can't tell; else the monotonic clock. */
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
/** The environment of a real process. Its timers don't keep the process alive. */
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
/** The same, but timers of `after` and `patience` keep the process alive until they fire or are cancelled. */
export const keepAliveEnvironment: Environment = { ...realEnvironment, after: lastingAfter, patience: lastingAfter };

/** A new run id. Such ids sort by time of creation: 48 bits of milliseconds, then randomness (UUID version 7). */
export function timeOrderedId(environment: Pick<Environment, "now" | "uuid">): string {
  const time = Math.floor(environment.now()).toString(16).padStart(12, "0");
  const rest = environment.uuid();
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-7${rest.slice(15)}`;
}
