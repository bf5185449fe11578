// Job: prove what workflow() accepts, refuses and makes, and what types follow from a definition.
// Owns: the definition; running workflows is proved with the executor.
// Invariants: P1, P10 (ContinueAsNew is not an output), V2 (versions), K3 (cancellation), K7 (deadline).
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import type { AnyWorkflow, ContinueAsNew, SignalSpec, Workflow, WorkflowContext } from "../../src/model/index.ts";
import { Receive, signal, update, workflow } from "../../src/model/index.ts";
import { issuesOf } from "./issuesOf.ts";

const body = async () => {};
type Options = AnyWorkflow["options"];
// biome-ignore lint/complexity/noBannedTypes: what workflow() infers for messages that are not declared
type None = {};

describe("workflow", () => {
  it("P1 a name and a function are enough", () => {
    const orders = workflow("orders", body);
    expect(orders).toStrictEqual({ name: "orders", version: undefined, options: { name: "orders" }, run: body });
  });

  it("P1 keeps every option as given", () => {
    const options = {
      name: "orders",
      version: "2",
      serves: ["1", "1.1"],
      input: z.string(),
      output: z.number(),
      retry: { maxAttempts: 3 },
      deadline: "7d" as const,
      cancellation: "cooperative" as const,
      rollbackOnCancel: true,
      signals: { go: signal() },
      updates: { add: update<string, number>() },
      queries: { status: (state: string) => state },
    };
    const orders = workflow(options, async (_ctx, input) => input.length);
    expect(orders.name).toBe("orders");
    expect(orders.version).toBe("2");
    expect(orders.options).toEqual(options);
  });

  it("P1 a definition is frozen and keeps its distance from the caller's objects", () => {
    const serves = ["1"];
    const retry = { maxAttempts: 3, nonRetryable: ["CardDeclined"] };
    const signals: Record<string, SignalSpec<void>> = { go: signal() };
    const options = { name: "orders", serves, retry, signals, updates: {}, queries: {} };
    const orders = workflow(options, body);

    options.name = "other";
    serves.push("9");
    retry.maxAttempts = 99;
    retry.nonRetryable.push("Late");
    signals["late"] = signal();

    expect(orders.options).toEqual({
      name: "orders",
      serves: ["1"],
      retry: { maxAttempts: 3, nonRetryable: ["CardDeclined"] },
      signals: { go: signal() },
      updates: {},
      queries: {},
    });
    const { options: kept } = orders;
    expect([orders, kept, kept.serves, kept.retry, kept.signals, kept.updates, kept.queries].every(Object.isFrozen)).toBe(true);
    expect(Object.isFrozen(options) || Object.isFrozen(serves) || Object.isFrozen(signals)).toBe(false);
  });

  it.each([
    ["an empty name", "", "name: must not be empty"],
    ["a blank name", "  ", "name: must not be empty"],
    ["a name over the limit", "x".repeat(256), "name: must have at most 255 characters, not 256"],
    [
      "a name with NUL, which Postgres can't store",
      "a\0b",
      String.raw`name: must not contain control characters or unpaired surrogates: "a\u0000b"`,
    ],
    ["a name with half a character", "a\uD800", String.raw`name: must not contain control characters or unpaired surrogates: "a\ud800"`],
  ])("P9 refuses %s", (_, name, message) => {
    expect(issuesOf(() => workflow(name, body))).toEqual([message]);
    expect(issuesOf(() => workflow({ name }, body))).toEqual([message]);
  });

  it("P9 takes any other name, up to the limit", () => {
    for (const name of ["a", "order/shipping#1", "größe 📦", "x".repeat(255)]) expect(workflow(name, body).name).toBe(name);
  });

  it.each<[string, Omit<Options, "name">, RegExp]>([
    ["V2 refuses an empty version", { version: "" }, /^version: must not be empty$/],
    ["V2 refuses a version that stands for all", { version: "*" }, /^version: must be one version/],
    ["V2 refuses a version over the limit", { version: "1".repeat(256) }, /^version: must have at most 255 characters, not 256$/],
    // @ts-expect-error not a string
    ["V2 refuses a version that is a number", { version: 2 }, /^version: must be text, not 2$/],
    // @ts-expect-error not a list
    ["V2 refuses to serve what is not a list", { serves: "1" }, /^serves: must be a list of versions or "\*", not "1"$/],
    ["V2 refuses an empty version in serves, and says where", { serves: ["1", ""] }, /^serves\.1: must not be empty$/],
    ["V2 refuses a star inside the list", { serves: ["*"] }, /^serves\.0: must be one version.* write serves: "\*"$/],
    [
      "D8 refuses a retry that makes no attempt",
      { retry: { maxAttempts: 0 } },
      /^retry\.maxAttempts: must be a whole number of at least 1/,
    ],
    // @ts-expect-error not a duration
    ["K7 refuses a malformed deadline", { deadline: "soon" }, /^deadline: .* is not a duration/],
    ["K7 refuses a negative deadline", { deadline: -1 }, /^deadline: .* is not a duration/],
    ["K7 refuses a deadline of nothing", { deadline: 0 }, /^deadline: must be longer than 0/],
    // @ts-expect-error no such choice
    ["K3 refuses an unknown cancellation", { cancellation: "never" }, /^cancellation: must be "enforced" or "cooperative", not "never"$/],
    // @ts-expect-error not a boolean
    ["S3 refuses what is not a boolean", { rollbackOnCancel: "yes" }, /^rollbackOnCancel: must be true or false, not "yes"$/],
    // @ts-expect-error not a schema
    ["P1 refuses an input that is not a schema", { input: { sku: "string" } }, /^input: must be a Standard Schema/],
    // @ts-expect-error not a schema
    ["P1 refuses an output that is not a schema", { output: null }, /^output: must be a Standard Schema/],
    ["M1 refuses a signal that is an update", { signals: { go: update() } }, /^signals\.go: must be made by signal\(\), not /],
    ["M1 refuses an update that is a signal", { updates: { add: signal() } }, /^updates\.add: must be made by update\(\), not /],
    ["M1 refuses signal without its call", { signals: { go: signal } }, /^signals\.go: must be made by signal\(\), not /],
    [
      "M1 refuses a spec built by hand whose schema can't be asked",
      { signals: { go: { kind: "signal", schema: "string" } } },
      /^signals\.go\.schema: must be a Standard Schema/,
    ],
    ["M1 refuses a list of signals", { signals: ["go"] }, /^signals: must be an object, not \["go"\]$/],
    ["M1 refuses a signal without a name", { signals: { "": signal() } }, /^signals\.: must not be empty$/],
    [
      "M11 refuses a query that is not a function",
      { queries: { status: "status" } },
      /^queries\.status: must be a function, not "status"$/,
    ],
  ])("%s", (_, options, message) => {
    const issues = issuesOf(() => workflow({ name: "orders", ...options }, body));
    expect(issues).toEqual([expect.stringMatching(message)]);
  });

  it("V2 serves all versions with a star, and none with an empty list", () => {
    expect(workflow({ name: "orders", serves: "*" }, body).options.serves).toBe("*");
    expect(workflow({ name: "orders", serves: [] }, body).options.serves).toEqual([]);
  });

  it("P1 refuses a definition without a function, or without options", () => {
    // @ts-expect-error no function
    expect(issuesOf(() => workflow("orders"))).toEqual(["run: must be a function, not undefined"]);
    // @ts-expect-error no options
    expect(issuesOf(() => workflow(undefined, body))).toEqual(["must be given a name or an object of options, not undefined"]);
    // @ts-expect-error no options
    expect(issuesOf(() => workflow(null, body))).toEqual(["must be given a name or an object of options, not null"]);
  });

  it.each([undefined, null, 7, 7n, Symbol("x"), {}])("P1 refuses %s as a name with the same kind of error", (name) => {
    // @ts-expect-error not a string
    expect(issuesOf(() => workflow({ name }, body))).toEqual([expect.stringMatching(/^name: must be text, not /)]);
  });

  it("P1 says everything that is wrong at once, and which workflow it is", () => {
    // @ts-expect-error not a duration
    const define = () => workflow({ name: "orders", version: "", deadline: "soon" }, body);
    expect(issuesOf(define)).toEqual(["version: must not be empty", expect.stringMatching(/^deadline: .* is not a duration/)]);
    expect(define).toThrow(/workflow "orders"/);
  });
});

describe("types of a definition", () => {
  it("P1 input and output are those of the function, at compile time", () => {
    const orders = workflow("orders", async (_ctx, input: { id: string }) => input.id.length);
    expectTypeOf(orders).toEqualTypeOf<Workflow<{ id: string }, number>>();
    expectTypeOf(workflow("nothing", async () => {})).toEqualTypeOf<Workflow<void, void>>();
  });

  it("P1 input and output are those of the schemas, at compile time", () => {
    const orders = workflow({ name: "orders", input: z.object({ id: z.string() }), output: z.number() }, async (_ctx, input) => {
      expectTypeOf(input).toEqualTypeOf<{ id: string }>();
      return input.id.length;
    });
    expectTypeOf(orders).toExtend<Workflow<{ id: string }, number, None, None, None>>();
    // @ts-expect-error the function returns what the output schema does not give
    workflow({ name: "orders", output: z.number() }, async () => "seven");
  });

  it("P10 ContinueAsNew is not part of the output, at compile time", () => {
    const collector = workflow("collector", async (ctx, input: { generation: number }) => {
      if (input.generation > 10) return input.generation;
      return ctx.continueAsNew({ generation: input.generation + 1 });
    });
    expectTypeOf(collector).toEqualTypeOf<Workflow<{ generation: number }, number>>();
    expectTypeOf<Awaited<ReturnType<typeof collector.run>>>().toEqualTypeOf<number | ContinueAsNew>();

    const forever = workflow({ name: "forever" }, async (ctx, input: number) => ctx.continueAsNew(input + 1));
    expectTypeOf(forever).toEqualTypeOf<Workflow<number, never, None, None, None>>();
  });

  it("P10 continueAsNew takes the workflow's own input, at compile time", () => {
    workflow("collector", async (ctx, input: { generation: number }) => {
      // @ts-expect-error not this workflow's input
      if (input.generation > 10) return ctx.continueAsNew("11");
      return ctx.continueAsNew(input, { version: "2" });
    });
  });

  it("M1 a workflow with options takes only the messages that it declares, at compile time", () => {
    const strict = workflow({ name: "strict", signals: { go: signal() } }, async (ctx) => {
      // @ts-expect-error not declared
      await ctx.waitForSignal("stop");
      // @ts-expect-error not declared
      await ctx.receive(0, { signals: { stop: (_: unknown, state: number) => Receive.noreply(state) } });
    });
    expectTypeOf(strict).toEqualTypeOf<Workflow<void, void, { go: SignalSpec<void> }, None, None>>();
  });

  it("P1 any definition is an AnyWorkflow, at compile time", () => {
    const typed = workflow(
      { name: "typed", signals: { go: signal<string>() }, queries: { n: (n: number) => n } },
      async (_ctx, input: string) => input,
    );
    const all: readonly AnyWorkflow[] = [typed, workflow("plain", async (_ctx, input: number) => input)];
    expect(all.map((one) => one.name)).toEqual(["typed", "plain"]);
  });

  it("P1 a helper may take the context of any workflow, at compile time", () => {
    const helper = async (ctx: WorkflowContext) => ctx.step("help", () => 1);
    workflow("plain", async (ctx, _input: string) => helper(ctx));
  });
});
