// Bulk actions: a run that does something to every run that matches.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { activity, type BulkResult, CanceledError, InvalidInputError, signal, workflow } from "holdfast";
import { testEngine } from "holdfast/testing";
import { describe, expect, test } from "vitest";
import { build, root } from "../built.ts";
import { enginesOn, STORES, until } from "./engines.ts";

const waits = workflow({ name: "waits", signals: { go: signal<unknown>() } }, async (ctx) => ctx.waitForSignal("go"));
const other = workflow("other", async (ctx) => ctx.sleep("1h"));
let isBroken = true;
const fails = workflow("fails", async () => {
  if (isBroken) throw new Error("no");
  return "fixed";
});
const workflows = [waits, other, fails];

describe.each(STORES)("on %s", (name) => {
  const engines = enginesOn(name);
  const many = (count: number) => Array.from({ length: count }, (_, i) => ({ id: `w${i}` }));

  test("B3 signals every run that matches and is older, once, with its progress in state()", async () => {
    const engine = await engines.open();
    await engine.startMany(waits, many(1_200));
    await engine.start(other, undefined, { id: "other" });
    const bulk = await engine.bulk({ workflow: "waits" }, { do: "signal", name: "go", payload: { by: "bulk" } });
    await engine.start(waits, undefined, { id: "newer" });
    expect(await bulk.describe()).toMatchObject({ workflow: "holdfast.bulk", queue: "holdfast", status: "pending" });
    expect(await bulk.state<BulkResult>()).toEqual({ matched: 0, done: 0, succeeded: 0, failed: 0, failures: [] });
    await engine.worker({ workflows, queue: "another" }); // any worker carries it out
    const all = { matched: 1_200, done: 1_200, succeeded: 1_200, failed: 0, failures: [] };
    expect(await bulk.result()).toEqual(all);
    expect(await bulk.state<BulkResult>()).toEqual(all);
    expect((await bulk.describe()).historyLength).toBeLessThan(20);
    await engine.worker({ workflows });
    expect(await engine.run("w0").result()).toEqual({ by: "bulk" });
    await until(async () => (await engine.count({ workflow: "waits" })).completed === 1_200);
    await until(async () => (await engine.run("newer").describe()).status === "sleeping");
  }, 60_000);

  test("B3 terminates, cancels, resumes and deletes; what can't be done is counted, and the first failures are listed", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows });
    isBroken = true;
    await engine.startMany(fails, [{ id: "f0" }, { id: "f1" }]);
    await engine.startMany(waits, many(3));
    await until(async () => (await engine.count({ workflow: "fails" })).failed === 2);
    await until(async () => (await engine.count({ workflow: "waits" })).sleeping === 3);
    isBroken = false;
    const resumed = await (await engine.bulk({ workflow: ["fails", "waits"] }, { do: "resume" })).result();
    expect(resumed).toMatchObject({ matched: 5, succeeded: 5 });
    expect(await engine.run("f0").result()).toBe("fixed");
    expect(await engine.run("f1").result()).toBe("fixed");
    const ended = await (await engine.bulk({ idPrefix: "f" }, { do: "terminate", reason: "cleanup" })).result();
    expect(ended).toMatchObject({ matched: 2, done: 2, succeeded: 0, failed: 2 });
    expect(ended.failures[0]).toEqual({ id: expect.stringMatching(/^f[01]$/), code: "HF_RUN_CLOSED", message: expect.any(String) });
    expect(await (await engine.bulk({ workflow: "waits" }, { do: "delete" })).result()).toMatchObject({ failed: 3 });
    expect(await (await engine.bulk({ workflow: "waits", status: "sleeping" }, { do: "cancel" })).result()).toMatchObject({ succeeded: 3 });
    await until(async () => (await engine.count({ workflow: "waits" })).canceled === 3);
    expect(await (await engine.bulk({ workflow: "waits" }, { do: "delete" })).result()).toMatchObject({ matched: 3, succeeded: 3 });
    expect((await engine.list({ workflow: "waits" })).runs).toEqual([]);
    expect(await (await engine.bulk({ workflow: "none" }, { do: "cancel" })).result()).toMatchObject({ matched: 0, done: 0 });
  });

  test("B3 takes runs that were started in the same millisecond, never itself, and none that are started afterwards", async () => {
    const engine = await engines.open();
    const bulks = [];
    for (let i = 0; i < 20; i++) {
      await engine.start(other, undefined, { id: `old${i}`, attributes: { n: i } });
      bulks.push(await engine.bulk({ attributes: { n: i } }, { do: "terminate" }));
      await engine.start(other, undefined, { id: `new${i}`, attributes: { n: i } });
    }
    const last = await engine.bulk({ workflow: "holdfast.bulk", status: ["pending", "running"] }, { do: "resume" });
    await engine.worker({ workflows: [waits] });
    for (const bulk of bulks) expect(await bulk.result()).toMatchObject({ matched: 1, succeeded: 1 });
    expect((await last.result()).failures).not.toContainEqual(expect.objectContaining({ id: last.id }));
    const { runs } = await engine.list({ workflow: "other", status: "terminated" });
    expect(runs.map(({ id }) => id.slice(0, 3))).toEqual(Array.from({ length: 20 }, () => "old"));
  });

  test("B3 B6 a worker that has only activities claims no runs, and a bulk action says that none serves it", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [], activities: [activity("mail", async () => "sent")] });
    const bulk = await engine.bulk({ workflow: "none" }, { do: "cancel" });
    expect((await bulk.why()).map(({ kind }) => kind)).toEqual(["no-worker"]);
    await engine.worker({ workflows: [other] });
    expect(await bulk.result()).toMatchObject({ matched: 0 });
  });

  test("B3 Q8 a pause of the queue of bulk actions holds them, and nothing else", async () => {
    const engine = await engines.open();
    await engine.queues.set("holdfast", { concurrency: 1 });
    await engine.queues.pause("holdfast");
    await engine.start(waits, undefined, { id: "w" });
    await engine.worker({ workflows });
    const bulk = await engine.bulk({ workflow: "waits" }, { do: "signal", name: "go", payload: "bulk" });
    await until(async () => (await engine.run("w").describe()).status === "sleeping");
    expect(await bulk.why()).toMatchObject([{ kind: "paused" }]);
    await engine.queues.resume("holdfast");
    expect(await bulk.result()).toMatchObject({ succeeded: 1 });
    expect(await engine.run("w").result()).toBe("bulk");
  });

  test("B3 no other workflow is served or started under a name that begins as those of built-in workflows do", async () => {
    const engine = await engines.open();
    const own = workflow("holdfast.mine", async () => {});
    const calls: readonly (() => Promise<unknown>)[] = [
      () => engine.start("holdfast.bulk", { selection: {} }),
      () => engine.start(own, undefined),
      () => engine.startMany(own, [{ input: undefined }]),
      () => engine.schedules.set("s", { workflow: own, every: "1h" }),
      () => engine.worker({ workflows: [other, own] }),
    ];
    for (const call of calls) {
      const error = await call().catch((reason: unknown) => reason);
      expect(error, String(call)).toBeInstanceOf(InvalidInputError);
      expect((error as InvalidInputError).issues, String(call)).toMatchObject([{ path: ["workflow"] }]);
    }
    expect([(await engine.list()).runs, await engine.workers()]).toEqual([[], []]);
    const parent = workflow("parent", async (ctx) => ctx.child(own, undefined));
    await engine.worker({ workflows: [parent] });
    await expect((await engine.start(parent, undefined)).result()).rejects.toThrow(/built-in workflows/);
  });

  test("B3 can be cancelled", async () => {
    const engine = await engines.open();
    await engine.startMany(waits, many(10));
    const bulk = await engine.bulk({ workflow: "waits" }, { do: "terminate" });
    await bulk.cancel();
    await engine.worker({ workflows: [other] });
    await expect(bulk.result()).rejects.toThrow(CanceledError);
    expect((await engine.count({ workflow: "waits" })).terminated).toBe(0);
  });

  test("B3 an empty filter, an unknown action and options of lists are refused, and nothing is written", async () => {
    const engine = await engines.open();
    const refused = async (filter: unknown, action: unknown, path: string): Promise<void> => {
      const error = await engine.bulk(filter as { workflow: string }, action as { do: "cancel" }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(InvalidInputError);
      expect((error as InvalidInputError).issues).toMatchObject([{ path: [path] }]);
    };
    await refused({}, { do: "cancel" }, "filter");
    await refused({ attributes: {} }, { do: "cancel" }, "filter");
    await refused({ workflow: undefined }, { do: "cancel" }, "filter");
    await refused({ workflow: "waits", limit: 10 }, { do: "cancel" }, "limit");
    await refused({ workflow: "waits", cursor: "x" }, { do: "cancel" }, "cursor");
    await refused({ status: "gone" }, { do: "cancel" }, "status");
    await refused({ workflow: "waits" }, { do: "explode" }, "do");
    await refused({ workflow: "waits" }, { do: "signal" }, "name");
    await refused({ workflow: "waits" }, { do: "cancel", name: "x" }, "name");
    await refused({ workflow: "waits" }, { do: "cancel", reason: 7 }, "reason");
    expect((await engine.list()).runs).toEqual([]);
  });
});

test("B3 in a test engine, whose clock stands still", async () => {
  const engine = await testEngine({ workflows });
  await engine.startMany(waits, [{ id: "w0" }, { id: "w1" }]);
  const bulk = await engine.bulk({ status: ["pending", "running", "sleeping"] }, { do: "terminate" });
  expect(await bulk.result()).toMatchObject({ matched: 2, succeeded: 2 });
  await engine.close();
});

test("B3 a process that does nothing else stays alive until the action is started", () => {
  build();
  const program = `import { Holdfast } from "holdfast";
    const engine = await Holdfast.open("memory:");
    await engine.bulk({ workflow: "none" }, { do: "cancel" });
    await engine.close();
    console.log("started");`;
  const options = { cwd: join(root, "packages/holdfast"), encoding: "utf8" } as const;
  const { stdout, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], options);
  expect({ stdout, status }).toEqual({ stdout: "started\n", status: 0 });
}, 60_000);
