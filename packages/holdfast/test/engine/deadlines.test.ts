// Job: prove that a deadline holds against whoever has the run when it strikes.
// Owns: the workflows in it.
// Invariants: K7 (the epoch is raised; nothing begins after it but rollbacks), D4 (a worker that is too late writes nothing).

import { DeadlineExceededError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("deadlines on %s", (store) => {
  const engines = enginesOn(store);

  test("K7 D4 a turn that is committed after the deadline is stale: none of its steps begins, and the run stays failed", async () => {
    const wire = new Wire();
    const [engine, other] = await Promise.all([engines.open({ wire }), engines.open()]);
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
    const run = await engine.start(work, undefined, { deadline: "1s" });
    await until(() => began.length === 1, "the first step");
    const statuses: string[] = [];
    wire.intercept("commit", async (pass, commits) => {
      await until(async () => (await other.run(run.id).describe()).status === "failed", "the deadline");
      const results = await pass(commits);
      statuses.push(...results.map(({ status }) => status));
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
    const [dead, engine] = await Promise.all([engines.open({ wire }), engines.open()]);
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
    const run = await dead.start(trip("the dead"), undefined, { deadline: "1s" });
    await held.passed;
    wire.cut();
    await engine.worker({ workflows: [trip("the living")] });
    const error = await errorOf(engine.run(run.id).result({ timeout: "8s" }));
    expect(error.cause).toBeInstanceOf(DeadlineExceededError);
    expect(undone).toEqual(["room, by the living"]);
  });
});
