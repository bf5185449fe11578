// Job: prove that answers of the store may be late, lost, or overtaken by other news, and nothing is taken twice, lost or made up.
// Owns: the workflows in it; the wire holds the answers up.
// Invariants: D6 (a transaction has one outcome, the one that is durable), D9 W5 (a run is driven with its history, or not at all), W1.

import { workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { aborted, enginesOn, Gate, STORES, until, Wire } from "./engines.ts";

/** Until everything that is ready now has been done. */
const aTurnOfTheEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe.each(STORES)("answers of the store on %s", (store) => {
  const engines = enginesOn(store);

  test("D6 Y3 M7 the outcome of a transaction that was read from the inbox first is not taken again from the answer", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const consumed: number[] = [];
    const resolved: number[] = [];
    const isRead = new Gate();
    const buy = workflow("buy", async (ctx) => {
      const order = await ctx.transaction("insert", () => 7);
      return { order, paid: await ctx.waitForSignal("paid") };
    });
    wire.intercept("transact", async (pass, claim, body) => {
      const message = await pass(claim, body);
      await isRead.passed;
      return message;
    });
    wire.intercept("commit", (pass, commits) => {
      consumed.push(...commits.flatMap((commit) => commit.consumed ?? []));
      for (const job of commits.flatMap(({ turn }) => turn?.jobs ?? [])) if (job.type === "resolve") resolved.push(job.seq);
      if (resolved.length > 0) isRead.open();
      return pass(commits);
    });
    const worker = await engine.worker({ workflows: [buy], lease: "600ms" }); // looks into the inbox every 200 ms, whatever hints there are
    const run = await engine.start(buy, undefined);
    await isRead.passed;
    await until(() => worker.active === 0);
    await run.signal("paid", "in full");
    expect(await run.result()).toEqual({ order: 7, paid: "in full" });
    expect(consumed).toEqual([...new Set(consumed)]);
    expect(resolved.length).toBe(1);
  });

  test.each([
    ["its last attempt", 1],
    ["its first attempt of three", 3],
  ])("D6 a transaction that has committed, and whose answer is lost, has not failed: at %s", async (_which, maxAttempts) => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    let bodies = 0;
    const buy = workflow("buy", async (ctx) => {
      const [order] = await Promise.all([
        ctx.transaction("insert", () => ++bodies, { retry: { maxAttempts, initialInterval: 1 } }),
        // So that it is not parked: a retry would begin here.
        ctx.step("beside", ({ attempt, signal }) => (attempt > 1 ? undefined : aborted(signal)), { retry: { initialInterval: 1 } }),
      ]);
      return order;
    });
    wire.intercept("transact", async (pass, claim, body) => {
      await pass(claim, body);
      throw new Error("The connection was lost.");
    });
    // The inbox is not read before: only the next claim tells.
    wire.intercept("renew", async (pass, ...args) =>
      (await pass(...args)).map((answer) => (answer === "busy" ? answer : { ...answer, inbox: [] })),
    );
    await engine.worker({ workflows: [buy], lease: "200ms" });
    const run = await engine.start(buy, undefined);
    expect(await run.result({ timeout: "8s" })).toBe(1);
    expect(bodies).toBe(1);
  });

  test("D6 a transaction that did not reach the database is made when its run is claimed again", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const attempts: number[] = [];
    const buy = workflow("buy", async (ctx) => ctx.transaction("insert", (_tx, { attempt }) => attempts.push(attempt)));
    let refusals = 0;
    wire.intercept("transact", (pass, claim, body) =>
      refusals++ === 0 ? Promise.reject(new Error("The connection was refused.")) : (pass(claim, body) as never),
    );
    await engine.worker({ workflows: [buy], lease: "200ms" });
    const run = await engine.start(buy, undefined);
    expect(await run.result({ timeout: "8s" })).toBe(1);
    expect(attempts).toEqual([2]); // D7: the first never came back
  });

  test("D9 W5 a run whose claim is under way stays in memory, though another parks and there is room for one", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const working = new Gate();
    const waits = workflow("waits", async (ctx, isWorking: boolean) => {
      if (isWorking) await ctx.step("work", () => working.passed);
      return ctx.waitForSignal("go");
    });
    const worker = await engine.worker({ workflows: [waits], cachedRuns: 1 });
    const parked = await engine.start(waits, false, { id: "parked" });
    const busy = await engine.start(waits, true, { id: "busy" });
    await until(() => worker.active === 1);

    const claimed = new Gate();
    const answered = new Gate();
    wire.intercept("claim", async (pass, request) => {
      const result = await pass(request);
      if (!result.runs.some(({ run }) => run.id === "parked")) return result;
      claimed.open();
      await answered.passed;
      return result;
    });
    await parked.signal("go", 1);
    await claimed.passed;
    working.open();
    await until(() => worker.active === 0, "the other to park");
    answered.open();

    expect(await parked.result({ timeout: "8s" })).toBe(1);
    await busy.signal("go", 2);
    expect(await busy.result({ timeout: "8s" })).toBe(2);
    expect(engines.log.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("D9 a claim that lacks the history of its run is given back, not driven without", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const waits = workflow("waits", async (ctx) => ctx.waitForSignal("go"));
    const worker = await engine.worker({ workflows: [waits], cachedRuns: 0 });
    const run = await engine.start(waits, undefined);
    await until(() => worker.active === 0);
    let isLacking = true;
    wire.intercept("claim", async (pass, request) => {
      const result = await pass(request);
      if (result.runs.length === 0 || !isLacking) return result;
      isLacking = false;
      return { ...result, runs: result.runs.map((claim) => ({ ...claim, turns: undefined })) };
    });
    await run.signal("go", 1);
    expect(await run.result({ timeout: "8s" })).toBe(1);
    expect(isLacking).toBe(false);
    expect(engines.log.filter(({ level }) => level === "error").map(({ message }) => message)).toEqual([
      expect.stringContaining("was claimed without its history"),
    ]);
  });

  /** What was claimed, and when the engine was notified that there is work. */
  function watched(wire: Wire): { claims: string[]; hint: () => Promise<void> } {
    const claims: string[] = [];
    let hinted = new Gate();
    wire.intercept("watch", (pass, onWakeup) =>
      pass((wakeup) => {
        onWakeup(wakeup);
        if (wakeup.work === true) hinted.open();
      }),
    );
    wire.intercept("claim", (pass, request) => {
      claims.push(request.workerId);
      return pass(request);
    });
    const hint = async (): Promise<void> => {
      await hinted.passed;
      hinted = new Gate();
      await aTurnOfTheEventLoop();
      await aTurnOfTheEventLoop();
    };
    return { claims, hint };
  }
  const quick = workflow("quick", async () => "done");

  test("W1 a worker claims nothing before it has started", async () => {
    const wire = new Wire();
    const { claims, hint } = watched(wire);
    const engine = await engines.open({ wire });
    const asked = new Gate();
    const answered = new Gate();
    wire.intercept("now", async (pass) => {
      asked.open();
      await answered.passed;
      return pass();
    });
    const starting = engine.worker({ workflows: [quick] });
    await asked.passed;
    const run = await engine.start(quick, undefined, { idempotencyKey: "claimed, not begun here" });
    await hint();
    expect(claims).toEqual([]);
    answered.open();
    const worker = await starting;
    expect(await run.result({ timeout: "8s" })).toBe("done");
    expect(claims).toContain(worker.id);
  });

  test("W1 a worker that could not start claims nothing ever after", async () => {
    const wire = new Wire();
    const { claims, hint } = watched(wire);
    const engine = await engines.open({ wire });
    wire.intercept("now", () => Promise.reject(new Error("The store is out of reach.")));
    await expect(engine.worker({ workflows: [quick] })).rejects.toThrow("The store is out of reach.");
    wire.intercept("now", undefined);
    const run = await engine.start(quick, undefined);
    await hint();
    expect(claims).toEqual([]);
    expect((await run.describe()).waitingFor).toEqual(["no worker serves quick"]);
    await engine.worker({ workflows: [quick] });
    expect(await run.result({ timeout: "8s" })).toBe("done");
  });
});
