// Job: prove what a process hears of promises that reject before they are awaited.
// Owns: the processes that it starts.
// Invariants: X11.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { workflow } from "@holdfast/core";
import { MemoryDriver, runWorkflow } from "@holdfast/kv";
import { beforeAll, expect, test } from "vitest";
import { build } from "./built.ts";

beforeAll(() => build(), 60_000);

const script = join(import.meta.dirname, "processes/floating.mjs");
async function run(...args: string[]) {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], env });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { stdout, stderr, code };
}

test("X11 an operation that fails before it is awaited is delivered when it is, and nothing is said of it", async () => {
  expect(await run(script, "workflow")).toEqual({ stdout: "StepFailedError", stderr: "", code: 0 });
});

test("X11 an error of workflow code itself ends no process: it is delivered when awaited, or reported as a warning", async () => {
  expect(await run(script, "careless")).toEqual({ stdout: "of its own", stderr: "", code: 0 });
  const { stdout, stderr, code } = await run(script, "forgetful");
  expect([stdout, code]).toEqual(["forgotten", 0]);
  expect(stderr).toMatch(/HF_FLOATING_PROMISE.*of its own/s);
});

test("X11 a listener of the process hears of its own rejections, and of none of workflows", async () => {
  const { stdout, code } = await run(script, "listener");
  expect([stdout, code]).toEqual(["StepFailedError, of its own, forgotten, mine", 0]);
});

test("X11 node:test, which listens too, fails no test for one", async () => {
  const { stdout, code } = await run("--test", script);
  expect([code, stdout]).toEqual([0, expect.stringMatching(/pass [1-9]/)]);
});

test("X11 what a step or a caller leaves floating does what it always has: the process ends", async () => {
  for (const [whose, message] of [
    ["step", "of a step"],
    ["waiter", "of who waits"],
  ] as const) {
    const { stderr, code } = await run(script, whose);
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
  }
});

test("X11 promises that are none of a workflow's are warned of as ever", async () => {
  const { stdout, stderr, code } = await run(script, "owner");
  expect([stdout, code]).toEqual(["mine", 0]);
  expect(stderr).toContain("PromiseRejectionHandledWarning");
});

test("X11 the process is left as it was once the last live run has gone", async () => {
  const w = workflow("w", async (ctx) => ctx.waitForSignal("never"));
  const start = () => runWorkflow({ driver: new MemoryDriver(), workflow: w, id: "r", mode: "live" });
  const state = () => [process.listenerCount("unhandledRejection"), process.listenerCount("rejectionHandled"), process.emit];
  const before = state();
  const first = start();
  const second = start();
  await Promise.all([first.describe(), second.describe()]);
  expect(state().slice(0, 2)).toEqual(before.slice(0, 2));
  await Promise.all([first.evict(), second.evict()]);
  await expect.poll(state).toEqual(before);
});
