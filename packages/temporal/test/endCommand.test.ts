// Whether the server may try a run again as a whole.

import { FatalError, serializeError } from "@holdfast/core";
import { expect, test } from "vitest";
import { durationOf } from "../src/proto.ts";
import { isFinal } from "../src/worker/endCommand.ts";

const no = serializeError(new Error("no"));
/** Attempt 3: the next one is due after four times the first interval. */
const init = (initialInterval: number, maximumInterval?: number) => ({
  attempt: 3,
  retryPolicy: {
    initialInterval: durationOf(initialInterval),
    backoffCoefficient: 2,
    ...(maximumInterval !== undefined && { maximumInterval: durationOf(maximumInterval) }),
  },
});

test("D10 without a deadline only the error decides", () => {
  const open = { begunAt: 0, deadlineAt: undefined };
  expect(isFinal(no, 10_000, init(1_000), open)).toBe(false);
  expect(isFinal(serializeError(new FatalError("no")), 10_000, init(1_000), open)).toBe(true);
});
test("K7 an attempt that the policy puts at or after the deadline does not begin", () => {
  const until = (deadlineAt: number) => ({ begunAt: 0, deadlineAt });
  expect(isFinal(no, 10_000, init(1_000), until(14_000))).toBe(true);
  expect(isFinal(no, 10_000, init(1_000), until(14_001))).toBe(false);
  expect(isFinal(no, 10_000, init(1_000, 2_000), until(12_001))).toBe(false);
});
test("K7 nor does one that the server begins then, because attempts are a second apart", () => {
  const until = (deadlineAt: number) => ({ begunAt: 10_000, deadlineAt });
  expect(isFinal(no, 10_020, init(1), until(11_000))).toBe(true);
  expect(isFinal(no, 10_020, init(1), until(11_001))).toBe(false);
});
