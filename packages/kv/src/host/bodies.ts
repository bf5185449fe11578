// What this host runs for operations.
// Owns: nothing; it translates opening commands.
// Invariants: D8 (retries), D11 (activities run in this process), M12 K6 (other runs are reached through the router); an operation that
// this host can't run is found before anything of the turn is written (V4).

import {
  type CarriedOutBy,
  type ChildCommand,
  type Codec,
  carriedOutBy,
  type Executor,
  formatLocation,
  type OpeningCommand,
  type RetryPolicy,
  RunAlreadyExistsError,
  RunClosedError,
  RunNotFoundError,
  type StepInfo,
} from "@holdfast/core";
import { type AnyActivity, activityRetry, type Body, childStartOf, type Report, runActivity } from "@holdfast/host";
import { UnsupportedOperationError } from "../errors.ts";
import type { ChildStart, Delivery, Router } from "../router.ts";
import type { Attempt } from "../storage/contents.ts";

export interface BodyContext {
  readonly runId: string;
  readonly execution: number;
  /** The current executor: a turn that is taken back gets a new one (D9). */
  readonly executor: () => Executor;
  readonly codec: Codec;
  readonly activities: ReadonlyMap<string, AnyActivity>;
  readonly router: Router | undefined;
  readonly attemptsOf: (seq: number) => readonly Attempt[];
}

const ROUTED = carriedOutBy("otherRun");
/** The kinds of operations that this host runs. */
export const CARRIED = carriedOutBy("worker", "activityWorker", "otherRun");

/** The error for a command that this host, as configured, can't run. */
export function unsupported(command: OpeningCommand, { activities, router }: BodyContext): UnsupportedOperationError | undefined {
  const location = formatLocation(command.unit, command.name, command.n);
  if (command.type === "transaction") {
    const advice = "Your writes and the run's writes can't share a transaction here: use ctx.step with its idempotency key.";
    return new UnsupportedOperationError({ location, what: "a transaction", advice });
  }
  if (command.type === "activity" && !activities.has(command.name)) {
    const advice = `Pass it: runWorkflow({ …, activities: [${command.name}] }). The run is unharmed, and continues then.`;
    return new UnsupportedOperationError({ location, what: `activity "${command.name}", which it does not know`, advice });
  }
  if (ROUTED.has(command.type) && router === undefined) {
    const advice = "A namespace knows no other runs: pass a `router`. The run is unharmed, and continues then.";
    return new UnsupportedOperationError({ location, what: `a ${command.type} without a router`, advice });
  }
  return undefined;
}

/** Undefined for operations that need nothing from the host, and for an operation that is no longer open. */
export function bodyOf(command: OpeningCommand, openedAt: number, context: BodyContext): Body | undefined {
  switch (command.type) {
    case "step":
    case "rollback":
      return context.executor().body(command.seq);
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
      return childBody(command, context);
    case "transaction":
      return undefined; // `unsupported`
    default:
      command satisfies Exclude<OpeningCommand, CarriedOutBy<"worker" | "activityWorker" | "otherRun">>;
      return undefined;
  }
}

type ActivityCommand = Extract<OpeningCommand, { type: "activity" }>;

function activityBody(command: ActivityCommand, openedAt: number, context: BodyContext): Body | undefined {
  const activity = context.activities.get(command.name);
  if (activity === undefined) return undefined;
  const { codec, executor, attemptsOf } = context;
  const { name, seq, input, startToClose, heartbeat, scheduleToClose } = command;
  const run = (info: StepInfo, report: Report): unknown => {
    const lastHeartbeat = attemptsOf(seq).findLast(({ details }) => details !== undefined)?.details;
    const encode = (value: unknown, what: string) => executor().encode(value, what);
    return runActivity(activity.run, { name, input, lastHeartbeat }, info, report, { codec, encode });
  };
  const closeAt = scheduleToClose === undefined ? undefined : openedAt + scheduleToClose;
  return {
    title: `activity ${name}`,
    name,
    run,
    retry: activityRetry(command.retry, activity.options.retry),
    timeout: startToClose,
    activity: { heartbeat, scheduleToClose, closeAt },
  };
}

// ── other runs ──

/** Delivery to other runs is retried until it succeeds; errors that can't pass are the answer. */
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
/** Running it starts the child. The child's outcome is a separate message. */
function childBody(command: ChildCommand, context: BodyContext): Body | undefined {
  const { id, seq, detached } = command;
  const body = routed(`start of child ${id}`, context, async (router) => {
    if ((await router.start(startOf(command, context))) === "conflict") throw new RunAlreadyExistsError({ runId: id });
  });
  return body && { ...body, announces: { job: detached === true ? { type: "childStarted", seq, runId: id } : undefined } };
}
function startOf(command: ChildCommand, { executor, runId, execution }: BodyContext): ChildStart {
  const { seq, queue, priority } = command;
  return { ...childStartOf(command, executor().childWorkflow(seq)), parent: { runId, execution, seq }, queue, priority };
}
