// Defines an activity: a named function that the workers of a queue run on behalf of workflows.
// Owns: activity() and the checks of its definition. The host owns leases, attempts and heartbeats (D11).
// Invariants: D11 (every timeout is a positive duration, the retry policy is valid); a definition is frozen.
import { preview } from "../base/text.ts";
import { checkOptionNames, type Duration, type OptionNames, type RetryPolicy } from "../values/index.ts";
import { checkFunction, checkName, checkRetry, checkTimeLimit, Findings, freezeCopy, freezeRetry, isObject } from "./issues.ts";
import { checkedKey, checkedPriority } from "./startOptions.ts";

/**
 * Options of an activity. Those of the definition are defaults for its calls.
 * @example
 * ```ts
 * const options: ActivityOptions = { queue: "media", startToClose: "10m", heartbeat: "30s", retry: { maxAttempts: 3 } };
 * const convert = activity("convert", async (file: string) => `${file}.webm`, options);
 * const publish = workflow("publish", (ctx, file: string) => ctx.activity(convert, file, { startToClose: "1h" }));
 * const engine = await testEngine({ workflows: [publish], activities: [convert] });
 * console.log(await (await engine.start(publish, "talk")).result()); // "talk.webm"
 * await engine.close();
 * ```
 */
export interface ActivityOptions {
  /**
   * The queue whose workers run the activity.
   * @defaultValue the queue of the run
   */
  queue?: string;
  /**
   * Whose work it is: limits and fairness of its queue depend on it.
   * @defaultValue the key of the run
   */
  key?: string;
  /**
   * Activities with a higher priority are claimed first.
   * @defaultValue the priority of the run
   */
  priority?: number;
  /**
   * How often and when failed attempts are repeated.
   * @defaultValue 10 attempts with exponential backoff from one second
   */
  retry?: RetryPolicy;
  /**
   * Longest duration of one attempt.
   * @defaultValue no limit
   */
  startToClose?: Duration;
  /**
   * Longest time from scheduling to the end, including all attempts.
   * @defaultValue no limit
   */
  scheduleToClose?: Duration;
  /**
   * Longest time that the activity may wait for a worker before its first attempt.
   * @defaultValue no limit
   */
  scheduleToStart?: Duration;
  /**
   * Longest time between two calls of `info.heartbeat()`. An attempt that is silent for longer counts as failed.
   * @defaultValue no heartbeat needed
   */
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
  /** The name under which workers serve it. Calls are recorded with it: renaming an activity strands open calls. */
  readonly name: string;
  /** Its options, frozen. */
  readonly options: ActivityOptions;
  /** The function that does the work. */
  readonly run: (args: A, info: ActivityInfo) => Promise<R>;
}

/**
 * Defines an activity: a named function that workers run on behalf of workflows. Unlike a step it has its own queue, so that it may run in
 * another process, and it can report heartbeats.
 * @throws `InvalidInputError` if the name or an option is invalid.
 * @example
 * ```ts
 * const convert = activity(
 *   "convert",
 *   async (file: string, info) => {
 *     info.heartbeat({ done: 50 });
 *     return `${file}.webm`;
 *   },
 *   { queue: "video", startToClose: "1h", heartbeat: "30s" },
 * );
 * const upload = workflow("upload", (ctx, file: string) => ctx.activity(convert, file));
 * const engine = await testEngine({ workflows: [upload], activities: [convert] });
 * console.log(await (await engine.start(upload, "cat.mp4")).result()); // "cat.mp4.webm"
 * await engine.close();
 * ```
 */
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
  key: true,
  priority: true,
  retry: true,
  startToClose: true,
  scheduleToClose: true,
  scheduleToStart: true,
  heartbeat: true,
};

function checkActivityOptions(findings: Findings, options: ActivityOptions): void {
  findings.gather([], () => checkOptionNames("activity", options, OPTIONS));
  if (options.queue !== undefined) checkName(findings, ["queue"], options.queue);
  findings.gather([], () => checkedKey("activity", options.key));
  findings.gather([], () => checkedPriority("activity", options.priority));
  checkRetry(findings, ["retry"], options.retry);
  checkTimeLimit(findings, ["startToClose"], options.startToClose);
  checkTimeLimit(findings, ["scheduleToClose"], options.scheduleToClose);
  checkTimeLimit(findings, ["scheduleToStart"], options.scheduleToStart);
  checkTimeLimit(findings, ["heartbeat"], options.heartbeat);
}
