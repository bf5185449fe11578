// Blocked runs in queues with limits.

import { Holdfast, RunBlockedError, workflow } from "holdfast";
import { expect, test } from "vitest";
import { errorOf } from "../engine/engines.ts";

test("V4 Q2 a blocked run that a limit holds back when a worker starts is tried by that worker once there is room", async () => {
  let isBroken = true;
  let release = (): void => {};
  const gate = new Promise<void>((done) => {
    release = done;
  });
  let isHeld = false;
  const broken = workflow("broken", async (ctx) => {
    if (isBroken) await new Promise((done) => setImmediate(done));
    return ctx.step("work", () => "done");
  });
  const hold = workflow("hold", async (ctx) =>
    ctx.step("hold", async () => {
      isHeld = true;
      await gate;
    }),
  );
  const marker = workflow("marker", async (ctx) => ctx.step("mark", () => "marked"));
  const engine = await Holdfast.open("memory:");
  await engine.queues.set("q", { perKey: { concurrency: 1 } });
  await engine.worker({ workflows: [broken, hold], queue: "q" });
  const blocked = await engine.start(broken, undefined, { queue: "q", key: "full" });
  expect(await errorOf(blocked.result())).toBeInstanceOf(RunBlockedError);
  await engine.start(hold, undefined, { queue: "q", key: "full" });
  await expect.poll(() => isHeld).toBe(true);
  isBroken = false;
  await engine.worker({ workflows: [broken, marker], queue: "q" });
  // What only the new worker serves is claimed after it has gone through the blocked runs.
  expect(await (await engine.start(marker, undefined, { queue: "q", key: "other" })).result()).toBe("marked");
  expect(await blocked.describe()).toMatchObject({ status: "blocked" });
  release();
  await expect.poll(() => blocked.describe()).toMatchObject({ status: "completed" });
  await engine.close();
});
