// V2, V4, X7, X11: versions, code that does not fit, and promises that no code awaits.

import { activity, FatalError, Loop, Receive, RunBlockedError, signal, update, workflow } from "holdfast";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("versions on %s", (store) => {
  const engines = enginesOn(store);

  test("V4 a run that is handed out to a worker without code for it, by a damaged row, is blocked and says so", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const order = workflow("order", async () => "done");
    const run = await engine.start(order, undefined);
    let isDamaged = true;
    wire.intercept("claim", async (pass, request) => {
      const result = await pass(request);
      if (!isDamaged) return result;
      return { ...result, runs: result.runs.map((claim) => ({ ...claim, run: { ...claim.run, version: "other" } })) };
    });
    await engine.worker({ workflows: [order] });
    await until(async () => (await run.describe()).status === "blocked", "it to be blocked");
    const error = await errorOf(run.result());
    expect(error).toBeInstanceOf(RunBlockedError);
    expect(error.cause).toMatchObject({ code: "HF_STORE_CORRUPT", cause: { message: expect.stringContaining("order@other") } });
    isDamaged = false;
    await run.resume();
    await until(async () => (await run.describe()).status === "completed", "its end");
  });

  test("Y2 a deploy that changes retry policies, timeouts, queues and parentClose under running runs blocks none; what was recorded stays in force", async () => {
    const engine = await engines.open();
    const calls: string[] = [];
    const mail = activity("mail", async (to: string, { attempt }) => {
      calls.push(`${to} ${attempt}`);
      throw new Error("no");
    });
    const kid = workflow("kid", async (ctx) => {
      await ctx.waitForSignal("never");
    });
    interface Deploy {
      readonly queue: string;
      readonly maxAttempts: number;
      readonly timeout: number;
      readonly parentClose: "abandon" | "terminate";
    }
    const before: Deploy = { queue: "old", maxAttempts: 2, timeout: 60_000, parentClose: "abandon" };
    const after: Deploy = { queue: "new", maxAttempts: 5, timeout: 1, parentClose: "terminate" };
    const make = ({ queue, maxAttempts, timeout, parentClose }: Deploy) =>
      workflow("order", async (ctx, via: "step" | "activity") => {
        const retry = { maxAttempts, initialInterval: 300, backoff: 1, jitter: 0 };
        const handle = await ctx.startChild(kid, undefined, {
          id: `kid of ${ctx.run.id}`,
          parentClose,
          queue: "kids",
          priority: maxAttempts,
        });
        await ctx.step("passed", () => "", { retry, timeout });
        const failing = ({ attempt }: { attempt: number }): never => {
          calls.push(`${via} ${attempt}`);
          throw new Error("no");
        };
        if (via === "step") await ctx.step("flaky", failing, { retry, timeout }).catch(() => {});
        else await ctx.activity(mail, "ann", { retry, queue, startToClose: timeout, heartbeat: timeout }).catch(() => {});
        return handle.id;
      });
    const first = await engine.worker({ workflows: [make(before)] });
    const runs = await Promise.all([engine.start(make(before), "step"), engine.start(make(before), "activity")]);
    await until(() => calls.includes("step 1"), "the first attempt");
    await until(async () => (await runs[1].describe()).waitingFor.some((text) => text.includes("mail")), "the activity to wait");
    await first.stop();

    const other = await engines.open();
    await other.worker({ workflows: [make(after)] });
    const asked = await Promise.all([
      other.worker({ workflows: [], activities: [mail], queue: "old" }),
      other.worker({ workflows: [], activities: [mail], queue: "new" }),
    ]);
    expect(asked).toHaveLength(2);
    const ids = await Promise.all(runs.map((run) => other.run(run.id).result()));
    expect(calls.sort()).toEqual(["ann 1", "ann 2", "step 1", "step 2"]);
    for (const id of ids) expect((await other.run(String(id)).describe()).status).toBe("pending"); // abandoned: their queue has no worker
    const changed = engines.log.filter(({ message }) => message.includes("recorded"));
    expect(changed.map(({ level }) => level)).toEqual(["info"]);
    expect(engines.log.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("V2 ctx.version is the version the run was started with; a worker claims only what it serves", async () => {
    const engine = await engines.open();
    const make = (version: string | undefined, serves?: readonly string[] | "*") =>
      workflow(
        { name: "order", ...(version !== undefined && { version }), ...(serves !== undefined && { serves }) },
        async (ctx) => `${ctx.version} ${ctx.run.version} on ${version}`,
      );
    const [none, one, two] = await Promise.all([
      engine.start(make(undefined), undefined),
      engine.start(make("1"), undefined),
      engine.start(make("2"), undefined),
    ]);
    const worker = await engine.worker({ workflows: [make("2")] });
    expect(await two.result()).toBe("2 2 on 2");
    expect([(await none.describe()).status, (await one.describe()).status]).toEqual(["pending", "pending"]);
    await worker.stop();
    const other = await engine.worker({ workflows: [make("3", ["1"])] });
    expect(await one.result()).toBe("1 1 on 3");
    expect((await none.describe()).status).toBe("pending");
    await other.stop();
    await engine.worker({ workflows: [make("4", "*")] });
    expect(await none.result()).toBe("undefined undefined on 4");
    expect(await (await engine.start(make("4"), undefined, { version: "1" })).result()).toBe("1 1 on 4");
  });

  test("V2 a worker with several versions of a name drives each run with the definition that serves its version", async () => {
    const engine = await engines.open();
    const make = (version: string | undefined, serves: readonly string[] | "*" = []) =>
      workflow({ name: "order", ...(version !== undefined && { version }), serves, signals: { go: signal() } }, async (ctx) => {
        await ctx.waitForSignal("go");
        return `${ctx.version} on ${version}`;
      });
    // "1" has a definition of its own though "2" serves it as well; "0" is served by name, "9" by "*"; without a version: its own.
    const [none, one, two, three] = [make(undefined), make("1"), make("2", ["1", "0"]), make("3", "*")];
    const unserved = make("x");
    await engine.start(unserved, undefined, { id: "elsewhere", queue: "other" });
    const starts = [undefined, "0", "1", "2", "3", "9"];
    const before = await Promise.all(
      starts.map((version) => engine.start(unserved, undefined, { ...(version !== undefined && { version }) })),
    );
    const worker = await engine.worker({ workflows: [none, one, two, three] });
    const after = await Promise.all([none, one, two, three].map((code) => engine.start(code, undefined)));
    for (const run of [...before, ...after]) await run.signal("go");
    expect(await Promise.all(after.map((run) => run.result()))).toEqual(["undefined on undefined", "1 on 1", "2 on 2", "3 on 3"]);
    const [first, ...rest] = await Promise.all(before.map((run) => run.result()));
    expect(first).toBe("x on 3"); // no version was asked for: the definition's
    expect(rest).toEqual(["0 on 2", "1 on 1", "2 on 2", "3 on 3", "9 on 3"]);
    expect(await (await engine.start("order", undefined, { signals: [{ name: "go" }] })).result()).toBe("3 on 3");
    await worker.stop();
  });

  test("V2 a worker with several versions claims no others, and takes over each run with the code that it had", async () => {
    const engine = await engines.open();
    const make = (version: string, step: string) =>
      workflow({ name: "order", version, signals: { go: signal() } }, async (ctx) => {
        await ctx.step(step, () => step);
        await ctx.waitForSignal("go");
        return `${ctx.version} ${step}`;
      });
    const [one, two, three] = [make("1", "a"), make("2", "b"), make("3", "c")];
    const first = await engine.worker({ workflows: [one, two] });
    const runs = [await engine.start(one, undefined), await engine.start(two, undefined)];
    for (const run of runs) await until(async () => (await run.describe()).status === "sleeping");
    const stranger = await engine.start(three, undefined);
    await first.stop();
    await engine.worker({ workflows: [two, one], cachedRuns: 0 });
    for (const run of runs) await run.signal("go");
    expect(await Promise.all(runs.map((run) => run.result()))).toEqual(["1 a", "2 b"]);
    expect((await stranger.describe()).status).toBe("pending");
  });

  test("V2 P10 a run keeps its version when it continues as new, unless it asks for another", async () => {
    const engine = await engines.open();
    const make = (version: string) =>
      workflow({ name: "order", version }, async (ctx, left: number) => {
        if (left > 1) return ctx.continueAsNew(left - 1);
        return left === 1 ? ctx.continueAsNew(0, { version: "2" }) : `${ctx.version} on ${version}`;
      });
    await engine.worker({ workflows: [make("1"), make("2")] });
    const run = await engine.start(make("1"), 3);
    expect(await run.result({ timeout: "10s" })).toBe("2 on 2");
    const stays = workflow({ name: "stays", version: "1" }, async (ctx, left: number) =>
      left > 0 ? ctx.continueAsNew(left - 1) : ctx.version,
    );
    await engine.worker({ workflows: [stays] });
    expect(await (await engine.start(stays, 2)).result({ timeout: "10s" })).toBe("1");
  });

  test("V2 M11 a query of a run is evaluated with the definition that serves its version", async () => {
    const engine = await engines.open();
    const make = (version: string) =>
      workflow({ name: "order", version, queries: { by: () => version } }, async (ctx) => {
        await ctx.waitForSignal("go" as never);
      });
    const [one, two] = [make("1"), make("2")];
    await engine.worker({ workflows: [one, two] });
    for (const [code, by] of [[one, "1"], [two, "2"]] as const) {
      const { id } = await engine.start(code, undefined);
      expect(await engine.run(id).query("by")).toBe(by);
    } // biome-ignore format: a table
  });

  test("V2 two versions side by side, each on its own worker", async () => {
    const [first, second] = [await engines.open(), await engines.open()];
    const make = (version: string) =>
      workflow({ name: "order", version, signals: { go: signal() } }, async (ctx) => {
        await ctx.waitForSignal("go");
        return `${ctx.version} on ${version}`;
      });
    const [one, two] = [make("1"), make("2")];
    await first.worker({ workflows: [one] });
    await second.worker({ workflows: [two] });
    const runs = [await first.start(one, undefined), await first.start(two, undefined), await second.start(one, undefined)];
    for (const { id } of runs) await first.run(id).signal("go");
    expect(await Promise.all(runs.map((run) => run.result()))).toEqual(["1 on 1", "2 on 2", "1 on 1"]);
  });
});

describe.each(STORES)("blocked runs on %s", (store) => {
  const engines = enginesOn(store);
  const before = workflow("order", async (ctx) => {
    const first = await ctx.step("reserve", () => "reserved");
    await ctx.waitForSignal("go");
    return first;
  });
  const diverged = workflow("order", async (ctx) => {
    const first = await ctx.step("charge", () => "charged");
    await ctx.waitForSignal("go");
    return first;
  });
  /** A run that waits for its signal. */
  async function waiting(): Promise<string> {
    const engine = await engines.open();
    await engine.worker({ workflows: [before] });
    const run = await engine.start(before, undefined);
    await until(async () => (await run.describe()).status === "sleeping");
    await engine.close();
    return run.id;
  }

  test("V4 code that diverges from history blocks the run, with expected and actual; the run itself is unharmed", async () => {
    const id = await waiting();
    const engine = await engines.open();
    const history = JSON.stringify((await engine.run(id).history()).turns);
    const worker = await engine.worker({ workflows: [diverged] });
    const run = engine.run(id, diverged);
    await run.signal("go", "on");
    const error = await errorOf(run.result());
    expect(error).toBeInstanceOf(RunBlockedError);
    expect(error).toMatchObject({ runId: id, cause: { name: "NondeterminismError" } });
    expect(error.message).toMatch(/reserve/);
    expect(error.message).toMatch(/charge/);
    const info = await run.describe();
    expect(info).toMatchObject({ status: "blocked", error: { name: "NondeterminismError" } });
    expect(info.waitingFor[0]).toMatch(/code that can replay it/);
    expect(JSON.stringify((await run.history()).turns)).toBe(history);
    await until(() => engines.log.some(({ level, message }) => level === "error" && message.includes(`Run ${id} is blocked`)), "the log");

    // Other code unblocks it at once, in this process or in another.
    await worker.stop();
    const other = await engines.open();
    await other.worker({ workflows: [before] });
    await until(async () => (await run.describe()).status === "completed");
    expect(await other.run(id).result()).toBe("reserved");
  });

  test("V4 an update of a blocked run is refused as its result is; once other code has it, it is answered", async () => {
    const entity = (first: string) =>
      workflow({ name: "entity", updates: { add: update<number, number>() } }, async (ctx) => {
        await ctx.step(first, () => 1);
        await ctx.receive(0, { updates: { add: (n, sum) => Receive.reply(sum + n, sum + n) } });
      });
    const [good, bad] = [entity("load"), entity("fetch")];
    const engine = await engines.open();
    const first = await engine.worker({ workflows: [good] });
    const run = await engine.start(good, undefined, { id: "sum" });
    // While the step runs, there is no receive, and an update would be rejected.
    await until(async () => (await run.describe()).status === "sleeping", "its receive");
    expect(await run.update("add", 1)).toBe(1);
    await first.stop();

    const worker = await engine.worker({ workflows: [bad] });
    const refused = [run.update("add", 2), engine.updateWithStart(bad, undefined, { name: "add", input: 3 }, { id: "sum" })];
    for (const error of await Promise.all(refused.map(errorOf))) {
      expect(error).toBeInstanceOf(RunBlockedError);
      expect(error).toMatchObject({ runId: "sum", cause: { name: "NondeterminismError" } });
    }
    await worker.stop();
    await engine.worker({ workflows: [good] });
    // It was never lost: the two updates whose callers had stopped waiting are counted.
    expect(await run.update("add", 4)).toBe(10);
  });

  test("V4 a caller whose run is claimed while its row is read waits for the new code", async () => {
    const step = (name: string) => workflow("stepped", async (ctx) => {
      await ctx.step(name, () => 1);
      await ctx.waitForSignal("go");
      return name;
    }); // biome-ignore format: short
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const first = await engine.worker({ workflows: [step("old")] });
    const run = await engine.start(step("old"), undefined);
    await until(async () => (await run.describe()).status === "sleeping", "its wait");
    await first.stop();
    const bad = await engine.worker({ workflows: [step("bad")] });
    await run.signal("go");
    await expect(run.result()).rejects.toThrow(RunBlockedError);
    await bad.stop();
    // The row is read before the claim, and arrives after it.
    const [read, claimed] = [new Gate(), new Gate()];
    wire.intercept("claim", async (pass, request) => {
      await read.passed;
      const result = await pass(request);
      claimed.open();
      return result;
    });
    await engine.worker({ workflows: [step("old")] });
    wire.intercept("get", async (pass, ids) => {
      const rows = await pass(ids);
      read.open();
      await claimed.passed;
      await new Promise((resolve) => setImmediate(resolve));
      return rows;
    });
    expect(await run.result()).toBe("old");
  });

  test("V4 messages to a blocked run are kept, and it is tried again by resume()", async () => {
    const id = await waiting();
    const wire = new Wire();
    let blocked = 0;
    wire.intercept("commit", async (pass, turns) => {
      const results = await pass(turns);
      blocked += turns.filter((turn) => turn.blocked !== undefined).length;
      return results;
    });
    const engine = await engines.open({ wire });
    let fits = false;
    const fixed = workflow("order", async (ctx) => {
      const first = await ctx.step(fits ? "reserve" : "charge", () => "fixed");
      return [first, await ctx.waitForSignal("go")];
    });
    await engine.worker({ workflows: [fixed] });
    const run = engine.run(id, fixed);
    await run.signal("go", 1);
    await until(() => blocked === 1);
    const { availableAt } = await run.describe();
    await run.signal("go", 2);
    expect((await run.describe()).availableAt).toEqual(availableAt);
    fits = true; // the same code by its text, but it fits now
    await run.resume();
    await until(async () => (await run.describe()).status === "completed");
    expect(await run.result()).toEqual(["reserved", 1]);
  });

  test("V4 result() of a blocked run that was just resumed waits for the result of that", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const elsewhere = await engines.open();
    let fits = false;
    const strays = workflow("strays", async (ctx) => {
      if (!fits) await new Promise((resolve) => setImmediate(resolve));
      return ctx.step("work", () => "done");
    });
    await engine.worker({ workflows: [strays] });
    const { id } = await engine.start(strays, undefined);
    const handles = [engine.run(id, strays), elsewhere.run(id, strays)] as const;
    for (const run of handles) expect(await errorOf(run.result())).toBeInstanceOf(RunBlockedError);
    const gate = new Gate();
    wire.intercept("claim", async (pass, request) => {
      await gate.passed;
      return pass(request);
    });
    fits = true;
    await handles[0].resume();
    const looks: unknown[] = [];
    const results = handles.map((run) => run.result().finally(() => looks.push(run)));
    await Promise.all(handles.map((run) => run.describe()));
    expect(looks).toEqual([]);
    gate.open();
    expect(await Promise.all(results)).toEqual(["done", "done"]);
  });

  test("V4 each worker that starts tries a blocked run once, whatever its code looks like", async () => {
    const engine = await engines.open();
    const tries: string[] = [];
    const strays = (who: string) =>
      workflow("strays", async (ctx) => {
        tries.push(who);
        if (who !== "fixed") await new Promise((resolve) => setImmediate(resolve));
        return ctx.step("work", () => who);
      });
    const first = await engine.worker({ workflows: [strays("first")] });
    const run = await engine.start(strays("first"), undefined, { delay: 1 });
    expect((await errorOf(run.result())).cause).toMatchObject({ name: "ForeignAwaitError" });
    await engine.worker({ workflows: [strays("second")] }); // beside the first, which leaves it alone
    await until(() => tries.length === 2, "the second try");
    await until(async () => (await run.describe()).workerId === undefined, "the second worker to be through with it");
    expect(await run.describe()).toMatchObject({ status: "blocked", availableAt: undefined });
    await first.stop();
    const other = await engines.open();
    await other.worker({ workflows: [strays("fixed")] });
    expect(await until(async () => (await run.describe()).output)).toBe("fixed");
    expect(tries).toEqual(["first", "second", "fixed"]);
  });

  test("V4 a turn that broke a rule is not tried by time, nor by messages: what it did outside of steps happens once", async () => {
    const engine = await engines.open();
    let posted = 0;
    const posts = workflow("posts", async (ctx) => {
      posted++;
      await new Promise((resolve) => setImmediate(resolve));
      await ctx.waitForSignal("go");
    });
    const sound = workflow("sound", async () => "sound");
    await engine.worker({ workflows: [posts, sound] });
    // It is claimed, so the worker has looked for blocked runs by then, which it does as it starts.
    expect(await (await engine.start(sound, undefined, { delay: 1 })).result()).toBe("sound");
    // One that is begun before it is created, and one that is claimed.
    for (const delay of [0, 1]) {
      posted = 0;
      const run = await engine.start(posts, undefined, { delay });
      const error = await errorOf(run.result());
      expect(error.cause).toMatchObject({ name: "ForeignAwaitError" });
      await run.signal("go");
      expect(await run.describe()).toMatchObject({ status: "blocked", availableAt: undefined });
      expect(posted).toBe(1);
      await run.resume();
      await until(() => posted === 2, "the try that resume() asks for");
      await until(async () => (await run.describe()).workerId === undefined);
      expect((await run.describe()).availableAt).toBeUndefined();
    }
  });

  test("V4 runs that fill a worker as it starts are not taken for runs that were blocked before", async () => {
    const engine = await engines.open();
    const posted: string[] = [];
    const posts = workflow("posts", async (ctx) => {
      posted.push(ctx.run.id);
      await new Promise((resolve) => setImmediate(resolve));
    });
    await engine.worker({ workflows: [posts], concurrency: 5 });
    const runs = await Promise.all(Array.from({ length: 8 }, () => engine.start(posts)));
    for (const run of runs) expect((await errorOf(run.result())).cause).toMatchObject({ name: "ForeignAwaitError" });
    await until(async () => (await engine.list({ status: "blocked" })).runs.length === 8, "none to be tried");
    const sound = await engine.start(
      workflow("sound", async () => "sound"),
      undefined,
      { delay: 1 },
    );
    await engine.worker({ workflows: [workflow("sound", async () => "sound")] });
    expect(await sound.result()).toBe("sound");
    expect(posted.toSorted()).toEqual(runs.map(({ id }) => id).toSorted());
  });

  test("V4 many runs that are blocked for one reason are one line, with their number", async () => {
    const ids = await Promise.all(Array.from({ length: 30 }, () => waiting()));
    const engine = await engines.open();
    await engine.worker({ workflows: [diverged] });
    await Promise.all(ids.map((id) => engine.run(id).signal("go")));
    for (const id of ids) await errorOf(engine.run(id).result());
    await engine.close();
    const lines = engines.log.filter(({ level }) => level === "error");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ fields: { runs: 30, workflow: "order", code: "HF_NONDETERMINISM" } });
    expect(lines[0]?.message).toMatch(/^30 runs of workflow "order" are blocked/);
    expect(JSON.stringify(lines[0]).match(/step \\"reserve\\"/g)).toHaveLength(1); // once: not in the fields again
  });

  test("V4 runs that made different illegal calls are different lines; the same one in another iteration is the same", async () => {
    const breaks = workflow("breaks", async (ctx, how: "sleep" | "step" | number) => {
      if (how === "sleep") await ctx.parallel([() => ctx.sleep(1)]);
      if (how === "step") await ctx.parallel([() => ctx.step("one", () => 1)]);
      await ctx.loop({ name: "loop", state: 1 }, async (iteration, n) => {
        await iteration.step("one", () => 1);
        return n === how ? ("done" as never) : Loop.continue(n + 1);
      });
    });
    const engine = await engines.open();
    await engine.worker({ workflows: [breaks] });
    for (const how of ["sleep", "step", 1, 2] as const) await errorOf((await engine.start(breaks, how)).result());
    await engine.close();
    const lines = engines.log.filter(({ level }) => level === "error");
    expect(lines.map(({ fields }) => fields)).toEqual([
      expect.objectContaining({ runs: 1, code: "HF_OUT_OF_TURN" }),
      expect.objectContaining({ runs: 1, code: "HF_OUT_OF_TURN" }),
      expect.objectContaining({ runs: 2, code: "HF_ILLEGAL_RETURN" }),
    ]);
  });

  test("V4 a blocked run is tried again by itself", async () => {
    const id = await waiting();
    const engine = await engines.open();
    let fits = false;
    const fixed = workflow("order", async (ctx) => {
      const first = await ctx.step(fits ? "reserve" : "charge", () => "fixed");
      return [first, await ctx.waitForSignal("go")];
    });
    await engine.worker({ workflows: [fixed] });
    await engine.run(id).signal("go", 1);
    await until(async () => (await engine.run(id).describe()).status === "blocked");
    fits = true;
    await until(async () => (await engine.run(id).describe()).status === "completed");
  });

  test("V4 K1 a cancel of a blocked run is kept until code comes that fits", async () => {
    const id = await waiting();
    const engine = await engines.open();
    const worker = await engine.worker({ workflows: [diverged] });
    await engine.run(id).signal("go");
    await until(async () => (await engine.run(id).describe()).status === "blocked");
    await engine.run(id).cancel("enough");
    await worker.stop();
    const other = await engines.open();
    await other.worker({ workflows: [before] });
    await until(async () => (await other.run(id).describe()).status === "canceled");
  });

  test("V4 a blocked run can be terminated", async () => {
    const id = await waiting();
    const engine = await engines.open();
    await engine.worker({ workflows: [diverged] });
    await engine.run(id).signal("go");
    await until(async () => (await engine.run(id).describe()).status === "blocked");
    await engine.run(id).terminate("no longer needed");
    expect((await engine.run(id).describe()).status).toBe("terminated");
  });

  test("V4 X7 code that breaks the rules blocks its run, and runs no rollback", async () => {
    const engine = await engines.open();
    const undone: string[] = [];
    const broken = workflow("broken", async (outer) => {
      await outer.step("one", () => 1, { rollback: () => void undone.push("one") });
      await outer.join("both", { a: async () => outer.step("wrong ctx", () => 2) });
    });
    await engine.worker({ workflows: [broken] });
    const run = await engine.start(broken, undefined);
    const error = await errorOf(run.result());
    expect(error).toBeInstanceOf(RunBlockedError);
    expect(error.cause).toMatchObject({ name: "OutOfTurnError" });
    expect(undone).toEqual([]);
  });

  test("V4 code that breaks the rules in its first turn: the run is there, blocked, and other code goes on with it", async () => {
    const engine = await engines.open();
    const broken = workflow("broken", async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
    });
    const worker = await engine.worker({ workflows: [broken] });
    const run = await engine.start(broken, undefined);
    expect((await errorOf(run.result())).cause).toMatchObject({ name: "ForeignAwaitError" });
    await worker.stop();
    await engine.worker({ workflows: [workflow("broken", async (ctx) => ctx.sleep(1).then(() => "fixed"))] });
    await until(async () => (await run.describe()).status === "completed");
    expect(await run.result()).toBe("fixed");
  });
});

describe.each(STORES)("promises that no code awaits on %s", (store) => {
  const engines = enginesOn(store);
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  // The test runner's own listeners, which would hide what Node does without any.
  const others: NodeJS.UnhandledRejectionListener[] = process.listeners("unhandledRejection");
  beforeEach(() => {
    unhandled.length = 0;
    for (const listener of others) process.off("unhandledRejection", listener);
    process.on("uncaughtException", note);
  });
  afterEach(() => {
    process.off("uncaughtException", note);
    for (const listener of others) process.on("unhandledRejection", listener);
  });

  test("X11 an operation that fails while no code awaits it ends nothing, and is delivered when awaited", async () => {
    const engine = await engines.open();
    const helper = async (step: () => Promise<number>) => {
      const value = await step();
      return value + 1;
    };
    const floating = workflow("floating", async (ctx) => {
      const promise = helper(() => ctx.step("fails", () => Promise.reject(new FatalError("no"))));
      await ctx.sleep(20);
      return promise.catch((error: Error) => error.name);
    });
    const never = workflow("never", async (ctx) => {
      void helper(() => ctx.step("fails", () => Promise.reject(new FatalError("no"))));
      await ctx.sleep(20);
      return "done";
    });
    await engine.worker({ workflows: [floating, never] });
    expect(await (await engine.start(floating, undefined)).result()).toBe("StepFailedError");
    expect(await (await engine.start(never, undefined)).result()).toBe("done");
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
  });

  test("X11 also when the run was terminated meanwhile", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const entered = new Gate();
    const held = new Gate();
    const floating = workflow("floating", async (ctx) => {
      const promise = (async () => {
        await ctx.step("fails", async () => {
          entered.open();
          await held.passed;
          throw new FatalError("no");
        });
      })();
      await ctx.sleep("1h");
      await promise;
    });
    await engine.worker({ workflows: [floating], lease: "60ms" });
    const run = await engine.start(floating, undefined);
    await entered.passed;
    await run.terminate();
    held.open();
    await errorOf(run.result());
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
  });
});
