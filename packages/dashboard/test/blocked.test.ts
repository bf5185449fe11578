import { expect, test } from "vitest";
import type { SerializedError } from "../src/api/types.ts";
import { blockedTitle, differenceOf, placeInStack, remediesOf } from "../src/run/blocked.ts";

const error = (more: Partial<SerializedError>): SerializedError => ({
  name: "NondeterminismError",
  code: "HF_NONDETERMINISM",
  message: "code and history diverge at charge, in name\n- expected (history): step charge",
  stack: null,
  cause: null,
  data: { location: "charge", field: "name", expected: 'step "charge"', actual: 'step "check-stock"' },
  ...more,
});

test("a difference has a title, both sides, and texts to copy", () => {
  const found = differenceOf(error({}));
  expect(blockedTitle(error({}))).toBe("Blocked: code and history diverge at charge");
  expect(found).toEqual({ location: "charge", field: "name", history: 'step "charge"', code: 'step "check-stock"' });
  const [patched, removed] = found === undefined ? [] : remediesOf(found);
  expect(patched?.text).toContain('ctx.patched("check-stock")');
  expect(patched?.text).toContain('step "charge"');
  expect(removed?.text).toBe('ctx.removed("charge", "step");');
});

test("an operation that the code no longer has", () => {
  const found = differenceOf(
    error({ data: { location: "a/ship#2", field: "operation", expected: 'step "ship"', actual: { $undefined: true } } }),
  );
  expect(found).toMatchObject({ history: 'step "ship"', code: "nothing" });
  expect(found === undefined ? [] : remediesOf(found).map(({ text }) => text)).toContain('ctx.removed("ship", "step");');
});

test("another reason has no difference, and a hidden one shows nothing", () => {
  expect(differenceOf(error({ name: "ForeignAwaitError" }))).toBeUndefined();
  expect(differenceOf(error({ data: { $redacted: 50 } }))).toBeUndefined();
  expect(blockedTitle(error({ message: { $redacted: 10 } }))).toBe("Blocked: NondeterminismError");
});

test("the source is the first frame of a stack that is not of Holdfast", () => {
  const stack = [
    "NondeterminismError: code and history diverge at charge",
    "    at Divergence.#fail (/app/node_modules/@holdfast/core/src/executor/replay/divergence.ts:57:29)",
    "    at <anonymous> (/app/node_modules/@holdfast/core/src/executor/context.ts:143:14)",
    "    at order (/app/workflows/order.ts:14:13)",
    "    at node:internal/process/task_queues:95:5",
  ].join("\n");
  expect(placeInStack(stack)).toEqual({ file: "/app/workflows/order.ts", line: 14, column: 13 });
  expect(placeInStack("    at async file:///app/order.mjs:2:3")).toEqual({ file: "/app/order.mjs", line: 2, column: 3 });
  expect(placeInStack(stack.split("\n").slice(0, 3).join("\n"))).toBeUndefined();
  expect(placeInStack({ $redacted: 12 })).toBeUndefined();
});
