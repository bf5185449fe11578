// K3, K6, P3, P10: runs that start runs.

import { ChildFailedError, FatalError, RunTerminatedError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("children on %s", (store) => {
  const engines = enginesOn(store);
  const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go"));

  test("a child's output is its parent's value, and it knows its parent", async () => {
    const engine = await engines.open();
    const kid = workflow("kid", async (ctx, n: number) => ({ twice: n * 2, parent: ctx.run.parentId }));
    const parent = workflow("parent", async (ctx) => Promise.all([ctx.child(kid, 1), ctx.child(kid, 2, { id: "second" })]));
    await engine.worker({ workflows: [kid, parent] });
    const run = await engine.start(parent, undefined, { id: "p" });
    expect(await run.result()).toEqual([
      { twice: 2, parent: "p" },
      { twice: 4, parent: "p" },
    ]);
    const { runs } = await engine.list({ parentId: "p" });
    expect(runs.map(({ id }) => id).sort()).toEqual(["p/kid", "second"]);
    expect((await run.operations()).map(({ kind, name, status, childId, input }) => [kind, name, status, childId, input])).toEqual([
      ["child", "kid", "completed", "p/kid", 1],
      ["child", "kid", "completed", "second", 2],
    ]);
  });

  test("K7 D10 a child has the deadline and the retry of its definition, unless the call says otherwise", async () => {
    const engine = await engines.open();
    const slow = workflow({ name: "slow", deadline: 30 }, async (ctx) => ctx.sleep("1h"));
    let tries = 0;
    const flaky = workflow({ name: "flaky", retry: { maxAttempts: 2, initialInterval: 1 } }, async () => {
      if (++tries === 1) throw new Error("not yet");
      return tries;
    });
    const parent = workflow("parent", async (ctx) => [
      await ctx.child(flaky, undefined),
      await ctx.try("slow", (c) => c.child(slow, undefined)),
    ]);
    await engine.worker({ workflows: [slow, flaky, parent] });
    const [first, second] = (await (await engine.start(parent, undefined, { id: "p" })).result()) as [number, { ok: boolean }];
    expect(first).toBe(2);
    expect(second.ok).toBe(false);
    expect((await engine.run("p/slow/slow").describe()).error).toMatchObject({ name: "DeadlineExceededError" });
  });

  test("D2 D7 a child is created once, with the commit of its parent's turn, also if the parent's worker dies", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    let kids = 0;
    const kid = workflow("kid", async (ctx) => ctx.step("count", () => ++kids));
    const parent = workflow("parent", async (ctx) => ctx.child(kid, undefined));
    await first.worker({ workflows: [parent], ...DOOMED });
    const run = await first.start(parent, undefined);
    await until(async () => (await first.list({ workflow: "kid" })).runs.length === 1);
    wire.cut();
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [parent, kid] });
    expect(await second.run(run.id).result()).toBe(1);
    expect((await second.list({ workflow: "kid" })).runs).toHaveLength(1);
  });

  test("K3 failed, canceled and terminated children give their parent ChildFailedError", async () => {
    const engine = await engines.open();
    const bad = workflow("bad", async () => {
      throw new FatalError("no");
    });
    const parent = workflow("parent", async (ctx) => {
      const names: string[] = [];
      for (const [kid, id] of [
        [bad, "failed"],
        [wait, "canceled"],
        [wait, "terminated"],
      ] as const) {
        const error = await ctx.child(kid, undefined, { id }).then(() => undefined, (e: unknown) => e); // biome-ignore format: one line
        if (error instanceof ChildFailedError) names.push(`${error.childId}: ${(error.cause as Error).name}`);
      }
      return names;
    });
    await engine.worker({ workflows: [parent, bad, wait] });
    const run = await engine.start(parent, undefined);
    await until(async () => engine.run("canceled").cancel().then(() => true, () => false)); // biome-ignore format: one line
    await until(async () => engine.run("terminated").terminate().then(() => true, () => false)); // biome-ignore format: one line
    expect(await run.result()).toEqual(["failed: FatalError", "canceled: CanceledError", "terminated: RunTerminatedError"]);
  });

  test("P10 a child whose id is taken fails in its parent", async () => {
    const engine = await engines.open();
    const parent = workflow("parent", async (ctx) =>
      ctx.child(wait, undefined, { id: "taken" }).catch((error: Error) => (error.cause as Error).name),
    );
    await engine.worker({ workflows: [parent, wait] });
    await engine.start(wait, undefined, { id: "taken" });
    expect(await (await engine.start(parent, undefined)).result()).toBe("RunAlreadyExistsError");
  });

  test("P3 a child got by startChild goes on by itself; its handle signals, cancels, and has its result", async () => {
    const engine = await engines.open();
    const parent = workflow("parent", async (ctx) => {
      const one = await ctx.startChild(wait, undefined, { id: "one" });
      const two = await ctx.startChild(wait, undefined, { id: "two" });
      await one.signal("go", 7);
      await two.cancel();
      return [await one.result(), await two.result().catch((error: Error) => error.name)];
    });
    await engine.worker({ workflows: [parent, wait] });
    expect(await (await engine.start(parent, undefined)).result()).toEqual([7, "ChildFailedError"]);
  });

  test.each(["completed", "failed", "canceled", "terminated"] as const)(
    "K6 when a parent is %s its open children follow parentClose",
    async (end) => {
      const engine = await engines.open();
      const held = new Gate();
      const holding = new Gate();
      const told = new Gate();
      const parent = workflow("parent", async (ctx) => {
        for (const parentClose of ["cancel", "abandon", "terminate"] as const)
          await ctx.startChild(wait, undefined, { id: parentClose, parentClose });
        await ctx.startChild(wait, undefined, { id: "default" });
        await ctx.step("hold", ({ signal }) => {
          signal.addEventListener("abort", () => told.open());
          holding.open();
          return held.passed;
        });
        if (end === "failed") throw new Error("no");
      });
      await engine.worker({ workflows: [parent, wait] });
      const run = await engine.start(parent, undefined, { id: "p" });
      await holding.passed;
      expect((await engine.list({ parentId: "p" })).runs.length).toBe(4);
      if (end === "canceled") {
        await run.cancel();
        await told.passed; // or it might end in the turn before the cancel comes
      }
      if (end === "terminated") await run.terminate();
      held.open();
      await run.result().catch(() => {});
      expect((await run.describe()).status).toBe(end);
      const statusOf = async (id: string) => (await engine.run(id).describe()).status;
      expect(await statusOf("terminate")).toBe("terminated"); // with the parent, in one commit
      for (const id of ["cancel", "default"]) await until(async () => (await statusOf(id)) === "canceled");
      await engine.run("abandon").signal("go", "on");
      expect(await engine.run("abandon").result()).toBe("on");
      expect(await errorOf(engine.run("terminate").result())).toBeInstanceOf(RunTerminatedError);
    },
  );

  test("K1 cancellation goes down the family", async () => {
    const engine = await engines.open();
    const parent = workflow("parent", async (ctx) => ctx.child(wait, undefined, { id: "kid" }));
    const grandparent = workflow("grandparent", async (ctx) => ctx.child(parent, undefined, { id: "parent" }));
    await engine.worker({ workflows: [grandparent, parent, wait] });
    const run = await engine.start(grandparent, undefined);
    await until(async () => engine.run("kid").describe().then(({ status }) => status === "sleeping", () => false)); // biome-ignore format: one line
    await run.cancel();
    expect((await errorOf(run.result())).name).toBe("CanceledError");
    for (const id of ["parent", "kid"]) await until(async () => (await engine.run(id).describe()).status === "canceled");
  });

  test("P10 an explicit child id is used again by each execution of its parent, with restart-if-closed", async () => {
    const engine = await engines.open();
    const kid = workflow("kid", async (ctx, n: number) => `${n} of ${ctx.run.parentId}`);
    const parent = workflow("parent", async (ctx, left: number) => {
      const said = await ctx.child(kid, left, { id: "kid", onConflict: "restart-if-closed" });
      const handle = await ctx.startChild(kid, left, { id: "other", onConflict: "restart-if-closed" });
      expect(await handle.result()).toBe(said);
      return left > 1 ? ctx.continueAsNew(left - 1) : said;
    });
    await engine.worker({ workflows: [parent, kid] });
    expect(await (await engine.start(parent, 3, { id: "p" })).result({ timeout: "10s" })).toBe("1 of p");
    const { execution, parentId, input } = await engine.run("kid").describe();
    expect({ execution, parentId, input }).toEqual({ execution: 3, parentId: "p", input: 1 });
    // Another parent, and a run that had no parent: now it is this run's child.
    expect(await (await engine.start(parent, 1, { id: "q" })).result({ timeout: "10s" })).toBe("1 of q");
    expect((await engine.list({ parentId: "q" })).runs.map(({ id }) => id).sort()).toEqual(["kid", "other"]);
  });

  test("P10 M3 restart-if-closed of a child: a run that is open, or of another workflow, is an error and is not touched", async () => {
    const engine = await engines.open();
    const other = workflow("other", async () => "other");
    const parent = workflow("parent", async (ctx, id: string) => {
      const child = await ctx.try("child", (inner) => inner.child(wait, undefined, { id, onConflict: "restart-if-closed" }));
      const started = await ctx.try("start", (inner) => inner.startChild(wait, undefined, { id, onConflict: "restart-if-closed" }));
      return [child, started].map((end) => (end.ok ? "started" : (end.error.cause as { workflow?: string }).workflow ?? (end.error.cause as Error).name)); // biome-ignore format: one line
    });
    await engine.worker({ workflows: [parent, wait, other] });
    await engine.start(wait, undefined, { id: "open" });
    await (await engine.start(other, undefined, { id: "closed" })).result();
    expect(await (await engine.start(parent, "open")).result()).toEqual(["RunAlreadyExistsError", "RunAlreadyExistsError"]);
    expect(await (await engine.start(parent, "closed")).result()).toEqual(["other", "other"]);
    await engine.run("open").signal("go", 5);
    expect(await engine.run("open").result()).toBe(5);
    expect((await engine.run("open").describe()).parentId).toBeUndefined();
  });

  test("children have attributes to be found by, and the priority of their parent unless they have their own", async () => {
    const engine = await engines.open();
    const kid = workflow("kid", async () => {});
    const parent = workflow("parent", async (ctx) => {
      await ctx.child(kid, undefined, { id: "a", attributes: { customer: "acme", n: 1, vip: true } });
      await ctx.child(kid, undefined, { id: "b", priority: -2 });
    });
    await engine.worker({ workflows: [parent, kid] });
    await (await engine.start(parent, undefined, { priority: 7 })).result();
    const [a, b] = [await engine.run("a").describe(), await engine.run("b").describe()];
    expect([a.attributes, a.priority]).toEqual([{ customer: "acme", n: 1, vip: true }, 7]);
    expect([b.attributes, b.priority]).toEqual([{}, -2]);
    expect((await engine.list({ attributes: { customer: "acme" } })).runs.map(({ id }) => id)).toEqual(["a"]);
  });

  test("children go to other queues, versions and deadlines", async () => {
    const engine = await engines.open();
    const other = await engines.open();
    const kid = workflow({ name: "kid", version: "2" }, async (ctx) => ctx.version);
    const parent = workflow("parent", async (ctx) => {
      const late = await ctx.child(wait, undefined, { deadline: 30 }).catch((error: Error) => (error.cause as Error).name);
      return [await ctx.child(kid, undefined, { queue: "other" }), late];
    });
    await engine.worker({ workflows: [parent, wait] });
    await other.worker({ workflows: [kid], queue: "other" });
    expect(await (await engine.start(parent, undefined)).result()).toEqual(["2", "DeadlineExceededError"]);
  });

  test("D10 a child has its own retry", async () => {
    const engine = await engines.open();
    let tries = 0;
    const kid = workflow("kid", async () => {
      if (++tries < 3) throw new Error("no");
      return tries;
    });
    const parent = workflow("parent", async (ctx) => ctx.child(kid, undefined, { retry: { maxAttempts: 3, initialInterval: 1 } }));
    await engine.worker({ workflows: [parent, kid] });
    expect(await (await engine.start(parent, undefined)).result()).toBe(3);
  });
});
