// Calls the function of an activity for one attempt.
// Owns: nothing.
// Invariants: D11 (the activity gets its attempt number, idempotency key and signal, and the last heartbeat of earlier attempts), D8 (the
// recorded retry policy applies; only its predicate comes from code).

import type { Activity, ActivityInfo, Codec, Payload, RecordedRetry, RetryPolicy, StepInfo } from "@holdfast/core";
import type { Report } from "./attempt.ts";

/** An activity of any types. */
// biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
export type AnyActivity = Activity<any, any>;

/** The activity that a command or a task asks for, and its input. */
export interface ActivityCall {
  /** The name of the activity. */
  readonly name: string;
  /** The input, encoded. */
  readonly input: Payload;
  /** Details of the last heartbeat, if an earlier attempt sent one. */
  readonly lastHeartbeat: Payload | undefined;
}

/** Calls `run`: the activity's function, or its stand-in in a test. `codec` decodes the input, `encode` encodes what it returns. */
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
    heartbeat: (details) => report(encode(details, `the heartbeat details of activity ${name}`)),
    lastHeartbeat: lastHeartbeat === undefined ? undefined : codec.decode(lastHeartbeat),
  };
  return run(codec.decode(input) as never, activityInfo);
}

/** The recorded policy, plus the predicate from code: functions are not recorded. */
export function activityRetry(recorded: RecordedRetry | undefined, own: RetryPolicy | undefined): RetryPolicy | undefined {
  if (recorded === undefined) return undefined;
  const { nonRetryable, ...policy } = recorded;
  const named = nonRetryable === "function" ? own?.nonRetryable : nonRetryable;
  return named === undefined ? policy : { ...policy, nonRetryable: named };
}
