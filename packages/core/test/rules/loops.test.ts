// Job: prove loops: iterations, their state, commits, trims, and what replay starts from.
// Owns: the workflows in it, and `recording`, a logger that keeps warnings.
// Invariants: L1 to L5, P8 (decoded state), P7 (randomness by unit), Y6 (commits are exempt from the order of turns).
import {
  type AnyWorkflow,
  type BranchContext,
  type Command,
  type CommitCommand,
  formatLocation,
  IllegalReturnError,
  type Logger,
  Loop,
  Receive,
  replay,
  workflow,
} from "@holdfast/core";
import { crashAfter, crashAnywhere, drive, Harness, historyOf, runWorkflow } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const locations = (commands: readonly Command[]) =>
  commands.flatMap((command) => ("n" in command ? [formatLocation(command.unit, command.name, command.n)] : []));
const commits = (h: Harness) => h.commands.filter((command): command is CommitCommand => command.type === "commit");
const kept = (h: Harness) => locations(h.turns.flatMap((turn) => turn.commands));
const records = (h: Harness) => h.turns.reduce((sum, turn) => sum + turn.jobs.length + turn.commands.length, 0);

function recording(): { logger: Logger; warnings: string[] } {
  const warnings: string[] = [];
  return { warnings, logger: { debug() {}, info() {}, warn: (message) => warnings.push(message), error() {} } };
}

/** Counts to `end` with a step an iteration. */
const counter = (options: { end: number; commitInterval?: number; historyEvery?: number; historyKeep?: number }) => {
  const { end, ...rest } = options;
  return workflow("counter", async (ctx) =>
    ctx.loop({ name: "count", state: 0, ...rest }, async (c, i: number) => {
      await c.step("s", () => i);
      return i + 1 === end ? Loop.break(`counted to ${end}`) : Loop.continue(i + 1);
    }),
  );
};

describe("L1 repeating", () => {
  it("L1 runs until it breaks, handing the state on", async () => {
    const states: number[] = [];
    const wf = workflow("sum", async (ctx) =>
      ctx.loop({ name: "l", state: 1 }, async (_c, n: number) => {
        states.push(n);
        return n > 50 ? Loop.break(`broke at ${n}`) : Loop.continue(n * 2);
      }),
    );
    const h = await Harness.start(wf);
    expect(states).toEqual([1, 2, 4, 8, 16, 32, 64]);
    expect(h.output).toBe("broke at 64");
    await crashAnywhere(h);
  });

  it("L1 a loop by name alone goes on when its body returns nothing, and breaks with a value", async () => {
    let times = 0;
    const wf = workflow("named", async (ctx) =>
      ctx.loop("l", async (c) => {
        await c.sleep(1);
        times++;
        return times === 3 ? Loop.break("enough") : undefined;
      }),
    );
    const h = await runWorkflow(wf);
    expect(h.output).toBe("enough");
    expect(times).toBe(3);
  });

  it("L1 an error in an iteration is thrown from the loop", async () => {
    const wf = workflow("throws", async (ctx) =>
      ctx
        .loop("l", async (c) => {
          await c.step("s", () => 0);
        })
        .catch((error: Error) => error.name),
    );
    const h = await Harness.start(wf);
    await h.fail("s", new Error("no"));
    expect(h.output).toBe("StepFailedError");
    await crashAnywhere(h);
  });

  it("L1 anything but Loop.continue and Loop.break fails the turn", async () => {
    const wf = workflow("odd", async (ctx) => ctx.loop("l", (async () => "again") as unknown as () => Promise<void>));
    await expect(Harness.start(wf)).rejects.toBeInstanceOf(IllegalReturnError);
  });

  it.each([{ commitInterval: 0 }, { historyEvery: 1.5 }, { historyKeep: -1 }, { commitInterval: Number.NaN }])(
    "L1 bad options are refused before anything runs: %o",
    async (options) => {
      const wf = workflow("options", async (ctx) =>
        ctx.loop({ name: "l", state: 0, ...options }, async () => Loop.break(0)).catch((error: Error) => error.name),
      );
      const h = await Harness.start(wf);
      expect(h.output).toBe("InvalidInputError");
      expect(locations(h.commands)).toEqual([]);
    },
  );
});

describe("L2 iterations are units", () => {
  it("L2 each has its own path, and names are counted separately in it", async () => {
    const h = await runWorkflow(counter({ end: 3 }));
    expect(locations(h.commands)).toEqual(["count", "count/~0/s", "count/~1/s", "count/~2/s"]);
  });

  it("L2 P3 one is over, leftovers joined, before the next starts", async () => {
    const wf = workflow("leftovers", async (ctx) =>
      ctx.loop({ name: "l", state: 0 }, async (c, i: number) => {
        void c.step("leftover", () => 0);
        void c.sleep("1d");
        return i === 1 ? Loop.break(i) : Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf);
    expect(h.openLocations).toEqual(["l/~0/leftover"]);
    await h.resolve("leftover");
    expect(h.openLocations).toEqual(["l/~1/leftover"]);
    await h.resolve("leftover");
    expect(h.output).toBe(1);
    await crashAnywhere(h);
  });

  it("L2 X7 the outer ctx can't be used inside an iteration", async () => {
    const wf = workflow("outer", async (ctx) =>
      ctx.loop("l", async () => {
        await ctx.step("with the outer ctx", () => 0);
      }),
    );
    await expect(Harness.start(wf)).rejects.toMatchObject({ name: "OutOfTurnError", unit: "root", turnOf: "l/~0", pausedOn: "loop l" });
  });

  it("L2 P7 draws of an iteration depend on its unit alone, commits or not", async () => {
    const draws = (commitInterval: number) =>
      workflow("draws", async (ctx) =>
        ctx.loop({ name: "l", state: [] as number[], commitInterval }, async (c, drawn) => {
          await c.step("s", () => 0);
          const next = [...drawn, c.random()];
          return next.length === 7 ? Loop.break(next) : Loop.continue(next);
        }),
      );
    const often = await runWorkflow(draws(1));
    const never = await runWorkflow(draws(100));
    expect(often.output).toEqual(never.output);
    expect(new Set(often.output as number[]).size).toBe(7);
    await crashAnywhere(often);
  });
});

describe("L3 commits", () => {
  it("L3 every commitInterval iterations the state is committed", async () => {
    const h = await runWorkflow(counter({ end: 10, commitInterval: 3 }));
    expect(commits(h).map(({ count, value }) => [count, h.codec.decode(value)])).toEqual([
      [3, 3],
      [6, 6],
      [9, 9],
    ]);
    expect(h.output).toBe("counted to 10");
    await crashAnywhere(h);
  });

  it("L3 the default is every 20", async () => {
    const h = await runWorkflow(counter({ end: 45 }));
    expect(commits(h).map((commit) => commit.count)).toEqual([20, 40]);
  });

  it("L3 replay starts at the commit: iterations before it do not run again", async () => {
    const ran: number[] = [];
    const wf = workflow("replays", async (ctx) =>
      ctx.loop({ name: "l", state: 0, commitInterval: 4 }, async (c, i: number) => {
        ran.push(i);
        await c.step("s", () => i);
        return Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf);
    for (let i = 0; i < 10; i++) await h.resolve("s");
    ran.length = 0;
    await h.recover();
    expect(ran).toEqual([8, 9, 10]);
    expect(locations(await h.resolve("s"))).toEqual(["l/~11/s"]);
    await crashAnywhere(h);
  });

  it("L3 P8 R9 the loop begins with the decoded state, and the live run goes on with it after each commit", async () => {
    const seen: boolean[] = [];
    const wf = workflow("decoded", async (ctx) => {
      let last: unknown = { at: new Date(0), n: 0 };
      return ctx.loop({ name: "l", state: last as { at: Date; n: number }, commitInterval: 2 }, async (c, state) => {
        seen.push(state === last);
        last = state;
        await c.step("s", () => 0);
        if (state.n === 3) return Loop.break(state.at instanceof Date);
        return Loop.continue(Object.assign(state, { n: state.n + 1 }));
      });
    });
    const h = await runWorkflow(wf);
    expect(seen).toEqual([false, true, false, true]);
    expect(h.output).toBe(true);
    await crashAnywhere(h);
  });

  it("L3 a state that can't be encoded fails the loop, in replay too", async () => {
    const wf = workflow("unencodable", async (ctx) =>
      ctx
        .loop({ name: "l", state: {} as object, commitInterval: 2 }, async (c) => {
          await c.step("s", () => 0);
          return Loop.continue({ socket: () => {} });
        })
        .catch((error: Error) => error.name),
    );
    const h = await runWorkflow(wf);
    expect(h.output).toBe("UnserializableValueError");
    await crashAnywhere(h);
  });

  it("L3 P5 the published state is part of the commit", async () => {
    const wf = workflow("published", async (ctx) => {
      ctx.publishState("before");
      await ctx.loop({ name: "l", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 }, async (c, i: number) => {
        if (i < 3) c.publishState(`iteration ${i}`);
        await c.step("s", () => i);
        return Loop.continue(i + 1);
      });
    });
    const h = await Harness.start(wf);
    for (let i = 0; i < 9; i++) await h.resolve("s");
    expect(h.state).toBe("iteration 2");
    await h.recover();
    expect(h.codec.decode(h.executor.state ?? "null")).toBe("iteration 2");
    await crashAnywhere(h);
  });

  it("L3 P7 the time of the turn is what replay sees after a commit", async () => {
    const wf = workflow("times", async (ctx) =>
      ctx.loop({ name: "l", state: [] as number[], commitInterval: 2, historyEvery: 2, historyKeep: 0 }, async (c, times) => {
        const next = [...times, c.now().getTime()];
        await c.sleep("1m");
        return next.length === 6 ? Loop.break(next) : Loop.continue(next);
      }),
    );
    const h = await runWorkflow(wf);
    const start = Date.UTC(2026, 0, 1);
    expect(h.output).toEqual(Array.from({ length: 6 }, (_, i) => start + i * 60_000));
    await crashAnywhere(h);
  });

  it("L3 outer variables that committed iterations changed are not restored; the state is", async () => {
    const wf = workflow("outer", async (ctx) => {
      let outer = 0;
      return ctx.loop({ name: "l", state: 0, commitInterval: 2 }, async (c, i: number) => {
        outer++;
        await c.step("s", () => 0);
        return i === 4 ? Loop.break({ outer, i }) : Loop.continue(i + 1);
      });
    });
    const h = await Harness.start(wf);
    for (let i = 0; i < 4; i++) await h.resolve("s");
    await h.recover();
    await h.resolve("s");
    expect(h.output).toEqual({ outer: 1, i: 4 });
  });

  it("L3 code after the loop goes on from what the loop broke with", async () => {
    const wf = workflow("after", async (ctx) => {
      const total = await ctx.loop({ name: "l", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 }, async (c, n: number) => {
        const more = await c.step("s", () => 1);
        return n + more >= 5 ? Loop.break(n + more) : Loop.continue(n + more);
      });
      return `${total} ${await ctx.step("after", () => "after")}`;
    });
    const h = await runWorkflow(wf);
    expect(h.output).toBe("5 after");
    await crashAnywhere(h);
    await replay(wf, h.history());
  });

  it("L3 several iterations and commits in one turn replay from the last", async () => {
    const wf = workflow("one turn", async (ctx) =>
      ctx.loop({ name: "l", state: 0, commitInterval: 3, historyEvery: 3, historyKeep: 0 }, async (c, i: number) => {
        if (i % 10 === 9) await c.step("s", () => i);
        return i === 42 ? Loop.break(i) : Loop.continue(i + 1);
      }),
    );
    const h = await runWorkflow(wf);
    expect(h.output).toBe(42);
    expect(commits(h)).toHaveLength(14);
    await crashAnywhere(h);
  });

  it("L3 two loops of one name in a row keep apart", async () => {
    const wf = workflow("two", async (ctx) => {
      const run = () =>
        ctx.loop({ name: "l", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 1 }, async (c, i: number) => {
          await c.step("s", () => i);
          return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
        });
      return [await run(), await run()];
    });
    const h = await runWorkflow(wf);
    expect(h.output).toEqual([4, 4]);
    expect(commits(h).map(({ unit, count }) => `${unit} ${count}`)).toEqual(["l 2", "l 4", "l#1 2", "l#1 4"]);
    await crashAnywhere(h);
  });

  it("L3 nested loops commit both, inner within outer", async () => {
    const wf = workflow("nested", async (ctx) =>
      ctx.loop({ name: "outer", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 }, async (c, sum: number) => {
        const inner = await c.loop(
          { name: "inner", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 },
          async (d, i: number) => {
            await d.step("s", () => i);
            return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
          },
        );
        await c.step("between", () => 0);
        return sum + inner === 20 ? Loop.break(sum + inner) : Loop.continue(sum + inner);
      }),
    );
    const h = await runWorkflow(wf);
    expect(h.output).toBe(20);
    const counts = commits(h).map(({ unit, count }) => `${unit} ${count}`);
    expect(counts).toEqual([
      "outer/~0/inner 2",
      "outer/~0/inner 4",
      "outer/~1/inner 2",
      "outer/~1/inner 4",
      "outer 2",
      "outer/~2/inner 2",
      "outer/~2/inner 4",
      "outer/~3/inner 2",
      "outer/~3/inner 4",
      "outer 4",
      "outer/~4/inner 2",
      "outer/~4/inner 4",
    ]);
    expect(await crashAnywhere(h)).toBeGreaterThan(30);
    await replay(wf, h.history());
  });

  it("L3 a loop in a try, a shield and a handler commits too", async () => {
    const wf = workflow("bodies", async (ctx) => {
      const three = (c: Pick<typeof ctx, "loop">) =>
        c.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (d, i: number) => {
          await d.step("s", () => i);
          return i === 2 ? Loop.break(i) : Loop.continue(i + 1);
        });
      await ctx.try("t", (c) => three(c));
      await ctx.shield((c) => three(c));
      await ctx.receive(0, {
        signals: {
          go: async (_payload, state, c) => {
            await three(c as typeof ctx);
            return Receive.stop(state);
          },
        },
      });
      return "done";
    });
    const h = new Harness(wf);
    await h.start(undefined, h.signalJob("go"), h.signalJob("other"));
    await drive(h);
    expect(h.output).toBe("done");
    expect(commits(h).map((commit) => commit.unit)).toEqual(["t/l", "t/l", "shield/l", "shield/l", "receive/~h0/l", "receive/~h0/l"]);
    await crashAnywhere(h);
  });

  it("L3 a cancelled loop is over with CanceledError at every cut", async () => {
    const h = await Harness.start(counter({ end: 100, commitInterval: 2 }));
    for (let i = 0; i < 5; i++) await h.resolve("s");
    await h.cancel();
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });
});

describe("L3 beside others", () => {
  /** A loop in one branch, something else in the other. */
  const beside = workflow("beside", async (ctx) => {
    const { loop, other } = await ctx.join("j", {
      loop: (c) =>
        c.loop({ name: "l", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 }, async (d, i: number) => {
          await d.step("s", () => i);
          return i === 11 ? Loop.break(i) : Loop.continue(i + 1);
        }),
      other: async (c) => {
        const one = await c.step("other", () => "");
        const two = await c.waitForSignal("more");
        return [one, two];
      },
    });
    return { loop, other };
  });

  it("L3 a loop beside a living sibling runs on without a commit and says so once", async () => {
    const { logger, warnings } = recording();
    const h = await Harness.start(beside, undefined, { logger });
    for (let i = 0; i < 8; i++) await h.resolve("s");
    expect(commits(h)).toEqual([]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("The loop j/loop/l can't commit: other units are running at the same time.");
    expect(h.openLocations).toEqual(["j/other/other", "j/loop/l/~8/s"]);
    await crashAnywhere(h);
  });

  it("L3 every reason not to commit is said once, in words", async () => {
    const looped = { name: "l", state: 0, commitInterval: 1 } as const;
    const reasons: Readonly<Record<string, AnyWorkflow>> = {
      "through an ivar": workflow("w", async (ctx) => {
        const cell = ctx.ivar<number>();
        await ctx.loop(looped, async (_c, i: number) => {
          if (i === 1) cell.put(i);
          return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
        });
      }),
      "through a condition": workflow("w", async (ctx) => {
        let count = 0;
        await ctx.join("j", {
          watcher: (c) => c.condition(() => count > 0),
          loop: (c) =>
            c.loop({ ...looped, commitInterval: 3 }, async (d, i: number) => {
              count++;
              await d.step("s", () => i);
              return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
            }),
        });
      }),
      "call updateState": workflow("w", async (ctx) => {
        await ctx.receive(0, {
          signals: {
            go: (_payload, state) =>
              Receive.async(async (c) => {
                await c.loop(looped, async (d, i: number) => {
                  await d.updateState((before) => [0, before + 1]);
                  return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
                });
              }, state),
          },
          timeout: "1h",
        });
      }),
      "calls ctx.yield()": workflow("w", async (ctx) => {
        const yields = async () => {
          for (let i = 0; i < 20; i++) await ctx.yield();
        };
        await Promise.all([yields(), ctx.loop(looped, async (_c, i: number) => (i === 4 ? Loop.break(i) : Loop.continue(i + 1)))]);
      }),
      "step other open at the same time": workflow("w", async (ctx) => {
        await Promise.all([
          ctx.step("other", () => 0),
          ctx.loop(looped, async (_c, i: number) => (i === 4 ? Loop.break(i) : Loop.continue(i + 1))),
        ]);
      }),
    };
    for (const [reason, wf] of Object.entries(reasons)) {
      const { logger, warnings } = recording();
      const h = await Harness.start(wf, undefined, { logger });
      if (reason === "call updateState") await h.signal("go");
      while (h.openLocations.some((location) => location.endsWith("/s"))) await h.resolve("s");
      expect([reason, warnings.filter((line) => line.includes(reason)).length]).toEqual([reason, 1]);
    }
  });

  it("L3 it commits once the sibling has ended, and replay at every cut is right", async () => {
    const { logger, warnings } = recording();
    const h = await Harness.start(beside, undefined, { logger });
    for (let i = 0; i < 3; i++) await h.resolve("s");
    await h.resolve("other", "one");
    for (let i = 0; i < 2; i++) await h.resolve("s");
    await h.signal("more", "two");
    expect(commits(h)).toEqual([]);
    for (let i = 0; i < 7; i++) await h.resolve("s");
    expect(commits(h).map((commit) => commit.count)).toEqual([6, 8, 10]);
    expect(warnings).toHaveLength(1);
    expect(h.output).toEqual({ loop: 11, other: ["one", "two"] });
    expect(await crashAnywhere(h)).toBe(16);
    await replay(beside, h.history());
  });

  it("L3 the sibling's end and the iteration's in one activation", async () => {
    const h = await Harness.start(beside);
    await h.resolve("other", "one");
    await h.resolve("s");
    await h.turn(h.signalJob("more", "two"), h.resolved("s"));
    for (let i = 0; i < 10; i++) await h.resolve("s");
    expect(h.output).toEqual({ loop: 11, other: ["one", "two"] });
    await crashAnywhere(h);
  });

  it("L3 a sibling that ended before because of the loop replays from the commit too", async () => {
    const wf = workflow("fed", async (ctx) => {
      const cell = ctx.ivar<number>();
      return ctx.join("j", {
        loop: (c) =>
          c.loop({ name: "l", state: 0, commitInterval: 2 }, async (d, i: number) => {
            await d.step("s", () => i);
            if (i === 1) cell.put(i);
            return i === 5 ? Loop.break(i) : Loop.continue(i + 1);
          }),
        fed: () => cell.wait(),
      });
    });
    const h = await runWorkflow(wf);
    expect(h.output).toEqual({ loop: 5, fed: 1 });
    await crashAnywhere(h);
  });

  it("L3 a loop beside an operation in one Promise.all commits once that is delivered", async () => {
    const wf = workflow("all", async (ctx) =>
      Promise.all([
        ctx.loop({ name: "l", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 }, async (c, i: number) => {
          await c.step("s", () => i);
          return i === 9 ? Loop.break(i) : Loop.continue(i + 1);
        }),
        ctx.step("beside", () => ""),
      ]),
    );
    const h = await Harness.start(wf);
    for (let i = 0; i < 5; i++) await h.resolve("s");
    expect(commits(h)).toEqual([]);
    await h.resolve("beside", "done");
    for (let i = 0; i < 5; i++) await h.resolve("s");
    expect(commits(h).map((commit) => commit.count)).toEqual([6, 8]);
    expect(h.output).toEqual([9, "done"]);
    await crashAnywhere(h);
    await replay(wf, h.history());
  });

  it("L3 an operation outstanding in an ancestor holds the commit back too", async () => {
    const wf = workflow("ancestor", async (ctx) => {
      const early = ctx.step("early", () => "");
      const result = await ctx.try("t", (c) =>
        c.loop({ name: "l", state: 0, commitInterval: 1 }, async (d, i: number) => {
          await d.step("s", () => i);
          return i === 3 ? Loop.break(i) : Loop.continue(i + 1);
        }),
      );
      return [result.ok && result.value, await early];
    });
    const h = await Harness.start(wf);
    for (let i = 0; i < 4; i++) await h.resolve("s");
    expect(commits(h)).toEqual([]);
    await h.resolve("early", "late");
    expect(h.output).toEqual([3, "late"]);
    await crashAnywhere(h);
  });

  it("L3 loops in all branches commit when each is the last alive", async () => {
    const wf = workflow("many", async (ctx) =>
      ctx.parallel(
        [3, 6, 9].map(
          (end) => (c: BranchContext) =>
            c.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (d, i: number) => {
              await d.step("s", () => i);
              return i === end ? Loop.break(i) : Loop.continue(i + 1);
            }),
        ),
      ),
    );
    const h = await runWorkflow(wf);
    expect(new Set(commits(h).map((commit) => commit.unit))).toEqual(new Set(["parallel/~2/l"]));
    await crashAnywhere(h);
  });
});

describe("L3 with messages", () => {
  const consumer = workflow("consumer", async (ctx) =>
    ctx.loop({ name: "l", state: [] as unknown[], commitInterval: 2, historyEvery: 2, historyKeep: 0 }, async (c, seen) => {
      const payload = await c.waitForSignal("item");
      await c.step("s", () => payload);
      const next = [...seen, payload];
      return next.length === 7 ? Loop.break(next) : Loop.continue(next);
    }),
  );

  it("L3 M2 M7 signals buffered across commits are consumed once, in order, at every cut", async () => {
    const h = new Harness(consumer);
    await h.start(undefined, ...[0, 1, 2].map((i) => h.signalJob("item", i)));
    await h.resolve("s");
    await h.turn(h.signalJob("item", 3), h.signalJob("other", "stays"), h.signalJob("item", 4));
    await h.resolve("s");
    await h.turn(h.resolved("s"), h.signalJob("item", 5));
    await h.resolve("s");
    await h.resolve("s");
    await h.resolve("s");
    await h.signal("item", 6);
    await h.resolve("s");
    expect(h.output).toEqual([0, 1, 2, 3, 4, 5, 6]);
    await crashAnywhere(h);
    await replay(consumer, h.history());
  });

  it("L3 a signal that no code consumes is in every commit and reaches code after the loop", async () => {
    const wf = workflow("after", async (ctx) => {
      await ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, i: number) => {
        await c.step("s", () => i);
        return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
      });
      return [await ctx.waitForSignal("kept"), await ctx.waitForSignal("kept")];
    });
    const h = new Harness(wf);
    await h.start(undefined, h.signalJob("kept", "with the start"));
    for (let i = 0; i < 3; i++) await h.resolve("s");
    await h.signal("kept", "between");
    for (let i = 0; i < 2; i++) await h.resolve("s");
    expect(h.output).toEqual(["with the start", "between"]);
    await crashAnywhere(h);
  });

  it("L3 M4 a signal that comes after a timed-out wait is kept over commits", async () => {
    const wf = workflow("timeouts", async (ctx) =>
      ctx.loop({ name: "l", state: [] as unknown[], commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, seen) => {
        const got = await c.waitForSignal("item", { timeout: "1m" });
        const next = [...seen, got.timedOut ? "timeout" : got.payload];
        return next.length === 4 ? Loop.break(next) : Loop.continue(next);
      }),
    );
    const h = await Harness.start(wf);
    await h.fire();
    await h.turn(h.signalJob("item", 1), { type: "fire", seq: h.nextTimer as number });
    await h.fire();
    expect(h.output).toBeUndefined();
    await h.signal("item", 2);
    expect(h.output).toEqual(["timeout", 1, "timeout", 2]);
    await crashAnywhere(h);
  });

  it("L3 C7 a step abandoned in a committed iteration may report late, at every cut", async () => {
    const wf = workflow("late", async (ctx) =>
      ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, i: number) => {
        await c.race("r", { slow: (d) => d.step("slow", () => i), quick: (d) => d.sleep(1) });
        return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf);
    const late = [];
    for (let i = 0; i < 5; i++) {
      late.push(h.resolved("slow", "late"));
      await h.fire();
      const job = late[i - 1];
      if (job !== undefined) expect(await h.turn(job)).toEqual([]);
    }
    expect(h.output).toBe(4);
    await crashAnywhere(h);
  });

  it("L3 a loop around a receive, with checkpoints inside", async () => {
    const wf = workflow("phases", async (ctx) =>
      ctx.loop({ name: "phase", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, phase: number) => {
        const { state } = await c.receive(0, {
          signals: {
            add: async (payload, sum: number, handler) => {
              await handler.step("work", () => 0);
              return Receive.noreply(sum + Number(payload));
            },
            next: (_payload, sum: number) => Receive.stop(sum),
          },
          checkpointEvery: 2,
        });
        return phase === 2 ? Loop.break(state) : Loop.continue(phase + 1);
      }),
    );
    const h = await Harness.start(wf);
    for (let phase = 0; phase < 3; phase++) {
      await h.turn(...[1, 2, 3].map((n) => h.signalJob("add", n)), h.signalJob("next"));
      await drive(h);
    }
    expect(h.output).toBe(6);
    await crashAnywhere(h);
  });
});

describe("L4 bounded history", () => {
  it("L4 every historyEvery iterations all but the last historyKeep are deleted, with the commit", async () => {
    const h = await Harness.start(counter({ end: 100, commitInterval: 1, historyEvery: 4, historyKeep: 2 }));
    for (let i = 0; i < 3; i++) await h.resolve("s");
    expect(kept(h)).toEqual(["count", "count/~0/s", "count/~1/s", "count/~2/s", "count/~3/s"]);
    await h.resolve("s");
    expect(kept(h)).toEqual(["count", "count/~2/s", "count/~3/s", "count/~4/s"]);
    expect(commits(h).filter((commit) => commit.trim !== undefined)).toMatchObject([{ count: 4, trim: 2 }]);
    for (let i = 0; i < 4; i++) await h.resolve("s");
    expect(kept(h)).toEqual(["count", "count/~6/s", "count/~7/s", "count/~8/s"]);
    await crashAnywhere(h);
  });

  it.each([
    { commitInterval: 1, historyEvery: 1, historyKeep: 0 },
    { commitInterval: 4, historyEvery: 5, historyKeep: 3 },
    { commitInterval: 3, historyEvery: 10, historyKeep: 1 },
    { commitInterval: 7, historyEvery: 2, historyKeep: 2 },
    { commitInterval: 2, historyEvery: 3, historyKeep: 100 },
  ])("L4 X1 trims are the same after a crash at any turn: %o", async (options) => {
    const h = await runWorkflow(counter({ end: 25, ...options }));
    expect(h.output).toBe("counted to 25");
    await crashAnywhere(h);
  });

  it("L4 what is outside the loop is not deleted", async () => {
    const wf = workflow("around", async (ctx) => {
      await ctx.step("before", () => 0);
      await ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, i: number) => {
        await c.step("s", () => i);
        return i === 5 ? Loop.break(i) : Loop.continue(i + 1);
      });
      await ctx.step("after", () => 0);
    });
    const h = await runWorkflow(wf);
    expect(kept(h)).toEqual(["before", "l", "l/~5/s", "after"]);
    expect(h.turns[0]?.jobs[0]?.type).toBe("start");
    await crashAnywhere(h);
  });

  it("L4 signals that trimmed iterations consumed are deleted with them, others stay", async () => {
    const wf = workflow("signals", async (ctx) =>
      ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, i: number) => {
        await c.waitForSignal("item");
        return Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf);
    await h.signal("other");
    for (let i = 0; i < 10; i++) await h.signal("item", i);
    const signals = h.turns.flatMap((turn) => turn.jobs).flatMap((job) => (job.type === "signal" ? [job.name] : []));
    expect(signals).toEqual(["other"]);
    await crashAnywhere(h);
  });

  it("L4 20,000 iterations have a bounded history, and replay costs no more than its last stretch", async () => {
    let ran = 0;
    const wf = workflow("long", async (ctx) =>
      ctx.loop({ name: "l", state: 0 }, async (c, i: number) => {
        ran++;
        await c.step("s", () => i);
        return i === 19_999 ? Loop.break(i) : Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf);
    let most = 0;
    for (let i = 0; i < 19_990; i++) {
      await h.resolve("s", i);
      if (i > 100) most = Math.max(most, records(h));
      if (i % 100 === 0) h.transcript.length = 0;
    }
    expect(most).toBeLessThan(120);
    ran = 0;
    await h.recover();
    expect(ran).toBeLessThanOrEqual(21);
    for (let i = 0; i < 10; i++) await h.resolve("s", i);
    expect(h.output).toBe(19_999);
    await replay(wf, h.history());
  });

  it("L4 nor does the executor keep what the loop has left behind", async () => {
    const wf = workflow("memory", async (ctx) =>
      ctx.loop({ name: "l", state: 0 }, async (c, i: number) => {
        await c.parallel([(d) => d.step("s", () => i), (d) => d.sleep(1)]);
        return Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf);
    for (let i = 0; i < 200; i++) {
      await h.resolve("s");
      await h.fire();
    }
    expect(h.executor.openOperations).toHaveLength(4);
  });

  it("L4 a loop of many iterations in one turn leaves a bounded history too", async () => {
    const wf = workflow("spin", async (ctx) =>
      ctx.loop({ name: "l", state: 0 }, async (_c, i: number) => (i === 5_000 ? Loop.break(i) : Loop.continue(i + 1))),
    );
    const h = await Harness.start(wf);
    expect(h.output).toBe(5_000);
    expect(records(h)).toBeLessThan(10);
    await crashAfter(h, 1);
  });
});

describe("L5 rollbacks", () => {
  const saga = (checkpoint: boolean, end = 6) =>
    workflow("saga", async (ctx) => {
      await ctx.step("before", () => "before", { rollback: () => {} });
      await ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, i: number) => {
        await c.step("s", () => i, { rollback: () => {} });
        if (checkpoint && i % 2 === 1) c.rollbackCheckpoint("safe");
        return i === end ? Loop.break(i) : Loop.continue(i + 1);
      });
      throw new Error("fails in the end");
    });
  const undone = (h: Harness) => h.commands.flatMap((command) => (command.type === "rollback" ? [command.name] : []));

  it("L5 no commit passes a completed step whose rollback may still run, and the log says what to do", async () => {
    const { logger, warnings } = recording();
    const h = await runWorkflow(saga(false), undefined, { logger });
    expect(commits(h)).toEqual([]);
    expect(warnings).toEqual([expect.stringContaining("Call ctx.rollbackCheckpoint(name) at the end of its body")]);
    expect(undone(h)).toEqual(["l/~6/s", "l/~5/s", "l/~4/s", "l/~3/s", "l/~2/s", "l/~1/s", "l/~0/s", "before"]);
    await crashAnywhere(h);
  });

  it("L5 a checkpoint at the beginning of the body lets no commit pass either, and the log says where it belongs", async () => {
    const wf = (where: "begin" | "end") =>
      workflow("where", (ctx) =>
        ctx.loop({ name: "l", state: 0, commitInterval: 1 }, async (c, i: number) => {
          if (where === "begin") c.rollbackCheckpoint("safe");
          await c.step("s", () => i, { rollback: () => {} });
          if (where === "end") c.rollbackCheckpoint("safe");
          return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
        }),
      );
    const { logger, warnings } = recording();
    expect(commits(await runWorkflow(wf("begin"), undefined, { logger }))).toEqual([]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("at the end of its body");
    expect(commits(await runWorkflow(wf("end"), undefined, { logger }))).toHaveLength(4);
    expect(warnings).toHaveLength(1);
  });

  it("L5 S1 with rollbackCheckpoint in its body it commits, and only later steps are rolled back, at every cut", async () => {
    const h = await runWorkflow(saga(true));
    expect(commits(h).map((commit) => commit.count)).toEqual([2, 4, 6]);
    expect(undone(h)).toEqual(["l/~6/s"]);
    await crashAnywhere(h);
  });

  it("L5 S1 a checkpoint in a committed iteration also discards steps before the loop, after a crash too", async () => {
    const wf = workflow("discards", async (ctx) => {
      await ctx.step("before", () => "before", { rollback: () => {} });
      await ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, i: number) => {
        await c.step("s", () => i);
        if (i === 1) c.rollbackCheckpoint("safe");
        return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
      });
      throw new Error("fails in the end");
    });
    const h = await Harness.start(wf);
    await h.resolve("before");
    for (let i = 0; i < 4; i++) await h.resolve("s");
    await h.recover();
    await h.resolve("s");
    expect(h.status).toBe("failed");
    expect(undone(h)).toEqual([]);
    await crashAnywhere(h);
  });

  it("L5 S1 steps before the loop that no checkpoint discarded are rolled back after commits too", async () => {
    const wf = workflow("holds", async (ctx) => {
      await ctx.step("before", () => "before", { rollback: () => {} });
      await ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, i: number) => {
        await c.step("s", () => i);
        return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
      });
      throw new Error("fails in the end");
    });
    const h = await runWorkflow(wf);
    expect(commits(h)).toHaveLength(4);
    expect(undone(h)).toEqual(["before"]);
    await crashAnywhere(h);
  });
});

describe("L3 histories", () => {
  it("L3 Y1 the history of every cut replays by itself", async () => {
    const wf = counter({ end: 12, commitInterval: 3, historyEvery: 3, historyKeep: 1 });
    const h = await runWorkflow(wf);
    for (let cut = 1; cut <= h.transcript.length; cut++) {
      const probe = new Harness(wf);
      probe.turns = historyOf(h, cut);
      await probe.recover();
    }
  });

  it("L3 Y2 code that changed behind the last commit is not looked at; code after it is", async () => {
    const make = (old: string, current: string) =>
      workflow("changes", async (ctx) =>
        ctx.loop({ name: "l", state: 0, commitInterval: 2 }, async (c, i: number) => {
          await c.step(i < 2 ? old : current, () => i);
          return Loop.continue(i + 1);
        }),
      );
    const h = await Harness.start(make("a", "b"));
    await h.resolve("a");
    await h.resolve("a");
    await h.resolve("b");
    await h.recover(make("changed", "b"));
    await expect(h.recover(make("a", "changed"))).rejects.toMatchObject({ name: "NondeterminismError", location: "l/~2/b" });
  });
});
