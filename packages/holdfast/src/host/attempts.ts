// Runs the bodies of steps: attempts, timeouts, aborts.
// Owns: the attempts in flight of one run.
// Invariants: D1 (only what is durable is started: callers commit first), D7 D8 (attempts count, retries by policy), C7 (an abandoned
// body is told and its late result dropped), D4 (a lost claim aborts them all).

import {
  askedWait,
  type Codec,
  HoldfastError,
  isError,
  isInstance,
  isRetryable,
  type Logger,
  messageOf,
  type Outcome,
  quietController,
  resolveRetry,
  retryDelay,
  type SerializedError,
  type StepBody,
  StepTimeoutError,
  serializeError,
} from "@holdfast/core";
import type { Environment, Timer } from "@holdfast/host";
import type { InboxMessage } from "../store/port.ts";

export interface Attempt {
  readonly seq: number;
  readonly number: number;
  /** Attempts that a resume has forgiven: the policy counts from there (D10). */
  readonly forgiven: number;
  readonly startedAt: number;
  readonly body: StepBody;
  /** Made when the body asks for its signal, or is aborted before that: most never do. */
  controller: AbortController | undefined;
  timer: Timer | undefined;
  /** Its result is no longer wanted. */
  dropped: boolean;
}

/** What a body returns whose outcome is durable already: a transaction's, as a message in the inbox (D6). */
export class Recorded {
  readonly message: InboxMessage;
  constructor(message: InboxMessage) {
    this.message = message;
  }
}

export type AttemptEnd =
  | { readonly type: "recorded"; readonly attempt: Attempt; readonly message: InboxMessage }
  | { readonly type: "settled"; readonly attempt: Attempt; readonly outcome: Outcome }
  /** Failed, to be tried again after `delay`. */
  | { readonly type: "retry"; readonly attempt: Attempt; readonly error: SerializedError; readonly delay: number };

export interface AttemptsOptions {
  readonly environment: Environment;
  readonly codec: Codec;
  readonly encode: (value: unknown, what: string) => ReturnType<Codec["encode"]>;
  readonly now: () => number;
  readonly onEnd: (end: AttemptEnd) => void;
  readonly logger: Logger;
  /** Stand-ins for bodies, by the name of the step (tests). */
  readonly replace?: ((name: string) => ((info: unknown) => unknown) | undefined) | undefined;
}

/** X11: what a listener of its signal throws is a line in the log, and ends nothing. */
function warnOfListener(logger: Logger, of: string): (error: unknown) => void {
  return (error) => logger.warn(`A listener of the signal of ${of} failed: ${messageOf(error)}. Handle errors inside the listener.`, {});
}
export function quietControllerOf(logger: Logger, of: string): AbortController {
  return quietController(warnOfListener(logger, of));
}

export class Attempts {
  readonly #options: AttemptsOptions;
  readonly #inFlight = new Map<number, Attempt>();

  constructor(options: AttemptsOptions) {
    this.#options = options;
  }
  /** Attempts that somebody waits for. */
  get size(): number {
    return this.#inFlight.size;
  }
  get running(): Iterable<Attempt> {
    return this.#inFlight.values();
  }

  start(seq: number, body: StepBody, number: number, forgiven: number, idempotencyKey: () => string): void {
    const { environment, now } = this.#options;
    const attempt: Attempt = {
      seq,
      number,
      forgiven,
      startedAt: now(),
      body,
      controller: undefined,
      timer: undefined,
      dropped: false,
    };
    this.#inFlight.set(seq, attempt);
    if (body.timeout !== undefined) {
      const { timeout } = body;
      attempt.timer = environment.after(timeout, () => {
        const error = new StepTimeoutError({ step: body.name, timeout, attempt: number });
        this.#controllerOf(attempt).abort(error);
        this.#failed(attempt, error);
      });
    }
    const controller = () => this.#controllerOf(attempt);
    // Own properties: a body may hand on a copy (`{ ...info }`). The key and the signal are made when it asks for them.
    const info = {
      attempt: number,
      get idempotencyKey() {
        return idempotencyKey();
      },
      get signal() {
        return controller().signal;
      },
    };
    void this.#run(attempt, info);
  }
  #controllerOf(attempt: Attempt): AbortController {
    attempt.controller ??= quietControllerOf(this.#options.logger, `step ${attempt.body.name}`);
    return attempt.controller;
  }
  /** A body that throws at once is an attempt like others. */
  async #run(attempt: Attempt, info: object): Promise<void> {
    const { body } = attempt;
    const run = (this.#options.replace?.(body.name) ?? body.run) as (info: object) => unknown;
    let value: unknown;
    try {
      value = await run(info);
    } catch (error) {
      return this.#failed(attempt, error);
    }
    this.#succeeded(attempt, value);
  }

  #take(attempt: Attempt): boolean {
    attempt.timer?.cancel();
    if (attempt.dropped || this.#inFlight.get(attempt.seq) !== attempt) return false;
    this.#inFlight.delete(attempt.seq);
    return true;
  }
  #succeeded(attempt: Attempt, value: unknown): void {
    if (!this.#take(attempt)) return;
    if (value instanceof Recorded) return this.#options.onEnd({ type: "recorded", attempt, message: value.message });
    let outcome: Outcome;
    try {
      outcome = { status: "completed", value: this.#options.encode(value, `the result of step ${attempt.body.name}`) };
    } catch (error) {
      // P8: it has run; running it again would not help.
      outcome = { status: "failed", error: serializeError(error), attempts: attempt.number };
    }
    this.#options.onEnd({ type: "settled", attempt, outcome });
  }
  #failed(attempt: Attempt, error: unknown): void {
    if (!this.#take(attempt)) return;
    const serialized = serializeError(error);
    const delay = retryAfter(attempt.body, attempt.number - attempt.forgiven, error, this.#options.environment.random());
    if (delay === undefined) {
      this.#options.onEnd({ type: "settled", attempt, outcome: { status: "failed", error: serialized, attempts: attempt.number } });
    } else this.#options.onEnd({ type: "retry", attempt, error: serialized, delay });
  }

  /** The workflow gave it up (C7), or with `join` only tells it. */
  cancel(seq: number, reason: unknown, join: boolean): void {
    const attempt = this.#inFlight.get(seq);
    if (attempt === undefined) return;
    this.#controllerOf(attempt).abort(reason);
    if (!join) this.#drop(attempt);
  }
  /** It has ended as others know already: what it still has to say is dropped. */
  forget(seq: number): Attempt | undefined {
    const attempt = this.#inFlight.get(seq);
    if (attempt !== undefined) this.#drop(attempt);
    return attempt;
  }
  /** The claim is lost or the run is over: nobody wants any of it. */
  abandonAll(reason: unknown): Attempt[] {
    const attempts = [...this.#inFlight.values()];
    for (const attempt of attempts) {
      this.#controllerOf(attempt).abort(reason);
      this.#drop(attempt);
    }
    return attempts;
  }
  #drop(attempt: Attempt): void {
    attempt.dropped = true;
    attempt.timer?.cancel();
    this.#inFlight.delete(attempt.seq);
  }
}

/** Milliseconds until the next attempt after `attempt` of them; undefined if there is none. */
export function retryAfter(body: StepBody, attempt: number, error: unknown, random: number): number | undefined {
  const policy = resolveRetry(body.retry, "operation");
  if (attempt >= policy.maxAttempts || !isRetryable(error, body.retry)) return undefined;
  if (body.kind === "transaction" && isMisuse(error)) return undefined;
  return askedWait(error) ?? retryDelay(policy, attempt, random);
}

/** D6: a body that has ended its transaction by itself, or was about to, would do so again, and may have written something. */
function isMisuse(error: unknown): boolean {
  const seen = new Set<unknown>(); // libraries wrap what `tx` has thrown
  for (let at = error; isError(at) && !seen.has(at); at = causeOf(at)) {
    if (isInstance(at, HoldfastError) && at.code === "HF_STORE_TRANSACTION") return true;
    seen.add(at);
  }
  return false;
}
/** Code throws what it likes: reading it may throw, too. */
function causeOf(error: Error): unknown {
  try {
    return error.cause;
  } catch {
    return undefined;
  }
}
