// Runs on workers that forget them: with no cache every task replays the run from its history, with a cache of one most tasks do.
// Owns: a mix of workflows that uses every operation.
// Invariants: Y1 (the same results and the same commands, however often a run is replayed), D6 (no function runs again), Y5 (every history
// replays).

import {
  type AnyWorkflow,
  activity,
  CanceledError,
  type Holdfast,
  Loop,
  Receive,
  RollbackError,
  type Run,
  replay,
  signal,
  update,
  workflow,
} from "holdfast";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { HistoryEvent } from "../../src/bridge.ts";
import { msIfSet } from "../../src/proto.ts";
import { engines } from "./engines.ts";

const SOON = { timeout: 60_000, interval: 50 };
const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** How often the functions of a run were run, by the id of the run. */
const ran = new Map<string, string[]>();
const note = (id: string, what: string): void => void ran.set(id, [...(ran.get(id) ?? []), what]);
/** A function that is noted, then takes some milliseconds or waits. */
const noted = <T>(
  ctx: { readonly run: { readonly id: string } },
  what: string,
  value: T,
  until: number | (() => Promise<void>) = 0,
): (() => Promise<T>) => {
  const { id } = ctx.run;
  return async () => {
    note(id, what);
    if (until !== 0) await (typeof until === "number" ? after(until) : until());
    return value;
  };
};
interface Gate {
  readonly opened: Promise<void>;
  open(): void;
}
/** What a step of a run waits for until the one who drives the run says so: the order of two updates then depends on no clock. */
const gates = {
  byRun: new Map<string, Gate>(),
  of(id: string): Gate {
    const found = this.byRun.get(id);
    if (found !== undefined) return found;
    let open = (): void => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const gate = { opened, open };
    this.byRun.set(id, gate);
    return gate;
  },
};

const double = activity("double", (n: number) => 2 * n);
const flaky = activity("flaky", (id: string, { attempt }) => {
  note(id, `flaky ${attempt}`);
  if (attempt < 3) throw new Error("not yet");
  return attempt;
});
const child = workflow<number, number>("child", async (ctx, n) => {
  await ctx.sleep(10);
  if (n < 0) throw new RangeError("negative");
  return ctx.step("square", () => n * n);
});
const listener = workflow({ name: "listener", signals: { say: signal<string>() } }, async (ctx) => {
  const said = await ctx.waitForSignal("say");
  await ctx.waitForSignal("say");
  return said;
});

interface Scenario {
  readonly workflow: AnyWorkflow;
  readonly drive?: (run: Run<unknown>) => Promise<unknown>;
  /** The result, or the code of the error. */
  readonly ends: unknown;
  /** The functions that ran, in any order. */
  readonly runs: readonly string[];
  /** Its commands depend on the moment of a message. */
  readonly isLoose?: boolean;
  /** Its functions may run again: local steps. */
  readonly repeats?: boolean;
}

const SCENARIOS: Record<string, Scenario> = {
  "steps in sequence": {
    workflow: workflow("sequence", async (ctx) => {
      const values: number[] = [];
      for (let n = 0; n < 5; n++) values.push(await ctx.step("next", noted(ctx, `next ${n}`, n)));
      return values;
    }),
    ends: [0, 1, 2, 3, 4],
    runs: ["next 0", "next 1", "next 2", "next 3", "next 4"],
  },
  "two branches of steps that end out of order": {
    workflow: workflow("branches", async (ctx) => {
      const [slow, quick] = await ctx.parallel([
        async (branch) => [await branch.step("s1", noted(branch, "s1", 1, 150)), await branch.step("s2", noted(branch, "s2", 2))],
        async (branch) => [
          await branch.step("q1", noted(branch, "q1", 1)),
          await branch.step("q2", noted(branch, "q2", 2, 60)),
          await branch.step("q3", noted(branch, "q3", 3, 150)),
        ],
      ]);
      return [slow, quick].map((one) => (one.status === "fulfilled" ? one.value : one.reason));
    }),
    ends: [
      [1, 2],
      [1, 2, 3],
    ],
    runs: ["q1", "q2", "q3", "s1", "s2"],
  },
  "Promise.all of operations of every kind": {
    workflow: workflow("all", async (ctx) =>
      Promise.all([
        ctx.step("a", noted(ctx, "a", "a", 30)),
        ctx.activity(double, 21),
        ctx.child(child, 3, { id: `${ctx.run.id}-child` }),
        ctx.sleep("nap", 20).then(() => "slept"),
        ctx.sideEffect(() => "effect"),
        ctx.step("local", noted(ctx, "local", "local"), { local: true }),
        ctx.waitForSignal("never", { timeout: 30 }),
      ]),
    ),
    ends: ["a", 42, 9, "slept", "effect", "local", { timedOut: true }],
    runs: ["a", "local"],
    repeats: true,
  },
  "a race that a timer wins over a step, and one that a step wins over a timer": {
    workflow: workflow("races", async (ctx) => {
      const first = await ctx.race("first", {
        slow: (branch) =>
          branch.step(
            "slow",
            ({ signal: aborted }) => new Promise((_, no) => aborted.addEventListener("abort", () => no(new Error("aborted")))),
          ),
        timer: async (branch) => {
          await branch.sleep(50);
          return "timer";
        },
      });
      const second = await ctx.race("second", {
        quick: (branch) => branch.step("quick", noted(branch, "quick", "quick")),
        timer: async (branch) => branch.sleep("1h"),
      });
      return [first.winner, second.winner, await ctx.step("after", noted(ctx, "after", 1))];
    }),
    ends: ["timer", "quick", 1],
    runs: ["quick", "after"],
  },
  "a race of local steps and side effects": {
    workflow: workflow("local-races", async (ctx) => {
      const { winner } = await ctx.race("locals", {
        quick: (branch) => branch.step("quick", noted(branch, "quick", 1), { local: true }),
        slow: (branch) => branch.step("slow", () => after(300), { local: true }),
      });
      return [winner, await ctx.sideEffect(() => "effect"), await ctx.step("after", noted(ctx, "after", 1))];
    }),
    ends: ["quick", "effect", 1],
    runs: ["quick", "after"],
    repeats: true,
  },
  "a receive with signals, updates, validators and handlers with steps": {
    workflow: workflow(
      {
        name: "entity",
        signals: { add: signal<number>(), end: signal() },
        updates: { times: update<number, number>(), slow: update<number, number>() },
      },
      async (ctx) => {
        const { state } = await ctx.receive(1, {
          signals: { add: (n, sum) => Receive.noreply(sum + n), end: (_, sum) => Receive.stop(sum) },
          updates: {
            times: {
              validate: (n) => {
                if (n === 0) throw new RangeError("zero");
              },
              handle: async (n, sum, handler) => {
                const product = await handler.step("times", noted(handler, `times ${n}`, n * sum));
                return Receive.reply(product, product);
              },
            },
            slow: (n, sum) =>
              Receive.async(async (handler) => {
                const { id } = handler.run;
                await handler.step(
                  "slow",
                  noted(handler, "slow", n, () => gates.of(id).opened),
                );
                return handler.updateState((now) => [now + n, now + n]);
              }, sum),
          },
        });
        return state;
      },
    ),
    drive: async (run) => {
      await run.signal("add", 4);
      expect(await run.update("times", 3)).toBe(15);
      const slow = run.update("slow", 100);
      await expect(run.update("times", 0)).rejects.toThrow("zero");
      expect(await run.update("times", 2)).toBe(30);
      gates.of(run.id).open();
      await slow;
      await run.signal("end");
    },
    ends: 130,
    runs: ["times 3", "times 2", "slow"],
  },
  "a loop that commits, with patches in its branches": {
    workflow: workflow("loop", async (ctx) =>
      ctx.loop({ name: "rounds", state: 0, commitInterval: 2 }, async (round, n) => {
        const both = await round.join("both", {
          left: async (unit) => (unit.patched("left") ? unit.step("new", noted(unit, `new ${n}`, 1)) : 0),
          right: async (unit) => (unit.patched("right") ? unit.sideEffect(() => 1) : 0),
        });
        round.publishState({ n });
        return n === 4 ? Loop.break(both) : Loop.continue(n + 1);
      }),
    ),
    ends: { left: 1, right: 1 },
    runs: ["new 0", "new 1", "new 2", "new 3", "new 4"],
  },
  "local steps that fail and are tried again": {
    workflow: workflow("local-retries", async (ctx) => {
      const { id } = ctx.run;
      const third = await ctx.step(
        "third",
        ({ attempt }) => {
          note(id, `third ${attempt}`);
          if (attempt < 3) throw new Error("not yet");
          return attempt;
        },
        { local: true, retry: { initialInterval: 10 } },
      );
      const never = await ctx.try("never", (unit) =>
        unit.step("never", () => Promise.reject(new TypeError("never")), { local: true, retry: { maxAttempts: 2, initialInterval: 5 } }),
      );
      return [third, never.ok ? "?" : (never.error.cause as Error).message];
    }),
    ends: [3, "never"],
    runs: ["third 1", "third 2", "third 3"],
    repeats: true,
  },
  "failures as values: steps, activities, children": {
    workflow: workflow("failures", async (ctx) => {
      const step = await ctx.try("step", (unit) =>
        unit.step("fails", () => Promise.reject(new TypeError("wrong")), { retry: { maxAttempts: 2, initialInterval: 1 } }),
      );
      const negative = await ctx.try("child", (unit) => unit.child(child, -1, { id: `${ctx.run.id}-negative` }));
      const tries = await ctx.activity(flaky, ctx.run.id, { retry: { initialInterval: 5 } });
      const causes = [step, negative].map((one) => (one.ok ? "?" : (one.error.cause as Error).message));
      return [...causes, tries];
    }),
    ends: ["wrong", "negative", 3],
    runs: ["flaky 1", "flaky 2", "flaky 3"],
  },
  "a saga that rolls back": {
    workflow: workflow("saga", async (ctx) => {
      const { id } = ctx.run;
      await ctx.step("a", noted(ctx, "a", "A"), { rollback: (output) => note(id, `undo ${output}`) });
      await ctx.parallel([
        (branch) => branch.step("b", noted(branch, "b", "B", 40), { rollback: (output) => note(id, `undo ${output}`) }),
        (branch) => branch.step("c", noted(branch, "c", "C"), { rollback: (output) => note(id, `undo ${output}`) }),
      ]);
      await ctx.sleep(10);
      throw new RollbackError("no");
    }),
    ends: "HF_RUN_FAILED",
    runs: ["a", "b", "c", "undo A", "undo B", "undo C"],
  },
  "a run that is canceled in a step, with a shield": {
    workflow: workflow("shielded", async (ctx) => {
      const { id } = ctx.run;
      try {
        await ctx.step(
          "hangs",
          ({ signal: aborted }) => new Promise((_, no) => aborted.addEventListener("abort", () => no(new Error("aborted")))),
        );
      } catch (error) {
        note(id, error instanceof CanceledError ? "canceled" : "?");
        await ctx.shield(async (unit) => {
          await unit.step("clean", noted(unit, "clean", 1));
          await unit.sleep(10);
          await unit.step("up", noted(unit, "up", 1));
        });
        throw error;
      }
    }),
    drive: async (run) => {
      await vi.waitFor(async () => expect((await run.operations())[0]?.status).toBe("running"), SOON);
      await run.cancel("enough");
    },
    ends: "HF_CANCELED",
    runs: ["clean", "up"],
    isLoose: true,
  },
  "a run that is canceled while a child and a timer run, and rolls back": {
    workflow: workflow({ name: "rolled-back", rollbackOnCancel: true }, async (ctx) => {
      const { id } = ctx.run;
      await ctx.step("a", noted(ctx, "a", "A"), { rollback: (output) => note(id, `undo ${output}`) });
      await Promise.all([ctx.child(listener, undefined, { id: `${id}-listener` }), ctx.sleep("1h")]);
    }),
    drive: async (run) => {
      await vi.waitFor(async () => expect((await run.describe()).waitingFor.join()).toContain("listener"), SOON);
      await run.cancel();
    },
    ends: "HF_CANCELED",
    runs: ["a", "undo A"],
    isLoose: true,
  },
  "children that are started, signaled and canceled": {
    workflow: workflow("children", async (ctx) => {
      const one = await ctx.startChild(listener, undefined, { id: `${ctx.run.id}-one` });
      const two = await ctx.startChild(listener, undefined, { id: `${ctx.run.id}-two` });
      await one.signal("say", "hello");
      await ctx.signalRun(one.id, "say", "again");
      await ctx.cancelRun(two.id);
      const lost = await ctx.try("lost", (unit) => unit.signalRun(`${ctx.run.id}-nobody`, "say", 1));
      const second = await ctx.try("second", async () => two.result());
      return [await one.result(), lost.ok ? "?" : lost.error.name, second.ok ? "?" : second.error.name];
    }),
    ends: ["hello", "RunNotFoundError", "ChildFailedError"],
    runs: [],
  },
  "conditions, ivars, listen, time and chance": {
    workflow: workflow({ name: "misc", signals: { a: signal<number>(), b: signal<number>() } }, async (ctx) => {
      const filled = ctx.ivar<number>();
      const chance = [ctx.random(), ctx.uuid(), ctx.now().getTime()];
      const both = await ctx.join("both", {
        puts: async (unit) => filled.put(await unit.step("value", noted(unit, "value", 7))),
        waits: async (unit) => [await filled.wait(), await unit.condition(() => filled.tryRead())],
        late: async (unit) => unit.condition(() => false, 20),
      });
      const heard = await ctx.listen(["a", "b"], { count: 3 });
      ctx.setAttributes({ heard: heard.length });
      return [both.waits, both.late, heard.map(({ name, payload }) => `${name}${payload}`), chance.length];
    }),
    drive: async (run) => {
      for (const [name, n] of [
        ["a", 1],
        ["b", 2],
        ["a", 3],
      ] as const)
        await run.signal(name, n);
    },
    ends: [[7, 7], undefined, ["a1", "b2", "a3"], 3],
    runs: ["value"],
  },
  "continue as new": {
    workflow: workflow<number, unknown>("again", async (ctx, n) => {
      const value = await ctx.step("count", noted(ctx, `count ${n}`, (n ?? 0) + 1));
      return value < 3 ? ctx.continueAsNew(value) : [value, await ctx.waitForSignal("kept")];
    }),
    drive: (run) => run.signal("kept", "kept"),
    ends: [3, "kept"],
    runs: ["count undefined", "count 1", "count 2"],
  },
};

interface Seen {
  readonly id: string;
  readonly end: unknown;
  readonly commands: readonly string[];
  readonly problem: unknown;
}

describe("runs that are forgotten", () => {
  const on = engines();
  const CACHES = { "a cache of 100": 100, "a cache of one": 1, "no cache": 0 } as const;
  const seen = new Map<string, Map<string, Seen>>();
  const seenOf = (title: string, name: string): Seen => {
    const found = seen.get(title)?.get(name);
    if (found === undefined) throw new Error(`${name} was not run with ${title}.`);
    return found;
  };

  async function play(holdfast: Holdfast, { workflow: definition, drive }: Scenario): Promise<Seen> {
    const run = (await holdfast.start(definition)) as Run<unknown>;
    await drive?.(run);
    const end = await run.result({ timeout: "60s" }).catch((error: { readonly code?: string }) => error.code ?? error);
    const events = await on.events(run.id);
    const problem = await replay(definition, await run.history()).catch((error: unknown) => error);
    return { id: run.id, end, problem, commands: events.flatMap((event) => commandOf(event, run.id)) };
  }
  beforeAll(async () => {
    const workflows = [...Object.values(SCENARIOS).map((scenario) => scenario.workflow), child, listener];
    for (const [title, cachedRuns] of Object.entries(CACHES)) {
      const holdfast = await on.open();
      const worker = await holdfast.worker({ workflows, activities: [double, flaky], cachedRuns, determinism: "error" });
      const results = new Map<string, Seen>();
      await Promise.all(
        Object.entries(SCENARIOS).map(async ([name, scenario]) => {
          const result = await play(holdfast, scenario).catch((error: unknown) => ({
            id: "",
            end: error,
            commands: [],
            problem: undefined,
          }));
          results.set(name, result);
        }),
      );
      seen.set(title, results);
      await worker.stop();
    }
  }, 180_000);

  for (const title of Object.keys(CACHES)) {
    for (const [name, { ends, runs, isLoose = false, repeats = false }] of Object.entries(SCENARIOS)) {
      test(`Y1 Y5 D6 with ${title}: ${name}`, () => {
        const { id, end, commands, problem } = seenOf(title, name);
        expect(end).toEqual(ends);
        const functions = (ran.get(id) ?? []).filter((what) => what !== "canceled").toSorted();
        expect(repeats ? [...new Set(functions)] : functions).toEqual(runs.toSorted());
        expect(problem).toBeUndefined();
        // A step that the server hands out late is scheduled once more, with the same id.
        if (!isLoose) expect(new Set(commands)).toEqual(new Set(seenOf("a cache of 100", name).commands));
      });
    }
  }
  test("Y1 without a cache runs were replayed for every task", async () => {
    const { id } = seenOf("no cache", "steps in sequence");
    const events = await on.events(id);
    const queues = events.flatMap(({ workflowTaskScheduledEventAttributes: task }) => task?.taskQueue?.normalName ?? []);
    expect(queues).toEqual(queues.map(() => ""));
    expect((await on.kinds(id)).filter((kind) => kind === "WORKFLOW_TASK_FAILED")).toEqual([]);
  });
});

/** What the run has asked the server for, without what differs between runs. */
function commandOf(event: HistoryEvent, id: string): string[] {
  const payload = (data: Uint8Array | null | undefined): string => (data ? Buffer.from(data).toString() : "");
  const {
    activityTaskScheduledEventAttributes: scheduled,
    timerStartedEventAttributes: timer,
    startChildWorkflowExecutionInitiatedEventAttributes: started,
    signalExternalWorkflowExecutionInitiatedEventAttributes: signaled,
    requestCancelExternalWorkflowExecutionInitiatedEventAttributes: canceled,
    markerRecordedEventAttributes: marker,
    workflowExecutionCompletedEventAttributes: completed,
  } = event;
  const found: string[] = [];
  if (scheduled)
    found.push(`activity ${scheduled.activityId} ${scheduled.activityType?.name} ${payload(scheduled.input?.payloads?.[0]?.data)}`);
  if (timer) found.push(`timer ${payload(event.userMetadata?.summary?.data)} ${msIfSet(timer.startToFireTimeout)}`);
  if (started) found.push(`child ${started.workflowId} ${started.workflowType?.name} ${payload(started.input?.payloads?.[0]?.data)}`);
  if (signaled) found.push(`signal ${signaled.signalName} to ${signaled.workflowExecution?.workflowId}`);
  if (canceled) found.push(`cancel ${canceled.workflowExecution?.workflowId}`);
  if (marker)
    found.push(`marker ${marker.markerName} ${/"(?:activity_id|id)":"([^"]*)"/.exec(JSON.stringify(readable(marker.details)))?.[1] ?? ""}`);
  if (completed) found.push(`completed ${payload(completed.result?.payloads?.[0]?.data)}`);
  if (event.workflowExecutionFailedEventAttributes) found.push("failed");
  if (event.workflowExecutionCanceledEventAttributes) found.push("canceled");
  return found.map((text) => text.replaceAll(id, "ID"));
}
function readable(details: NonNullable<HistoryEvent["markerRecordedEventAttributes"]>["details"]): unknown[] {
  return Object.values(details ?? {}).flatMap(({ payloads }) =>
    (payloads ?? []).map(({ data }) => JSON.parse(Buffer.from(data ?? []).toString() || "null") as unknown),
  );
}
