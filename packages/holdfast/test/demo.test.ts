// Job: prove that `npm run demo` shows what it promises, as a process of its own.
// Owns: the processes and folders that it makes.
// Invariants: it ends by itself, says so with its exit code, leaves nothing behind; W3 (a dead worker's run resumes elsewhere).

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, it, type TestContext } from "vitest";
import { build, root } from "./built.ts";

beforeAll(() => build("examples"), 60_000);

async function demo({ onTestFinished }: TestContext, environment: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-demo-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const { FORCE_COLOR: _, NO_COLOR: _no, ...inherited } = process.env;
  const child = spawn(process.execPath, ["examples/order/demo.mjs"], {
    cwd: root,
    env: { ...inherited, TMPDIR: folder, TEMP: folder, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk) => (output.stdout += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk) => (output.stderr += chunk));
  const [code] = await once(child, "close"); // once its workers, which have its stderr, are gone too
  return { code, ...output, left: readdirSync(folder) };
}

describe.concurrent("npm run demo", () => {
  it("W3 kills its worker in the middle of a step, resumes in another, and prints what ran where", { timeout: 60_000 }, async (context) => {
    const { expect } = context;
    const { code, stdout, stderr, left } = await demo(context, {});

    expect({ code, stderr, left }).toEqual({ code: 0, stderr: "", left: [] });
    expect(stdout).not.toContain("\x1b");
    const [, killed] = /✗ worker (\d+) was killed/.exec(stdout) ?? [];
    const [, resumed] = /worker (\d+) │ ship lamp +attempt 2 +ok/.exec(stdout) ?? [];
    expect(resumed).toBeDefined();
    expect(resumed).not.toBe(killed);
    expect(stdout).toMatch(/Timeline of order A-1: completed after [\d.]+s/);
    expect(stdout).toMatch(new RegExp(`root +step charge +completed +3: failed, failed, completed +${killed}\n`));
    expect(stdout).toMatch(new RegExp(`ship/books +step parcel +completed +1 +${killed}\n`));
    expect(stdout).toMatch(new RegExp(`ship/lamp +step parcel +completed +2: lost, completed +${killed}, then ${resumed}\n`));
    expect(stdout).toMatch(/Timeline of order A-2: failed after [\d.]+s/);
    expect([...stdout.matchAll(/~rollback +(undo \S+) +completed/g)].map(([, undone]) => undone)).toEqual([
      "undo ship/books/parcel",
      "undo charge",
      "undo reserve",
    ]);
  });

  it("is colourful where it is asked to be", { timeout: 60_000 }, async (context) => {
    const { expect } = context;
    const { code, stdout } = await demo(context, { FORCE_COLOR: "1" });

    expect(code).toBe(0);
    expect(stdout).toContain("\x1b[31m✗ worker ");
  });
});
