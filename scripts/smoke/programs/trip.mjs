// The workflow of every project of the smoke test, and what its processes do: the first one is killed in a step, the second one ends the run.

import { appendFileSync, writeFileSync } from "node:fs";
import { Holdfast, workflow } from "holdfast";

export const trip = workflow("trip", async (ctx, n) => {
  const first = await ctx.step("first", () => {
    appendFileSync("effects.log", "first\n");
    return n + 1;
  });
  const second = await ctx.step("second", () => {
    appendFileSync("effects.log", "second\n");
    if (process.env.SMOKE === "begin") {
      writeFileSync("in-step", "");
      // Until the process is killed.
      return new Promise(() => setInterval(() => {}, 60_000));
    }
    return first * 2;
  });
  await ctx.sleep("50ms");
  return second;
});

/** One engine and one worker per process. Next loads a module once for each of its bundles, so a variable of the module is not enough. */
export function engine() {
  globalThis.smokeEngine ??= Holdfast.open("file:./runs.db").then(async (one) => {
    // A short lease: the second process need not wait half a minute for the runs of the dead one.
    await one.worker({ workflows: [trip], lease: "2s" });
    return one;
  });
  return globalThis.smokeEngine;
}

export async function begin() {
  const run = await (await engine()).start(trip, 20, { id: "trip-1" });
  return run.id;
}

export async function end() {
  const one = await engine();
  const result = await one.run("trip-1").result();
  writeFileSync("result.json", JSON.stringify(result));
  return result;
}

/** What a program without a server does. */
export async function play() {
  if (process.env.SMOKE === "begin") {
    await begin();
    await new Promise(() => setInterval(() => {}, 60_000));
  }
  const result = await end();
  await (await engine()).close();
  return result;
}
