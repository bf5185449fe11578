// What the memory store keeps of one run, and how it is seen from outside.
// Owns: the shape of a kept run; copies go out, never the thing itself.
// Invariants: P10 (records by execution), M3 (used keys are remembered for the life of the run).

import type { Payload, RunStatus, SerializedError, Turn } from "@holdfast/core";
import type { AttemptRow, ClaimedTask, InboxMessage, NewRun, NewTask, ParentLink, RunRow, UpdateOutcome } from "../port.ts";

export interface KeptRun {
  readonly order: number;
  readonly id: string;
  readonly workflow: string;
  version: string | undefined;
  status: RunStatus;
  readonly queue: string;
  readonly priority: number;
  input: Payload;
  output: Payload | undefined;
  error: SerializedError | undefined;
  state: Payload | undefined;
  waitingFor: readonly string[];
  execution: number;
  attempt: number;
  parent: ParentLink | undefined;
  attributes: Record<string, string | number | boolean>;
  seed: string;
  retry: NewRun["retry"];
  readonly createdAt: number;
  startedAt: number | undefined;
  availableAt: number | undefined;
  deadlineAt: number | undefined;
  finishedAt: number | undefined;
  workerId: string | undefined;
  epoch: number;
  historyLength: number;
  turns: number;
  recoveries: number;
  rollbacks: number;
  resumable: boolean;
  blockedCode: string | undefined;
  /** Of the newest execution. */
  history: Turn[];
  attempts: AttemptRow[];
  inbox: InboxMessage[];
  readonly keys: Map<string, number>;
  readonly updates: Map<string, UpdateOutcome>;
}

export interface KeptTask extends NewTask {
  readonly id: number;
  readonly runId: string;
  readonly execution: number;
  readonly scheduledAt: number;
  availableAt: number;
  attempt: number;
  token: number;
  workerId: string | undefined;
  startedAt: number;
  lastHeartbeat: Payload | undefined;
  heartbeatAt: number;
  leaseEndsAt: number;
}

export const CLOSED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated"]);
export const isOpen = (run: KeptRun): boolean => !CLOSED.has(run.status);

export function rowOf(run: KeptRun): RunRow {
  const { order: _, history: _h, attempts: _a, inbox: _i, keys: _k, updates: _u, rollbacks: _r, resumable: _e, blockedCode: _b, ...row } = run;
  return { ...row, attributes: { ...run.attributes } };
}

export function claimedTask(task: KeptTask): ClaimedTask {
  const { scheduledAt: _s, availableAt: _a, workerId: _w, startedAt: _st, heartbeatAt: _h, leaseEndsAt: _l, ...claimed } = task;
  return claimed;
}
