// Runs that workers of this process hold: the heads of their rows, remembered between turns.
// Owns: what is remembered of a run from its claim to the commit that parks or closes it.
// Invariants: D4 (what is remembered is what the row says now: a write of another connection forgets everything, a write of ours to the
// row forgets the run or follows it, a rollback forgets everything); only runs that a worker has, and that have not been recovered.
//
// A usual turn then asks the database nothing: it only writes its records (W1: 32 of 300 µs per run went into asking, 22 more at the end).

import type { ExecutionStart } from "../recordFields.ts";
import type { RunHead } from "./findRun.ts";

export interface LeasedRun extends RunHead {
  turns: number;
  historyLength: number;
  lastMessage: number;
  forgetAt: number | undefined;
  /** Never had a message, a child or an activity: there is nothing to clean up after it. */
  isBare: boolean;
  /** Until its first turn is written. */
  executionStart: ExecutionStart | undefined;
}

const MOST_HELD = 10_000;

export class LeasedRunCache {
  readonly #byId = new Map<string, LeasedRun>();
  readonly #byKey = new Map<number, LeasedRun>();
  #version: unknown;

  find(id: string): LeasedRun | undefined {
    return this.#byId.get(id);
  }
  /** The head as it was just read or written. */
  hold(
    head: RunHead,
    known: { readonly isBare?: boolean; readonly executionStart?: ExecutionStart | undefined } = {},
  ): LeasedRun | undefined {
    this.forget(head.key);
    if (!head.isOpen || !head.isLeased || head.recoveries > 0) return undefined;
    if (this.#byId.size >= MOST_HELD) this.clear();
    const held: LeasedRun = { ...head, isBare: known.isBare ?? false, executionStart: known.executionStart };
    this.#byId.set(held.id, held);
    this.#byKey.set(held.key, held);
    return held;
  }
  /** Something of its row was written that is not followed here. */
  forget(key: number): void {
    const held = this.#byKey.get(key);
    if (held === undefined) return;
    this.#byKey.delete(key);
    this.#byId.delete(held.id);
  }
  arrived(key: number, message: number): void {
    const held = this.#byKey.get(key);
    if (held === undefined) return;
    held.lastMessage = message;
    held.isBare = false;
  }
  /** M10: the earliest that an outcome may go. */
  forgetsAt(key: number, at: number | undefined): void {
    const held = this.#byKey.get(key);
    if (held !== undefined) held.forgetAt = at;
  }
  clear(): void {
    this.#byId.clear();
    this.#byKey.clear();
  }
  /** At the begin of a transaction: the version changes when another connection has written since. */
  seen(version: unknown): void {
    if (version !== this.#version) this.clear();
    this.#version = version;
  }
}
