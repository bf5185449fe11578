// Unhandled rejections of workflow code: the workflow's affair, not the process's.
// Owns: a filter on what the process emits while workers run in it, and the errors of workflow code that are not awaited yet.
// Invariants: X11 (a promise of workflow code that rejects before it is awaited ends nothing and reaches no listener; one that an
// operation has failed is in the log if no code awaits it, one that fails by itself is spoken of, if it is not awaited for a while; everything else does what it
// always has).

import { isDeliveredError, noteHandled, noteUnhandled, withholdRejections } from "@holdfast/core";

/** Milliseconds: code that wants to await a promise of its own has done so by then, or waits for something that takes long. */
const A_WHILE = 1_000;
/** Of so many different errors a process is told. */
const MOST = 100;

let users = 0;
let isTurn = false;
let restore: () => void = () => {};
/** Rejected by workflow code itself, and not awaited so far. */
const floating = new Map<Promise<unknown>, { readonly reason: unknown; readonly timer: NodeJS.Timeout }>();
const told = new Set<string>();
const { setTimeout, clearTimeout } = globalThis; // neither fake timers nor the determinism guard are for these

/** Until `leaveTurns`, in a macrotask that is theirs, workflow code runs. */
export function enterTurns(): void {
  isTurn = true;
}
export function leaveTurns(): void {
  isTurn = false;
}

function isOurs(reason: unknown, promise: Promise<unknown> | undefined): boolean {
  if (isDeliveredError(reason)) {
    if (promise !== undefined) noteUnhandled(promise);
    return true;
  }
  if (isTurn && promise !== undefined) floating.set(promise, { reason, timer: setTimeout(warn, A_WHILE, promise).unref() });
  return isTurn;
}

/** The error may never be seen otherwise than in the process's output. A replay does not say it again. */
function warn(promise: Promise<unknown>): void {
  const text = textOf(forgetFloating(promise)?.reason);
  if (told.size >= MOST || told.has(text)) return;
  told.add(text);
  process.emitWarning("A promise of workflow code was rejected and not awaited. Await it, or its error is lost.", {
    type: "FloatingPromiseWarning",
    code: "HF_FLOATING_PROMISE",
    detail: text,
  });
}
/** Code rejects with what it likes, and not all of that can be read. */
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
  clearTimeout(found?.timer);
  floating.delete(promise);
  return found;
}

function forget(): void {
  if (--users > 0) return;
  restore();
  for (const promise of [...floating.keys()]) warn(promise);
}

export function tolerateRejections(): () => void {
  // Each time: other code may have put back the `process.emit` that it knew.
  const replaced = restore;
  restore = withholdRejections(process, { isOurs, onHandled });
  replaced();
  users++;
  let done = false;
  return () => {
    if (done) return;
    done = true;
    // Not at once: Node tells of rejections that were handled in the last turns only when it has come to rest.
    const timer = setTimeout(forget, 10);
    if (floating.size === 0) timer.unref();
  };
}
