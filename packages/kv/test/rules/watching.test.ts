// Job: prove what the determinism guard and the watchdog do for a run of this host.
// Owns: nothing.
// Invariants: V4 (a call that is not deterministic blocks the run under "error", and time does not unblock it), X9; without the options
// nothing is patched.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Loop, workflow } from "@holdfast/core";
import { type Logger, MemoryDriver, openWorkflow, runWorkflow } from "@holdfast/kv";
import { expect, test } from "vitest";
import { build } from "../built.ts";

const reads = workflow("reads", async (ctx) => {
  await ctx.step("first", () => Math.random());
  return Math.random() > 2 ? "never" : "read";
});
const { random } = Math;

function heard() {
  const warnings: string[] = [];
  const logger: Logger = { debug() {}, info() {}, warn: (message) => warnings.push(message), error() {} };
  return { warnings, logger };
}

test("determinism: warn names the workflow, the run, the line and what to use instead; steps may read what they like", async () => {
  const { warnings, logger } = heard();
  const result = await runWorkflow({ driver: new MemoryDriver(), workflow: reads, id: "r", logger, determinism: "warn" });
  expect(result).toEqual({ status: "completed", output: "read" });
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/Workflow "reads" \(run r, root\) calls Math\.random\(\) at .*watching\.test\.ts:\d+.*ctx\.random\(\)/);
  expect(Math.random).toBe(random);
});

test("V4 determinism: error blocks the run until other code comes: no alarm is set for it", async () => {
  const { logger } = heard();
  const driver = new MemoryDriver();
  const result = await runWorkflow({ driver, workflow: reads, id: "r", logger, determinism: "error" });
  expect(result).toMatchObject({ status: "blocked", error: { code: "HF_NONDETERMINISTIC_CALL" } });
  expect(result).not.toHaveProperty("wakeAt");
  expect(Math.random).toBe(random);
  const fixed = workflow("reads", async (ctx) => {
    await ctx.step("first", () => 1);
    return "fixed";
  });
  expect(await openWorkflow({ driver, workflow: fixed, id: "r", logger, determinism: "error" }).wake()).toEqual({
    status: "completed",
    output: "fixed",
  });
});

test("R9 with the guard on, code that changes a state in place fails with a TypeError", async () => {
  const { logger } = heard();
  const changes = workflow("changes", async (ctx) =>
    ctx.loop({ name: "count", state: { n: 0 } }, async (_ctx, state) => {
      state.n++;
      return Loop.break(state.n);
    }),
  );
  const run = (determinism: "off" | "warn") => runWorkflow({ driver: new MemoryDriver(), workflow: changes, id: "r", logger, determinism });
  expect(await run("off")).toEqual({ status: "completed", output: 1 });
  const result = await run("warn");
  expect(result.status).toBe("failed");
  expect(String((result as { error: Error }).error)).toContain("read only property");
});

test("bad values are refused before anything is written", async () => {
  const driver = new MemoryDriver();
  const options = { driver, workflow: reads, id: "r" };
  await expect(async () => runWorkflow({ ...options, determinism: "loud" as never })).rejects.toMatchObject({ code: "HF_INVALID_INPUT" });
  await expect(async () => runWorkflow({ ...options, watchdog: "soon" as never })).rejects.toMatchObject({ code: "HF_INVALID_INPUT" });
  expect(await driver.list(new Uint8Array())).toEqual([]);
});

test("X9 a turn that does not return is reported with its workflow, run and unit", async () => {
  build();
  const child = spawn(process.execPath, [join(import.meta.dirname, "../processes/stuck.mjs")], { stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  expect([stdout, code]).toEqual(["completed undefined", 0]);
  expect(stderr).toMatch(/Workflow "spins" \(run r1, unit root\) has blocked the thread for \d+\.\d s/);
}, 60_000);
