// What the engine knows, as the JSON of the API: runs, operations, timelines, queues, schedules, workers.
// Owns: nothing; the shapes are those of schemas.ts.
// Invariants: dates are ISO texts, undefined is null.

import type { QueueInfo, QueueLoad, Reason, ScheduleInfo, WorkerInfo } from "holdfast";
import type { InspectedExecution, InspectedMessage, InspectedOperation, InspectedRun, InspectedWorkflow, Timeline } from "holdfast/inspect";
import type * as z from "zod";
import { iso, isoOrNull, isoTime, type Show, toJson } from "./json.ts";
import type * as shapes from "./schemas.ts";

export type RunJson = z.output<typeof shapes.runInfo>;
export type OperationJson = z.output<typeof shapes.operationInfo>;
export type TimelineJson = z.output<typeof shapes.timeline>;
export type QueueJson = z.output<typeof shapes.queueInfo>;
export type ScheduleJson = z.output<typeof shapes.scheduleInfo>;
export type WorkerJson = z.output<typeof shapes.workerInfo>;
export type WorkflowJson = z.output<typeof shapes.workflowInfo>;

export function runJson(run: InspectedRun, show: Show): RunJson {
  return {
    id: run.id,
    workflow: run.workflow,
    version: run.version ?? null,
    status: run.status,
    queue: run.queue,
    key: run.key ?? null,
    priority: run.priority,
    schedule: run.schedule ?? null,
    tick: iso(run.tick),
    forkedFrom: run.forkedFrom ?? null,
    input: show.value(run.input),
    output: show.value(run.output),
    error: show.error(run.error),
    waitingFor: [...run.waitingFor],
    execution: run.execution,
    attempt: run.attempt,
    parentId: run.parentId ?? null,
    attributes: { ...run.attributes },
    createdAt: iso(run.createdAt),
    startedAt: iso(run.startedAt),
    availableAt: iso(run.availableAt),
    deadlineAt: iso(run.deadlineAt),
    finishedAt: iso(run.finishedAt),
    workerId: run.workerId ?? null,
    historyLength: run.historyLength,
  };
}

export function operationJson(operation: InspectedOperation, show: Show): OperationJson {
  const { location, unit, kind, name, status, childId } = operation;
  return {
    location,
    unit,
    kind,
    name,
    status,
    input: show.value(operation.input),
    output: show.value(operation.output),
    error: show.error(operation.error),
    attempts: operation.attempts.map(({ number, status: ended, error, startedAt, endedAt, workerId }) => ({
      number,
      status: ended,
      error: show.error(error),
      startedAt: iso(startedAt),
      endedAt: iso(endedAt),
      workerId,
    })),
    scheduledAt: iso(operation.scheduledAt),
    endedAt: iso(operation.endedAt),
    childId: childId ?? null,
  };
}

export function timelineJson(
  { execution, lastTurn, complete, turns, units, operations, loops, messages }: Timeline,
  show: Show,
): TimelineJson {
  return {
    execution,
    lastTurn,
    complete,
    turns: turns.map(({ index, time, workerId }) => ({ index, time: isoTime(time), workerId })),
    units: units.map(({ path, role, parent, startedAt, endedAt, status }) => ({
      path,
      role,
      parent,
      startedAt: isoTime(startedAt),
      endedAt: isoOrNull(endedAt),
      status,
    })),
    operations: operations.map((one) => ({
      seq: one.seq,
      turn: one.turn,
      location: one.location,
      unit: one.unit,
      kind: one.kind,
      name: one.name,
      status: one.status,
      scheduledAt: isoTime(one.scheduledAt),
      endedAt: isoOrNull(one.endedAt),
      wakeAt: isoOrNull(one.wakeAt),
      retryAt: isoOrNull(one.retryAt),
      childId: one.childId,
      error: one.error === null ? null : { name: one.error.name, message: show.text(one.error.message.slice(0, 200)) },
      attempts: one.attempts.map(({ number, status, startedAt, endedAt, workerId }) => ({
        number,
        status,
        startedAt: isoTime(startedAt),
        endedAt: isoOrNull(endedAt),
        workerId,
      })),
    })),
    loops: loops.map(({ location, iterations, failed, kept, committedAt }) => ({
      location,
      iterations,
      failed,
      kept,
      committedAt: isoOrNull(committedAt),
    })),
    messages: messages.map(({ id, kind, name, arrivedTurn, takenTurn, takenBy }) => ({ id, kind, name, arrivedTurn, takenTurn, takenBy })),
  };
}

/** Their texts quote the error of a step, or of the run. Those of the others consist of names, ids and times. */
const QUOTING: ReadonlySet<Reason["kind"]> = new Set<Reason["kind"]>(["retrying", "blocked", "closed", "activity"]);

export function reasonJson({ kind, text, advice, since, location }: Reason, show: Show): z.output<typeof shapes.reason> {
  return { kind, text: QUOTING.has(kind) ? show.text(text) : text, advice, since: iso(since), location: location ?? null };
}
export function messageJson({ id, kind, name, payload, receivedAt }: InspectedMessage, show: Show): z.output<typeof shapes.inboxMessage> {
  return { id, kind, name: name ?? null, payload: show.value(payload), receivedAt: iso(receivedAt) };
}
export function executionJson(one: InspectedExecution, show: Show): z.output<typeof shapes.execution> {
  const { execution, workflow, version, status, input, firstTurnAt, lastTurnAt, turns } = one;
  return {
    execution,
    workflow,
    version: version ?? null,
    status: status ?? null,
    input: show.value(input),
    firstTurnAt: iso(firstTurnAt),
    lastTurnAt: iso(lastTurnAt),
    turns,
  };
}

export function workflowJson({ name, version, versions, schemas, workers }: InspectedWorkflow): WorkflowJson {
  return {
    name,
    version: version ?? null,
    versions: versions === "*" ? "*" : versions.map((one) => one ?? null),
    input: schemas.input === undefined ? null : { ...schemas.input },
    signals: { ...schemas.signals },
    updates: { ...schemas.updates },
    queries: [...schemas.queries],
    workers: [...workers],
  };
}

interface Limits {
  readonly concurrency?: number | undefined;
  readonly rate?: { readonly limit: number; readonly per: number | string } | undefined;
}
const limitJson = ({ concurrency, rate }: Limits) => ({
  concurrency: concurrency ?? null,
  rate: rate === undefined ? null : { limit: rate.limit, per: rate.per },
});
const loadJson = ({ waiting, held, oldest }: QueueLoad) => ({ waiting, held, oldest: iso(oldest) });

export function queueJson(queue: QueueInfo): QueueJson {
  const keys = queue.keys && Object.entries(queue.keys).map(([key, one]) => [key, { ...limitJson(one), weight: one.weight ?? null }]);
  return {
    name: queue.name,
    ...limitJson(queue),
    perKey: queue.perKey === undefined ? null : limitJson(queue.perKey),
    keys: keys === undefined ? null : Object.fromEntries(keys),
    counts: queue.counts ?? null,
    paused: queue.paused,
    pausedUntil: iso(queue.pausedUntil),
    pausedKeys: [...queue.pausedKeys],
    runs: loadJson(queue.runs),
    activities: loadJson(queue.activities),
  };
}
/** A queue that has no limits and no work. */
export function emptyQueue(name: string): QueueJson {
  const nothing = { waiting: 0, held: 0, oldest: undefined };
  return queueJson({ name, paused: false, pausedUntil: undefined, pausedKeys: [], runs: nothing, activities: nothing });
}

export function workerJson(worker: WorkerInfo): WorkerJson {
  const { serves, activities, startedAt, seenAt, ...rest } = worker;
  return {
    ...rest,
    serves: serves.map(({ workflow, versions }) => ({
      workflow,
      versions: versions === "*" ? "*" : versions.map((version) => version ?? null),
    })),
    activities: [...activities],
    startedAt: iso(startedAt),
    seenAt: iso(seenAt),
  };
}

export function scheduleJson(schedule: ScheduleInfo, show: Show): ScheduleJson {
  const { id, workflow, cron, every, timezone, overlap, catchUp, jitter, start, paused, lastRunId, missed } = schedule;
  return {
    id,
    workflow,
    input: show.decoded(schedule.input),
    cron: cron ?? null,
    every: every ?? null,
    timezone: timezone ?? null,
    overlap: overlap ?? null,
    catchUp: catchUp ?? null,
    jitter: jitter ?? null,
    start: start === undefined ? null : startJson(start, show),
    paused,
    nextRuns: schedule.nextRuns.map((at) => iso(at)),
    lastRunId: lastRunId ?? null,
    lastTick: iso(schedule.lastTick),
    missed,
  };
}
function startJson({ signals, ...options }: NonNullable<ScheduleInfo["start"]>, show: Show): Record<string, unknown> {
  const shown = toJson(options) as Record<string, unknown>;
  if (signals === undefined) return shown;
  return { ...shown, signals: signals.map(({ name, payload }) => ({ name, payload: show.decoded(payload) })) };
}
