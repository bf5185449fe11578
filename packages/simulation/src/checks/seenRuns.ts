// The runs as the calls that the store carried out have made them, whatever the store returns now.
// Owns: what was seen of each run and of its operations.
// Invariants: none; the checks in this folder compare the store with it.

import type { OpeningCommand, Payload } from "@holdfast/core";
import type { InboxJob } from "holdfast/store";

/** The names of an operation: unique among all runs (`text`), and within its execution (`location`). */
export interface OperationKey {
  readonly text: string;
  readonly location: string;
}
/** An operation that a committed turn has opened. */
export interface Opened {
  readonly command: OpeningCommand;
  readonly key: OperationKey;
  readonly time: number;
  isResolved: boolean;
  isCompleted: boolean;
  isFired: boolean;
  /** Attempts that a commit has announced, each with the number of times that the run had been lost by then. */
  readonly announced: Map<number, number>;
  /** Attempts that a commit has recorded as failed, each with the time at which the next is due. */
  readonly failed: Map<number, number>;
  /** D10: attempts before the last resume, which no longer count for the policy. */
  forgiven: number;
}
export interface SeenStep {
  readonly run: SeenRun;
  readonly execution: number;
  readonly opened: Opened;
}
/** What is known of one run from the calls that were carried out. */
export interface SeenRun {
  readonly id: string;
  execution: number;
  /** The epoch of the last claim. */
  epoch: number;
  holder: string | undefined;
  leasedUntil: number;
  isClosed: boolean;
  /** The committed turns of this execution, as JSON. */
  turns: string[];
  /** P7: the time of the last turn, in any execution. */
  lastTime: number;
  opened: Map<number, Opened>;
  readonly inbox: Map<number, { readonly job: InboxJob; isConsumed: boolean }>;
  readonly keys: Map<string, number>;
  /** How often a worker has lost or released the run: such a loss explains an attempt that never ended. */
  losses: number;
  /** A cancellation is in the store. */
  isAskedToCancel: boolean;
  /** A turn has consumed a cancellation. */
  isCanceled: boolean;
  readonly updates: Map<string, string>;
  /** The states that commits have published, in order. */
  readonly published: Payload[];
}

export const CLOSED: ReadonlySet<string> = new Set(["completed", "failed", "canceled", "terminated"]);
/** Milliseconds that a worker's clock may drift from the store's between two readings of the store's time. */
export const DRIFT_TOLERANCE = 60;

export class SeenRuns {
  readonly all = new Map<string, SeenRun>();
  /** Steps and activities by idempotency key. */
  readonly steps = new Map<string, SeenStep>();
  /** Every worker that ever made a claim. */
  readonly workers = new Set<string>();

  get(id: string): SeenRun {
    let run = this.all.get(id);
    if (run === undefined) {
      run = {
        id,
        execution: 1,
        epoch: 0,
        holder: undefined,
        leasedUntil: 0,
        isClosed: false,
        turns: [],
        lastTime: 0,
        opened: new Map(),
        inbox: new Map(),
        keys: new Map(),
        losses: 0,
        isAskedToCancel: false,
        isCanceled: false,
        updates: new Map(),
        published: [],
      };
      this.all.set(id, run);
    }
    return run;
  }
  /** The run and everything that belongs to it is gone. */
  forget(id: string): void {
    this.all.delete(id);
  }
  open(): SeenRun[] {
    return [...this.all.values()].filter(({ isClosed }) => !isClosed);
  }
}

export function close(run: SeenRun): void {
  run.isClosed = true;
  run.holder = undefined;
  run.leasedUntil = 0;
}
/** The next execution of a run begins with another start: what was asked of the one before does not count (P10, Q9). */
export function beginAnew(run: SeenRun, execution: number): void {
  beginExecution(run, execution);
  run.isCanceled = false;
}
export function beginExecution(run: SeenRun, execution: number): void {
  run.execution = execution;
  run.epoch++; // at least
  run.holder = undefined;
  run.leasedUntil = 0;
  run.isClosed = false;
  run.turns = [];
  run.opened = new Map();
  run.inbox.clear(); // messages that are carried over have new ids
}

/** Equal values give equal text: keys are sorted, and undefined values and error stacks are left out. */
export function stable(value: unknown): string {
  const sorted = (item: unknown): unknown => {
    if (Array.isArray(item)) return item.map(sorted);
    if (typeof item !== "object" || item === null) return item;
    const entries = Object.entries(item).filter(([key, one]) => one !== undefined && key !== "stack");
    return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)]));
  };
  return JSON.stringify(sorted(value)) ?? "undefined";
}
