// Deadlines of runs that are tried again as a whole.

import { workflow } from "holdfast";
import { expect, test } from "vitest";
import { engines, LONG } from "./engines.ts";

const on = engines();

const failed = { code: "HF_RUN_FAILED", cause: { name: "Error", message: "no" } };

test(
  "K7 a retry of the run that is due after the deadline: the run fails now, with the error of its last attempt",
  async () => {
    const holdfast = await on.open();
    const again = workflow({ name: "again", retry: { maxAttempts: 10, initialInterval: "5m", backoff: 1 } }, async () => {
      throw new Error("no");
    });
    await holdfast.worker({ workflows: [again] });
    const run = await holdfast.start(again, undefined, { deadline: "2m" });
    await expect(run.result()).rejects.toMatchObject(failed);
    const { attempt, finishedAt, deadlineAt } = await run.describe();
    expect(attempt).toBe(1);
    expect(finishedAt?.getTime()).toBeLessThan(deadlineAt?.getTime() ?? 0);
  },
  LONG,
);

test(
  "K7 a retry of the run that the server delays until after the deadline: likewise",
  async () => {
    const holdfast = await on.open();
    let hasBegun = false;
    const again = workflow({ name: "again", retry: { maxAttempts: 10, initialInterval: 1, backoff: 1 } }, async () => {
      hasBegun = true;
      throw new Error("no");
    });
    await holdfast.worker({ workflows: [again] });
    // The server delays an attempt until a second after the one before. Of a run that a busy machine begins after its deadline no code runs.
    while (!hasBegun) {
      const run = await holdfast.start(again, undefined, { deadline: 900 });
      const error = await run.result().catch((reason: unknown) => reason);
      if (!hasBegun) continue;
      expect(error).toMatchObject(failed);
      expect(await run.describe()).toMatchObject({ status: "failed", attempt: 1 });
    }
  },
  LONG,
);
