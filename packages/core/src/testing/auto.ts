// An automatic host for tests: runs steps and activities, skips time, injects faults.
// Owns: the order in which open operations are resolved.
// Invariants: X1 (no timers and no I/O, except in the test's own step bodies), K8 (a timer fires once, never early), D8 (retries).

import { serializeError } from "../errors/index.ts";
import type { Activity, ActivityInfo, AnyWorkflow, StepInfo } from "../model/index.ts";
import {
  type ActivityCommand,
  type ChildCommand,
  formatLocation,
  type HostOperation,
  type Job,
  type Outcome,
  type SideEffectCommand,
} from "../protocol/index.ts";
import { isRetryable, type RetryPolicy, resolveRetry } from "../values/index.ts";
import { Harness, type HarnessOptions } from "./harness.ts";

/** Options of `drive` and `runWorkflow`. */
export interface AutoOptions {
  /**
   * The activities that the workflow calls.
   * @defaultValue none
   */
  readonly activities?: readonly Activity<never, unknown>[];
  /**
   * Workflows of children. Each child runs in a separate harness.
   * @defaultValue none
   */
  readonly workflows?: readonly AnyWorkflow[];
  /**
   * Returns an error with which this attempt of an operation fails, or undefined. Children and sleeps have no attempts.
   * @defaultValue no attempt fails by it
   */
  readonly fault?: (operation: HostOperation, attempt: number) => Error | undefined;
  /**
   * Selects the open operations that are resolved in the next turn. Sleeps are not among them.
   * @defaultValue all of them
   */
  readonly pick?: (open: readonly HostOperation[]) => readonly HostOperation[];
  /**
   * When nothing else is left to do, advance the time to the next timer.
   * @defaultValue `true`
   */
  readonly skipTime?: boolean;
  /**
   * The largest number of turns of one call.
   * @defaultValue `10_000`
   */
  readonly maxTurns?: number;
}

/**
 * Drives the run until it is closed, or until it only waits for messages (without `skipTime` also: for timers). Retries don't wait.
 * @throws an Error after `maxTurns`, for an activity or a child that the options do not have, and for a child that does not end.
 * @throws the error of a turn that is not accepted.
 */
export async function drive(harness: Harness, options: AutoOptions = {}): Promise<Harness> {
  const limit = options.maxTurns ?? 10_000;
  for (let turns = 0; harness.terminal === undefined; turns++) {
    if (turns >= limit)
      throw new Error(`The run was not over after ${limit} turns; it waits for ${harness.executor.waitingFor.join(", ")}.`);
    if (harness.executor.hasWork) {
      await harness.turn(); // changed code has freed it (V3), or it is being resumed (D10)
      continue;
    }
    const ready = ([...harness.open.values()] as HostOperation[]).filter((operation) => operation.type !== "sleep");
    if (ready.length > 0) {
      const picked = options.pick?.(ready) ?? ready;
      const jobs: Job[] = [];
      for (const operation of picked) jobs.push(...(await answer(harness, operation, options)));
      await harness.turn(...jobs);
    } else if (harness.timers.size > 0 && options.skipTime !== false) await harness.fire();
    else break;
  }
  return harness;
}

/**
 * Starts a run and drives it.
 * @throws as `drive` does.
 */
export async function runWorkflow(workflow: AnyWorkflow, input?: unknown, options: AutoOptions & HarnessOptions = {}): Promise<Harness> {
  return drive(await Harness.start(workflow, input, options), options);
}

/** The open operations of a harness. Scheduled side effects are carried out by the host too. */
type Open = HostOperation | SideEffectCommand;

async function answer(harness: Harness, operation: Open, options: AutoOptions): Promise<Job[]> {
  const { seq } = operation;
  switch (operation.type) {
    case "child":
      return child(harness, operation, options);
    case "sleep":
      return [{ type: "fire", seq }];
    case "activity":
      return [{ type: "resolve", seq, outcome: await activity(harness, operation, options) }];
    case "signalRun":
    case "cancelRun":
      return [{ type: "resolve", seq, outcome: await attempts(harness, operation, { maxAttempts: 1 }, options, () => undefined) }];
    case "step":
    case "transaction":
    case "rollback":
    case "sideEffect": {
      const body = harness.executor.body(seq);
      if (body === undefined) throw new Error(`The executor has no body for ${operation.type} ${operation.name}.`);
      const run = body.run as (...args: unknown[]) => unknown;
      const call = (info: StepInfo) => (body.kind === "transaction" ? run(undefined, info) : run(info));
      return [{ type: "resolve", seq, outcome: await attempts(harness, operation, body.retry, options, call) }];
    }
    default:
      return operation satisfies never;
  }
}

async function activity(harness: Harness, operation: ActivityCommand, options: AutoOptions): Promise<Outcome> {
  const known = options.activities?.find((one) => one.name === operation.name);
  if (known === undefined) throw new Error(`No activity "${operation.name}" was given to drive().`);
  const run = known.run as (args: unknown, info: ActivityInfo) => Promise<unknown>;
  const { retry } = operation;
  const policy = retry?.nonRetryable === "function" ? known.options.retry : (retry as RetryPolicy | undefined);
  return attempts(harness, operation, policy, options, (info) =>
    run(harness.codec.decode(operation.input), { ...info, heartbeat: () => {}, lastHeartbeat: undefined }),
  );
}

async function attempts(
  harness: Harness,
  operation: Open,
  retry: RetryPolicy | undefined,
  options: AutoOptions,
  run: (info: StepInfo) => unknown,
): Promise<Outcome> {
  const { maxAttempts } = resolveRetry(retry, "operation");
  const idempotencyKey = formatLocation(operation.unit, operation.name, operation.n);
  for (let attempt = 1; ; attempt++) {
    try {
      const fault = options.fault?.(operation as HostOperation, attempt);
      if (fault !== undefined) throw fault;
      const value = await run({ attempt, idempotencyKey, signal: new AbortController().signal });
      return { status: "completed", value: harness.codec.encode(value) };
    } catch (error) {
      if (attempt >= maxAttempts || !isRetryable(error, retry))
        return { status: "failed", error: serializeError(error), attempts: attempt };
    }
  }
}

async function child(harness: Harness, operation: ChildCommand, options: AutoOptions): Promise<Job[]> {
  const { seq, id } = operation;
  const workflow = options.workflows?.find((one) => one.name === operation.name);
  if (workflow === undefined) throw new Error(`No workflow "${operation.name}" was given to drive().`);
  const started: Job[] = operation.detached === true ? [{ type: "childStarted", seq, runId: id }] : [];
  const run = await runWorkflow(workflow, harness.codec.decode(operation.input), {
    ...options,
    id,
    parentId: harness.options.id ?? "run-1",
  });
  const { terminal } = run;
  if (terminal?.type === "complete") return [...started, { type: "resolve", seq, outcome: { status: "completed", value: terminal.value } }];
  if (terminal?.type === "fail") return [...started, { type: "resolve", seq, outcome: { status: "failed", error: terminal.error } }];
  if (terminal?.type === "canceled") return [...started, { type: "resolve", seq, outcome: { status: "canceled" } }];
  throw new Error(`The child ${id} did not end: it waits for ${run.executor.waitingFor.join(", ")}.`);
}
