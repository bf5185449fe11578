// Two commits in one turn, replayed: what each kept stands where it stood.

import { Loop, signal, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { test } from "vitest";

test("L3 M2 signals that came in the turn of two commits keep their order", async () => {
  const w = workflow({ name: "w", signals: { a: signal<number>(), b: signal<number>() } }, async (ctx) => {
    await ctx.sleep(1);
    await ctx.loop({ name: "first", state: 0, commitInterval: 1 }, async (_, i) => (i >= 1 ? Loop.break(i) : Loop.continue(i + 1)));
    await ctx.listen(["a", "b"]);
    await ctx.loop({ name: "second", state: 0, commitInterval: 1 }, async (ctx, i) => {
      await ctx.listen(["a", "b"]);
      return i >= 3 ? Loop.break(i) : Loop.continue(i + 1);
    });
  });
  const h = await Harness.start(w);
  h.time += 1;
  await h.turn(h.signalJob("b", 1), { type: "fire", seq: 1 }, h.signalJob("a", 2));
  await crashAnywhere(h);
});
