// Runs whose code has changed: the server has recorded what the old code asked for, and a worker has the new code.
// Owns: one pair of codes for each kind of difference.
// Invariants: Y2 (what is compared, and what is not), V4 (the run is blocked with the reason, and goes on with corrected code).

import {
  type ActivityOptions,
  type AnyWorkflow,
  activity,
  type ChildOptions,
  type History,
  type Run,
  RunBlockedError,
  replay,
  type SerializedError,
  type StepOptions,
  type Worker,
  type WorkflowContext,
  workflow,
} from "holdfast";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { engines, LONG, newQueue } from "./engines.ts";

const SOON = { timeout: 60_000, interval: 300 };

type Code = (ctx: WorkflowContext) => Promise<unknown>;
interface Change {
  readonly before: Code;
  readonly after: Code;
  /** The field of the error, and parts of its two sides. Without it the change is none to replay. */
  readonly diverges?: { readonly field: string; readonly expected: RegExp; readonly actual: RegExp };
}

const charge = activity("charge", (amount: number) => `charged ${amount}`);
const bill = activity("bill", (amount: number) => `billed ${amount}`);
const small = workflow("small", async (_, n: number) => n);
const other = workflow("other", async (_, n: number) => n);
/** Waits for messages: the target of those that runs send. */
const target = workflow("target", async (ctx) => void (await ctx.waitForSignal("never")));
const step = (ctx: WorkflowContext, name: string) => ctx.step(name, () => name);
const NONE = /^undefined$/;

function changes(targets: readonly string[]): Record<string, Change> {
  const [one = "", two = "", three = ""] = targets;
  const id = (name: string) => `${one}-${name}`;
  return {
    "the name of a step": {
      before: (ctx) => step(ctx, "charge"),
      after: (ctx) => step(ctx, "bill"),
      diverges: { field: "operation", expected: /step charge/, actual: /step bill/ },
    },
    "a step that is missing": {
      before: async (ctx) => [await step(ctx, "a"), await step(ctx, "b")],
      after: async (ctx) => [await step(ctx, "b")],
      diverges: { field: "operation", expected: /step a/, actual: /step b/ },
    },
    "the last step is missing": {
      before: async (ctx) => [await step(ctx, "a"), await step(ctx, "b")],
      after: async (ctx) => [await step(ctx, "a")],
      diverges: { field: "operation", expected: /step b/, actual: NONE },
    },
    "a step too many": {
      before: async (ctx) => [await step(ctx, "a"), await step(ctx, "b")],
      after: async (ctx) => [await step(ctx, "a"), await step(ctx, "extra"), await step(ctx, "b")],
      diverges: { field: "operation", expected: /step b/, actual: /step extra/ },
    },
    "a step too many at the end": {
      before: async (ctx) => [await step(ctx, "a")],
      after: async (ctx) => [await step(ctx, "a"), await step(ctx, "extra")],
      diverges: { field: "operation", expected: NONE, actual: /step extra/ },
    },
    "the order of steps": {
      before: async (ctx) => [await step(ctx, "a"), await step(ctx, "b")],
      after: async (ctx) => [await step(ctx, "b"), await step(ctx, "a")],
      diverges: { field: "operation", expected: /step a/, actual: /step b/ },
    },
    "the order of steps in one turn": {
      before: (ctx) => Promise.all([step(ctx, "a"), step(ctx, "b")]),
      after: (ctx) => Promise.all([step(ctx, "b"), step(ctx, "a")]),
      diverges: { field: "operation", expected: /step a/, actual: /step b/ },
    },
    "a step that is an activity now": {
      before: (ctx) => step(ctx, "charge"),
      after: (ctx) => ctx.activity(charge, 1),
      diverges: { field: "activity", expected: /holdfast.step/, actual: /charge/ },
    },
    "a step that is a timer now": {
      before: (ctx) => step(ctx, "a"),
      after: (ctx) => ctx.sleep("a", 5),
      diverges: { field: "operation", expected: /step a/, actual: /timer/ },
    },
    "the name of an activity": {
      before: (ctx) => ctx.activity(charge, 1),
      after: (ctx) => ctx.activity(bill, 1),
      diverges: { field: "operation", expected: /charge/, actual: /bill/ },
    },
    "the input of an activity": {
      before: (ctx) => ctx.activity(charge, 1),
      after: (ctx) => ctx.activity(charge, 2),
      diverges: { field: "input", expected: /^1$/, actual: /^2$/ },
    },
    "the length of a timer": {
      before: (ctx) => ctx.sleep("pause", 10),
      after: (ctx) => ctx.sleep("pause", 20),
      diverges: { field: "duration", expected: /^10$/, actual: /^20$/ },
    },
    "two timers exchanged": {
      before: (ctx) => Promise.all([ctx.sleep("a", 10), ctx.sleep("b", 10)]),
      after: (ctx) => Promise.all([ctx.sleep("b", 10), ctx.sleep("a", 10)]),
      diverges: { field: "operation", expected: /a:?1?, a timer|sleep a/, actual: /sleep b/ },
    },
    "the length of a wait for a signal": {
      before: (ctx) => ctx.waitForSignal("never", { timeout: 10 }),
      after: (ctx) => ctx.waitForSignal("never", { timeout: 20 }),
      diverges: { field: "duration", expected: /^10$/, actual: /^20$/ },
    },
    "the type of a child": {
      before: (ctx) => ctx.child(small, 1, { id: id("type") }),
      after: (ctx) => ctx.child(other, 1, { id: id("type") }),
      diverges: { field: "workflow", expected: /small/, actual: /other/ },
    },
    "the id of a child": {
      before: (ctx) => ctx.child(small, 1, { id: id("id") }),
      after: (ctx) => ctx.child(small, 1, { id: id("new-id") }),
      diverges: { field: "operation", expected: /child small with id .*-id$/, actual: /child small with id .*-new-id/ },
    },
    "the input of a child": {
      before: (ctx) => ctx.child(small, 1, { id: id("input") }),
      after: (ctx) => ctx.child(small, 2, { id: id("input") }),
      diverges: { field: "input", expected: /^1$/, actual: /^2$/ },
    },
    "the name of a signal to another run": {
      before: (ctx) => ctx.signalRun(one, "hello", 1),
      after: (ctx) => ctx.signalRun(one, "bye", 1),
      diverges: { field: "operation", expected: /hello/, actual: /bye/ },
    },
    "the target of a signal": {
      before: (ctx) => ctx.signalRun(one, "hello", 1),
      after: (ctx) => ctx.signalRun(two, "hello", 1),
      diverges: { field: "operation", expected: new RegExp(one), actual: new RegExp(two) },
    },
    "the payload of a signal": {
      before: (ctx) => ctx.signalRun(one, "hello", 1),
      after: (ctx) => ctx.signalRun(one, "hello", 2),
      diverges: { field: "payload", expected: /^1$/, actual: /^2$/ },
    },
    "the target of a cancellation": {
      before: (ctx) => ctx.cancelRun(three),
      after: (ctx) => ctx.cancelRun(two),
      diverges: { field: "operation", expected: new RegExp(three), actual: new RegExp(two) },
    },
    "a patch that the code no longer asks for": {
      before: async (ctx) => ctx.patched("first"),
      after: async () => true,
      diverges: { field: "operation", expected: /patch first/, actual: NONE },
    },
    "the id of a patch": {
      before: async (ctx) => ctx.patched("first"),
      after: async (ctx) => ctx.patched("second"),
      diverges: { field: "operation", expected: /patch first/, actual: /patch second|^undefined$/ },
    },
    "the name of a local step": {
      before: (ctx) => ctx.step("a", () => 1, { local: true }),
      after: (ctx) => ctx.step("b", () => 1, { local: true }),
      diverges: { field: "operation", expected: /a/, actual: /b/ },
    },
    "a side effect that is missing": {
      before: (ctx) => ctx.sideEffect(() => 1),
      after: async () => 1,
      diverges: { field: "operation", expected: /side ?effect/i, actual: NONE },
    },
    "a side effect too many": {
      before: async (ctx) => step(ctx, "a"),
      after: async (ctx) => [await ctx.sideEffect(() => 1), await step(ctx, "a")],
      diverges: { field: "operation", expected: /step a/, actual: /side effect/ },
    },
    "a local step too many behind another": {
      before: async (ctx) => [await ctx.sideEffect(() => 1), await step(ctx, "a")],
      after: async (ctx) => [await ctx.sideEffect(() => 1), await ctx.step("b", () => 1, { local: true }), await step(ctx, "a")],
      diverges: { field: "operation", expected: /step a/, actual: /local step.*b/ },
    },
    "a side effect too many at the end": {
      before: async (ctx) => step(ctx, "a"),
      after: async (ctx) => [await step(ctx, "a"), await ctx.sideEffect(() => 1)],
      diverges: { field: "operation", expected: NONE, actual: /side effect/ },
    },
    "a local step too many at the end": {
      before: async (ctx) => ctx.sideEffect(() => 1),
      after: async (ctx) => [await ctx.sideEffect(() => 1), await ctx.step("b", () => 1, { local: true })],
      diverges: { field: "operation", expected: NONE, actual: /local step.*b/ },
    },
    "a local step that is missing behind a remote one": {
      before: async (ctx) => [await step(ctx, "a"), await ctx.step("b", () => 1, { local: true })],
      after: async (ctx) => [await step(ctx, "a")],
      diverges: { field: "operation", expected: /b/, actual: NONE },
    },
    // What only says how an operation is carried out.
    "options of steps": {
      before: (ctx) => ctx.step("a", () => 1, { retry: { maxAttempts: 2 }, timeout: "5s" }),
      after: (ctx) => ctx.step("a", () => 1, { retry: { maxAttempts: 7, initialInterval: 5 }, timeout: "50s" }),
    },
    "options of activities": {
      before: (ctx) => ctx.activity(charge, 1, { retry: { maxAttempts: 2 }, startToClose: "5s" }),
      after: (ctx) => ctx.activity(charge, 1, { queue: "elsewhere", heartbeat: "9s", scheduleToClose: "1h", retry: { maxAttempts: 3 } }),
    },
    "options of children": {
      before: (ctx) => ctx.child(small, 1, { id: id("options") }),
      after: (ctx) =>
        ctx.child(small, 1, { id: id("options"), parentClose: "abandon", queue: "elsewhere", attributes: { a: 1 }, priority: 2 }),
    },
    "what a step returns": {
      before: (ctx) => ctx.step("a", () => 1),
      after: (ctx) => ctx.step("a", () => 2),
    },
    "a patch in code that has none": {
      before: async (ctx) => step(ctx, "a"),
      after: async (ctx) => [ctx.patched("late"), await step(ctx, "a")],
    },
    "a step behind a patch": {
      before: async (ctx) => step(ctx, "a"),
      after: async (ctx) => (ctx.patched("late") ? step(ctx, "new") : step(ctx, "a")),
    },
    "the value of a published state": {
      before: async (ctx) => ctx.publishState({ n: 1 }),
      after: async (ctx) => ctx.publishState({ n: 2 }),
    },
  };
}

/** What was seen of a run: with the changed code, and with the old code after that. */
interface Seen {
  readonly outcome: unknown;
  readonly status: string;
  readonly why: SerializedError | undefined;
  readonly failure: string | undefined;
  end?: unknown;
}

describe("changed code", () => {
  const on = engines();
  const queue = newQueue();
  const names = Object.keys(changes(["", ""]));
  const seen = new Map<string, Seen>();
  let all: Record<string, Change> = {};

  const worker = async (which: "before" | "after"): Promise<Worker> => {
    const holdfast = await on.open(queue);
    const changed: AnyWorkflow[] = names.map((name) =>
      workflow(name, async (ctx) => {
        await all[name]?.[which](ctx);
        return ctx.waitForSignal("go");
      }),
    );
    return holdfast.worker({ workflows: [...changed, small, other, target], activities: [charge, bill] });
  };
  const look = async (run: Run<unknown>): Promise<Seen> => {
    const outcome = await run.result({ timeout: "40s" }).catch((error: unknown) => error);
    const { status, error: why } = await run.describe();
    const failed = (await on.events(run.id)).findLast((event) => event.workflowTaskFailedEventAttributes);
    return { outcome, status, why, failure: failed?.workflowTaskFailedEventAttributes?.failure?.message ?? undefined };
  };
  beforeAll(async () => {
    const holdfast = await on.open(queue);
    const targets = await holdfast.startMany(target, [{}, {}, {}]);
    all = changes(targets.map(({ id }) => id));
    const runs = new Map<string, Run<unknown>>();
    const right = await worker("before");
    for (const name of names) runs.set(name, await holdfast.start(name, undefined, { id: `${targets[0]?.id}: ${name}` }));
    for (const run of runs.values())
      await vi.waitFor(async () => expect(await run.describe()).toMatchObject({ waitingFor: ["a signal or update"] }), SOON);
    await right.stop();
    const wrong = await worker("after");
    await Promise.all([...runs.values()].map((run) => run.signal("go", "gone")));
    await Promise.all([...runs].map(async ([name, run]) => void seen.set(name, await look(run))));
    await wrong.stop();
    const corrected = await worker("before");
    const ended = async (run: Run<unknown>) => {
      const end = await run.result({ timeout: "50s" });
      expect(end).toBe("gone");
      return end;
    };
    await Promise.all(
      [...runs].map(async ([name, run]) => {
        const end = await vi.waitFor(() => ended(run), SOON).catch((error: unknown) => error);
        (seen.get(name) as Seen).end = end;
      }),
    );
    await Promise.all([...runs.values(), ...targets].map((run) => run.terminate().catch(() => {})));
    await corrected.stop();
  }, 180_000);

  for (const [name, { diverges }] of Object.entries(changes(["one", "two"]))) {
    if (diverges === undefined) {
      test(`Y2 V1 no divergence: ${name}`, () => expect(seen.get(name)).toMatchObject({ outcome: "gone", status: "completed" }));
      continue;
    }
    test(`Y2 V4 divergence: ${name}`, () => {
      const { field, expected, actual } = all[name]?.diverges ?? diverges;
      const { outcome, status, why, failure, end } = seen.get(name) as Seen;
      expect(outcome).toBeInstanceOf(RunBlockedError);
      expect(outcome).toMatchObject({ cause: { code: "HF_NONDETERMINISM" } });
      expect(status).toBe("blocked");
      expect(failure).toContain("diverge");
      expect(why).toMatchObject({ name: "NondeterminismError", data: { field } });
      const { expected: before, actual: now } = (why?.data ?? {}) as { expected?: unknown; actual?: unknown };
      expect(String(before)).toMatch(expected);
      expect(String(now)).toMatch(actual);
      expect(end).toBe("gone");
    });
  }
});

describe("replay of a downloaded history", () => {
  const on = engines();
  const code = (amount: number, output: number, queue?: string) =>
    workflow("downloaded", async (ctx) => {
      await step(ctx, "a");
      await ctx.activity(charge, amount, queue === undefined ? {} : { queue });
      return output;
    });
  test("Y2 Y5 the output of the run, the input of an activity; options only if it is strict", async () => {
    const holdfast = await on.open();
    await holdfast.worker({ workflows: [code(1, 1)], activities: [charge] });
    const run = await holdfast.start(code(1, 1));
    expect(await run.result()).toBe(1);
    const history = JSON.parse(JSON.stringify(await run.history())) as History;
    expect(history.format).toBe("temporal-history/1");
    await replay(code(1, 1), history);
    await replay(code(1, 1), { events: history.turns });
    await expect(replay(code(1, 2), history)).rejects.toMatchObject({ code: "HF_NONDETERMINISM", field: "output", expected: 1, actual: 2 });
    await expect(replay(code(2, 1), history)).rejects.toMatchObject({ code: "HF_NONDETERMINISM", field: "input", expected: 1, actual: 2 });
    await replay(code(1, 1, "elsewhere"), history);
    await expect(replay(code(1, 1, "elsewhere"), history, { strict: true })).rejects.toMatchObject({ code: "HF_NONDETERMINISM" });
    await replay(code(1, 1), history, { strict: true });
  });

  test(
    "Y2 changed options of steps, activities and children: logged once for a workflow, and divergence if replay is strict",
    async () => {
      interface Options {
        readonly step?: StepOptions<unknown>;
        readonly activity?: ActivityOptions;
        readonly child?: ChildOptions;
      }
      const code = ({ step: ofStep, activity: ofActivity, child: ofChild }: Options) =>
        workflow("options", async (ctx) => {
          await ctx.step("a", () => 1, ofStep);
          await ctx.activity(charge, 1, ofActivity);
          await ctx.child(small, 1, ofChild);
          await ctx.waitForSignal("go");
        });
      const queue = newQueue();
      const logged: string[] = [];
      const note = (message: string) => void logged.push(message);
      const logger = { debug() {}, info: note, warn: note, error: note };
      const holdfast = await on.open(queue, { logger });
      const first = await holdfast.worker({ workflows: [code({}), small], activities: [charge] });
      const runs = await holdfast.startMany(code({}), [{}, {}]);
      for (const run of runs)
        await vi.waitFor(async () => expect(await run.describe()).toMatchObject({ waitingFor: ["a signal or update"] }), SOON);
      await first.stop();
      await holdfast.worker({ workflows: [code({ step: { timeout: "5s" } }), small], activities: [charge] });
      for (const run of runs) await run.signal("go");
      await Promise.all(runs.map((run) => run.result()));
      expect(logged.filter((message) => message.includes("The timeout of a is undefined in history and 5000 in the code."))).toHaveLength(
        1,
      );
      const changed: readonly [Options, string][] = [
        [{ step: { timeout: "5s" } }, "timeout"],
        [{ step: { retry: { maxAttempts: 2 } } }, "retry"],
        [{ activity: { startToClose: "5s" } }, "startToClose"],
        [{ activity: { key: "k" } }, "key"],
        [{ child: { parentClose: "abandon" } }, "parentClose"],
        [{ child: { queue: "other" } }, "queue"],
      ];
      const history = await (runs[0] as Run<void>).history();
      await replay(code({}), history, { strict: true });
      for (const [options, field] of changed) {
        await replay(code(options), history);
        await expect(replay(code(options), history, { strict: true })).rejects.toMatchObject({ code: "HF_NONDETERMINISM", field });
      }
    },
    LONG,
  );

  test(
    "Y2 Y5 a local step that outlasts its task, before and after its end, and on a worker that begins in between",
    async () => {
      const queue = newQueue();
      let end: () => void = () => {};
      const ending = new Promise<void>((resolve) => {
        end = resolve;
      });
      const slow = workflow("slow", async (ctx) => {
        const done = await ctx.step("slow", () => ending.then(() => "done"), { local: true });
        await ctx.waitForSignal("go");
        return done;
      });
      const first = await on.open(queue);
      const worker = await first.worker({ workflows: [slow] });
      const run = await first.start(slow);
      const tasks = async () => (await on.kinds(run.id)).filter((kind) => kind === "WORKFLOW_TASK_COMPLETED").length;
      await vi.waitFor(async () => expect(await tasks()).toBe(1), SOON); // the task was prolonged
      await replay(slow, await run.history());
      end();
      await vi.waitFor(async () => expect(await on.kinds(run.id)).toContain("MARKER_RECORDED"), SOON);
      await replay(slow, await run.history());
      await worker.stop();
      await (await on.open(queue)).worker({ workflows: [slow] });
      await run.signal("go");
      expect(await run.result()).toBe("done");
      await replay(slow, await run.history());
    },
    LONG,
  );
});
