// Runs what a run asks for: bodies of steps, activities, calls of the router. Attempts, timeouts, aborts.
// Owns: the attempts in flight of one run.
// Invariants: D1 (only what is durable is started: callers write first), D7 D8 (attempts count, retries by policy), C7 (an abandoned body is
// told, and its late result dropped).

import {
  type ActivityLimit,
  askedWait,
  isRetryable,
  type Logger,
  messageOf,
  type Outcome,
  type Payload,
  quietController,
  type RetryPolicy,
  resolveRetry,
  retryDelay,
  type SerializedError,
  StepTimeoutError,
  serializeError,
} from "@holdfast/core";
import type { Environment, Timer } from "../environment.ts";

/** What is run for an operation. */
export interface Body {
  /** In words: "step charge". */
  readonly title: string;
  readonly name: string;
  readonly run: (info: BodyInfo) => unknown;
  readonly retry: RetryPolicy | undefined;
  readonly isActivity?: boolean;
  /** Of one attempt, in milliseconds. */
  readonly timeout?: number | undefined;
  /** Of an activity: it must beat at least this often. */
  readonly heartbeat?: number | undefined;
  /** Of an activity: all attempts together, as a moment, and how long that was. */
  readonly closeAt?: number | undefined;
  readonly scheduleToClose?: number | undefined;
}
export interface BodyInfo {
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
  /** Of activities. */
  readonly beat: (details: Payload | undefined) => void;
}

/** One attempt in flight. What its body is given is a view of it. */
export class Running {
  readonly seq: number;
  readonly number: number;
  /** Attempts that a resume has forgiven: the policy counts from there (D10). */
  readonly forgiven: number;
  readonly startedAt: number;
  readonly body: Body;
  readonly idempotencyKey: string;
  timer: Timer | undefined = undefined;
  close: Timer | undefined = undefined;
  pulse: Timer | undefined = undefined;
  details: Payload | undefined = undefined;
  dropped = false;
  /** Made when the body asks for its signal, or is aborted before that: most never do. */
  #controller: AbortController | undefined = undefined;
  readonly #logger: Logger;

  constructor(seq: number, number: number, forgiven: number, startedAt: number, body: Body, idempotencyKey: string, logger: Logger) {
    this.#logger = logger;
    this.seq = seq;
    this.number = number;
    this.forgiven = forgiven;
    this.startedAt = startedAt;
    this.body = body;
    this.idempotencyKey = idempotencyKey;
  }
  get controller(): AbortController {
    // X11: what a listener throws is a line in the log, and ends nothing.
    this.#controller ??= quietController((error) => {
      const message = `A listener of the signal of ${this.body.title} failed: ${messageOf(error)}. Handle errors inside the listener.`;
      this.#logger.warn(message, {});
    });
    return this.#controller;
  }
  stopTimers(): void {
    this.timer?.cancel();
    this.close?.cancel();
    this.pulse?.cancel();
  }
}

class Info implements BodyInfo {
  readonly #running: Running;
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly beat: (details: Payload | undefined) => void;

  constructor(running: Running, beat: (details: Payload | undefined) => void) {
    this.#running = running;
    this.attempt = running.number;
    this.idempotencyKey = running.idempotencyKey;
    this.beat = beat;
  }
  get signal(): AbortSignal {
    return this.#running.controller.signal;
  }
}

export type AttemptEnd =
  | { readonly type: "settled"; readonly attempt: Running; readonly outcome: Outcome }
  /** Failed, to be tried again after `delay`. */
  | { readonly type: "retry"; readonly attempt: Running; readonly error: SerializedError; readonly delay: number };

export interface AttemptsOptions {
  readonly environment: Environment;
  readonly encode: (value: unknown, what: string) => Payload;
  readonly onEnd: (end: AttemptEnd) => void;
  readonly logger: Logger;
}

export class Attempts {
  readonly #options: AttemptsOptions;
  readonly #inFlight = new Map<number, Running>();

  constructor(options: AttemptsOptions) {
    this.#options = options;
  }
  get size(): number {
    return this.#inFlight.size;
  }

  start(seq: number, body: Body, number: number, forgiven: number, idempotencyKey: string): void {
    const { environment, logger } = this.#options;
    const attempt = new Running(seq, number, forgiven, environment.now(), body, idempotencyKey, logger);
    this.#inFlight.set(seq, attempt);
    const { timeout, heartbeat, closeAt, scheduleToClose = 0 } = body;
    if (timeout !== undefined) attempt.timer = this.#limit(attempt, body.isActivity ? "startToClose" : undefined, timeout);
    if (heartbeat !== undefined) attempt.pulse = this.#limit(attempt, "heartbeat", heartbeat);
    if (closeAt !== undefined) attempt.close = this.#limit(attempt, "scheduleToClose", scheduleToClose, closeAt - attempt.startedAt);
    void this.#run(attempt);
  }
  async #run(attempt: Running): Promise<void> {
    await undefined; // a fresh start: a body that throws at once is an attempt like others
    let value: unknown;
    try {
      value = await attempt.body.run(new Info(attempt, (details) => this.#beat(attempt, details)));
    } catch (error) {
      return this.#failed(attempt, error);
    }
    this.#succeeded(attempt, value);
  }
  #limit(attempt: Running, limit: ActivityLimit | undefined, timeout: number, left = timeout): Timer {
    return this.#options.environment.after(left, () => {
      const details = { step: attempt.body.name, timeout, attempt: attempt.number };
      const error = new StepTimeoutError(limit === undefined ? details : { ...details, limit });
      attempt.controller.abort(error);
      this.#failed(attempt, error);
    });
  }
  #beat(attempt: Running, details: Payload | undefined): void {
    if (attempt.dropped || this.#inFlight.get(attempt.seq) !== attempt) return;
    attempt.details = details;
    attempt.pulse?.cancel();
    const { heartbeat } = attempt.body;
    if (heartbeat !== undefined) attempt.pulse = this.#limit(attempt, "heartbeat", heartbeat);
  }

  #take(attempt: Running): boolean {
    attempt.stopTimers();
    if (attempt.dropped || this.#inFlight.get(attempt.seq) !== attempt) return false;
    this.#inFlight.delete(attempt.seq);
    return true;
  }
  #succeeded(attempt: Running, value: unknown): void {
    if (!this.#take(attempt)) return;
    let outcome: Outcome;
    try {
      outcome = { status: "completed", value: this.#options.encode(value, `the result of ${attempt.body.title}`) };
    } catch (error) {
      // P8: it has run; running it again would not help.
      outcome = { status: "failed", error: serializeError(error), attempts: attempt.number };
    }
    this.#options.onEnd({ type: "settled", attempt, outcome });
  }
  #failed(attempt: Running, error: unknown): void {
    if (!this.#take(attempt)) return;
    const serialized = serializeError(error);
    const { environment } = this.#options;
    const { retry, closeAt = Number.POSITIVE_INFINITY } = attempt.body;
    const delay = retryAfter(retry, attempt.number - attempt.forgiven, error, environment.random());
    if (delay === undefined || environment.now() + delay >= closeAt) {
      this.#options.onEnd({ type: "settled", attempt, outcome: { status: "failed", error: serialized, attempts: attempt.number } });
    } else this.#options.onEnd({ type: "retry", attempt, error: serialized, delay });
  }

  /** The workflow gave it up (C7), or with `join` only tells it. */
  cancel(seq: number, reason: unknown, join: boolean): void {
    const attempt = this.#inFlight.get(seq);
    if (attempt === undefined) return;
    attempt.controller.abort(reason);
    if (!join) this.#drop(attempt);
  }
  /** The run is over, or leaves this process: nobody wants any of it. */
  abandonAll(reason: unknown): void {
    for (const attempt of [...this.#inFlight.values()]) {
      attempt.controller.abort(reason);
      this.#drop(attempt);
    }
  }
  #drop(attempt: Running): void {
    attempt.dropped = true;
    attempt.stopTimers();
    this.#inFlight.delete(attempt.seq);
  }
}

/** Milliseconds until the next attempt after `attempt` of them; undefined if there is none. */
export function retryAfter(retry: RetryPolicy | undefined, attempt: number, error: unknown, random: number): number | undefined {
  const policy = resolveRetry(retry, "operation");
  if (attempt >= policy.maxAttempts || !isRetryable(error, retry)) return undefined;
  return askedWait(error) ?? retryDelay(policy, attempt, random);
}
