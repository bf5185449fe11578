// Unhandled rejections of workflow code: the workflow's affair, not the process's.
// Owns: one listener on the process while runs are live in it; nothing where there is no such process.
// Invariants: X11 (an operation that fails while nobody awaits it yet ends nothing; everything else ends what it always has).

import { isDeliveredError } from "@holdfast/core";

interface NodeProcess {
  on(event: "unhandledRejection", listener: (reason: unknown) => void): void;
  off(event: "unhandledRejection", listener: (reason: unknown) => void): void;
  listenerCount(event: "unhandledRejection"): number;
}

const node = (globalThis as { process?: Partial<NodeProcess> }).process;
let users = 0;

function onUnhandledRejection(reason: unknown): void {
  if (isDeliveredError(reason)) return;
  if ((node?.listenerCount?.("unhandledRejection") ?? 0) > 1) return; // somebody else's listener decides
  // What Node does when nobody listens.
  throw reason instanceof Error ? reason : new Error(`Unhandled rejection: ${String(reason)}`, { cause: reason });
}

export function tolerateRejections(): () => void {
  if (users++ === 0) node?.on?.("unhandledRejection", onUnhandledRejection);
  let done = false;
  return () => {
    if (done) return;
    done = true;
    if (--users === 0) node?.off?.("unhandledRejection", onUnhandledRejection);
  };
}
