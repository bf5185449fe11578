// Unhandled rejections of workflow code: the workflow's affair, not the process's.
// Owns: two listeners on the process while workers run in it.
// Invariants: X11 (an operation that fails while nobody awaits it yet ends nothing and warns of nothing; everything else does what it
// always has).

import { isDeliveredError } from "@holdfast/core";

let users = 0;
const tolerated = new WeakSet<Promise<unknown>>();

function onUnhandledRejection(reason: unknown, promise: Promise<unknown>): void {
  if (isDeliveredError(reason)) {
    tolerated.add(promise);
    return;
  }
  if (process.listenerCount("unhandledRejection") > 1) return; // somebody else's listener decides
  // What Node does when nobody listens.
  throw reason instanceof Error ? reason : new Error(`Unhandled rejection: ${String(reason)}`, { cause: reason });
}

/** Somebody awaits it after all. Node warns of that where nobody listens. */
function onRejectionHandled(promise: Promise<unknown>): void {
  if (tolerated.has(promise) || process.listenerCount("rejectionHandled") > 1) return;
  process.emitWarning("A promise rejection was handled asynchronously.", "PromiseRejectionHandledWarning");
}

function forget(): void {
  if (--users > 0) return;
  process.off("unhandledRejection", onUnhandledRejection);
  process.off("rejectionHandled", onRejectionHandled);
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
    setTimeout(forget, 10).unref();
  };
}
