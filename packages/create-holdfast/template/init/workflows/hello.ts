import { workflow } from "holdfast";

export const hello = workflow("hello", async (ctx, input: { name: string }) => {
  const greeting = await ctx.step("greet", () => `Hello, ${input.name}!`);
  await ctx.sleep("pause", "1s");
  return greeting;
});
