// What messages of errors advise: only what helps on Temporal.

import { type RunFailedError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { engines, LONG } from "./engines.ts";

describe("advice", () => {
  const on = engines();
  const charge = workflow("charge", (ctx) =>
    ctx.step(
      "card",
      () => {
        throw new TypeError("no money");
      },
      { retry: { maxAttempts: 1 } },
    ),
  );
  test(
    "D10 a failed run says that it can't be resumed here, and what to do instead",
    async () => {
      const holdfast = await on.open();
      await holdfast.worker({ workflows: [charge] });
      const run = await holdfast.start(charge);
      const error: RunFailedError = await run.result().then(
        () => expect.unreachable(),
        (reason) => reason,
      );
      const { cause } = error as { cause?: Error };
      expect(error).toMatchObject({ name: "RunFailedError", message: expect.stringContaining("`temporal workflow reset`") });
      expect(cause).toMatchObject({ name: "StepFailedError", message: expect.stringContaining("`temporal workflow reset`") });
      const told = [error.message, error.stack, cause?.message, cause?.stack, (await run.describe()).error?.message];
      for (const text of told) expect(text).not.toMatch(/resume\(\)|deadline|rollbacks have run/);
      const ended = (await on.events(run.id)).at(-1)?.workflowExecutionFailedEventAttributes?.failure;
      expect(ended?.message).toContain("`temporal workflow reset`");
    },
    LONG,
  );

  const awaits = workflow("awaits", async () => {
    await new Promise(setImmediate);
  });
  test(
    "V4 a blocked run says that the server retries it",
    async () => {
      const holdfast = await on.open();
      await holdfast.worker({ workflows: [awaits] });
      const run = await holdfast.start(awaits);
      const expected = expect.objectContaining({
        name: "RunBlockedError",
        message: expect.stringMatching(/Temporal retries the run by itself(?!.*resume\(\))/s),
      });
      await expect(run.result()).rejects.toThrow(expected);
      await expect(run.update("anything", undefined)).rejects.toThrow(expected);
      await run.terminate();
    },
    LONG,
  );
});
