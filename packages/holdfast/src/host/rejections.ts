// Unhandled rejections of workflow code: the workflow's affair, not the process's.
// Owns: two listeners on the process while workers run in it, and the errors that nobody has awaited yet.
// Invariants: X11 (a promise of workflow code that rejects while nobody awaits it ends nothing; one that an operation has failed is not
// spoken of, one that fails by itself is, if nobody awaits it for a while; everything else does what it always has).

import { isDeliveredError } from "@holdfast/core";

/** Milliseconds: who wants to await a promise of its own has done so by then, or waits for something that takes long. */
const A_WHILE = 1_000;
/** Of so many different errors a process is told. */
const MOST = 100;

let users = 0;
let isTurn = false;
const tolerated = new WeakSet<Promise<unknown>>();
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

function onUnhandledRejection(reason: unknown, promise: Promise<unknown>): void {
  if (isDeliveredError(reason)) {
    tolerated.add(promise);
    return;
  }
  if (isTurn) {
    tolerated.add(promise);
    floating.set(promise, { reason, timer: setTimeout(warn, A_WHILE, promise).unref() });
    return;
  }
  if (process.listenerCount("unhandledRejection") > 1) return; // somebody else's listener decides
  // What Node does when nobody listens.
  throw reason instanceof Error ? reason : new Error(`Unhandled rejection: ${String(reason)}`, { cause: reason });
}

/** Nobody may ever hear of the error: who reads the process's output does. A replay does not say it again. */
function warn(promise: Promise<unknown>): void {
  const reason = forgetFloating(promise)?.reason;
  const text = reason instanceof Error ? (reason.stack ?? String(reason)) : String(reason);
  if (told.size >= MOST || told.has(text)) return;
  told.add(text);
  process.emitWarning("A promise of workflow code was rejected, and nobody awaits it. Await it, or its error is lost.", {
    type: "FloatingPromiseWarning",
    code: "HF_FLOATING_PROMISE",
    detail: text,
  });
}
function forgetFloating(promise: Promise<unknown>): { readonly reason: unknown } | undefined {
  const found = floating.get(promise);
  clearTimeout(found?.timer);
  floating.delete(promise);
  return found;
}

/** Somebody awaits it after all. Node warns of that where nobody listens. */
function onRejectionHandled(promise: Promise<unknown>): void {
  forgetFloating(promise);
  if (tolerated.has(promise) || process.listenerCount("rejectionHandled") > 1) return;
  process.emitWarning("A promise rejection was handled asynchronously.", "PromiseRejectionHandledWarning");
}

function forget(): void {
  if (--users > 0) return;
  process.off("unhandledRejection", onUnhandledRejection);
  process.off("rejectionHandled", onRejectionHandled);
  for (const promise of [...floating.keys()]) warn(promise);
}

export function tolerateRejections(): () => void {
  users++;
  // Looked up and not counted: somebody may have removed all listeners, as test runners do.
  if (!process.listeners("unhandledRejection").includes(onUnhandledRejection)) process.on("unhandledRejection", onUnhandledRejection);
  if (!process.listeners("rejectionHandled").includes(onRejectionHandled)) process.on("rejectionHandled", onRejectionHandled);
  let done = false;
  return () => {
    if (done) return;
    done = true;
    // Not at once: Node tells of rejections that were handled in the last turns only when it has come to rest.
    const timer = setTimeout(forget, 10);
    if (floating.size === 0) timer.unref();
  };
}
