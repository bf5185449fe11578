// Job: prove that all a Temporal host needs passes through the protocol: each row of its mapping, as jobs in and commands out.
// Owns: an executor driven activation by activation, live and as that host replays: with jobs, without recorded commands.
// Invariants: X1, X6 (one completion an activation), V1 (patches), M8 to M11, P7, P10, K1, K6.
import {
  type Activation,
  type AnyWorkflow,
  activity,
  type Command,
  type Completion,
  Executor,
  FatalError,
  type Job,
  jsonCodec,
  Receive,
  type StartJob,
  type StepBody,
  serializeError,
  signal,
  type Turn,
  update,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const nothing = () => undefined;
const text = (value: unknown) => jsonCodec.encode(value);
const wf = (run: (ctx: WorkflowContext) => Promise<unknown>): AnyWorkflow => workflow("wf", run);
const start = (fields: Partial<StartJob> = {}): StartJob => ({
  type: "start",
  runId: "run-1",
  workflow: "wf",
  input: text(undefined),
  seed: "seed",
  startedAt: 0,
  ...fields,
});
const completed = (seq: number, value?: unknown): Job => ({ type: "resolve", seq, outcome: { status: "completed", value: text(value) } });
const failed = (seq: number, error: unknown, attempts = 1): Job => ({
  type: "resolve",
  seq,
  outcome: { status: "failed", error: serializeError(error), attempts },
});

/** Runs what the executor says is to be run. */
function called(body: StepBody | undefined, ...args: readonly unknown[]): unknown {
  if (body === undefined) throw new Error("There is no body.");
  return body.run(...(args as never[]));
}

/** As a host that matches commands itself uses an executor: activations in, completions out, nothing recorded here. */
class Host {
  readonly executor: Executor;
  readonly activations: Activation[] = [];
  readonly #completions: Completion[] = [];
  #time = 0;

  readonly workflow: AnyWorkflow;
  readonly options: { readonly sideEffects?: "inline" | "scheduled" };

  constructor(workflow: AnyWorkflow, options: { readonly sideEffects?: "inline" | "scheduled" } = {}) {
    this.workflow = workflow;
    this.options = options;
    this.executor = new Executor({ workflow, ...options });
  }
  async activate(...jobs: Job[]): Promise<readonly Command[]> {
    const activation = { time: ++this.#time, jobs };
    const completion = await this.executor.activate(activation);
    this.activations.push(activation);
    this.#completions.push(completion);
    if (completion.status === "failed") throw completion.error;
    return completion.commands;
  }
  get last(): Completion & { status: "ok" } {
    const last = this.#completions.at(-1);
    if (last?.status !== "ok") throw new Error("No completion, or a failed one.");
    return last;
  }
  /** The same activations into a new executor, as replay: the commands must be the same, though nothing tells it which. */
  async replayed(other: AnyWorkflow = this.workflow, more: readonly Job[] = []): Promise<Executor> {
    const executor = new Executor({ workflow: other, ...this.options });
    for (const [i, activation] of this.activations.entries()) {
      const jobs = i === 0 ? [...more, ...activation.jobs] : activation.jobs;
      const completion = await executor.activate({ ...activation, jobs, replaying: true });
      const before = this.#completions[i];
      if (completion.status === "failed") throw completion.error;
      if (before?.status === "ok") expect(completion.commands).toEqual(before.commands);
    }
    return executor;
  }
}

describe("each row of the mapping", () => {
  it("X1 activity: scheduled with all its timeouts, resolved as completed, failed or canceled; cancelled by a command", async () => {
    const send = activity("send", async (_to: string) => "sent", {
      queue: "mail",
      retry: { maxAttempts: 3, initialInterval: "1s", nonRetryable: ["Refused"] },
      startToClose: "1m",
      scheduleToClose: "10m",
      scheduleToStart: "5m",
      heartbeat: "10s",
    });
    const outcomes: unknown[] = [];
    const host = new Host(
      wf(async (ctx) => {
        for (const to of ["a", "b", "c"]) outcomes.push(await ctx.activity(send, to).catch((error: Error) => error.name));
        await ctx.activity(send, "d");
      }),
    );
    const [command] = await host.activate(start());
    expect(command).toEqual({
      type: "activity",
      seq: 1,
      unit: "",
      name: "send",
      n: 0,
      input: text("a"),
      queue: "mail",
      retry: { maxAttempts: 3, initialInterval: 1000, nonRetryable: ["Refused"] },
      startToClose: 60_000,
      scheduleToClose: 600_000,
      scheduleToStart: 300_000,
      heartbeat: 10_000,
    });
    await host.activate(completed(1, "sent"));
    await host.activate(failed(2, new Error("no"), 3));
    await host.activate({ type: "resolve", seq: 3, outcome: { status: "canceled", reason: "by the server" } });
    expect(outcomes).toEqual(["sent", "ActivityFailedError", "CanceledError"]);
    expect(await host.activate({ type: "cancel" })).toEqual([{ type: "cancel", seq: 4 }, { type: "canceled" }]);
    await host.replayed();
  });

  it("X1 activity: options of the call go before those of the definition", async () => {
    const send = activity("send", async () => undefined, { startToClose: "1m", queue: "a" });
    const host = new Host(wf((ctx) => ctx.activity(send, undefined, { queue: "b" })));
    expect(await host.activate(start())).toMatchObject([{ queue: "b", startToClose: 60_000 }]);
  });

  it("X1 step: scheduled by number, its body found by number, while the host backs off with its own timers", async () => {
    const host = new Host(
      wf((ctx) =>
        ctx.step("charge", ({ attempt }) => `attempt ${attempt}`, { retry: { maxAttempts: 3, initialInterval: "1m" }, timeout: "30s" }),
      ),
    );
    expect(await host.activate(start())).toEqual([
      { type: "step", seq: 1, unit: "", name: "charge", n: 0, timeout: 30_000, retry: { maxAttempts: 3, initialInterval: 60_000 } },
    ]);
    const body = host.executor.body(1);
    expect(body).toMatchObject({ kind: "step", name: "charge", timeout: 30_000, retry: { maxAttempts: 3, initialInterval: "1m" } });
    expect(called(body, { attempt: 2 })).toBe("attempt 2");
    // A timer of the host's own fires while the step stands: nothing that the executor need know of.
    expect(await host.activate({ type: "signal", id: "s1", name: "unrelated", payload: text(1) })).toEqual([]);
    expect(host.executor.openOperations).toEqual([1]);
    expect(await host.activate(completed(1, "attempt 2"))).toEqual([{ type: "complete", value: text("attempt 2") }]);
    await host.replayed();
  });

  it("X1 step: a failure comes with its attempts, a cancel goes out by number", async () => {
    const host = new Host(
      wf(async (ctx) => {
        const attempts = await ctx.step("a", nothing).catch((error: Error & { attempts: number }) => error.attempts);
        await ctx.step("b", nothing).catch(nothing);
        return attempts;
      }),
    );
    await host.activate(start());
    await host.activate(failed(1, new FatalError("no"), 7));
    expect(await host.activate({ type: "cancel", reason: "r" })).toEqual([
      { type: "cancel", seq: 2 },
      { type: "canceled", reason: "r", value: text(7) },
    ]);
  });

  it("X1 steps and activities share one counter, with all other operations", async () => {
    const send = activity("send", async () => undefined);
    const host = new Host(
      wf((ctx) => Promise.all([ctx.step("a", nothing), ctx.activity(send, undefined), ctx.sleep(1), ctx.step("b", nothing)])),
    );
    const commands = await host.activate(start());
    expect(commands.map((one) => ("seq" in one ? one.seq : undefined))).toEqual([1, 2, 3, 4]);
  });

  it("X1 sleep: a timer that fires, or is cancelled without an answer", async () => {
    const host = new Host(
      wf(async (ctx) => {
        await ctx.sleep("1h");
        await ctx.race("first", { short: (ctx) => ctx.sleep("1m"), long: (ctx) => ctx.sleep("1d") });
        await ctx.sleepUntil(new Date(9000));
      }),
    );
    expect(await host.activate(start())).toEqual([{ type: "sleep", seq: 1, unit: "", name: "sleep", n: 0, duration: 3_600_000 }]);
    await host.activate({ type: "fire", seq: 1 });
    const commands = await host.activate({ type: "fire", seq: 3 });
    expect(commands).toEqual([
      { type: "winner", seq: 2, key: "short" },
      { type: "cancel", seq: 4 },
      { type: "settle", seq: 2, status: "completed" },
      { type: "sleep", seq: 5, unit: "", name: "sleep", n: 1, until: 9000 },
    ]);
    expect(await host.activate({ type: "fire", seq: 5 })).toEqual([{ type: "complete", value: text(undefined) }]);
    await host.replayed();
  });

  it("X1 sleep: a wait, a receive and a condition arm their timeouts under their own numbers", async () => {
    const host = new Host(
      wf(async (ctx) => [
        (await ctx.waitForSignal("go", { timeout: "1m" })).timedOut,
        (await ctx.receive(0, { timeout: "2m" })).timedOut,
        await ctx.condition(() => false, "3m"),
      ]),
    );
    expect(await host.activate(start())).toMatchObject([{ type: "signal", seq: 1, timeout: 60_000 }]);
    expect(await host.activate({ type: "fire", seq: 1 })).toMatchObject([
      { type: "settle", seq: 1, status: "timedOut" },
      { type: "receive", seq: 2, timeout: 120_000 },
    ]);
    expect(await host.activate({ type: "fire", seq: 2 })).toMatchObject([
      { type: "settle", seq: 2, status: "timedOut" },
      { type: "condition", seq: 3, timeout: 180_000 },
    ]);
    const commands = await host.activate({ type: "fire", seq: 3 });
    expect(commands.at(-1)).toEqual({ type: "complete", value: text([true, true, undefined]) });
    await host.replayed();
  });

  it("X1 signal: a job; what it is consumed by is in the commands, for hosts that keep such records", async () => {
    const host = new Host(wf((ctx) => ctx.waitForSignal("go")));
    await host.activate(start());
    expect(await host.activate({ type: "signal", id: "s1", name: "go", payload: text(5) })).toEqual([
      { type: "settle", seq: 1, status: "completed", messages: ["s1"] },
      { type: "complete", value: text(5) },
    ]);
    await host.replayed();
  });

  it("X1 signal: one that comes with the start is there for the first wait", async () => {
    const host = new Host(wf((ctx) => ctx.waitForSignal("go")));
    const commands = await host.activate(start(), { type: "signal", id: "s1", name: "go", payload: text(5) });
    expect(commands.at(-1)).toEqual({ type: "complete", value: text(5) });
  });

  const till = workflow({ name: "wf", updates: { pay: update<number, string>() }, signals: { close: signal() } }, async (ctx) =>
    ctx.receive(0, {
      updates: {
        pay: {
          validate: (amount) => {
            if (amount < 0) throw new Error("negative");
          },
          handle: async (amount, state, ctx) => {
            await ctx.step("charge", nothing);
            if (amount > 100) throw new Error("too much");
            return Receive.reply(`paid ${amount}`, state + amount);
          },
        },
      },
      signals: { close: (_payload, state) => Receive.stop(state) },
    }),
  );
  const pay = (id: string, amount: number, more: { validate?: boolean } = {}): Job => ({
    type: "update",
    id,
    name: "pay",
    input: text(amount),
    ...more,
  });

  it("M10 update: accepted in the activation that brought it, completed later", async () => {
    const host = new Host(till);
    await host.activate(start());
    const commands = await host.activate(pay("u1", 5));
    expect(commands.slice(0, 2)).toEqual([
      { type: "acceptUpdate", seq: 1, id: "u1" },
      { type: "dispatch", seq: 1, unit: "receive/~h0", message: "u1" },
    ]);
    expect(await host.activate(completed(2))).toEqual([
      { type: "completeUpdate", seq: 1, id: "u1", status: "completed", value: text("paid 5") },
    ]);
    await host.replayed();
  });

  it("M10 update: accepted and then failed by its handler", async () => {
    const host = new Host(till);
    await host.activate(start());
    await host.activate(pay("u1", 500));
    expect(await host.activate(completed(2))).toMatchObject([
      { type: "completeUpdate", id: "u1", status: "failed", error: { message: "too much" } },
    ]);
    await host.replayed();
  });

  it("M9 update: rejected by its validator in the same activation, with no command at all", async () => {
    const host = new Host(till);
    await host.activate(start());
    expect(await host.activate(pay("u1", -1))).toEqual([]);
    expect(host.last.replies).toMatchObject([{ type: "rejectUpdate", id: "u1", error: { name: "UpdateRejectedError" } }]);
  });

  it("M8 update: rejected where no receive takes it", async () => {
    const host = new Host(wf((ctx) => ctx.sleep(1)));
    await host.activate(start());
    expect(await host.activate(pay("u1", 1))).toEqual([]);
    expect(host.last.replies).toMatchObject([{ type: "rejectUpdate", id: "u1" }]);
  });

  it("M9 update: with validate: false, as in replay, no validator runs", async () => {
    const host = new Host(till);
    await host.activate(start());
    const commands = await host.activate(pay("u1", -1, { validate: false }));
    expect(commands[0]).toEqual({ type: "acceptUpdate", seq: 1, id: "u1" });
  });

  it("M9 update: one that was rejected and left no event shifts nothing in replay", async () => {
    const live = new Host(till);
    await live.activate(start());
    await live.activate(pay("u1", -1));
    const commands = await live.activate(pay("u2", 5));
    const again = new Host(till);
    await again.activate(start());
    expect(await again.activate(pay("u2", 5, { validate: false }))).toEqual(commands);
  });

  const counter = workflow(
    { name: "wf", queries: { doubled: (state: number, by: number) => state * by, broken: () => JSON.parse("{") } },
    async (ctx) => {
      ctx.publishState(21);
      await ctx.step("charge", nothing);
    },
  );
  it("M11 query: its own activation: answered, no command, nothing advances", async () => {
    const host = new Host(counter);
    await host.activate(start());
    const query = (id: string, name: string): Job => ({ type: "query", id, name, args: text(2) });
    expect(await host.activate(query("q1", "doubled"), query("q2", "broken"), query("q3", "unknown"))).toEqual([]);
    expect(host.last.replies).toMatchObject([
      { type: "answerQuery", id: "q1", value: text(42) },
      { type: "failQuery", id: "q2", error: { name: "QueryFailedError" } },
      { type: "failQuery", id: "q3", error: { name: "QueryFailedError" } },
    ]);
    expect(host.executor.waitingFor).toEqual(["step charge"]);
  });

  it("M11 query: answered after the run has ended, as long as it is not evicted", async () => {
    const host = new Host(counter);
    await host.activate(start());
    await host.activate(completed(1));
    expect(host.executor.closed).toBe(true);
    await host.activate({ type: "query", id: "q1", name: "doubled", args: text(2) });
    expect(host.last.replies).toEqual([{ type: "answerQuery", id: "q1", value: text(42) }]);
  });

  it("P6 sideEffect: where nothing can be recorded inline it is scheduled like a step", async () => {
    let calls = 0;
    const host = new Host(
      wf(async (ctx) => [
        await ctx.sideEffect(() => ++calls),
        await ctx
          .sideEffect(() => {
            throw new TypeError("odd");
          })
          .catch((error: Error) => error.name),
      ]),
      { sideEffects: "scheduled" },
    );
    expect(await host.activate(start())).toEqual([{ type: "sideEffect", seq: 1, unit: "", name: "sideEffect", n: 0 }]);
    expect(calls).toBe(0);
    const body = host.executor.body(1);
    expect(body).toMatchObject({ kind: "sideEffect", retry: { maxAttempts: 1 } });
    expect(await host.activate(completed(1, called(body)))).toMatchObject([{ type: "sideEffect", seq: 2 }]);
    expect(await host.activate(failed(2, new TypeError("odd")))).toEqual([{ type: "complete", value: text([1, "TypeError"]) }]);
    await host.replayed();
    expect(calls).toBe(1);
  });

  it("P6 sideEffect: one that is scheduled can be cancelled, and abandoned by the host", async () => {
    const program = wf((ctx) => ctx.sideEffect(() => 1).catch((error: Error) => error.name));
    const canceled = new Host(program, { sideEffects: "scheduled" });
    await canceled.activate(start());
    expect(await canceled.activate({ type: "cancel" })).toEqual([
      { type: "cancel", seq: 1 },
      { type: "canceled", value: text("CanceledError") },
    ]);
    const givenUp = new Host(program, { sideEffects: "scheduled" });
    await givenUp.activate(start());
    expect(await givenUp.activate({ type: "resolve", seq: 1, outcome: { status: "canceled" } })).toEqual([
      { type: "complete", value: text("CanceledError") },
    ]);
  });

  it("P6 sideEffect: scheduled ones replay and survive crashes like steps", async () => {
    const h = await Harness.start(
      wf(async (ctx) => [await ctx.sideEffect(() => 1), await ctx.step("a", nothing)]),
      undefined,
      { sideEffects: "scheduled" },
    );
    await h.resolve("sideEffect", 5);
    await h.resolve("a", 6);
    expect(h.output).toEqual([5, 6]);
    await crashAnywhere(h);
  });

  describe("patch", () => {
    const old = wf((ctx) => ctx.step("ship", nothing));
    const patched = wf((ctx) => ctx.step(ctx.patched("fast") ? "fly" : "ship", nothing));

    it("V1 patch: live it is true, and a marker goes out once", async () => {
      const host = new Host(
        wf(async (ctx) => {
          ctx.patched("fast");
          ctx.patched("fast");
          await ctx.step("fly", nothing);
          ctx.patched("fast");
        }),
      );
      expect(await host.activate(start())).toMatchObject([
        { type: "patch", name: "fast" },
        { type: "step", name: "fly" },
      ]);
      expect(await host.activate(completed(2))).toMatchObject([{ type: "complete" }]);
    });

    it("V1 patch: replaying without notice it is false, and no marker goes out", async () => {
      const host = new Host(old);
      const commands = await host.activate(start());
      const executor = await host.replayed(patched);
      expect(commands).toMatchObject([{ type: "step", name: "ship" }]);
      expect(executor.waitingFor).toEqual(["step ship"]);
    });

    it("V1 patch: replaying with notice it is true, and the marker goes out again for the host to match", async () => {
      const host = new Host(patched);
      await host.activate(start());
      const executor = await host.replayed(patched, [{ type: "patch", id: "fast", unit: "" }]);
      expect(executor.waitingFor).toEqual(["step fly"]);
    });

    it("V1 patch: live again after a replay, a new unit answers true", async () => {
      const program = (newer: boolean) =>
        wf((ctx) =>
          ctx.receive(0, {
            signals: {
              go: async (_payload, state, ctx) => {
                await ctx.step(newer && ctx.patched("fast") ? "fly" : "ship", nothing);
                return Receive.noreply(state);
              },
            },
          }),
        );
      const go = (id: string): Job => ({ type: "signal", id, name: "go", payload: text(0) });
      const host = new Host(program(false));
      await host.activate(start());
      await host.activate(go("s1"));
      const executor = await host.replayed(program(true));
      await executor.activate({ time: 9, jobs: [completed(2)] });
      const completion = await executor.activate({ time: 10, jobs: [go("s2")] });
      expect(completion).toMatchObject({
        commands: [{ type: "dispatch" }, { type: "patch", name: "fast" }, { type: "step", name: "fly" }],
      });
    });

    it("V1 patch: a deprecated one says so in its marker", async () => {
      const host = new Host(
        wf(async (ctx) => {
          ctx.deprecatePatch("fast");
        }),
      );
      expect((await host.activate(start()))[0]).toMatchObject({ type: "patch", name: "fast", deprecated: true });
    });

    it("V1 patch: a deprecated one goes out in replay only where the host's history has it", async () => {
      const deprecated = wf(async (ctx) => {
        ctx.deprecatePatch("fast");
        await ctx.step("fly", nothing);
      });
      const without = new Host(wf((ctx) => ctx.step("fly", nothing)));
      await without.activate(start());
      const executor = new Executor({ workflow: deprecated });
      const completion = await executor.activate({ time: 1, jobs: [start()], replaying: true });
      expect(completion).toMatchObject({ commands: [{ type: "step", name: "fly" }] });
      const notified = new Executor({ workflow: deprecated });
      const marked = await notified.activate({ time: 1, jobs: [{ type: "patch", id: "fast", unit: "" }, start()], replaying: true });
      expect(marked).toMatchObject({
        commands: [
          { type: "patch", name: "fast", deprecated: true },
          { type: "step", name: "fly" },
        ],
      });
    });
  });

  const ship = workflow({ name: "ship", version: "2" }, async (_ctx, _input: { to: string }) => "shipped");
  it("X1 child: started with everything the server needs, then resolved", async () => {
    const host = new Host(
      wf((ctx) =>
        ctx.child(ship, { to: "ada" }, { id: "c1", queue: "q", deadline: "1h", retry: { maxAttempts: 2 }, parentClose: "abandon" }),
      ),
    );
    expect(await host.activate(start())).toEqual([
      {
        type: "child",
        seq: 1,
        unit: "",
        name: "ship",
        n: 0,
        input: text({ to: "ada" }),
        id: "c1",
        queue: "q",
        version: "2",
        deadline: 3_600_000,
        retry: { maxAttempts: 2 },
        parentClose: "abandon",
      },
    ]);
    // The start is resolved first; who waits for the outcome goes on waiting.
    expect(await host.activate({ type: "childStarted", seq: 1, runId: "c1" })).toEqual([]);
    expect(await host.activate(completed(1, "shipped"))).toEqual([{ type: "complete", value: text("shipped") }]);
    await host.replayed();
  });

  it("X1 child: startChild goes on with the start, and takes the outcome later", async () => {
    const host = new Host(
      wf(async (ctx) => {
        const handle = await ctx.startChild(ship, { to: "ada" });
        await ctx.step("meanwhile", nothing);
        return [handle.id, await handle.result()];
      }),
    );
    expect(await host.activate(start())).toMatchObject([{ type: "child", id: "run-1/ship", detached: true }]);
    expect(await host.activate({ type: "childStarted", seq: 1, runId: "run-1/ship" })).toMatchObject([{ type: "step" }]);
    expect(await host.activate(completed(1, "shipped"))).toEqual([]);
    expect((await host.activate(completed(2))).at(-1)).toEqual({ type: "complete", value: text(["run-1/ship", "shipped"]) });
    await host.replayed();
  });

  it("X1 child: start and outcome may come in one activation", async () => {
    const host = new Host(wf(async (ctx) => (await ctx.startChild(ship, { to: "ada" })).result()));
    await host.activate(start());
    const commands = await host.activate({ type: "childStarted", seq: 1, runId: "c1" }, completed(1, "shipped"));
    expect(commands.at(-1)).toEqual({ type: "complete", value: text("shipped") });
    await host.replayed();
  });

  it("X1 child: one that could not be started fails, attached or not", async () => {
    const attached = wf((ctx) => ctx.child(ship, { to: "ada" }, { id: "c1" }).catch((error: Error) => error.name));
    const started = wf((ctx) => ctx.startChild(ship, { to: "ada" }, { id: "c1" }).catch((error: Error) => error.name));
    for (const one of [attached, started]) {
      const host = new Host(one);
      await host.activate(start());
      const commands = await host.activate(failed(1, new Error("c1 exists already")));
      expect(commands).toEqual([{ type: "complete", value: text("ChildFailedError") }]);
      await host.replayed();
    }
  });

  it("K1 child: cancelled by number", async () => {
    const host = new Host(wf((ctx) => ctx.child(ship, { to: "ada" })));
    await host.activate(start());
    expect(await host.activate({ type: "cancel" })).toEqual([{ type: "cancel", seq: 1 }, { type: "canceled" }]);
  });

  it("X1 external: a signal and a cancel to another run, each with an answer", async () => {
    const host = new Host(
      wf(async (ctx) => {
        await ctx.signalRun("other", "go", { n: 1 });
        await ctx.cancelRun("other");
        return ctx.signalRun("gone", "go").catch((error: Error) => error.message);
      }),
    );
    expect(await host.activate(start())).toEqual([
      { type: "signalRun", seq: 1, unit: "", name: "go", n: 0, runId: "other", signal: "go", payload: text({ n: 1 }) },
    ]);
    expect(await host.activate(completed(1))).toMatchObject([{ type: "cancelRun", seq: 2, runId: "other" }]);
    await host.activate(completed(2));
    expect(await host.activate(failed(3, new Error("not found")))).toEqual([{ type: "complete", value: text("not found") }]);
    await host.replayed();
  });

  it("X1 external: the handle of a child signals and cancels it the same way", async () => {
    const host = new Host(
      wf(async (ctx) => {
        const handle = await ctx.startChild(ship, { to: "ada" }, { id: "c1" });
        await handle.signal("faster", 2);
        await handle.cancel();
      }),
    );
    await host.activate(start());
    expect(await host.activate({ type: "childStarted", seq: 1, runId: "c1" })).toMatchObject([
      { type: "signalRun", runId: "c1", signal: "faster" },
    ]);
    expect(await host.activate(completed(2))).toMatchObject([{ type: "cancelRun", runId: "c1" }]);
    expect(await host.activate(completed(3))).toMatchObject([{ type: "complete" }]);
  });

  it("P10 continue-as-new: with input, version, and the signals that no code consumed", async () => {
    const host = new Host(wf(async (ctx) => ctx.continueAsNew({ page: 2 }, { version: "3" })));
    expect(await host.activate(start(), { type: "signal", id: "s1", name: "go", payload: text(1) })).toEqual([
      { type: "continueAsNew", input: text({ page: 2 }), version: "3", signals: [{ id: "s1", name: "go", payload: text(1) }] },
    ]);
  });

  it("P10 continue-as-new: the length of history is the host's to say", async () => {
    const executor = new Executor({ workflow: wf(async (ctx) => ctx.historyLength()) });
    const completion = await executor.activate({ time: 1, jobs: [start()], historyLength: 777 });
    expect(completion).toMatchObject({ commands: [{ type: "complete", value: "777" }] });
  });

  it("X1 attributes: a command, null to take one away", async () => {
    const host = new Host(
      wf(async (ctx) => {
        ctx.setAttributes({ customer: "ada", total: 5, paid: true, old: null });
      }),
    );
    expect((await host.activate(start()))[0]).toEqual({
      type: "attributes",
      seq: 1,
      unit: "",
      name: "attributes",
      n: 0,
      attributes: { customer: "ada", total: 5, paid: true, old: null },
    });
  });

  it("P1 end: completed, failed, canceled after a cancel job", async () => {
    const done = new Host(wf(async () => "done"));
    expect(await done.activate(start())).toEqual([{ type: "complete", value: text("done") }]);
    const lost = new Host(
      wf(async () => {
        throw new TypeError("odd");
      }),
    );
    expect(await lost.activate(start())).toMatchObject([{ type: "fail", error: { name: "TypeError", message: "odd" } }]);
    const canceled = new Host(wf((ctx) => ctx.sleep(1)));
    await canceled.activate(start());
    expect(await canceled.activate({ type: "cancel", reason: "enough" })).toEqual([
      { type: "cancel", seq: 1 },
      { type: "canceled", reason: "enough" },
    ]);
  });

  const drawing = wf(async (ctx) => {
    const first = [ctx.random(), ctx.uuid()];
    await ctx.step("a", nothing);
    return [first, [ctx.random(), ctx.uuid()]];
  });
  const drawn = async (...jobs: Job[]): Promise<unknown[]> => {
    const host = new Host(drawing);
    await host.activate(start());
    const [end] = await host.activate(...jobs, completed(1));
    if (end?.type !== "complete") throw new Error("It did not end.");
    return jsonCodec.decode(end.value) as unknown[];
  };

  it("P7 seed: a seed job changes what is drawn from then on, and only then", async () => {
    const [first, second] = await drawn();
    const [sameFirst, otherSecond] = await drawn({ type: "seed", seed: "other" });
    expect(sameFirst).toEqual(first);
    expect(otherSecond).not.toEqual(second);
  });

  it("P7 seed: the same seed gives the same draws, in replay too", async () => {
    const seed: Job = { type: "seed", seed: "other" };
    expect(await drawn(seed)).toEqual(await drawn(seed));
    const host = new Host(drawing);
    await host.activate(start());
    await host.activate(seed, completed(1));
    await host.replayed();
  });

  it("P7 seed: a run with another seed draws other values", async () => {
    const draw = async (seed: string) => {
      const host = new Host(wf(async (ctx) => ctx.random()));
      return host.activate(start({ seed }));
    };
    expect(await draw("a")).toEqual(await draw("a"));
    expect(await draw("a")).not.toEqual(await draw("b"));
  });

  it("P7 time: the activation's, never going back", async () => {
    const executor = new Executor({
      workflow: wf(async (ctx) => {
        const first = ctx.now().getTime();
        await ctx.step("a", nothing);
        return [first, ctx.now().getTime()];
      }),
    });
    await executor.activate({ time: 1000, jobs: [start()] });
    const completion = await executor.activate({ time: 900, jobs: [completed(1)] });
    expect(completion).toMatchObject({ commands: [{ type: "complete", value: text([1000, 1000]) }] });
  });

  it("X10 eviction: the only job of its activation; no code runs, no command comes", async () => {
    const ran: string[] = [];
    const host = new Host(
      wf(async (ctx) => {
        try {
          await ctx.step("a", nothing);
        } finally {
          ran.push("finally");
        }
      }),
    );
    await host.activate(start());
    expect(await host.activate({ type: "evict", reason: "cache full" })).toEqual([]);
    expect(host.last).toEqual({ status: "ok", commands: [], replies: [] });
    expect(ran).toEqual([]);
  });

  it("X10 eviction: comes after the end too", async () => {
    const host = new Host(wf(async () => "done"));
    await host.activate(start());
    expect(await host.activate({ type: "evict" })).toEqual([]);
  });

  it("X10 eviction: what is left of it stays silent", async () => {
    const host = new Host(wf((ctx) => ctx.step("a", nothing)));
    await host.activate(start());
    await host.activate({ type: "evict" });
    expect(await host.activate(completed(1))).toEqual([]);
    expect(host.executor.openOperations).toEqual([]);
  });
});

describe("hosts that match commands themselves", () => {
  it("X1 Y1 the same activations, replaying, give the same commands and log nothing", async () => {
    const lines: string[] = [];
    const write = (message: string) => void lines.push(message);
    const program = wf(async (ctx) => {
      ctx.log.info("started");
      const all = await ctx.join("all", {
        a: (ctx) => ctx.step("a", nothing),
        b: (ctx) => ctx.race("first", { x: (ctx) => ctx.sleep("1h"), y: (ctx) => ctx.waitForSignal("go") }),
      });
      return [all.b.winner, ctx.random()];
    });
    const host = new Host(program);
    await host.activate(start());
    await host.activate({ type: "signal", id: "s1", name: "go", payload: text(1) });
    await host.activate(completed(2));
    expect(host.executor.closed).toBe(true);
    const executor = new Executor({ workflow: program, logger: { debug: write, info: write, warn: write, error: write } });
    for (const activation of host.activations) await executor.activate({ ...activation, replaying: true });
    expect(lines).toEqual([]);
    await host.replayed();
  });

  it("X6 many jobs in one activation give one completion, applied in order", async () => {
    const order: string[] = [];
    const host = new Host(
      wf((ctx) =>
        ctx.join("all", {
          a: async (ctx) => {
            await ctx.step("a", nothing);
            order.push("a");
          },
          b: async (ctx) => {
            await ctx.sleep(1);
            order.push("b");
          },
          c: async (ctx) => {
            await ctx.waitForSignal("go");
            order.push("c");
          },
        }),
      ),
    );
    await host.activate(start());
    const jobs: Job[] = [{ type: "signal", id: "s1", name: "go", payload: text(1) }, { type: "fire", seq: 3 }, completed(2)];
    const commands = await host.activate(...jobs);
    expect(order).toEqual(["a", "b", "c"]);
    expect(commands.at(-1)?.type).toBe("complete");
    await host.replayed();
  });

  it("V4 a turn that fails says so in its completion, and stays the only answer", async () => {
    const executor = new Executor({
      workflow: wf(async () => {
        await new Promise(nothing);
      }),
    });
    const completion = await executor.activate({ time: 1, jobs: [start()] });
    expect(completion).toMatchObject({ status: "failed", error: { name: "ForeignAwaitError" } });
    expect(await executor.activate({ time: 2, jobs: [{ type: "cancel" }] })).toEqual(completion);
  });

  it("X6 a second activation while one is under way is refused", async () => {
    const executor = new Executor({ workflow: wf((ctx) => ctx.step("a", nothing)) });
    const first = executor.activate({ time: 1, jobs: [start()] });
    const second = await executor.activate({ time: 1, jobs: [{ type: "cancel" }] });
    expect(second).toMatchObject({ status: "failed", error: { name: "OutOfTurnError" } });
    expect(await first).toMatchObject({ status: "ok", commands: [{ type: "step" }] });
  });

  it("X6 what throws as a turn begins or ends fails it, live and in replay: it never stays open", async () => {
    const opaque = { toString: 5 } as unknown as number;
    const run = wf((ctx) => ctx.step("a", nothing));
    const broken = { status: "failed", error: { name: "TypeError" } };
    const turns = [
      { index: 0, time: 0, historyLength: 0, jobs: [start()], commands: [{ type: "step", seq: 1, unit: "", name: "a", n: 0 }] },
      { index: 1, time: 1, historyLength: 2, jobs: [completed(1)], commands: [{ type: "complete", value: text(undefined) }] },
    ] as Turn[];
    expect(await new Executor({ workflow: run }).replay(turns)).toMatchObject({ status: "ok" });
    for (const change of [{ historyLength: opaque }, { time: opaque }]) {
      expect(await new Executor({ workflow: run }).activate({ time: 0, jobs: [start()], ...change })).toMatchObject(broken);
      const changed = turns.map((turn, i) => (i === 1 ? { ...turn, ...change } : turn));
      expect(await new Executor({ workflow: run }).replay(changed)).toMatchObject(broken);
    }
  });
});
