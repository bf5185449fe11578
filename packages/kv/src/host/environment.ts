// Everything the host takes from the world besides its driver.
// Owns: nothing; one object of functions, so that tests own time, timers and randomness.
// Invariants: X8 (activations begin in a fresh macrotask), P7 (randomness of a run comes from its seed, which comes from here).

import { createTurnClock } from "@holdfast/core";

export interface Timer {
  cancel(): void;
}

export interface Environment {
  /** Milliseconds since 1970. */
  now(): number;
  /** Monotonic milliseconds, for the length of turns; where the runtime can tell, without time in which the process stood still (X9). */
  elapsed(): number;
  /** Calls back once, not before `ms` have passed. */
  after(ms: number, callback: () => void): Timer;
  /** Calls back in a macrotask of its own. */
  soon(callback: () => void): void;
  random(): number;
  uuid(): string;
}

/** Of setTimeout: what is longer fires at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

// As they are when this module is loaded: fake timers don't get between the host and the world.
const { now } = Date;
const { random } = Math;
const { setTimeout, clearTimeout, performance, crypto } = globalThis;

/** Where there is no setImmediate, a message to oneself is the macrotask that comes soonest. */
function macrotasks(): (callback: () => void) => void {
  const { setImmediate, MessageChannel } = globalThis as {
    setImmediate?: (callback: () => void) => unknown;
    MessageChannel?: new () => unknown;
  };
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

/** A clock for turns. Runtimes without processes can't tell what the processor has worked. */
function turnClock(): () => number {
  const elapsed = () => performance.now();
  const { process } = globalThis as { process?: { cpuUsage?: () => { user: number; system: number } } };
  if (process?.cpuUsage === undefined) return elapsed;
  const usage = process.cpuUsage.bind(process);
  return createTurnClock(elapsed, () => {
    const { user, system } = usage();
    return (user + system) / 1_000;
  });
}

export const realEnvironment: Environment = {
  now: () => now(),
  elapsed: turnClock(),
  after(ms, callback) {
    let timer: ReturnType<typeof setTimeout>;
    const arm = (left: number): void => {
      timer = left > LONGEST_TIMER ? setTimeout(() => arm(left - LONGEST_TIMER), LONGEST_TIMER) : setTimeout(callback, left);
    };
    arm(Math.max(0, Math.ceil(ms)));
    return { cancel: () => clearTimeout(timer) };
  },
  soon: macrotasks(),
  random: () => random(),
  uuid: () => crypto.randomUUID(),
};
