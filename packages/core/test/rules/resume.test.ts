// Job: prove that a failed run goes on where it stopped, by hand (`resume`) or by its retry policy, without doing anything twice.
// Owns: runs that fail in each way a run can fail; the host voids the failure as D10 says.
// Invariants: D10, and what must hold across a resume: D8, P6, S1, V1, V4, Y1, Y4.
import {
  type AnyWorkflow,
  activity,
  type Command,
  FatalError,
  formatLocation,
  type Job,
  Loop,
  NondeterminismError,
  Receive,
  RollbackError,
  replay,
  replayView,
  type StoredRunRetry,
  type Turn,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";
import { drive, Harness, type HarnessOptions, historyOf } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const nothing = () => undefined;
const broken = new Error("broken");
const send = activity("send", async (_to: string) => undefined);
const ship = workflow("ship", async () => "shipped");
const wf = (run: (ctx: WorkflowContext) => Promise<unknown>): AnyWorkflow => workflow("wf", run);
const opened = (commands: readonly Command[]) =>
  commands.flatMap((one) => ("n" in one ? [`${one.type} ${formatLocation(one.unit, one.name, one.n)}`] : []));
const started = (h: Harness, name: string) => opened(h.commands).filter((one) => one.startsWith("step ") && one.endsWith(name)).length;

const isResume = (job: Job) => job.type === "resume";

/** An executor that has replayed what history holds after so many activations, made ready for a resume if that comes next. */
async function recovered(h: Harness, activations: number) {
  const turns = historyOf(h, activations);
  const next = h.transcript[activations]?.activation;
  const executor = h.createExecutor();
  let view = replayView(turns);
  if (next?.jobs.some(isResume) === true) {
    const turn: Turn = { index: turns.length, time: next.time, historyLength: next.historyLength ?? 0, jobs: next.jobs, commands: [] };
    view = replayView([...turns, turn]).slice(0, -1);
  }
  const replayed = await executor.replay(view);
  if (replayed.status === "failed") throw replayed.error;
  return executor;
}

/** Cuts the run after every activation from `first` on, resumes included, and compares what comes then with what came. */
async function crashAnywhere(h: Harness, first = 0): Promise<void> {
  const plain = (commands: unknown) => JSON.parse(JSON.stringify(commands, (key, value: unknown) => (key === "stack" ? undefined : value)));
  for (let cut = first; cut <= h.transcript.length; cut++) {
    let executor = await recovered(h, cut);
    for (const [i, { activation, completion }] of h.transcript.entries()) {
      if (i < cut || completion.status === "failed") continue;
      if (i > cut && activation.jobs.some(isResume)) executor = await recovered(h, i);
      const again = await executor.activate(activation);
      if (again.status === "failed") throw again.error;
      expect(plain(again.commands), `turn ${i} after a crash at ${cut}`).toEqual(plain(completion.commands));
    }
  }
}

describe("resume of a run that an operation failed", () => {
  it("D10 voids the failed step: it is tried again, and steps before it are not", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const a = await ctx.step("reserve", nothing);
        const b = await ctx.step("charge", nothing);
        return [a, b];
      }),
    );
    await h.resolve("reserve", 1);
    await h.fail("charge", broken);
    expect(h.status).toBe("failed");
    expect(await h.resume()).toEqual([]);
    expect(h.openLocations).toEqual(["charge"]);
    await h.resolve("charge", 2);
    expect(h.output).toEqual([1, 2]);
    expect(started(h, "reserve")).toBe(1);
    expect(started(h, "charge")).toBe(1);
    await crashAnywhere(h);
  });

  it("D10 the record of a resume names what it voids; the failure says which operations caused it", async () => {
    const h = await Harness.start(wf((ctx) => ctx.step("charge", nothing)));
    const { seq } = h.find("charge");
    await h.fail("charge", broken);
    expect(h.terminal).toMatchObject({ type: "fail", causes: [seq] });
    await h.resume();
    expect(h.turns.at(-1)?.jobs).toEqual([{ type: "resume", attempt: 2, voids: [seq] }]);
  });

  const failures: Record<string, { run: (ctx: WorkflowContext) => Promise<unknown>; where: string }> = {
    transaction: { run: (ctx) => ctx.transaction("tx", nothing), where: "tx" },
    activity: { run: (ctx) => ctx.activity(send, "x"), where: "send" },
    child: { run: (ctx) => ctx.child(ship, undefined), where: "ship" },
    "child that can't be started": { run: (ctx) => ctx.startChild(ship, undefined), where: "ship" },
    signalRun: { run: (ctx) => ctx.signalRun("other", "go"), where: "go" },
    cancelRun: { run: (ctx) => ctx.cancelRun("other"), where: "cancelRun" },
    "step in a shield": { run: (ctx) => ctx.shield((ctx) => ctx.step("s", nothing)), where: "shield/s" },
    "step in a loop": { run: (ctx) => ctx.loop("l", async (ctx) => Loop.break(await ctx.step("s", nothing))), where: "l/~0/s" },
    "step in a race": { run: (ctx) => ctx.race("r", { a: (ctx) => ctx.step("s", nothing) }), where: "r/a/s" },
    "step in a join in a join": {
      run: (ctx) => ctx.join("j", { a: (ctx) => ctx.join("k", { b: (ctx) => ctx.step("s", nothing) }) }),
      where: "j/a/k/b/s",
    },
    "step whose error was wrapped": {
      run: (ctx) =>
        ctx.step("s", nothing).catch((cause: unknown) => {
          throw new Error("while ordering", { cause });
        }),
      where: "s",
    },
    "step whose error came out of a try": {
      run: async (ctx) => {
        const result = await ctx.try("t", (ctx) => ctx.step("s", nothing));
        if (!result.ok) throw result.error;
      },
      where: "t/s",
    },
    "step whose error came out of a parallel": {
      run: async (ctx) => {
        const [result] = await ctx.parallel([(ctx) => ctx.step("s", nothing)]);
        if (result.status === "rejected") throw result.reason;
      },
      where: "parallel/~0/s",
    },
    "one of several at once": { run: (ctx) => Promise.all([ctx.step("s", nothing), ctx.sleep("1h")]), where: "s" },
  };
  for (const [what, { run, where }] of Object.entries(failures)) {
    it(`D10 tries a failed ${what} again`, async () => {
      const h = await Harness.start(wf(run));
      await h.fail(where, broken);
      await drive(h);
      expect(h.status).toBe("failed");
      await h.resume();
      expect(h.openLocations).toContain(where);
      if (h.find(where).type === "child" && what.includes("started")) {
        await h.turn({ type: "childStarted", seq: h.find(where).seq, runId: "c1" });
      } else await h.resolve(where);
      while (h.nextTimer !== undefined && h.terminal === undefined) await h.fire();
      expect(h.status).toBe("completed");
      await crashAnywhere(h);
    });
  }

  it("D10 tries every failed branch of a race again", async () => {
    const h = await Harness.start(
      wf((ctx) => ctx.race("first", { a: (ctx) => ctx.step("a", nothing), b: (ctx) => ctx.step("b", nothing) })),
    );
    await h.turn(h.failed("a", broken), h.failed("b", broken));
    await h.resume();
    expect(h.openLocations.sort()).toEqual(["first/a/a", "first/b/b"]);
    await h.resolve("b", 7);
    expect(h.output).toEqual({ winner: "b", value: 7 });
    await crashAnywhere(h);
  });

  it("D10 tries the child of a handle again whose result failed", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const handle = await ctx.startChild(ship, undefined);
        await ctx.step("meanwhile", nothing);
        return handle.result();
      }),
    );
    const { seq } = h.find("ship");
    await h.turn({ type: "childStarted", seq, runId: "c1" });
    await h.resolve("meanwhile");
    await h.turn({ type: "resolve", seq, outcome: { status: "failed", error: { name: "Error", message: "lost" } } });
    expect(h.status).toBe("failed");
    await h.resume();
    await h.turn({ type: "resolve", seq, outcome: { status: "completed", value: '"here"' } });
    expect(h.output).toBe("here");
    expect(started(h, "meanwhile")).toBe(1);
    await crashAnywhere(h);
  });

  it("D10 in a signal handler goes on in that handler", async () => {
    const h = await Harness.start(
      wf((ctx) =>
        ctx.receive(0, {
          signals: {
            add: async (_by, state, ctx) => {
              const by = await ctx.step("price", () => 0);
              await ctx.step("charge", nothing);
              return Receive.stop(state + by);
            },
          },
        }),
      ),
    );
    await h.signal("add", 1);
    await h.resolve("price", 5);
    await h.fail("charge", broken);
    expect(h.status).toBe("failed");
    await h.resume();
    await h.resolve("charge");
    expect(h.output).toEqual({ state: 5, timedOut: false });
    await crashAnywhere(h);
  });

  it("D10 in a loop that has committed goes on in that iteration", async () => {
    const h = await Harness.start(
      wf((ctx) =>
        ctx.loop({ name: "days", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (ctx, day) => {
          await ctx.step("work", nothing);
          return day === 2 ? Loop.break(day) : Loop.continue(day + 1);
        }),
      ),
    );
    await h.resolve("work");
    await h.fail("work", broken);
    await h.resume();
    expect(h.openLocations).toEqual(["days/~1/work"]);
    await h.resolve("work");
    await h.resolve("work");
    expect(h.output).toBe(2);
    await crashAnywhere(h);
  });
});

describe("what stays as it was", () => {
  const program = wf((ctx) =>
    ctx.join("all", {
      a: (ctx) => ctx.step("a", nothing),
      b: async (ctx) => [await ctx.step("b1", nothing), await ctx.step("b2", nothing), await ctx.sideEffect(() => 3)],
      c: (ctx) => ctx.waitForSignal("go"),
    }),
  );

  it("D10 siblings that survived: what they did after the failure is not done again", async () => {
    const h = await Harness.start(program);
    await h.fail("a", broken);
    await h.resolve("b1", 1);
    await h.signal("go", "signal");
    await h.resolve("b2", 2);
    expect(h.status).toBe("failed");
    await h.resume();
    expect(h.openLocations).toEqual(["all/a/a"]);
    await h.resolve("a", "at last");
    expect(h.output).toEqual({ a: "at last", b: [1, 2, 3], c: "signal" });
    expect(started(h, "b2")).toBe(1);
    await crashAnywhere(h);
  });

  it("D10 Y1 siblings are replayed, not run: no body, no side effect of theirs is called", async () => {
    const effects: string[] = [];
    const counting = wf((ctx) =>
      ctx.join("all", {
        a: (ctx) => ctx.step("a", nothing),
        b: async (ctx) => {
          await ctx.step("b", () => effects.push("body"));
          await ctx.sideEffect(() => effects.push("side effect"));
        },
      }),
    );
    const h = await Harness.start(counting);
    await h.fail("a", broken);
    await h.resolve("b");
    expect(effects).toEqual(["side effect"]);
    await h.resume();
    await h.resolve("a");
    expect(effects).toEqual(["side effect"]);
    expect(h.status).toBe("completed");
  });

  it("D10 Y4 a caught failure stays caught", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const first = await ctx.step("first", nothing).catch((error: Error) => error.name);
        const second = await ctx.step("second", nothing);
        return [first, second];
      }),
    );
    await h.fail("first", broken);
    await h.fail("second", broken);
    await h.resume();
    expect(h.openLocations).toEqual(["second"]);
    await h.resolve("second", 2);
    expect(h.output).toEqual(["StepFailedError", 2]);
    await crashAnywhere(h);
  });

  it("D10 a failure caught in the same turn in which another one ended the run stays caught", async () => {
    const h = await Harness.start(
      wf((ctx) =>
        ctx.join("all", {
          a: (ctx) => ctx.step("a", nothing).catch(() => "caught"),
          b: (ctx) => ctx.step("b", nothing),
        }),
      ),
    );
    await h.turn(h.failed("a", broken), h.failed("b", broken));
    await h.resume();
    expect(h.openLocations).toEqual(["all/b/b"]);
    await h.resolve("b", 1);
    expect(h.output).toEqual({ a: "caught", b: 1 });
    await crashAnywhere(h);
  });

  it("D10 a timer that has fired does not run again", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.sleep("1d");
        await ctx.step("charge", nothing);
      }),
    );
    await h.fire();
    await h.fail("charge", broken);
    await h.resume();
    expect(h.timers.size).toBe(0);
    await h.resolve("charge");
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("D10 M2 signals that no code had consumed are still there", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("charge", nothing);
        return ctx.waitForSignal("go");
      }),
    );
    await h.signal("go", "kept");
    await h.fail("charge", broken);
    await h.resume();
    await h.resolve("charge");
    expect(h.output).toBe("kept");
    await crashAnywhere(h);
  });

  it("D10 the attempt of the run counts up, for code after the resume", async () => {
    const attempts: number[] = [];
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("charge", nothing);
        attempts.push(ctx.run.attempt);
      }),
    );
    await h.fail("charge", broken);
    await h.resume();
    await h.fail("charge", broken);
    await h.resume();
    await h.resolve("charge");
    expect(attempts).toEqual([3]);
    await crashAnywhere(h);
  });
});

describe("what the failure had set going", () => {
  const program = wf(async (ctx) => {
    try {
      return await ctx.step("charge", nothing);
    } finally {
      await ctx.step("cleanup", nothing);
    }
  });

  it("D10 a cleanup that completed is used again, not run again", async () => {
    const h = await Harness.start(program);
    await h.fail("charge", broken);
    await h.resolve("cleanup");
    expect(h.status).toBe("failed");
    await h.resume();
    expect(h.openLocations).toEqual(["charge"]);
    const commands = await h.resolve("charge", "paid");
    expect(commands.map((one) => one.type)).toEqual(["reuse", "complete"]);
    expect(commands[0]).toMatchObject({ kind: "step", name: "cleanup", n: 0, unit: "" });
    expect(h.output).toBe("paid");
    await crashAnywhere(h);
  });

  it("D10 what it returned is what it returned", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        let left: unknown;
        try {
          await ctx.step("charge", nothing);
        } finally {
          left = await ctx.step("cleanup", nothing);
        }
        return left;
      }),
    );
    await h.fail("charge", broken);
    await h.resolve("cleanup", 42);
    await h.resume();
    await h.resolve("charge");
    expect(h.output).toBe(42);
    await crashAnywhere(h);
  });

  it("D10 a chain of cleanups, sleeps and activities among them, is used again in order", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        try {
          await ctx.step("charge", nothing);
        } finally {
          await ctx.step("one", nothing);
          await ctx.sleep("1h");
          await ctx.activity(send, "x");
        }
        return "done";
      }),
    );
    await h.fail("charge", broken);
    await h.resolve("one");
    await h.fire();
    await h.resolve("send");
    await h.resume();
    const commands = await h.resolve("charge");
    expect(opened(commands)).toEqual(["reuse one", "reuse sleep", "reuse send"]);
    expect(h.output).toBe("done");
    await crashAnywhere(h);
  });

  it("D10 a race that was decided is decided as it was", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        let winner: string | undefined;
        try {
          await ctx.step("charge", nothing);
        } finally {
          const first = await ctx.race("short", { cleanup: (ctx) => ctx.step("cleanup", nothing), time: (ctx) => ctx.sleep("1s") });
          winner = first.winner;
        }
        return winner;
      }),
    );
    await h.fail("charge", broken);
    await h.fire();
    expect(h.status).toBe("failed");
    await h.resume();
    await h.resolve("charge");
    expect(h.output).toBe("time");
    expect(h.openLocations).toEqual([]);
    await crashAnywhere(h);
  });

  it("D10 D6 a cleanup that failed and was caught stays so: it has an outcome, and does not run again", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        let cleanup: unknown;
        try {
          await ctx.step("charge", nothing);
        } finally {
          cleanup = await ctx.step("cleanup", nothing).catch((error: Error) => error.name);
        }
        return cleanup;
      }),
    );
    await h.fail("charge", broken);
    await h.fail("cleanup", new Error("dirty"));
    await h.resume();
    expect(opened(await h.resolve("charge"))).toEqual(["reuse cleanup"]);
    expect(h.output).toBe("StepFailedError");
    await crashAnywhere(h);
  });

  it("D10 an operation that is called differently than before runs again", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        let paid = "no";
        try {
          paid = await ctx.step("charge", () => "");
        } finally {
          await ctx.activity(send, paid);
        }
      }),
    );
    await h.fail("charge", broken);
    await h.resolve("send");
    await h.resume();
    const commands = await h.resolve("charge", "yes");
    expect(commands).toMatchObject([{ type: "activity", name: "send", input: '"yes"' }]);
    await h.resolve("send");
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("D10 operations that code no longer reaches are left alone", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        try {
          await ctx.step("charge", nothing);
        } catch (error) {
          await ctx.step("alarm", nothing);
          throw error;
        }
        await ctx.step("ship", nothing);
      }),
    );
    await h.fail("charge", broken);
    await h.resolve("alarm");
    await h.resume();
    expect(opened(await h.resolve("charge"))).toEqual(["step ship"]);
    await h.resolve("ship");
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("D10 no number is given out twice: what is new and what is used again can run beside each other", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        let extra: Promise<unknown> | undefined;
        try {
          await ctx.step("charge", nothing);
          extra = ctx.step("extra", nothing);
        } finally {
          await ctx.step("cleanup", nothing);
        }
        return extra;
      }),
    );
    await h.fail("charge", broken);
    await h.resolve("cleanup", "clean");
    await h.resume();
    const commands = await h.resolve("charge");
    expect(opened(commands)).toEqual(["step extra", "reuse cleanup"]);
    const [extra, cleanup] = commands.map((one) => ("seq" in one ? one.seq : 0));
    expect(extra).not.toBe(cleanup);
    await h.resolve("extra", "more");
    expect(h.output).toBe("more");
    await crashAnywhere(h);
  });

  it("D10 a child that the cleanup had started is not started again", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        try {
          await ctx.step("charge", nothing);
        } finally {
          const handle = await ctx.startChild(ship, undefined, { id: "c1" });
          ctx.publishState(handle.id);
        }
        return "done";
      }),
    );
    await h.fail("charge", broken);
    const { seq } = h.find("ship");
    await h.turn({ type: "childStarted", seq, runId: "c1" });
    expect(h.status).toBe("failed");
    await h.resume();
    const commands = await h.resolve("charge");
    expect(opened(commands)).toEqual(["reuse ship"]);
    expect(h.state).toBe("c1");
    expect(h.output).toBe("done");
    await crashAnywhere(h);
  });

  it("D10 P6 a side effect of the cleanup keeps its value: its function does not run again", async () => {
    let calls = 0;
    const h = await Harness.start(
      wf(async (ctx) => {
        let id: unknown;
        try {
          await ctx.step("charge", nothing);
        } finally {
          id = await ctx.sideEffect(() => ++calls);
          await ctx.step("cleanup", nothing);
        }
        return id;
      }),
    );
    await h.fail("charge", broken);
    await h.resolve("cleanup");
    await h.resume();
    await h.resolve("charge");
    expect(calls).toBe(1);
    expect(h.output).toBe(1);
    await crashAnywhere(h, 2);
  });

  it("D10 a failing cleanup is what failed the run: it goes first, then what it hid", async () => {
    const h = await Harness.start(program);
    await h.fail("charge", broken);
    await h.fail("cleanup", new Error("dirty"));
    expect(h.error?.cause).toMatchObject({ message: "dirty" });
    await h.resume();
    expect(h.openLocations).toEqual(["cleanup"]);
    await h.resolve("cleanup");
    expect(h.error?.cause).toMatchObject({ message: "broken" });
    await h.resume();
    expect(h.openLocations).toEqual(["charge"]);
    const commands = await h.resolve("charge", "paid");
    expect(opened(commands)).toEqual(["reuse cleanup"]);
    expect(h.output).toBe("paid");
    await crashAnywhere(h);
  });

  it("D10 S1 a cleanup that is used again is rolled back with the rest", async () => {
    const undone: string[] = [];
    const h = await Harness.start(
      wf(async (ctx) => {
        try {
          await ctx.step("charge", nothing);
        } finally {
          await ctx.step("cleanup", nothing, { rollback: () => void undone.push("cleanup") });
        }
        throw new Error("after all");
      }),
      undefined,
      { retry: { maxAttempts: 2, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 } },
    );
    await h.fail("charge", broken);
    await h.resolve("cleanup", "c");
    expect(h.terminal).toMatchObject({ type: "fail", retryAfter: 1 });
    await h.resume();
    await h.resolve("charge");
    expect(h.openLocations).toEqual(["~rollback/cleanup"]);
    await drive(h);
    expect(undone).toEqual(["cleanup"]);
    expect(h.terminal).toMatchObject({ type: "fail", rolledBack: true });
    await crashAnywhere(h);
  });
});

describe("resume of a run that failed by itself", () => {
  const buggy = wf(async (ctx) => {
    const total = await ctx.step("count", () => 0);
    if (total > 1) throw new Error("a bug");
    return ctx.step("ship", nothing);
  });
  const fixed = wf(async (ctx) => {
    await ctx.step("count", () => 0);
    return ctx.step("ship", nothing);
  });

  it("D10 goes on with other code from the point where it threw", async () => {
    const h = await Harness.start(buggy);
    await h.resolve("count", 2);
    expect(h.terminal).toMatchObject({ type: "fail" });
    expect(h.terminal).not.toHaveProperty("causes");
    const commands = await h.resume(fixed);
    expect(opened(commands)).toEqual(["step ship"]);
    await h.resolve("ship", "shipped");
    expect(h.output).toBe("shipped");
    expect(started(h, "count")).toBe(1);
    await replay(fixed, h.history());
    await crashAnywhere(h, 3);
  });

  it("D10 with the same code fails again, in the turn of the resume", async () => {
    const h = await Harness.start(buggy);
    await h.resolve("count", 2);
    const commands = await h.resume();
    expect(commands.map((one) => one.type)).toEqual(["fail"]);
    expect(h.error?.message).toBe("a bug");
    await replay(buggy, h.history());
    await crashAnywhere(h);
  });

  it("D10 twice: the first does not help, the second with code that helps", async () => {
    const h = await Harness.start(buggy);
    await h.resolve("count", 2);
    await h.resume();
    expect(opened(await h.resume(fixed))).toEqual(["step ship"]);
    await h.recover();
    await h.resolve("ship", "shipped");
    expect(h.output).toBe("shipped");
    await replay(fixed, h.history());
  });

  it("D10 by itself first, by a step then", async () => {
    const h = await Harness.start(buggy);
    await h.resolve("count", 2);
    await h.resume(fixed);
    await h.fail("ship", broken);
    expect(h.status).toBe("failed");
    await h.resume(fixed);
    expect(h.openLocations).toEqual(["ship"]);
    await h.resolve("ship", "shipped");
    expect(h.output).toBe("shipped");
    await replay(fixed, h.history());
  });

  it("D10 in the very first turn", async () => {
    const h = await Harness.start(
      wf(async () => {
        throw new Error("a bug");
      }),
    );
    expect(h.status).toBe("failed");
    const better = wf((ctx) => ctx.step("work", nothing));
    expect(opened(await h.resume(better))).toEqual(["step work"]);
    await h.resolve("work", 1);
    expect(h.output).toBe(1);
    await replay(better, h.history());
    await crashAnywhere(h, 2);
  });

  it("D10 with code that returns at once completes in the turn of the resume", async () => {
    const h = await Harness.start(
      wf(async () => {
        throw new Error("a bug");
      }),
    );
    const better = wf(async () => "fine");
    expect((await h.resume(better)).map((one) => one.type)).toEqual(["complete"]);
    expect(h.output).toBe("fine");
    await replay(better, h.history());
  });

  it("D10 V1 the point where it threw is past its last record: patched is true there", async () => {
    const patched = wf(async (ctx) => {
      const total = await ctx.step("count", () => 0);
      if (!ctx.patched("fix")) throw new Error("a bug");
      return ctx.step("ship", () => total);
    });
    const h = await Harness.start(buggy);
    await h.resolve("count", 2);
    expect(opened(await h.resume(patched))).toEqual(["patch fix", "step ship"]);
    await h.recover();
    await h.resolve("ship", "shipped");
    expect(h.output).toBe("shipped");
    await replay(patched, h.history());
  });

  it("D10 P6 a side effect at that point is run then, once", async () => {
    let calls = 0;
    const better = wf(async (ctx) => {
      await ctx.step("count", () => 0);
      const value = await ctx.sideEffect(() => ++calls);
      await ctx.step("ship", nothing);
      return value;
    });
    const h = await Harness.start(buggy);
    await h.resolve("count", 2);
    expect(opened(await h.resume(better))).toEqual(["sideEffect sideEffect", "step ship"]);
    await h.recover();
    await h.resolve("ship");
    expect(h.output).toBe(1);
    expect(calls).toBe(1);
    await replay(better, h.history());
    expect(calls).toBe(1);
  });

  it("D10 P5 state that is published at that point is published with the turn of the resume", async () => {
    const better = wf(async (ctx) => {
      await ctx.step("count", () => 0);
      ctx.publishState("fixed");
      await ctx.step("ship", nothing);
    });
    const h = await Harness.start(buggy);
    await h.resolve("count", 2);
    await h.resume(better);
    expect(h.state).toBe("fixed");
  });

  it("D10 code at that point sees the new attempt", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("count", () => 0);
        if (ctx.run.attempt < 3) throw new Error(`attempt ${ctx.run.attempt}`);
        return ctx.run.attempt;
      }),
    );
    await h.resolve("count");
    await h.resume();
    expect(h.error?.message).toBe("attempt 2");
    await h.resume();
    expect(h.output).toBe(3);
    await crashAnywhere(h);
  });

  it("D10 a cleanup that was used again once is not run again by a second resume", async () => {
    const program = (bug: boolean) =>
      wf(async (ctx) => {
        try {
          await ctx.step("charge", nothing);
        } finally {
          await ctx.step("cleanup", nothing);
        }
        if (bug) throw new Error("a bug");
        return "done";
      });
    const h = await Harness.start(program(true));
    await h.fail("charge", broken);
    await h.resolve("cleanup");
    await h.resume();
    await h.resolve("charge");
    expect(h.error?.message).toBe("a bug");
    await h.resume(program(false));
    expect(h.output).toBe("done");
    expect(started(h, "cleanup")).toBe(1);
    await replay(program(false), h.history());
  });

  it("D10 V1 once it has been resumed without the patch, that answer stands", async () => {
    const patched = wf(async (ctx) => {
      await ctx.step("count", () => 0);
      if (ctx.patched("later")) await ctx.step("wrap", nothing);
      return ctx.step("ship", nothing);
    });
    const h = await Harness.start(buggy);
    await h.resolve("count", 2);
    await h.resume(fixed);
    await h.recover(patched);
    await h.resolve("ship", "shipped");
    expect(h.output).toBe("shipped");
    await replay(patched, h.history());
  });

  it("D10 V4 code that differs before that point is nondeterminism, not progress", async () => {
    const h = await Harness.start(buggy);
    await h.resolve("count", 2);
    const other = wf(async (ctx) => {
      await ctx.step("measure", () => 0);
      return ctx.step("ship", nothing);
    });
    const length = h.turns.length;
    await expect(h.resume(other)).rejects.toThrow(NondeterminismError);
    expect(h.turns).toHaveLength(length);
  });

  it("D10 an error without a cause that hides a failed step is the workflow's own", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("charge", nothing).catch(() => {
          throw new Error("something went wrong");
        });
      }),
    );
    await h.fail("charge", broken);
    expect(h.terminal).not.toHaveProperty("causes");
  });
});

describe("operations that were outstanding beside the one that failed", () => {
  for (const [when, fail] of Object.entries({
    "in the same turn": (h: Harness) => h.turn(h.failed("a", broken), h.failed("b", new Error("too"))),
    "one after the other": async (h: Harness) => {
      await h.fail("a", broken);
      expect(h.status).toBe("sleeping");
      await h.fail("b", new Error("too"));
    },
  })) {
    it(`D10 of two that fail ${when} each is tried again when it was the cause`, async () => {
      const h = await Harness.start(wf((ctx) => Promise.all([ctx.step("a", nothing), ctx.step("b", nothing)])));
      await fail(h);
      expect(h.error?.cause).toMatchObject({ message: "broken" });
      await h.resume();
      expect(h.openLocations).toEqual(["a"]);
      await h.resolve("a", 1);
      expect(h.error?.cause).toMatchObject({ message: "too" });
      await h.resume();
      expect(h.openLocations).toEqual(["b"]);
      await h.resolve("b", 2);
      expect(h.output).toEqual([1, 2]);
      await crashAnywhere(h);
    });
  }

  it("D10 P3 one that completed while the run was ending is delivered, and not run again", async () => {
    const h = await Harness.start(wf((ctx) => Promise.all([ctx.step("a", nothing), ctx.step("b", nothing)])));
    await h.fail("a", broken);
    await h.resolve("b", 2);
    expect(h.status).toBe("failed");
    await h.resume();
    expect(h.openLocations).toEqual(["a"]);
    await h.resolve("a", 1);
    expect(h.output).toEqual([1, 2]);
    await crashAnywhere(h);
  });

  it("D10 where the other one suffices, the run goes on with that", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const first = await Promise.race([ctx.step("a", nothing), ctx.step("b", nothing)]);
        ctx.publishState(first);
        return [first, await ctx.sideEffect(() => "effect"), await ctx.step("c", nothing)];
      }),
    );
    await h.fail("a", broken);
    await h.resolve("b", "from b");
    expect(h.status).toBe("failed");
    expect(opened(await h.resume())).toEqual(["sideEffect sideEffect", "step c"]);
    expect(h.state).toBe("from b");
    await h.recover();
    await h.resolve("c", 3);
    await h.resolve("a", "late");
    expect(h.output).toEqual(["from b", "effect", 3]);
    await crashAnywhere(h);
  });

  it("D10 K8 a timer that the failure had cancelled is due at its original time", async () => {
    const h = await Harness.start(wf((ctx) => Promise.all([ctx.step("a", nothing), ctx.sleep("1h")])));
    const due = h.time + 3_600_000;
    h.time += 60_000;
    await h.fail("a", broken);
    await h.resume();
    await h.resolve("a", 1);
    await h.fire();
    expect(h.time).toBe(due);
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("D10 V4 a sibling whose code was changed meanwhile is nondeterminism", async () => {
    const program = (second: string) =>
      wf((ctx) =>
        ctx.join("all", {
          a: (ctx) => ctx.step("a", nothing),
          b: async (ctx) => {
            await ctx.step("b1", nothing);
            await ctx.step(second, nothing);
          },
        }),
      );
    const h = await Harness.start(program("b2"));
    await h.fail("a", broken);
    await h.resolve("b1");
    await h.resolve("b2");
    expect(h.status).toBe("failed");
    await expect(h.resume(program("other"))).rejects.toMatchObject({ name: "NondeterminismError", location: "all/b/b2" });
  });
});

describe("resume of a run whose failed step is behind changed code", () => {
  it("D10 V4 the failed step must still be there", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing);
        await ctx.step("charge", nothing);
      }),
    );
    await h.resolve("reserve");
    await h.fail("charge", broken);
    const other = wf(async (ctx) => {
      await ctx.step("reserve", nothing);
      await ctx.step("pay", nothing);
    });
    await expect(h.resume(other)).rejects.toThrow(NondeterminismError);
  });

  it("D10 what comes after it may be other code", async () => {
    const program = (last: string) =>
      wf(async (ctx) => {
        await ctx.step("charge", nothing);
        await ctx.step(last, nothing);
      });
    const h = await Harness.start(program("ship"));
    await h.fail("charge", broken);
    await h.resume(program("fly"));
    expect(opened(await h.resolve("charge"))).toEqual(["step fly"]);
    await replay(program("fly"), h.history());
  });
});

describe("again and again", () => {
  it("D10 a step that fails after each resume is tried again after each", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing);
        return ctx.step("charge", nothing);
      }),
    );
    await h.resolve("reserve");
    for (let i = 0; i < 3; i++) {
      await h.fail("charge", new Error(`attempt ${i}`));
      expect(h.error?.cause).toMatchObject({ message: `attempt ${i}` });
      await h.recover();
      await h.resume();
    }
    await h.resolve("charge", "paid");
    expect(h.output).toBe("paid");
    expect(started(h, "charge")).toBe(1);
    await crashAnywhere(h);
    await replay(h.workflow, JSON.parse(JSON.stringify(h.history())));
  });

  it("D10 different steps fail after one another, some inside a join", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const all = await ctx.join("all", { a: (ctx) => ctx.step("a", nothing), b: (ctx) => ctx.step("b", nothing) });
        return [all.a, all.b, await ctx.step("c", nothing)];
      }),
    );
    await h.fail("a", broken);
    await h.resolve("b", 2);
    await h.resume();
    await h.resolve("a", 1);
    await h.fail("c", broken);
    await h.resume();
    expect(h.openLocations).toEqual(["c"]);
    await h.resolve("c", 3);
    expect(h.output).toEqual([1, 2, 3]);
    await crashAnywhere(h);
  });

  it("D10 a crash right after the resume loses nothing", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        try {
          await ctx.step("charge", nothing);
        } finally {
          await ctx.step("cleanup", nothing);
        }
        return "done";
      }),
    );
    await h.fail("charge", broken);
    await h.resolve("cleanup");
    await h.resume();
    await h.recover();
    expect(h.executor.waitingFor).toEqual(["step charge"]);
    expect(h.executor.body(h.find("charge").seq)?.name).toBe("charge");
    await h.resolve("charge");
    await h.recover();
    expect(h.output).toBe("done");
    await crashAnywhere(h);
  });

  it("D10 a portable history with a resume in it replays", async () => {
    const program = wf(async (ctx) => {
      try {
        await ctx.step("charge", nothing);
      } finally {
        await ctx.step("cleanup", nothing);
      }
    });
    const h = await Harness.start(program);
    await h.fail("charge", broken);
    await h.resolve("cleanup");
    await h.resume();
    await h.resolve("charge");
    await replay(program, JSON.parse(JSON.stringify(h.history())));
  });

  it("D10 K1 a resumed run can be cancelled", async () => {
    const h = await Harness.start(wf((ctx) => ctx.step("charge", nothing)));
    await h.fail("charge", broken);
    await h.resume();
    await h.cancel();
    expect(h.status).toBe("canceled");
    expect(h.openLocations).toEqual([]);
    await crashAnywhere(h);
  });
});

describe("refusal", () => {
  it("D10 S1 once rollbacks have run the failure says so, and resume is refused", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, { rollback: nothing });
        await ctx.step("charge", nothing);
      }),
    );
    await h.resolve("reserve");
    await h.fail("charge", broken);
    await h.resolve("~rollback/reserve");
    expect(h.terminal).toMatchObject({ type: "fail", rolledBack: true });
    await expect(h.resume()).rejects.toThrow("rollbacks");
  });
});

describe("retry of the run as a whole", () => {
  const retry: StoredRunRetry = { maxAttempts: 3, initialInterval: 1000, backoff: 2, maxInterval: 60_000, jitter: 0 };
  const start = (run: (ctx: WorkflowContext) => Promise<unknown>, more: Partial<StoredRunRetry> = {}, options: HarnessOptions = {}) =>
    Harness.start(wf(run), undefined, { ...options, retry: { ...retry, ...more } });

  it("D10 a failure asks to be tried again after a wait, as often as the policy says", async () => {
    const h = await start((ctx) => ctx.step("charge", nothing));
    await h.fail("charge", broken);
    expect(h.terminal).toMatchObject({ type: "fail", retryAfter: 1000 });
    await h.resume();
    await h.fail("charge", broken);
    expect(h.terminal).toMatchObject({ type: "fail", retryAfter: 2000 });
    await h.resume();
    await h.fail("charge", broken);
    expect(h.terminal).not.toHaveProperty("retryAfter");
    await crashAnywhere(h);
  });

  it("D10 the wait has the jitter of the policy, and it is the same in replay", async () => {
    const h = await start((ctx) => ctx.step("charge", nothing), { jitter: 1 });
    await h.fail("charge", broken);
    const { retryAfter } = h.terminal as { retryAfter: number };
    expect(retryAfter).toBeGreaterThanOrEqual(0);
    expect(retryAfter).toBeLessThanOrEqual(1000);
    await crashAnywhere(h);
  });

  it("D10 a workflow that throws by itself is tried again too", async () => {
    const h = await start(async () => {
      throw new Error("by itself");
    });
    expect(h.terminal).toMatchObject({ type: "fail", retryAfter: 1000 });
  });

  it("D10 a workflow that throws by itself each time has failed for good after its attempts", async () => {
    const h = await start(async () => {
      throw new Error("by itself");
    });
    await h.resume();
    expect(h.terminal).toMatchObject({ type: "fail", retryAfter: 2000 });
    await h.resume();
    expect(h.terminal).toMatchObject({ type: "fail" });
    expect(h.terminal).not.toHaveProperty("retryAfter");
    await crashAnywhere(h);
  });

  it("D8 D10 a race is over for good only if no branch may be tried again", async () => {
    const run = (ctx: WorkflowContext) => ctx.race("first", { a: (ctx) => ctx.step("a", nothing), b: (ctx) => ctx.step("b", nothing) });
    const one = await start(run);
    await one.turn(one.failed("a", new FatalError("no use")), one.failed("b", broken));
    expect(one.terminal).toMatchObject({ type: "fail", retryAfter: 1000 });
    const both = await start(run);
    await both.turn(both.failed("a", new FatalError("no use")), both.failed("b", new FatalError("no use")));
    expect(both.terminal).not.toHaveProperty("retryAfter");
  });

  it("D10 S1 rollbacks wait until the run has failed for good", async () => {
    const h = await start(
      async (ctx) => {
        await ctx.step("reserve", nothing, { rollback: nothing });
        await ctx.step("charge", nothing);
      },
      { maxAttempts: 2 },
    );
    await h.resolve("reserve");
    await h.fail("charge", broken);
    expect(h.terminal).toMatchObject({ type: "fail", retryAfter: 1000 });
    expect(h.openLocations).toEqual([]);
    await h.resume();
    await h.fail("charge", broken);
    expect(h.openLocations).toEqual(["~rollback/reserve"]);
    await h.resolve("~rollback/reserve");
    expect(h.terminal).toMatchObject({ type: "fail", rolledBack: true });
    expect(h.terminal).not.toHaveProperty("retryAfter");
    await crashAnywhere(h);
  });

  const final: Record<string, (ctx: WorkflowContext) => Promise<unknown>> = {
    "a FatalError of the workflow": async () => {
      throw new FatalError("no use");
    },
    "a RollbackError of the workflow": async () => {
      throw new RollbackError("undo it");
    },
    "a FatalError as the cause of another error": async () => {
      throw new Error("outer", { cause: new FatalError("no use") });
    },
  };
  for (const [what, run] of Object.entries(final)) {
    it(`D8 D10 ${what} ends the run at once`, async () => {
      const h = await start(run);
      expect(h.status).toBe("failed");
      expect(h.terminal).not.toHaveProperty("retryAfter");
    });
  }
  for (const error of [new FatalError("no use"), new RollbackError("undo it")]) {
    it(`D8 D10 a ${error.name} of a step ends the run at once`, async () => {
      const h = await start((ctx) => ctx.step("charge", nothing));
      await h.fail("charge", error);
      expect(h.terminal).not.toHaveProperty("retryAfter");
    });
    it(`D8 D10 a ${error.name} of a step in a join ends the run at once`, async () => {
      const h = await start((ctx) => ctx.join("all", { a: (ctx) => ctx.step("charge", nothing) }));
      await h.fail("charge", error);
      expect(h.terminal).not.toHaveProperty("retryAfter");
    });
  }

  it("D8 D10 errors that the policy names are not retried, by themselves or as the cause of a step's failure", async () => {
    class PaymentRefused extends Error {
      override readonly name = "PaymentRefused";
    }
    const own = await start(
      async () => {
        throw new PaymentRefused("no");
      },
      { nonRetryable: ["PaymentRefused"] },
    );
    expect(own.terminal).not.toHaveProperty("retryAfter");
    const step = await start((ctx) => ctx.step("charge", nothing), { nonRetryable: ["PaymentRefused"] });
    await step.fail("charge", new PaymentRefused("no"));
    expect(step.terminal).not.toHaveProperty("retryAfter");
  });

  it("D10 a resume by hand counts as an attempt of the run", async () => {
    const h = await start((ctx) => ctx.step("charge", nothing), { maxAttempts: 2 });
    await h.fail("charge", broken);
    await h.resume();
    await h.fail("charge", broken);
    expect(h.terminal).not.toHaveProperty("retryAfter");
  });

  it("D10 K3 a canceled run is not tried again", async () => {
    const h = await start((ctx) => ctx.sleep("1h"));
    await h.cancel();
    expect(h.terminal).toEqual({ type: "canceled" });
  });
});

describe("a cancel that comes while the run waits for its next attempt", () => {
  const retry: StoredRunRetry = { maxAttempts: 3, initialInterval: 1_000, backoff: 1, maxInterval: 1_000, jitter: 0 };
  const cancel: Job = { type: "cancel", reason: "enough" };
  const bug = () => {
    throw new Error("a bug");
  };
  let calls = 0;
  const failing: Record<string, { run: (ctx: WorkflowContext) => Promise<unknown>; fail: (h: Harness) => Promise<unknown> }> = {
    "the workflow threw at once": { run: async () => bug(), fail: async () => {} },
    "the workflow threw after a step": {
      run: async (ctx) => {
        await ctx.step("ok", nothing);
        calls++;
        bug();
      },
      fail: (h) => h.resolve("ok"),
    },
    "a step failed": {
      run: async (ctx) => {
        await ctx.step("charge", nothing);
        calls++;
      },
      fail: (h) => h.fail("charge", broken),
    },
  };
  for (const [how, { run, fail }] of Object.entries(failing)) {
    it(`K1 K3 D10 ends it as canceled where ${how}`, async () => {
      calls = 0;
      const h = await Harness.start(wf(run), undefined, { retry });
      await fail(h);
      expect(h.terminal).toMatchObject({ type: "fail", retryAfter: 1_000 });
      const before = calls;
      const commands = await h.resume(h.workflow, cancel);
      expect(opened(commands)).toEqual([]);
      expect(h.terminal).toMatchObject({ type: "canceled", reason: "enough" });
      expect(calls - before).toBe(how === "the workflow threw after a step" ? 1 : 0); // the replay's own
      await replay(h.workflow, h.history());
      await crashAnywhere(h);
    });
  }

  it("S3 D10 undoes what was done, if the workflow asks for it", async () => {
    const saga = workflow({ name: "wf", rollbackOnCancel: true }, async (ctx) => {
      await ctx.step("charge", nothing, { rollback: nothing });
      throw new Error("a bug");
    });
    const h = await Harness.start(saga, undefined, { retry });
    await h.resolve("charge");
    expect(opened(await h.resume(saga, cancel))).toEqual(["rollback ~rollback/charge"]);
    await h.resolve("~rollback/charge");
    expect(h.terminal).toMatchObject({ type: "canceled", reason: "enough" });
    await replay(saga, h.history());
    await crashAnywhere(h);
  });

  it("K1 D10 reaches code that was fixed meanwhile, where it goes on", async () => {
    const h = await Harness.start(wf(async () => bug()), undefined, { retry }); // biome-ignore format: one line
    let caught: unknown;
    const fixed = wf(async (ctx) => {
      await ctx.step("charge", nothing).catch((error: unknown) => {
        caught = error;
        throw error;
      });
    });
    await h.resume(fixed, cancel);
    expect(caught).toMatchObject({ name: "CanceledError" });
    expect(h.terminal).toMatchObject({ type: "canceled", reason: "enough" });
    await replay(fixed, h.history());
  });
});
