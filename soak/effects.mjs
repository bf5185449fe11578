// The log of effects: what step bodies really did, in one order for all processes.
// Owns: the file, and the two lines that each body writes: when it begins and when it ends.
// Invariants: lines are appended with O_APPEND, so their order is the order of events across all processes.

import { randomUUID } from "node:crypto";
import { openSync, readFileSync, writeSync } from "node:fs";

/**
 * @typedef {{ e: "begin", key: string, attempt: number, token: string, pid: number, worker: string | undefined, t: number }} Begin
 * @typedef {{ e: "end", key: string, attempt: number, token: string, pid: number, aborted: boolean, ok: boolean, t: number }} End
 * @typedef {{ e: "seen", keys: string[], t: number }} Seen steps that an observer found completed in history
 * @typedef {{ e: "fault", what: "kill" | "freeze" | "thaw" | "stop" | "spawn" | "down" | "up", pid: number, t: number }} Fault
 * @typedef {{ e: "log", level: string, message: string, pid: number, t: number }} Log
 * @typedef {Begin | End | Seen | Fault | Log} Effect
 */

/** @type {number | undefined} */
let file;
/** @type {string | undefined} */
let workerId;

/** @param {string} path */
export function openEffects(path) {
  file = openSync(path, "a");
}

/** @param {string} path @returns {Effect[]} */
export function readEffects(path) {
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

/** Sets the worker that runs the bodies of this process; undefined if it has several workers. @param {string | undefined} id */
export function workAs(id) {
  workerId = id;
}

/** Milliseconds on a clock that all processes of this machine share. */
export const clock = () => Math.round(Number(process.hrtime.bigint() / 1_000n)) / 1_000;

/** @param {{ e: Effect["e"], [field: string]: unknown }} effect */
export function note(effect) {
  if (file !== undefined) writeSync(file, `${JSON.stringify({ ...effect, t: clock() })}\n`);
}

/** @param {number} ms @param {AbortSignal} signal */
async function busy(ms, signal) {
  const until = performance.now() + ms;
  while (performance.now() < until && !signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, Math.min(20, Math.max(0, until - performance.now()))));
  }
  signal.throwIfAborted();
}

/**
 * A body that takes `ms` milliseconds, fails as often as `failures` says, and writes to the log of effects.
 * @template T
 * @param {T} value
 * @param {{ ms?: number, failures?: number, error?: () => Error }} [plan]
 */
export function work(value, { ms = 0, failures = 0, error } = {}) {
  return async (/** @type {{ attempt: number, idempotencyKey: string, signal: AbortSignal }} */ info) => {
    const token = begin(info);
    let ok = false;
    try {
      await busy(ms, info.signal);
      if (error !== undefined) throw error();
      if (info.attempt <= failures) throw new Error(`attempt ${info.attempt} fails as planned`);
      ok = true;
      return { value, token };
    } finally {
      end(info, token, ok);
    }
  };
}

/** @param {{ attempt: number, idempotencyKey: string }} info */
export function begin({ attempt, idempotencyKey }) {
  const token = randomUUID().slice(0, 8);
  note({ e: "begin", key: idempotencyKey, attempt, token, pid: process.pid, worker: workerId });
  return token;
}
/** @param {{ attempt: number, idempotencyKey: string, signal: AbortSignal }} info @param {string} token @param {boolean} ok */
export function end({ attempt, idempotencyKey, signal }, token, ok) {
  note({ e: "end", key: idempotencyKey, attempt, token, pid: process.pid, aborted: signal.aborted, ok });
}
