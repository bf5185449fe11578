// Limits on the size of payloads and histories.
// Owns: the limits, their defaults, and the errors that name them.
// Invariants: P9 (limits are explicit and configurable; the error names the limit).

import { type Codec, encodeWithin, payloadExceeds, payloadSize } from "../codec/index.ts";
import { LimitExceededError } from "../errors/index.ts";
import type { Payload } from "../protocol/index.ts";

export interface Limits {
  /** Largest encoded value, in bytes. Default 2 MiB. */
  payloadBytes: number;
  /** Number of history records at which a warning is logged. Default 10,000. */
  historyWarn: number;
  /** Number of history records at which operations fail. Default 50,000. */
  historyMax: number;
}
export const DEFAULT_LIMITS: Limits = { payloadBytes: 2 * 1024 * 1024, historyWarn: 10_000, historyMax: 50_000 };

/** Values up to twice the limit are still encoded, so that the error can name their exact size. */
const MEASURED = 2;

/** Encodes a value; throws a LimitExceededError if it is too large (P9). */
export function encodeLimited(codec: Codec, value: unknown, { payloadBytes: max }: Pick<Limits, "payloadBytes">, what: string): Payload {
  const payload = encodeWithin(codec, value, max * MEASURED);
  if (payload === undefined) throw new LimitExceededError({ limit: "payloadBytes", actual: max * MEASURED, isMore: true, max, what });
  if (payloadExceeds(payload, max)) throw new LimitExceededError({ limit: "payloadBytes", actual: payloadSize(payload), max, what });
  return payload;
}

/** The error for a history that has `length` records and can't have another one. */
export function tooLong(length: number, { historyMax: max }: Limits): LimitExceededError {
  return new LimitExceededError({ limit: "historyMax", actual: length + 1, max, what: "the history with one more record" });
}
