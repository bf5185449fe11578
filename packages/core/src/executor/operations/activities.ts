// Activities: operations that any worker that has their code may carry out.
// Owns: the calls of activities, and how outcomes become the results that user code sees.
// Invariants: C7 (a cancelled activity is abandoned), P8 (arguments and results pass through the codec), Y4 (arguments that can't be
// encoded fail in every replay too).

import { ActivityFailedError } from "../../errors/index.ts";
import { checkActivityCall } from "../../model/activity.ts";
import type { Activity, ActivityOptions } from "../../model/index.ts";
import type { ActivityCommand } from "../../protocol/index.ts";
import { parseDuration } from "../../values/index.ts";
import type { Behaviour, Operation } from "../operation.ts";
import type { Unit } from "../unit.ts";
import { abandon, failure, recordedRetry } from "./steps.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const ACTIVITY: Behaviour = {
  cancel: abandon,
  outcome(operation, outcome) {
    const execution = operation.unit.execution;
    if (outcome.status === "completed") return execution.settle(operation, { ok: true, payload: outcome.value });
    const settlement = failure(outcome, (attempts, cause) => new ActivityFailedError({ activity: operation.name, attempts, cause }));
    if (!settlement.ok) execution.failureCauses.put(settlement.error, operation.seq);
    execution.settle(operation, settlement);
  },
};

export function activityCall<A, R>(unit: Unit, activity: Activity<A, R>, args: A, call: ActivityOptions | undefined): Promise<R> {
  const execution = unit.execution;
  if (call !== undefined) checkActivityCall(activity, call);
  const options = call === undefined ? activity.options : { ...activity.options, ...call };
  const fields: Mutable<Partial<ActivityCommand>> = {};
  if (options.queue !== undefined) fields.queue = options.queue;
  if (options.key !== undefined) fields.key = options.key;
  if (options.priority !== undefined) fields.priority = options.priority;
  if (options.retry !== undefined) fields.retry = recordedRetry(options.retry);
  for (const key of ["startToClose", "scheduleToClose", "scheduleToStart", "heartbeat"] as const) {
    const duration = options[key];
    if (duration !== undefined) fields[key] = parseDuration(duration);
  }
  let operation: Operation;
  try {
    fields.input = execution.encode(args, `the argument of activity ${activity.name}`);
    operation = execution.open(unit, "activity", activity.name, fields);
  } catch (error) {
    operation = execution.refuse(unit, "activity", activity.name, error as Error);
  }
  if (!operation.closed) operation.behaviour = ACTIVITY;
  return operation.promise as Promise<R>;
}
