// Job: prove how code may change under a run that is under way: patched, deprecatePatch, removed, and what blocks it.
// Owns: pairs of workflows, the old one that wrote the history and the new one that takes it over.
// Invariants: V1 to V4.
import {
  type AnyWorkflow,
  activity,
  type Command,
  formatLocation,
  Loop,
  NondeterminismError,
  Receive,
  replay,
  type UnitContext,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const nothing = () => undefined;
const send = activity("send", async (_to: string) => undefined);
const ship = workflow("ship", async () => "shipped");
const wf = (run: (ctx: WorkflowContext) => Promise<unknown>): AnyWorkflow => workflow("wf", run);
/** Where operations were opened, and how the run ended. */
const opened = (commands: readonly Command[]) =>
  commands.flatMap((one) =>
    "n" in one ? [`${one.type} ${formatLocation(one.unit, one.name, one.n)}`] : one.type === "complete" ? ["complete"] : [],
  );

describe("patched", () => {
  it("V1 is true in a new run, and recorded once, where it was first called", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const answers = [ctx.patched("fast"), ctx.patched("fast")];
        await ctx.step("pack", nothing);
        return [...answers, ctx.patched("fast")];
      }),
    );
    await h.resolve("pack");
    expect(opened(h.commands)).toEqual(["patch fast", "step pack", "complete"]);
    expect(h.output).toEqual([true, true, true]);
    await crashAnywhere(h);
  });

  it("V1 is false where history has none at that call, and true where it has", async () => {
    const old = wf(async (ctx) => {
      await ctx.step("pack", nothing);
      return "old";
    });
    const patched = wf(async (ctx) => {
      const fast = ctx.patched("fast");
      await ctx.step("pack", nothing);
      return fast ? "new" : "old";
    });
    const before = await Harness.start(old);
    await before.recover(patched);
    await before.resolve("pack");
    expect(before.output).toBe("old");

    const after = await Harness.start(patched);
    await after.recover();
    await after.resolve("pack");
    expect(after.output).toBe("new");
    await crashAnywhere(after);
  });

  it("V1 is true for a unit that is past its last record", async () => {
    const old = wf(async (ctx) => {
      await ctx.step("pack", nothing);
      await ctx.step("ship", nothing);
    });
    const patched = wf(async (ctx) => {
      await ctx.step("pack", nothing);
      await ctx.step(ctx.patched("fast") ? "fly" : "ship", nothing);
    });
    const h = await Harness.start(old);
    await h.recover(patched);
    expect(opened(await h.resolve("pack"))).toEqual(["patch fast", "step fly"]);
    await h.recover();
    await h.resolve("fly");
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("V1 the first call fixes the answer: a unit that said false says false once it is live", async () => {
    const old = wf(async (ctx) => {
      await ctx.step("pack", nothing);
      await ctx.step("ship", nothing);
    });
    const answers: boolean[] = [];
    const patched = wf(async (ctx) => {
      answers.push(ctx.patched("fast"));
      await ctx.step("pack", nothing);
      answers.push(ctx.patched("fast"));
      await ctx.step("ship", nothing);
      answers.push(ctx.patched("fast"));
    });
    const h = await Harness.start(old);
    await h.recover(patched);
    const live = [...(await h.resolve("pack")), ...(await h.resolve("ship"))];
    expect(answers).toEqual([false, false, false]);
    expect(opened(live)).toEqual(["step ship", "complete"]);
    await h.recover();
  });

  it("V1 each unit answers for itself: the next iteration of a loop takes the new path", async () => {
    const old = wf((ctx) =>
      ctx.loop({ name: "days", state: 0 }, async (ctx, day) => {
        await ctx.step("work", nothing);
        await ctx.step("rest", nothing);
        return day === 2 ? Loop.break(day) : Loop.continue(day + 1);
      }),
    );
    const patched = wf((ctx) =>
      ctx.loop({ name: "days", state: 0 }, async (ctx, day) => {
        await ctx.step(ctx.patched("robots") ? "automate" : "work", nothing);
        await ctx.step(ctx.patched("robots") ? "recharge" : "rest", nothing);
        return day === 2 ? Loop.break(day) : Loop.continue(day + 1);
      }),
    );
    const h = await Harness.start(old);
    await h.recover(patched);
    expect(opened(await h.resolve("work"))).toEqual(["step days/~0/rest"]);
    expect(opened(await h.resolve("rest"))).toEqual(["patch days/~1/robots", "step days/~1/automate"]);
    await h.recover();
    await h.resolve("automate");
    await h.resolve("recharge");
    expect(opened(h.commands).slice(-2)).toEqual(["patch days/~2/robots", "step days/~2/automate"]);
    await replay(patched, (await finish(h)).history());
  });

  it("V1 the next message of an entity takes the new path, the one under way does not", async () => {
    const entity = (newer: boolean) =>
      wf((ctx) =>
        ctx.receive(0, {
          signals: {
            add: async (_payload, state, ctx) => {
              const path = newer && ctx.patched("v2") ? "new" : "old";
              await ctx.step(path, nothing);
              await ctx.step(newer && ctx.patched("v2") ? "new" : "old", nothing);
              return Receive.noreply(state);
            },
          },
        }),
      );
    const h = await Harness.start(entity(false));
    await h.signal("add");
    await h.recover(entity(true));
    expect(opened(await h.resolve("old"))).toEqual(["step receive/~h0/old#1"]);
    await h.resolve("old");
    expect(opened(await h.signal("add"))).toEqual(["patch receive/~h1/v2", "step receive/~h1/new"]);
    await h.recover();
    expect(opened(await h.resolve("new"))).toEqual(["step receive/~h1/new#1"]);
    await h.recover();
  });

  it("V1 a branch that has begun keeps the old path, one that begins later takes the new", async () => {
    const body = (newer: boolean) => async (ctx: UnitContext) => {
      await ctx.step(newer && ctx.patched("v2") ? "new" : "old", nothing);
    };
    const program = (newer: boolean) =>
      wf(async (ctx) => {
        await ctx.join("first", { a: body(newer) });
        await ctx.join("second", { a: body(newer) });
      });
    const h = await Harness.start(program(false));
    await h.recover(program(true));
    expect(opened(await h.resolve("old"))).toEqual(["join second", "patch second/a/v2", "step second/a/new"]);
    await h.recover();
    await h.resolve("new");
    expect(h.status).toBe("completed");
    await h.recover();
  });

  it("V1 a branch past its last record takes the new path while its sibling is still in its old one", async () => {
    const program = (newer: boolean) =>
      wf((ctx) =>
        ctx.join("all", {
          a: async (ctx) => {
            await ctx.step("a1", nothing);
            await ctx.step(newer && ctx.patched("v2") ? "a2-new" : "a2", nothing);
          },
          b: async (ctx) => {
            const path = newer && ctx.patched("v2") ? "new" : "old";
            await ctx.step("b1", nothing);
            await ctx.step(`b2-${path}`, nothing);
          },
        }),
      );
    const h = await Harness.start(program(false));
    await h.recover(program(true));
    const commands = await h.turn(h.resolved("a1"), h.resolved("b1"));
    expect(opened(commands)).toEqual(["patch all/a/v2", "step all/a/a2-new", "step all/b/b2-old"]);
    await h.recover();
    await h.turn(h.resolved("a2-new"), h.resolved("b2-old"));
    expect(h.status).toBe("completed");
    await h.recover();
  });

  it("V1 is false where the old code passed that point without a pause, though no record came after", async () => {
    const program = (newer: boolean) =>
      wf(async (ctx) => {
        const a = ctx.step("a", nothing);
        const b = ctx.step("b", nothing);
        await a;
        const answer = newer && ctx.patched("v2");
        await b;
        return answer;
      });
    const h = await Harness.start(program(false));
    await h.resolve("a");
    await h.recover(program(true));
    await h.resolve("b");
    expect(h.output).toBe(false);
  });

  it("V1 Y2 two patches are two records, each with its own answer", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const both = [ctx.patched("p1"), ctx.patched("p2")];
        await ctx.step("pack", nothing);
        return both;
      }),
    );
    const onlySecond = wf(async (ctx) => {
      ctx.removed("p1", "patch");
      const second = ctx.patched("p2");
      await ctx.step("pack", nothing);
      return second;
    });
    await h.recover(onlySecond);
    await h.resolve("pack");
    expect(h.output).toBe(true);
  });

  it("V1 a patch that code no longer asks for is nondeterminism, not silence", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        ctx.patched("fast");
        await ctx.step("fly", nothing);
      }),
    );
    await expect(h.recover(wf((ctx) => ctx.step("fly", nothing)))).rejects.toThrow(NondeterminismError);
  });
});

describe("deprecatePatch", () => {
  const withPatch = wf(async (ctx) => {
    if (ctx.patched("fast")) await ctx.step("fly", nothing);
    else await ctx.step("ship", nothing);
  });
  const deprecated = wf(async (ctx) => {
    ctx.deprecatePatch("fast");
    await ctx.step("fly", nothing);
  });
  const cleaned = wf((ctx) => ctx.step("fly", nothing));

  it("V1 tolerates histories that have the patch", async () => {
    const h = await Harness.start(withPatch);
    await h.recover(deprecated);
    await h.resolve("fly");
    expect(h.status).toBe("completed");
  });

  it("V1 tolerates histories that have it not", async () => {
    const h = await Harness.start(cleaned);
    await h.recover(deprecated);
    await h.resolve("fly");
    expect(h.status).toBe("completed");
  });

  it("V1 code without any trace of the patch replays runs that were started under deprecatePatch", async () => {
    const h = await Harness.start(deprecated);
    await h.recover(cleaned);
    await h.resolve("fly");
    expect(h.status).toBe("completed");
    await h.recover(deprecated);
  });

  it("V1 it leaves one record per unit, however often it is called", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        ctx.deprecatePatch("fast");
        ctx.deprecatePatch("fast");
        await ctx.join("all", { a: async (ctx) => ctx.deprecatePatch("fast") });
        await ctx.step("fly", nothing);
      }),
    );
    expect(opened(h.commands)).toEqual(["patch fast", "join all", "patch all/a/fast", "step fly"]);
    expect(h.commands[0]).toMatchObject({ deprecated: true });
    await crashAnywhere(h);
  });

  it("V1 a patched() after deprecatePatch says true, and one before it keeps its answer", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        ctx.deprecatePatch("fast");
        return ctx.patched("fast");
      }),
    );
    expect(h.output).toBe(true);
  });

  it("V1 a deprecated marker at the end of a turn is tolerated by code that has done with it", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const step = ctx.step("fly", nothing);
        ctx.deprecatePatch("fast");
        await step;
      }),
    );
    await h.recover(cleaned);
    await h.resolve("fly");
    expect(h.status).toBe("completed");
  });
});

describe("version", () => {
  it("V2 ctx.version is the version that the run was started with, whatever code replays it", async () => {
    const versioned = (version: string) =>
      workflow({ name: "wf", version }, async (ctx) => {
        await ctx.step("pack", nothing);
        return [ctx.version, ctx.run.version];
      });
    const h = await Harness.start(versioned("1"));
    await h.recover(versioned("2"));
    await h.resolve("pack");
    expect(h.output).toEqual(["1", "1"]);
  });

  it("V2 it is undefined for a run that has none, in every unit the same", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const inner = await ctx.join("all", { a: async (ctx) => ctx.version === undefined });
        return [ctx.version === undefined, inner.a];
      }),
    );
    expect(h.output).toEqual([true, true]);
  });
});

/** One operation that old code made and new code does not, with the way to let it end. */
interface Case {
  readonly name: string;
  readonly kind: Parameters<UnitContext["removed"]>[1];
  readonly old: (ctx: WorkflowContext) => Promise<unknown>;
  /** Turns until it is over. None: it does not pause. */
  readonly end: readonly ((h: Harness) => Promise<unknown>)[] | "never";
  /** How its open operation is abandoned when the run waits there. */
  readonly givenUp?: readonly Command["type"][];
}
const CASES: Record<string, Case> = {
  step: { name: "old", kind: "step", old: (ctx) => ctx.step("old", nothing), end: [(h) => h.resolve("old")], givenUp: ["cancel"] },
  "failed step": {
    name: "old",
    kind: "step",
    old: (ctx) => ctx.step("old", nothing).catch(nothing),
    end: [(h) => h.fail("old", new Error("no"))],
  },
  transaction: {
    name: "old",
    kind: "transaction",
    old: (ctx) => ctx.transaction("old", nothing),
    end: [(h) => h.resolve("old")],
    givenUp: ["cancel"],
  },
  activity: { name: "send", kind: "activity", old: (ctx) => ctx.activity(send, "x"), end: [(h) => h.resolve("send")], givenUp: ["cancel"] },
  child: { name: "ship", kind: "child", old: (ctx) => ctx.child(ship, undefined), end: [(h) => h.resolve("ship")], givenUp: ["cancel"] },
  "started child": {
    name: "ship",
    kind: "child",
    old: (ctx) => ctx.startChild(ship, undefined),
    end: [(h) => h.turn({ type: "childStarted", seq: h.find("ship").seq, runId: "c1" })],
    givenUp: ["cancel"],
  },
  sleep: { name: "sleep", kind: "sleep", old: (ctx) => ctx.sleep("1h"), end: [(h) => h.fire()], givenUp: ["cancel"] },
  "signal wait": { name: "go", kind: "signal", old: (ctx) => ctx.waitForSignal("go"), end: [(h) => h.signal("go")], givenUp: ["settle"] },
  "signal wait that timed out": {
    name: "go",
    kind: "signal",
    old: (ctx) => ctx.waitForSignal("go", { timeout: "1h" }),
    end: [(h) => h.fire()],
  },
  parallel: {
    name: "parallel",
    kind: "parallel",
    old: (ctx) => ctx.parallel([(ctx) => ctx.step("a", nothing), (ctx) => ctx.step("b", nothing)]),
    end: [(h) => h.resolve("a"), (h) => h.resolve("b")],
    givenUp: ["settle", "cancel", "cancel"],
  },
  "join with branches": {
    name: "all",
    kind: "join",
    old: (ctx) =>
      ctx.join("all", {
        a: async (ctx) => {
          await ctx.step("a1", nothing);
          await ctx.step("a2", nothing);
        },
        b: (ctx) => ctx.waitForSignal("go"),
      }),
    end: [(h) => h.resolve("a1"), (h) => h.signal("go"), (h) => h.resolve("a2")],
    givenUp: ["settle", "cancel", "settle"],
  },
  race: {
    name: "first",
    kind: "race",
    old: (ctx) => ctx.race("first", { a: (ctx) => ctx.step("a", nothing), b: (ctx) => ctx.sleep("1h") }),
    end: [(h) => h.resolve("a")],
    givenUp: ["settle", "cancel", "cancel"],
  },
  loop: {
    name: "days",
    kind: "loop",
    old: (ctx) =>
      ctx.loop({ name: "days", state: 0 }, async (ctx, day) => {
        await ctx.step("work", nothing);
        return day === 2 ? Loop.break() : Loop.continue(day + 1);
      }),
    end: [(h) => h.resolve("work"), (h) => h.resolve("work"), (h) => h.resolve("work")],
    givenUp: ["settle", "cancel"],
  },
  receive: {
    name: "receive",
    kind: "receive",
    old: (ctx) =>
      ctx.receive(0, {
        signals: {
          add: async (_payload, state, ctx) => {
            await ctx.step("count", nothing);
            return Receive.noreply(state + 1);
          },
          stop: (_payload, state) => Receive.stop(state),
        },
      }),
    end: [(h) => h.signal("add"), (h) => h.resolve("count"), (h) => h.signal("stop")],
    givenUp: ["settle"],
  },
  sideEffect: { name: "sideEffect", kind: "sideEffect", old: (ctx) => ctx.sideEffect(() => 1), end: [] },
  patch: { name: "p", kind: "patch", old: async (ctx) => ctx.patched("p"), end: [] },
  "signal to another run": {
    name: "go",
    kind: "signalRun",
    old: (ctx) => ctx.signalRun("other", "go"),
    end: [(h) => h.resolve("go")],
    givenUp: ["cancel"],
  },
  "cancellation of another run": {
    name: "cancelRun",
    kind: "cancelRun",
    old: (ctx) => ctx.cancelRun("other"),
    end: [(h) => h.resolve("cancelRun")],
    givenUp: ["cancel"],
  },
  condition: {
    name: "condition",
    kind: "condition",
    old: (ctx) => ctx.condition(() => false, "1h"),
    end: [(h) => h.fire()],
    givenUp: ["settle"],
  },
  "wait for an ivar": {
    name: "ivar",
    kind: "ivar",
    old: (ctx) => {
      const cell = ctx.ivar<number>();
      cell.put(1);
      return cell.wait();
    },
    end: [],
  },
  "wait for an ivar that is never filled": {
    name: "ivar",
    kind: "ivar",
    old: (ctx) => ctx.ivar().wait(),
    end: "never",
    givenUp: ["settle"],
  },
  try: {
    name: "risky",
    kind: "try",
    old: (ctx) => ctx.try("risky", (ctx) => ctx.step("a", nothing)),
    end: [(h) => h.resolve("a")],
    givenUp: ["settle", "cancel"],
  },
  shield: {
    name: "shield",
    kind: "shield",
    old: (ctx) => ctx.shield((ctx) => ctx.step("a", nothing)),
    end: [(h) => h.resolve("a")],
    givenUp: ["settle", "cancel"],
  },
  rollbackCheckpoint: { name: "paid", kind: "rollbackCheckpoint", old: async (ctx) => ctx.rollbackCheckpoint("paid"), end: [] },
  attributes: { name: "attributes", kind: "attributes", old: async (ctx) => ctx.setAttributes({ phase: 1 }), end: [] },
  "refused activity": {
    name: "send",
    kind: "activity",
    old: (ctx) => ctx.activity(send, nothing as never).catch(nothing),
    end: [],
  },
};

describe("removed", () => {
  for (const [what, { name, kind, old, end, givenUp }] of Object.entries(CASES)) {
    const before = wf(async (ctx) => {
      await ctx.step("before", nothing);
      await old(ctx);
      await ctx.step("after", nothing);
      return "done";
    });
    const after = wf(async (ctx) => {
      await ctx.step("before", nothing);
      ctx.removed(name, kind);
      await ctx.step("after", nothing);
      return "done";
    });

    if (end !== "never")
      it(`V3 matches a ${what} in the middle of history, and the run goes on`, async () => {
        const h = await Harness.start(before);
        await h.resolve("before");
        for (const turn of end) await turn(h);
        await h.recover(after);
        expect(h.executor.hasWork).toBe(false);
        await h.resolve("after");
        expect(h.output).toBe("done");
        await replay(after, h.history());
      });

    it(`V3 matches nothing in a run that never made the ${what}`, async () => {
      const h = await Harness.start(after);
      await h.resolve("before");
      await h.recover();
      await h.resolve("after");
      expect(h.output).toBe("done");
      await crashAnywhere(h);
    });

    if (end !== "never")
      it(`V3 code with the ${what} taken out replays the whole of a finished run`, async () => {
        const last = wf(async (ctx) => {
          await ctx.step("before", nothing);
          await old(ctx);
          return "done";
        });
        const lastRemoved = wf(async (ctx) => {
          await ctx.step("before", nothing);
          ctx.removed(name, kind);
          return "done";
        });
        const h = await Harness.start(last);
        await h.resolve("before");
        for (const turn of end) await turn(h);
        expect(h.output).toBe("done");
        await replay(lastRemoved, h.history());
      });

    if (givenUp === undefined) continue;

    it(`V3 frees a run that waits at a ${what}`, async () => {
      const h = await Harness.start(before);
      await h.resolve("before");
      await h.recover(after);
      expect(h.executor.hasWork).toBe(true);
      const commands = await h.turn();
      expect(commands.map((one) => one.type)).toEqual([...givenUp, "step"]);
      expect(h.openLocations).toEqual(["after"]);
      expect(h.executor.hasWork).toBe(false);
      await h.recover();
      expect(h.executor.hasWork).toBe(false);
      await h.resolve("after");
      expect(h.output).toBe("done");
      await replay(after, h.history());
    });

    it(`V3 frees a run that waits at a ${what}, when nothing comes after it`, async () => {
      const freed = wf(async (ctx) => {
        await ctx.step("before", nothing);
        ctx.removed(name, kind);
        return "done";
      });
      const h = await Harness.start(before);
      await h.resolve("before");
      await h.recover(freed);
      expect(h.executor.hasWork).toBe(true);
      await h.turn();
      expect(h.output).toBe("done");
      expect(h.openLocations).toEqual([]);
      await replay(freed, h.history());
    });

    it(`V3 frees a run that waits at a ${what}, in the turn of the next job`, async () => {
      const h = await Harness.start(before);
      await h.resolve("before");
      await h.recover(after);
      const commands = await h.signal("unrelated");
      expect(commands.map((one) => one.type)).toEqual([...givenUp, "step"]);
      await h.recover();
      await h.resolve("after");
      expect(h.output).toBe("done");
    });
  }

  it("V3 a late result of a removed operation that was abandoned is dropped", async () => {
    const after = wf(async (ctx) => {
      ctx.removed("old", "step");
      await ctx.step("after", nothing);
      return "done";
    });
    const h = await Harness.start(wf((ctx) => ctx.step("old", nothing)));
    const late = h.resolved("old", 1);
    await h.recover(after);
    await h.turn();
    expect(await h.turn(late)).toEqual([]);
    await h.recover();
    await h.resolve("after");
    expect(h.output).toBe("done");
    await replay(after, h.history());
  });

  it("V3 matches only its own kind and name", async () => {
    const h = await Harness.start(wf((ctx) => ctx.step("old", nothing)));
    for (const [name, kind] of [
      ["other", "step"],
      ["old", "sleep"],
      ["old", "transaction"],
    ] as const) {
      const wrong = wf(async (ctx) => {
        ctx.removed(name, kind);
        await ctx.sleep("1h");
      });
      await expect(h.recover(wrong)).rejects.toThrow(NondeterminismError);
    }
  });

  it("V3 takes one operation; a second of the same name needs a second call", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("old", nothing);
        await ctx.step("old", nothing);
        await ctx.step("after", nothing);
      }),
    );
    await h.resolve("old");
    await h.resolve("old");
    const removals = (count: number) =>
      wf(async (ctx) => {
        for (let i = 0; i < count; i++) ctx.removed("old", "step");
        await ctx.step("after", nothing);
      });
    await expect(h.recover(removals(1))).rejects.toThrow(NondeterminismError);
    await h.recover(removals(2));
    await h.resolve("after");
    expect(h.status).toBe("completed");
  });

  it("V3 one of two operations of a name: the numbers of the others stay as recorded", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("pay", nothing);
        await ctx.step("pay", nothing);
        await ctx.step("pay", nothing);
      }),
    );
    await h.resolve("pay");
    const after = wf(async (ctx) => {
      ctx.removed("pay", "step");
      await ctx.step("pay", nothing);
      await ctx.step("pay", nothing);
    });
    await h.recover(after);
    expect(h.openLocations).toEqual(["pay#1"]);
    await h.resolve("pay#1");
    expect(h.openLocations).toEqual(["pay#2"]);
    await h.resolve("pay#2");
    expect(h.status).toBe("completed");
    await replay(after, h.history());
  });

  const two = {
    old: wf(async (ctx) => {
      await ctx.step("one", nothing);
      await ctx.sleep("1h");
      await ctx.step("after", nothing);
      return "done";
    }),
    after: wf(async (ctx) => {
      ctx.removed("one", "step");
      ctx.removed("sleep", "sleep");
      await ctx.step("after", nothing);
      return "done";
    }),
  };
  it("V3 two removals in a row, both over", async () => {
    const h = await Harness.start(two.old);
    await h.resolve("one");
    await h.fire();
    await h.recover(two.after);
    await h.resolve("after");
    expect(h.output).toBe("done");
    await replay(two.after, h.history());
  });
  it("V3 two removals in a row, the run waits at the first", async () => {
    const h = await Harness.start(two.old);
    await h.recover(two.after);
    expect(opened(await h.turn())).toEqual(["step after"]);
    await h.recover();
    await h.resolve("after");
    await replay(two.after, h.history());
  });
  it("V3 two removals in a row, the run waits at the second", async () => {
    const h = await Harness.start(two.old);
    await h.resolve("one");
    await h.recover(two.after);
    expect(opened(await h.turn())).toEqual(["step after"]);
    await h.recover();
    await h.resolve("after");
    await replay(two.after, h.history());
  });

  it("V3 removals with an operation between them", async () => {
    const old = wf(async (ctx) => {
      await ctx.step("one", nothing);
      await ctx.step("kept", nothing);
      await ctx.step("two", nothing);
      await ctx.step("after", nothing);
    });
    const after = wf(async (ctx) => {
      ctx.removed("one", "step");
      await ctx.step("kept", nothing);
      ctx.removed("two", "step");
      await ctx.step("after", nothing);
    });
    const h = await Harness.start(old);
    for (const name of ["one", "kept", "two"]) {
      await h.resolve(name);
      await replay(after, h.history());
    }
    await h.recover(after);
    await h.resolve("after");
    expect(h.status).toBe("completed");
    await replay(after, h.history());
  });

  it("V3 followed by operations that start together", async () => {
    const program = (first: (ctx: WorkflowContext) => Promise<unknown>) =>
      wf(async (ctx) => {
        await first(ctx);
        return Promise.all([ctx.step("a", nothing), ctx.step("b", nothing), ctx.sideEffect(() => 3)]);
      });
    const after = program(async (ctx) => ctx.removed("old", "step"));
    const h = await Harness.start(program((ctx) => ctx.step("old", nothing)));
    await h.resolve("old");
    await h.recover(after);
    await h.turn(h.resolved("b", 2), h.resolved("a", 1));
    expect(h.output).toEqual([1, 2, 3]);
    await replay(after, h.history());
  });

  it("V3 of one of several operations that had started together", async () => {
    const old = wf(async (ctx) => {
      await Promise.all([ctx.step("old", nothing), ctx.step("kept", nothing)]);
      await ctx.step("after", nothing);
    });
    const after = wf(async (ctx) => {
      ctx.removed("old", "step");
      await ctx.step("kept", nothing);
      await ctx.step("after", nothing);
    });
    for (const order of [
      ["old", "kept"],
      ["kept", "old"],
    ]) {
      const h = await Harness.start(old);
      await replay(after, h.history());
      for (const name of order) {
        await h.resolve(name);
        await replay(after, h.history());
      }
      await h.recover(after);
      await h.resolve("after");
      expect(h.status).toBe("completed");
      await replay(after, h.history());
    }
  });

  it("V3 of the last of several operations that had started together", async () => {
    const old = wf(async (ctx) => {
      await Promise.all([ctx.step("kept", nothing), ctx.step("old", nothing)]);
      await ctx.step("after", nothing);
    });
    const after = wf(async (ctx) => {
      const kept = ctx.step("kept", nothing);
      ctx.removed("old", "step");
      await kept;
      await ctx.step("after", nothing);
    });
    for (const order of [
      ["old", "kept"],
      ["kept", "old"],
    ]) {
      const h = await Harness.start(old);
      for (const name of order) await h.resolve(name);
      await h.recover(after);
      await h.resolve("after");
      expect(h.status).toBe("completed");
      await replay(after, h.history());
    }
  });

  const branches = {
    old: wf((ctx) =>
      ctx.join("all", {
        a: async (ctx) => {
          await ctx.step("old", nothing);
          await ctx.step("a", nothing);
        },
        b: async (ctx) => {
          await ctx.step("b1", nothing);
          await ctx.step("b2", nothing);
        },
      }),
    ),
    after: wf((ctx) =>
      ctx.join("all", {
        a: async (ctx) => {
          ctx.removed("old", "step");
          await ctx.step("a", nothing);
        },
        b: async (ctx) => {
          await ctx.step("b1", nothing);
          await ctx.step("b2", nothing);
        },
      }),
    ),
  };
  it("V3 in a branch whose sibling has records in the same turns", async () => {
    for (const turns of [
      [
        ["old", "b1"],
        ["a", "b2"],
      ],
      [
        ["b1", "old"],
        ["b2", "a"],
      ],
      [["old"], ["b1"], ["b2"], ["a"]],
      [["b1"], ["b2"], ["old"], ["a"]],
    ]) {
      const h = await Harness.start(branches.old);
      await replay(branches.after, h.history());
      for (const names of turns) {
        await h.turn(...names.map((name) => h.resolved(name)));
        await replay(branches.after, h.history());
      }
      expect(h.status).toBe("completed");
    }
  });
  it("V3 frees a branch in the same turn in which its sibling acts, and that turn replays", async () => {
    const h = await Harness.start(branches.old);
    await h.recover(branches.after);
    const commands = await h.resolve("b1");
    expect(opened(commands)).toEqual(["step all/a/a", "step all/b/b2"]);
    await h.recover();
    await h.turn(h.resolved("a"), h.resolved("b2"));
    expect(h.status).toBe("completed");
    await replay(branches.after, h.history());
  });
  it("V3 with nothing after it in a branch, where the branch ended in history", async () => {
    const program = (newer: boolean) =>
      wf((ctx) =>
        ctx.join("all", {
          a: async (ctx) => {
            if (newer) ctx.removed("old", "step");
            else await ctx.step("old", nothing);
            return 1;
          },
          b: (ctx) => ctx.step("b", nothing),
        }),
      );
    for (const order of [
      ["old", "b"],
      ["b", "old"],
    ]) {
      const h = await Harness.start(program(false));
      for (const name of order) {
        await h.resolve(name, 2);
        await replay(program(true), h.history());
      }
      expect(h.output).toEqual({ a: 1, b: 2 });
    }
  });

  it("V3 signals that a removed wait had taken stay taken, others stay buffered", async () => {
    const old = wf(async (ctx) => {
      await ctx.waitForSignal("go");
      await ctx.step("after", nothing);
      return ctx.waitForSignal("go");
    });
    const after = wf(async (ctx) => {
      ctx.removed("go", "signal");
      await ctx.step("after", nothing);
      return ctx.waitForSignal("go");
    });
    const h = await Harness.start(old);
    await h.turn(h.signalJob("go", 1), h.signalJob("go", 2));
    await h.recover(after);
    await h.resolve("after");
    expect(h.output).toBe(2);
    await replay(after, h.history());
  });

  it("V3 M2 a signal that a removed loop's commit carried is not lost", async () => {
    const old = wf(async (ctx) => {
      await ctx.loop({ name: "days", state: 0, commitInterval: 1 }, async (ctx, day) => {
        await ctx.step("work", nothing);
        return day === 1 ? Loop.break() : Loop.continue(day + 1);
      });
      await ctx.step("after", nothing);
      return ctx.waitForSignal("go");
    });
    const after = wf(async (ctx) => {
      ctx.removed("days", "loop");
      await ctx.step("after", nothing);
      return ctx.waitForSignal("go");
    });
    const h = await Harness.start(old);
    await h.signal("go", "kept");
    await h.resolve("work");
    await h.resolve("work");
    await h.recover(after);
    await h.resolve("after");
    expect(h.output).toBe("kept");
    await replay(after, h.history());
  });

  it("V3 a loop whose history was trimmed can be removed", async () => {
    const old = wf(async (ctx) => {
      await ctx.loop({ name: "days", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (ctx, day) => {
        await ctx.step("work", nothing);
        return day === 3 ? Loop.break() : Loop.continue(day + 1);
      });
      await ctx.step("after", nothing);
    });
    const after = wf(async (ctx) => {
      ctx.removed("days", "loop");
      await ctx.step("after", nothing);
    });
    const h = await Harness.start(old);
    for (let day = 0; day <= 3; day++) {
      await h.resolve("work");
      await replay(after, h.history());
    }
    await h.recover(after);
    await h.resolve("after");
    expect(h.status).toBe("completed");
  });

  it("V3 and patched go together: what replaces the old operation", async () => {
    const old = wf(async (ctx) => {
      await ctx.step("old", nothing);
      await ctx.step("after", nothing);
    });
    const after = wf(async (ctx) => {
      ctx.removed("old", "step");
      if (ctx.patched("v2")) await ctx.step("new", nothing);
      await ctx.step("after", nothing);
    });
    const past = await Harness.start(old);
    await past.resolve("old");
    await past.recover(after);
    expect(past.openLocations).toEqual(["after"]);
    await past.resolve("after");
    await replay(after, past.history());

    const fresh = await Harness.start(after);
    expect(opened(fresh.commands)).toEqual(["patch v2", "step new"]);
    await crashAnywhere(fresh);
  });

  it("V3 V1 a run that waited at the removed operation is past its last record: the new path", async () => {
    const after = wf(async (ctx) => {
      ctx.removed("old", "step");
      if (ctx.patched("v2")) await ctx.step("new", nothing);
      else await ctx.step("after", nothing);
    });
    const h = await Harness.start(wf((ctx) => ctx.step("old", nothing)));
    await h.recover(after);
    expect(opened(await h.turn())).toEqual(["patch v2", "step new"]);
    await h.recover();
    await h.resolve("new");
    expect(h.status).toBe("completed");
    await replay(after, h.history());
  });

  it("V3 K2 a run that was cancelled at the removed operation stays canceled", async () => {
    const old = wf(async (ctx) => {
      await ctx.step("old", nothing);
      await ctx.step("after", nothing);
    });
    const after = wf(async (ctx) => {
      ctx.removed("old", "step");
      await ctx.step("after", nothing);
    });
    const h = await Harness.start(old);
    await h.cancel();
    expect(h.status).toBe("canceled");
    await replay(after, h.history());
  });

  it("V3 K1 a cancel that comes when the run is freed reaches it", async () => {
    const after = wf(async (ctx) => {
      ctx.removed("old", "step");
      await ctx.step("after", nothing);
    });
    const h = await Harness.start(wf((ctx) => ctx.step("old", nothing)));
    await h.recover(after);
    await h.cancel();
    expect(h.status).toBe("canceled");
    expect(h.openLocations).toEqual([]);
    await replay(after, h.history());
  });

  it("V3 inside an iteration of a loop: old iterations match, new ones have nothing to match", async () => {
    const program = (newer: boolean) =>
      wf((ctx) =>
        ctx.loop({ name: "days", state: 0 }, async (ctx, day) => {
          if (newer) ctx.removed("old", "step");
          else await ctx.step("old", nothing);
          await ctx.step("work", nothing);
          return day === 2 ? Loop.break() : Loop.continue(day + 1);
        }),
      );
    const h = await Harness.start(program(false));
    await h.resolve("old");
    await h.resolve("work");
    await h.recover(program(true));
    expect(opened(await h.turn())).toEqual(["step days/~1/work"]);
    await h.resolve("work");
    await h.recover();
    await h.resolve("work");
    expect(h.status).toBe("completed");
    await replay(program(true), h.history());
  });

  it("V3 non-pausing records after it keep their place", async () => {
    const program = (newer: boolean) =>
      wf(async (ctx) => {
        if (newer) ctx.removed("old", "step");
        else await ctx.step("old", nothing);
        ctx.setAttributes({ phase: "two" });
        ctx.rollbackCheckpoint("safe");
        const value = await ctx.sideEffect(() => 5);
        await ctx.step("after", nothing);
        return value;
      });
    const h = await Harness.start(program(false));
    await h.resolve("old");
    await h.recover(program(true));
    await h.resolve("after");
    expect(h.output).toBe(5);
    await replay(program(true), h.history());
  });

  it("V3 a started child and the wait for its result are two operations of the child", async () => {
    const old = wf(async (ctx) => {
      const handle = await ctx.startChild(ship, undefined);
      await ctx.step("meanwhile", nothing);
      await handle.result();
      await ctx.step("after", nothing);
    });
    const after = wf(async (ctx) => {
      ctx.removed("ship", "child");
      await ctx.step("meanwhile", nothing);
      ctx.removed("ship", "child");
      await ctx.step("after", nothing);
    });
    const h = await Harness.start(old);
    const { seq } = h.find("ship");
    await h.turn({ type: "childStarted", seq, runId: "c1" });
    await replay(after, h.history());
    await h.resolve("meanwhile");
    await replay(after, h.history());
    await h.turn({ type: "resolve", seq, outcome: { status: "completed", value: "1" } });
    await h.recover(after);
    await h.resolve("after");
    expect(h.status).toBe("completed");
    await replay(after, h.history());
  });

  it("V3 of an operation that old code did not wait for to go on", async () => {
    const old = wf(async (ctx) => {
      await Promise.race([ctx.step("old", nothing), ctx.step("kept", nothing)]);
      await ctx.step("after", nothing);
    });
    const after = wf(async (ctx) => {
      ctx.removed("old", "step");
      await ctx.step("kept", nothing);
      await ctx.step("after", nothing);
    });
    const h = await Harness.start(old);
    await h.resolve("kept");
    await replay(after, h.history());
    await h.resolve("after");
    expect(h.status).toBe("sleeping"); // P3: it is joined
    await replay(after, h.history());
    await h.resolve("old");
    expect(h.status).toBe("completed");
    await replay(after, h.history());
  });

  it("V3 in a branch that lost its race while it waited there", async () => {
    const program = (newer: boolean) =>
      wf(async (ctx) => {
        const { winner } = await ctx.race("first", {
          a: async (ctx) => {
            if (newer) ctx.removed("old", "step");
            else await ctx.step("old", nothing);
            await ctx.step("a", nothing);
          },
          b: (ctx) => ctx.step("b", nothing),
        });
        return winner;
      });
    const h = await Harness.start(program(false));
    await h.resolve("b");
    expect(h.output).toBe("b");
    await replay(program(true), h.history());
  });

  it("V3 C7 of a step with a rollback that was being joined when the run was cancelled", async () => {
    const program = (newer: boolean) =>
      wf(async (ctx) => {
        if (newer) ctx.removed("old", "step");
        else await ctx.step("old", nothing, { rollback: nothing });
        await ctx.step("after", nothing);
      });
    const h = await Harness.start(program(false));
    await h.cancel();
    await replay(program(true), h.history());
    await h.resolve("old");
    expect(h.status).toBe("canceled");
    await replay(program(true), h.history());
  });

  it("V3 K7 in a run whose deadline struck while it waited there", async () => {
    const program = (newer: boolean) =>
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, { rollback: nothing });
        if (newer) ctx.removed("sleep", "sleep");
        else await ctx.sleep("1h");
        await ctx.step("after", nothing);
      });
    const h = await Harness.start(program(false));
    await h.resolve("reserve");
    await h.turn({ type: "expire", error: { name: "DeadlineExceededError", message: "late" } });
    await replay(program(true), h.history());
    await h.resolve("~rollback/reserve");
    expect(h.status).toBe("failed");
    await replay(program(true), h.history());
  });

  it("V3 M6 of the first of two that wait for one signal: the signal it took is not the other's", async () => {
    const program = (newer: boolean) =>
      wf((ctx) =>
        ctx.join("all", {
          a: async (ctx) => {
            if (newer) ctx.removed("go", "signal");
            else await ctx.waitForSignal("go");
          },
          b: (ctx) => ctx.waitForSignal("go"),
        }),
      );
    const h = await Harness.start(program(false));
    await h.signal("go", 1);
    await replay(program(true), h.history());
    await h.recover(program(true));
    await h.signal("go", 2);
    expect(h.output).toEqual({ b: 2 });
    await replay(program(true), h.history());
  });

  it("V3 with a patch asked for after an operation that was put off", async () => {
    const old = wf(async (ctx) => {
      await ctx.step("old", nothing);
      const kept = ctx.step("kept", nothing);
      ctx.patched("v2");
      await kept;
      await ctx.step("after", nothing);
    });
    const answers: boolean[] = [];
    const after = wf(async (ctx) => {
      ctx.removed("old", "step");
      const kept = ctx.step("kept", nothing);
      answers.push(ctx.patched("v2"));
      await kept;
      await ctx.step("after", nothing);
    });
    const h = await Harness.start(old);
    await h.resolve("old");
    await h.resolve("kept");
    await replay(after, h.history());
    expect(answers).toEqual([true]);
  });

  it("V3 X8 a foreign await after it is still caught", async () => {
    const after = wf(async (ctx) => {
      ctx.removed("old", "step");
      await new Promise(nothing);
    });
    const h = await Harness.start(wf((ctx) => ctx.step("old", nothing)));
    await expect(h.recover(after)).rejects.toMatchObject({ name: "ForeignAwaitError" });
  });

  it("V3 M10 the caller of an update whose receive was removed gets an answer", async () => {
    const old = wf((ctx) =>
      ctx.receive(0, {
        updates: {
          pay: async (_input: unknown, state: number, ctx) => {
            await ctx.step("charge", nothing);
            return Receive.reply("paid", state);
          },
        },
      }),
    );
    const after = wf(async (ctx) => {
      ctx.removed("receive", "receive");
      return "done";
    });
    const h = await Harness.start(old);
    await h.update("pay", 1, "u1");
    await h.recover(after);
    await h.turn();
    expect(h.output).toBe("done");
    expect(h.updateResult("u1")).toMatchObject({ error: { name: "ReceiveClosedError" } });
    await replay(after, h.history());
  });
});

describe("a run whose code has diverged", () => {
  const old = wf(async (ctx) => {
    await ctx.step("pack", nothing, { rollback: nothing });
    await ctx.step("ship", nothing);
    return "done";
  });
  const other = wf(async (ctx) => {
    await ctx.step("wrap", nothing, { rollback: nothing });
    return "other";
  });

  it("V4 is neither failed, nor compensated, nor completed: nothing of the turn counts", async () => {
    const h = await Harness.start(old);
    await h.resolve("pack");
    const length = h.turns.length;
    await expect(h.recover(other)).rejects.toThrow(NondeterminismError);
    expect(h.turns).toHaveLength(length);
    expect(h.status).toBe("sleeping");
  });

  it("V4 says location, expected and actual", async () => {
    const h = await Harness.start(old);
    const error = await h.recover(other).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      name: "NondeterminismError",
      code: "HF_NONDETERMINISM",
      location: "pack",
      field: "name",
      expected: 'step "pack"',
      actual: 'step "wrap"',
    });
  });

  it("V4 the executor is of no more use: each activation gives the same error", async () => {
    const h = await Harness.start(old);
    const error = await h.recover(other).catch((thrown: unknown) => thrown);
    const completion = await h.executor.activate({ time: h.time, jobs: [h.resolved("pack")] });
    expect(completion).toEqual({ status: "failed", error });
  });

  it("V4 user code can't swallow it", async () => {
    const swallowing = wf(async (ctx) => {
      try {
        await ctx.step("wrap", nothing);
      } catch {
        return "swallowed";
      }
      return "other";
    });
    const h = await Harness.start(old);
    await expect(h.recover(swallowing)).rejects.toThrow(NondeterminismError);
    expect(h.status).toBe("sleeping");
  });

  it("V4 the run itself is unharmed: the right code goes on", async () => {
    const h = await Harness.start(old);
    await expect(h.recover(other)).rejects.toThrow(NondeterminismError);
    await h.recover(old);
    await h.resolve("pack");
    await h.resolve("ship");
    expect(h.output).toBe("done");
    await crashAnywhere(h);
  });

  it("V4 code that breaks a rule in a live turn blocks the same way, and other code goes on from there", async () => {
    const broken = wf(async (ctx) => {
      await ctx.step("pack", nothing, { rollback: nothing });
      await new Promise(() => {});
    });
    const h = await Harness.start(broken);
    const result = h.resolved("pack");
    await expect(h.turn(result)).rejects.toMatchObject({ name: "ForeignAwaitError" });
    expect(h.status).toBe("sleeping");
    expect(h.turns).toHaveLength(1);
    await h.recover(old);
    await h.turn(result);
    await h.resolve("ship");
    expect(h.output).toBe("done");
  });

  it("V4 a workflow that would have completed or failed after the divergence does neither", async () => {
    const h = await Harness.start(old);
    const throwing = wf(async () => {
      throw new Error("mine");
    });
    const returning = wf(async () => "early");
    await expect(h.recover(throwing)).rejects.toThrow(NondeterminismError);
    await expect(h.recover(returning)).rejects.toThrow(NondeterminismError);
    expect(h.terminal).toBeUndefined();
  });
});

/** Answers whatever is open until the run is over. */
async function finish(h: Harness): Promise<Harness> {
  while (h.terminal === undefined) await h.turn(...h.openLocations.map((location) => h.resolved(location)));
  return h;
}
