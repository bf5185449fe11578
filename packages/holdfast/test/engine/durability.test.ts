// D1–D6: effects after commits, one commit per turn, nothing twice once it is durable.

import { activity, workflow } from "holdfast";
import type { TurnCommit } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, Gate, STORES, until, Wire } from "./engines.ts";

/** Notes every turn when it is handed over and when it is durable. */
function noting(wire: Wire, notes: string[]): TurnCommit[] {
  const commits: TurnCommit[] = [];
  const noted = async <R>(turns: readonly TurnCommit[], write: () => Promise<R>): Promise<R> => {
    commits.push(...turns);
    const opened = turns.flatMap(({ turn }) => turn?.commands ?? []).flatMap((command) => ("n" in command ? [command.name] : []));
    const result = await write();
    notes.push(...opened.map((name) => `durable ${name}`));
    return result;
  };
  wire.intercept("commit", (pass, turns) => noted(turns, () => pass(turns)));
  wire.intercept("create", (pass, runs) => {
    const firsts = runs.flatMap(({ first }) => (first === undefined ? [] : [first.commit]));
    return noted(firsts, () => pass(runs));
  });
  return commits;
}

describe.each(STORES)("durability on %s", (store) => {
  const engines = enginesOn(store);

  test("D1 a step begins when its record, and the results before it, are durable", async () => {
    const notes: string[] = [];
    const wire = new Wire();
    const commits = noting(wire, notes);
    const engine = await engines.open({ wire });
    const chain = workflow("chain", async (ctx) => {
      const one = await ctx.step("one", () => void notes.push("run one"));
      await ctx.step("two", () => void notes.push("run two"));
      return one;
    });
    await engine.worker({ workflows: [chain] });
    await (await engine.start(chain, undefined)).result();
    expect(notes).toEqual(["durable one", "run one", "durable two", "run two"]);
    const second = commits.find(({ turn }) => turn?.commands.some((command) => "n" in command && command.name === "two"));
    expect(second?.turn?.jobs).toMatchObject([{ type: "resolve", outcome: { status: "completed" } }]);
  });

  test("D1 no step begins while its commit is on the way, nor after one that failed", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const held = new Gate();
    const handed = new Gate();
    const ran: string[] = [];
    const chain = workflow("chain", async (ctx) => {
      await ctx.step("one", () => void ran.push("one"));
      await ctx.step("two", () => void ran.push("two"));
    });
    wire.intercept("commit", async () => {
      handed.open();
      await held.passed;
      throw new Error("The disk is full.");
    });
    await engine.worker({ workflows: [chain], ...DOOMED });
    const run = await engine.start(chain, undefined);
    await handed.passed;
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(ran).toEqual(["one"]);
    wire.intercept("commit", undefined);
    held.open();
    await run.result();
    // D6: the outcome was not durable, so the step ran again; then never again.
    expect(ran).toEqual(["one", "one", "two"]);
  });

  test("D2 a turn is one commit: results in, commands out, messages consumed, state, children, tasks", async () => {
    const wire = new Wire();
    const commits = noting(wire, []);
    const engine = await engines.open({ wire });
    const kid = workflow("kid", async () => 1);
    const act = activity("act", () => 2);
    const busy = workflow("busy", async (ctx) => {
      await ctx.waitForSignal("go");
      ctx.publishState({ phase: "going" });
      ctx.setAttributes({ phase: "going" });
      const [a, b, c] = await Promise.all([ctx.step("step", () => 3), ctx.child(kid, undefined), ctx.activity(act, undefined)]);
      await ctx.waitForSignal("end");
      return a + b + c;
    });
    await engine.worker({ workflows: [busy, kid], activities: [act] });
    const run = await engine.start(busy, undefined);
    await run.signal("go");
    await until(async () => (await run.state()) !== undefined);
    const going = commits.filter(({ turn }) => turn?.commands.some((command) => "n" in command && command.name === "step"));
    expect(going).toHaveLength(1);
    expect(going[0]).toMatchObject({
      consumed: [expect.any(Number)],
      state: expect.anything(),
      attributes: { phase: "going" },
      children: [{ workflow: "kid" }],
      tasks: [{ activity: "act" }],
    });
    await run.signal("end");
    expect(await run.result()).toBe(6);
    const turns = commits.filter(({ runId, turn }) => runId === run.id && turn !== undefined).map(({ turn }) => turn?.index);
    expect(turns).toEqual([...turns.keys()]);
    expect(commits.filter(({ runId, close }) => runId === run.id && close !== undefined)).toMatchObject([{ status: "completed" }]);
  });

  test("D3 turns of many runs that are ready together share commits", async () => {
    const wire = new Wire();
    const sizes: number[] = [];
    wire.intercept("commit", (pass, turns) => {
      sizes.push(turns.length);
      return pass(turns);
    });
    const engine = await engines.open({ wire });
    const chain = workflow("chain", async (ctx) => {
      for (let i = 0; i < 5; i++) await ctx.step("work", () => i);
    });
    await engine.worker({ workflows: [chain] });
    const runs = await engine.startMany(
      chain,
      Array.from({ length: 50 }, () => ({ input: undefined })),
    );
    await Promise.all(runs.map((run) => run.result()));
    const turns = sizes.reduce((sum, size) => sum + size, 0);
    expect(turns).toBeGreaterThanOrEqual(250);
    expect(sizes.length).toBeLessThan(turns / 5);
  });

  test("D3 no run waits for the effects of another", async () => {
    const engine = await engines.open();
    const never = new Gate();
    const slow = workflow("slow", async (ctx) => ctx.step("slow", () => never.passed));
    const quick = workflow("quick", async (ctx) => ctx.step("quick", () => "done"));
    await engine.worker({ workflows: [slow, quick] });
    const first = await engine.start(slow, undefined);
    expect(await (await engine.start(quick, undefined)).result()).toBe("done");
    never.open();
    await first.result();
  });

  test("D5 a run with a step in flight does not park, and the step is not run again because its sibling slept", async () => {
    const wire = new Wire();
    const commits = noting(wire, []);
    const engine = await engines.open({ wire });
    const held = new Gate<string>();
    let runs = 0;
    const both = workflow("both", async (ctx) =>
      ctx.join("both", {
        work: (ctx) =>
          ctx.step("work", () => {
            runs++;
            return held.passed;
          }),
        rest: async (ctx) => {
          for (let i = 0; i < 3; i++) await ctx.sleep(1);
          await ctx.waitForSignal("go");
        },
      }),
    );
    await engine.worker({ workflows: [both] });
    const run = await engine.start(both, undefined);
    await run.signal("go");
    await until(() => commits.some(({ consumed = [] }) => consumed.length > 0));
    expect(commits.filter(({ lease }) => lease === "park")).toEqual([]);
    expect((await run.describe()).status).toBe("running");
    held.open("worked");
    expect(await run.result()).toEqual({ work: "worked", rest: undefined });
    expect(runs).toBe(1);
  });

  test("D5 C7 an abandoned step is notified, and neither the run nor parking waits for it", async () => {
    const engine = await engines.open();
    const told = new Gate<unknown>();
    const never = new Gate();
    const race = workflow("race", async (ctx) => {
      const { winner } = await ctx.race("first", {
        work: (ctx) =>
          ctx.step("work", async ({ signal }) => {
            signal.addEventListener("abort", () => told.open(signal.reason));
            await never.passed;
          }),
        rest: (ctx) => ctx.sleep(5),
      });
      await ctx.waitForSignal("go");
      return winner;
    });
    await engine.worker({ workflows: [race] });
    const run = await engine.start(race, undefined);
    expect(await told.passed).toBeInstanceOf(Error);
    await until(async () => (await run.describe()).status === "sleeping");
    await run.signal("go");
    expect(await run.result()).toBe("rest");
    expect((await run.operations()).find(({ name }) => name === "work")?.status).toBe("abandoned");
  });

  test("D6 once its outcome is durable a step never runs again, no matter which worker goes on with the run", async () => {
    const ran: string[] = [];
    const wire = new Wire();
    const first = await engines.open({ wire });
    const chain = workflow("chain", async (ctx) => {
      const one = await ctx.step("one", () => {
        ran.push("one");
        return { at: new Date(5) };
      });
      await ctx.waitForSignal("go");
      const two = await ctx.step("two", () => {
        ran.push("two");
        return "2";
      });
      return { one, two };
    });
    await first.worker({ workflows: [chain] });
    const run = await first.start(chain, undefined);
    await until(async () => (await run.describe()).status === "sleeping");
    wire.cut();
    const second = await engines.open();
    await second.worker({ workflows: [chain] });
    const again = second.run(run.id, chain);
    await again.signal("go");
    // P8: what replay returns is what the live call returned.
    expect(await again.result()).toEqual({ one: { at: new Date(5) }, two: "2" });
    expect(ran).toEqual(["one", "two"]);
  });

  test("D9 a message that comes while a run parks is not missed", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const other = await engines.open();
    const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go"));
    let sent = false;
    // The message is acknowledged after the turn was computed, and before the commit that parks the run is made.
    wire.intercept("commit", async (pass, turns) => {
      if (!sent && turns.some(({ lease }) => lease === "park")) {
        sent = true;
        await other.run("r").signal("go", "now");
      }
      return pass(turns);
    });
    await engine.worker({ workflows: [wait] });
    const run = await engine.start(wait, undefined, { id: "r" });
    expect(await run.result()).toBe("now");
  });

  test("D9 lost wake-ups cost time, never progress", async () => {
    const deaf = new Wire();
    deaf.intercept("watch", () => () => {});
    const worker = await engines.open({ wire: deaf });
    const client = await engines.open();
    const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go"));
    await worker.worker({ workflows: [wait] });
    const run = await client.start(wait, undefined);
    await run.signal("go", 1);
    expect(await run.result()).toBe(1);
  });
});
