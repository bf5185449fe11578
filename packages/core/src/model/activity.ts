// Job: define an activity: a named function that workers of a queue run on behalf of workflows.
// Owns: activity() and the checks of its definition. Leases, attempts and heartbeats are the host's (D11).
// Invariants: D11 (every timeout is a positive duration, the retry policy is usable); a definition is frozen.
import { preview } from "../base/text.ts";
import { checkOptionNames, type Duration, type OptionNames, type RetryPolicy } from "../values/index.ts";
import { checkFunction, checkName, checkRetry, checkTimeLimit, Findings, freezeCopy, freezeRetry, isObject } from "./issues.ts";

export interface ActivityOptions {
  /** Queue whose workers run it. Default: the run's own. */
  queue?: string;
  retry?: RetryPolicy;
  startToClose?: Duration;
  scheduleToClose?: Duration;
  scheduleToStart?: Duration;
  /** The activity must call `heartbeat` at least this often. */
  heartbeat?: Duration;
}
export interface ActivityInfo {
  readonly attempt: number;
  /** The same on every attempt: hand it to the service you call. */
  readonly idempotencyKey: string;
  /** Aborts on cancellation, timeout, lost claim and shutdown. */
  readonly signal: AbortSignal;
  heartbeat(details?: unknown): void;
  /** What the previous attempt last reported. */
  readonly lastHeartbeat: unknown;
}
export interface Activity<A, R> {
  readonly name: string;
  readonly options: ActivityOptions;
  readonly run: (args: A, info: ActivityInfo) => Promise<R>;
}

export function activity<A = void, R = void>(
  name: string,
  run: (args: A, info: ActivityInfo) => Promise<R> | R,
  options: ActivityOptions = {},
): Activity<A, R> {
  const findings = new Findings();
  checkName(findings, ["name"], name);
  checkFunction(findings, ["run"], run);
  if (isObject(options)) checkActivityOptions(findings, options);
  else findings.add(["options"], `must be an object, not ${preview(options)}`);
  findings.throwIfAny(`activity ${preview(name)}`);

  return Object.freeze({
    name,
    options: freezeCopy({ ...options, ...(options.retry !== undefined && { retry: freezeRetry(options.retry) }) }),
    // A function that throws before its first await rejects like any other.
    run: async (args: A, info: ActivityInfo): Promise<R> => run(args, info),
  });
}

/** The options that a call gives: the same as those of a definition, but that they are stored, and a function can't be. */
export function checkActivityCall(activity: Activity<never, unknown>, options: ActivityOptions): void {
  const findings = new Findings();
  checkActivityOptions(findings, options);
  const nonRetryable = options.retry?.nonRetryable;
  if (typeof nonRetryable === "function" && nonRetryable !== activity.options.retry?.nonRetryable)
    findings.add(
      ["retry", "nonRetryable"],
      "must be a list of class names here: a call is stored, and a function can't be. Give it to activity(name, run, { retry })",
    );
  findings.throwIfAny(`ctx.activity ${preview(activity.name)}`);
}

const OPTIONS: OptionNames<ActivityOptions> = {
  queue: true,
  retry: true,
  startToClose: true,
  scheduleToClose: true,
  scheduleToStart: true,
  heartbeat: true,
};

function checkActivityOptions(findings: Findings, options: ActivityOptions): void {
  findings.gather([], () => checkOptionNames("activity", options, OPTIONS));
  if (options.queue !== undefined) checkName(findings, ["queue"], options.queue);
  checkRetry(findings, ["retry"], options.retry);
  checkTimeLimit(findings, ["startToClose"], options.startToClose);
  checkTimeLimit(findings, ["scheduleToClose"], options.scheduleToClose);
  checkTimeLimit(findings, ["scheduleToStart"], options.scheduleToStart);
  checkTimeLimit(findings, ["heartbeat"], options.heartbeat);
}
