// Job: prove that a turn that does not return is logged while it runs.
// Owns: the processes that it starts.
// Invariants: X9.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, expect, it } from "vitest";
import { build } from "../built.ts";

beforeAll(() => build(), 60_000);

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

/** A process whose workflow keeps the thread for that long, and until the file exists. */
function stuck(ms: number, ...release: string[]) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "stuck.mjs"), String(ms), ...release], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk) => (output.stdout += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk) => (output.stderr += chunk));
  return { child, output };
}

it("X9 a turn that does not return is reported with its workflow, run and unit", async () => {
  const { child, output } = stuck(600_000);

  while (!output.stderr.includes("\n")) await once(child.stderr, "data");

  expect(output.stderr).toMatch(
    /Workflow "spins" \(run r1, unit spin\) has blocked the thread for \d+\.\d s .*an endless loop in workflow code\?/,
  );
  expect(output.stderr).toContain(`process ${child.pid}`);
  expect(child.exitCode).toBe(null);
});

it("X9 a turn that returns late is reported once, and blocked; the watchdog does not keep the process alive", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-watchdog-"));
  const release = join(folder, "release");
  const { child, output } = stuck(700, release);
  const closed = once(child, "close");

  while (!output.stderr.includes("unit spin)")) await once(child.stderr, "data");
  writeFileSync(release, "");
  const [code] = await closed;
  rmSync(folder, { recursive: true });

  expect(output.stderr.match(/unit spin\) has blocked the thread/g)).toHaveLength(1);
  expect(output.stdout.trim()).toBe("TurnTimeoutError");
  expect(code).toBe(0);
});

it("X9 turns that return in time are not reported", async () => {
  const { child, output } = stuck(0);

  const [code] = await once(child, "close");

  expect([code, output.stderr]).toEqual([0, ""]);
});

it("X9 a process that is frozen in the middle of a turn: neither the turn nor the watchdog blames the workflow", async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, "frozen.mjs")], { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk) => (output.stdout += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk) => (output.stderr += chunk));
  const closed = once(child, "close");
  while (!output.stdout.includes("turn")) await once(child.stdout, "data");

  await new Promise((resolve) => setTimeout(resolve, 7_000)); // longer than the turn timeout, and than the watchdog waits
  child.kill("SIGCONT");
  await closed;

  expect(output).toEqual({ stdout: "turn\ncompleted", stderr: "" });
}, 30_000);
