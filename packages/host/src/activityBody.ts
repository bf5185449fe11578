// What is run for an attempt of an activity.
// Owns: nothing.
// Invariants: D11 (the code is told its attempt, key and signal, and what the attempts before it reported last), D8 (the recorded policy,
// with the predicate that only code has).

import type { Activity, ActivityInfo, Codec, Payload, RecordedRetry, RetryPolicy, StepInfo } from "@holdfast/core";
import type { Report } from "./attempt.ts";

// biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
export type AnyActivity = Activity<any, any>;

/** What an activity is asked for, by a command or a task. */
export interface ActivityCall {
  readonly name: string;
  readonly input: Payload;
  /** What it reported last, in an attempt before. */
  readonly lastHeartbeat: Payload | undefined;
}

/** Calls `run`, which is the activity's or a stand-in for it. */
export function runActivity(
  run: (args: never, info: ActivityInfo) => unknown,
  { name, input, lastHeartbeat }: ActivityCall,
  info: StepInfo,
  report: Report,
  { codec, encode }: { readonly codec: Codec; readonly encode: (value: unknown, what: string) => Payload },
): unknown {
  const activityInfo: ActivityInfo = {
    attempt: info.attempt,
    idempotencyKey: info.idempotencyKey,
    get signal() {
      return info.signal;
    },
    heartbeat: (details) => report(encode(details, `what activity ${name} reports`)),
    lastHeartbeat: lastHeartbeat === undefined ? undefined : codec.decode(lastHeartbeat),
  };
  return run(codec.decode(input) as never, activityInfo);
}

/** The record has all of the policy but a predicate. */
export function activityRetry(recorded: RecordedRetry | undefined, own: RetryPolicy | undefined): RetryPolicy | undefined {
  if (recorded === undefined) return undefined;
  const { nonRetryable, ...policy } = recorded;
  const named = nonRetryable === "function" ? own?.nonRetryable : nonRetryable;
  return named === undefined ? policy : { ...policy, nonRetryable: named };
}
