// Job: prove that a deadline ends a run whichever worker has it.
// Owns: the workflows in it.
// Invariants: K7 (the epoch is raised; nothing begins after it but rollbacks), D4 (a worker that is too late writes nothing).

import { DeadlineExceededError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("deadlines on %s", (store) => {
  const engines = enginesOn(store);

  test("K7 D4 a turn that is committed after the deadline is stale: none of its steps begins, and the run stays failed", async () => {
    const wire = new Wire();
    const [engine, other] = await Promise.all([engines.open({ wire, skips: true }), engines.open({ skips: true })]);
    const began: string[] = [];
    const one = new Gate();
    const work = workflow("work", async (ctx) => {
      await ctx.step("one", () => {
        began.push("one");
        return one.passed;
      });
      await ctx.step("two", () => void began.push("two"));
      return "done";
    });
    const worker = await engine.worker({ workflows: [work] });
    const run = await engine.start(work, undefined, { deadline: "10s" });
    await until(() => began.length === 1, "the first step");
    engines.skip(10_000); // lease: 30 s
    const statuses: string[] = [];
    wire.intercept("commit", async (pass, commits) => {
      await until(async () => (await other.run(run.id).describe()).status === "failed", "the deadline");
      const results = await pass(commits);
      statuses.push(...results.map((answer) => (answer === "busy" ? answer : answer.status)));
      return results;
    });
    one.open();
    const error = await errorOf(run.result({ timeout: "8s" }));
    expect(error.cause).toBeInstanceOf(DeadlineExceededError);
    await until(() => worker.active === 0);
    await engine.close(); // whatever it would still begin, it has by now
    expect(began).toEqual(["one"]);
    expect(statuses.filter((status) => status === "committed")).toEqual([]);
    expect(await other.run(run.id).describe()).toMatchObject({ status: "failed", error: { name: "DeadlineExceededError" } });
  });

  test("K7 S1 D4 a run whose worker has died with a long lease is rolled back at its deadline, by another", async () => {
    const wire = new Wire();
    const [dead, engine] = await Promise.all([engines.open({ wire, skips: true }), engines.open({ skips: true })]);
    const undone: string[] = [];
    const held = new Gate();
    const trip = (who: string) =>
      workflow("trip", async (ctx) => {
        await ctx.step("book", () => "room", { rollback: (room) => void undone.push(`${room}, by ${who}`) });
        await ctx.step("travel", () => {
          held.open();
          return new Promise<void>(() => {});
        });
      });
    await dead.worker({ workflows: [trip("the dead")], gracePeriod: 0 }); // lease: 30 s
    const run = await dead.start(trip("the dead"), undefined, { deadline: "10s" });
    await held.passed;
    wire.cut();
    engines.skip(10_000);
    await engine.worker({ workflows: [trip("the living")] });
    const error = await errorOf(engine.run(run.id).result({ timeout: "8s" }));
    expect(error.cause).toBeInstanceOf(DeadlineExceededError);
    expect(undone).toEqual(["room, by the living"]);
  });

  test("K7 a deadline that passes while no process is there ends runs that slept, and runs never begun: none of their steps starts", async () => {
    const began: string[] = [];
    const order = workflow("order", async (ctx) => {
      began.push("code");
      await ctx.sleep("59m");
      await ctx.step("charge", () => void began.push("charge"));
    });
    const before = await engines.open({ skips: true });
    await before.worker({ workflows: [order] });
    const deadline = new Date(Date.now() + 3_600_000);
    const slept = await Promise.all([1, 2, 3, 4].map(() => before.start(order, undefined, { deadline, delay: 10 })));
    const unbegun = await Promise.all([1, 2].map(() => before.start(order, undefined, { deadline, queue: "later" })));
    await until(() => began.length === slept.length, "all of them to sleep");
    await before.close();
    began.length = 0;
    engines.skip(3_600_000);
    const engine = await engines.open({ skips: true });
    await Promise.all([engine.worker({ workflows: [order] }), engine.worker({ workflows: [order], queue: "later" })]);
    for (const { id } of [...slept, ...unbegun]) {
      const error = await errorOf(engine.run(id).result({ timeout: "8s" }));
      expect(error.cause).toBeInstanceOf(DeadlineExceededError);
      expect((await engine.run(id).describe()).finishedAt?.getTime()).toBeLessThan(Date.now() + 3_600_001);
    }
    expect(began).toEqual([]);
  });

  test.each([0, new Date(0)])(
    "K7 a deadline that is over (%s) is accepted, and fails the run at once, with or without a worker",
    async (deadline) => {
      const began: string[] = [];
      const work = workflow("work", async () => void began.push("code"));
      const engine = await engines.open();
      const alone = await errorOf((await engine.start(work, undefined, { deadline })).result({ timeout: "8s" }));
      await engine.worker({ workflows: [work] });
      const served = await errorOf((await engine.start(work, undefined, { deadline })).result({ timeout: "8s" }));
      expect([alone.cause, served.cause].every((cause) => cause instanceof DeadlineExceededError)).toBe(true);
      expect(began).toEqual([]);
    },
  );

  test("K7 S1 steps are undone whose deadline passed while no process was there; nothing else runs", async () => {
    const log: string[] = [];
    const trip = workflow("trip", async (ctx) => {
      await ctx.step("book", () => void log.push("book"), { rollback: () => void log.push("unbook") });
      await ctx.sleep("59m");
      await ctx.step("pay", () => void log.push("pay"));
    });
    const before = await engines.open({ skips: true });
    await before.worker({ workflows: [trip] });
    const deadline = new Date(Date.now() + 3_600_000);
    const { id } = await before.start(trip, undefined, { deadline });
    await until(() => log.length === 1, "the booking");
    await before.close();
    engines.skip(3_600_000);
    const engine = await engines.open({ skips: true });
    await engine.worker({ workflows: [trip] });
    expect((await errorOf(engine.run(id).result({ timeout: "8s" }))).cause).toBeInstanceOf(DeadlineExceededError);
    expect(log).toEqual(["book", "unbook"]);
  });

  test("K7 while the store does not look at deadlines, no turn and no step of a run past its own begins", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire, skips: true });
    const began: string[] = [];
    const first = new Gate();
    const work = workflow("work", async (ctx) => {
      await ctx.step("first", () => {
        began.push("first");
        return first.passed;
      });
      began.push("code");
      await ctx.step("second", () => void began.push("second"));
    });
    await engine.worker({ workflows: [work] });
    let asked = 0;
    let claims = 0;
    wire.intercept("expire", async () => {
      asked++;
      return { expired: 0, now: engines.now(), schedules: [] };
    });
    wire.intercept("claim", async (pass, request) => {
      claims++;
      return began.length === 0 ? pass(request) : { now: engines.now(), runs: [], nextAt: undefined };
    });
    const run = await engine.start(work, undefined, { deadline: "10s" });
    await until(() => began.length === 1, "the first step");
    engines.skip(10_000); // lease: 30 s
    claims = 0;
    await until(() => claims > 2, "the worker to know the time");
    asked = 0;
    first.open();
    await until(async () => (await run.describe()).workerId === undefined, "the run to be given back");
    await until(() => asked > 0, "a look at deadlines");
    wire.intercept("expire", undefined);
    wire.intercept("claim", undefined);
    expect((await errorOf(run.result({ timeout: "8s" }))).cause).toBeInstanceOf(DeadlineExceededError);
    expect(began).toEqual(["first"]);
  });

  test("K7 S1 D10 another attempt of the run that would come after its deadline is none: it fails now, its steps undone", async () => {
    const log: string[] = [];
    const trip = workflow({ name: "trip", retry: { maxAttempts: 3, initialInterval: "1h" } }, async (ctx) => {
      await ctx.step("book", () => void log.push("book"), { rollback: () => void log.push("unbook") });
      await ctx.step("pay", () => Promise.reject(new Error("no money")), { retry: { maxAttempts: 1 } });
    });
    const engine = await engines.open();
    await engine.worker({ workflows: [trip] });
    const error = await errorOf((await engine.start(trip, undefined, { deadline: "10m" })).result({ timeout: "8s" }));
    expect(error.message).toContain("no money");
    expect(log).toEqual(["book", "unbook"]);
  });
});
