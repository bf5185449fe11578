// The server's limits of how many messages one execution may get: 10,000 signals and 2,000 updates by default.
// Owns: how such a refusal is recognized, and the error for the sender.
// Invariants: a message that was refused was not delivered; the run is unharmed.

import { HoldfastError, messageOf } from "@holdfast/core";

const FULL = /execution limit for signal events|total number of distinct updates/;

/** The execution gets no more messages of this kind. The next execution of the run does. */
export function isFull(error: unknown): boolean {
  return FULL.test(messageOf(error));
}
export function executionFull(kind: "signals" | "updates", cause?: unknown): HoldfastError {
  const message = `The run has got as many ${kind} as Temporal allows in one execution. It gets more once it goes on in a new one: with checkpointEvery of its receive, commitInterval of its loop, or ctx.continueAsNew.`;
  return new HoldfastError(message, { code: "HF_TEMPORAL_LIMIT", retryable: true, ...(cause !== undefined && { cause }) });
}
