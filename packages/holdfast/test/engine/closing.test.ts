// M1, M7, D9, K1: messages that are acknowledged while their run is ending.

import { activity, Receive, RunClosedError, signal, update, workflow } from "holdfast";
import type { TurnCommit } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, Gate, STORES, until, Wire } from "./engines.ts";

/** Calls back before each commit that ends a run goes to the store. */
function beforeEnds(wire: Wire, work: (end: TurnCommit, nth: number) => Promise<unknown>): void {
  let nth = 0;
  wire.intercept("commit", async (pass, turns) => {
    for (const turn of turns) if (turn.close !== undefined) await work(turn, ++nth);
    return pass(turns);
  });
}
const ticks = { tick: signal<number>() };
const drain = workflow({ name: "drain", signals: ticks }, async (ctx) => {
  const seen: number[] = [];
  for (;;) {
    const batch = await ctx.listen(["tick"], { count: 100, timeout: 20 });
    if (batch.length === 0) return seen;
    seen.push(...batch.map(({ payload }) => payload as number));
  }
});
const counted = (n: number) => Array.from({ length: n }, (_, i) => i + 1);

describe.each(STORES)("the end of a run and its messages on %s", (store) => {
  const engines = enginesOn(store);

  test("M1 D9 a run that drains its signals until none comes has seen every one that was acknowledged", async () => {
    const engine = await engines.open();
    const sender = await engines.open();
    await engine.worker({ workflows: [drain] });
    const rounds = counted(12).map(async (round) => {
      await engine.start(drain, undefined, { id: `drain-${round}` });
      const run = sender.run(`drain-${round}`, drain);
      let acknowledged = 0;
      for (let gap = 12; ; gap = gap === 26 ? 12 : gap + 1) {
        try {
          await run.signal("tick", acknowledged + 1);
        } catch (error) {
          expect(error).toBeInstanceOf(RunClosedError);
          break;
        }
        acknowledged++;
        await new Promise((resolve) => setTimeout(resolve, gap));
      }
      expect(await run.result()).toEqual(counted(acknowledged));
    });
    await Promise.all(rounds);
  }, 60_000);

  test("M1 D9 a signal that is acknowledged while the last turn is written is taken, and what that turn did is undone", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const run = await engine.start(drain, undefined);
    beforeEnds(wire, async (_end, nth) => nth <= 3 && (await run.signal("tick", nth)));
    await engine.worker({ workflows: [drain] });
    expect(await run.result()).toEqual([1, 2, 3]);
    const turns = (await run.history()).turns as readonly { readonly jobs: readonly { readonly type: string }[] }[];
    const jobs = turns.map((turn) => turn.jobs.map(({ type }) => type).join(" "));
    expect(jobs).toEqual(["start", "signal", "signal", "signal", "fire"]);
    await expect(run.signal("tick", 4)).rejects.toBeInstanceOf(RunClosedError);
  });

  test("D9 a race of a wait and a sleep hears the signal that came before its end was written", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const race = workflow({ name: "race", signals: { go: signal<string>() } }, (ctx) =>
      ctx.race("first", { heard: (branch) => branch.waitForSignal("go"), slept: (branch) => branch.sleep(5) }),
    );
    const run = await engine.start(race, undefined);
    beforeEnds(wire, async (_end, nth) => nth === 1 && (await run.signal("go", "now")));
    await engine.worker({ workflows: [race] });
    expect(await run.result()).toEqual({ winner: "heard", value: "now" });
  });

  test("D9 a timer and a signal that come in the same turn: the signal counts", async () => {
    const engine = await engines.open({ skips: true });
    const signals = { go: signal<string>() };
    const race = workflow({ name: "race", signals }, (ctx) =>
      ctx.race("first", { heard: (branch) => branch.waitForSignal("go"), slept: (branch) => branch.sleep("1h") }),
    );
    const wait = workflow({ name: "wait", signals }, async (ctx) => (await ctx.listen(["go"], { timeout: "1h" })).length);
    const worker = await engine.worker({ workflows: [race, wait] });
    const runs = [await engine.start(race, undefined), await engine.start(wait, undefined)] as const;
    for (const run of runs) await until(async () => (await run.describe()).status === "sleeping");
    await worker.stop();
    for (const run of runs) await run.signal("go", "there");
    engines.skip(3_600_000);
    await engine.worker({ workflows: [race, wait] });
    expect(await runs[0].result()).toEqual({ winner: "heard", value: "there" });
    expect(await runs[1].result()).toBe(1);
  });

  test("D9 a race of a wait with an activity or a child hears the signal that came before its end was written", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const work = activity("work", async () => "worked");
    const child = workflow("child", async () => "grown");
    const signals = { more: signal<string>() };
    const both = (name: string, other: "activity" | "child") =>
      workflow({ name, signals }, async (ctx) => {
        const heard: string[] = [];
        const { winner } = await ctx.race("first", {
          other: (branch) => (other === "activity" ? branch.activity(work) : branch.child(child)),
          hear: async (branch) => {
            for (;;) heard.push(await branch.waitForSignal("more"));
          },
        });
        return [winner, heard];
      });
    const workflows = [both("errand", "activity"), both("parent", "child")] as const;
    const runs = await Promise.all(workflows.map((one) => engine.start(one, undefined, { id: one.name })));
    const sent = new Set<string>();
    beforeEnds(wire, async ({ runId }) => {
      if (runId !== "errand" && runId !== "parent") return;
      if (sent.has(runId)) return;
      sent.add(runId);
      await runs.find(({ id }) => id === runId)?.signal("more", "late");
    });
    await engine.worker({ workflows: [...workflows, child], activities: [work] });
    for (const run of runs) expect(await run.result()).toEqual(["other", ["late"]]);
  });

  test("K1 a cancellation that is acknowledged while the last turn is written is heard", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const plain = workflow("plain", (ctx) => ctx.step("only", () => "done"));
    const run = await engine.start(plain, undefined);
    beforeEnds(wire, async (_end, nth) => nth <= 2 && (await run.cancel("no more")));
    await engine.worker({ workflows: [plain] });
    await expect(run.result()).rejects.toMatchObject({ code: "HF_CANCELED" });
    expect((await run.describe()).status).toBe("canceled");
  });

  test("K1 a run whose cancellation was acknowledged ends canceled, whenever it came", async () => {
    const engine = await engines.open();
    const sender = await engines.open();
    const short = workflow("short", async (ctx) => {
      for (const n of counted(3)) await ctx.step("work", () => new Promise((resolve) => setTimeout(resolve, 2 * n)));
      return "done";
    });
    await engine.worker({ workflows: [short] });
    const rounds = counted(40).map(async (round) => {
      const run = await engine.start(short, undefined, { id: `short-${round}` });
      await new Promise((resolve) => setTimeout(resolve, round));
      const isAcknowledged = await sender.run(run.id, short).cancel().then(
        () => true,
        () => false,
      ); // biome-ignore format: one call
      await run.result().catch(() => {});
      expect([run.id, isAcknowledged, (await run.describe()).status]).toEqual([
        run.id,
        isAcknowledged,
        isAcknowledged ? "canceled" : "completed",
      ]);
    });
    await Promise.all(rounds);
  }, 60_000);

  test("K1 K3 a cooperative workflow that hears of a late cancellation decides about its end", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const cooperative = workflow({ name: "cooperative", cancellation: "cooperative" }, async (ctx) => {
      try {
        return await ctx.step("only", () => "done");
      } catch {
        return "was canceled";
      }
    });
    const run = await engine.start(cooperative, undefined);
    beforeEnds(wire, async (_end, nth) => nth <= 2 && (await run.cancel()));
    await engine.worker({ workflows: [cooperative] });
    expect(await run.result()).toBe("was canceled");
  });

  test("D9 D6 steps of a turn that is taken back keep their outcomes, and those in flight run on", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const bodies: string[] = [];
    const gate = new Gate();
    const flight = workflow({ name: "flight", signals: { more: signal() } }, async (ctx) => {
      const heard: string[] = [];
      const { winner } = await ctx.race("work", {
        quick: (branch) =>
          branch.step("quick", async ({ attempt }) => {
            bodies.push(`quick ${attempt}`);
            await until(() => bodies.length === 2, "the slow one");
          }),
        slow: (branch) =>
          branch.step("slow", async ({ attempt }) => {
            bodies.push(`slow ${attempt}`);
            await gate.passed;
          }),
        hear: async (branch) => {
          await branch.waitForSignal("more");
          heard.push("more");
          ctx.log.info("heard");
          await branch.sleep("1h");
        },
      });
      return [winner, heard];
    });
    const run = await engine.start(flight, undefined);
    beforeEnds(wire, async (_end, nth) => nth === 1 && (await run.signal("more")));
    await engine.worker({ workflows: [flight] });
    expect(await run.result()).toEqual(["quick", ["more"]]);
    gate.open();
    expect(bodies.toSorted()).toEqual(["quick 1", "slow 1"]);
  });

  test("D9 D12 attempts, updates and state of a turn that is taken back are written with the turns that take its place", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire, skips: true });
    const entity = workflow(
      { name: "entity", signals: { add: signal<number>() }, updates: { close: update<void, number>() } },
      async (ctx) => {
        const { state } = await ctx.receive(0, {
          signals: { add: (n, sum) => Receive.noreply(sum + n) },
          updates: { close: (_, sum) => Receive.reply(sum, sum) },
          timeout: "10s",
        });
        ctx.publishState(state);
        return ctx.step("flaky", ({ attempt }) => {
        if (attempt === 1) throw new Error("once");
        return state;
      }, { retry: { initialInterval: 1 } }); // biome-ignore format: one call
      },
    );
    const run = await engine.start(entity, undefined);
    beforeEnds(wire, async (_end, nth) => nth === 1 && (await run.cancel()));
    await engine.worker({ workflows: [entity] });
    expect(await run.update("close")).toBe(0);
    engines.skip(10_000);
    await until(async () => (await run.describe()).status === "canceled", "its end");
    const flaky = (await run.operations()).find(({ name }) => name === "flaky");
    expect(flaky?.attempts.map(({ status }) => status)).toEqual(["failed", expect.stringMatching(/completed|running|lost/)]);
    expect(await run.state()).toBe(0);
  });

  test("D9 over two hundred signals that arrive at the end are all seen", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const run = await engine.start(drain, undefined);
    const many = async (): Promise<unknown> => {
      let last: unknown;
      for (const n of counted(450)) last = await run.signal("tick", n);
      return last;
    };
    beforeEnds(wire, async (_end, nth) => nth === 1 && (await many()));
    await engine.worker({ workflows: [drain] });
    expect(await run.result()).toEqual(counted(450));
  });

  test("D9 a run that asks for no more ends however many still come, and its updates are answered", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const deaf = workflow({ name: "deaf", signals: { noise: signal(), go: signal() }, updates: { change: update() } }, async (ctx) => {
      await ctx.waitForSignal("noise", { timeout: 1 });
      await ctx.step("between", () => {});
      await ctx.waitForSignal("go");
      return "done";
    });
    const run = await engine.start(deaf, undefined);
    let ends = 0;
    let change: Promise<unknown> | undefined;
    beforeEnds(wire, async () => {
      ends++;
      await run.signal("noise");
      await run.signal("go");
      change = run.update("change");
      change.catch(() => {});
      await until(async () => (await engine.list({})).runs.length === 1);
    });
    await engine.worker({ workflows: [deaf] });
    await run.signal("go");
    expect(await run.result()).toBe("done");
    expect(ends).toBe(1);
    await expect(change).rejects.toThrow();
  });

  test("D9 W3 a worker that dies with an end that was late has lost nothing", async () => {
    const wire = new Wire();
    const doomed = await engines.open({ wire });
    const run = await doomed.start(drain, undefined);
    let late = 0;
    wire.intercept("commit", async (pass, turns) => {
      if (turns.some(({ close }) => close !== undefined)) await run.signal("tick", ++late);
      const results = await pass(turns);
      if (results.some((answer) => answer !== "busy" && answer.status === "late")) wire.cut();
      return results;
    });
    await doomed.worker({ workflows: [drain], ...DOOMED });
    await until(() => wire.isCut, "the end");
    const engine = await engines.open();
    await engines.expireLeases();
    await engine.worker({ workflows: [drain] });
    expect(await engine.run(run.id, drain).result()).toEqual([1]);
  });

  test("D9 W4 a worker that is stopped as it takes back a turn leaves the outcomes of its steps behind", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    let bodies = 0;
    const work = workflow({ name: "work", signals: { more: signal() } }, async (ctx) => {
      const { value } = await ctx.race("work", {
        step: (branch) => branch.step("once", () => ++bodies),
        hear: async (branch) => {
          for (;;) await branch.waitForSignal("more");
        },
      });
      return value;
    });
    const run = await engine.start(work, undefined);
    let stopped: Promise<void> | undefined;
    let worker: Awaited<ReturnType<typeof engine.worker>> | undefined;
    beforeEnds(wire, async (_end, nth) => {
      if (nth > 1) return;
      await run.signal("more");
      stopped = (await until(() => worker, "the worker")).stop();
    });
    worker = await engine.worker({ workflows: [work] });
    await until(() => stopped !== undefined, "the stop");
    await stopped;
    await engine.worker({ workflows: [work] });
    expect(await run.result()).toBe(1);
    expect(bodies).toBe(1);
  });

  test("D10 a resumed run whose end is late goes on from the resume", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    let bodies = 0;
    const twice = workflow({ name: "twice", signals: { more: signal() } }, async (ctx) => {
      await ctx.step("first", () => ++bodies);
      await ctx.step("fails", () => {
        if (++bodies < 3) throw new Error("not yet");
      }, { retry: { maxAttempts: 1 } }); // biome-ignore format: one call
      return (await ctx.waitForSignal("more", { timeout: 5 })).timedOut;
    });
    const run = await engine.start(twice, undefined);
    await engine.worker({ workflows: [twice] });
    await expect(run.result()).rejects.toThrow();
    beforeEnds(wire, async (_end, nth) => nth === 1 && (await run.signal("more")));
    await run.resume();
    expect(await run.result()).toBe(false);
    expect(bodies).toBe(3);
  });
});

// On Postgres: postgresTransactions.test.ts. Here no caller can have a transaction that is open while a run ends.
describe.each(["memory", "sqlite"] as const)("a signal in a caller's transaction on %s", (store) => {
  const engines = enginesOn(store);

  test("M1 is refused, and nothing of it is sent", async () => {
    const engine = await engines.open();
    const run = await engine.start(drain, undefined);
    await expect(run.signal("tick", 1, { tx: {} })).rejects.toMatchObject({ code: "HF_INVALID_INPUT" });
    await engine.worker({ workflows: [drain] });
    expect(await run.result()).toEqual([]);
  });
});
