// Unhandled rejections of workflow code: the workflow's affair, not the process's.
// Owns: two listeners on the process while runs are live in it; nothing where there is no such process.
// Invariants: X11 (an operation that fails while nobody awaits it yet ends nothing and warns of nothing; everything else does what it
// always has).

import { isDeliveredError } from "@holdfast/core";

type OnRejection = (reason: unknown, promise: Promise<unknown>) => void;
type OnHandled = (promise: Promise<unknown>) => void;
interface NodeProcess {
  on(event: "unhandledRejection", listener: OnRejection): void;
  on(event: "rejectionHandled", listener: OnHandled): void;
  off(event: "unhandledRejection", listener: OnRejection): void;
  off(event: "rejectionHandled", listener: OnHandled): void;
  listeners(event: "unhandledRejection" | "rejectionHandled"): readonly unknown[];
  emitWarning(message: string, name: string): void;
}

/** Undefined in browsers, isolates and the like, where some have a `process` that can do less. */
const node = nodeProcess((globalThis as { process?: Partial<NodeProcess> }).process);
function nodeProcess(found: Partial<NodeProcess> | undefined): NodeProcess | undefined {
  const needed = [found?.on, found?.off, found?.listeners, found?.emitWarning];
  return needed.every((method) => typeof method === "function") ? (found as NodeProcess) : undefined;
}

const { setTimeout } = globalThis; // as it is when this module is loaded: fake timers don't get between
let users = 0;
const tolerated = new WeakSet<Promise<unknown>>();

function onUnhandledRejection(reason: unknown, promise: Promise<unknown>): void {
  if (isDeliveredError(reason)) {
    tolerated.add(promise);
    return;
  }
  if ((node?.listeners("unhandledRejection").length ?? 0) > 1) return; // somebody else's listener decides
  // What Node does when nobody listens.
  throw reason instanceof Error ? reason : new Error(`Unhandled rejection: ${String(reason)}`, { cause: reason });
}

/** Somebody awaits it after all. Node warns of that where nobody listens. */
function onRejectionHandled(promise: Promise<unknown>): void {
  if (tolerated.has(promise) || (node?.listeners("rejectionHandled").length ?? 0) > 1) return;
  node?.emitWarning("A promise rejection was handled asynchronously.", "PromiseRejectionHandledWarning");
}

function forget(): void {
  if (--users > 0) return;
  node?.off("unhandledRejection", onUnhandledRejection);
  node?.off("rejectionHandled", onRejectionHandled);
}

export function tolerateRejections(): () => void {
  if (node === undefined) return () => {};
  users++;
  // Looked up and not counted: somebody may have removed all listeners, as test runners do.
  if (!node.listeners("unhandledRejection").includes(onUnhandledRejection)) node.on("unhandledRejection", onUnhandledRejection);
  if (!node.listeners("rejectionHandled").includes(onRejectionHandled)) node.on("rejectionHandled", onRejectionHandled);
  let done = false;
  return () => {
    if (done) return;
    done = true;
    // Not at once: Node tells of rejections that were handled in the last turns only when it has come to rest.
    const timer = setTimeout(forget, 10) as { unref?: () => void } | number;
    if (typeof timer === "object") timer.unref?.();
  };
}
