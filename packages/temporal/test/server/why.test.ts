// Why a run does not advance, on a real server.

import { activity, type Reason, type Run, RunNotFoundError, signal, workflow } from "holdfast";
import { expect, test } from "vitest";
import { engines, LONG } from "./engines.ts";

const { open } = engines();

/** The reasons, once the first is of this kind and at this location: the server decides when it has come so far. */
async function whyOf(run: Pick<Run<unknown>, "why">, kind: Reason["kind"], location?: string): Promise<readonly Reason[]> {
  let reasons: readonly Reason[] = [];
  for (const end = Date.now() + LONG - 20_000; Date.now() < end; ) {
    reasons = await run.why();
    if (reasons[0]?.kind === kind && (location === undefined || reasons[0].location === location)) return reasons;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`Expected ${kind}, found ${JSON.stringify(reasons)}.`);
}

test("B6 a run that no worker can take up says no-worker alone, a later one delayed, an ended one closed", { timeout: LONG }, async () => {
  const engine = await open();
  const quick = workflow("quick", async () => 1);
  const run = await engine.start(quick, undefined);
  const [missing, ...others] = await whyOf(run, "no-worker");
  expect(others).toEqual([]);
  expect(missing).toMatchObject({ text: 'No worker asks for tasks of queue "default".', since: expect.any(Date), location: undefined });
  const later = await engine.start(quick, undefined, { delay: "1h" });
  expect((await later.why()).map(({ kind }) => kind)).toEqual(["delayed", "no-worker"]);
  await engine.worker({ workflows: [quick] });
  await run.result();
  expect(await run.why()).toMatchObject([{ kind: "closed", text: "It has ended: completed." }]);
  await expect(engine.run("unknown").why()).rejects.toBeInstanceOf(RunNotFoundError);
  await later.terminate();
});

test("B6 timers, signals, children, activities, steps and retries are distinguished", { timeout: LONG }, async () => {
  const engine = await open();
  const charge = activity("charge", async () => 1);
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const sleeps = workflow("sleeps", async (ctx) => ctx.sleep("1h"));
  const all = {
    sleeps,
    waits: workflow({ name: "waits", signals: { go: signal<number>() } }, async (ctx) => ctx.waitForSignal("go")),
    parent: workflow("parent", async (ctx) => ctx.child(sleeps, undefined, { id: `${ctx.run.id}-child` })),
    pays: workflow("pays", async (ctx) => ctx.activity(charge, undefined, { queue: "nobody-there" })),
    works: workflow("works", async (ctx) => ctx.step("work", () => held)),
    retries: workflow("retries", async (ctx) =>
      ctx.step(
        "work",
        () => {
          throw new Error("no funds");
        },
        { retry: { maxAttempts: 10, initialInterval: "1h" } },
      ),
    ),
  };
  await engine.worker({ workflows: Object.values(all) });
  const expected = {
    sleeps: { kind: "timer", location: "sleep" },
    waits: { kind: "signal" },
    parent: { kind: "child", advice: expect.stringContaining("-child") },
    pays: { kind: "no-activity-worker", text: expect.stringContaining("nobody-there"), location: "charge" },
    works: { kind: "running", location: "work" },
    retries: { kind: "retrying", text: expect.stringContaining("no funds"), location: "work" },
  } as const;
  for (const [name, reason] of Object.entries(expected)) {
    const run = await engine.start(name, undefined);
    const reasons = await whyOf(run, reason.kind, "location" in reason ? reason.location : undefined);
    expect(reasons, name).toHaveLength(1);
    expect(reasons[0], name).toMatchObject(reason);
    await run.terminate();
  }
  release();
});

test("B6 blocked code says why", { timeout: LONG }, async () => {
  const engine = await open();
  await engine.worker({ workflows: [workflow("known", async () => 1)] });
  const run = await engine.start("unknown-workflow", undefined);
  const [reason] = await whyOf(run, "blocked");
  expect(reason).toMatchObject({ text: expect.stringContaining("unknown-workflow"), advice: expect.stringContaining("10 minutes") });
  await run.terminate();
});
