// Job: the examples of the engine's document: entries and locations, yielding, errors, join, race, loops.
// Owns: nothing; they run in engine.test.ts.
import { FatalError, Loop, RollbackError, type StepInfo, workflow } from "@holdfast/core";

/** The smallest workflow, with a count of how often its body ran. */
export function fetchOnce(fetchData: (id: string) => string) {
  return workflow("my-workflow", async (ctx, input: { id: string }) => {
    const result = await ctx.step("fetch-data", async () => fetchData(input.id));
    return result;
  });
}

/** One entry of each place that the document names. */
export const locations = workflow("locations", async (ctx) => {
  await ctx.step("a", () => {});
  await ctx.step("b", () => {});
  await ctx.loop("outer", async (ctx) => {
    await ctx.step("inner", () => {});
    return Loop.break();
  });
  await ctx.join("parallel", { x: (ctx) => ctx.step("work", () => {}) });
});

export const everyEntry = workflow("every-entry", async (ctx) => {
  await ctx.step("step", () => {});
  await ctx.loop("loop", async () => Loop.break());
  await ctx.sleep("sleep", "1s");
  await ctx.listen(["message"]);
  await ctx.join("join", { only: async () => {} });
  await ctx.race("race", { only: async () => {} });
});

export const sleeper = workflow("sleeper", async (ctx) => {
  await ctx.step("before", () => {});
  await ctx.sleep("nap", "1h");
  return "awake";
});

/** Code that would notice if it were suspended by throwing. */
export function listener(seen: string[]) {
  return workflow("listener", async (ctx) => {
    try {
      const messages = await ctx.listen(["order", "refund"], { count: 3 });
      return messages.map(({ name, payload }) => `${name} ${payload}`);
    } catch (error) {
      seen.push("caught");
      throw error;
    } finally {
      seen.push("finally");
    }
  });
}

export function flaky(work: (info: StepInfo) => string) {
  return workflow("flaky", async (ctx) => ctx.step("work", work, { retry: { maxAttempts: 3 } }));
}

export const validated = workflow("validated", async (ctx, input: { valid: boolean }) => {
  await ctx.step("validate", async () => {
    if (!input.valid) throw new FatalError("Invalid input");
  });
  return "valid";
});

export function halted(undone: string[]) {
  return workflow("halted", async (ctx) => {
    await ctx.step("reserve", () => "seat 7", { rollback: (seat) => void undone.push(seat) });
    await ctx.step("charge", () => "card", { rollback: (card) => void undone.push(card) });
    await ctx.step("halt", async () => {
      throw new RollbackError("Stop and roll back");
    });
  });
}

export const fetchAll = workflow("fetch-all", async (ctx) => {
  const results = await ctx.join("fetch-all", {
    user: async (ctx) => await ctx.step("user", () => "Ada"),
    posts: async (ctx) => await ctx.step("posts", () => ["first"]),
  });
  return [results.user, ...results.posts];
});

export const workOrTimeout = workflow("work-or-timeout", async (ctx) => {
  const { winner, value } = await ctx.race("timeout", {
    work: async (ctx) => {
      const draft = await ctx.step("draft", () => "draft");
      return ctx.step("finish", () => `${draft}, finished`);
    },
    timeout: async (ctx) => {
      await ctx.sleep("wait", 5000);
      return null;
    },
  });
  return { winner, value };
});

type Batch = { items: number[]; nextCursor: number };
export function processItems(fetchBatch: (cursor: number | null) => Batch) {
  return workflow("process-items", async (ctx) =>
    ctx.loop(
      {
        name: "process-items",
        state: { cursor: null as number | null, processed: 0 },
        commitInterval: 10,
        historyEvery: 10,
        historyKeep: 10,
      },
      async (ctx, state) => {
        const batch = await ctx.step("fetch", () => fetchBatch(state.cursor));
        if (!batch.items.length) return Loop.break(state.processed);
        await ctx.step("process", () => {});
        return Loop.continue({ cursor: batch.nextCursor, processed: state.processed + batch.items.length });
      },
    ),
  );
}

export const everyoneFails = workflow("everyone-fails", async (ctx) =>
  ctx.race("missing", { one: (ctx) => ctx.step("one", () => {}), two: (ctx) => ctx.step("two", () => {}) }),
);
