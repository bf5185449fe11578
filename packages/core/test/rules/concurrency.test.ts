// Job: prove structured concurrency: scopes, operations of one unit side by side, conditions and cells, what cancelling does.
// Owns: the workflows in it. Who may do what where is in nesting.test.ts, the order of steps in scheduler.test.ts.
// Invariants: C1 to C7, P3 (scopes join), K1 (cancellation reaches branches).
import {
  CanceledError,
  type Command,
  formatLocation,
  IllegalCallError,
  type IVar,
  JoinError,
  NondeterminismError,
  RaceError,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const locations = (commands: readonly Command[]) =>
  commands.flatMap((command) => ("n" in command ? [formatLocation(command.unit, command.name, command.n)] : []));
const types = (commands: readonly Command[]) => commands.map((command) => command.type);

describe("C1 parallel", () => {
  it("C1 returns settled results in input order, whatever order they ended in", async () => {
    const wf = workflow("three", async (ctx) =>
      ctx.parallel([(c) => c.step("a", () => ""), (c) => c.step("b", () => ""), (c) => c.step("c", () => "")]),
    );
    const h = await Harness.start(wf);
    await h.resolve("c", 3);
    await h.resolve("a", 1);
    await h.resolve("b", 2);
    expect(h.output).toEqual([
      { status: "fulfilled", value: 1 },
      { status: "fulfilled", value: 2 },
      { status: "fulfilled", value: 3 },
    ]);
    await crashAnywhere(h);
  });

  it("C1 runs every branch to its end though another has failed", async () => {
    const wf = workflow("fails", async (ctx) => {
      const [bad, good] = await ctx.parallel([
        async (): Promise<number> => {
          throw new TypeError("broken");
        },
        async (c) => {
          await c.step("one", () => 1);
          return c.step("two", () => 2);
        },
      ]);
      return [bad.status === "rejected" && (bad.reason as Error).message, good.status];
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("sleeping");
    await h.resolve("one", 1);
    await h.resolve("two", 2);
    expect(h.output).toEqual(["broken", "fulfilled"]);
    await crashAnywhere(h);
  });

  it("C1 P3 returns only after a branch's own leftovers have been joined", async () => {
    const wf = workflow("leftover", async (ctx) => {
      await ctx.parallel([
        async (c) => {
          void c.step("leftover", () => 0);
          return "returned";
        },
      ]);
      return "joined";
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("sleeping");
    await h.resolve("leftover");
    expect(h.output).toBe("joined");
    await crashAnywhere(h);
  });

  it("C1 of nothing is an empty list, without a pause", async () => {
    const h = await Harness.start(workflow("none", async (ctx) => ctx.parallel([])));
    expect(h.output).toEqual([]);
    await crashAnywhere(h);
  });

  it("C1 a branch may throw what is not an error", async () => {
    const thrown: unknown[] = [undefined, null, "text", 7, Object.create(null)];
    const wf = workflow("odd", async (ctx) => {
      const results = await ctx.parallel(
        thrown.map((value) => async () => {
          throw value;
        }),
      );
      return results.map((result) => result.status === "rejected" && thrown.indexOf(result.reason));
    });
    expect((await Harness.start(wf)).output).toEqual([0, 1, 2, 3, 4]);
  });
});

describe("C2 join", () => {
  it("C2 returns values by key", async () => {
    const wf = workflow("keys", async (ctx) =>
      ctx.join("load", { user: (c) => c.step("u", () => ""), cart: (c) => c.step("c", () => "") }),
    );
    const h = await Harness.start(wf);
    expect(h.openLocations).toEqual(["load/user/u", "load/cart/c"]);
    await h.resolve("c", "a cart");
    await h.resolve("u", "a user");
    expect(h.output).toEqual({ user: "a user", cart: "a cart" });
    expect(Object.keys(h.output as object)).toEqual(["user", "cart"]);
    await crashAnywhere(h);
  });

  it("C2 throws JoinError with every branch error, after all have ended", async () => {
    let caught: unknown;
    const wf = workflow("bad", async (ctx) => {
      try {
        await ctx.join("load", {
          a: async (c) => {
            await c.step("a", () => 0);
            throw new TypeError("a is broken");
          },
          b: (c) => c.step("b", () => 0),
          c: (c) => c.step("c", () => 0),
        });
      } catch (error) {
        caught = error;
        throw error;
      }
    });
    const h = await Harness.start(wf);
    await h.resolve("a");
    await h.fail("c", new Error("c is broken"));
    expect(h.status).toBe("sleeping");
    await h.resolve("b");
    expect(h.status).toBe("failed");
    expect(caught).toBeInstanceOf(JoinError);
    const { errors } = caught as JoinError;
    expect(Object.keys(errors)).toEqual(["a", "c"]);
    expect(errors["a"]).toBeInstanceOf(TypeError);
    expect(errors["c"]).toMatchObject({ name: "StepFailedError" });
    await crashAnywhere(h);
  });

  it("C2 makes errors of what branches throw that is none", async () => {
    const wf = workflow("odd", async (ctx) =>
      ctx
        .join("j", {
          text: async () => {
            throw "text";
          },
          bare: async () => {
            throw Object.create(null);
          },
          symbol: async () => {
            throw Symbol("s");
          },
        })
        .catch((error: JoinError) => Object.values(error.errors).map((one) => one instanceof Error)),
    );
    expect((await Harness.start(wf)).output).toEqual([true, true, true]);
  });

  it("C2 of nothing is an empty object", async () => {
    expect((await Harness.start(workflow("none", async (ctx) => ctx.join("j", {})))).output).toEqual({});
  });
});

describe("C3 race", () => {
  const two = workflow("two", async (ctx) => ctx.race("first", { a: (c) => c.step("a", () => ""), b: (c) => c.step("b", () => "") }));

  it("C3 yields the first branch to succeed, and the winner is recorded in that turn", async () => {
    const h = await Harness.start(two);
    const commands = await h.resolve("b", "B");
    expect(h.output).toEqual({ winner: "b", value: "B" });
    expect(types(commands)).toEqual(["winner", "cancel", "settle", "complete"]);
    expect(commands[0]).toMatchObject({ key: "b" });
    await crashAnywhere(h);
  });

  it("C3 of two that succeed in one activation the one whose branch runs first wins, not the one whose job came first", async () => {
    const h = await Harness.start(two);
    await h.turn(h.resolved("b", "B"), h.resolved("a", "A"));
    expect(h.output).toEqual({ winner: "a", value: "A" });
    await crashAnywhere(h);
  });

  it("C3 of two in one activation the one that needs fewer rounds wins", async () => {
    const wf = workflow("rounds", async (ctx) =>
      ctx.race("first", {
        slow: async (c) => {
          await c.yield();
          await c.yield();
          return "slow";
        },
        fast: async () => "fast",
      }),
    );
    const h = await Harness.start(wf);
    expect(h.output).toEqual({ winner: "fast", value: "fast" });
    await crashAnywhere(h);
  });

  it("C3 a branch that fails does not win while another may", async () => {
    const h = await Harness.start(two);
    await h.fail("a", new Error("no"));
    expect(h.status).toBe("sleeping");
    await h.resolve("b", "B");
    expect(h.output).toEqual({ winner: "b", value: "B" });
    await crashAnywhere(h);
  });

  it("C3 the others are cancelled, their code sees CanceledError, and they are joined before the race returns", async () => {
    const seen: string[] = [];
    const wf = workflow("joined", async (ctx) => {
      await ctx.race("first", {
        quick: (c) => c.step("quick", () => 0),
        slow: async (c) => {
          try {
            await c.sleep("1d");
          } catch (error) {
            seen.push((error as Error).name, String(c.signal.aborted));
            await c.shield((own) => own.step("cleanup", () => 0));
            seen.push("cleaned up");
            throw error;
          }
        },
      });
      seen.push("race over");
    });
    const h = await Harness.start(wf);
    await h.resolve("quick");
    expect(seen).toEqual(["CanceledError", "true"]);
    expect(h.status).toBe("sleeping");
    expect(h.openLocations).toEqual(["first/slow/shield/cleanup"]);
    await h.resolve("cleanup");
    expect(seen).toEqual(["CanceledError", "true", "cleaned up", "race over"]);
    await crashAnywhere(h);
  });

  it("C3 a loser that swallows its cancellation and returns does not win", async () => {
    const wf = workflow("stubborn", async (ctx) =>
      ctx.race("first", { a: (c) => c.step("a", () => ""), b: (c) => c.sleep("1d").catch(() => "stubborn") }),
    );
    const h = await Harness.start(wf);
    await h.resolve("a", "A");
    expect(h.output).toEqual({ winner: "a", value: "A" });
    await crashAnywhere(h);
  });

  it("C3 new pausing calls of a loser throw at once", async () => {
    const wf = workflow("loser", async (ctx) =>
      ctx.race("first", {
        a: (c) => c.step("a", () => ""),
        b: async (c) => {
          await c.sleep("1d").catch(() => {});
          await c.step("never", () => 0);
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.resolve("a", "A");
    expect(h.status).toBe("completed");
    expect(locations(h.commands)).not.toContain("first/b/never");
    await crashAnywhere(h);
  });

  it("C3 nested scopes of a loser are cancelled too", async () => {
    const wf = workflow("deep", async (ctx) =>
      ctx.race("first", {
        a: (c) => c.step("a", () => ""),
        b: (c) => c.join("inner", { x: (own) => own.waitForSignal("never"), y: (own) => own.parallel([(deep) => deep.sleep("1d")]) }),
      }),
    );
    const h = await Harness.start(wf);
    await h.resolve("a", "A");
    expect(h.output).toEqual({ winner: "a", value: "A" });
    expect(h.timers.size).toBe(0);
    expect(h.executor.openOperations).toEqual([]);
    await crashAnywhere(h);
  });

  it("C3 the scope around a race is not cancelled with its losers", async () => {
    const wf = workflow("around", async (ctx) => {
      await ctx.race("first", { a: async () => 1, b: (c) => c.sleep("1d") });
      return ctx.step("after", () => 0);
    });
    const h = await Harness.start(wf);
    await h.resolve("after", "went on");
    expect(h.output).toBe("went on");
    await crashAnywhere(h);
  });

  it("C3 if every branch fails it is a RaceError with their errors", async () => {
    let caught: unknown;
    const wf = workflow("none", async (ctx) => {
      try {
        await ctx.race("first", { a: (c) => c.step("a", () => 0), b: (c) => c.step("b", () => 0) });
      } catch (error) {
        caught = error;
      }
    });
    const h = await Harness.start(wf);
    await h.turn(h.failed("a", new Error("no a")), h.failed("b", new Error("no b")));
    expect(caught).toBeInstanceOf(RaceError);
    expect(Object.keys((caught as RaceError).errors)).toEqual(["a", "b"]);
    await crashAnywhere(h);
  });

  it("C3 of nothing is refused, since nothing could win it", async () => {
    const h = await Harness.start(workflow("none", async (ctx) => ctx.race("r", {}).catch((error: Error) => error.name)));
    expect(h.output).toBe("InvalidInputError");
    await crashAnywhere(h);
  });
});

describe("C4 branch order, and what never lands in a slot", () => {
  it.each(["parallel", "join", "race"] as const)("C4 first operations of a %s are emitted in branch order", async (kind) => {
    const branches = ["zeta", "alpha", "mid"] as const;
    const wf = workflow("order", async (ctx): Promise<unknown> => {
      if (kind === "parallel") return ctx.parallel(branches.map((key) => (c) => c.step(key, () => 0)));
      return ctx[kind]("scope", {
        zeta: (c) => c.step("zeta", () => 0),
        alpha: (c) => c.step("alpha", () => 0),
        mid: (c) => c.step("mid", () => 0),
      });
    });
    const h = await Harness.start(wf);
    expect(h.openLocations.map((location) => location.split("/").at(-1))).toEqual([...branches]);
  });

  const scopes = {
    parallel: workflow("parallel", async (ctx) => ctx.parallel([(c) => c.sleep("1d"), (c) => c.step("s", () => 0)])),
    join: workflow("join", async (ctx) => ctx.join("j", { a: (c) => c.sleep("1d"), b: (c) => c.step("s", () => 0) })),
    race: workflow("race", async (ctx) => ctx.race("r", { a: (c) => c.sleep("1d"), b: (c) => c.step("s", () => 0) })),
    try: workflow("try", async (ctx) => ctx.try("t", (c) => c.sleep("1d"))),
    loop: workflow("loop", async (ctx) => ctx.loop("l", async (c) => c.sleep("1d"))),
  };
  it.each(Object.keys(scopes) as (keyof typeof scopes)[])("C4 K1 cancellation passes through %s as CanceledError", async (kind) => {
    let caught: unknown;
    const inner = scopes[kind];
    const wf = workflow(inner.name, async (ctx) => {
      try {
        return await (inner.run(ctx, undefined) as Promise<unknown>);
      } catch (error) {
        caught = error;
        throw error;
      }
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(caught).toBeInstanceOf(CanceledError);
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  it("C4 under cancellation a scope joins its units before it throws, and no branch can win a race any more", async () => {
    const order: string[] = [];
    const wf = workflow("joins", async (ctx) => {
      try {
        await ctx.race("r", {
          tidy: async (c) => {
            try {
              await c.sleep("1d");
            } finally {
              await c.shield((own) => own.step("tidy", () => 0));
              order.push("tidied");
            }
          },
          wins: (c) => c.sleep("1d").catch(() => "a success after the cancellation"),
        });
      } catch (error) {
        order.push((error as Error).name);
        throw error;
      }
    });
    const h = await Harness.start(wf);
    await h.cancel();
    expect(h.status).toBe("sleeping");
    await h.resolve("tidy");
    expect(order).toEqual(["tidied", "CanceledError"]);
    expect(types(h.commands)).not.toContain("winner");
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  it("C4 a CanceledError that a branch throws by itself is an error like others", async () => {
    const wf = workflow("own", async (ctx) => {
      const [slot] = await ctx.parallel([
        async () => {
          throw new CanceledError("mine");
        },
      ]);
      return slot.status;
    });
    expect((await Harness.start(wf)).output).toBe("rejected");
  });

  it("C4 a violation in a branch fails the turn and never lands in the slot", async () => {
    let slots: unknown;
    const wf = workflow("violates", async (ctx) => {
      slots = await ctx.parallel([() => ctx.step("with the parent's ctx", () => 0), async () => "fine"]);
    });
    await expect(Harness.start(wf)).rejects.toMatchObject({ name: "OutOfTurnError" });
    expect(slots).toBeUndefined();
  });

  it("C4 nondeterminism in a branch fails the turn and never lands in the slot", async () => {
    let slots: unknown;
    const make = (name: string) =>
      workflow("changes", async (ctx) => {
        slots = await ctx.parallel([(c) => c.step(name, () => 0), async () => "fine"]);
      });
    const h = await Harness.start(make("before"));
    await expect(h.recover(make("after"))).rejects.toBeInstanceOf(NondeterminismError);
    expect(slots).toBeUndefined();
  });
});

describe("C5 operations of one unit side by side", () => {
  it("C5 Promise.all gives values in its own order and emits all operations at once", async () => {
    const wf = workflow("all", async (ctx) => Promise.all([ctx.step("a", () => ""), ctx.step("b", () => ""), ctx.sleep(5)]));
    const h = await Harness.start(wf);
    expect(h.openLocations).toEqual(["a", "b", "sleep"]);
    await h.resolve("b", 2);
    await h.fire();
    await h.resolve("a", 1);
    expect(h.output).toEqual([1, 2, undefined]);
    await crashAnywhere(h);
  });

  it("C5 Promise.all rejects with the first failure; the rest are joined before the run ends", async () => {
    const wf = workflow("fails", async (ctx) => Promise.all([ctx.step("a", () => 0), ctx.step("b", () => 0)]));
    const h = await Harness.start(wf);
    await h.fail("b", new Error("no"));
    expect(h.status).toBe("sleeping");
    await h.resolve("a");
    expect(h.status).toBe("failed");
    await crashAnywhere(h);
  });

  it("C5 Promise.allSettled keeps every outcome", async () => {
    const wf = workflow("settled", async (ctx) =>
      (await Promise.allSettled([ctx.step("a", () => 0), ctx.step("b", () => 0)])).map((one) => one.status),
    );
    const h = await Harness.start(wf);
    await h.turn(h.failed("a", new Error("no")), h.resolved("b"));
    expect(h.output).toEqual(["rejected", "fulfilled"]);
    await crashAnywhere(h);
  });

  it("C5 a unit takes one resolution a step, in job order", async () => {
    const order: string[] = [];
    const wf = workflow("order", async (ctx) => {
      const follow = async (name: string) => {
        await ctx.step(name, () => 0);
        order.push(name);
        await ctx.step(`after ${name}`, () => 0);
      };
      await Promise.all([follow("a"), follow("b"), follow("c")]);
    });
    const h = await Harness.start(wf);
    const commands = await h.turn(h.resolved("c"), h.resolved("a"), h.resolved("b"));
    expect(order).toEqual(["c", "a", "b"]);
    expect(locations(commands)).toEqual(["after c", "after a", "after b"]);
    await crashAnywhere(h);
  });

  it("C5 the rest wait for later rounds: another unit's step comes between", async () => {
    const order: string[] = [];
    const wf = workflow("between", async (ctx) => {
      const note = async (promise: Promise<unknown>, name: string) => {
        await promise;
        order.push(name);
      };
      await ctx.parallel([
        (c) =>
          Promise.all([
            note(
              c.step("a1", () => 0),
              "a1",
            ),
            note(
              c.step("a2", () => 0),
              "a2",
            ),
          ]),
        (c) =>
          note(
            c.step("b1", () => 0),
            "b1",
          ),
      ]);
    });
    const h = await Harness.start(wf);
    await h.turn(h.resolved("a1"), h.resolved("a2"), h.resolved("b1"));
    expect(order).toEqual(["a1", "b1", "a2"]);
    await crashAnywhere(h);
  });

  it("C5 Promise.race is won by the first job, whatever the order in the code", async () => {
    const wf = workflow("race", async (ctx) => Promise.race([ctx.step("a", () => ""), ctx.step("b", () => "")]));
    const h = await Harness.start(wf);
    await h.turn(h.resolved("b", "B"), h.resolved("a", "A"));
    expect(h.output).toBe("B");
    await crashAnywhere(h);
  });

  it("C5 a wait that lost a Promise.race stays a waiter and takes the next signal of its name", async () => {
    const wf = workflow("lost", async (ctx) => {
      const lost = ctx.waitForSignal("go");
      const first = await Promise.race([lost, ctx.sleep("1m").then(() => "timeout")]);
      const second = await ctx.waitForSignal("go");
      return { first, second, lost: await lost };
    });
    const h = await Harness.start(wf);
    await h.fire();
    await h.signal("go", 1);
    expect(h.status).toBe("sleeping");
    await h.signal("go", 2);
    expect(h.output).toEqual({ first: "timeout", second: 2, lost: 1 });
    await crashAnywhere(h);
  });

  const warnings = () => {
    const lines: string[] = [];
    const note = (message: string) => void lines.push(message);
    return { lines, logger: { debug: note, info: note, warn: note, error: note } };
  };

  it("C5 a message that goes to a wait which lost its Promise.race is warned of, once a location and run", async () => {
    const wf = workflow("swallows", async (ctx) => {
      const got: unknown[] = [];
      while (got.length < 2) {
        const winner = await Promise.race([ctx.waitForSignal("go"), ctx.sleep("1m").then(() => "timeout")]);
        if (winner !== "timeout") got.push(winner);
      }
      return got;
    });
    const { lines, logger } = warnings();
    const h = await Harness.start(wf, undefined, { logger });
    for (let i = 0; i < 3; i++) await h.fire();
    expect(lines).toEqual([]);
    await h.signal("go", 1); // three waits lost; the fourth waits behind them
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("A message went to signal go, a wait that had lost a Promise.race");
    expect(lines[0]).toContain("ctx.race");
    await h.recover();
    await h.signal("go", 2);
    await h.signal("go", 3);
    expect(lines).toHaveLength(1);
    await h.signal("go", 4);
    await h.signal("go", 5);
    expect(h.output).toEqual([4, 5]);
    expect(lines).toHaveLength(1);
    await crashAnywhere(h);
  });

  const lost: Readonly<Record<string, (ctx: WorkflowContext) => Promise<unknown>>> = {
    "until the function returns": async (ctx) => {
      await Promise.race([ctx.waitForSignal("go"), ctx.sleep("1m")]);
      await ctx.step("after", () => 0);
    },
    "until the next wait of its name begins": async (ctx) => {
      await Promise.race([ctx.waitForSignal("go"), ctx.sleep("1m")]);
      await ctx.step("after", () => 0);
      await ctx.waitForSignal("go");
    },
    "in a loop with work between": async (ctx) => {
      for (;;) {
        const winner = await Promise.race([ctx.waitForSignal("go"), ctx.sleep("1m").then(() => "timeout")]);
        if (winner !== "timeout") return;
        await ctx.step("after", () => 0);
      }
    },
    "as what a callback made of it": async (ctx) => {
      const go = ctx.waitForSignal("go").then((payload) => ({ payload }));
      await Promise.race([go, ctx.sleep("1m")]);
      await ctx.step("after", () => 0);
    },
    "by a wait that catches errors": async (ctx) => {
      const go = ctx.waitForSignal("go").catch(() => "canceled");
      await Promise.race([go, ctx.sleep("1m")]);
      await ctx.step("after", () => 0);
    },
    "by two races": async (ctx) => {
      const go = ctx.waitForSignal("go");
      await Promise.race([go, ctx.sleep("1m")]);
      await Promise.race([ctx.step("between", () => 0), go]);
      await ctx.step("after", () => 0);
    },
    "by listen": async (ctx) => {
      await Promise.race([ctx.sleep("1m"), ctx.listen(["stop", "go"], { count: 2 })]);
      await ctx.step("after", () => 0);
    },
    "inside a helper beside others": async (ctx) => {
      const waits = async () => {
        await Promise.race([ctx.waitForSignal("go"), ctx.sleep("1m")]);
      };
      await Promise.all([waits(), ctx.step("after", () => 0)]);
    },
  };
  it.each(Object.entries(lost))("C5 a message that goes to a wait whose Promise.race is over is warned of: lost %s", async (_name, run) => {
    const { lines, logger } = warnings();
    const h = await Harness.start(workflow("lost", run), undefined, { logger });
    await h.fire();
    if (h.openLocations.includes("between")) await h.resolve("between");
    await h.signal("go", 1);
    await h.recover();
    await h.resolve("after");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/A message went to signal (go|stop\+go), a wait that had lost a Promise\.race/);
    await crashAnywhere(h);
  });

  it("C5 no message that is heard is warned of", async () => {
    const programs: Readonly<Record<string, (ctx: WorkflowContext) => Promise<unknown>>> = {
      "several in Promise.all": (ctx) => Promise.all([ctx.waitForSignal("go"), ctx.waitForSignal("go"), ctx.waitForSignal("go")]),
      "beside work in Promise.all": (ctx) =>
        Promise.all([
          ctx.waitForSignal("go"),
          (async () => {
            for (let i = 0; i < 3; i++) await ctx.sleep("1m");
          })(),
        ]),
      "begun ahead": async (ctx) => {
        const ahead = ctx.waitForSignal("go");
        for (let i = 0; i < 3; i++) await ctx.sleep("1m");
        return ahead;
      },
      "a listener": async (ctx) => {
        let heard = false;
        void ctx.waitForSignal("go").then(() => {
          heard = true;
        });
        for (let i = 0; i < 5 && !heard; i++) await ctx.sleep("1m");
        return heard;
      },
      "one promise raced again and again": async (ctx) => {
        const go = ctx.waitForSignal("go");
        for (let i = 0; i < 5; i++) {
          if ((await Promise.race([go, ctx.sleep("1m").then(() => "timeout")])) !== "timeout") return i;
        }
        return "none";
      },
      "two consumers": async (ctx) => {
        const consumer = async () => {
          for (let i = 0; i < 2; i++) {
            await ctx.waitForSignal("go");
            await ctx.sleep("1m");
          }
        };
        await Promise.all([consumer(), consumer()]);
      },
      "one promise raced again, with work between": async (ctx) => {
        const go = ctx.waitForSignal("go");
        for (let i = 0; i < 5; i++) {
          if ((await Promise.race([go, ctx.sleep("1m").then(() => "timeout")])) !== "timeout") return i;
          await ctx.sleep("1m");
        }
        return "none";
      },
      "begun apart and awaited together": async (ctx) => {
        const first = ctx.waitForSignal("go");
        await ctx.sleep("1m");
        const second = ctx.waitForSignal("go");
        await ctx.sleep("1m");
        const third = ctx.waitForSignal("go");
        return Promise.all([first, second, third]);
      },
      "lost, and awaited later": async (ctx) => {
        const go = ctx.waitForSignal("go");
        await Promise.race([go, ctx.sleep("1m")]);
        await ctx.sleep("1m");
        await ctx.sleep("1m");
        return go;
      },
      "in Promise.all beside a loop that waits for the same": async (ctx) =>
        Promise.all([
          ctx.waitForSignal("go"),
          (async () => {
            for (let i = 0; i < 3; i++) await ctx.waitForSignal("go");
          })(),
          (async () => {
            for (let i = 0; i < 3; i++) await ctx.sleep("1m");
          })(),
        ]),
      "a race in a helper beside a loop": async (ctx) => {
        let got: unknown;
        const helper = async () => {
          got = await Promise.race([ctx.waitForSignal("go"), ctx.sleep("1d")]);
        };
        const loop = async () => {
          for (let i = 0; i < 3; i++) {
            await ctx.sleep("1m");
            await ctx.waitForSignal("go");
          }
        };
        await Promise.all([helper(), loop()]);
        return got;
      },
      "a race over callbacks that keep the message": async (ctx) => {
        const got: unknown[] = [];
        while (got.length < 2) {
          const go = ctx.waitForSignal("go").then((value) => {
            got.push(value);
          });
          await Promise.race([go, ctx.sleep("1m")]);
        }
        return got;
      },
      "a race of races": async (ctx) => {
        const inner = Promise.race([ctx.waitForSignal("go"), ctx.sleep("1d")]);
        for (let i = 0; i < 3; i++) await ctx.sleep("1m");
        return Promise.race([inner, ctx.sleep("1d")]);
      },
      "ctx.race": async (ctx) => {
        for (let i = 0; i < 5; i++) {
          const { winner } = await ctx.race("r", { go: (c) => c.waitForSignal("go"), late: (c) => c.sleep("1m") });
          if (winner === "go") return i;
        }
        return "none";
      },
    };
    for (const [name, run] of Object.entries(programs)) {
      const { lines, logger } = warnings();
      const h = await Harness.start(workflow("heard", run), undefined, { logger });
      for (let i = 0; i < 8 && h.terminal === undefined; i++) {
        if (h.timers.size > 0) await h.fire();
        if (h.terminal === undefined) await h.signal("go", i);
      }
      while (h.terminal === undefined && h.timers.size > 0) await h.fire();
      expect([name, h.status, lines]).toEqual([name, "completed", []]);
    }
  });

  it("P3 a step that fails after the function that began it has returned is in the log, once; what was cancelled is not", async () => {
    const wf = workflow("forgets", async (ctx) => {
      void ctx.step("audit", () => 0);
      void ctx.step("fine", () => 0);
      void ctx.sleep("1h");
      return "done";
    });
    const { lines, logger } = warnings();
    const h = await Harness.start(wf, undefined, { logger });
    await h.fail("audit", new Error("disk full"));
    await h.resolve("fine");
    expect(h.output).toBe("done");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("step audit");
    expect(lines[0]).toContain("disk full");
    const canceled = await Harness.start(wf, undefined, { logger });
    await canceled.cancel();
    expect(lines).toHaveLength(1);
    await h.recover();
    expect(lines).toHaveLength(1);
    const together = await Harness.start(wf, undefined, { logger });
    await together.turn(together.failed("audit", new Error("disk full")), together.resolved("fine"));
    expect(lines).toHaveLength(2);
  });

  it("C5 ctx.race is the way to give a wait up", async () => {
    const wf = workflow("abandoned", async (ctx) => {
      const first = await ctx.race("r", { signal: (c) => c.waitForSignal("go"), timeout: (c) => c.sleep("1m") });
      return { first: first.winner, second: await ctx.waitForSignal("go") };
    });
    const h = await Harness.start(wf);
    await h.fire();
    await h.signal("go", 1);
    expect(h.output).toEqual({ first: "timeout", second: 1 });
    await crashAnywhere(h);
  });
});

describe("C6 conditions and cells", () => {
  it("C6 condition pauses until the predicate is truthy and returns its value", async () => {
    const wf = workflow("waits", async (ctx) => {
      let parcel: string | undefined;
      const [, found] = await Promise.all([
        ctx
          .step("fetch", () => "")
          .then((value) => {
            parcel = value;
          }),
        ctx.condition(() => parcel),
      ]);
      return found;
    });
    const h = await Harness.start(wf);
    expect(h.status).toBe("sleeping");
    await h.resolve("fetch", "a parcel");
    expect(h.output).toBe("a parcel");
    await crashAnywhere(h);
  });

  it("C6 the predicate is read only after the turn's other work", async () => {
    const wf = workflow("late", async (ctx) => {
      let level = 0;
      const [seen] = await ctx.parallel([
        (c) => c.condition(() => level),
        async (c) => {
          level = 1;
          await c.yield();
          level = 2;
          await c.yield();
          level = 3;
        },
      ]);
      return seen.status === "fulfilled" && seen.value;
    });
    const h = await Harness.start(wf);
    expect(h.output).toBe(3);
    await crashAnywhere(h);
  });

  it("C6 a condition that held for a moment only has not held", async () => {
    const wf = workflow("moment", async (ctx) => {
      let open = false;
      await ctx.parallel([
        (c) => c.condition(() => open),
        async (c) => {
          open = true;
          await c.yield();
          open = false;
        },
      ]);
    });
    expect((await Harness.start(wf)).status).toBe("sleeping");
  });

  it("C6 with a timeout it yields undefined when time is up, and the value if it held by then", async () => {
    const wf = workflow("timed", async (ctx, full: boolean) => {
      const value = await ctx.condition(() => full && "full", "1m");
      return value === undefined ? "timed out" : value;
    });
    const empty = await Harness.start(wf, false);
    await empty.fire();
    expect(empty.output).toBe("timed out");
    await crashAnywhere(empty);
    const full = await Harness.start(wf, true);
    expect(full.output).toBe("full");
    expect(full.timers.size).toBe(0);
    await crashAnywhere(full);
  });

  it("C6 a predicate that throws rejects the condition", async () => {
    const wf = workflow("throws", async (ctx) =>
      ctx
        .condition(() => {
          throw new RangeError("bad predicate");
        })
        .catch((error: Error) => error.message),
    );
    const h = await Harness.start(wf);
    expect(h.output).toBe("bad predicate");
    await crashAnywhere(h);
  });

  it("C6 a ctx call inside a predicate is illegal and fails the turn", async () => {
    const wf = workflow("illegal", async (ctx) => {
      await ctx.condition(() => ctx.now()).catch(() => {});
    });
    await expect(Harness.start(wf)).rejects.toBeInstanceOf(IllegalCallError);
  });

  it("C6 an ivar passes a value from one unit to the others that wait for it", async () => {
    const wf = workflow("cell", async (ctx) => {
      const cell = ctx.ivar<string>();
      const before = [cell.filled, cell.tryRead()];
      const { reader, late } = await ctx.join("j", {
        reader: () => cell.wait(),
        writer: async (c) => {
          cell.put(await c.step("make", () => ""));
        },
        late: async (c) => {
          await c.waitForSignal("late");
          return [cell.filled, cell.tryRead(), await cell.wait()];
        },
      });
      return { before, reader, late };
    });
    const h = await Harness.start(wf);
    await h.resolve("make", "made");
    await h.signal("late");
    expect(h.output).toEqual({ before: [false, undefined], reader: "made", late: [true, "made", "made"] });
    await crashAnywhere(h);
  });

  it("C6 a run that waits for a cell or a condition that nothing under way can end says so", async () => {
    const stuck = workflow("stuck", async (ctx) => {
      const cell = ctx.ivar<number>();
      await ctx.join("j", { cell: () => cell.wait(), never: (c) => c.condition(() => false), first: (c) => c.step("s", () => 0) });
    });
    const h = await Harness.start(stuck);
    expect(h.executor.waitingFor).toEqual(["j/cell/ivar", "j/never/condition", "step j/first/s"]);
    await h.resolve("s");
    const reason = ", which nothing in progress can end";
    expect(h.executor.waitingFor).toEqual([`j/cell/ivar${reason}`, `j/never/condition${reason}`]);
    const timed = await Harness.start(workflow("timed", (ctx) => ctx.condition(() => false, "1h")));
    expect(timed.executor.waitingFor).toEqual(["condition"]);
  });

  it("C6 a second put throws, and the first value stays", async () => {
    const wf = workflow("twice", async (ctx) => {
      const cell = ctx.ivar<number>();
      cell.put(1);
      let refused = "";
      try {
        cell.put(2);
      } catch (error) {
        refused = (error as Error).name;
      }
      return [refused, await cell.wait()];
    });
    const h = await Harness.start(wf);
    expect(h.output).toEqual(["IllegalCallError", 1]);
    await crashAnywhere(h);
  });

  it("C6 waiting for a filled cell keeps the turn and leaves no record; undefined is a value", async () => {
    const wf = workflow("filled", async (ctx) => {
      const cell: IVar<undefined> = ctx.ivar<undefined>();
      cell.put(undefined);
      await cell.wait();
      return cell.filled;
    });
    const h = await Harness.start(wf);
    expect(h.output).toBe(true);
    expect(types(h.commands)).toEqual(["complete"]);
  });
});

describe("C7 cancelled operations", () => {
  it("C7 a cancelled step throws at once in its unit, and the scope does not wait for it", async () => {
    const wf = workflow("abandon", async (ctx) => ctx.race("r", { quick: (c) => c.sleep(1), slow: (c) => c.step("slow", () => 0) }));
    const h = await Harness.start(wf);
    const { seq } = h.find("slow");
    const commands = await h.fire();
    expect(h.status).toBe("completed");
    expect(commands).toContainEqual({ type: "cancel", seq });
    expect(h.open.size).toBe(0);
    await crashAnywhere(h);
  });

  it("C7 the late result of an abandoned step is dropped", async () => {
    const wf = workflow("late", async (ctx) => {
      await ctx.race("r", { quick: (c) => c.sleep(1), slow: (c) => c.step("slow", () => 0) });
      return ctx.step("next", () => 0);
    });
    const h = await Harness.start(wf);
    const late = h.resolved("slow", "too late");
    await h.fire();
    expect(await h.turn(late)).toEqual([]);
    expect(h.status).toBe("sleeping");
    await h.resolve("next", "next");
    expect(h.output).toBe("next");
    await crashAnywhere(h);
  });

  it("C7 the result and the cancellation in one activation: the branch that runs first decides, and the run goes on", async () => {
    const wf = workflow("both", async (ctx) => ctx.race("r", { quick: (c) => c.sleep(1), slow: (c) => c.step("slow", () => "") }));
    const h = await Harness.start(wf);
    const seq = h.nextTimer as number;
    await h.turn(h.resolved("slow", "slow"), { type: "fire", seq });
    expect(h.output).toEqual({ winner: "quick", value: undefined });
    await crashAnywhere(h);
  });

  it("C7 S1 a step with a rollback is joined, and rolled back with the rest if it succeeded", async () => {
    const wf = workflow("joined", async (ctx) => {
      await ctx.race("r", { quick: (c) => c.sleep(1), slow: (c) => c.step("slow", () => 0, { rollback: () => {} }) });
      throw new Error("fails afterwards");
    });
    const h = await Harness.start(wf);
    const { seq } = h.find("slow");
    const commands = await h.fire();
    expect(commands).toContainEqual({ type: "cancel", seq, join: true });
    expect(h.status).toBe("sleeping");
    await h.resolve("slow", "it succeeded");
    expect(h.openLocations).toHaveLength(1);
    expect(h.find(h.open.keys().next().value as number)).toMatchObject({ type: "rollback", of: seq });
    await h.resolve(h.open.keys().next().value as number);
    expect(h.status).toBe("failed");
    await crashAnywhere(h);
  });

  it("C7 S1 a joined step that failed is not rolled back", async () => {
    const wf = workflow("joined", async (ctx) => {
      await ctx.race("r", { quick: (c) => c.sleep(1), slow: (c) => c.step("slow", () => 0, { rollback: () => {} }) });
      throw new Error("fails afterwards");
    });
    const h = await Harness.start(wf);
    await h.fire();
    await h.fail("slow", new Error("no"));
    expect(h.status).toBe("failed");
    expect(types(h.commands)).not.toContain("rollback");
    await crashAnywhere(h);
  });

  it("C7 cancelling waits, conditions, cells and children settles them at once", async () => {
    const kid = workflow("kid", async () => 0);
    const wf = workflow("all kinds", async (ctx) => {
      const cell = ctx.ivar<number>();
      const { winner } = await ctx.race("r", {
        go: (c) => c.waitForSignal("go"),
        signal: (c) => c.waitForSignal("never"),
        condition: (c) => c.condition(() => false, "1d"),
        cell: () => cell.wait(),
        child: (c) => c.child(kid, undefined),
        until: (c) => c.sleepUntil(new Date(Date.UTC(2030, 0, 1))),
      });
      return winner;
    });
    const h = await Harness.start(wf);
    await h.signal("go");
    expect(h.output).toBe("go");
    expect(h.timers.size).toBe(0);
    expect(h.executor.openOperations).toEqual([]);
    await crashAnywhere(h);
  });
});
