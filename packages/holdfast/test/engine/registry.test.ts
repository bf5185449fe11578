// Workers in processes that are really killed: how long they are listed, and what a run says meanwhile.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { type BulkResult, signal, workflow } from "holdfast";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { build } from "../built.ts";
import { enginesOn, until } from "./engines.ts";

beforeAll(() => build(), 120_000);

/** A process with a worker. */
async function workerAt(url: string, lease: string) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "registered.mjs"), url, lease], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    output += chunk;
  });
  await until(() => output.includes("ready"), "the worker");
  return { pid: child.pid, kill: () => child.kill("SIGKILL"), said: (line: string) => until(() => output.includes(line), line) };
}

describe.each(["sqlite", "postgres"] as const)("on %s", (name) => {
  const engines = enginesOn(name);

  test("B6 a worker that is killed is listed for two leases at most, and its run says what happens to it", async () => {
    const engine = await engines.open();
    const worker = await workerAt(engines.url ?? "", "2s");
    const [info] = await engine.workers();
    expect(info).toMatchObject({ pid: worker.pid, queue: "default" });
    const run = await engine.start("works", undefined, { id: "w" });
    await worker.said("begun");
    await until(async () => (await run.why())[0]?.text.startsWith("It waits for step work."));
    await until(async () => (await engine.workers())[0]?.active === 1, "a beat that says that it is busy");
    worker.kill();
    const killed = Date.now();
    let listedAt = killed;
    await until(async () => {
      const asked = Date.now();
      if ((await engine.workers()).length === 0) return true;
      listedAt = asked;
      return false;
    }, "the end of the worker");
    expect(listedAt - killed).toBeLessThan(2 * 2_000 + 1_000);
    const reasons = await run.why();
    expect(reasons.map(({ kind }) => kind)).toEqual(["no-worker"]); // its lease is over, too
  }, 60_000);

  test("B3 a worker that is killed in the middle of a bulk action: another goes on, and every run is acted on once", async () => {
    const engine = await engines.open();
    const counts = workflow({ name: "counts", signals: { go: signal<number>() } }, async (ctx) => {
      return (await ctx.listen(["go"], { count: 10 })).length;
    });
    const COUNT = 3_000;
    await engine.startMany(
      counts,
      Array.from({ length: COUNT }, (_, i) => ({ id: `r${i}` })),
    );
    const bulk = await engine.bulk({ workflow: "counts" }, { do: "signal", name: "go", payload: 1 });
    const first = await workerAt(engines.url ?? "", "2s");
    await until(async () => ((await bulk.state<BulkResult>())?.done ?? 0) > 0, "the first page");
    first.kill();
    const reached = (await bulk.state<BulkResult>())?.done ?? 0;
    await workerAt(engines.url ?? "", "2s");
    expect(await bulk.result({ timeout: "1m" })).toEqual({ matched: COUNT, done: COUNT, succeeded: COUNT, failed: 0, failures: [] });
    expect(reached).toBeGreaterThan(0);
    await engine.worker({ workflows: [counts] });
    await until(async () => (await engine.count({ workflow: "counts" })).completed === COUNT, "all runs");
    let cursor: string | undefined;
    do {
      const page = await engine.list({ workflow: "counts", limit: 1_000, ...(cursor !== undefined && { cursor }) });
      expect(page.runs.filter(({ output }) => output !== 1)).toEqual([]);
      cursor = page.cursor;
    } while (cursor !== undefined);
  }, 120_000);
});
