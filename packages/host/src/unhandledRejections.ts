// Unhandled rejections of workflow code: the workflow's affair, not the process's.
// Owns: a filter on what the process emits while runs are live in it, and the errors of workflow code that are not awaited yet; nothing
// where the runtime has no such process.
// Invariants: X11 (a promise of workflow code that rejects before it is awaited ends nothing and reaches no listener; one that an operation
// has failed is logged if no code awaits it; one that fails by itself is warned of if it is not awaited for a while; every other rejection
// does what it always did).

import { isDeliveredError, noteHandled, noteUnhandled, withholdRejections } from "@holdfast/core";
import { keepAliveEnvironment, realEnvironment, type Timer } from "./environment.ts";

interface NodeProcess {
  readonly emit: unknown;
  emitWarning(message: string, options: { readonly type: string; readonly code: string; readonly detail: string }): void;
}

/** Undefined in browsers, isolates and the like, where some have a `process` that can do less. */
const node = nodeProcess((globalThis as { process?: Partial<NodeProcess> }).process);
function nodeProcess(found: Partial<NodeProcess> | undefined): NodeProcess | undefined {
  const needed = [found?.emit, found?.emitWarning];
  return needed.every((method) => typeof method === "function") ? (found as NodeProcess) : undefined;
}

/** Milliseconds: code that wants to await its promise has done so by then, or waits for something that takes long. */
const A_WHILE = 1_000;
/** Node reports rejections that were handled in the last turns only when it has come to rest. */
const REST_MS = 10;
/** A process is warned of so many different errors. */
const MOST = 100;

let users = 0;
let isTurn = false;
let restore: () => void = () => {};
/** Rejected by workflow code itself, and not awaited so far. */
const floating = new Map<Promise<unknown>, { readonly reason: unknown; readonly timer: Timer }>();
const warned = new Set<string>();

/** From here to `leaveTurns`, in one macrotask, workflow code runs and no other. */
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

/** The error may be seen nowhere but in the process's output. A replay does not warn again. */
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
/** Code rejects with any value, and not all values can be read. */
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

/** Are rejections withheld while they are tolerated? For the executor's option of this name. */
export const withholdsRejections: boolean = node !== undefined;

/** While workflow code may run in this process. Returns how to end it. */
export function tolerateRejections(): () => void {
  if (node === undefined) return () => {};
  // Each time: other code may have put back the `process.emit` that it knew.
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
