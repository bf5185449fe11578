// A line between a process and its server: it carries every call, until it dies in place of the process.

import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";
import { findProgram, Line, needTemporalServer } from "../src/index.ts";
import { whyNotReady } from "../src/probe.ts";

const { program } = findProgram();
const lines: Line[] = [];
afterEach(async () => {
  for (const line of lines.splice(0)) await line.close();
});

async function newLine(): Promise<{ line: Line; direct: string }> {
  const { address: direct } = await needTemporalServer();
  const line = await Line.to(direct);
  lines.push(line);
  return { line, direct };
}
async function temporal(address: string, ...args: string[]) {
  const { stdout } = await promisify(execFile)(program ?? "temporal", [...args, "--address", address, "--output", "json"]);
  return stdout.trim() === "" ? undefined : JSON.parse(stdout);
}
const start = (address: string, id: string) =>
  temporal(address, "workflow", "start", "--type", "any", "--task-queue", "none", "--workflow-id", id);
const describe = (address: string, id: string) => temporal(address, "workflow", "describe", "--workflow-id", id);

test.runIf(program !== undefined)("answers and errors come through; a line that was cut carries nothing", async () => {
  const { line, direct } = await newLine();
  expect(await whyNotReady(line.address, "default")).toBeUndefined();
  const id = randomUUID();
  const { runId } = await start(line.address, id);
  await expect.poll(() => line.progress).toBe(1);
  const { workflowExecutionInfo: info } = await describe(line.address, id);
  expect(info.execution).toEqual({ workflowId: id, runId });
  await expect(describe(line.address, randomUUID())).rejects.toThrow("workflow not found");
  await expect.poll(() => [line.calls, line.polls, line.progress]).toEqual([0, 0, 1]);
  line.cut();
  await expect(line.death).rejects.toThrow("The process has died.");
  expect(await whyNotReady(line.address, "default")).toBeTypeOf("string");
  expect(await whyNotReady(direct, "default")).toBeUndefined();
});

test.runIf(program !== undefined)("it is cut before or after a write: the server has it or not, and its caller never hears", async () => {
  for (const when of ["before", "after"] as const) {
    const { line, direct } = await newLine();
    const id = randomUUID();
    const doom = line.cutAt(2, when);
    await start(line.address, randomUUID());
    expect(doom.struck).toBe(false);
    const caller = new AbortController();
    const second = promisify(execFile)(
      program ?? "temporal",
      ["workflow", "start", "--type", "any", "--task-queue", "none", "--workflow-id", id, "--address", line.address],
      { signal: caller.signal },
    ).then(
      () => "answered",
      () => "failed",
    );
    await expect.poll(() => doom.struck).toBe(true);
    const stored = await describe(direct, id).then(
      () => true,
      () => false,
    );
    expect(stored).toBe(when === "after");
    caller.abort();
    expect(await second).toBe("failed");
  }
});
