// What is run for the operations that a host carries out.
// Owns: nothing; a translation of opening commands.
// Invariants: D8 (who retries, and how often), D11 (activities run in place), M12 K6 (other runs by way of the router); what this host can't
// carry out is found before anything of the turn is written (V4).

import {
  type Activity,
  type ActivityInfo,
  type AnyWorkflow,
  type CarriedOutBy,
  type ChildCommand,
  type Codec,
  carriedOutBy,
  type Executor,
  formatLocation,
  type OpeningCommand,
  parseDuration,
  type RecordedRetry,
  type RetryPolicy,
  RunAlreadyExistsError,
  RunClosedError,
  RunNotFoundError,
  resolveRetry,
  type StepBody,
  type StoredRunRetry,
} from "@holdfast/core";
import { UnsupportedOperationError } from "../errors.ts";
import type { Attempt } from "../storage/contents.ts";
import type { Body, BodyInfo } from "./attempts.ts";
import type { ChildStart, Delivery, Router } from "./router.ts";

// biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
export type AnyActivity = Activity<any, any>;

export interface BodyContext {
  readonly runId: string;
  readonly execution: number;
  /** As it is now: a turn that is taken back has another after it (D9). */
  readonly executor: () => Executor;
  readonly codec: Codec;
  readonly activities: ReadonlyMap<string, AnyActivity>;
  readonly router: Router | undefined;
  readonly attemptsOf: (seq: number) => readonly Attempt[];
}

const ROUTED = carriedOutBy("otherRun");
const EFFECTS = carriedOutBy("worker", "activityWorker", "otherRun");

/** Does the host have something to run for it? */
export function isEffect(command: OpeningCommand): boolean {
  return EFFECTS.has(command.type);
}

/** Why this host, as it was set up, can't carry out a command. */
export function unsupported(command: OpeningCommand, { activities, router }: BodyContext): UnsupportedOperationError | undefined {
  const location = formatLocation(command.unit, command.name, command.n);
  if (command.type === "transaction") {
    const advice = "There is no transaction that the user's writes and the run's could share: use ctx.step with its idempotency key.";
    return new UnsupportedOperationError({ location, what: "a transaction", advice });
  }
  if (command.type === "activity" && !activities.has(command.name)) {
    const advice = `Pass it: runWorkflow({ …, activities: [${command.name}] }). The run is unharmed and goes on then.`;
    return new UnsupportedOperationError({ location, what: `activity "${command.name}", which it does not know`, advice });
  }
  if (ROUTED.has(command.type) && router === undefined) {
    const advice = "A namespace knows no other runs: pass a `router` that does. The run is unharmed and goes on then.";
    return new UnsupportedOperationError({ location, what: `a ${command.type} without a router`, advice });
  }
  return undefined;
}

/** Undefined for what waits for nothing of the host's, and for an operation that is no longer open. */
export function bodyOf(command: OpeningCommand, openedAt: number, context: BodyContext): Body | undefined {
  switch (command.type) {
    case "step":
    case "rollback":
      return stepBody(context.executor().body(command.seq));
    case "activity":
      return activityBody(command, openedAt, context);
    case "signalRun": {
      const { runId, signal, payload, seq } = command;
      const id = `${context.runId}/${context.execution}/${seq}`;
      return routed(`signal to run ${runId}`, context, async (router) =>
        arrived(runId, await router.signal(runId, { id, name: signal, payload })),
      );
    }
    case "cancelRun":
      return routed(`cancel of run ${command.runId}`, context, async (router) =>
        arrived(command.runId, await router.cancel(command.runId, undefined)),
      );
    case "child":
      return routed(`start of child ${command.id}`, context, async (router) => {
        if ((await router.start(childStart(command, context))) === "conflict") throw new RunAlreadyExistsError({ runId: command.id });
      });
    case "transaction":
      return undefined; // `unsupported`
    default:
      command satisfies Exclude<OpeningCommand, CarriedOutBy<"worker" | "activityWorker" | "otherRun">>;
      return undefined;
  }
}

function stepBody(body: StepBody | undefined): Body | undefined {
  if (body === undefined) return undefined;
  const { name, run, retry, timeout } = body;
  return { title: `step ${name}`, name, run: run as (info: BodyInfo) => unknown, retry, timeout };
}

// ── activities ──

type ActivityCommand = Extract<OpeningCommand, { type: "activity" }>;

function activityBody(command: ActivityCommand, openedAt: number, context: BodyContext): Body | undefined {
  const activity = context.activities.get(command.name);
  if (activity === undefined) return undefined;
  const { codec, executor, attemptsOf } = context;
  const { name, seq, input, startToClose, heartbeat, scheduleToClose } = command;
  const run = (info: BodyInfo): unknown => {
    const lastDetails = attemptsOf(seq).findLast(({ details }) => details !== undefined)?.details;
    const activityInfo: ActivityInfo = {
      attempt: info.attempt,
      idempotencyKey: info.idempotencyKey,
      get signal() {
        return info.signal;
      },
      heartbeat: (details) => info.beat(details === undefined ? undefined : executor().encode(details, `what activity ${name} reports`)),
      lastHeartbeat: lastDetails === undefined ? undefined : codec.decode(lastDetails),
    };
    return activity.run(codec.decode(input), activityInfo);
  };
  return {
    title: `activity ${name}`,
    name,
    run,
    retry: activityRetry(command.retry, activity.options.retry),
    timeout: startToClose,
    heartbeat,
    isActivity: true,
    scheduleToClose,
    closeAt: scheduleToClose === undefined ? undefined : openedAt + scheduleToClose,
  };
}
/** The record has all of the policy but a predicate, which only code has. */
function activityRetry(recorded: RecordedRetry | undefined, own: RetryPolicy | undefined): RetryPolicy | undefined {
  if (recorded === undefined) return undefined;
  const { nonRetryable, ...policy } = recorded;
  const named = nonRetryable === "function" ? own?.nonRetryable : nonRetryable;
  return named === undefined ? policy : { ...policy, nonRetryable: named };
}

// ── other runs ──

/** Whether a message got through is for the host to find out, however long it takes; what can't be is an answer. */
const UNTIL_ANSWERED: RetryPolicy = {
  maxAttempts: Number.POSITIVE_INFINITY,
  nonRetryable: ["RunNotFoundError", "RunClosedError", "RunAlreadyExistsError", "LimitExceededError", "InvalidInputError"],
};

function routed(title: string, { router }: BodyContext, call: (router: Router) => Promise<void>): Body | undefined {
  return router === undefined ? undefined : { title, name: title, run: () => call(router), retry: UNTIL_ANSWERED };
}
function arrived(runId: string, delivery: Delivery): void {
  if (delivery === "not-found") throw new RunNotFoundError({ runId });
  if (delivery === "closed") throw new RunClosedError({ runId, status: "closed" });
}
function childStart(command: ChildCommand, { executor, runId, execution }: BodyContext): ChildStart {
  // What the call leaves open, the child's definition decides, as for any start.
  const { retry, deadline } = executor().childWorkflow(command.seq)?.options ?? {};
  const ownDeadline = deadline === undefined || command.deadlineAt !== undefined ? undefined : parseDuration(deadline);
  return {
    id: command.id,
    workflow: command.name,
    version: command.version,
    input: command.input,
    parent: { runId, execution, seq: command.seq },
    deadline: command.deadline ?? ownDeadline,
    deadlineAt: command.deadlineAt,
    retry: command.retry === undefined ? storedRetry(retry) : storedRetry(withoutPredicate(command.retry)),
    queue: command.queue,
    priority: command.priority,
    attributes: command.attributes ?? {},
    onConflict: command.onConflict ?? "reject",
  };
}
function withoutPredicate({ nonRetryable, ...policy }: RecordedRetry): RetryPolicy {
  return Array.isArray(nonRetryable) ? { ...policy, nonRetryable: nonRetryable as readonly string[] } : policy;
}
/** Retry of a run as a whole, as its head keeps it. */
export function storedRetry(retry: RetryPolicy | undefined): StoredRunRetry | undefined {
  if (retry === undefined) return undefined;
  const resolved = resolveRetry(retry, "run");
  return Array.isArray(retry.nonRetryable) ? { ...resolved, nonRetryable: retry.nonRetryable as readonly string[] } : resolved;
}

/** Of runs without a version, too (V2). */
export function serves({ version, options }: AnyWorkflow, wanted: string | undefined): boolean {
  return wanted === version || options.serves === "*" || (wanted !== undefined && options.serves?.includes(wanted) === true);
}
