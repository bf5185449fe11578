// M8: updates that wait to be accepted.

import { InvalidInputError, Receive, UpdateRejectedError, update, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

const updates = { add: update<number, number>() };
const entity = workflow({ name: "entity", updates }, async (ctx, rounds: number) => {
  await ctx.waitForSignal("go" as never);
  if (rounds > 1) return ctx.continueAsNew(rounds - 1);
  const { state } = await ctx.receive(0, { updates: { add: (n, sum) => Receive.stop(sum + n, sum + n) } });
  return state;
});
const messages = (run: unknown) => run as { signal(name: string): Promise<void> };

describe.each(STORES)("acceptWithin on %s", (store) => {
  const engines = enginesOn(store);

  test("M8 an update that comes before its receive is accepted by it, also after others were rejected", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [entity] });
    const run = await engine.start(entity, 1);
    expect(await errorOf(run.update("add", 1))).toBeInstanceOf(UpdateRejectedError);
    const asked = run.update("add", 2, { acceptWithin: "1m" });
    const other = await errorOf(run.update("add", 3)); // by now the other was offered
    expect(other).toBeInstanceOf(UpdateRejectedError);
    await messages(run).signal("go");
    expect([await asked, await run.result()]).toEqual([2, 2]);
    const jobs = (await run.history()).turns.flatMap((turn) => (turn as { jobs: { type: string; id?: string }[] }).jobs);
    expect(jobs.filter(({ type }) => type === "update")).toHaveLength(1);
  });

  test("M8 it waits through steps, parked runs, other workers and next executions", async () => {
    const engine = await engines.open();
    const first = await engine.worker({ workflows: [entity] });
    const run = await engine.start(entity, 3);
    const asked = run.update("add", 5, { acceptWithin: "1m", idempotencyKey: "k" });
    await until(async () => (await run.describe()).status === "sleeping");
    await messages(run).signal("go");
    await until(async () => (await run.describe()).execution === 2);
    await first.stop();
    await messages(run).signal("go");
    await engine.worker({ workflows: [entity], cachedRuns: 0 });
    await until(async () => (await run.describe()).execution === 3);
    await messages(run).signal("go");
    expect([await asked, await run.result(), await run.update("add", 5, { idempotencyKey: "k" })]).toEqual([5, 5, 5]);
  });

  test("M8 it is offered again by a worker that has kept the run, busy with a step", async () => {
    const engine = await engines.open();
    const [held, begun] = [new Gate(), new Gate()];
    const busy = workflow({ name: "busy", updates }, async (ctx) => {
      await ctx.step("hold", () => {
        begun.open();
        return held.passed;
      });
      return ctx.receive(0, { updates: { add: (n, sum) => Receive.stop(sum + n, sum + n) } });
    });
    await engine.worker({ workflows: [busy] });
    const run = await engine.start(busy);
    await begun.passed;
    const asked = run.update("add", 2, { acceptWithin: "1m" });
    expect(await errorOf(run.update("add", 3))).toBeInstanceOf(UpdateRejectedError);
    held.open();
    expect([await asked, await run.result()]).toEqual([2, { state: 2, timedOut: false }]);
  });

  test("M8 once its time is over its waiting sender rejects it, worker or not, and no receive sees it", async () => {
    const engine = await engines.open();
    const run = await engine.start(entity, 1);
    const error = await errorOf(run.update("add", 1, { acceptWithin: 30, idempotencyKey: "k" }));
    expect(error).toMatchObject({ name: "UpdateRejectedError", update: "add" });
    expect(error.message).toContain("no receive accepted it within the time");
    await engine.worker({ workflows: [entity] });
    await messages(run).signal("go");
    expect(await errorOf(run.update("add", 1, { idempotencyKey: "k" }))).toBeInstanceOf(UpdateRejectedError);
    expect(await run.update("add", 7, { acceptWithin: "1m" })).toBe(7);
    expect(await run.result()).toBe(7);
  });

  test("M8 one that no sender waits for any more is rejected by the next activation", async () => {
    const engine = await engines.open({ skips: true });
    await engine.worker({ workflows: [entity] });
    const run = await engine.start(entity, 1);
    const left = await errorOf(run.update("add", 1, { acceptWithin: "1h", timeout: 20, idempotencyKey: "k" }));
    expect(left).toMatchObject({ code: "HF_WAIT_TIMEOUT" });
    await until(async () => (await run.describe()).status === "sleeping");
    engines.skip(3_600_000);
    await messages(run).signal("go");
    expect(await errorOf(run.update("add", 1, { idempotencyKey: "k" }))).toMatchObject({ name: "UpdateRejectedError" });
    expect(await run.update("add", 7, { acceptWithin: "1m" })).toBe(7);
  });

  test("M8 a turn that accepts what its sender has just rejected is undone: it is rejected, and the run goes on without it", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    await engine.worker({ workflows: [entity] });
    const run = await engine.start(entity, 1);
    let accepting = 0;
    const rejected = new Gate();
    wire.intercept("commit", async (pass, turns) => {
      if (turns.some(({ accepts }) => accepts !== undefined) && ++accepting === 1) await rejected.passed;
      return pass(turns);
    });
    const asked = errorOf(run.update("add", 1, { acceptWithin: "1s" }));
    await messages(run).signal("go");
    expect(await asked).toMatchObject({ name: "UpdateRejectedError" });
    expect(accepting).toBe(1);
    rejected.open();
    expect(await run.update("add", 7, { acceptWithin: "1m" })).toBe(7);
    expect(await run.result()).toBe(7);
    expect((await run.describe()).status).toBe("completed");
  });

  test("M8 updateWithStart: the first receive may be a while away", async () => {
    const engine = await engines.open();
    const slow = workflow({ name: "slow", updates }, async (ctx) => {
      await ctx.sleep(30);
      return ctx.receive(0, { updates: { add: (n, sum) => Receive.stop(sum + n, sum + n) } });
    });
    await engine.worker({ workflows: [slow] });
    const { run, result } = await engine.updateWithStart(slow, undefined, { name: "add", input: 4, acceptWithin: "1m" });
    expect([result, await run.result()]).toEqual([4, { state: 4, timedOut: false }]);
    const once = engine.updateWithStart(slow, undefined, { name: "add", input: 4 });
    expect(await errorOf(once)).toBeInstanceOf(UpdateRejectedError);
  });

  test("M8 what is not a length of time is refused, and nothing is written; none at all is as if it was left out", async () => {
    const engine = await engines.open();
    const run = await engine.start(entity, 1);
    for (const acceptWithin of ["soon", -1, Number.NaN, null] as never[]) {
      expect(await errorOf(run.update("add", 1, { acceptWithin }))).toBeInstanceOf(InvalidInputError);
      const started = engine.updateWithStart(entity, 1, { name: "add", input: 1, acceptWithin }, { id: "x" });
      expect(await errorOf(started)).toBeInstanceOf(InvalidInputError);
    }
    expect((await engine.list()).runs).toHaveLength(1);
    await engine.worker({ workflows: [entity] });
    expect(await errorOf(run.update("add", 1, { acceptWithin: 0 }))).toBeInstanceOf(UpdateRejectedError);
  });
});
