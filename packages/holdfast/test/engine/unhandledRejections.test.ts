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

type Act = "workflow" | "closures" | "owner" | "listener" | "thread" | "careless" | "forgetful" | "step" | "waiter";

async function run(whose: Act, url = "memory:", ...flags: string[]) {
  return execute([...flags, join(import.meta.dirname, "floating.mjs"), whose, url]);
}
async function execute(args: readonly string[]) {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], env });
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

  it("X11 one that no code ever awaits ends nothing, and the process is notified", async () => {
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

const HEARD = "StepFailedError, of its own, forgotten, mine";

it.each(["throw", "strict", "none", "warn-with-error-code"])(
  "X11 a listener of unhandledRejection hears of none of a workflow's, and of its own (--unhandled-rejections=%s)",
  async (mode) => {
    const { stdout, code } = await run("listener", "memory:", `--unhandled-rejections=${mode}`);
    expect([stdout, code]).toEqual([HEARD, 0]);
  },
);

it("X11 nor does one in a worker thread", async () => {
  const { stdout, code } = await run("thread");
  expect([stdout, code]).toEqual([HEARD, 0]);
});

it("X11 tests of node:test pass whose workflows reject before they await, and one that rejects by itself fails", async () => {
  const { stdout } = await execute(["--test", "--test-reporter=tap", join(import.meta.dirname, "floating.mjs")]);
  const results = [...stdout.matchAll(/^\s*((?:not )?ok) \d+ - (\w+)$/gm)].map(([, ok, name]) => `${ok} ${name}`);
  expect(results).toEqual(["ok workflow", "ok careless", "ok closures", "not ok owner", "ok close"]);
});
