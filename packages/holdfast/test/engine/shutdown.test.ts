// Job: prove how a process with workers comes to its end, by signals and by stop().
// Owns: the processes that it starts.
// Invariants: W4.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Holdfast, workflow } from "holdfast";
import { afterEach, beforeAll, expect, it } from "vitest";
import { build } from "../built.ts";

beforeAll(() => build(), 60_000);

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

function run(mode: "one" | "two" | "hasty" | "activity", url: string[] = []) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "stopping.mjs"), mode, ...url], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    output += chunk;
  });
  const closed = once(child, "close") as Promise<[number | null, string | null]>;
  return {
    closed,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    finish: () => child.stdin.write("\n"),
    lines: () => output.trim().split("\n"),
    /** Until it has said so. */
    async said(line: string): Promise<void> {
      while (!output.split("\n").includes(line)) {
        if (child.exitCode !== null) throw new Error(`It ended with ${child.exitCode} and never said "${line}".`);
        await Promise.race([once(child.stdout, "data"), closed]);
      }
    },
  };
}

it("W4 SIGTERM lets the running step finish, then the process exits 0", async () => {
  const { said, kill, finish, closed, lines } = run("one");
  await said("begun");
  kill("SIGTERM");
  await said("SIGTERM");
  finish();
  expect(await closed).toEqual([0, null]);
  expect(lines()).toEqual(["begun", "SIGTERM", "ended"]);
});

it.each([
  ["SIGTERM", "SIGINT", 130],
  ["SIGINT", "SIGTERM", 143],
  ["SIGTERM", "SIGTERM", 143],
] as const)("W4 %s and then %s ends the process at once, with code %d", async (first, second, code) => {
  const { said, kill, closed, lines } = run("one");
  await said("begun");
  kill(first);
  await said(first);
  kill(second);
  expect(await closed).toEqual([code, null]);
  expect(lines()).not.toContain("ended");
});

it("W4 two engines of one process both finish before it exits", async () => {
  const { said, kill, finish, closed, lines } = run("two");
  await said("begun");
  kill("SIGTERM");
  await said("the idle one has stopped");
  finish();
  expect(await closed).toEqual([0, null]);
  expect(lines().at(-1)).toBe("ended");
});

it.each([
  ["one", "finishes its step and gives the run back", ["go on 1"]],
  ["hasty", "abandons its step after the grace period", ["work 2", "go on 1"]],
] as const)("W4 W3 a process that gets a signal to end (%s) %s: another has it at once", async (mode, _how, attempts) => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-shutdown-"));
  const url = `file:${join(folder, "x.db")}`;
  const { said, kill, finish, closed } = run(mode, [url]); // lease: 30 s
  await said("begun");
  kill("SIGTERM");
  await said("SIGTERM");
  if (mode === "one") finish();
  expect(await closed).toEqual([0, null]);

  const began: string[] = [];
  const work = workflow("work", async (ctx) => {
    await ctx.step("work", ({ attempt }) => void began.push(`work ${attempt}`));
    await ctx.step("go on", ({ attempt }) => void began.push(`go on ${attempt}`));
  });
  const engine = await Holdfast.open(url);
  await engine.worker({ workflows: [work] });
  await engine.run("run").result({ timeout: "10s" });
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
  expect(began).toEqual(attempts);
});

it("W4 a process lives until stop() is through, also if only an activity is in progress", async () => {
  const { closed, lines } = run("activity");
  expect(await closed).toEqual([0, null]);
  expect(lines()).toEqual(["stopped", "closed"]);
});

it("W4 a worker that has stopped listens to no signal any more: the process is its owner's again", async () => {
  const count = () => process.listenerCount("SIGTERM") + process.listenerCount("SIGINT");
  const before = count();
  const work = workflow("work", async () => 1);
  const engine = await Holdfast.open("memory:");
  const first = await engine.worker({ workflows: [work], stopOn: ["SIGTERM", "SIGINT"] });
  const second = await engine.worker({ workflows: [work], stopOn: ["SIGTERM"] });
  expect(count()).toBe(before + 2); // one a signal, however many workers
  await first.stop();
  expect(count()).toBe(before + 1);
  await second.stop();
  expect(count()).toBe(before);
  await engine.worker({ workflows: [work], stopOn: ["SIGTERM"] });
  await engine.close();
  expect(count()).toBe(before);
});
