// One attempt of an operation: the body that runs, what it is told, its limits, its outcome.
// Owns: the attempt's signal and timers.
// Invariants: C7 (an abandoned body is told by its signal, and its late result is dropped), D11 (limits of an activity), X11 (what a
// listener of the signal throws is logged and ends nothing). Which number an attempt has and what follows its failure is the host's.

import {
  type ActivityLimit,
  type ChildStartedJob,
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

/** An attempt as hosts store it. The first attempt that completes at once has none. */
export interface AttemptRow {
  readonly seq: number;
  readonly number: number;
  readonly status: "running" | "failed" | "completed" | "lost";
  readonly error?: SerializedError | undefined;
  readonly startedAt: number;
  readonly endedAt?: number | undefined;
  /** Empty: the worker that recorded the operation. */
  readonly workerId: string;
  /** Of a failed one: when the next is due (D8). */
  readonly retryAt?: number | undefined;
  /** Of an activity: what it reported last. */
  readonly details?: Payload | undefined;
}

/** The same where a host has no workers to tell apart. */
export type StoredAttempt = Omit<AttemptRow, "workerId"> & { readonly workerId?: string | undefined };

/** What is run for an operation: a `StepBody` is one. */
export interface Body {
  readonly name: string;
  /** Called with what it is told; that of an activity also with how to report. */
  readonly run: (...args: never[]) => unknown;
  readonly retry: RetryPolicy | undefined;
  /** Of one attempt, in milliseconds. */
  readonly timeout?: number | undefined;
  /** In words. Default: "step" and the name. */
  readonly title?: string | undefined;
  /** An error after which another attempt would do harm, whatever the policy says. */
  readonly isFinal?: ((error: unknown) => boolean) | undefined;
  /** Its completion does not settle the operation: it is noted, and this job, if there is one, is delivered. */
  readonly announces?: { readonly job: ChildStartedJob | undefined } | undefined;
  readonly activity?: ActivityLimits | undefined;
}
export interface ActivityLimits {
  /** It must report at least this often, in milliseconds. */
  readonly heartbeat?: number | undefined;
  /** All attempts together: as a moment, and how long that was. */
  readonly closeAt?: number | undefined;
  readonly scheduleToClose?: number | undefined;
}
export function titleOf({ title, name }: Body): string {
  return title ?? `step ${name}`;
}
/** How an activity reports. */
export type Report = (details: Payload) => void;

/** D6: what a body returns whose outcome is durable already. */
export class Recorded {
  /** Hands the outcome to the run. */
  readonly deliver: () => void;
  constructor(deliver: () => void) {
    this.deliver = deliver;
  }
}

/** The same for every attempt of the operation, and other for every operation. */
export function idempotencyKeyOf(runId: string, execution: number, location: string): string {
  return execution === 1 ? `${runId}/${location}` : `${runId}/~${execution}/${location}`;
}

/** X11: a controller whose listeners end nothing. */
export function quietControllerOf(logger: Logger, of: string): AbortController {
  return quietController((error) =>
    logger.warn(`A listener of the signal of ${of} failed: ${messageOf(error)}. Handle errors inside the listener.`, {}),
  );
}

/** Where attempts run. */
export interface AttemptHost {
  readonly environment: Pick<Environment, "after">;
  readonly logger: Logger;
  /** Once, unless the attempt was dropped before. */
  completed(attempt: Attempt, value: unknown): void;
  failed(attempt: Attempt, error: unknown): void;
}

export class Attempt {
  readonly seq: number;
  readonly number: number;
  readonly startedAt: number;
  readonly body: Body;
  /** What an activity reported last. */
  details: Payload | undefined = undefined;
  readonly #host: AttemptHost;
  readonly #key: () => string;
  #isOver = false;
  /** Made when the body asks for its signal, or is aborted before that: most never do. */
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

  start(): void {
    const { timeout, activity } = this.body;
    if (timeout !== undefined) this.#timeout = this.#limit(activity === undefined ? undefined : "startToClose", timeout);
    if (activity?.heartbeat !== undefined) this.#silence = this.#limit("heartbeat", activity.heartbeat);
    if (activity?.closeAt !== undefined)
      this.#closing = this.#limit("scheduleToClose", activity.scheduleToClose ?? 0, activity.closeAt - this.startedAt);
    void this.#run();
  }
  /** A body that throws at once is an attempt like others. */
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
  /** Own properties: a body may hand on a copy (`{ ...info }`). The key and the signal are made when it asks for them. */
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

  /** Tells the body. */
  abort(reason: unknown): void {
    this.#control().abort(reason);
  }
  /** Its result is not wanted any more. */
  drop(): void {
    this.#end();
  }
  /** False: it was over before. */
  #end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#timeout?.cancel();
    this.#closing?.cancel();
    this.#silence?.cancel();
    return true;
  }
}

/** P8: a value that can't be encoded fails the operation: it has run, and running it again would not help. */
export function outcomeOf(attempt: Attempt, value: unknown, encode: (value: unknown, what: string) => Payload): Outcome {
  try {
    return { status: "completed", value: encode(value, `the result of ${titleOf(attempt.body)}`) };
  } catch (error) {
    return failureOf(attempt, serializeError(error));
  }
}
export function failureOf({ number }: Attempt, error: SerializedError): Outcome {
  return { status: "failed", error, attempts: number };
}
