// Workflows whose histories are kept in test/histories, and what to do with their runs to get them.
// Owns: the list. The files are written by `RECORD=1 npx vitest run packages/temporal/test/server/recordings.test.ts`.
// Invariants: this code fits the recorded histories; change it only together with them.

import { type AnyWorkflow, activity, Loop, Receive, type Run, workflow } from "holdfast";

export const double = activity("double", async (n: number) => n * 2);
const sleeper = workflow("recorded-child", async (ctx, ms: number) => {
  await ctx.sleep(ms);
  return ms;
});

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 20));
}

interface Recording {
  readonly workflow: AnyWorkflow;
  readonly input: unknown;
  readonly drive?: (run: Run<unknown>) => Promise<void>;
  /** The status that the run ends with. */
  readonly ends: "completed" | "failed" | "canceled";
}

const operations = workflow("recorded-operations", async (ctx, n: number) => {
  const one = await ctx.step("one", () => n + 1);
  const two = await ctx.activity(double, one);
  const noted = await ctx.sideEffect(() => new Date(0));
  const local = await ctx.step("local", () => new Map([["a", 1n]]), { local: true });
  await ctx.sleep(50);
  ctx.publishState({ one, two });
  ctx.setAttributes({ customer: "c1" });
  const both = await ctx.join("both", {
    left: async (branch) => [await branch.step("a", () => 1), await branch.step("b", () => 2)],
    right: async (branch) => (branch.patched("new") ? branch.step("c", () => 3) : 0),
  });
  const first = await ctx.race("first", {
    quick: (branch) => branch.step("quick", () => "quick"),
    slow: async (branch) => {
      await branch.sleep("1h");
      return "slow";
    },
  });
  return { one, two, noted, local, both, first };
});

const messages = workflow("recorded-messages", async (ctx) => {
  const { state } = await ctx.receive(0, {
    signals: { add: (n: unknown, sum: number) => Receive.noreply(sum + (n as number)) },
    updates: {
      ask: {
        validate: (n: unknown) => {
          if ((n as number) < 0) throw new Error("negative");
        },
        handle: async (n: unknown, sum: number, handler) => Receive.reply(await handler.step("times", () => sum * (n as number)), sum),
      },
      done: (_: unknown, sum: number) => Receive.stop("done", sum),
    },
  });
  return state;
});

const saga = workflow("recorded-saga", async (ctx) => {
  await ctx.step("book", () => "booked", { rollback: () => undefined });
  const outcome = await ctx.try("pay", (inner) =>
    inner.step("pay", () => Promise.reject(new Error("declined")), { retry: { maxAttempts: 2, initialInterval: 1 } }),
  );
  if (!outcome.ok) throw new Error("not paid", { cause: outcome.error });
  return "paid";
});

const family = workflow("recorded-family", async (ctx) => {
  const handle = await ctx.startChild(sleeper, 20);
  const other = await ctx.child(sleeper, 10);
  return [await handle.result(), other];
});

const waiting = workflow("recorded-waiting", async (ctx) => {
  const late = await ctx.waitForSignal("never", { timeout: 30 });
  await ctx.shield(async (inner) => inner.step("kept", () => late));
  await ctx.waitForSignal("never");
});

const looping = workflow("recorded-loop", async (ctx) => {
  return ctx.loop({ name: "count", state: 0 }, async (inner, sum) => {
    const next = sum + (await inner.step("add", () => 1));
    return next < 5 ? Loop.continue(next) : Loop.break(next);
  });
});

const handlers = workflow("recorded-handlers", async (ctx) => {
  const { state } = await ctx.receive(0, {
    updates: {
      slow: (n: unknown, sum: number) =>
        Receive.async(async (handler) => {
          const more = await handler.step("slow", () => n as number);
          await handler.updateState((state) => [undefined, state + more]);
          return more;
        }, sum),
      done: (_: unknown, sum: number) => Receive.stop("done", sum),
    },
  });
  return state;
});

const branches = workflow("recorded-branches", async (ctx) => {
  const numbers = await ctx.parallel([(branch) => branch.step("a", () => 1), (branch) => branch.step("b", () => 2)]);
  ctx.deprecatePatch("old");
  const lost = await ctx.try("signal", (inner) => inner.signalRun("no such run", "hello", 1));
  const gone = await ctx.try("cancel", (inner) => inner.cancelRun("no such run"));
  return [numbers, lost.ok, gone.ok];
});

export const children: readonly AnyWorkflow[] = [sleeper];
export const recordings: Readonly<Record<string, Recording>> = {
  operations: { workflow: operations, input: 20, ends: "completed" },
  messages: {
    workflow: messages,
    input: undefined,
    ends: "completed",
    async drive(run) {
      await until(async () => (await run.describe()).historyLength >= 4);
      await run.signal("add" as never, 3 as never);
      await until(async () => (await run.describe()).historyLength >= 8); // the signal has a task of its own
      await run.update("ask" as never, 5 as never);
      await run.update("ask" as never, -1 as never).catch(() => {});
      await run.update("done" as never, undefined as never);
    },
  },
  saga: { workflow: saga, input: undefined, ends: "failed" },
  family: { workflow: family, input: undefined, ends: "completed" },
  waiting: {
    workflow: waiting,
    input: undefined,
    ends: "canceled",
    async drive(run) {
      await until(async () => (await run.operations()).some(({ name, status }) => name === "kept" && status === "completed"));
      await until(async () => (await run.describe()).waitingFor.includes("a signal or update"));
      await run.cancel("enough");
    },
  },
  handlers: {
    workflow: handlers,
    input: undefined,
    ends: "completed",
    async drive(run) {
      await run.update("slow" as never, 5 as never);
      await run.update("done" as never, undefined as never);
    },
  },
  branches: { workflow: branches, input: undefined, ends: "completed" },
  looping: { workflow: looping, input: undefined, ends: "completed" },
};
