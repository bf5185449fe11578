// The attempts of one run that are in flight.
// Owns: which they are, and what follows the end of each: an outcome, or another attempt.
// Invariants: D1 (only what is durable is started: callers write first), D7 D8 (attempts count, retries by policy), C7 (what was given up
// ends nothing).

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

export type AttemptEnd =
  /** Its outcome is durable already (D6). */
  | { readonly type: "recorded"; readonly attempt: Attempt; readonly deliver: () => void }
  | { readonly type: "settled"; readonly attempt: Attempt; readonly outcome: Outcome }
  /** Failed, to be tried again after `delay`. */
  | { readonly type: "retry"; readonly attempt: Attempt; readonly error: SerializedError; readonly delay: number };

export interface AttemptsOptions {
  readonly environment: Pick<Environment, "after" | "random">;
  readonly logger: Logger;
  now(): number;
  encode(value: unknown, what: string): Payload;
  /** D10: attempts that a resume has forgiven. The policy counts from there. */
  forgiven(seq: number): number;
  onEnd(end: AttemptEnd): void;
}

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
  get size(): number {
    return this.#inFlight.size;
  }
  get running(): Iterable<Attempt> {
    return this.#inFlight.values();
  }
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

  /** The workflow gave it up (C7), or with `join` only tells it. */
  cancel(seq: number, reason: unknown, join: boolean): void {
    const attempt = this.#inFlight.get(seq);
    if (attempt === undefined) return;
    attempt.abort(reason);
    if (!join) this.#drop(attempt);
  }
  /** Its outcome is known already: what it still returns is dropped. */
  forget(seq: number): Attempt | undefined {
    const attempt = this.#inFlight.get(seq);
    if (attempt !== undefined) this.#drop(attempt);
    return attempt;
  }
  /** The run is over, or leaves this process. */
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

/** Milliseconds until the next attempt after `attempt` of them; undefined if there is none. */
export function retryAfter(body: Pick<Body, "retry" | "isFinal">, attempt: number, error: unknown, random: number): number | undefined {
  const policy = resolveRetry(body.retry, "operation");
  if (attempt >= policy.maxAttempts || !isRetryable(error, body.retry) || body.isFinal?.(error) === true) return undefined;
  return askedWait(error) ?? retryDelay(policy, attempt, random);
}
