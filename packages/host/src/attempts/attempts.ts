// The attempts of one run that are in flight.
// Owns: the set of these attempts, and what follows when one ends: an outcome or another attempt.
// Invariants: D1 (callers start an attempt only after its record is durable), D7 D8 (attempts are counted and retried by policy), C7 (an
// abandoned attempt settles nothing).

import {
  askedWait,
  isRetryable,
  type Logger,
  type Outcome,
  type Payload,
  resolveRetry,
  retryDelay,
  type SerializedError,
  serializeError,
} from "@holdfast/core";
import { Attempt, type AttemptHost, type Body, failureOf, outcomeOf, Recorded } from "../attempt.ts";
import type { Environment } from "../environment.ts";

/** How an attempt has ended: its outcome is recorded already, its operation is settled, or it is tried again. */
export type AttemptEnd =
  /** The outcome is already durable (D6). */
  | {
      readonly type: "recorded";
      /** The attempt. */
      readonly attempt: Attempt;
      /** Delivers the outcome to the run. */
      readonly deliver: () => void;
    }
  | {
      readonly type: "settled";
      /** The attempt. */
      readonly attempt: Attempt;
      /** The outcome of its operation. */
      readonly outcome: Outcome;
    }
  /** Failed; the next attempt is due after `delay` milliseconds. */
  | {
      readonly type: "retry";
      /** The attempt. */
      readonly attempt: Attempt;
      /** Why it failed. */
      readonly error: SerializedError;
      /** Milliseconds until the next attempt. */
      readonly delay: number;
    };

/** What `Attempts` need from their host. */
export interface AttemptsOptions {
  /** Timers and randomness. */
  readonly environment: Pick<Environment, "after" | "random">;
  /** Where messages go. */
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  now(): number;
  /** Encodes a result. */
  encode(value: unknown, what: string): Payload;
  /** D10: the number of attempts that a resume has forgiven. The policy counts from there. */
  forgiven(seq: number): number;
  /** Called when an attempt has ended. */
  onEnd(end: AttemptEnd): void;
}

/** The attempts of a run that run in this process. */
export class Attempts implements AttemptHost {
  readonly environment: AttemptsOptions["environment"];
  readonly logger: Logger;
  readonly #options: AttemptsOptions;
  readonly #inFlight = new Map<number, Attempt>();

  constructor(options: AttemptsOptions) {
    this.#options = options;
    this.environment = options.environment;
    this.logger = options.logger;
  }
  /** How many attempts are running. */
  get size(): number {
    return this.#inFlight.size;
  }
  /** The attempts that are running. */
  get running(): Iterable<Attempt> {
    return this.#inFlight.values();
  }
  /** Starts an attempt. The result of an earlier one of the same operation is ignored from now on. */
  start(seq: number, body: Body, number: number, key: () => string): void {
    const attempt = new Attempt(this, seq, number, this.#options.now(), body, key);
    this.#inFlight.get(seq)?.drop();
    this.#inFlight.set(seq, attempt);
    attempt.start();
  }

  completed(attempt: Attempt, value: unknown): void {
    this.#inFlight.delete(attempt.seq);
    const { onEnd, encode } = this.#options;
    if (value instanceof Recorded) onEnd({ type: "recorded", attempt, deliver: value.deliver });
    else onEnd({ type: "settled", attempt, outcome: outcomeOf(attempt, value, encode) });
  }
  failed(attempt: Attempt, error: unknown): void {
    this.#inFlight.delete(attempt.seq);
    const { onEnd, now, forgiven } = this.#options;
    const { body, number, seq } = attempt;
    const serialized = serializeError(error);
    const delay = retryAfter(body, number - forgiven(seq), error, this.environment.random());
    const closeAt = body.activity?.closeAt;
    const isOver = delay === undefined || (closeAt !== undefined && now() + delay >= closeAt);
    if (isOver) onEnd({ type: "settled", attempt, outcome: failureOf(attempt, serialized) });
    else onEnd({ type: "retry", attempt, error: serialized, delay });
  }

  /**
   * Aborts the attempt. With `join` its outcome is still awaited; without, the workflow has abandoned it and its result is dropped (C7).
   */
  cancel(seq: number, reason: unknown, join: boolean): void {
    const attempt = this.#inFlight.get(seq);
    if (attempt === undefined) return;
    attempt.abort(reason);
    if (!join) this.#drop(attempt);
  }
  /** Drops the attempt, because its outcome is already known. */
  forget(seq: number): Attempt | undefined {
    const attempt = this.#inFlight.get(seq);
    if (attempt !== undefined) this.#drop(attempt);
    return attempt;
  }
  /** Aborts and drops all attempts: the run has ended, or leaves this process. */
  abandonAll(reason: unknown): Attempt[] {
    const attempts = [...this.#inFlight.values()];
    for (const attempt of attempts) {
      attempt.abort(reason);
      this.#drop(attempt);
    }
    return attempts;
  }
  #drop(attempt: Attempt): void {
    attempt.drop();
    this.#inFlight.delete(attempt.seq);
  }
}

/** Milliseconds from the failure of attempt number `attempt` to the next attempt; undefined if there is none. */
export function retryAfter(body: Pick<Body, "retry" | "isFinal">, attempt: number, error: unknown, random: number): number | undefined {
  const policy = resolveRetry(body.retry, "operation");
  if (attempt >= policy.maxAttempts || !isRetryable(error, body.retry) || body.isFinal?.(error) === true) return undefined;
  return askedWait(error) ?? retryDelay(policy, attempt, random);
}
