// How large payloads and histories may grow.
// Owns: the limits, their defaults, and the errors that name them.
// Invariants: P9 (explicit, configurable, an error names the limit).

import { payloadExceeds, payloadSize } from "../codec/index.ts";
import { LimitExceededError } from "../errors/index.ts";
import type { Payload } from "../protocol/index.ts";

export interface Limits {
  payloadBytes: number;
  historyWarn: number;
  historyMax: number;
}
export const DEFAULT_LIMITS: Limits = { payloadBytes: 2 * 1024 * 1024, historyWarn: 10_000, historyMax: 50_000 };

export function checkSize(payload: Payload, { payloadBytes: max }: Limits, what: string): void {
  if (payloadExceeds(payload, max)) throw new LimitExceededError({ limit: "payloadBytes", actual: payloadSize(payload), max, what });
}

/** `length` is what it has: another record is one too many. */
export function tooLong(length: number, { historyMax: max }: Limits): LimitExceededError {
  return new LimitExceededError({ limit: "historyMax", actual: length + 1, max, what: "the history, with one record more," });
}
