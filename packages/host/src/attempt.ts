// One attempt of an operation: runs its body, enforces its time limits, and determines its outcome.
// Owns: the attempt's abort signal and timers. The host owns attempt numbers and retries.
// Invariants: C7 (an abandoned body is notified through its signal, and its late result is dropped), D11 (time limits of activities), X11
// (an error thrown by a listener of the signal is logged and stops nothing).

import {
  type ActivityLimit,
  type ChildStartedJob,
  HoldfastError,
  type Logger,
  messageOf,
  type Outcome,
  type Payload,
  quietController,
  type RetryPolicy,
  type SerializedError,
  type StepInfo,
  StepTimeoutError,
  serializeError,
} from "@holdfast/core";
import type { Environment, Timer } from "./environment.ts";

/** An attempt as hosts store it. A first attempt that succeeds at once has no row. */
export interface AttemptRow {
  /** The number of the operation. */
  readonly seq: number;
  /** The number of the attempt, from 1. */
  readonly number: number;
  /** How it ended. "lost": its worker never reported back. */
  readonly status: "running" | "failed" | "completed" | "lost";
  /** Why it failed. */
  readonly error?: SerializedError | undefined;
  /** When it began, in milliseconds since 1970. */
  readonly startedAt: number;
  /** When it ended, in milliseconds since 1970. Absent: it is running. */
  readonly endedAt?: number | undefined;
  /** Empty means the worker that recorded the operation. */
  readonly workerId: string;
  /** For a failed attempt: when the next one is due (D8). */
  readonly retryAt?: number | undefined;
  /** For an activity: the details of its last heartbeat. */
  readonly details?: Payload | undefined;
}

/** The same, for hosts that have no separate workers. */
export type StoredAttempt = Omit<AttemptRow, "workerId"> & {
  /** The worker that ran it, if it is known. */
  readonly workerId?: string | undefined;
};

/** What the host runs for an operation. A `StepBody` is one. */
export interface Body {
  /** The name of the step or activity. */
  readonly name: string;
  /** Called with the attempt's info. The body of an activity also gets a function that sends heartbeats. */
  readonly run: (...args: never[]) => unknown;
  /** Its retry policy. */
  readonly retry: RetryPolicy | undefined;
  /** Time limit of one attempt, in milliseconds. */
  readonly timeout?: number | undefined;
  /**
   * The name used in messages.
   * @defaultValue "step" and the name
   */
  readonly title?: string | undefined;
  /** True for an error after which another attempt would do harm, whatever the policy says. */
  readonly isFinal?: ((error: unknown) => boolean) | undefined;
  /** Set if the body's completion does not settle the operation: it is recorded, and this job, if any, is delivered. */
  readonly announces?:
    | {
        /** The job that is delivered once the body has completed. Undefined: none is. */
        readonly job: ChildStartedJob | undefined;
      }
    | undefined;
  /** The time limits, if it is an activity. */
  readonly activity?: ActivityLimits | undefined;
}
/** The time limits of an activity, in milliseconds. */
export interface ActivityLimits {
  /** Longest time between two heartbeats, in milliseconds. */
  readonly heartbeat?: number | undefined;
  /** When all attempts together must have ended, in milliseconds since 1970. */
  readonly closeAt?: number | undefined;
  /** The duration that `closeAt` results from, for the error. */
  readonly scheduleToClose?: number | undefined;
}
export function titleOf({ title, name }: Body): string {
  return title ?? `step ${name}`;
}
/** Sends a heartbeat of an activity. */
export type Report = (details: Payload) => void;

/** D6: returned by a body whose outcome is already durable. */
export class Recorded {
  /** Delivers the outcome to the run. */
  readonly deliver: () => void;
  constructor(deliver: () => void) {
    this.deliver = deliver;
  }
}

/** The same for every attempt of one operation, and different for every operation. */
export function idempotencyKeyOf(runId: string, execution: number, location: string): string {
  return execution === 1 ? `${runId}/${location}` : `${runId}/~${execution}/${location}`;
}

/** X11: an abort controller whose listeners can't crash the process: their errors are logged. */
export function quietControllerOf(logger: Logger, of: string): AbortController {
  return quietController((error) =>
    logger.warn(`An abort listener of ${of} failed: ${messageOf(error)}. Handle errors inside the listener.`, {}),
  );
}

/** What an attempt needs from its host. */
export interface AttemptHost {
  /** Its timers. */
  readonly environment: Pick<Environment, "after">;
  /** Where messages go. */
  readonly logger: Logger;
  /** The body has returned this value. Of `completed` and `failed` one is called, once, unless the attempt was dropped before. */
  completed(attempt: Attempt, value: unknown): void;
  /** The body has thrown, or a time limit has passed. */
  failed(attempt: Attempt, error: unknown): void;
}

/** One attempt of a step or activity that runs in this process. */
export class Attempt {
  /** The number of its operation. */
  readonly seq: number;
  /** The number of the attempt, from 1. */
  readonly number: number;
  /** When it began, in milliseconds since 1970. */
  readonly startedAt: number;
  /** What it runs. */
  readonly body: Body;
  /** Details of the activity's last heartbeat. */
  details: Payload | undefined = undefined;
  readonly #host: AttemptHost;
  readonly #key: () => string;
  #isOver = false;
  /** Created when the body reads its signal, or when the attempt is aborted before that: most bodies never read it. */
  #controller: AbortController | undefined = undefined;
  #timeout: Timer | undefined = undefined;
  #closing: Timer | undefined = undefined;
  #silence: Timer | undefined = undefined;

  constructor(host: AttemptHost, seq: number, number: number, startedAt: number, body: Body, key: () => string) {
    this.#host = host;
    this.seq = seq;
    this.number = number;
    this.startedAt = startedAt;
    this.body = body;
    this.#key = key;
  }
  #control(): AbortController {
    this.#controller ??= quietControllerOf(this.#host.logger, titleOf(this.body));
    return this.#controller;
  }

  /** Runs the body. */
  start(): void {
    const { timeout, activity } = this.body;
    if (timeout !== undefined) this.#timeout = this.#limit(activity === undefined ? undefined : "startToClose", timeout);
    if (activity?.heartbeat !== undefined) this.#silence = this.#limit("heartbeat", activity.heartbeat);
    if (activity?.closeAt !== undefined)
      this.#closing = this.#limit("scheduleToClose", activity.scheduleToClose ?? 0, activity.closeAt - this.startedAt);
    void this.#run();
  }
  /** A body that throws synchronously is a failed attempt like any other. */
  async #run(): Promise<void> {
    const run = this.body.run as (info: StepInfo, report?: Report) => unknown;
    let value: unknown;
    try {
      value = await (this.body.activity === undefined ? run(this.#info()) : run(this.#info(), (details) => this.#report(details)));
    } catch (error) {
      if (this.#end()) this.#host.failed(this, error);
      return;
    }
    if (this.#end()) this.#host.completed(this, value);
  }
  /** Own properties, because a body may pass on a copy (`{ ...info }`). The key and the signal are created when they are first read. */
  #info(): StepInfo {
    const attempt = this;
    return {
      attempt: attempt.number,
      get idempotencyKey() {
        return attempt.#key();
      },
      get signal() {
        return attempt.#control().signal;
      },
    };
  }
  #limit(limit: ActivityLimit | undefined, timeout: number, left = timeout): Timer {
    return this.#host.environment.after(left, () => {
      if (this.#isOver) return;
      const details = { step: this.body.name, timeout, attempt: this.number };
      const error = new StepTimeoutError(limit === undefined ? details : { ...details, limit });
      this.#control().abort(error);
      if (this.#end()) this.#host.failed(this, error);
    });
  }
  #report(details: Payload): void {
    if (this.#isOver) return;
    this.details = details;
    const heartbeat = this.body.activity?.heartbeat;
    if (heartbeat === undefined) return;
    this.#silence?.cancel();
    this.#silence = this.#limit("heartbeat", heartbeat);
  }

  /** Aborts the signal of the body. Its result still counts; see `drop`. */
  abort(reason: unknown): void {
    this.#control().abort(reason);
  }
  /** From now on the body's result is ignored. */
  drop(): void {
    this.#end();
  }
  /** Returns false if the attempt had already ended. */
  #end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#timeout?.cancel();
    this.#closing?.cancel();
    this.#silence?.cancel();
    return true;
  }
}

/** D7: the error of an attempt that never reported back. */
export function workerLost(attempt: number): HoldfastError {
  return new HoldfastError(`The process that ran attempt ${attempt} stopped before it stored the outcome.`, {
    code: "HF_WORKER_LOST",
  });
}

/** P8: a value that can't be encoded fails the operation: the body has run, running it again would not help, and the error says so. */
export function outcomeOf(attempt: Attempt, value: unknown, encode: (value: unknown, what: string) => Payload): Outcome {
  try {
    return { status: "completed", value: encode(value, `the result of ${titleOf(attempt.body)}, which has run,`) };
  } catch (error) {
    return failureOf(attempt, serializeError(error));
  }
}
/** The outcome of an operation whose last attempt failed with this error. */
export function failureOf({ number }: Attempt, error: SerializedError): Outcome {
  return { status: "failed", error, attempts: number };
}
