// W4: a worker that stops leaves nothing behind, whatever was under way.

import { activity, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { enginesOn, Gate, STORES, Wire } from "./engines.ts";

/** Far less than a lease: what takes longer has waited for one to end. */
const SOON = { timeout: "8s" } as const;

describe.each(STORES)("stopping on %s", (store) => {
  const engines = enginesOn(store);

  test("W4 stop() waits for a claim that is under way, and gives back what it brings: nothing begins after it", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const second = await engines.open();
    const began: string[] = [];
    const work = (who: string) => workflow("work", async (ctx) => ctx.step("work", ({ attempt }) => void began.push(`${who} ${attempt}`)));
    const claimed = new Gate();
    const answered = new Gate();
    wire.intercept("claim", async (pass, request) => {
      const result = await pass(request);
      if (result.runs.length === 0) return result;
      claimed.open();
      await answered.passed;
      return result;
    });
    const worker = await first.worker({ workflows: [work("first")] });
    const run = await second.start(work("second"), undefined);
    await claimed.passed;
    let isStopped = false;
    const stopped = worker.stop().then(() => {
      isStopped = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isStopped).toBe(false);
    answered.open();
    await stopped;
    expect(began).toEqual([]);
    await first.close();
    await second.worker({ workflows: [work("second")] });
    await run.result(SOON);
    expect(began).toEqual(["second 1"]);
  });

  test("W4 D11 the same for a claim of activities", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const second = await engines.open();
    const began: string[] = [];
    const act = (who: string) => activity("act", async () => void began.push(who));
    const claimed = new Gate();
    const answered = new Gate();
    wire.intercept("claimTasks", async (pass, request) => {
      const result = await pass(request);
      if (result.tasks.length === 0) return result;
      claimed.open();
      await answered.passed;
      return result;
    });
    const work = workflow("work", async (ctx) => ctx.activity(act("second"), undefined));
    const worker = await first.worker({ workflows: [], activities: [act("first")] });
    await second.worker({ workflows: [work] });
    const run = await second.start(work, undefined);
    await claimed.passed;
    const stopped = worker.stop();
    answered.open();
    await stopped;
    expect(began).toEqual([]);
    await first.close();
    await second.worker({ workflows: [], activities: [act("second")] });
    await run.result(SOON);
    expect(began).toEqual(["second"]);
  });

  test("W4 D11 activities that are released at the end of the grace period are free for others at once", async () => {
    const first = await engines.open();
    const second = await engines.open();
    const entered = new Gate();
    const act = activity("act", async (_: undefined, { attempt }) => {
      if (attempt > 1) return attempt;
      entered.open();
      return new Promise<number>(() => {});
    });
    const work = workflow("work", async (ctx) => ctx.activity(act, undefined));
    const worker = await first.worker({ workflows: [], activities: [act], gracePeriod: 0 }); // lease: 30 s
    await second.worker({ workflows: [work] });
    const run = await second.start(work, undefined);
    await entered.passed;
    await worker.stop();
    await second.worker({ workflows: [], activities: [act] });
    expect(await run.result(SOON)).toBe(2);
    expect((await run.operations())[0]?.attempts).toMatchObject([
      { number: 1, status: "lost", workerId: worker.id },
      { number: 2, status: "completed" },
    ]);
  });

  test("W4 a run that is created as its worker stops is free for others at once, and its step begins with attempt 1", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const second = await engines.open();
    const work = workflow("work", async (ctx) => ctx.step("work", ({ attempt }) => attempt));
    const worker = await first.worker({ workflows: [work], gracePeriod: 0 });
    const creating = new Gate();
    const passed = new Gate();
    wire.intercept("create", async (pass, runs) => {
      creating.open();
      await passed.passed;
      return pass(runs);
    });
    const starting = first.start(work, undefined);
    await creating.passed;
    await worker.stop();
    passed.open();
    const { id } = await starting;
    await second.worker({ workflows: [work] });
    expect(await second.run(id, work).result(SOON)).toBe(1);
  });

  test.each(["renew", "claim"] as const)(
    "W4 a %s that is still under way when the engine is closed is not logged as a failure",
    async (call) => {
      const wire = new Wire();
      const engine = await engines.open({ wire });
      const work = workflow("work", async (ctx) => ctx.step("work", () => new Promise(() => {})));
      const begun = new Gate();
      const closed = new Gate();
      const failed = new Gate();
      wire.intercept(call, async (...[pass, ...args]: readonly unknown[]) => {
        begun.open();
        await closed.passed;
        failed.open();
        return (pass as (...all: unknown[]) => never)(...args);
      });
      await engine.worker({ workflows: [work], lease: "3s", gracePeriod: 0 });
      await engine.start(work, undefined);
      await begun.passed;
      await engine.close();
      closed.open();
      await failed.passed;
      await new Promise((resolve) => setImmediate(resolve));
      expect(engines.log.filter(({ level }) => level === "error")).toEqual([]);
    },
  );
});

describe.each(STORES)("a run that is started while its worker stops, on %s", (store) => {
  const engines = enginesOn(store);
  test("W4 V4 is not blocked, and the next worker completes it", async () => {
    const engine = await engines.open();
    const quick = workflow("quick", async (ctx) => ctx.step("work", async () => "done"));
    for (let ticks = 0; ticks < 25; ticks++) {
      const worker = await engine.worker({ workflows: [quick], gracePeriod: 0 });
      const starts = [1, 2, 3].map(() => engine.start(quick));
      // The first turn of a start waits for its place: the worker stops at each moment until then.
      for (let i = 0; i < ticks; i++) await undefined;
      const stopped = worker.stop();
      const runs = await Promise.all(starts);
      await stopped;
      for (const run of runs) expect((await run.describe()).status).not.toBe("blocked");
      const next = await engine.worker({ workflows: [quick] });
      for (const run of runs) expect(await run.result()).toBe("done");
      await next.stop();
    }
    expect(engines.log.filter(({ level }) => level === "error")).toEqual([]);
  });
});
