// Job: prove that the failure of an operation that no code awaits is logged.
// Owns: nothing.
// Invariants: X11 P3.

import { FatalError, workflow } from "@holdfast/core";
import { type Logger, MemoryDriver, runWorkflow } from "@holdfast/kv";
import { expect, test } from "vitest";

const unheard = workflow("unheard", async (ctx, way: string) => {
  if (way !== "awaited") void ctx.step("fails", () => Promise.reject(new FatalError("no")));
  else await ctx.step("fails", () => Promise.reject(new FatalError("no"))).catch(() => {});
  if (way === "sleeps") await ctx.sleep(5);
  else await ctx.step("works", () => new Promise((resolve) => setTimeout(resolve, 5)));
  return "done";
});

test.each([
  ["sleeps", 1],
  ["steps", 1],
  ["awaited", 0],
])("X11 P3 a step that fails is in the log if its promise is never awaited (%s)", async (way, times) => {
  const warnings: string[] = [];
  const logger: Logger = { debug() {}, info() {}, warn: (message) => warnings.push(message), error() {} };
  const handle = runWorkflow({ driver: new MemoryDriver(), workflow: unheard, id: "r", input: way, mode: "live", logger });
  expect(await handle.result()).toEqual({ status: "completed", output: "done" });
  expect(warnings.filter((message) => message.includes("that no code awaits"))).toHaveLength(times);
});
