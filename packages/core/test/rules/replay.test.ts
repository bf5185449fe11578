// Job: prove that replay is the same execution without effects, and that it notices every change that matters.
// Owns: pairs of workflows that differ in one thing; a history of the one is replayed with the other.
// Invariants: Y1 to Y7.
import {
  type AnyWorkflow,
  activity,
  type History,
  InvalidInputError,
  type Job,
  type Logger,
  Loop,
  NondeterminismError,
  Receive,
  replay,
  type Turn,
  type UnitContext,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const nothing = () => undefined;
const broken = new Error("broken");
type Run = (ctx: WorkflowContext) => Promise<unknown>;
const wf = (run: Run): AnyWorkflow => workflow("wf", run);
const send = (options = {}) => activity("send", async (_to: unknown) => undefined, options);
const child = (name: string) => workflow(name, async (_ctx, _input: unknown) => undefined);

/** The error of replaying one workflow's history with another. */
async function divergence(before: Run, after: Run, ...turns: ((h: Harness) => Promise<unknown>)[]): Promise<NondeterminismError> {
  return divergenceOf(before, after, { strict: false }, turns);
}
async function divergenceOf(
  before: Run,
  after: Run,
  options: { strict: boolean },
  turns: readonly ((h: Harness) => Promise<unknown>)[] = [],
): Promise<NondeterminismError> {
  const h = await Harness.start(wf(before));
  for (const turn of turns) await turn(h);
  const error = await replay(wf(after), h.history(), options).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof NondeterminismError)) throw new Error(`Expected a NondeterminismError, got ${String(error)}`);
  return error;
}
const what = ({ location, field, expected, actual }: NondeterminismError) => ({ location, field, expected, actual });
const resolve = (where: string, value?: unknown) => (h: Harness) => h.resolve(where, value);

describe("replay causes no effect", () => {
  it("Y1 no step body, side effect, validator or log line of what is recorded runs", async () => {
    const calls: string[] = [];
    const write = (message: string) => void calls.push(message);
    const logger: Logger = { debug: write, info: write, warn: write, error: write };
    const program = wf(async (ctx) => {
      ctx.log.info("log");
      await ctx.sideEffect(() => calls.push("side effect"));
      await ctx.step("charge", () => calls.push("body"), { rollback: () => void calls.push("rollback") });
      await ctx.receive(0, {
        updates: {
          pay: { validate: () => void calls.push("validator"), handle: (_input: unknown, state: number) => Receive.stop("paid", state) },
        },
      });
      throw new Error("no");
    });
    const h = await Harness.start(program, undefined, { logger });
    await h.resolve("charge");
    await h.update("pay", 1, "u1");
    expect(calls).toEqual(["log", "side effect", "validator"]);
    calls.length = 0;
    await h.recover();
    await replay(program, h.history());
    expect(calls).toEqual([]);
  });

  it("Y1 it emits no command and no answer", async () => {
    const h = await Harness.start(wf((ctx) => ctx.step("charge", nothing)));
    const executor = h.createExecutor();
    expect(await executor.replay(h.turns)).toEqual({ status: "ok", commands: [], replies: [] });
    expect(executor.waitingFor).toEqual(["step charge"]);
  });

  it("Y1 what is live after it has its effects again", async () => {
    const calls: string[] = [];
    const write = (message: string) => void calls.push(message);
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("charge", nothing);
        ctx.log.info("paid");
      }),
      undefined,
      { logger: { debug: write, info: write, warn: write, error: write } },
    );
    await h.recover();
    await h.resolve("charge");
    expect(calls).toEqual(["paid"]);
  });

  it("Y1 time, randomness and side effects are what they were", async () => {
    const seen: unknown[][] = [];
    const program = wf(async (ctx) => {
      const before = [ctx.now().getTime(), ctx.random(), ctx.uuid(), await ctx.sideEffect(() => Math.random())];
      await ctx.sleep("1h");
      seen.push([...before, ctx.now().getTime(), ctx.random(), ctx.uuid()]);
    });
    const h = await Harness.start(program);
    await h.fire();
    await replay(program, h.history());
    expect(seen).toHaveLength(2);
    expect(seen[1]).toEqual(seen[0]);
  });
});

describe("one thing changed", () => {
  const kinds: Record<string, { before: Run; after: Run; says: ReturnType<typeof what> }> = {
    "a step of another name": {
      before: (ctx) => ctx.step("charge", nothing),
      after: (ctx) => ctx.step("pay", nothing),
      says: { location: "charge", field: "name", expected: 'step "charge"', actual: 'step "pay"' },
    },
    "another kind of operation": {
      before: (ctx) => ctx.step("charge", nothing),
      after: (ctx) => ctx.transaction("charge", nothing),
      says: { location: "charge", field: "kind", expected: 'step "charge"', actual: 'transaction "charge"' },
    },
    "a step's timeout": {
      before: (ctx) => ctx.step("charge", nothing, { timeout: "1m" }),
      after: (ctx) => ctx.step("charge", nothing, { timeout: "2m" }),
      says: { location: "charge", field: "timeout", expected: 60_000, actual: 120_000 },
    },
    "a step's timeout, taken away": {
      before: (ctx) => ctx.step("charge", nothing, { timeout: "1m" }),
      after: (ctx) => ctx.step("charge", nothing),
      says: { location: "charge", field: "timeout", expected: 60_000, actual: undefined },
    },
    "a step's retry": {
      before: (ctx) => ctx.step("charge", nothing, { retry: { maxAttempts: 3 } }),
      after: (ctx) => ctx.step("charge", nothing, { retry: { maxAttempts: 5 } }),
      says: { location: "charge", field: "retry", expected: { maxAttempts: 3 }, actual: { maxAttempts: 5 } },
    },
    "a step's rollback": {
      before: (ctx) => ctx.step("charge", nothing),
      after: (ctx) => ctx.step("charge", nothing, { rollback: nothing }),
      says: { location: "charge", field: "rollback", expected: undefined, actual: true },
    },
    "another activity": {
      before: (ctx) => ctx.activity(send(), 1),
      after: (ctx) =>
        ctx.activity(
          activity("mail", async (_to: unknown) => undefined),
          1,
        ),
      says: { location: "send", field: "name", expected: 'activity "send"', actual: 'activity "mail"' },
    },
    "an activity's input": {
      before: (ctx) => ctx.activity(send(), { to: "ada" }),
      after: (ctx) => ctx.activity(send(), { to: "bob" }),
      says: { location: "send", field: "input", expected: { to: "ada" }, actual: { to: "bob" } },
    },
    "an activity's queue": {
      before: (ctx) => ctx.activity(send({ queue: "a" }), 1),
      after: (ctx) => ctx.activity(send({ queue: "b" }), 1),
      says: { location: "send", field: "queue", expected: "a", actual: "b" },
    },
    "an activity's retry": {
      before: (ctx) => ctx.activity(send({ retry: { maxAttempts: 1 } }), 1),
      after: (ctx) => ctx.activity(send({ retry: { maxAttempts: 2 } }), 1),
      says: { location: "send", field: "retry", expected: { maxAttempts: 1 }, actual: { maxAttempts: 2 } },
    },
    ...Object.fromEntries(
      (["startToClose", "scheduleToClose", "scheduleToStart", "heartbeat"] as const).map((option) => [
        `an activity's ${option}`,
        {
          before: (ctx: WorkflowContext) => ctx.activity(send({ [option]: 1000 }), 1),
          after: (ctx: WorkflowContext) => ctx.activity(send({ [option]: 2000 }), 1),
          says: { location: "send", field: option, expected: 1000, actual: 2000 },
        },
      ]),
    ),
    "a timer's duration": {
      before: (ctx) => ctx.sleep("1h"),
      after: (ctx) => ctx.sleep("2h"),
      says: { location: "sleep", field: "duration", expected: 3_600_000, actual: 7_200_000 },
    },
    "a timer's moment": {
      before: (ctx) => ctx.sleepUntil(5),
      after: (ctx) => ctx.sleepUntil(6),
      says: { location: "sleep", field: "until", expected: 5, actual: 6 },
    },
    "a child of another type": {
      before: (ctx) => ctx.child(child("ship"), 1),
      after: (ctx) => ctx.child(child("fly"), 1),
      says: { location: "ship", field: "name", expected: 'child "ship"', actual: 'child "fly"' },
    },
    "a child's input": {
      before: (ctx) => ctx.child(child("ship"), 1),
      after: (ctx) => ctx.child(child("ship"), 2),
      says: { location: "ship", field: "input", expected: 1, actual: 2 },
    },
    "a child's id": {
      before: (ctx) => ctx.child(child("ship"), 1, { id: "a" }),
      after: (ctx) => ctx.child(child("ship"), 1, { id: "b" }),
      says: { location: "ship", field: "id", expected: "a", actual: "b" },
    },
    "a child's queue": {
      before: (ctx) => ctx.child(child("ship"), 1),
      after: (ctx) => ctx.child(child("ship"), 1, { queue: "q" }),
      says: { location: "ship", field: "queue", expected: undefined, actual: "q" },
    },
    "a child's version": {
      before: (ctx) => ctx.child(child("ship"), 1, { version: "1" }),
      after: (ctx) => ctx.child(child("ship"), 1, { version: "2" }),
      says: { location: "ship", field: "version", expected: "1", actual: "2" },
    },
    "a child's deadline": {
      before: (ctx) => ctx.child(child("ship"), 1, { deadline: "1h" }),
      after: (ctx) => ctx.child(child("ship"), 1, { deadline: "2h" }),
      says: { location: "ship", field: "deadline", expected: 3_600_000, actual: 7_200_000 },
    },
    "a child's retry": {
      before: (ctx) => ctx.child(child("ship"), 1, { retry: { maxAttempts: 2 } }),
      after: (ctx) => ctx.child(child("ship"), 1, { retry: { maxAttempts: 3 } }),
      says: { location: "ship", field: "retry", expected: { maxAttempts: 2 }, actual: { maxAttempts: 3 } },
    },
    "a child's parentClose": {
      before: (ctx) => ctx.child(child("ship"), 1, { parentClose: "abandon" }),
      after: (ctx) => ctx.child(child("ship"), 1, { parentClose: "terminate" }),
      says: { location: "ship", field: "parentClose", expected: "abandon", actual: "terminate" },
    },
    "startChild instead of child": {
      before: (ctx) => ctx.child(child("ship"), 1),
      after: (ctx) => ctx.startChild(child("ship"), 1),
      says: { location: "ship", field: "detached", expected: undefined, actual: true },
    },
    "a signal to another run": {
      before: (ctx) => ctx.signalRun("a", "go", 1),
      after: (ctx) => ctx.signalRun("b", "go", 1),
      says: { location: "go", field: "runId", expected: "a", actual: "b" },
    },
    "the payload of a signal": {
      before: (ctx) => ctx.signalRun("a", "go", 1),
      after: (ctx) => ctx.signalRun("a", "go", 2),
      says: { location: "go", field: "payload", expected: 1, actual: 2 },
    },
    "the cancel of another run": {
      before: (ctx) => ctx.cancelRun("a"),
      after: (ctx) => ctx.cancelRun("b"),
      says: { location: "cancelRun", field: "runId", expected: "a", actual: "b" },
    },
    "a wait for another signal": {
      before: (ctx) => ctx.waitForSignal("go"),
      after: (ctx) => ctx.waitForSignal("stop"),
      says: { location: "go", field: "name", expected: 'signal "go"', actual: 'signal "stop"' },
    },
    "a wait's timeout": {
      before: (ctx) => ctx.waitForSignal("go", { timeout: 1000 }),
      after: (ctx) => ctx.waitForSignal("go", { timeout: 2000 }),
      says: { location: "go", field: "timeout", expected: 1000, actual: 2000 },
    },
    "the count of a listen": {
      before: (ctx) => ctx.listen(["go"], { count: 2 }),
      after: (ctx) => ctx.listen(["go"], { count: 3 }),
      says: { location: "go", field: "count", expected: 2, actual: 3 },
    },
    "a condition's timeout": {
      before: (ctx) => ctx.condition(() => false, 1000),
      after: (ctx) => ctx.condition(() => false),
      says: { location: "condition", field: "timeout", expected: 1000, actual: undefined },
    },
    "the number of branches": {
      before: (ctx) => ctx.parallel([(ctx) => ctx.step("a", nothing)]),
      after: (ctx) => ctx.parallel([(ctx) => ctx.step("a", nothing), async () => 1]),
      says: { location: "parallel", field: "branches", expected: 1, actual: 2 },
    },
    "the keys of a join": {
      before: (ctx) => ctx.join("all", { a: (ctx) => ctx.step("x", nothing) }),
      after: (ctx) => ctx.join("all", { b: (ctx) => ctx.step("x", nothing) }),
      says: { location: "all", field: "keys", expected: ["a"], actual: ["b"] },
    },
    "the order of the keys of a join": {
      before: (ctx) => ctx.join("all", { a: (ctx) => ctx.step("x", nothing), b: (ctx) => ctx.step("x", nothing) }),
      after: (ctx) => ctx.join("all", { b: (ctx) => ctx.step("x", nothing), a: (ctx) => ctx.step("x", nothing) }),
      says: { location: "all", field: "keys", expected: ["a", "b"], actual: ["b", "a"] },
    },
    "a race instead of a join": {
      before: (ctx) => ctx.join("all", { a: (ctx) => ctx.step("x", nothing) }),
      after: (ctx) => ctx.race("all", { a: (ctx) => ctx.step("x", nothing) }),
      says: { location: "all", field: "kind", expected: 'join "all"', actual: 'race "all"' },
    },
    "the name of a loop": {
      before: (ctx) => ctx.loop("days", (ctx) => ctx.sleep("1d")),
      after: (ctx) => ctx.loop("nights", (ctx) => ctx.sleep("1d")),
      says: { location: "days", field: "name", expected: 'loop "days"', actual: 'loop "nights"' },
    },
    "the name of a try": {
      before: (ctx) => ctx.try("a", (ctx) => ctx.sleep("1d")),
      after: (ctx) => ctx.try("b", (ctx) => ctx.sleep("1d")),
      says: { location: "a", field: "name", expected: 'try "a"', actual: 'try "b"' },
    },
    "the timeout of a receive": {
      before: (ctx) => ctx.receive(0, { timeout: 1000 }),
      after: (ctx) => ctx.receive(0, { timeout: 2000 }),
      says: { location: "receive", field: "timeout", expected: 1000, actual: 2000 },
    },
    "the checkpoints of a receive": {
      before: (ctx) => ctx.receive(0, { checkpointEvery: 5 }),
      after: (ctx) => ctx.receive(0, {}),
      says: { location: "receive", field: "checkpointEvery", expected: 5, actual: undefined },
    },
    "a patch id": {
      before: async (ctx) => {
        ctx.patched("p1");
        await ctx.sleep("1h");
      },
      after: async (ctx) => {
        ctx.patched("p2");
        await ctx.sleep("1h");
      },
      says: { location: "p1", field: "kind", expected: 'patch "p1"', actual: 'sleep "sleep"' },
    },
    attributes: {
      before: async (ctx) => {
        ctx.setAttributes({ a: 1 });
        await ctx.sleep("1h");
      },
      after: async (ctx) => {
        ctx.setAttributes({ a: 2 });
        await ctx.sleep("1h");
      },
      says: { location: "attributes", field: "attributes", expected: { a: 1 }, actual: { a: 2 } },
    },
    "an operation in a branch": {
      before: (ctx) => ctx.join("all", { a: (ctx) => ctx.step("x", nothing), b: (ctx) => ctx.step("y", nothing) }),
      after: (ctx) => ctx.join("all", { a: (ctx) => ctx.step("x", nothing), b: (ctx) => ctx.step("z", nothing) }),
      says: { location: "all/b/y", field: "name", expected: 'step "y" in all/b', actual: 'step "z" in all/b' },
    },
    "the second of two of a name": {
      before: async (ctx) => {
        await Promise.all([ctx.step("x", nothing), ctx.step("x", nothing, { timeout: 1 })]);
      },
      after: async (ctx) => {
        await Promise.all([ctx.step("x", nothing), ctx.step("x", nothing, { timeout: 2 })]);
      },
      says: { location: "x#1", field: "timeout", expected: 1, actual: 2 },
    },
  };
  /** Y2: they only say how an operation is carried out. */
  const OPTIONS = ["retry", "queue", "startToClose", "scheduleToClose", "scheduleToStart", "heartbeat", "parentClose", "attributes"];
  const isOption = (name: string, field: string) =>
    OPTIONS.includes(field) || (field === "timeout" && /^(?:a step's|the second)/.test(name));
  for (const [name, { before, after, says }] of Object.entries(kinds)) {
    if (isOption(name, says.field)) {
      it(`Y2 ${name} may change; a strict replay names field, old and new`, async () => {
        expect(what(await divergenceOf(before, after, { strict: true }))).toEqual(says);
        const h = await Harness.start(wf(before));
        await expect(replay(wf(after), h.history())).resolves.toBeUndefined();
      });
      continue;
    }
    it(`Y2 ${name} is nondeterminism; the error names field, old and new`, async () => {
      expect(what(await divergence(before, after))).toEqual(says);
    });
  }

  it("Y2 what was recorded of a step stays in force; the next one gets the options of the code", async () => {
    const program = (attempts: number, timeout: number, nonRetryable?: () => boolean) =>
      wf(async (ctx) => {
        const retry = { maxAttempts: attempts, ...(nonRetryable !== undefined && { nonRetryable }) };
        await ctx.step("a", nothing, { retry, timeout, rollback: nothing });
        await ctx.step("b", nothing, { retry, timeout });
        throw broken;
      });
    const before = () => false;
    const after = () => true;
    const h = await Harness.start(program(3, 1_000, before));
    await h.recover(program(5, 2_000, after));
    const seq = h.find("a").seq;
    expect(h.executor.body(seq)).toMatchObject({ retry: { maxAttempts: 3, nonRetryable: after }, timeout: 1_000 });
    await h.resolve("a");
    expect(h.find("b")).toMatchObject({ retry: { maxAttempts: 5 }, timeout: 2_000 });
    expect(h.executor.body(h.find("b").seq)).toMatchObject({ retry: { maxAttempts: 5 }, timeout: 2_000 });
    await h.fail("b", broken);
    expect(h.executor.body(h.find("a").seq)).toMatchObject({ kind: "rollback", retry: { maxAttempts: 3 } });

    const bare = await Harness.start(wf((ctx) => ctx.step("a", nothing)));
    await bare.recover(wf((ctx) => ctx.step("a", nothing, { retry: { maxAttempts: 1 }, timeout: 5 })));
    expect(bare.executor.body(1)).toMatchObject({ retry: undefined, timeout: undefined });
  });

  it("Y2 a changed option is logged once a workflow, with field, old and new", async () => {
    const lines: string[] = [];
    const write = (message: string) => void lines.push(message);
    const options = { logger: { debug: write, info: write, warn: write, error: write } };
    const program = (maxAttempts: number) =>
      wf(async (ctx) => {
        await ctx.step("a", nothing, { retry: { maxAttempts }, timeout: maxAttempts });
        await ctx.step("b", nothing, { retry: { maxAttempts } });
      });
    const changed = program(5);
    for (let i = 0; i < 3; i++) {
      const h = await Harness.start(program(3), undefined, options);
      await h.resolve("a");
      await h.recover(changed);
    }
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("The timeout of a is 3 in history and 5 in the code");
  });

  it("Y2 the value of an update's reply may change", async () => {
    const program = (reply: number) => (ctx: WorkflowContext) =>
      ctx.receive(0, { updates: { ask: (_input: unknown, state: number) => Receive.reply(reply, state) } });
    const h = await Harness.start(wf(program(1)));
    await h.update("ask");
    for (const strict of [false, true]) await expect(replay(wf(program(2)), h.history(), { strict })).resolves.toBeUndefined();
  });

  it("Y2 a missing operation", async () => {
    const error = await divergence(
      async (ctx) => {
        await ctx.step("a", nothing);
        await ctx.step("b", nothing);
      },
      (ctx) => ctx.step("a", nothing),
      resolve("a"),
    );
    expect(error.location).toBe("b");
    expect(error.expected).toBe('step "b"');
  });

  it("Y2 a missing first operation", async () => {
    const error = await divergence(
      (ctx) => ctx.step("a", nothing),
      async () => "nothing at all",
    );
    expect(error.location).toBe("a");
    expect(error.expected).toBe('step "a"');
  });

  it("Y2 an extra operation", async () => {
    const error = await divergence(
      (ctx) => ctx.step("a", nothing),
      (ctx) => Promise.all([ctx.step("a", nothing), ctx.step("b", nothing)]),
    );
    expect(what(error)).toEqual({ location: "b", field: "operation", expected: undefined, actual: 'step "b"' });
  });

  it("Y2 an extra operation where the run had ended", async () => {
    const error = await divergence(
      (ctx) => ctx.step("a", nothing),
      async (ctx) => {
        await ctx.step("a", nothing);
        await ctx.step("b", nothing);
      },
      resolve("a"),
    );
    expect(error.location).toBe("b");
    expect(error.actual).toBe('step "b"');
  });

  it("Y2 an extra iteration, and one too few", async () => {
    const days = (last: number) => (ctx: WorkflowContext) =>
      ctx.loop({ name: "days", state: 1 }, async (ctx, day) => {
        await ctx.step("work", nothing);
        return day === last ? Loop.break() : Loop.continue(day + 1);
      });
    const more = await divergence(days(1), days(2), resolve("work"));
    expect(more.location).toBe("days/~1/work");
    const fewer = await divergence(days(2), days(1), resolve("work"));
    expect(fewer.location).toBe("days/~1/work");
  });

  it("Y2 Y6 reordered operations", async () => {
    const error = await divergence(
      (ctx) => Promise.all([ctx.step("a", nothing), ctx.step("b", nothing)]),
      (ctx) => Promise.all([ctx.step("b", nothing), ctx.step("a", nothing)]),
    );
    expect(what(error)).toEqual({ location: "a", field: "name", expected: 'step "a"', actual: 'step "b"' });
  });

  it("Y6 reordered across units: each unit is right, the order of emission is not", async () => {
    const body = (early: boolean) => async (ctx: UnitContext) => {
      if (!early) await ctx.yield();
      await ctx.step("x", nothing);
    };
    const error = await divergence(
      (ctx) => ctx.join("all", { a: body(true), b: body(true) }),
      (ctx) => ctx.join("all", { a: body(false), b: body(true) }),
    );
    expect(what(error)).toEqual({ location: "all/a/x", field: "order", expected: 'step "x" in all/a', actual: 'step "x" in all/b' });
  });

  it("Y6 an operation that comes earlier than recorded", async () => {
    const error = await divergence(
      async (ctx) => {
        await ctx.step("a", nothing);
        await ctx.step("b", nothing);
      },
      (ctx) => Promise.all([ctx.step("a", nothing), ctx.step("b", nothing)]),
      resolve("a"),
    );
    expect(what(error)).toEqual({ location: "b", field: "operation", expected: undefined, actual: 'step "b"' });
    expect(error.message).toContain("one turn later");
  });

  it("Y6 an operation that comes later than recorded", async () => {
    const error = await divergence(
      (ctx) => Promise.all([ctx.step("a", nothing), ctx.step("b", nothing)]),
      async (ctx) => {
        await ctx.step("a", nothing);
        await ctx.step("b", nothing);
      },
    );
    expect(what(error)).toEqual({ location: "b", field: "operation", expected: 'step "b"', actual: undefined });
  });

  it("Y2 another ending", async () => {
    const error = await divergence(
      async (ctx) => {
        await ctx.step("a", nothing);
        return 1;
      },
      async (ctx) => {
        await ctx.step("a", nothing);
        throw new Error("no");
      },
      resolve("a"),
    );
    expect(error.expected).toBe("the end of the workflow (completed)");
    expect(error.actual).toBe("the failure of the workflow (Error: no)");
  });

  it("Y2 another output, and another input for the next execution", async () => {
    const output = await divergence(
      async () => 1,
      async () => 2,
    );
    expect(output.field).toBe("value");
    const next = await divergence(
      async (ctx) => ctx.continueAsNew(1),
      async (ctx) => ctx.continueAsNew(2),
    );
    expect(next.field).toBe("input");
  });

  it("Y2 another winner, and another signal taken", async () => {
    const first = (keep: string) => (ctx: WorkflowContext) =>
      ctx.race("first", {
        a: async (ctx) => {
          await ctx.step("a", nothing);
          if (keep !== "a") throw broken;
        },
        b: async (ctx) => {
          await ctx.step("b", nothing);
          if (keep !== "b") throw broken;
        },
      });
    const winner = await divergence(first("a"), first("b"), (h) => h.turn(h.resolved("a"), h.resolved("b")));
    expect(winner.location).toBe("first");
    const receive = (name: string) => (ctx: WorkflowContext) =>
      ctx.receive(0, { signals: { [name]: (_payload, state) => Receive.noreply(state) } });
    const taken = await divergence(receive("go"), receive("stop"), (h) => h.turn(h.signalJob("go"), h.signalJob("stop")));
    expect(taken.expected).toMatch(/^the dispatch of message s1/);
    expect(taken.actual).toMatch(/^the dispatch of message s2/);
  });
});

describe("what is not a change", () => {
  const same: Record<string, { before: Run; after: Run }> = {
    "the order of keys in an input": {
      before: (ctx) => ctx.activity(send(), { a: 1, b: { c: 2, d: 3 } }),
      after: (ctx) => ctx.activity(send(), { b: { d: 3, c: 2 }, a: 1 }),
    },
    "the order of keys in attributes": {
      before: async (ctx) => ctx.setAttributes({ a: 1, b: 2 }),
      after: async (ctx) => ctx.setAttributes({ b: 2, a: 1 }),
    },
    "the order of options": {
      before: (ctx) => ctx.step("a", nothing, { retry: { maxAttempts: 2, backoff: 3 }, timeout: 1 }),
      after: (ctx) => ctx.step("a", nothing, { timeout: 1, retry: { backoff: 3, maxAttempts: 2 } }),
    },
    "another way to write a duration": { before: (ctx) => ctx.sleep("1h"), after: (ctx) => ctx.sleep(3_600_000) },
    "another body of a step": { before: (ctx) => ctx.step("a", () => 1), after: (ctx) => ctx.step("a", () => 2) },
    "another side effect": { before: (ctx) => ctx.sideEffect(() => 1), after: (ctx) => ctx.sideEffect(() => 1) },
    "a log line": {
      before: (ctx) => ctx.sleep("1h"),
      after: async (ctx) => {
        ctx.log.info("going to bed");
        await ctx.sleep("1h");
      },
    },
    "another error thrown at the end": {
      before: async () => {
        throw new Error("one");
      },
      after: async () => {
        throw new Error("two");
      },
    },
    "the commits of a loop": {
      before: (ctx) => ctx.loop({ name: "l", state: 0, commitInterval: 5 }, async (ctx) => Loop.break(await ctx.step("a", nothing))),
      after: (ctx) => ctx.loop({ name: "l", state: 0, commitInterval: 7 }, async (ctx) => Loop.break(await ctx.step("a", nothing))),
    },
    "published state": {
      before: (ctx) => ctx.sleep("1h"),
      after: async (ctx) => {
        ctx.publishState("asleep");
        await ctx.sleep("1h");
      },
    },
  };
  for (const [name, { before, after }] of Object.entries(same)) {
    it(`Y2 ${name}`, async () => {
      const h = await Harness.start(wf(before));
      await replay(wf(after), h.history());
    });
  }

  it("Y2 an input of rich values compares by what it means", async () => {
    const run = (order: "ab" | "ba"): Run => {
      const map =
        order === "ab" ? { when: new Date(5), tags: new Set(["x"]), big: 1n } : { big: 1n, tags: new Set(["x"]), when: new Date(5) };
      return (ctx) => ctx.activity(send(), map);
    };
    const h = await Harness.start(wf(run("ab")));
    await replay(wf(run("ba")), h.history());
  });
});

describe("the message", () => {
  const long = "x".repeat(300);
  interface Link {
    text: string;
    next?: Link;
    previous?: Link;
  }
  function ring(): Link {
    const links: Link[] = [1, 2, 3].map(() => ({ text: long }));
    for (const [i, link] of links.entries()) Object.assign(link, { next: links[(i + 1) % 3], previous: links[(i + 2) % 3] });
    return links[0] as Link;
  }
  it.each<[string, Run, Run, string, string]>([
    ["an output", async () => ({ total: 1 }), async () => ({ total: 2 }), '{"total":1}', '{"total":2}'],
    [
      "a part of a long input",
      (ctx) => ctx.activity(send(), { text: long, copies: [1, 1] }),
      (ctx) => ctx.activity(send(), { text: long, copies: [1, 2] }),
      "copies.1: 1",
      "copies.1: 2",
    ],
    [
      "a letter of a long text",
      (ctx) => ctx.activity(send(), `${long}a`),
      (ctx) => ctx.activity(send(), `${long}b`),
      `(from character 281) "${"x".repeat(20)}a"`,
      `(from character 281) "${"x".repeat(20)}b"`,
    ],
    [
      "the kind of a value",
      (ctx) => ctx.activity(send(), { when: new Date(0) }),
      (ctx) => ctx.activity(send(), { when: "1970-01-01T00:00:00.000Z" }),
      'when: Date "1970-01-01T00:00:00.000Z"',
      'when: "1970-01-01T00:00:00.000Z"',
    ],
    [
      "something behind a ring",
      (ctx) => ctx.activity(send(), { ring: ring(), last: 1 }),
      (ctx) => ctx.activity(send(), { ring: ring(), last: 2 }),
      "last: 1",
      "last: 2",
    ],
  ])("Y2 says what differs: %s", async (_, before, after, expected, actual) => {
    const { message } = await divergence(before, after);
    expect(message).toContain(`- expected (history): ${expected}\n+ actual (code):      ${actual}\n`);
  });

  it("Y2 reads like a diff and says what to do: a changed field", async () => {
    const error = await divergence(
      (ctx) => ctx.activity(send(), { to: "ada", copies: 1 }),
      (ctx) => ctx.activity(send(), { to: "ada", copies: 2 }),
    );
    expect(error.message).toMatchInlineSnapshot(`
      "code and history diverge at send, in input
      - expected (history): {"to":"ada","copies":1}
      + actual (code):      {"to":"ada","copies":2}
      Put the new path behind ctx.patched(id), put ctx.removed(name, kind) where an operation was removed, or give the workflow a new version. If the code has not changed, it depends on something that is not recorded."
    `);
  });

  it("Y2 reads like a diff and says what to do: another operation", async () => {
    const error = await divergence(
      (ctx) => ctx.loop("checkout", (ctx) => ctx.step("charge", nothing)),
      (ctx) => ctx.loop("checkout", (ctx) => ctx.sleep("charge", "1h")),
    );
    expect(error.message).toMatchInlineSnapshot(`
      "code and history diverge at checkout/~0/charge, in kind
      - expected (history): step "charge" in checkout/~0
      + actual (code):      sleep "charge" in checkout/~0
      Put the new path behind ctx.patched(id), put ctx.removed(name, kind) where an operation was removed, or give the workflow a new version. If the code has not changed, it depends on something that is not recorded."
    `);
  });

  it("Y2 reads like a diff and says what to do: an operation that comes too early", async () => {
    const error = await divergence(
      async (ctx) => {
        await ctx.step("reserve", nothing);
        await ctx.step("charge", nothing);
      },
      (ctx) => Promise.all([ctx.step("reserve", nothing), ctx.step("charge", nothing)]),
      resolve("reserve"),
    );
    expect(error.message).toMatchInlineSnapshot(`
      "code and history diverge at charge, in operation
      - expected (history): nothing
      + actual (code):      step "charge"
      History has it one turn later: an operation before it is missing.
      Put the new path behind ctx.patched(id), put ctx.removed(name, kind) where an operation was removed, or give the workflow a new version. If the code has not changed, it depends on something that is not recorded."
    `);
  });

  it("Y2 reads like a diff and says what to do: an operation that is gone", async () => {
    const error = await divergence(
      (ctx) => Promise.all([ctx.step("reserve", nothing), ctx.step("charge", nothing)]),
      (ctx) => ctx.step("reserve", nothing),
    );
    expect(error.message).toMatchInlineSnapshot(`
      "code and history diverge at charge, in operation
      - expected (history): step "charge"
      + actual (code):      nothing
      At this point the unit root did something else, or nothing.
      Put the new path behind ctx.patched(id), put ctx.removed(name, kind) where an operation was removed, or give the workflow a new version. If the code has not changed, it depends on something that is not recorded."
    `);
  });
});

describe("records and resolutions", () => {
  it("Y3 a resolution wakes only its own operation", async () => {
    const order: string[] = [];
    const h = await Harness.start(
      wf((ctx) =>
        ctx.join("all", {
          a: async (ctx) => void order.push(`a ${await ctx.step("same", nothing)}`),
          b: async (ctx) => void order.push(`b ${await ctx.step("same", nothing)}`),
        }),
      ),
    );
    await h.resolve("all/b/same", 2);
    expect(order).toEqual(["b 2"]);
    await h.resolve("all/a/same", 1);
    expect(order).toEqual(["b 2", "a 1"]);
    await crashAnywhere(h);
  });

  it("Y3 a resolution that comes twice counts once", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const first = await ctx.step("a", nothing);
        await ctx.step("b", nothing);
        return first;
      }),
    );
    const job = h.resolved("a", 1);
    const again = h.resolved("a", 2);
    await h.turn(job, again);
    expect(await h.turn(again)).toEqual([]);
    await h.resolve("b");
    expect(h.output).toBe(1);
    await crashAnywhere(h);
  });

  it("Y3 a resolution without a waiter is ignored", async () => {
    const h = await Harness.start(wf((ctx) => ctx.step("a", nothing)));
    expect(await h.turn({ type: "resolve", seq: 99, outcome: { status: "completed", value: "1" } }, { type: "fire", seq: 98 })).toEqual([]);
    await h.resolve("a");
    await crashAnywhere(h);
  });

  it("Y3 Y5 a history whose turns were repeated, moved or invented is refused, and the error names the place", async () => {
    const program = wf(async (ctx) => {
      await ctx.step("a", nothing);
      await ctx.waitForSignal("go");
      return ctx.step("b", nothing);
    });
    const h = await Harness.start(program);
    await h.resolve("a");
    await h.signal("go");
    await h.resolve("b");
    const history = h.history();
    await expect(replay(program, history)).resolves.toBeUndefined();
    const turns = history.turns as readonly Turn[];
    const [first, second, third, last] = turns as [Turn, Turn, Turn, Turn];
    const numbered = (all: readonly Turn[]) => all.map((turn, index) => ({ ...turn, index }));
    const unknown: Job = { type: "resolve", seq: 99, outcome: { status: "completed", value: "1" } };
    const changed: Record<string, readonly unknown[]> = {
      "the first turn repeated": [first, ...turns],
      "the first turn repeated, and renumbered": numbered([first, ...turns]),
      "a later turn repeated": [first, second, second, third, last],
      "a later turn repeated, and renumbered": numbered([first, second, second, third, last]),
      "the last turn repeated, and renumbered": numbered([...turns, last]),
      "turns in another order": [first, third, second, last],
      "a turn that comes too early": numbered([first, third, second, last]),
      "all of it twice": numbered([...turns, ...turns]),
      "no start": turns.slice(1),
      "an answer to an operation that nothing opened": numbered([first, { ...second, jobs: [...second.jobs, unknown] }, third, last]),
      "an answer before its operation": numbered([{ ...first, jobs: [...first.jobs, ...second.jobs] }, third, last]),
      "two operations of one number": numbered([{ ...first, commands: [...first.commands, ...first.commands] }, second, third, last]),
    };
    for (const [name, list] of Object.entries(changed)) {
      const error: unknown = await replay(program, { ...history, turns: list }).catch((thrown: unknown) => thrown);
      const isRefused = error instanceof InvalidInputError && error.issues[0]?.path?.[0]?.toString().startsWith("turns[") === true;
      expect([name, isRefused || error instanceof NondeterminismError]).toEqual([name, true]);
      if (name.includes("repeated")) expect([name, isRefused]).toEqual([name, true]);
    }
  });

  it("Y3 a record is consumed once: code that does it twice has an extra operation", async () => {
    const error = await divergence(
      (ctx) => ctx.step("a", nothing),
      (ctx) => Promise.all([ctx.step("a", nothing), ctx.step("a", nothing)]),
    );
    expect(what(error)).toEqual({ location: "a#1", field: "operation", expected: undefined, actual: 'step "a" (occurrence 2)' });
  });
});

describe("failures", () => {
  it("Y4 a failure replays as a failure: the branch that the live run took", async () => {
    const taken: string[] = [];
    const program = wf(async (ctx) => {
      try {
        await ctx.step("charge", nothing);
        taken.push("charged");
      } catch (error) {
        taken.push((error as Error).name, ((error as Error).cause as Error).message);
        await ctx.step("apologise", nothing);
      }
    });
    const h = await Harness.start(program);
    await h.fail("charge", broken, 4);
    await h.recover();
    expect(taken).toEqual(["StepFailedError", "broken", "StepFailedError", "broken"]);
    await h.resolve("apologise");
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("Y4 attempts, data and causes of an error are the same in replay", async () => {
    const seen: unknown[] = [];
    const program = wf(async (ctx) => {
      await ctx.step("charge", nothing).catch((error: Error & { attempts: number }) => {
        const cause = error.cause as Error & { code?: string };
        seen.push([error.message, error.attempts, cause.name, cause.code, (cause.cause as Error).message]);
      });
    });
    const h = await Harness.start(program);
    await h.fail("charge", Object.assign(new TypeError("odd", { cause: new Error("deep") }), { code: "E1" }), 3);
    await replay(program, h.history());
    expect(seen[0]).toMatchObject([expect.stringContaining("3 attempts"), 3, "TypeError", "E1", "deep"]);
    expect(seen[1]).toEqual(seen[0]);
  });

  const failing: Record<string, { run: Run; turns: ((h: Harness) => Promise<unknown>)[]; result: unknown }> = {
    "a failed try": {
      run: async (ctx) => {
        const result = await ctx.try("t", (ctx) => ctx.step("a", nothing));
        await ctx.step("after", nothing);
        return result.ok ? "ok" : result.error.name;
      },
      turns: [(h) => h.fail("a", broken)],
      result: "StepFailedError",
    },
    "a try whose body throws": {
      run: async (ctx) => {
        const result = await ctx.try("t", async () => {
          throw new TypeError("odd");
        });
        await ctx.step("after", nothing);
        return result.ok ? "ok" : result.error.name;
      },
      turns: [],
      result: "TypeError",
    },
    "a failed side effect": {
      run: async (ctx) => {
        const name = await ctx
          .sideEffect(() => {
            throw new TypeError("odd");
          })
          .catch((error: Error) => error.name);
        await ctx.step("after", nothing);
        return name;
      },
      turns: [],
      result: "TypeError",
    },
    "a failed join": {
      run: async (ctx) => {
        const name = await ctx.join("j", { a: (ctx) => ctx.step("a", nothing) }).catch((error: Error) => error.name);
        await ctx.step("after", nothing);
        return name;
      },
      turns: [(h) => h.fail("a", broken)],
      result: "JoinError",
    },
    "a failed branch of a parallel": {
      run: async (ctx) => {
        const [a, b] = await ctx.parallel([(ctx) => ctx.step("a", nothing), (ctx) => ctx.step("b", nothing)]);
        await ctx.step("after", nothing);
        return [a.status, b.status];
      },
      turns: [(h) => h.fail("a", broken), (h) => h.resolve("b")],
      result: ["rejected", "fulfilled"],
    },
    "a timeout": {
      run: async (ctx) => {
        const result = await ctx.waitForSignal("go", { timeout: "1h" });
        await ctx.step("after", nothing);
        return result.timedOut;
      },
      turns: [(h) => h.fire()],
      result: true,
    },
    "a value that can't be encoded": {
      run: async (ctx) => {
        const name = await ctx.activity(send(), nothing).catch((error: Error) => error.name);
        await ctx.step("after", nothing);
        return name;
      },
      turns: [],
      result: "UnserializableValueError",
    },
  };
  for (const [name, { run, turns, result }] of Object.entries(failing)) {
    it(`Y4 ${name} replays as it was`, async () => {
      const h = await Harness.start(wf(run));
      for (const turn of turns) await turn(h);
      await h.recover();
      await h.resolve("after");
      expect(h.output).toEqual(result);
      await crashAnywhere(h);
    });
  }

  it("Y4 a failed update handler replays as it was", async () => {
    const program = wf((ctx) =>
      ctx.receive(0, {
        updates: {
          pay: async (_input: unknown, state: number, ctx) => {
            await ctx.step("charge", nothing);
            return Receive.reply("paid", state);
          },
        },
        signals: { stop: (_payload, state) => Receive.stop(state) },
      }),
    );
    const h = await Harness.start(program);
    await h.update("pay", 1, "u1");
    await h.fail("charge", broken);
    expect(h.updateResult("u1")).toMatchObject({ error: { name: "StepFailedError" } });
    await h.recover();
    await h.signal("stop");
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("Y4 Y1 a step inside a join that is resumed after its sibling's failure does not run the sibling again", async () => {
    const bodies: string[] = [];
    const program = wf((ctx) =>
      ctx.join("all", { a: (ctx) => ctx.step("a", () => bodies.push("a")), b: (ctx) => ctx.step("b", () => bodies.push("b")) }),
    );
    const h = await Harness.start(program);
    await h.resolve("b", 2);
    await h.fail("a", broken);
    await h.resume();
    expect(h.executor.waitingFor).toEqual(["step all/a/a"]);
    await h.resolve("a", 1);
    expect(h.output).toEqual({ a: 1, b: 2 });
    expect(bodies).toEqual([]);
  });
});

describe("replay anywhere", () => {
  const program = wf(async (ctx) => {
    const when = await ctx.step("when", nothing);
    const answer = await ctx.waitForSignal("go");
    return [when, answer];
  });
  async function recorded(): Promise<History> {
    const h = await Harness.start(program, { rich: new Map([["a", 1n]]) });
    await h.resolve("when", new Date(5));
    await h.signal("go", new Set(["x"]));
    expect(h.status).toBe("completed");
    return h.history();
  }

  it("Y5 a history that went through JSON replays, rich values and all", async () => {
    await replay(program, JSON.parse(JSON.stringify(await recorded())));
  });

  it("Y5 a history that is cut short replays as far as it goes", async () => {
    const history = await recorded();
    for (let turns = 0; turns <= history.turns.length; turns++) await replay(program, { ...history, turns: history.turns.slice(0, turns) });
  });

  it("Y5 the history of another workflow is refused, with both names", async () => {
    const history = await recorded();
    const other = workflow("other", async () => undefined);
    await expect(replay(other, history)).rejects.toThrow(InvalidInputError);
    await expect(replay(other, history)).rejects.toThrow(/"wf".*"other"/);
  });

  const opaque = { toString: 5 };
  const deep = (): unknown => {
    let value: unknown = 1;
    for (let i = 0; i < 50_000; i++) value = [value];
    return value;
  };
  /** The history with something else in its second turn, which has the outcome of the step. */
  const withTurn = (history: History, change: object): unknown => ({
    ...history,
    turns: history.turns.map((turn, i) => (i === 1 ? { ...(turn as object), ...change } : turn)),
  });
  const withOutcome = (history: History, outcome: unknown): unknown => withTurn(history, { jobs: [{ type: "resolve", seq: 1, outcome }] });
  const bad: Record<string, (history: History) => unknown> = {
    "a workflow whose name is not a text": (history) => ({ ...history, run: { ...history.run, workflow: opaque } }),
    "a historyLength that is not a number": (history) => withTurn(history, { historyLength: opaque }),
    "a historyLength that is text": (history) => withTurn(history, { historyLength: "x" }),
    "attempts that are not a number": (history) =>
      withOutcome(history, { status: "failed", error: { name: "Error", message: "no" }, attempts: opaque }),
    "a reason that is not a text": (history) => withOutcome(history, { status: "canceled", reason: opaque }),
    "a cancellation whose reason is not a text": (history) => withTurn(history, { jobs: [{ type: "cancel", reason: opaque }] }),
    "a format that is nested too deeply": (history) => ({ ...history, format: deep() }),
    "an unknown field that is nested too deeply": (history) => withTurn(history, { more: deep() }),
    "a job that is nested too deeply": (history) => withTurn(history, { jobs: [deep()] }),
    "an outcome that is nested too deeply": (history) => withOutcome(history, { status: "completed", value: deep() }),
    "an input that is nested too deeply": (history) => ({
      ...history,
      turns: [{ index: 0, time: 0, historyLength: 0, jobs: [{ type: "start", input: deep() }], commands: [] }],
    }),
    "nothing at all": () => null,
    "another format": (history) => ({ ...history, format: "somebody-else/1" }),
    "no turns": (history) => ({ ...history, turns: undefined }),
    "a turn that is not a turn": (history) => ({ ...history, turns: [7] }),
    "a turn without jobs": (history) => ({ ...history, turns: [{ index: 0, time: 0, commands: [] }] }),
    "an unknown job": (history) => ({
      ...history,
      turns: [{ index: 0, time: 0, historyLength: 0, jobs: [{ type: "dance" }], commands: [] }],
    }),
    "an unknown command": (history) => ({
      ...history,
      turns: [{ index: 0, time: 0, historyLength: 0, jobs: [], commands: [{ type: "dance" }] }],
    }),
  };
  for (const [name, make] of Object.entries(bad)) {
    it(`Y5 ${name} is refused as input, not as nondeterminism`, async () => {
      const history = make(await recorded()) as History;
      await expect(replay(program, history)).rejects.toThrow(InvalidInputError);
    });
  }

  it("Y5 of a chain of causes without end as much is read as is ever written", async () => {
    let error: object = { name: "Error", message: "the first" };
    for (let i = 0; i < 50_000; i++) error = { name: "Error", message: "no", cause: error };
    const history = withOutcome(await recorded(), { status: "failed", error }) as History;
    // The step fails then: it is the code that parts from the history, and no crash.
    await expect(replay(program, history)).rejects.toThrow(NondeterminismError);
  });
});

describe("waits leave records", () => {
  const waits: Record<string, { run: Run; type: string }> = {
    waitForSignal: { run: (ctx) => ctx.waitForSignal("go"), type: "signal" },
    listen: { run: (ctx) => ctx.listen(["go"]), type: "signal" },
    condition: { run: (ctx) => ctx.condition(() => false), type: "condition" },
    ivar: { run: (ctx) => ctx.ivar().wait(), type: "ivar" },
    receive: { run: (ctx) => ctx.receive(0, {}), type: "receive" },
    parallel: { run: (ctx) => ctx.parallel([(ctx) => ctx.sleep("1h")]), type: "parallel" },
    join: { run: (ctx) => ctx.join("j", { a: (ctx) => ctx.sleep("1h") }), type: "join" },
    race: { run: (ctx) => ctx.race("r", { a: (ctx) => ctx.sleep("1h") }), type: "race" },
    loop: { run: (ctx) => ctx.loop("l", (ctx) => ctx.sleep("1h")), type: "loop" },
    try: { run: (ctx) => ctx.try("t", (ctx) => ctx.sleep("1h")), type: "try" },
    shield: { run: (ctx) => ctx.shield((ctx) => ctx.sleep("1h")), type: "shield" },
    sleep: { run: (ctx) => ctx.sleep("1h"), type: "sleep" },
  };
  for (const [name, { run, type }] of Object.entries(waits)) {
    it(`Y7 ${name} opens with a record, and replay without it is nondeterminism`, async () => {
      const h = await Harness.start(wf(run));
      expect(h.commands[0]).toMatchObject({ type });
      await expect(
        replay(
          wf((ctx) => ctx.step("other", nothing)),
          h.history(),
        ),
      ).rejects.toThrow(NondeterminismError);
    });
  }

  it("Y7 a signal that came in a later turn is not delivered at call time", async () => {
    const order: string[] = [];
    const program = wf((ctx) =>
      ctx.join("all", {
        a: async (ctx) => {
          await ctx.waitForSignal("go");
          order.push("signal");
          await ctx.step("a", nothing);
        },
        b: async (ctx) => {
          await ctx.step("b", nothing);
          order.push("step");
          await ctx.step("c", nothing);
        },
      }),
    );
    const h = await Harness.start(program);
    await h.resolve("b");
    await h.signal("go");
    expect(order).toEqual(["step", "signal"]);
    await h.recover();
    expect(order).toEqual(["step", "signal", "step", "signal"]);
    await crashAnywhere(h);
  });

  it("Y7 a result that came in a later turn is not delivered at call time", async () => {
    const seen: string[][] = [];
    const program = wf(async (ctx) => {
      const log: string[] = [];
      seen.push(log);
      const slow = ctx.step("slow", nothing).then(() => log.push("slow"));
      await ctx.step("fast", nothing);
      log.push("fast");
      await slow;
      await ctx.step("end", nothing);
    });
    const h = await Harness.start(program);
    await h.resolve("fast");
    await h.resolve("slow");
    await h.recover();
    expect(seen).toEqual([
      ["fast", "slow"],
      ["fast", "slow"],
    ]);
  });

  it("Y7 a unit past its last record is live, while another is still replayed", async () => {
    const h = await Harness.start(
      wf((ctx) =>
        ctx.join("all", {
          a: async (ctx) => {
            await ctx.step("a1", nothing);
            await ctx.step("a2", nothing);
          },
          b: async (ctx) => {
            await ctx.step("b1", nothing);
            await ctx.step("b2", nothing);
          },
        }),
      ),
    );
    await h.resolve("b1");
    await h.recover();
    await h.turn(h.resolved("a1"), h.resolved("b2"));
    expect(h.openLocations).toEqual(["all/a/a2"]);
    await crashAnywhere(h);
  });
});

describe("Y5 retries without end", () => {
  const endless = { retry: { maxAttempts: Number.POSITIVE_INFINITY } };
  const calls: Record<string, Run> = {
    step: (ctx) => ctx.step("work", nothing, endless),
    activity: (ctx) =>
      ctx.activity(
        activity("work", async () => undefined, endless),
        undefined,
      ),
    "an activity by the call": (ctx) =>
      ctx.activity(
        activity("work", async () => undefined),
        undefined,
        endless,
      ),
    child: (ctx) => ctx.child(child("work"), undefined, endless),
  };
  for (const [kind, run] of Object.entries(calls)) {
    it(`Y5 ${kind}: a history replays from JSON`, async () => {
      const h = await Harness.start(wf(run));
      await h.resolve("work");
      await replay(wf(run), JSON.parse(JSON.stringify(h.history())) as History);
    });
  }
});
