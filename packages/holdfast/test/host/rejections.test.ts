// Job: prove what a process hears of promises that reject before they are awaited.
// Owns: the processes that it starts.
// Invariants: X11.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { beforeAll, expect, it } from "vitest";
import { build } from "../built.ts";

beforeAll(() => build(), 60_000);

async function run(whose: "workflow" | "closures" | "owner") {
  const child = spawn(process.execPath, [join(import.meta.dirname, "floating.mjs"), whose], { stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { stdout, stderr, code };
}

it("X11 an operation that fails before it is awaited is delivered when it is, and nothing is said of it", async () => {
  expect(await run("workflow")).toEqual({ stdout: "StepFailedError", stderr: "", code: 0 });
});

it("X11 D8 closures that are asynchronous and must not be, and a policy that throws, end neither the process nor the run's attempts", async () => {
  expect(await run("closures")).toEqual({ stdout: "2 QueryFailedError", stderr: "", code: 0 });
});

it("X11 promises that are none of a workflow's are warned of as ever", async () => {
  const { stdout, stderr, code } = await run("owner");
  expect([stdout, code]).toEqual(["mine", 0]);
  expect(stderr).toContain("PromiseRejectionHandledWarning");
});
