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

async function run(whose: "workflow" | "owner") {
  const child = spawn(process.execPath, [join(import.meta.dirname, "processes/floating.mjs"), whose], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { stdout, stderr, code };
}

test("X11 an operation that fails before it is awaited is delivered when it is, and nothing is said of it", async () => {
  expect(await run("workflow")).toEqual({ stdout: "StepFailedError", stderr: "", code: 0 });
});

test("X11 promises that are none of a workflow's are warned of as ever", async () => {
  const { stdout, stderr, code } = await run("owner");
  expect([stdout, code]).toEqual(["mine", 0]);
  expect(stderr).toContain("PromiseRejectionHandledWarning");
});

test("X11 listeners come with the first live run, though somebody has removed them, and go after the last", async () => {
  const w = workflow("w", async (ctx) => ctx.waitForSignal("never"));
  const start = () => runWorkflow({ driver: new MemoryDriver(), workflow: w, id: "r", mode: "live" });
  const counts = () => [process.listenerCount("unhandledRejection"), process.listenerCount("rejectionHandled")];
  const others = process.listeners("unhandledRejection");
  const before = counts();
  const first = start();
  await first.describe();
  const during = counts();
  for (const listener of process.listeners("unhandledRejection"))
    if (!others.includes(listener)) process.off("unhandledRejection", listener);
  const second = start();
  await second.describe();
  expect(counts()).toEqual(during);
  expect(during).toEqual(before.map((count) => count + 1));
  await Promise.all([first.evict(), second.evict()]);
  await expect.poll(counts).toEqual(before);
});
