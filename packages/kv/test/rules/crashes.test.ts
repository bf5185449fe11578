// Job: kill the process around every single batch of a run that does a bit of everything, and see that it ends as if nothing had happened.
// Owns: nothing.
// Invariants: D1 D2 D6 D7: what is durable never runs again, what is not may run once more.

import { FatalError, Loop, replay, workflow } from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { KvHost } from "../host.ts";

/** Counts what steps did, in the order in which they did it. */
function makeWork() {
  const effects: string[] = [];
  const work = workflow("work", async (ctx) => {
    const effect = (name: string) => async () => void effects.push(name);
    await ctx.step("begin", effect("begin"));
    const { ok } = await ctx.try("risky", async (inner) => {
      await inner.step("risk", async () => {
        effects.push("risk");
        throw new FatalError("as expected");
      });
    });
    const joined = await ctx.join("both", {
      left: async (branch) => {
        await branch.step("a", effect("left a"));
        await branch.sleep("1m");
        return branch.step("b", async () => effects.push("left b") > 0);
      },
      right: async (branch) => {
        await branch.step("a", effect("right a"), { retry: { maxAttempts: 3 } });
        return "right";
      },
    });
    const raced = await ctx.race("first", {
      slow: async (branch) => {
        await branch.sleep("1h");
        return "slow";
      },
      fast: async (branch) => branch.step("fast", async () => "fast"),
    });
    const looped = await ctx.loop(
      { name: "count", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 },
      async (body, n: number) => {
        await body.step("turn", effect(`turn ${n}`));
        return n === 5 ? Loop.break(n) : Loop.continue(n + 1);
      },
    );
    await ctx.step("end", effect("end"));
    return { ok, joined, raced, looped };
  });
  return { work, effects };
}

const expected = { ok: false, joined: { left: true, right: "right" }, raced: { winner: "fast", value: "fast" }, looped: 5 };

async function wholeRun() {
  const { work, effects } = makeWork();
  const host = new KvHost();
  const run = await host.start(work);
  await host.skip("1m");
  expect(await run.result()).toEqual(expected);
  return { batches: host.process.counts.batch, effects: [...effects] };
}

describe("a run that is killed", () => {
  test.each(["before", "after"] as const)("D1 D2 D6 Y1 %s any of its batches ends as if it had not been", async (when) => {
    const { batches, effects: once } = await wholeRun();
    expect(batches).toBeGreaterThan(12);
    for (let at = 1; at <= batches; at++) {
      const { work, effects } = makeWork();
      const host = new KvHost();
      let seen = 0;
      const { process } = host;
      process.onBatch = (moment) => {
        if (moment === when && ++seen === at) process.dead = true;
      };
      await host.start(work);
      await host.skip("1m");
      expect(process.dead, `batch ${at}`).toBe(true);
      // Nothing was acknowledged if the very first batch was not written: then there is nothing to go on with.
      const exists = host.driver("run").namespace.entries.size > 0;
      expect(exists).toBe(when === "after" || at > 1);
      if (!exists) continue;
      await host.crash();
      await host.skip("2m");
      const run = host.run(work, "run");
      expect(await run.result(), `killed ${when} batch ${at}`).toEqual(expected);
      const again = effects.filter((name, i) => effects.indexOf(name) !== i);
      expect([...new Set(effects)].toSorted(), `killed ${when} batch ${at}`).toEqual(once.toSorted());
      // Only what was in flight when it died: the two branches of the join at most.
      expect(again.length, `${when} batch ${at}: ${again.join(", ")} ran again`).toBeLessThanOrEqual(2);
      await replay(work, await run.history());
    }
  });

  test("D7 as often as it can be goes on each time from where it was", async () => {
    const { work, effects } = makeWork();
    const host = new KvHost();
    await host.start(work);
    const run = host.run(work, "run");
    for (let crashes = 0; crashes < 100 && !["completed", "failed"].includes(await run.status()); crashes++) {
      host.process.dead = true;
      host.world.time += 10_000;
      await host.crash();
      let writes = 0;
      const { process } = host;
      process.onBatch = (moment) => {
        if (moment === "after" && ++writes === 2) process.dead = true;
      };
      await host.settle();
    }
    host.process.onBatch = undefined;
    expect(await run.result()).toEqual(expected);
    expect(new Set(effects).size).toBeGreaterThan(10);
  });
});
