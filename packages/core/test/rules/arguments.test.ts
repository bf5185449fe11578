// Job: prove that calls on `ctx` refuse what they can't use, at the call, whatever code without types passes.
// Owns: the workflows in it. What definitions refuse is in test/model.
// Invariants: a wrong argument is an InvalidInputError in workflow code that names the call; nothing is opened for it; P10 (ids), D11, S1.
import { activity, type Command, InvalidInputError, Receive, type WorkflowContext, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

// biome-ignore lint/suspicious/noExplicitAny: it calls what the types refuse
type Untyped = any;

const kid = workflow("kid", async () => 1);
const render = activity("render", async () => 1);

/** What the call throws, from a workflow that goes on afterwards; and what it has emitted until then. */
async function refusalOf(call: (ctx: Untyped) => unknown): Promise<{ refusal: unknown; opened: readonly Command[] }> {
  let refusal: unknown;
  const wf = workflow("tries", async (ctx: WorkflowContext) => {
    try {
      await call(ctx);
    } catch (error) {
      refusal = error;
    }
    await ctx.sleep("goes on", "1s");
  });
  const h = await Harness.start(wf);
  const opened = h.commands.filter((command) => !("name" in command && command.name === "goes on"));
  expect(h.status).toBe("sleeping");
  await crashAnywhere(h);
  return { refusal, opened };
}

async function expectRefused(call: (ctx: Untyped) => unknown, message: RegExp): Promise<void> {
  const { refusal, opened } = await refusalOf(call);
  expect(refusal).toBeInstanceOf(InvalidInputError);
  expect((refusal as Error).message).toMatch(message);
  expect(opened).toEqual([]);
}

describe("arguments", () => {
  it.each<[string, (ctx: Untyped) => unknown, RegExp]>([
    ["step without a name", (ctx) => ctx.step(1n, () => 1), /ctx\.step: .*name/],
    ["step with null options", (ctx) => ctx.step("s", () => 1, null), /ctx\.step: .*options .*not null/],
    ["transaction with text for options", (ctx) => ctx.transaction("s", () => 1, "x"), /ctx\.transaction: .*options .*not "x"/],
    ["activity of a name", (ctx) => ctx.activity("render"), /ctx\.activity: Expected an activity.*got "render"/],
    ["activity of nothing", (ctx) => ctx.activity(), /ctx\.activity: Expected an activity/],
    ["activity with null options", (ctx) => ctx.activity(render, 1, null), /ctx\.activity: .*options .*not null/],
    ["child of a name", (ctx) => ctx.child("kid"), /ctx\.child: Expected a workflow.*got "kid"/],
    ["startChild of nothing", (ctx) => ctx.startChild(), /ctx\.startChild: Expected a workflow/],
    ["child with null options", (ctx) => ctx.child(kid, 1, null), /ctx\.child: .*options .*not null/],
    ["sleep of nothing", (ctx) => ctx.sleep(), /duration/],
    ["sleepUntil text", (ctx) => ctx.sleepUntil("x"), /ctx\.sleepUntil: "x" is not a time/],
    ["sleepUntil of nothing", (ctx) => ctx.sleepUntil(), /ctx\.sleepUntil: .* is not a time/],
    ["sleepUntil of an invalid date", (ctx) => ctx.sleepUntil(new Date(Number.NaN)), /ctx\.sleepUntil: Invalid Date is not a time/],
    ["waitForSignal with null options", (ctx) => ctx.waitForSignal("x", null), /ctx\.waitForSignal: .*options/],
    ["listen to one name", (ctx) => ctx.listen("x", { timeout: 1 }), /ctx\.listen: Expected a list of names/],
    ["listen to a number", (ctx) => ctx.listen([5]), /ctx\.listen: .*name/],
    ["listen to nothing", (ctx) => ctx.listen(), /ctx\.listen: Expected a list of names/],
    ["listen with null options", (ctx) => ctx.listen(["x"], null), /ctx\.listen: .*options/],
    ["sideEffect of nothing", (ctx) => ctx.sideEffect(), /ctx\.sideEffect: Expected a function/],
    [
      "removed without a kind",
      (ctx) => ctx.removed("s"),
      /ctx\.removed: .*kind must be one of step, transaction, .*, attributes, not undefined/,
    ],
    ["removed of a kind that there is not", (ctx) => ctx.removed("s", "wait"), /ctx\.removed: .*kind must be one of .*, not "wait"/],
    ["setAttributes of null", (ctx) => ctx.setAttributes(null), /ctx\.setAttributes: Expected an object/],
    ["parallel of nothing", (ctx) => ctx.parallel(), /ctx\.parallel: Expected a list of functions/],
    ["parallel of values", (ctx) => ctx.parallel([1]), /ctx\.parallel: Expected a function/],
    ["join of nothing", (ctx) => ctx.join("x"), /ctx\.join: Expected functions by name/],
    ["join of values", (ctx) => ctx.join("x", { a: 1 }), /ctx\.join: Expected a function/],
    ["race of null", (ctx) => ctx.race("x", null), /ctx\.race: Expected functions by name/],
    ["loop of null", (ctx) => ctx.loop(null, () => 1), /ctx\.loop: Expected a name/],
    ["loop without a function", (ctx) => ctx.loop({ name: "l", state: 0 }), /ctx\.loop: Expected a function/],
    ["receive of nothing", (ctx) => ctx.receive(), /ctx\.receive: Expected \(state, \{ signals, updates \}\)/],
    ["receive of a handler that is none", (ctx) => ctx.receive(0, { signals: { a: 5 } }), /ctx\.receive: .*handler of "a"/],
    ["receive of half a handler", (ctx) => ctx.receive(0, { updates: { a: { validate: () => {} } } }), /ctx\.receive: .*handler of "a"/],
    ["receive of a list", (ctx) => ctx.receive(0, { updates: [() => 1] }), /ctx\.receive: updates: /],
    ["continueAsNew with a version that is none", (ctx) => ctx.continueAsNew(1, { version: 5 }), /ctx\.continueAsNew: .*version/],
  ])("%s is refused at the call, which it names", async (_what, call, message) => {
    await expectRefused(call, message);
  });

  it("R1 a handler may be left out by its value", async () => {
    const wf = workflow("left out", async (ctx) =>
      ctx.receive(0, { signals: { go: () => Receive.stop(1), no: undefined as Untyped }, updates: undefined as Untyped }),
    );
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("go"));
    expect(h.output).toEqual({ state: 1, timedOut: false });
  });
});

describe("options", () => {
  it.each([[5], [null], ["undo"], [{}]])("S1 a rollback that is not a function is refused at the step: %j", async (rollback) => {
    await expectRefused((ctx) => ctx.step("charge", () => 1, { rollback }), /ctx\.step: rollback: rollback must be a function/);
    await expectRefused((ctx) => ctx.transaction("charge", () => 1, { rollback }), /ctx\.transaction: rollback: /);
  });

  it.each<[string, unknown]>([
    ["id", ""],
    ["id", 5],
    ["id", "x".repeat(600)],
    ["id", "a\nb"],
    ["queue", ""],
    ["queue", 5],
    ["version", 5],
    ["version", ""],
    ["parentClose", "x"],
    ["priority", 1.5],
    ["attributes", { a: {} }],
    ["attributes", { a: Number.NaN }],
    ["attributes", { a: null }],
    ["attributes", 5],
    ["onConflict", "use-existing"],
    ["onConflict", 5],
    ["delay", "1h"],
  ])("P10 a child's options are checked as a start's are: %s, case %#", async (key, value) => {
    await expectRefused((ctx) => ctx.child(kid, 1, { [key]: value }), new RegExp(`ctx\\.child: ${key}: `));
    await expectRefused((ctx) => ctx.startChild(kid, 1, { [key]: value }), new RegExp(`ctx\\.startChild: ${key}: `));
  });

  it.each([["soon"], [8.64e15], [new Date(Number.NaN)]])(
    "K7 a child's deadline is a duration or a valid date, not %s",
    async (deadline) => {
      await expectRefused((ctx) => ctx.child(kid, 1, { deadline }), /duration|not a time/);
    },
  );

  it.each<[string, unknown]>([
    ["queue", ""],
    ["queue", 5],
    ["startToClose", "x"],
    ["startToClose", 0],
    ["heartbeat", 8.64e15],
    ["retry", 5],
  ])("D11 what a call gives an activity is checked as its definition is: %s %j", async (key, value) => {
    await expectRefused((ctx) => ctx.activity(render, undefined, { [key]: value }), new RegExp(`ctx\\.activity "render": ${key}: `));
  });
});

describe("times", () => {
  it.each<[string, (ctx: Untyped) => unknown]>([
    ["sleep", (ctx) => ctx.sleep(8.64e15)],
    ["waitForSignal", (ctx) => ctx.waitForSignal("x", { timeout: 8.64e15 })],
    ["listen", (ctx) => ctx.listen(["x"], { timeout: 8.64e15 })],
    ["receive", (ctx) => ctx.receive(0, { timeout: 8.64e15 })],
    ["condition", (ctx) => ctx.condition(() => false, 8.64e15)],
    ["step", (ctx) => ctx.step("s", () => 1, { timeout: 8.64e15 })],
  ])("K8 a timer that no Date can say is refused: %s", async (_call, call) => {
    await expectRefused(call, /8640000000000000 is not a duration/);
  });

  it("K8 sleepUntil takes every time that a Date can say, and no other", async () => {
    const h = await Harness.start(workflow("last", async (ctx) => ctx.sleepUntil(new Date(8.64e15))));
    expect(h.commands).toMatchObject([{ type: "sleep", until: 8.64e15 }]);
    await expectRefused((ctx) => ctx.sleepUntil(8.64e15 + 1), /ctx\.sleepUntil: 8640000000000001 is not a time/);
  });
});
