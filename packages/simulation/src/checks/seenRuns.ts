// Runs as the calls of the store were carried out, whatever the store says of them now.
// Owns: what was seen of each run and of its operations.
// Invariants: none of its own; the checks beside it hold what is written against it.

import type { Job, OpeningCommand, Payload } from "@holdfast/core";

/** What an operation is known by: to others, and within its execution. */
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
  /** Attempts that a commit has announced, with how often the run had been lost by then. */
  readonly announced: Map<number, number>;
  /** Attempts that a commit has told the failure of, with when the next is due. */
  readonly failed: Map<number, number>;
  /** D10: attempts before its last resume, which the policy counts no more. */
  forgiven: number;
}
export interface SeenStep {
  readonly run: SeenRun;
  readonly execution: number;
  readonly opened: Opened;
}
/** What is known of one run, from what was carried out. */
export interface SeenRun {
  readonly id: string;
  execution: number;
  /** Of the last claim. */
  epoch: number;
  holder: string | undefined;
  leasedUntil: number;
  isClosed: boolean;
  /** Turns of this execution as they were committed, as text. */
  turns: string[];
  /** P7: of its last turn, in whichever execution. */
  lastTime: number;
  opened: Map<number, Opened>;
  readonly inbox: Map<number, { readonly job: Job; isConsumed: boolean }>;
  readonly keys: Map<string, number>;
  /** Claims after an expired lease, and gracious returns: what excuses an attempt that never came back. */
  losses: number;
  /** A cancellation is in the store. */
  isAskedToCancel: boolean;
  /** A turn that took a cancellation. */
  isCanceled: boolean;
  readonly updates: Map<string, string>;
  /** States as commits have published them. */
  readonly published: Payload[];
}

export const CLOSED: ReadonlySet<string> = new Set(["completed", "failed", "canceled", "terminated"]);
/** How far a clock may have drifted from the store's since a worker last asked: drift times the longest it goes without asking. */
export const DRIFT_TOLERANCE = 60;

export class SeenRuns {
  readonly all = new Map<string, SeenRun>();
  /** Steps and activities by what they know themselves by: their idempotency key. */
  readonly steps = new Map<string, SeenStep>();
  /** Every worker that was ever given anything. */
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
  open(): SeenRun[] {
    return [...this.all.values()].filter(({ isClosed }) => !isClosed);
  }
}

export function close(run: SeenRun): void {
  run.isClosed = true;
  run.holder = undefined;
  run.leasedUntil = 0;
}
export function beginExecution(run: SeenRun, execution: number): void {
  run.execution = execution;
  run.epoch++; // at least
  run.holder = undefined;
  run.leasedUntil = 0;
  run.isClosed = false;
  run.turns = [];
  run.opened = new Map();
  run.inbox.clear(); // what waited has other numbers now
}

/** The same text for the same value: keys in order, without what is undefined. Stacks are not part of what happened. */
export function stable(value: unknown): string {
  const sorted = (item: unknown): unknown => {
    if (Array.isArray(item)) return item.map(sorted);
    if (typeof item !== "object" || item === null) return item;
    const entries = Object.entries(item).filter(([key, one]) => one !== undefined && key !== "stack");
    return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)]));
  };
  return JSON.stringify(sorted(value)) ?? "undefined";
}
