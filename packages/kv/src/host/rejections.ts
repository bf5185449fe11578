// Unhandled rejections of workflow code: the workflow's affair, not the process's.
// Owns: a filter on what the process emits while runs are live in it, the macrotask of a turn, and the errors of workflow code that are
// not awaited yet; nothing where there is no such process.
// Invariants: X8 (no foreign continuation runs in the microtasks of a turn), X11 (a promise of workflow code that rejects before it is
// awaited ends nothing and reaches no listener; one that an operation has failed is not spoken of, one that fails by itself is, if it is
// not awaited for a while; everything else does what it always has).

import { isDeliveredError, withholdRejections } from "@holdfast/core";
import type { Environment } from "./environment.ts";

interface NodeProcess {
  readonly emit: unknown;
  emitWarning(message: string, options: { readonly type: string; readonly code: string; readonly detail: string }): void;
}
type NodeTimer = { unref?: () => void } | number;

/** Undefined in browsers, isolates and the like, where some have a `process` that can do less. */
const node = nodeProcess((globalThis as { process?: Partial<NodeProcess> }).process);
function nodeProcess(found: Partial<NodeProcess> | undefined): NodeProcess | undefined {
  const needed = [found?.emit, found?.emitWarning];
  return needed.every((method) => typeof method === "function") ? (found as NodeProcess) : undefined;
}

/** Milliseconds: code that wants to await a promise of its own has done so by then, or waits for something that takes long. */
const A_WHILE = 1_000;
/** Of so many different errors a process is told. */
const MOST = 100;

// As they are when this module is loaded: fake timers don't get between.
const { setTimeout, clearTimeout } = globalThis as unknown as {
  setTimeout: (callback: () => void, ms: number) => NodeTimer;
  clearTimeout: (timer: NodeTimer | undefined) => void;
};

let users = 0;
let isTurn = false;
let restore: () => void = () => {};
/** Rejected by workflow code itself, and not awaited so far. */
const floating = new Map<Promise<unknown>, { readonly reason: unknown; readonly timer: NodeTimer }>();
const told = new Set<string>();

/**
 * One turn, in a macrotask that is its own: what rejects there is workflow code. Resolves in the next, so that what the host does with it
 * is not taken for that.
 */
export function inTurn<T>(environment: Environment, turn: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let isLeft = false;
    let settle: (() => void) | undefined;
    const settled = (how: () => void): void => {
      if (isLeft) how();
      else settle = how;
    };
    // Both at once: nothing comes in between, and the event loop does not go round for the second.
    environment.soon(() => {
      isTurn = true;
      turn().then(
        (value) => settled(() => resolve(value)),
        (error) => settled(() => reject(error)),
      );
    });
    environment.soon(() => {
      isTurn = false;
      isLeft = true;
      settle?.(); // else the turn takes longer, as it does where the executor's barrier is a macrotask
    });
  });
}

function isOurs(reason: unknown, promise: Promise<unknown> | undefined): boolean {
  if (isDeliveredError(reason)) return true;
  if (isTurn && promise !== undefined) floating.set(promise, { reason, timer: unref(setTimeout(() => warn(promise), A_WHILE)) });
  return isTurn;
}
/** The error may never be seen otherwise than in the process's output. A replay does not say it again. */
function warn(promise: Promise<unknown>): void {
  const text = textOf(forgetFloating(promise)?.reason);
  if (told.size >= MOST || told.has(text)) return;
  told.add(text);
  node?.emitWarning("A promise of workflow code was rejected and not awaited. Await it, or its error is lost.", {
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
function forgetFloating(promise: Promise<unknown>): { readonly reason: unknown } | undefined {
  const found = floating.get(promise);
  clearTimeout(found?.timer);
  floating.delete(promise);
  return found;
}
function unref(timer: NodeTimer): NodeTimer {
  if (typeof timer === "object") timer.unref?.();
  return timer;
}

function forget(): void {
  if (--users > 0) return;
  restore();
  for (const promise of [...floating.keys()]) warn(promise);
}

export function tolerateRejections(): () => void {
  if (node === undefined) return () => {};
  // Each time: other code may have put back the `process.emit` that it knew.
  const replaced = restore;
  restore = withholdRejections(node, { isOurs, onHandled: forgetFloating });
  replaced();
  users++;
  let done = false;
  return () => {
    if (done) return;
    done = true;
    // Not at once: Node tells of rejections that were handled in the last turns only when it has come to rest.
    const timer = setTimeout(forget, 10);
    if (floating.size === 0) unref(timer);
  };
}
