// Y1 Y2: `replayWithSource` says which line of the code diverges from a history.

import { readFileSync } from "node:fs";
import { type AnyWorkflow, type Codec, type History, InvalidInputError, jsonCodec, Loop, NondeterminismError, workflow } from "holdfast";
import { replayWithSource, sourceOfOperation } from "holdfast/inspect";
import { testEngine } from "holdfast/testing";
import { expect, test } from "vitest";

const FILE = import.meta.filename;
const LINES = readFileSync(FILE, "utf8").split("\n");
/** The number of the line that ends with this mark. */
const lineOf = (mark: string): number => LINES.findIndex((line) => line.endsWith(`// ${mark}`)) + 1;

async function historyOf(definition: AnyWorkflow, more: readonly AnyWorkflow[] = []): Promise<History> {
  const engine = await testEngine({ workflows: [definition, ...more] });
  const run = await engine.start(definition, undefined);
  await run.result();
  const history = await run.history();
  await engine.close();
  return JSON.parse(JSON.stringify(history)) as History;
}
async function divergence(definition: AnyWorkflow, history: History, options?: { strict?: boolean; codec?: Codec }) {
  const result = await replayWithSource(definition, history, options);
  if (result.status !== "diverged") throw new Error("The code fits the history.");
  expect(result.error).toBeInstanceOf(NondeterminismError);
  return result;
}

const order = workflow("order", async (ctx) => {
  await ctx.step("charge", () => 1);
  await ctx.sleep("1h");
  return ctx.step("ship", () => 2);
});

test("code that fits its history passes", async () => {
  expect(await replayWithSource(order, await historyOf(order))).toEqual({ status: "passed" });
});

test("an operation that differs: the position is its call", async () => {
  const changed = workflow("order", async (ctx) => {
    await ctx.step("check-stock", () => 1); // renamed
    return ctx.step("ship", () => 2);
  });
  const { error, source } = await divergence(changed, await historyOf(order));
  expect(error).toMatchObject({ location: "charge", field: "name" });
  expect(source).toEqual({ file: FILE, line: lineOf("renamed"), column: 15 });
});

test("an operation behind an await, in a helper: the position is in the helper", async () => {
  const notify = (ctx: { step(name: string, fn: () => number): Promise<number> }) => ctx.step("notify", () => 3); // helper
  const changed = workflow("order", async (ctx) => {
    await ctx.step("charge", () => 1);
    await ctx.sleep("1h");
    return notify(ctx);
  });
  const { error, source } = await divergence(changed, await historyOf(order));
  expect(error.location).toBe("ship");
  expect(source).toMatchObject({ file: FILE, line: lineOf("helper") });
});

test("code that ends where the history goes on: the position is its last operation", async () => {
  const changed = workflow("order", async (ctx) => {
    await ctx.step("charge", () => 1);
    await ctx.sleep("1h"); // last
  });
  const { error, source } = await divergence(changed, await historyOf(order));
  expect(error.location).toBe("ship");
  expect(source).toMatchObject({ file: FILE, line: lineOf("last") });
});

test("code that calls nothing has no position", async () => {
  const { source } = await divergence(
    workflow("order", async () => undefined),
    await historyOf(order),
  );
  expect(source).toBeUndefined();
});

test("a branch that is missing an operation: the position is the last operation of that branch", async () => {
  const both = workflow("both", async (ctx) =>
    ctx.join("both", {
      a: async (branch) => [await branch.step("one", () => 1), await branch.step("two", () => 2)],
      b: async (branch) => branch.sleep("1h"),
    }),
  );
  const changed = workflow("both", async (ctx) =>
    ctx.join("both", {
      a: async (branch) => [await branch.step("one", () => 1)], // branch
      b: async (branch) => branch.sleep("1h"),
    }),
  );
  const { error, source } = await divergence(changed, await historyOf(both));
  expect(error.location).toBe("both/a/two");
  expect(source).toMatchObject({ file: FILE, line: lineOf("branch") });
});

test("operations in another order: the position is the call that came too early", async () => {
  const pair = workflow("pair", async (ctx) =>
    ctx.join("pair", { a: (branch) => branch.step("one", () => 1), b: (branch) => branch.step("two", () => 2) }),
  );
  const changed = workflow("pair", async (ctx) =>
    ctx.join("pair", {
      a: async (branch) => {
        await branch.yield();
        return branch.step("one", () => 1);
      },
      b: (branch) => branch.step("two", () => 2), // early
    }),
  );
  const { error, source } = await divergence(changed, await historyOf(pair));
  expect(error.field).toBe("order");
  expect(source).toMatchObject({ file: FILE, line: lineOf("early") });
});

test("a divergence in a late iteration of a long loop", async () => {
  const looping = (last: string) =>
    workflow("looping", async (ctx) =>
      ctx.loop({ name: "poll", state: 0, commitInterval: 10_000 }, async (each, state) => {
        await each.step(state === 60 ? last : "tick", () => state); // iteration
        return state === 60 ? Loop.break(state) : Loop.continue(state + 1);
      }),
    );
  const { error, source } = await divergence(looping("tock"), await historyOf(looping("tick")));
  expect(error.location).toBe("poll/~60/tick");
  expect(source).toMatchObject({ file: FILE, line: lineOf("iteration") });
});

test("changed options count with strict only", async () => {
  const with5s = workflow("options", async (ctx) => ctx.step("slow", () => 1, { timeout: "5s" }));
  const with9s = workflow("options", async (ctx) => ctx.step("slow", () => 1, { timeout: "9s" })); // option
  const history = await historyOf(with5s);
  expect(await replayWithSource(with9s, history)).toEqual({ status: "passed" });
  const { error, source } = await divergence(with9s, history, { strict: true });
  expect(error.field).toBe("timeout");
  expect(source).toMatchObject({ file: FILE, line: lineOf("option") });
});

test("what is not a divergence is thrown, as by replay", async () => {
  await expect(
    replayWithSource(
      workflow("other", async () => 1),
      await historyOf(order),
    ),
  ).rejects.toThrow(InvalidInputError);
  await expect(replayWithSource(order, { format: "holdfast-history/1" } as History)).rejects.toThrow(InvalidInputError);
});

test("the limit of stack traces is left as it was", async () => {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = 7;
  try {
    await divergence(
      workflow("order", async () => undefined),
      await historyOf(order),
      { codec: jsonCodec },
    );
    expect(Error.stackTraceLimit).toBe(7);
  } finally {
    Error.stackTraceLimit = before;
  }
});

test("the position of an operation is its call, also for code that diverges later", async () => {
  const history = await historyOf(order);
  const changed = workflow("order", async (ctx) => {
    await ctx.step("charge", () => 1); // charges
    await ctx.step("new", () => 2);
  });
  expect(await sourceOfOperation(changed, history, "charge")).toEqual({ file: FILE, line: lineOf("charges"), column: 15 });
  expect(await sourceOfOperation(changed, history, "ship")).toBeUndefined();
});

test("the stack of a divergence reaches the line of the workflow, and the limit of stacks stays", async () => {
  const limit = Error.stackTraceLimit;
  const changed = workflow("order", async (ctx) => {
    await ctx.step("other", () => 1); // in the stack
  });
  const { error } = await divergence(changed, await historyOf(order));
  expect(error.stack).toContain(`${FILE}:${lineOf("in the stack")}:15`);
  expect(Error.stackTraceLimit).toBe(limit);
});
