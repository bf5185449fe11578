// Unhandled rejections of workflow code: the workflow's affair, not the process's.
// Owns: one listener on the process while workers run in it.
// Invariants: X11 (an operation that fails while nobody awaits it yet ends nothing; everything else ends what it always has).

import { isDeliveredError } from "@holdfast/core";

let users = 0;

function onUnhandledRejection(reason: unknown): void {
  if (isDeliveredError(reason)) return;
  if (process.listenerCount("unhandledRejection") > 1) return; // somebody else's listener decides
  // What Node does when nobody listens.
  throw reason instanceof Error ? reason : new Error(`Unhandled rejection: ${String(reason)}`, { cause: reason });
}

export function tolerateRejections(): () => void {
  if (users++ === 0) process.on("unhandledRejection", onUnhandledRejection);
  let done = false;
  return () => {
    if (done) return;
    done = true;
    if (--users === 0) process.off("unhandledRejection", onUnhandledRejection);
  };
}
