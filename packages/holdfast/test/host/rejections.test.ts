// Job: prove what a process hears of promises that reject before they are awaited.
// Owns: the processes that it starts.
// Invariants: X11.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { beforeAll, describe, expect, it } from "vitest";
import { build } from "../built.ts";

beforeAll(() => build(), 60_000);

async function run(whose: "workflow" | "closures" | "owner" | "careless" | "forgetful" | "step" | "waiter", url = "memory:") {
  const child = spawn(process.execPath, [join(import.meta.dirname, "floating.mjs"), whose, url], { stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { stdout, stderr, code };
}

it("X11 an operation that fails before it is awaited is delivered when it is, and nothing is said of it", async () => {
  expect(await run("workflow")).toEqual({ stdout: "StepFailedError", stderr: "", code: 0 });
});

it("X11 D8 closures that are asynchronous and must not be, and a policy that throws, end neither the process nor the run's attempts", async () => {
  expect(await run("closures")).toEqual({ stdout: "2 QueryFailedError", stderr: "", code: 0 });
});

describe.each(["memory", "sqlite"] as const)("on %s", (store) => {
  const url = () => (store === "memory" ? "memory:" : `file:${join(mkdtempSync(join(tmpdir(), "holdfast-floating-")), "runs.db")}`);

  it("X11 an error of workflow code itself is delivered when it is awaited, and nothing is said of it", async () => {
    expect(await run("careless", url())).toEqual({ stdout: "of its own", stderr: "", code: 0 });
  });

  it("X11 one that nobody ever awaits ends nothing, and the process is told of it", async () => {
    const { stdout, stderr, code } = await run("forgetful", url());
    expect([stdout, code]).toEqual(["forgotten", 0]);
    expect(stderr).toContain("[HF_FLOATING_PROMISE] FloatingPromiseWarning");
    expect(stderr).toMatch(/Error: of its own\n +at late \(.*floating\.mjs/);
    expect(stderr.match(/of its own/g)).toHaveLength(1);
  });

  it.each([
    ["step", "of a step"],
    ["waiter", "of who waits"],
  ] as const)("X11 promises of a %s end the process as ever", async (whose, message) => {
    const { stderr, code } = await run(whose, url());
    expect(code).toBe(1);
    expect(stderr).toContain(`Error: ${message}`);
  });
});

it("X11 promises that are none of a workflow's are warned of as ever", async () => {
  const { stdout, stderr, code } = await run("owner");
  expect([stdout, code]).toEqual(["mine", 0]);
  expect(stderr).toContain("PromiseRejectionHandledWarning");
});
