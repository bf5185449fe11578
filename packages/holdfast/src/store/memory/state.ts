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
  key: string | undefined;
  schedule: string | undefined;
  tick: number | undefined;
  forkedFrom: string | undefined;
  after: string | undefined;
  next: NextStart | undefined;
  /** When the first of the starts was made that this execution has taken over (Q9). */
  firstStart: number;
  /** Of a run that waits for another: it begins at this time at the earliest (Q10). */
  notBefore: number | undefined;
  retention: NewRun["retention"];
  /** With `counts: "open"`: the slots that it holds, as bits (Q2). */
  held: number;
  /** B4: when it goes, if it is closed. */
  removeAt: number | undefined;
  priority: number;
  input: Payload;
  output: Payload | undefined;
  error: SerializedError | undefined;
  state: Payload | undefined;
  waitingFor: readonly string[];
  execution: number;
  attempt: number;
  parent: ParentLink | undefined;
  /** B4: its parent was removed. */
  isOrphan: boolean;
  attributes: Record<string, string | number | boolean>;
  seed: string;
  retry: NewRun["retry"];
  readonly createdAt: number;
  startedAt: number | undefined;
  availableAt: number | undefined;
  deadlineAt: number | undefined;
  finishedAt: number | undefined;
  workerId: string | undefined;
  /** How long a worker was given it for. */
  lease: number;
  epoch: number;
  historyLength: number;
  turns: number;
  recoveries: number;
  rollbacks: number;
  resumable: boolean;
  blockedCode: string | undefined;
  /** Of the newest execution. */
  history: Turn[];
  /** Of the last turn before this execution (P7). */
  lastTime: number | undefined;
  /** The worker that committed each of these turns, by index. */
  workers: Map<number, string>;
  attempts: AttemptRow[];
  /** Executions before the newest, for people who look: the last few of them. */
  past: PastExecution[] | undefined;
  inbox: InboxMessage[];
  /** M3: those of its starts. */
  startKeys: string[] | undefined;
  /** Both undefined until they are needed: most runs get no message. */
  keys: Map<string, UsedKey> | undefined;
  updates: Map<string, UpdateOutcome> | undefined;
  /** M10: outcomes whose senders gave no key, and when each may go, oldest first. */
  forgettable: { readonly id: string; readonly at: number }[] | undefined;
}
export interface PastExecution {
  readonly execution: number;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly input: Payload;
  readonly history: readonly Turn[];
  readonly workers: ReadonlyMap<number, string>;
  readonly attempts: readonly (AttemptRow & { readonly task?: boolean })[];
}
/** Q9: the start that this run begins with once it has closed. */
export interface NextStart {
  readonly start: NewRun;
  /** When the first of the starts was made that it has taken over. */
  readonly firstAt: number;
  /** The run was canceled for it. */
  readonly isReplacing: boolean;
  /** Messages of all these starts. */
  readonly inbox: InboxMessage[];
}
export interface UsedKey {
  readonly inboxId: number;
  /** The id of an update: its caller waits for the outcome (M10). */
  readonly update: string | undefined;
  /** Its sender named no key (M10). */
  readonly isKeyless: boolean;
}

export interface KeptTask extends NewTask {
  readonly id: number;
  readonly order: number;
  readonly priority: number;
  readonly runId: string;
  readonly execution: number;
  readonly scheduledAt: number;
  /** Undefined: a worker runs it, or it is over. */
  availableAt: number | undefined;
  attempt: number;
  token: number;
  workerId: string | undefined;
  startedAt: number;
  lastHeartbeat: Payload | undefined;
  heartbeatAt: number;
  leaseEndsAt: number;
  lease: number;
}

const CLOSED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated"]);
export const isOpen = (run: KeptRun): boolean => !CLOSED.has(run.status);

// Plain literals from here on: objects made by spreading are several times slower to make and to read.

export function rowOf(run: KeptRun): RunRow {
  return {
    id: run.id,
    workflow: run.workflow,
    version: run.version,
    status: run.status,
    queue: run.queue,
    key: run.key,
    schedule: run.schedule,
    tick: run.tick,
    forkedFrom: run.forkedFrom,
    after: run.after,
    retention: run.retention,
    priority: run.priority,
    input: run.input,
    output: run.output,
    error: run.error,
    resumable: run.status === "failed" ? run.resumable && run.turns > 0 : undefined,
    state: run.state,
    waitingFor: [...run.waitingFor],
    execution: run.execution,
    attempt: run.attempt,
    parent: run.parent,
    attributes: { ...run.attributes },
    seed: run.seed,
    retry: run.retry,
    createdAt: run.createdAt,
    startedAt: run.startedAt,
    availableAt: run.availableAt,
    deadlineAt: run.deadlineAt,
    finishedAt: run.finishedAt,
    workerId: run.workerId,
    epoch: run.epoch,
    historyLength: run.historyLength,
    turns: run.turns,
    recoveries: run.recoveries,
  };
}

/** A new run, before anything has happened to it. */
export function unbegun(order: number, { id, workflow, version, queue, priority, input, seed }: NewRun, now: number): KeptRun {
  return {
    order,
    id,
    workflow,
    version,
    status: "pending",
    queue,
    key: undefined,
    schedule: undefined,
    tick: undefined,
    forkedFrom: undefined,
    after: undefined,
    next: undefined,
    firstStart: now,
    notBefore: undefined,
    retention: undefined,
    held: 0,
    removeAt: undefined,
    priority,
    input,
    output: undefined,
    error: undefined,
    state: undefined,
    waitingFor: [],
    execution: 1,
    attempt: 1,
    parent: undefined,
    isOrphan: false,
    attributes: {},
    seed,
    retry: undefined,
    createdAt: now,
    startedAt: undefined,
    availableAt: undefined,
    deadlineAt: undefined,
    finishedAt: undefined,
    workerId: undefined,
    lease: 0,
    epoch: 0,
    historyLength: 0,
    turns: 0,
    recoveries: 0,
    rollbacks: 0,
    resumable: true,
    blockedCode: undefined,
    history: [],
    past: undefined,
    lastTime: undefined,
    workers: new Map(),
    attempts: [],
    inbox: [],
    startKeys: undefined,
    keys: undefined,
    updates: undefined,
    forgettable: undefined,
  };
}

export function claimedTask(task: KeptTask): ClaimedTask {
  return {
    seq: task.seq,
    activity: task.activity,
    queue: task.queue,
    input: task.input,
    retry: task.retry,
    startToClose: task.startToClose,
    scheduleToClose: task.scheduleToClose,
    scheduleToStart: task.scheduleToStart,
    heartbeat: task.heartbeat,
    location: task.location,
    id: task.id,
    runId: task.runId,
    execution: task.execution,
    attempt: task.attempt,
    token: task.token,
    lastHeartbeat: task.lastHeartbeat,
  };
}
