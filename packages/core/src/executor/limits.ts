// How large payloads and histories may grow.
// Owns: the limits, their defaults, and the errors that name them.
// Invariants: P9 (explicit, configurable, an error names the limit).

import { type Codec, encodeWithin, payloadExceeds, payloadSize } from "../codec/index.ts";
import { LimitExceededError } from "../errors/index.ts";
import type { Payload } from "../protocol/index.ts";

export interface Limits {
  payloadBytes: number;
  historyWarn: number;
  historyMax: number;
}
export const DEFAULT_LIMITS: Limits = { payloadBytes: 2 * 1024 * 1024, historyWarn: 10_000, historyMax: 50_000 };

/** Values up to twice the limit are encoded all the same, so that the error can tell their size. */
const MEASURED = 2;

/** P9: what the codec makes of the value, if it is within the limit. */
export function encodeLimited(codec: Codec, value: unknown, { payloadBytes: max }: Pick<Limits, "payloadBytes">, what: string): Payload {
  const payload = encodeWithin(codec, value, max * MEASURED);
  if (payload === undefined) throw new LimitExceededError({ limit: "payloadBytes", actual: max * MEASURED, isMore: true, max, what });
  if (payloadExceeds(payload, max)) throw new LimitExceededError({ limit: "payloadBytes", actual: payloadSize(payload), max, what });
  return payload;
}

/** `length` is what it has: another record is one too many. */
export function tooLong(length: number, { historyMax: max }: Limits): LimitExceededError {
  return new LimitExceededError({ limit: "historyMax", actual: length + 1, max, what: "the history, with one record more," });
}
