// The server that tests run on: real, shared, and gone afterwards.

import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { findProgram, needTemporalServer, startTemporalServer, type TemporalServer } from "../src/index.ts";
import { whyNotReady } from "../src/probe.ts";

// Only a server that TEMPORAL_ADDRESS names: it is not ours to end, and there is no program to start another.
const { program } = findProgram();
const owning = test.runIf(program !== undefined);

/** Temporal's own command line, with JSON as its answer. */
async function temporal(server: TemporalServer, ...args: string[]) {
  const { stdout } = await promisify(execFile)(program ?? "temporal", [...args, "--address", server.address, "--output", "json"]);
  return stdout.trim() === "" ? undefined : JSON.parse(stdout);
}
async function firstLine(stream: Readable): Promise<string> {
  let text = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    text += chunk;
    if (text.includes("\n")) break;
  }
  return text;
}
/** Resolves when the process is gone. */
async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

afterEach(() => void vi.unstubAllEnvs());

test("all who ask share a server that is ready, and none of them can end it", async () => {
  const [one, other] = await Promise.all([needTemporalServer(), needTemporalServer()]);
  expect(one.address).toBe(other.address);
  expect(one.url("a b")).toBe(`temporal://${one.address}/${one.namespace}?queue=a%20b`);
  await expect(one.kill9()).rejects.toThrow("own: true");
  await one.stop();
  expect(await whyNotReady(other.address, other.namespace)).toBeUndefined();
  expect(await whyNotReady(other.address, "another")).toContain("not found");
});

owning("a server with a file keeps its runs when it is killed, at the same address, and leaves nothing behind", async () => {
  // A folder for temporary files that no other test uses.
  const folder = mkdtempSync(join(tmpdir(), "holdfast-kept-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  vi.stubEnv("TMPDIR", folder);
  const server = await needTemporalServer({ file: true });
  expect(readdirSync(folder)).toEqual([expect.stringMatching(/^holdfast-temporal-/)]);
  const { runId } = await temporal(server, "workflow", "start", "--workflow-id", "kept", "--type", "any", "--task-queue", "none");
  await server.kill9();
  expect(await whyNotReady(server.address, server.namespace)).toContain("ECONNREFUSED");
  await server.restart();
  await temporal(server, "workflow", "signal", "--workflow-id", "kept", "--name", "hello");
  const { workflowExecutionInfo: info } = await temporal(server, "workflow", "describe", "--workflow-id", "kept");
  expect(info).toMatchObject({ execution: { runId }, status: "WORKFLOW_EXECUTION_STATUS_RUNNING", historyLength: "3" });
  await server.stop();
  await server.stop();
  expect(await whyNotReady(server.address, server.namespace)).toContain("ECONNREFUSED");
  expect(readdirSync(folder)).toEqual([]);
});

owning("a server has the search attributes and the settings that were asked for, and forgets its runs without a file", async () => {
  const server = await needTemporalServer({ searchAttributes: { Plan: "Keyword" }, settings: { "limit.maxIDLength": 50 } });
  try {
    expect(await temporal(server, "operator", "search-attribute", "list")).toMatchObject({
      customAttributes: { Plan: "INDEXED_VALUE_TYPE_KEYWORD" },
    });
    const start = ["workflow", "start", "--type", "any", "--task-queue", "none", "--workflow-id"];
    await expect(temporal(server, ...start, "x".repeat(51))).rejects.toThrow("length exceeds limit");
    await temporal(server, ...start, "forgotten");
    await server.restart();
    await expect(temporal(server, "workflow", "describe", "--workflow-id", "forgotten")).rejects.toThrow("not found");
  } finally {
    await server.stop();
  }
});

owning("a server that can't start says why, and leaves no process", async () => {
  await expect(startTemporalServer({ searchAttributes: { Plan: "Colour" } })).rejects.toThrow(/ended with 1. It said:\n.*Colour/s);
});

owning("a server goes with the process that started it, however that ends", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-held-"));
  const holder = fileURLToPath(new URL("./holder.mjs", import.meta.url));
  const args = ["server", "start-dev", "--headless", "--port", String(await freePort()), "--db-filename", join(folder, "temporal.db")];
  const child = spawn(process.execPath, [holder, program ?? "", ...args], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const { guard, program: server } = JSON.parse(await firstLine(child.stdout));
    child.kill("SIGKILL");
    await Promise.all([gone(server), gone(guard)]);
  } finally {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a server that TEMPORAL_ADDRESS names and that does not answer is missing, in one line", async () => {
  const address = `127.0.0.1:${await freePort()}`;
  vi.stubEnv("TEMPORAL_ADDRESS", address);
  const { missing } = await startTemporalServer();
  expect(missing).toMatch(new RegExp(`^TEMPORAL_ADDRESS is ${address}, .*ECONNREFUSED.*$`));
  await expect(needTemporalServer()).rejects.toThrow(missing);
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}
