// Local steps and side effects in several branches: the server records them when they end, in one task, and replay gets them together.
// Owns: runs whose local steps end in many orders, also at the same time, while others are cancelled.
// Invariants: Y1 (replay gives the commands of the run the same order, numbers and times), C7 (the rest of a race is dropped, and the run
// goes on).

import { activity, replay, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { engines } from "./engines.ts";

const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const echo = activity("echo", (at: number) => at);
const branches = workflow<readonly number[], string>("branches", async (ctx, [a = 0, b = 0, c = 0]) => {
  const { winner } = await ctx.race("first", {
    a: (unit) => unit.step("a", () => after(a), { local: true }),
    b: (unit) => unit.step("b", () => after(b), { local: true }),
    c: (unit) => unit.sideEffect(() => after(c)),
  });
  const times = await ctx.join("all", {
    x: async (unit) => {
      await unit.step("x1", () => after(c), { local: true });
      return unit.activity(echo, unit.now().getTime()); // the input is compared in replay
    },
    y: async (unit) => {
      await unit.step("y1", () => after(b), { local: true });
      await unit.sleep(10);
      return unit.activity(echo, unit.now().getTime());
    },
    z: async (unit) => {
      await unit.step("z1", () => after(a), { local: true });
      await unit.step("z2", () => after(c), { local: true });
      return unit.activity(echo, unit.now().getTime());
    },
    failing: (unit) =>
      unit
        .step("failing", () => after(c).then(() => Promise.reject(new Error("no"))), { local: true, retry: { maxAttempts: 1 } })
        .catch(() => unit.activity(echo, unit.now().getTime())),
  });
  if (Object.values(times).some((time) => time > ctx.now().getTime())) throw new Error("A branch was ahead of its run.");
  await ctx.step("last", () => winner);
  return winner;
});

describe("local steps in several branches", () => {
  const on = engines();
  test.each([
    [100, 12],
    [0, 3],
  ])(
    "Y1 C7 with a cache of %i: %i runs",
    async (cachedRuns, count) => {
      const holdfast = await on.open();
      await using _ = await holdfast.worker({ workflows: [branches], activities: [echo], cachedRuns, determinism: "error" });
      const play = async (n: number): Promise<unknown> => {
        const run = await holdfast.start(branches, [(n * 7) % 20, (n * 13) % 30, (n * 29) % 25]);
        const end = await run.result({ timeout: "100s" }).catch((error: unknown) => String(error));
        const problem = await replay(branches, await run.history()).catch((error: unknown) => String(error));
        const failed = (await on.kinds(run.id)).filter((kind) => kind === "WORKFLOW_TASK_FAILED");
        return { end: /^[abc]$/.test(end) ? "won" : end, problem, failed };
      };
      const all: unknown[] = [];
      // Without a cache one after the other: Core drops a run, with its local steps, to make room for another.
      if (cachedRuns === 0) for (let n = 0; n < count; n++) all.push(await play(n));
      else all.push(...(await Promise.all(Array.from({ length: count }, (_, n) => play(n)))));
      expect(all).toEqual(all.map(() => ({ end: "won", problem: undefined, failed: [] })));
    },
    180_000,
  );
});
