// Hides unhandled rejections of workflow code from the process: they concern only their run.
// Owns: a filter on what the process emits while runs are live in it, and the errors of workflow code that are not awaited yet. Without a
// Node process it does nothing.
// Invariants: X11 (a promise of workflow code that rejects before it is awaited stops nothing and reaches no listener; if an operation has
// failed it, it is logged unless code awaits it; if it failed by itself, a warning is emitted unless it is awaited soon; every other
// rejection behaves as usual).

import { isDeliveredError, noteHandled, noteUnhandled, withholdRejections } from "@holdfast/core";
import { keepAliveEnvironment, realEnvironment, type Timer } from "./environment.ts";

interface NodeProcess {
  readonly emit: unknown;
  emitWarning(message: string, options: { readonly type: string; readonly code: string; readonly detail: string }): void;
}

/** Undefined in browsers, isolates and similar runtimes, some of which have a `process` with fewer functions. */
const node = nodeProcess((globalThis as { process?: Partial<NodeProcess> }).process);
function nodeProcess(found: Partial<NodeProcess> | undefined): NodeProcess | undefined {
  const needed = [found?.emit, found?.emitWarning];
  return needed.every((method) => typeof method === "function") ? (found as NodeProcess) : undefined;
}

/** Milliseconds. By then code that means to await its promise has done so, or waits for something slow. */
const A_WHILE = 1_000;
/** Node reports rejections that were handled in the last turns only once it is idle. */
const REST_MS = 10;
/** The process is warned of at most this many different errors. */
const MOST = 100;

let users = 0;
let isTurn = false;
let restore: () => void = () => {};
/** Promises that workflow code itself rejected, and that are not awaited so far. */
const floating = new Map<Promise<unknown>, { readonly reason: unknown; readonly timer: Timer }>();
const warned = new Set<string>();

/** From here to `leaveTurns`, in one macrotask, only workflow code runs. */
export function enterTurns(): void {
  isTurn = true;
}
export function leaveTurns(): void {
  isTurn = false;
}

function isOurs(reason: unknown, promise: Promise<unknown> | undefined): boolean {
  if (isDeliveredError(reason)) {
    if (promise !== undefined) noteUnhandled(promise, reason);
    return true;
  }
  if (isTurn && promise !== undefined) floating.set(promise, { reason, timer: realEnvironment.after(A_WHILE, () => warn(promise)) });
  return isTurn;
}

/** The process's output may be the only place where the error appears. A replay does not warn again. */
function warn(promise: Promise<unknown>): void {
  const text = textOf(forgetFloating(promise)?.reason);
  if (warned.size >= MOST || warned.has(text)) return;
  warned.add(text);
  node?.emitWarning("A promise of workflow code was rejected and not awaited. Await it, or its error is lost.", {
    type: "FloatingPromiseWarning",
    code: "HF_FLOATING_PROMISE",
    detail: text,
  });
}
/** Code can reject with any value, and some values can't be printed. */
function textOf(reason: unknown): string {
  try {
    return reason instanceof Error ? (reason.stack ?? String(reason)) : String(reason);
  } catch {
    return "(a value that can't be shown)";
  }
}
function onHandled(promise: Promise<unknown>): void {
  noteHandled(promise);
  forgetFloating(promise);
}
function forgetFloating(promise: Promise<unknown>): { readonly reason: unknown } | undefined {
  const found = floating.get(promise);
  found?.timer.cancel();
  floating.delete(promise);
  return found;
}

function forget(): void {
  if (--users > 0) return;
  restore();
  for (const promise of [...floating.keys()]) warn(promise);
}

/** Whether rejections are withheld while they are tolerated. For the executor's option of this name. */
export const withholdsRejections: boolean = node !== undefined;

/** Tolerates rejections while workflow code may run in this process. Returns a function that ends it. */
export function tolerateRejections(): () => void {
  if (node === undefined) return () => {};
  // Each time, because other code may have restored an earlier `process.emit`.
  const replaced = restore;
  restore = withholdRejections(node, { isOurs, onHandled });
  replaced();
  users++;
  let done = false;
  return () => {
    if (done) return;
    done = true;
    const { after } = floating.size === 0 ? realEnvironment : keepAliveEnvironment;
    after(REST_MS, forget);
  };
}
