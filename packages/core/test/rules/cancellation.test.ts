// Job: prove what cancellation and time do to a run, as far as the executor is concerned.
// Owns: workflows that are cancelled while they wait for each kind of thing; the host is played by hand.
// Invariants: K1 to K8.
import {
  activity,
  CanceledError,
  ChildFailedError,
  type Command,
  DeadlineExceededError,
  FatalError,
  Loop,
  Receive,
  StepFailedError,
  serializeError,
  type UnitContext,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const types = (commands: readonly Command[]) => commands.map((command) => command.type);
const nothing = () => undefined;
const ship = workflow("ship", async () => "shipped");
const send = activity("send", async () => undefined);

describe("a cancel request", () => {
  const waits: Record<string, (ctx: UnitContext) => Promise<unknown>> = {
    step: (ctx) => ctx.step("charge", nothing),
    transaction: (ctx) => ctx.transaction("charge", nothing),
    activity: (ctx) => ctx.activity(send, undefined),
    child: (ctx) => ctx.child(ship, undefined),
    "startChild before it has started": (ctx) => ctx.startChild(ship, undefined),
    sleep: (ctx) => ctx.sleep("1h"),
    sleepUntil: (ctx) => ctx.sleepUntil(Date.UTC(2030, 0, 1)),
    waitForSignal: (ctx) => ctx.waitForSignal("go"),
    "waitForSignal with a timeout": (ctx) => ctx.waitForSignal("go", { timeout: "1h" }),
    listen: (ctx) => ctx.listen(["go", "stop"]),
    signalRun: (ctx) => ctx.signalRun("other", "go"),
    cancelRun: (ctx) => ctx.cancelRun("other"),
    condition: (ctx) => ctx.condition(() => false),
    "an ivar": (ctx) => ctx.ivar<number>().wait(),
    parallel: (ctx) => ctx.parallel([(ctx) => ctx.step("charge", nothing)]),
    join: (ctx) => ctx.join("all", { a: (ctx) => ctx.step("charge", nothing) }),
    race: (ctx) => ctx.race("first", { a: (ctx) => ctx.step("charge", nothing) }),
    loop: (ctx) => ctx.loop("forever", (ctx) => ctx.sleep("1h")),
    try: (ctx) => ctx.try("careful", (ctx) => ctx.step("charge", nothing)),
  };
  for (const [what, wait] of Object.entries(waits)) {
    it(`K1 reaches a unit that waits in ${what}, and throws CanceledError there`, async () => {
      let caught: unknown;
      const wf = workflow("wf", async (ctx) => {
        try {
          await wait(ctx);
        } catch (error) {
          caught = error;
          throw error;
        }
      });
      const h = await Harness.start(wf);
      await h.cancel("enough");
      expect(caught).toBeInstanceOf(CanceledError);
      expect(caught).toMatchObject({ reason: "enough" });
      expect(h.terminal).toEqual({ type: "canceled", reason: "enough" });
      expect(h.openLocations).toEqual([]);
      expect(h.timers.size).toBe(0);
      await crashAnywhere(h);
    });
  }

  it("K1 reaches every unit, however deep", async () => {
    const caught: string[] = [];
    const note = async (where: string, run: () => Promise<unknown>) => {
      try {
        await run();
      } catch (error) {
        caught.push(`${where}: ${(error as Error).name}`);
        throw error;
      }
    };
    const wf = workflow("wf", async (ctx) => {
      await note("root", () =>
        ctx.join("all", {
          left: (ctx) => note("left", () => ctx.loop("again", (ctx) => note("iteration", () => ctx.step("charge", nothing)))),
          right: (ctx) => note("right", () => ctx.parallel([(ctx) => note("branch", () => ctx.sleep("1h"))])),
        }),
      );
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(caught.sort()).toEqual([
      "branch: CanceledError",
      "iteration: CanceledError",
      "left: CanceledError",
      "right: CanceledError",
      "root: CanceledError",
    ]);
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  it("K1 reaches every one of a unit's outstanding operations", async () => {
    let reasons: string[] = [];
    const wf = workflow("wf", async (ctx) => {
      const settled = await Promise.allSettled([ctx.step("a", nothing), ctx.sleep("1h"), ctx.waitForSignal("go")]);
      reasons = settled.map((one) => (one.status === "rejected" ? (one.reason as Error).name : one.status));
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(reasons).toEqual(["CanceledError", "CanceledError", "CanceledError"]);
  });

  it("K1 aborts ctx.signal, with the error that is thrown", async () => {
    const seen: unknown[] = [];
    const wf = workflow("wf", async (ctx) => {
      const { signal } = ctx;
      signal.addEventListener("abort", () => seen.push("abort"));
      try {
        await ctx.sleep("1h");
      } catch (error) {
        seen.push(signal.aborted, signal.reason === error);
      }
    });
    const h = await Harness.start(wf);
    expect(seen).toEqual([]);
    await h.cancel();
    expect(seen).toEqual(["abort", true, true]);
  });

  it("K1 aborts the ctx.signal of branches too, and not that of a shield", async () => {
    const signals: Record<string, AbortSignal> = {};
    const wf = workflow("wf", async (ctx) => {
      await ctx.parallel([
        async (ctx) => {
          signals["branch"] = ctx.signal;
          await ctx.sleep("1h");
        },
        (ctx) =>
          ctx.shield(async (ctx) => {
            signals["shield"] = ctx.signal;
            await ctx.step("save", nothing);
          }),
      ]);
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(signals["branch"]?.aborted).toBe(true);
    expect(signals["shield"]?.aborted).toBe(false);
  });

  it("K1 tells the host to abort every running step", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.join("all", { a: (ctx) => ctx.step("x", nothing), b: (ctx) => ctx.activity(send, undefined), c: (ctx) => ctx.sleep("1h") });
    });
    const h = await Harness.start(wf);
    const seqs = ["all/a/x", "all/b/send", "all/c/sleep"].map((where) => h.find(where).seq);
    const commands = await h.cancel();
    expect(commands.filter((one) => one.type === "cancel")).toEqual(seqs.map((seq) => ({ type: "cancel", seq })));
  });

  it("K1 C7 a result that comes after the cancellation is dropped", async () => {
    const wf = workflow("wf", async (ctx) => {
      const result = await ctx.step("charge", nothing).catch((error: Error) => error.name);
      return ctx.shield(async (ctx) => [result, await ctx.step("save", nothing)]);
    });
    const h = await Harness.start(wf);
    const late = h.resolved("charge", "too late");
    await h.cancel();
    await h.turn(late);
    expect(h.openLocations).toEqual(["shield/save"]);
    await h.resolve("save", "saved");
    expect(h.terminal).toMatchObject({ type: "canceled", value: JSON.stringify(["CanceledError", "saved"]) });
    await crashAnywhere(h);
  });

  it("K1 asked twice is asked once: the first reason stays", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.sleep("1h").catch(nothing);
      await ctx.shield((ctx) => ctx.step("save", nothing));
    });
    const h = await Harness.start(wf);
    await h.cancel("first");
    expect(await h.cancel("second")).toEqual([]);
    await h.resolve("save");
    expect(h.terminal).toMatchObject({ type: "canceled", reason: "first" });
    await crashAnywhere(h);
  });

  it("K1 that comes with the start reaches the first operation", async () => {
    const ran: string[] = [];
    const wf = workflow("wf", async (ctx) => {
      ran.push("root");
      await ctx.step("charge", nothing);
    });
    const h = new Harness(wf);
    const commands = await h.start(undefined, { type: "cancel", reason: "early" });
    expect(ran).toEqual(["root"]);
    expect(commands).toEqual([{ type: "canceled", reason: "early" }]);
    await crashAnywhere(h);
  });

  it("K1 that comes after a result of the same turn leaves that result delivered", async () => {
    const wf = workflow("wf", async (ctx) => {
      const paid = await ctx.step("charge", () => 1);
      return ctx.step("ship", nothing).catch((error: Error) => [paid, error.name]);
    });
    const h = await Harness.start(wf);
    await h.turn(h.resolved("charge", 7), { type: "cancel" });
    expect(h.terminal).toMatchObject({ type: "canceled", value: JSON.stringify([7, "CanceledError"]) });
    await crashAnywhere(h);
  });

  it("K1 a run that is over is not touched by it", async () => {
    const h = await Harness.start(workflow("wf", async () => "done"));
    expect(await h.cancel()).toEqual([]);
    expect(h.output).toBe("done");
  });
});

describe("after a cancel request", () => {
  it("K2 every new pausing operation throws at once and leaves no record", async () => {
    const names: string[] = [];
    const wf = workflow("wf", async (ctx) => {
      await ctx.sleep("1h").catch(nothing);
      const calls: (() => Promise<unknown>)[] = [
        () => ctx.step("charge", nothing),
        () => ctx.transaction("charge", nothing),
        () => ctx.activity(send, undefined),
        () => ctx.child(ship, undefined),
        () => ctx.startChild(ship, undefined),
        () => ctx.sleep("1s"),
        () => ctx.waitForSignal("go"),
        () => ctx.listen(["go"]),
        () => ctx.signalRun("other", "go"),
        () => ctx.cancelRun("other"),
        () => ctx.condition(() => true),
        () => ctx.ivar<number>().wait(),
        () => ctx.parallel([]),
        () => ctx.join("all", {}),
        () => ctx.race("first", { a: async () => 1 }),
        () => ctx.loop("again", async () => Loop.break()),
        () => ctx.try("careful", async () => 1),
        () => ctx.receive(0, {}),
        () => ctx.yield(),
      ];
      for (const call of calls) {
        const error = await call().then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
        names.push(error instanceof CanceledError ? "CanceledError" : String(error));
      }
    });
    const h = await Harness.start(wf);
    const commands = await h.cancel();
    expect(names).toEqual(new Array(19).fill("CanceledError"));
    expect(types(commands)).toEqual(["cancel", "canceled"]);
    await crashAnywhere(h);
  });

  it("K2 calls that don't pause still work", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.sleep("1h").catch(nothing);
      ctx.publishState("canceling");
      ctx.setAttributes({ phase: "canceling" });
      const patched = ctx.patched("p1");
      const effect = await ctx.sideEffect(() => 42);
      return [patched, effect, typeof ctx.random(), typeof ctx.uuid(), ctx.now().getTime(), ctx.run.id];
    });
    const h = await Harness.start(wf);
    const commands = await h.cancel();
    expect(h.state).toBe("canceling");
    expect(types(commands)).toEqual(["cancel", "attributes", "patch", "sideEffect", "canceled"]);
    expect(h.terminal).toMatchObject({ value: JSON.stringify([true, 42, "number", "string", h.time, "run-1"]) });
    await crashAnywhere(h);
  });

  it("K2 a shield that is open when it comes runs to its end, with all that it calls", async () => {
    const wf = workflow("wf", async (ctx) => {
      return ctx.shield(async (ctx) => {
        await ctx.step("first", nothing);
        await ctx.sleep("1m");
        const all = await ctx.join("all", { a: (ctx) => ctx.step("a", nothing), b: (ctx) => ctx.step("b", nothing) });
        return all;
      });
    });
    const h = await Harness.start(wf);
    expect(await h.cancel()).toEqual([]);
    await h.resolve("first");
    await h.fire();
    await h.turn(h.resolved("a", 1), h.resolved("b", 2));
    expect(h.terminal).toMatchObject({ type: "canceled", value: JSON.stringify({ a: 1, b: 2 }) });
    await crashAnywhere(h);
  });

  it("K2 a shield can be opened after it has come: cleanup", async () => {
    const wf = workflow("wf", async (ctx) => {
      try {
        await ctx.sleep("1h");
      } finally {
        await ctx.shield((ctx) => ctx.step("cleanup", nothing));
      }
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(h.openLocations).toEqual(["shield/cleanup"]);
    expect(h.status).toBe("sleeping");
    await h.resolve("cleanup");
    expect(h.terminal).toEqual({ type: "canceled" });
    await crashAnywhere(h);
  });

  it("K2 what comes after the shield is not shielded", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.shield((ctx) => ctx.step("save", nothing));
      await ctx.step("more", nothing);
    });
    const h = await Harness.start(wf);
    await h.cancel();
    const commands = await h.resolve("save");
    expect(types(commands)).toEqual(["settle", "canceled"]);
  });

  it("K2 an error inside a shield passes through it", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.sleep("1h").catch(nothing);
      await ctx.shield((ctx) => ctx.step("save", nothing));
    });
    const h = await Harness.start(wf);
    await h.cancel();
    await h.fail("save", new Error("disk full"));
    expect(h.terminal).toMatchObject({ type: "canceled", error: { name: "StepFailedError", cause: { message: "disk full" } } });
    await crashAnywhere(h);
  });

  it("K2 a shield inside a branch holds its scope open, while its siblings are cancelled", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.join("all", {
        a: (ctx) => ctx.shield((ctx) => ctx.step("save", nothing)),
        b: (ctx) => ctx.step("charge", nothing),
      });
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(h.openLocations).toEqual(["all/a/shield/save"]);
    expect(h.status).toBe("sleeping");
    await h.resolve("save");
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  it("C4 K1 a cancelled join, race, parallel or try throws CanceledError: it never lands in a branch's slot", async () => {
    const outcomes: unknown[] = [];
    const caught = async (call: Promise<unknown>) => {
      try {
        outcomes.push(await call);
      } catch (error) {
        outcomes.push((error as Error).name);
        throw error;
      }
    };
    const body = async (ctx: UnitContext) => {
      try {
        return await ctx.step("charge", nothing);
      } catch {
        return "swallowed";
      }
    };
    const wf = workflow("wf", async (ctx) => {
      await ctx.parallel([
        (ctx) => caught(ctx.join("j", { a: body })),
        (ctx) => caught(ctx.race("r", { a: body, b: body })),
        (ctx) => caught(ctx.parallel([body])),
        (ctx) => caught(ctx.try("t", body)),
      ]);
    });
    const h = await Harness.start(wf);
    const commands = await h.cancel();
    expect(outcomes).toEqual(["CanceledError", "CanceledError", "CanceledError", "CanceledError"]);
    expect(commands.some((one) => one.type === "winner")).toBe(false);
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });
});

describe("how a cancelled run ends", () => {
  const swallows = async (ctx: UnitContext) => {
    await ctx.sleep("1h").catch(nothing);
    return "partial";
  };

  it("K3 canceled, whatever its root returned, with that value kept", async () => {
    const h = await Harness.start(workflow("wf", swallows));
    await h.cancel("enough");
    expect(h.terminal).toEqual({ type: "canceled", reason: "enough", value: '"partial"' });
    await crashAnywhere(h);
  });

  it("K3 canceled, if its root threw something else, with that error kept", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.sleep("1h").catch(() => {
        throw new Error("on the way out");
      });
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(h.terminal).toMatchObject({ type: "canceled", error: { message: "on the way out" } });
  });

  it("K3 canceled, if its root returned continueAsNew", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.sleep("1h").catch(nothing);
      return ctx.continueAsNew(undefined);
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(h.terminal).toEqual({ type: "canceled" });
  });

  it("K3 a cooperative workflow that caught it and returned is completed", async () => {
    const h = await Harness.start(workflow({ name: "wf", cancellation: "cooperative" }, swallows));
    await h.cancel();
    expect(h.terminal).toEqual({ type: "complete", value: '"partial"' });
    await crashAnywhere(h);
  });

  it("K3 a cooperative workflow that let it through is canceled", async () => {
    const wf = workflow({ name: "wf", cancellation: "cooperative" }, async (ctx) => ctx.sleep("1h"));
    const h = await Harness.start(wf);
    await h.cancel();
    expect(h.terminal).toEqual({ type: "canceled" });
  });

  it("K3 a cooperative workflow that fails by itself has failed", async () => {
    const wf = workflow({ name: "wf", cancellation: "cooperative" }, async (ctx) => {
      await ctx.sleep("1h").catch(() => {
        throw new Error("its own");
      });
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(h.error?.message).toBe("its own");
  });

  it("K3 a CanceledError without a cancel request is a failure", async () => {
    const wf = workflow("wf", async () => {
      throw new CanceledError("just so");
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("failed");
    expect(h.error).toBeInstanceOf(CanceledError);
  });

  it("K3 a CanceledError without a request is a failure in a cooperative workflow too", async () => {
    const wf = workflow({ name: "wf", cancellation: "cooperative" }, async () => {
      throw new CanceledError("just so");
    });
    expect((await Harness.start(wf)).status).toBe("failed");
  });

  it("K3 a step that the host ended as canceled, without a request, fails the run", async () => {
    const h = await Harness.start(workflow("wf", (ctx) => ctx.step("charge", nothing)));
    await h.turn(h.outcome("charge", { status: "canceled", reason: "from outside" }));
    expect(h.status).toBe("failed");
    expect(h.error).toBeInstanceOf(CanceledError);
    await crashAnywhere(h);
  });

  it("K3 a cancelled child gives its parent ChildFailedError", async () => {
    let caught: unknown;
    const wf = workflow("wf", async (ctx) => {
      await ctx.child(ship, undefined).catch((error: unknown) => {
        caught = error;
      });
      return "went on";
    });
    const h = await Harness.start(wf);
    await h.turn(h.outcome("ship", { status: "canceled", reason: "by hand" }));
    expect(caught).toBeInstanceOf(ChildFailedError);
    expect(caught).toMatchObject({ childId: "run-1/ship", cause: { name: "CanceledError", reason: "by hand" } });
    expect(h.output).toBe("went on");
    await crashAnywhere(h);
  });

  it("K3 a cancelled child gives the result() of its handle ChildFailedError", async () => {
    const wf = workflow("wf", async (ctx) => {
      const handle = await ctx.startChild(ship, undefined);
      return handle.result().catch((error: Error) => error.name);
    });
    const h = await Harness.start(wf);
    const { seq } = h.find("ship");
    await h.turn({ type: "childStarted", seq, runId: "run-1/ship" });
    await h.turn({ type: "resolve", seq, outcome: { status: "canceled" } });
    expect(h.output).toBe("ChildFailedError");
    await crashAnywhere(h);
  });

  it("K5 nothing that arrives afterwards changes a canceled run", async () => {
    const h = await Harness.start(workflow("wf", (ctx) => ctx.step("charge", nothing)));
    const late = h.resolved("charge", "late");
    const { seq } = h.find("charge");
    await h.cancel();
    expect(await h.turn(late)).toEqual([]);
    expect(await h.turn({ type: "fire", seq })).toEqual([]);
    expect(await h.signal("go")).toEqual([]);
    expect(await h.turn({ type: "expire", error: serializeError(new DeadlineExceededError({ runId: "run-1" })) })).toEqual([]);
    expect(h.status).toBe("canceled");
  });
});

describe("a receive under cancellation", () => {
  it("K4 closes, cancels the handler in progress, joins it, and throws", async () => {
    const order: string[] = [];
    const wf = workflow("wf", async (ctx) => {
      try {
        await ctx.receive(0, {
          signals: {
            add: async (_by, state, ctx) => {
              try {
                await ctx.step("charge", nothing);
              } catch (error) {
                order.push(`handler: ${(error as Error).name}`);
                await ctx.shield((ctx) => ctx.step("undo", nothing));
                order.push("handler over");
              }
              return Receive.noreply(state);
            },
          },
        });
      } catch (error) {
        order.push(`receive: ${(error as Error).name}`);
        throw error;
      }
    });
    const h = await Harness.start(wf);
    await h.signal("add", 1);
    await h.cancel();
    expect(order).toEqual(["handler: CanceledError"]);
    await h.resolve("undo");
    expect(order).toEqual(["handler: CanceledError", "handler over", "receive: CanceledError"]);
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  it("K4 cancels async handlers in flight, and an update among them fails", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.receive(0, {
        updates: { pay: (_input: unknown, state: number) => Receive.async(async (ctx) => ctx.step("charge", nothing), state) },
      });
    });
    const h = await Harness.start(wf);
    await h.update("pay", 1, "u1");
    await h.cancel();
    expect(h.updateResult("u1")).toMatchObject({ error: { name: "CanceledError" } });
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  it("K4 dispatches nothing more, not even what came before the cancel in the same turn behind a busy handler", async () => {
    const handled: unknown[] = [];
    const wf = workflow("wf", async (ctx) => {
      await ctx.receive(0, {
        signals: {
          add: async (by, state, ctx) => {
            handled.push(by);
            await ctx.step("charge", nothing);
            return Receive.noreply(state);
          },
        },
      });
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("add", 1), h.signalJob("add", 2));
    await h.cancel();
    expect(handled).toEqual([1]);
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  it("K4 an accepted update that it did not get to fails", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.receive(0, {
        updates: {
          pay: async (_input: unknown, state: number, ctx) => {
            await ctx.step("charge", nothing);
            return Receive.reply("paid", state);
          },
        },
      });
    });
    const h = await Harness.start(wf);
    await h.turn(h.updateJob("pay", 1, "u1"), h.updateJob("pay", 2, "u2"));
    await h.cancel();
    expect(h.updateResult("u1")).toMatchObject({ error: { name: "CanceledError" } });
    expect(h.updateResult("u2")).toMatchObject({ error: { name: "ReceiveClosedError" } });
    await crashAnywhere(h);
  });
});

describe("children of a run that closes", () => {
  it("K6 the policy is recorded in the child's command; none means the default", async () => {
    const wf = workflow("wf", async (ctx) => {
      await Promise.all([
        ctx.startChild(ship, undefined, { id: "c1" }),
        ctx.startChild(ship, undefined, { id: "c2", parentClose: "cancel" }),
        ctx.startChild(ship, undefined, { id: "c3", parentClose: "abandon" }),
        ctx.child(ship, undefined, { id: "c4", parentClose: "terminate" }),
      ]);
    });
    const h = await Harness.start(wf);
    const policies = h.commands.map((one) => (one.type === "child" ? [one.id, one.parentClose] : []));
    expect(policies).toEqual([
      ["c1", undefined],
      ["c2", "cancel"],
      ["c3", "abandon"],
      ["c4", "terminate"],
    ]);
  });

  it("K6 P3 a child that was started does not hold the run open", async () => {
    const wf = workflow("wf", async (ctx) => {
      const handle = await ctx.startChild(ship, undefined, { parentClose: "abandon" });
      return handle.id;
    });
    const h = await Harness.start(wf);
    const { seq } = h.find("ship");
    const commands = await h.turn({ type: "childStarted", seq, runId: "run-1/ship" });
    expect(types(commands)).toEqual(["complete"]);
    await crashAnywhere(h);
  });
});

describe("a deadline", () => {
  const expired = () => ({ type: "expire", error: serializeError(new DeadlineExceededError({ runId: "run-1" })) }) as const;

  it("K7 fails the run with DeadlineExceededError and cancels what is open", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.join("all", { a: (ctx) => ctx.step("charge", nothing), b: (ctx) => ctx.sleep("1h"), c: (ctx) => ctx.waitForSignal("go") });
    });
    const h = await Harness.start(wf);
    await h.turn(expired());
    expect(h.error).toBeInstanceOf(DeadlineExceededError);
    expect(h.openLocations).toEqual([]);
    expect(h.timers.size).toBe(0);
    await crashAnywhere(h);
  });

  it("K7 runs no workflow function: no catch, no finally, no shield", async () => {
    const ran: string[] = [];
    const wf = workflow("wf", async (ctx) => {
      try {
        await ctx.shield((ctx) => ctx.step("charge", nothing));
      } catch {
        ran.push("catch");
      } finally {
        ran.push("finally");
      }
    });
    const h = await Harness.start(wf);
    const late = h.resolved("charge");
    await h.turn(expired());
    await h.turn(late);
    await Promise.resolve();
    expect(ran).toEqual([]);
    expect(h.status).toBe("failed");
  });

  it("K7 steps that would start in the turn in which it strikes are not started", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.step("first", nothing);
      await ctx.step("second", nothing);
    });
    const h = await Harness.start(wf);
    const commands = await h.turn(h.resolved("first"), expired());
    expect(types(commands)).toEqual(["fail"]);
    await crashAnywhere(h);
  });

  it("K7 due rollbacks run, to their end", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.step("reserve", () => "r1", { rollback: nothing });
      await ctx.sleep("1h");
    });
    const h = await Harness.start(wf);
    await h.resolve("reserve", "r1");
    await h.turn(expired());
    expect(h.openLocations).toEqual(["~rollback/reserve"]);
    expect(h.status).toBe("sleeping");
    await h.resolve("~rollback/reserve");
    expect(h.error).toBeInstanceOf(DeadlineExceededError);
    expect(h.terminal).toMatchObject({ type: "fail", rolledBack: true });
    await crashAnywhere(h);
  });

  it("K7 rollbacks that run already are exempt: they go on, and the first error stands", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.step("reserve", () => "r1", { rollback: nothing });
      throw new Error("its own");
    });
    const h = await Harness.start(wf);
    await h.resolve("reserve", "r1");
    expect(await h.turn(expired())).toEqual([]);
    await h.resolve("~rollback/reserve");
    expect(h.error?.message).toBe("its own");
    await crashAnywhere(h);
  });

  it("K7 no run retry follows", async () => {
    const retry = { maxAttempts: 5, initialInterval: 1000, backoff: 2, maxInterval: 10_000, jitter: 0 };
    const h = await Harness.start(
      workflow("wf", (ctx) => ctx.sleep("1h")),
      undefined,
      { retry },
    );
    await h.turn(expired());
    expect(h.terminal).toMatchObject({ type: "fail" });
    expect(h.terminal).not.toHaveProperty("retryAfter");
  });

  it("K7 strikes a run that is being cancelled and cleans up", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.sleep("1h").catch(nothing);
      await ctx.shield((ctx) => ctx.step("cleanup", nothing));
    });
    const h = await Harness.start(wf);
    await h.cancel();
    await h.turn(expired());
    expect(h.error).toBeInstanceOf(DeadlineExceededError);
    await crashAnywhere(h);
  });
});

describe("timers", () => {
  it("K8 a sleep is recorded with its duration, sleepUntil with its moment", async () => {
    const until = new Date(Date.UTC(2026, 5, 1));
    const wf = workflow("wf", (ctx) =>
      Promise.all([ctx.sleep("90s"), ctx.sleep("nap", 5), ctx.sleepUntil(until), ctx.sleepUntil("june", until)]),
    );
    const h = await Harness.start(wf);
    expect(h.commands).toMatchObject([
      { type: "sleep", name: "sleep", n: 0, duration: 90_000 },
      { type: "sleep", name: "nap", n: 0, duration: 5 },
      { type: "sleep", name: "sleep", n: 1, until: until.getTime() },
      { type: "sleep", name: "june", n: 0, until: until.getTime() },
    ]);
  });

  it("K8 a sleep survives a restart: it is waited for, not started again", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.sleep("1h");
      return ctx.now().getTime();
    });
    const h = await Harness.start(wf);
    const due = h.time + 3_600_000;
    h.time += 1_800_000;
    await h.recover();
    await h.fire();
    expect(h.output).toBe(due);
    expect(h.commands.filter((one) => one.type === "sleep")).toHaveLength(1);
    await crashAnywhere(h);
  });

  it("K8 Y3 a timer that fires twice counts once", async () => {
    const wf = workflow("wf", async (ctx) => {
      await ctx.sleep("1h");
      await ctx.sleep("1h");
    });
    const h = await Harness.start(wf);
    const seq = h.nextTimer ?? 0;
    await h.fire();
    expect(await h.turn({ type: "fire", seq })).toEqual([]);
    expect(h.openLocations).toEqual(["sleep#1"]);
    await h.fire();
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("K8 a timer that was cancelled does nothing if it still fires", async () => {
    const wf = workflow("wf", async (ctx) => {
      const first = await ctx.race("first", { paid: (ctx) => ctx.step("charge", nothing), late: (ctx) => ctx.sleep("1h") });
      await ctx.step("ship", nothing);
      return first.winner;
    });
    const h = await Harness.start(wf);
    const seq = h.nextTimer ?? 0;
    await h.resolve("charge");
    expect(await h.turn({ type: "fire", seq })).toEqual([]);
    await h.resolve("ship");
    expect(h.output).toBe("paid");
    await crashAnywhere(h);
  });
});

describe("cancellation and failures beside it", () => {
  it("K1 K3 an operation that failed before the cancel in the same turn keeps its own error", async () => {
    let caught: unknown;
    const wf = workflow("wf", async (ctx) => {
      await ctx.step("charge", nothing).catch((error: unknown) => {
        caught = error;
      });
    });
    const h = await Harness.start(wf);
    await h.turn(h.failed("charge", new FatalError("refused")), { type: "cancel" });
    expect(caught).toBeInstanceOf(StepFailedError);
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });
});
