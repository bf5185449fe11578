// Job: prove that time and randomness belong to the run, not to the process: the same in every replay, shifted by nothing.
// Owns: the workflows in it.
// Invariants: P7.
import { Loop, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, drive, Harness, runWorkflow } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const START = Date.UTC(2026, 0, 1);

describe("P7 now", () => {
  it("P7 now is the time of the turn, the same all through it", async () => {
    const wf = workflow("clock", async (ctx) => {
      const first = ctx.now();
      await ctx.sideEffect(() => 0);
      const second = ctx.now();
      await ctx.sleep("1h");
      return [first, second, ctx.now()].map((time) => time.getTime() - START);
    });
    const h = await Harness.start(wf, undefined, { startTime: START });
    await h.fire();
    expect(h.output).toEqual([0, 0, 3_600_000]);
    await crashAnywhere(h);
  });

  it("P7 now never decreases, even if the host's estimate does", async () => {
    const times: number[] = [];
    const wf = workflow("clock", async (ctx) => {
      for (const name of ["a", "b", "c"]) {
        times.push(ctx.now().getTime() - START);
        await ctx.step(name, () => 0);
      }
    });
    const h = await Harness.start(wf, undefined, { startTime: START });
    h.time = START + 500;
    await h.resolve("a");
    h.time = START + 100;
    await h.resolve("b");
    expect(times).toEqual([0, 500, 500]);

    await h.recover();
    expect(times.slice(3)).toEqual([0, 500, 500]);
  });

  it("P7 a query, which leaves no trace, does not move the time of the run", async () => {
    const wf = workflow({ name: "clock", queries: { ping: () => "pong" } }, async (ctx) => {
      await ctx.step("a", () => 0);
      const now = ctx.now().getTime() - START;
      await ctx.step("b", () => 0);
      return now;
    });
    const h = await Harness.start(wf, undefined, { startTime: START });
    h.time = START + 500;
    await h.turn(h.queryJob("ping"));
    h.time = START + 100;
    await h.resolve("a");
    await h.recover();
    await h.resolve("b");
    expect(h.output).toBe(100);
    await crashAnywhere(h);
  });

  it("P7 a rejected update, which leaves no trace, does not move the time of the run", async () => {
    const wf = workflow("clock", async (ctx) => {
      await ctx.step("a", () => 0);
      const now = ctx.now().getTime() - START;
      await ctx.step("b", () => 0);
      return now;
    });
    const h = await Harness.start(wf, undefined, { startTime: START });
    h.time = START + 500;
    await h.update("no receive");
    h.time = START + 100;
    await h.resolve("a");
    await h.recover();
    await h.resolve("b");
    expect(h.output).toBe(100);
    await crashAnywhere(h);
  });

  it("P7 time does not go back where the turns that knew better were trimmed", async () => {
    const times: number[] = [];
    const wf = workflow("clock", async (ctx) =>
      ctx.loop({ name: "rounds", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 }, async (body, i) => {
        await body.step("work", () => 0);
        times.push(body.now().getTime() - START);
        return i === 4 ? Loop.break(times.at(-1)) : Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf, undefined, { startTime: START });
    h.time = START + 500;
    await h.resolve("work");
    h.time = START + 100; // the commit falls into this turn
    await h.resolve("work");
    await h.recover();
    await h.resolve("work");
    expect(times).toEqual([500, 500, 500]);
    await crashAnywhere(h);
  });

  it("P7 what user code does to the Date it got changes nothing", async () => {
    const wf = workflow("clock", async (ctx) => {
      ctx.now().setFullYear(1970);
      return ctx.now().getTime();
    });
    expect((await Harness.start(wf, undefined, { startTime: START })).output).toBe(START);
  });
});

describe("P7 random and uuid", () => {
  const draws = workflow("draws", async (ctx) => {
    const first = [ctx.random(), ctx.uuid()];
    await ctx.step("work", () => 0);
    return [...first, ctx.random(), ctx.uuid()];
  });

  it("P7 random and uuid are the same in replay, across turns", async () => {
    const live = await runWorkflow(draws);
    const cut = await Harness.start(draws);
    await cut.recover();
    await drive(cut);
    expect(cut.output).toEqual(live.output);
  });

  it("P7 random is in [0, 1), uuid is a version 4 UUID, no two draws are the same", async () => {
    const { output } = await runWorkflow(draws);
    const [a, id, b, otherId] = output as [number, string, number, string];
    expect(a).toBeGreaterThanOrEqual(0);
    expect(a).toBeLessThan(1);
    expect(b).not.toBe(a);
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(otherId).not.toBe(id);
  });

  it("P7 another seed gives other values", async () => {
    const one = await runWorkflow(draws, undefined, { seed: "one" });
    const two = await runWorkflow(draws, undefined, { seed: "two" });
    expect(two.output).not.toEqual(one.output);
  });

  it("P7 each unit draws from its own generator: more draws in one shift no other", async () => {
    const branches = (extra: number) =>
      workflow("branches", async (ctx) => {
        const [, right] = await ctx.parallel([
          async (left) => {
            for (let i = 0; i < extra; i++) left.random();
            await left.step("left", () => 0);
            return left.random();
          },
          async (right) => {
            await right.step("right", () => 0);
            return right.random();
          },
        ]);
        return { right, root: ctx.random() };
      });
    const few = await runWorkflow(branches(0));
    const many = await runWorkflow(branches(5));
    expect(many.output).toEqual(few.output);
  });

  it("P7 units do not share their draws", async () => {
    const wf = workflow("branches", async (ctx) => {
      const results = await ctx.parallel([async (a) => a.random(), async (b) => b.random()]);
      const iteration = await ctx.loop("once", async (body) => Loop.break(body.random()));
      return [ctx.random(), iteration, ...results.map((result) => (result.status === "fulfilled" ? result.value : undefined))];
    });
    const { output } = await runWorkflow(wf);
    expect(new Set(output as number[]).size).toBe(4);
  });

  const rolls = (historyEvery: number) =>
    workflow("rolls", async (ctx) => {
      const before = ctx.random();
      const rolled = await ctx.loop(
        { name: "roll", state: [] as number[], commitInterval: historyEvery, historyEvery, historyKeep: 0 },
        async (body, all) => {
          const roll = body.random();
          await body.step("work", () => 0);
          const next = [...all, roll, body.random()];
          return next.length === 12 ? Loop.break(next) : Loop.continue(next);
        },
      );
      return [before, ...rolled, ctx.random()];
    });

  it("P7 a trimmed history shifts no draw", async () => {
    const whole = await runWorkflow(rolls(1_000));
    const trimmed = await Harness.start(rolls(1));
    for (let i = 0; trimmed.status === "sleeping"; i++) {
      if (i % 2 === 0) await trimmed.recover();
      await trimmed.resolve("work");
    }
    expect(trimmed.output).toEqual(whole.output);
    expect(trimmed.turns.length).toBeLessThan(whole.turns.length);
    await crashAnywhere(trimmed);
  });

  it("P7 a checkpointed receive shifts no draw", async () => {
    const dice = (checkpointEvery: number) =>
      workflow("dice", async (ctx) => {
        const { state } = await ctx.receive([] as number[], {
          signals: {
            roll: (_payload, all, handler) => Receive.noreply([...all, handler.random()]),
            stop: (_payload, all) => Receive.stop(all),
          },
          checkpointEvery,
        });
        return [...state, ctx.random()];
      });
    const outputs: unknown[] = [];
    for (const every of [1_000, 1]) {
      const h = await Harness.start(dice(every));
      for (let i = 0; i < 4; i++) {
        await h.signal("roll");
        await h.recover();
      }
      await h.signal("stop");
      outputs.push(h.output);
    }
    expect(outputs[1]).toEqual(outputs[0]);
  });

  it("P7 a rejected update shifts no draw, of the root or of a handler", async () => {
    const wf = workflow("dice", async (ctx) => {
      const { state } = await ctx.receive([] as number[], {
        updates: {
          roll: {
            validate: (input: string) => {
              if (input === "bad") throw new Error("refused");
            },
            handle: (_input, all, handler) => Receive.reply(0, [...all, handler.random()]),
          },
        },
        signals: { stop: (_payload, all, handler) => Receive.stop([...all, handler.random()]) },
      });
      return [...state, ctx.random()];
    });
    const outputs: unknown[] = [];
    for (const disturbed of [false, true]) {
      const h = await Harness.start(wf);
      if (disturbed) await h.update("roll", "bad");
      await h.update("roll", "good");
      if (disturbed) await h.turn(h.updateJob("roll", "bad"), h.updateJob("unknown"));
      await h.signal("stop");
      outputs.push(h.output);
      await crashAnywhere(h);
    }
    expect(outputs[1]).toEqual(outputs[0]);
  });
});
