// Job: prove how a workflow runs and ends: one function, nothing concurrent unasked, units that are joined, what it publishes.
// Owns: the workflows in it. Time and randomness are in deterministic-values.test.ts, values and limits in values.test.ts and limits.test.ts.
// Invariants: P1 to P6.
import { type AnyWorkflow, type Command, Loop, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const types = (commands: readonly Command[]) => commands.map((command) => command.type);

describe("P1 one function", () => {
  it("P1 a workflow is read top to bottom and completes with what it returns", async () => {
    const order = workflow("order", async (ctx, input: { amount: number }) => {
      const charged = await ctx.step("charge", () => input.amount);
      return `charged ${charged}`;
    });
    const h = await Harness.start(order, { amount: 7 });
    expect(h.status).toBe("sleeping");

    await h.resolve("charge", 7);

    expect(h.status).toBe("completed");
    expect(h.output).toBe("charged 7");
    await crashAnywhere(h);
  });

  it("P1 an error that no code catches fails the execution", async () => {
    const wf = workflow("fails", async () => {
      throw new TypeError("no stock");
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("failed");
    expect(h.error).toMatchObject({ name: "TypeError", message: "no stock" });
  });

  it.each<[string, AnyWorkflow]>([
    ["completed", workflow("completed", async () => 1)],
    ["failed", workflow("failed", async () => Promise.reject(new Error("no")))],
    ["continued", workflow("continued", async (ctx) => ctx.continueAsNew(undefined))],
  ])("P1 an execution ends in exactly one way: %s", async (status, wf) => {
    const h = await Harness.start(wf);
    expect(h.status).toBe(status);
    expect(h.executor.closed).toBe(true);

    const after = await h.turn(h.signalJob("late"), { type: "cancel" });

    expect(after).toEqual([]);
    expect(h.status).toBe(status);
  });

  it("P1 a canceled execution ends once too", async () => {
    const h = await Harness.start(workflow("naps", async (ctx) => ctx.sleep("1h")));
    await h.cancel("enough");
    expect(h.status).toBe("canceled");
    expect(await h.cancel("again")).toEqual([]);
    expect(h.commands.filter((command) => command.type === "canceled")).toHaveLength(1);
    await crashAnywhere(h);
  });
});

describe("P2 nothing is concurrent unless the code says so", () => {
  it("P2 an operation starts only when the one before it has ended", async () => {
    const wf = workflow("two", async (ctx) => {
      await ctx.step("first", () => 1);
      await ctx.step("second", () => 2);
    });
    const h = await Harness.start(wf);
    expect(h.openLocations).toEqual(["first"]);
    await h.resolve("first");
    expect(h.openLocations).toEqual(["second"]);
  });

  it("P2 operations that are started before the first is awaited run together", async () => {
    const wf = workflow("both", async (ctx) => Promise.all([ctx.step("first", () => 1), ctx.step("second", () => 2)]));
    const h = await Harness.start(wf);
    expect(h.openLocations).toEqual(["first", "second"]);
    await h.resolve("second", 2);
    await h.resolve("first", 1);
    expect(h.output).toEqual([1, 2]);
    await crashAnywhere(h);
  });

  it("P2 messages are not handled while the code does something else", async () => {
    const seen: string[] = [];
    const wf = workflow("busy", async (ctx) => {
      await ctx.step("work", () => 0);
      await ctx.receive(0, {
        signals: {
          hello: () => {
            seen.push("hello");
            return Receive.stop(0);
          },
        },
      });
    });
    const h = await Harness.start(wf);
    await h.signal("hello");
    expect(seen).toEqual([]);
    await h.resolve("work");
    expect(seen).toEqual(["hello"]);
  });
});

describe("P3 units are joined", () => {
  it("P3 a root that returned is not over while its own step is outstanding", async () => {
    const wf = workflow("hasty", async (ctx) => {
      void ctx.step("slow", () => 1);
      return "done";
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("sleeping");

    await h.resolve("slow", 1);

    expect(h.status).toBe("completed");
    expect(h.output).toBe("done");
    await crashAnywhere(h);
  });

  it("P3 the outcome of a joined step is recorded but not delivered: its failure changes nothing", async () => {
    const delivered: unknown[] = [];
    const wf = workflow("hasty", async (ctx) => {
      ctx.step("slow", () => 1).catch((error: unknown) => delivered.push(error));
      return "done";
    });
    const h = await Harness.start(wf);
    await h.fail("slow", new Error("too late"));
    expect(h.status).toBe("completed");
    expect(h.output).toBe("done");
    expect(delivered).toEqual([]);
    expect(h.turns.flatMap((turn) => turn.jobs)).toContainEqual(expect.objectContaining({ type: "resolve" }));
    await crashAnywhere(h);
  });

  it("P3 activities and child calls are joined like steps", async () => {
    const mail = { name: "mail", options: {}, run: async () => undefined };
    const kid = workflow("kid", async () => 1);
    const wf = workflow("hasty", async (ctx) => {
      void ctx.activity(mail, "hello");
      void ctx.child(kid, undefined);
      return "done";
    });
    const h = await Harness.start(wf);
    await h.resolve("mail");
    expect(h.status).toBe("sleeping");
    await h.fail("kid", new Error("ignored"));
    expect(h.output).toBe("done");
    await crashAnywhere(h);
  });

  it("P3 a unit that throws with a step outstanding is joined too, then fails", async () => {
    const wf = workflow("throws", async (ctx) => {
      void ctx.step("slow", () => 1);
      throw new Error("gave up");
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("sleeping");
    await h.resolve("slow");
    expect(h.error?.message).toBe("gave up");
    await crashAnywhere(h);
  });

  it("P3 timers and waits that are outstanding are cancelled", async () => {
    const wf = workflow("hasty", async (ctx) => {
      void ctx.sleep("nap", "1h");
      void ctx.waitForSignal("a");
      void ctx.condition(() => false, "1h");
      return "done";
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("completed");
    expect(h.timers.size).toBe(0);
    expect(types(h.commands)).toEqual(["sleep", "signal", "condition", "cancel", "settle", "settle", "complete"]);
    await crashAnywhere(h);
  });

  it("P3 a wait that was cancelled with its unit takes no signal from those who still wait", async () => {
    const wf = workflow("hasty", async (ctx) => {
      await ctx.parallel([async (branch) => void branch.waitForSignal("a")]);
      return ctx.waitForSignal("a");
    });
    const h = await Harness.start(wf);
    await h.signal("a", "for the root");
    expect(h.output).toBe("for the root");
    await crashAnywhere(h);
  });

  it("P3 a scope returns only after every unit it started has ended, what they left outstanding included", async () => {
    const wf = workflow("scopes", async (ctx) => {
      const results = await ctx.parallel([
        async (branch) => {
          void branch.step("left behind", () => 1);
          return "early";
        },
        async () => "at once",
      ]);
      return results.map((result) => result.status);
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("sleeping");
    await h.resolve("left behind");
    expect(h.output).toEqual(["fulfilled", "fulfilled"]);
    await crashAnywhere(h);
  });

  it("P3 a child got by startChild is not outstanding once it has started", async () => {
    const kid = workflow("kid", async () => 1);
    const wf = workflow("parent", async (ctx) => {
      const handle = await ctx.startChild(kid, undefined, { id: "kid-1" });
      return handle.id;
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("sleeping");
    await h.turn({ type: "childStarted", seq: h.find("kid").seq, runId: "kid-1" });
    expect(h.output).toBe("kid-1");
    await crashAnywhere(h);
  });

  it("P3 a startChild that no code awaits is joined until the child has started", async () => {
    const kid = workflow("kid", async () => 1);
    const wf = workflow("parent", async (ctx) => {
      void ctx.startChild(kid, undefined);
      return "done";
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("sleeping");
    await h.turn({ type: "childStarted", seq: h.find("kid").seq, runId: "kid-1" });
    expect(h.output).toBe("done");
    await crashAnywhere(h);
  });
});

describe("P4 P5 the three states", () => {
  it("P4 local variables, reducer state and published state are independent", async () => {
    const wf = workflow("states", async (ctx) => {
      let local = 0;
      ctx.publishState("published");
      const { state } = await ctx.receive("reducer", {
        signals: {
          touch: (_payload, current) => {
            local++;
            return Receive.noreply(`${current}+`);
          },
          stop: (_payload, current) => Receive.stop(current),
        },
      });
      return { local, state };
    });
    const h = await Harness.start(wf);
    await h.signal("touch");
    expect(h.state).toBe("published");
    await h.signal("stop");
    expect(h.output).toEqual({ local: 1, state: "reducer+" });
    expect(h.state).toBe("published");
    await crashAnywhere(h);
  });

  it("P5 publishState replaces the published state whole", async () => {
    const wf = workflow("publishes", async (ctx) => {
      ctx.publishState({ a: 1, b: 2 });
      await ctx.step("work", () => 0);
      ctx.publishState({ b: 3 });
    });
    const h = await Harness.start(wf);
    expect(h.state).toEqual({ a: 1, b: 2 });
    await h.resolve("work");
    expect(h.state).toEqual({ b: 3 });
    await crashAnywhere(h);
  });

  it("P5 publishState does not pause and leaves no record; the last of a turn counts", async () => {
    const wf = workflow("publishes", async (ctx) => {
      ctx.publishState(1);
      ctx.publishState(2);
      await ctx.step("work", () => 0);
    });
    const h = await Harness.start(wf);
    expect(types(h.commands)).toEqual(["step"]);
    expect(h.state).toBe(2);
  });

  it("P5 what is published is the state at the time of the call", async () => {
    const wf = workflow("publishes", async (ctx) => {
      const cart = { items: ["a"] };
      ctx.publishState(cart);
      cart.items.push("b");
      await ctx.step("work", () => 0);
    });
    const h = await Harness.start(wf);
    expect(h.state).toEqual({ items: ["a"] });
  });

  it("P5 any unit may publish, and what it published outlives it", async () => {
    const wf = workflow("everywhere", async (ctx) => {
      await ctx.parallel([async (branch) => branch.publishState("branch")]);
      await ctx.step("1", () => 0);
      await ctx.loop("once", async (body) => {
        body.publishState("loop");
        return Loop.break();
      });
      await ctx.step("2", () => 0);
      await ctx.receive(0, {
        signals: {
          go: (_payload, state, handler) => {
            handler.publishState("handler");
            return Receive.stop(state);
          },
        },
      });
      await ctx.step("3", () => 0);
    });
    const h = await Harness.start(wf);
    const seen = [h.state];
    await h.resolve("1");
    await h.resolve("2");
    seen.push(h.state);
    await h.signal("go");
    seen.push(h.state);
    expect(seen).toEqual(["branch", "loop", "handler"]);
    await crashAnywhere(h);
  });

  it("P5 it becomes visible with its turn: a turn that fails publishes nothing", async () => {
    const wf = workflow("publishes", async (ctx) => {
      ctx.publishState("before");
      await ctx.step("work", () => 0);
      ctx.publishState("after");
      await new Promise(() => {});
    });
    const h = await Harness.start(wf);
    await expect(h.resolve("work")).rejects.toMatchObject({ name: "ForeignAwaitError" });
    expect(h.state).toBe("before");
  });

  it("P5 the published state is the same after recovery", async () => {
    const wf = workflow("publishes", async (ctx) => {
      ctx.publishState({ at: ctx.now() });
      await ctx.step("work", () => 0);
    });
    const h = await Harness.start(wf);
    const before = h.executor.state;
    await h.recover();
    expect(h.executor.state).toEqual(before);
  });
});

describe("P6 side effects", () => {
  it("P6 the function of a side effect runs once; replay returns what was recorded", async () => {
    let calls = 0;
    const wf = workflow("effects", async (ctx) => {
      const value = await ctx.sideEffect(() => ++calls);
      await ctx.step("work", () => 0);
      return value;
    });
    const h = await Harness.start(wf);
    await h.recover();
    await h.resolve("work");
    expect(h.output).toBe(1);
    expect(calls).toBe(1);
  });

  it("P6 a side effect does not pause", async () => {
    const wf = workflow("effects", async (ctx) => {
      await ctx.sideEffect(() => 1);
      await ctx.sideEffect(() => undefined);
      return "at once";
    });
    const h = await Harness.start(wf);
    expect(h.output).toBe("at once");
    expect(h.transcript).toHaveLength(1);
  });

  it("P6 a throw is recorded, and thrown on replay too without running the function", async () => {
    let calls = 0;
    const wf = workflow("effects", async (ctx) => {
      const caught = await ctx
        .sideEffect(() => {
          calls++;
          throw new RangeError("no luck");
        })
        .catch((error: unknown) => error);
      await ctx.step("work", () => 0);
      return `${(caught as Error).name}: ${(caught as Error).message}`;
    });
    const h = await Harness.start(wf);
    await h.recover();
    await h.resolve("work");
    expect(h.output).toBe("RangeError: no luck");
    expect(calls).toBe(1);
  });

  it("P6 an uncommitted turn may run it again", async () => {
    let calls = 0;
    const wf = workflow("effects", async (ctx) => ctx.sideEffect(() => ++calls));
    await new Harness(wf).start();
    const h = await Harness.start(wf);
    expect(h.output).toBe(2);
  });

  it("P6 the function is synchronous: a promise is refused as its value", async () => {
    const wf = workflow("effects", async (ctx) => ctx.sideEffect(async () => 1));
    const h = await Harness.start(wf);
    expect(h.error).toMatchObject({ name: "UnserializableValueError", type: "Promise" });
  });

  it("P6 the function may not use ctx", async () => {
    const wf = workflow("effects", async (ctx) => ctx.sideEffect(() => ctx.random()));
    await expect(Harness.start(wf)).rejects.toMatchObject({ name: "IllegalCallError", call: "random" });
  });
});
