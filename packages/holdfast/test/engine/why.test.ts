// The registry of workers, and why a run does not advance, on every store.

import { activity, type Holdfast, type QueueSpec, type Reason, RunNotFoundError, signal, UnsupportedError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { enginesOn, STORES, until } from "./engines.ts";

const mail = activity("mail", async () => "sent");
const waits = workflow({ name: "waits", signals: { go: signal<unknown>() } }, async (ctx) => ctx.waitForSignal("go"));
const sleeps = workflow("sleeps", async (ctx) => ctx.sleep("1h"));
const mails = workflow("mails", async (ctx) => ctx.activity(mail, undefined, { queue: "mails" }));
const decline = (): never => {
  throw new Error("card declined");
};
const fails = workflow("fails", async (ctx) => ctx.step("charge", decline, { retry: { maxAttempts: 5, initialInterval: "1h" } }));
const parent = workflow("parent", async (ctx) => ctx.child(waits, undefined, { id: "child" }));
const entity = workflow({ name: "entity", version: "2", signals: { go: signal<unknown>() } }, async (ctx) => {
  await ctx.receive(0, { signals: { go: (_payload, state) => ({ result: "noreply", state }) } });
});
let release = (): void => {};
const works = workflow("works", async (ctx) => {
  await ctx.step("work", () => new Promise<void>((done) => (release = done)));
});
const workflows = [waits, sleeps, mails, fails, parent, entity, works];

const kinds = (reasons: readonly Reason[]): string[] => reasons.map(({ kind }) => kind);

describe.each(STORES)("on %s", (name) => {
  const engines = enginesOn(name);
  const parked = (engine: Holdfast, id: string) => until(async () => (await engine.run(id).describe()).status === "sleeping");

  test("B6 workers of all engines are listed with what they serve, until they stop", async () => {
    const engine = await engines.open();
    const other = await engines.open();
    const worker = await engine.worker({
      workflows: [waits, entity],
      activities: [mail],
      queue: "q",
      concurrency: 7,
      activityConcurrency: 3,
    });
    const [info] = await other.workers();
    expect(info).toMatchObject({
      ...{ id: worker.id, pid: process.pid, queue: "q", activities: ["mail"], concurrency: 7, activityConcurrency: 3 },
      ...{ active: 0, activeActivities: 0, startedAt: expect.any(Date), seenAt: expect.any(Date), host: expect.any(String) },
    });
    expect(info?.serves).toEqual(
      expect.arrayContaining([
        { workflow: "waits", versions: [undefined] },
        { workflow: "entity", versions: ["2"] },
      ]),
    );
    const second = await other.worker({ workflows: [sleeps] });
    expect((await engine.workers()).map(({ id }) => id)).toEqual([worker.id, second.id]);
    await worker.stop();
    expect((await engine.workers()).map(({ id }) => id)).toEqual([second.id]);
    await other.close();
    expect(await engine.workers()).toEqual([]);
  });

  test("B6 without a worker that serves it, a run says no-worker alone, and what to do", async () => {
    const engine = await engines.open();
    await engine.start(entity, undefined, { id: "e" });
    const [reason, ...more] = await engine.run("e").why();
    expect(more).toEqual([]);
    expect(reason).toMatchObject({ kind: "no-worker", text: "No worker that is alive serves entity@2.", since: expect.any(Date) });
    expect(reason?.advice).toContain("Start a worker");
    const old = workflow({ name: "entity", version: "1" }, async () => {});
    await engine.worker({ workflows: [old] });
    expect((await engine.run("e").why())[0]?.advice).toContain("another version or queue");
    // A run that waits for a time, and that no worker serves, has both obstacles.
    await engine.start(sleeps, undefined, { id: "later", delay: "1h" });
    expect(kinds(await engine.run("later").why())).toEqual(["delayed", "no-worker"]);
    await expect(engine.run("unknown").why()).rejects.toThrow(RunNotFoundError);
  });

  test("B6 a run that waits says for what, since when and where", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows });
    for (const one of [waits, sleeps, mails, fails, entity, parent]) await engine.start(one as typeof sleeps, undefined, { id: one.name });
    for (const one of [waits, sleeps, mails, fails, entity, parent]) await parked(engine, one.name);
    const why = async (id: string): Promise<Reason> => {
      const reasons = await engine.run(id).why();
      expect([id, kinds(reasons)]).toEqual([id, [expect.any(String)]]);
      const [reason] = reasons as [Reason];
      expect(reason.since).toBeInstanceOf(Date);
      expect(reason.advice.length).toBeGreaterThan(10);
      return reason;
    };
    expect(await why("waits")).toMatchObject({ kind: "signal", text: "It waits for signal go.", location: "go" });
    expect(await why("sleeps")).toMatchObject({ kind: "timer", text: expect.stringMatching(/^It waits for sleep.* until 20/) });
    expect(await why("entity")).toMatchObject({ kind: "signal" });
    expect(await why("mails")).toMatchObject({
      ...{ kind: "no-activity-worker", location: "mail" },
      text: 'It waits for activity mail. No worker that is alive serves mail in queue "mails".',
    });
    expect(await why("fails")).toMatchObject({
      ...{ kind: "retrying", location: "charge" },
      text: expect.stringMatching(/^It waits for step charge \(attempt 2 at .*\)\. The last attempt failed: card declined$/),
    });
    expect(await why("parent")).toMatchObject({ kind: "child", text: expect.stringContaining("Its run is child.") });
    expect((await why("parent")).advice).toContain('engine.run("child").why()');
    await engine.worker({ workflows: [], activities: [mail], queue: "mails" });
    expect(await engine.run("mails").result()).toBe("sent");
  });

  test("B6 a run in progress says which worker runs what; one that has ended says how", async () => {
    const engine = await engines.open();
    const worker = await engine.worker({ workflows, concurrency: 1 });
    const run = await engine.start(works, undefined, { id: "w" });
    await until(async () => (await run.describe()).status === "running");
    await until(async () => (await run.why())[0]?.text.includes("step work"));
    expect(await run.why()).toMatchObject([
      { kind: "running", text: `It waits for step work. Worker ${worker.id} has the run.`, location: "work" },
    ]);
    release();
    await run.result();
    expect(await run.why()).toMatchObject([{ kind: "closed", text: "It has ended: completed.", since: expect.any(Date) }]);
  });

  test("B6 a blocked run says why", async () => {
    const engine = await engines.open();
    await engine.worker({
      workflows: [workflow("bad", async () => new Promise((done) => setTimeout(done, 1)) as Promise<void>)],
      determinism: "off",
    });
    const run = await engine.start("bad", undefined, { id: "b" });
    await until(async () => (await run.describe()).status === "blocked");
    const [reason] = await run.why();
    expect(reason).toMatchObject({ kind: "blocked", text: expect.stringContaining("Its code can't advance it:") });
    expect(reason?.advice).toContain("resume()");
    expect(reason?.since).toBeInstanceOf(Date);
  });

  test("B6 a run whose code diverges from its history says where", async () => {
    const engine = await engines.open();
    const before = workflow({ name: "changed", signals: { go: signal<unknown>() } }, async (ctx) => ctx.waitForSignal("go"));
    const after = workflow("changed", async (ctx) => ctx.sleep("1h"));
    const worker = await engine.worker({ workflows: [before] });
    const run = await engine.start(before, undefined, { id: "c" });
    await parked(engine, "c");
    await worker.stop();
    await engine.worker({ workflows: [after] });
    await run.signal("go");
    await until(async () => (await run.describe()).status === "blocked");
    expect(await run.why()).toMatchObject([{ kind: "blocked", location: "go", since: expect.any(Date) }]);
  });

  /** Undefined: this store has no queues. */
  const limited = async (engine: Holdfast, spec: QueueSpec): Promise<true | undefined> => {
    try {
      await engine.queues.set("q", spec);
      return true;
    } catch (error) {
      return void expect(error).toBeInstanceOf(UnsupportedError);
    }
  };
  const held = async (engine: Holdfast, options: { id: string; key?: string }): Promise<void> => {
    const run = await engine.start(works, undefined, { ...options, queue: "q" });
    await until(async () => (await run.why())[0]?.text.includes("step work"));
  };

  test("Q8 B6 a run in a paused queue says paused, and until when", async () => {
    const engine = await engines.open();
    if ((await limited(engine, {})) === undefined) return;
    await engine.worker({ workflows, queue: "q" });
    await engine.queues.pause("q");
    const run = await engine.start(sleeps, undefined, { id: "s", queue: "q", key: "k" });
    expect(await run.why()).toMatchObject([
      { kind: "paused", text: 'Queue "q" is paused.', advice: 'engine.queues.resume("q") ends the pause.', since: expect.any(Date) },
    ]);
    await engine.queues.pause("q", { key: "k", for: "1h" });
    expect((await run.why()).map(({ text }) => text)).toEqual([
      'Queue "q" is paused.',
      expect.stringMatching(/^Key "k" of queue "q" is paused until 20.*Z\.$/),
    ]);
  });

  test("Q8 B6 a run that begins later says the pause that holds it then, too", async () => {
    const engine = await engines.open();
    if ((await limited(engine, {})) === undefined) return;
    await engine.worker({ workflows, queue: "q" });
    await engine.queues.pause("q");
    const delayed = await engine.start(sleeps, undefined, { id: "s", queue: "q", delay: "1h" });
    const waiting = await engine.start(sleeps, undefined, { id: "t", queue: "q", after: "s" });
    const kinds = async (): Promise<string[][]> =>
      Promise.all([delayed, waiting].map(async (run) => (await run.why()).map(({ kind }) => kind)));
    expect(await kinds()).toEqual([
      ["delayed", "paused"],
      ["after", "paused"],
    ]);
    await engine.queues.resume("q");
    expect(await kinds()).toEqual([["delayed"], ["after"]]);
  });

  test("Q2 B6 a run that waits for a slot says which limit is full, and nothing of limits that have room", async () => {
    const engine = await engines.open();
    if ((await limited(engine, { concurrency: 2, perKey: { concurrency: 1, rate: { limit: 10, per: "1h" } } })) === undefined) return;
    await engine.worker({ workflows, queue: "q" });
    await held(engine, { id: "k1", key: "k" });
    const second = await engine.start(works, undefined, { id: "k2", key: "k", queue: "q" });
    const ofKey = 'Key "k" of queue "q" is full: 1 of 1 slots are held.';
    expect(await second.why()).toMatchObject([{ kind: "queue-full", text: ofKey, since: expect.any(Date) }]);
    const free = release;
    await held(engine, { id: "other" });
    expect((await second.why()).map(({ text }) => text)).toEqual(['Queue "q" is full: 2 of 2 slots are held.', ofKey]);
    for (const end of [free, release]) end();
    await until(async () => (await second.describe()).status === "running");
    release();
  });

  test("Q4 B6 a run that waits for a rate says which, and when it has room", async () => {
    const engine = await engines.open();
    if ((await limited(engine, { perKey: { rate: { limit: 1, per: "1h" } } })) === undefined) return;
    await engine.worker({ workflows, queue: "q" });
    const first = await engine.start(sleeps, undefined, { id: "first", key: "k", queue: "q" });
    await parked(engine, "first");
    const { startedAt } = await first.describe();
    const second = await engine.start(sleeps, undefined, { id: "second", key: "k", queue: "q" });
    const roomAt = new Date(Number(startedAt) + 3_600_000).toISOString();
    expect(await second.why()).toMatchObject([
      {
        kind: "rate",
        text: `Key "k" of queue "q" has used up its rate of 1 per 3600 s, and has room again at ${roomAt}.`,
      },
    ]);
  });

  test("B6 with all slots of all workers taken a run says so at once, and not that it is about to begin", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows, concurrency: 1 });
    const run = await engine.start(works, undefined, { id: "w" });
    await until(async () => (await run.why())[0]?.text.includes("step work"));
    const second = await engine.start(works, undefined, { id: "w2" });
    expect(await second.why()).toMatchObject([{ kind: "queue-full", text: "All slots of the workers that serve works are taken." }]);
    release();
    await run.result();
    await until(async () => (await second.describe()).status === "running");
    release();
  });

  test("B6 an activity says which worker carries it out, and that all slots are taken", async () => {
    const engine = await engines.open();
    let done = (): void => {};
    const render = activity("render", () => new Promise<void>((resolve) => (done = resolve)));
    const page = workflow("page", async (ctx) => ctx.activity(render));
    const worker = await engine.worker({ workflows: [page], activities: [render], activityConcurrency: 1 });
    const run = await engine.start(page, undefined, { id: "p1" });
    await until(async () => (await run.why())[0]?.text === `It waits for activity render. Worker ${worker.id} carries it out.`);
    const second = await engine.start(page, undefined, { id: "p2" });
    await parked(engine, "p2");
    const text = "It waits for activity render. All slots of the workers that serve render are taken.";
    expect(await second.why()).toMatchObject([{ kind: "queue-full", text, location: "render" }]);
    done();
    await run.result();
    await until(async () => (await second.why())[0]?.text.includes("carries it out"));
    done();
  });

  test("W6 B6 what a run waits for takes workers of other processes into account", async () => {
    const engine = await engines.open();
    const other = await engines.open();
    const run = await engine.start(waits, undefined, { id: "w", delay: "1h" });
    const words = async () => (await engine.run("w").describe()).waitingFor;
    expect(await words()).toEqual([expect.stringMatching(/^start at /), "no worker serves waits"]);
    const worker = await other.worker({ workflows: [waits] });
    expect(await words()).toEqual([expect.stringMatching(/^start at /)]);
    expect((await engine.list()).runs[0]?.waitingFor).toEqual(await words());
    await worker.stop();
    expect(await words()).toEqual([expect.stringMatching(/^start at /), "no worker serves waits"]);
    await run.terminate();
  });
});
