import { signal, workflow } from "holdfast";

export const signup = workflow(
  { name: "signup", signals: { confirm: signal<{ by: string }>() } },
  async (ctx, input: { email: string }) => {
    // A step runs outside the workflow, and its result is recorded. After a crash it is not run again.
    const account = await ctx.step("create-account", () => `account of ${input.email}`);

    // The run waits for a message or for three days, whichever comes first. It takes no memory and no process meanwhile.
    const answer = await ctx.waitForSignal("confirm", { timeout: "3d" });
    if (answer.timedOut) {
      await ctx.step("delete-account", () => `deleted ${account}`);
      return { account, status: "expired" as const };
    }

    // A durable sleep: "7d" would work as well, across restarts and deploys.
    await ctx.sleep("settle-in", "2s");
    await ctx.step("send-welcome", () => `welcome, ${input.email}`);
    return { account, status: "confirmed" as const, by: answer.payload.by };
  },
);
