// What code without types passes: options that there are not, and arguments that are none.

import { activity, Holdfast, InvalidInputError, Loop, Receive, type UnitContext, update, type WorkflowContext, workflow } from "holdfast";
import { testEngine } from "holdfast/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { errorOf } from "./engines.ts";

const echo = workflow("echo", async (_ctx, input: unknown) => input);
const work = activity("work", () => 1);
const entity = workflow({ name: "entity", updates: { add: update<number, number>() } }, async (ctx) => {
  await ctx.receive(0, { updates: { add: (n, total) => Receive.stop(total + n, total + n) } });
});

/** Whatever it is given. */
// biome-ignore lint/suspicious/noExplicitAny: code without types is what is tested
type Untyped = any;

describe("options that there are not", () => {
  let engine: Holdfast;
  beforeEach(async () => {
    engine = await Holdfast.open("memory:");
  });
  afterEach(() => engine.close());

  test.each<[string, (engine: Untyped) => Promise<unknown>, RegExp]>([
    ["open", () => Holdfast.open("memory:", { codecs: {} } as Untyped), /codecs: .* Did you mean codec\?/],
    ["start", (e) => e.start(echo, 1, { idempotencykey: "x" }), /start: idempotencykey: .* Did you mean idempotencyKey\?/],
    ["start by its retry", (e) => e.start(echo, 1, { retry: { attempts: 3 } }), /attempts: .* Did you mean maxAttempts\?/],
    ["startMany", (e) => e.startMany(echo, [{ input: 1 }, { inputs: 2 }]), /startMany: inputs: .* Did you mean input\?/],
    ["updateWithStart", (e) => e.updateWithStart(entity, undefined, { name: "add", args: 1 }), /args: .*Known options: /],
    [
      "the start of updateWithStart",
      (e) => e.updateWithStart(entity, undefined, { name: "add", input: 1 }, { ID: "x" }),
      /Did you mean id/,
    ],
    ["signal", (e) => e.run("x").signal("go", 1, { idempotency: "x" }), /Did you mean idempotencyKey/],
    ["update", (e) => e.run("x").update("go", 1, { timeOut: 1 }), /update: timeOut: .* Did you mean timeout/],
    ["result", (e) => e.run("x").result({ timeOut: 1 }), /Did you mean timeout/],
    ["list", (e) => e.list({ state: "failed" }), /list: state: .* Did you mean status/],
    ["count", (e) => e.count({ workflows: "x" }), /Did you mean workflow/],
    ["worker", (e) => e.worker({ workflows: [echo], concurency: 5 }), /worker: concurency: .* Did you mean concurrency/],
    ["testEngine", () => testEngine({ workflows: [echo], start: 1 } as Untyped), /Did you mean startTime/],
    ["testEngine's stand-ins", () => testEngine({ workflows: [echo], replace: { step: {} } } as Untyped), /Did you mean steps/],
    ["workflow", async () => workflow({ name: "x", serve: "*" } as Untyped, async () => 1), /workflow "x": serve: .* Did you mean serves/],
    ["activity", async () => activity("x", () => 1, { timeout: 5 } as Untyped), /activity "x": timeout: .* Known options: queue/],
  ])("%s: refused with an InvalidInputError that names the nearest", async (_, call, message) => {
    const error = await errorOf(call(engine));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error.message).toMatch(message);
    expect((await engine.list()).runs).toEqual([]);
  });

  test.each<[option: string, call: (engine: Untyped, length: unknown) => Promise<unknown>]>([
    ["delay", (e, delay) => e.start(echo, 1, { delay })],
    ["maxDelay", (e, maxDelay) => e.start(echo, 1, { id: "x", onConflict: "debounce", maxDelay })],
    ["deadline", (e, deadline) => e.start(echo, 1, { deadline })],
    ["timeout", (e, timeout) => e.run("x").result({ timeout })],
    ["timeout", (e, timeout) => e.run("x").update("add", 1, { timeout })],
    ["acceptWithin", (e, acceptWithin) => e.run("x").update("add", 1, { acceptWithin })],
    ["for", (e, length) => e.queues.pause("q", { for: length })],
    ["every", (e, every) => e.schedules.set("s", { workflow: echo, every })],
    ["catchUp", (e, catchUp) => e.schedules.set("s", { workflow: echo, every: "1h", catchUp })],
    ["jitter", (e, jitter) => e.schedules.set("s", { workflow: echo, every: "1h", jitter })],
    ["lease", (e, lease) => e.worker({ workflows: [echo], lease })],
    ["gracePeriod", (e, gracePeriod) => e.worker({ workflows: [echo], gracePeriod })],
    ["turnTimeout", (e, turnTimeout) => e.worker({ workflows: [echo], turnTimeout })],
  ])("%s: a value that is not a duration is refused, and the option is named", async (option, call) => {
    for (const length of ["soon", -1, Number.NaN, ""]) {
      const error = (await errorOf(call(engine, length))) as InvalidInputError;
      expect(error).toBeInstanceOf(InvalidInputError);
      expect(error.issues[0]?.path).toEqual([option]);
    }
    expect((await engine.list()).runs).toEqual([]);
  });

  test.each<[string, (ctx: Untyped) => unknown, RegExp]>([
    ["step", (ctx) => ctx.step("x", () => 1, { retries: 3 }), /ctx\.step: retries: .* Did you mean retry/],
    ["transaction", (ctx) => ctx.transaction("x", () => 1, { timeout: 3 }), /ctx\.transaction: timeout: /],
    ["activity", (ctx) => ctx.activity(work, undefined, { retries: {} }), /Did you mean retry/],
    ["child", (ctx) => ctx.child(echo, 1, { parentclose: "abandon" }), /Did you mean parentClose/],
    ["startChild", (ctx) => ctx.startChild(echo, 1, { task: "x" }), /Known options: id, queue/],
    ["waitForSignal", (ctx) => ctx.waitForSignal("go", { timeOut: "1s" }), /Did you mean timeout/],
    ["listen", (ctx) => ctx.listen(["go"], { counts: 1 }), /Did you mean count/],
    ["receive", (ctx) => ctx.receive(0, { signal: {} }), /Did you mean signals/],
    ["loop", (ctx) => ctx.loop({ name: "x", state: 0, commitEvery: 1 }, () => Loop.break()), /ctx\.loop: commitEvery/],
    ["continueAsNew", (ctx) => ctx.continueAsNew(1, { versions: "2" }), /Did you mean version/],
  ])("ctx.%s: refused with an InvalidInputError that names the nearest", async (_, call, message) => {
    const run = workflow("run", async (ctx: WorkflowContext) => {
      await call(ctx);
    });
    await engine.worker({ workflows: [run] });
    const error = await errorOf((await engine.start(run, undefined)).result());
    expect(error.cause).toMatchObject({ name: "InvalidInputError", message: expect.stringMatching(message) });
  });

  test.each<[string, (ctx: Untyped) => unknown, RegExp]>([
    [
      "activity",
      (ctx) => ctx.activity(work, undefined, { retry: { nonRetryable: () => true } }),
      /list of class names here.*Pass a function to activity/,
    ],
    ["child", (ctx) => ctx.child(echo, 1, { retry: { nonRetryable: () => true } }), /list of names here.*retry policy of the workflow/],
    ["loop", (ctx) => ctx.loop({ name: "x", state: 0, commitInterval: Symbol("s") }, () => Loop.break()), /commitInterval must be/],
    ["receive", (ctx) => ctx.receive(0, { checkpointEvery: Symbol("s") }), /checkpointEvery must be/],
    ["sleep", (ctx) => ctx.sleep("5 parsecs"), /"5 parsecs" is not a duration/],
  ])("ctx.%s: values that can't be are an InvalidInputError", async (_, call, message) => {
    const run = workflow("run", async (ctx: WorkflowContext) => {
      await call(ctx);
    });
    await engine.worker({ workflows: [run] });
    const error = await errorOf((await engine.start(run, undefined)).result());
    expect(error.cause).toMatchObject({ name: "InvalidInputError", message: expect.stringMatching(message) });
  });

  test("D8 a call may repeat the function that its activity has", async () => {
    const stubborn = activity("stubborn", () => Promise.reject(new Error("no")), { retry: { nonRetryable: () => true } });
    const run = workflow("run", async (ctx) =>
      ctx.activity(stubborn, undefined, { ...stubborn.options, startToClose: "1m" }).catch((error: { attempts: number }) => error.attempts),
    );
    await engine.worker({ workflows: [run], activities: [stubborn] });
    expect(await (await engine.start(run, undefined)).result()).toBe(1);
  });

  test.each<[string, (engine: Untyped) => unknown]>([
    ["start of nothing", (e) => e.start()],
    ["updateWithStart without an update", (e) => e.updateWithStart(entity, undefined)],
    ["updateWithStart by name", (e) => e.updateWithStart("entity", undefined, { name: "add", input: 1 })],
    ["run of nothing", (e) => e.run()],
    ["run with a definition that is none", (e) => e.run("x", "entity")],
    ["testEngine with a time that is none", () => testEngine({ workflows: [], startTime: "x" } as Untyped)],
  ])("%s is an InvalidInputError, and nothing is written", async (_, call) => {
    const error = await errorOf(Promise.resolve().then(() => call(engine)));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect((await engine.list()).runs).toEqual([]);
  });

  test("one that is given as undefined is left out", async () => {
    const run = workflow("run", async (ctx: UnitContext) => ctx.step("x", () => 1, { retries: undefined } as never));
    await engine.worker({ workflows: [run], colour: undefined } as never);
    expect(await (await engine.start(run, undefined, { idempotencykey: undefined } as never)).result()).toBe(1);
  });
});
