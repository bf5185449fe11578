// Limits on the size of payloads and histories.
// Owns: the limits, their defaults, and the errors that name them.
// Invariants: P8 (the error for a value that can't be stored says which value it is), P9 (limits are explicit and configurable; the
// error names the limit).

import { type Codec, encodeWithin, payloadExceeds, payloadSize } from "../codec/index.ts";
import { isInstance, LimitExceededError, UnserializableValueError } from "../errors/index.ts";
import type { Payload } from "../protocol/index.ts";

/** Upper bounds of what a run may store. An operation that exceeds one fails with a `LimitExceededError`. */
export interface Limits {
  /**
   * Largest encoded value, in bytes.
   * @defaultValue `2_097_152` (2 MiB)
   */
  payloadBytes: number;
  /**
   * Number of history records at which a warning is logged.
   * @defaultValue `10_000`
   */
  historyWarn: number;
  /**
   * Number of history records at which operations fail.
   * @defaultValue `50_000`
   */
  historyMax: number;
}
/** The limits of an engine that names none. */
export const DEFAULT_LIMITS: Limits = { payloadBytes: 2 * 1024 * 1024, historyWarn: 10_000, historyMax: 50_000 };

/** Values up to twice the limit are still encoded, so that the error can name their exact size. */
const MEASURED = 2;

/**
 * Encodes a value.
 * @throws `LimitExceededError` if it is too large (P9).
 * @throws `UnserializableValueError` if it can't be stored.
 */
export function encodeLimited(codec: Codec, value: unknown, { payloadBytes: max }: Pick<Limits, "payloadBytes">, what: string): Payload {
  const payload = naming(what, () => encodeWithin(codec, value, max * MEASURED));
  if (payload === undefined) throw new LimitExceededError({ limit: "payloadBytes", actual: max * MEASURED, isMore: true, max, what });
  if (payloadExceeds(payload, max)) throw new LimitExceededError({ limit: "payloadBytes", actual: payloadSize(payload), max, what });
  return payload;
}

/** Encodes a value of any size, for replay: a limit may have been higher when it was recorded. */
export function encodeUnlimited(codec: Codec, value: unknown, what: string): Payload {
  return naming(what, () => codec.encode(value));
}

/** The error for a value that can't be stored says which value it is (P8), live and in replay: workflow code may read its message (X1). */
function naming<T>(what: string, encode: () => T): T {
  try {
    return encode();
  } catch (error) {
    throw isInstance(error, UnserializableValueError) ? error.of(what) : error;
  }
}

/** Hosts may have a lower limit for published state than for other values. */
export function checkedState(state: Payload, max: number | undefined, what: string): Payload {
  if (max === undefined || !payloadExceeds(state, max)) return state;
  throw new LimitExceededError({ limit: "stateBytes", actual: payloadSize(state), max, what });
}

/** The error for a history that has `length` records and can't have another one. */
export function tooLong(length: number, { historyMax: max }: Limits): LimitExceededError {
  return new LimitExceededError({ limit: "historyMax", actual: length + 1, max, what: "the history with one more record" });
}
