// Defines an activity: a named function that the workers of a queue run on behalf of workflows.
// Owns: activity() and the checks of its definition. The host owns leases, attempts and heartbeats (D11).
// Invariants: D11 (every timeout is a positive duration, the retry policy is valid); a definition is frozen.
import { preview } from "../base/text.ts";
import { checkOptionNames, type Duration, type OptionNames, type RetryPolicy } from "../values/index.ts";
import { checkFunction, checkName, checkRetry, checkTimeLimit, Findings, freezeCopy, freezeRetry, isObject } from "./issues.ts";

export interface ActivityOptions {
  /** The queue whose workers run the activity. Default: the queue of the run. */
  queue?: string;
  /** Default: 10 attempts with exponential backoff. */
  retry?: RetryPolicy;
  /** Longest duration of one attempt. Default: no limit. */
  startToClose?: Duration;
  /** Longest time from scheduling to the end, including all attempts. Default: no limit. */
  scheduleToClose?: Duration;
  /** Longest time that the activity may wait for a worker. Default: no limit. */
  scheduleToStart?: Duration;
  /** Longest time between two calls of `info.heartbeat()`. Default: no heartbeat needed. */
  heartbeat?: Duration;
}
/** What an activity function knows about the attempt that it runs in. */
export interface ActivityInfo {
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The same for every attempt: pass it to the service that you call. */
  readonly idempotencyKey: string;
  /** Aborts on cancellation, timeout, lost claim and shutdown. */
  readonly signal: AbortSignal;
  /** Reports that the attempt is alive. The next attempt reads `details` as `lastHeartbeat`. */
  heartbeat(details?: unknown): void;
  /** The details of the last heartbeat of the previous attempt. */
  readonly lastHeartbeat: unknown;
}
/** An activity definition, made by `activity(name, run)`. */
export interface Activity<A, R> {
  readonly name: string;
  readonly options: ActivityOptions;
  readonly run: (args: A, info: ActivityInfo) => Promise<R>;
}

/** Defines an activity: a named function that workers run on behalf of workflows. Throws an InvalidInputError if an option is invalid. */
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
    // The async wrapper turns a synchronous throw into a rejection.
    run: async (args: A, info: ActivityInfo): Promise<R> => run(args, info),
  });
}

/** Checks the options of a call. Unlike those of a definition they are stored, so they can't contain a function. */
export function checkActivityCall(activity: Activity<never, unknown>, options: ActivityOptions): void {
  const findings = new Findings();
  checkActivityOptions(findings, options);
  const nonRetryable = options.retry?.nonRetryable;
  if (typeof nonRetryable === "function" && nonRetryable !== activity.options.retry?.nonRetryable)
    findings.add(
      ["retry", "nonRetryable"],
      "must be a list of class names here, because a call is stored. Pass a function to activity(name, run, { retry }) instead",
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
