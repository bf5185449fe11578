// What every process of Holdfast serves.
import { workflow } from "holdfast";

export const five = workflow("five", async (ctx, input) => {
  for (let i = 0; i < 5; i++) await ctx.step(`step-${i}`, async () => ({ ok: true, i, input }));
  return { done: true };
});
const one = workflow("one", async (ctx) => ctx.step("only", async () => ({ ok: true })));
const chain = workflow("chain", async (ctx, steps) => {
  for (let i = 0; i < steps; i++) await ctx.step("work", async () => ({ ok: true, i }));
  return steps;
});
const wide = workflow("wide", async (ctx, width) => {
  const results = await Promise.all(Array.from({ length: width }, (_, i) => ctx.step(`wide-${i}`, async () => ({ ok: true, i }))));
  return results.length;
});
export const workflows = [five, one, chain, wide];
