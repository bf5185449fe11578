// What the memory store keeps of one run, and how it is seen from outside.
// Owns: the shape of a kept run and of a kept task; copies go out, never the thing itself.
// Invariants: P10 (one run, its newest execution), M3 (used keys are remembered for the life of the run).

import type { Payload, RunStatus, SerializedError, Turn } from "@holdfast/core";
import type { AttemptRow, ClaimedTask, InboxMessage, NewRun, NewTask, ParentLink, RunRow, UpdateOutcome } from "../port.ts";

export interface KeptRun {
  readonly order: number;
  readonly id: string;
  workflow: string;
  version: string | undefined;
  status: RunStatus;
  queue: string;
  priority: number;
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
  /** Who committed each of these turns, by index. */
  workers: Map<number, string>;
  attempts: AttemptRow[];
  inbox: InboxMessage[];
  readonly keys: Map<string, UsedKey>;
  readonly updates: Map<string, UpdateOutcome>;
}
export interface UsedKey {
  readonly inboxId: number;
  /** The id of an update: somebody waits for its outcome (M10). */
  readonly update: boolean;
}

export interface KeptTask extends NewTask {
  readonly id: number;
  readonly order: number;
  readonly priority: number;
  readonly runId: string;
  readonly execution: number;
  readonly scheduledAt: number;
  /** Undefined: somebody runs it, or it is over. */
  availableAt: number | undefined;
  attempt: number;
  token: number;
  workerId: string | undefined;
  startedAt: number;
  lastHeartbeat: Payload | undefined;
  heartbeatAt: number;
  leaseEndsAt: number;
}

const CLOSED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated"]);
export const isOpen = (run: KeptRun): boolean => !CLOSED.has(run.status);

export function rowOf(run: KeptRun): RunRow {
  const { id, workflow, version, status, queue, priority, input, output, error, state, execution, attempt, parent, seed, retry } = run;
  const { createdAt, startedAt, availableAt, deadlineAt, finishedAt, workerId, epoch, historyLength, turns, recoveries } = run;
  return {
    ...{ id, workflow, version, status, queue, priority, input, output, error, state, execution, attempt, parent, seed, retry },
    ...{ createdAt, startedAt, availableAt, deadlineAt, finishedAt, workerId, epoch, historyLength, turns, recoveries },
    waitingFor: [...run.waitingFor],
    attributes: { ...run.attributes },
  };
}

export function claimedTask(task: KeptTask): ClaimedTask {
  const { seq, activity, queue, input, retry, startToClose, scheduleToClose, scheduleToStart, heartbeat, location } = task;
  const { id, runId, execution, attempt, token, lastHeartbeat } = task;
  return {
    ...{ seq, activity, queue, input, retry, startToClose, scheduleToClose, scheduleToStart, heartbeat, location },
    ...{ id, runId, execution, attempt, token, lastHeartbeat },
  };
}
