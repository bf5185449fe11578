// `RunInfo`: a run as the backend describes it, decoded for the caller.
// Owns: nothing.
// Invariants: P8; a value that can't be decoded appears as the error of its run, and does not hide the other runs of a list.

import type { Codec, RunInfo } from "@holdfast/core";
import { readable } from "@holdfast/host";
import type { RunDescription } from "../backend/port.ts";

export function runInfo(run: RunDescription, codec: Codec): RunInfo {
  const input = readable(codec, run.input);
  const output = readable(codec, run.output);
  return {
    id: run.id,
    workflow: run.workflow,
    version: run.version,
    status: run.status,
    queue: run.queue,
    key: run.key,
    priority: run.priority,
    schedule: run.schedule,
    tick: dateOf(run.tick),
    forkedFrom: run.forkedFrom,
    input: input.value,
    output: output.value,
    error: run.error ?? input.error ?? output.error,
    waitingFor: run.waitingFor,
    execution: run.execution,
    attempt: run.attempt,
    parentId: run.parent?.runId,
    attributes: { ...run.attributes },
    createdAt: new Date(run.createdAt),
    startedAt: dateOf(run.startedAt),
    availableAt: dateOf(run.availableAt),
    deadlineAt: dateOf(run.deadlineAt),
    finishedAt: dateOf(run.finishedAt),
    workerId: run.workerId,
    historyLength: run.historyLength,
  };
}
function dateOf(time: number | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(time);
}
