// M3, P10, K1, V2: what a start, a handle and a cancel meet that is there already.

import { type Run, RunClosedError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { enginesOn, errorOf, STORES, Wire } from "./engines.ts";

const echo = workflow("echo", async (_ctx, input: unknown) => input);

describe.each(STORES)("conflicts on %s", (store) => {
  const engines = enginesOn(store);

  test("M3 the same idempotency key under another workflow is another run", async () => {
    const engine = await engines.open();
    const other = workflow("other", async () => "other");
    await engine.worker({ workflows: [echo, other] });
    const a = await engine.start(echo, 1, { idempotencyKey: "k" });
    const b = await engine.start(other, undefined, { idempotencyKey: "k" });
    expect(a.id).not.toBe(b.id);
    expect([await a.result(), await b.result()]).toEqual([1, "other"]);
    expect((await engine.start(echo, 2, { idempotencyKey: "k", id: "x" })).id).toBe(a.id);
    expect((await engine.start(other, undefined, { idempotencyKey: "k" })).id).toBe(b.id);
  });

  test("M3 a run of another workflow under an id is an error that names it, whatever onConflict says", async () => {
    const engine = await engines.open();
    const other = workflow("other", async (ctx) => ctx.waitForSignal("go"));
    await engine.worker({ workflows: [echo] });
    await (await engine.start(echo, 1, { id: "closed" })).result();
    await engine.start(other, undefined, { id: "open" });
    for (const onConflict of ["reject", "use-existing", "restart-if-closed"] as const) {
      for (const signals of [undefined, [{ name: "go" }]]) {
        const closed = await errorOf(engine.start(other, undefined, { id: "closed", onConflict, ...(signals && { signals }) }));
        expect(closed).toMatchObject({ name: "RunAlreadyExistsError", runId: "closed", runIds: ["closed"], workflow: "echo" });
        const open = await errorOf(engine.start(echo, 1, { id: "open", onConflict, ...(signals && { signals }) }));
        expect(open).toMatchObject({ name: "RunAlreadyExistsError", workflow: "other" });
        expect(open.message).toContain('run "open" already exists: it is a run of workflow "other"');
      }
    }
    const updated = await errorOf(engine.updateWithStart(echo, 1, { name: "add", input: 1 } as never, { id: "open" }));
    expect(updated).toMatchObject({ name: "RunAlreadyExistsError", workflow: "other" });
    const many = await errorOf(engine.startMany(other, [{ input: undefined, id: "closed", onConflict: "use-existing" }]));
    expect(many).toMatchObject({ name: "RunAlreadyExistsError", runIds: ["closed"], workflow: "echo" });
    expect((await engine.run("closed").describe()).execution).toBe(1);
  });

  test("M3 a handle for another workflow than the run is of throws at its first call, whichever it is, and does nothing", async () => {
    const engine = await engines.open();
    const other = workflow({ name: "other", queries: { all: (state: unknown) => state } }, async () => {});
    await engine.start(echo, 1, { id: "a" });
    const calls: Record<string, (run: Run<unknown>) => Promise<unknown>> = {
      result: (run) => run.result(),
      signal: (run) => run.signal("go"),
      update: (run) => run.update("go"),
      query: (run) => run.query("all"),
      state: (run) => run.state(),
      cancel: (run) => run.cancel(),
      terminate: (run) => run.terminate(),
      resume: (run) => run.resume(),
      describe: (run) => run.describe(),
      operations: (run) => run.operations(),
      history: (run) => run.history(),
    };
    for (const [name, call] of Object.entries(calls)) {
      const handle = engine.run("a", other) as Run<unknown>;
      expect(await errorOf(call(handle)), name).toMatchObject({ name: "RunAlreadyExistsError", runId: "a", workflow: "echo" });
      expect(await errorOf(call(handle)), `${name}, again`).toMatchObject({ name: "RunAlreadyExistsError" });
    }
    expect((await engine.run("a").describe()).status).toBe("pending");
    await engine.worker({ workflows: [echo] });
    expect(await engine.run("a", echo).result()).toBe(1);
    for (const [name, call] of Object.entries(calls))
      expect(await errorOf(call(engine.run("b", other) as Run<unknown>)), name).toMatchObject({ name: "RunNotFoundError" });
  });

  test("M3 to send through a handle that names the workflow takes one call of the store", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const listener = workflow("listener", async (ctx) => ctx.waitForSignal("go"));
    await engine.start(listener, undefined, { id: "a" });
    let reads = 0;
    wire.intercept("get", (pass, ids) => {
      reads++;
      return pass(ids);
    });
    await engine.run("a", listener).signal("go", 1);
    await engine.run("a", listener).cancel();
    expect(reads).toBe(0);
  });

  test("K1 a second cancel of a canceled run is not an error; of one that ended otherwise it is", async () => {
    const engine = await engines.open();
    const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go"));
    await engine.worker({ workflows: [wait, echo] });
    const run = await engine.start(wait, undefined, { id: "a" });
    await run.cancel("first");
    await expect(run.result()).rejects.toThrow("first");
    await run.cancel("second");
    await engine.run("a", wait).cancel();
    await expect(run.result()).rejects.toThrow("first");
    const done = await engine.start(echo, 1);
    await done.result();
    await expect(done.cancel()).rejects.toThrow(RunClosedError);
    const canceller = workflow("canceller", async (ctx) => {
      await ctx.cancelRun("a");
      return "told";
    });
    await engine.worker({ workflows: [canceller] });
    expect(await (await engine.start(canceller, undefined)).result()).toBe("told");
  });

  test("P10 restart-if-closed uses an open run as use-existing does: its signals go to it", async () => {
    const engine = await engines.open();
    const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go"));
    await engine.worker({ workflows: [wait] });
    const run = await engine.start(wait, undefined, { id: "a" });
    const signals = [{ name: "go", payload: 7 }];
    const found = await engine.start(wait, undefined, { id: "a", onConflict: "restart-if-closed", signals });
    expect(await run.result()).toBe(7);
    expect((await found.describe()).execution).toBe(1);
  });

  test("V2 a start by name takes the last of that name in the list of a worker, whatever was started here since", async () => {
    const engine = await engines.open();
    const [v1, v2] = ["1", "2"].map((version) => workflow({ name: "order", version, serves: "*" }, async (ctx) => ctx.version));
    if (v1 === undefined || v2 === undefined) throw new Error("there are two");
    await engine.worker({ workflows: [v2] });
    await engine.start(v1, undefined);
    expect(await (await engine.start("order")).result()).toBe("2");
  });
});
