// The server that tests run on: real, shared, and gone afterwards.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { ask, canOwnServers, startServer } from "../src/index.ts";

/** The one value that it answers with. */
async function answerOf(url: string, sql: string): Promise<unknown> {
  const [row = {}] = await ask(url, sql);
  return Object.values(row)[0];
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

test("a new database has nothing in it, and goes with its handle", async () => {
  const server = await startServer();
  const [one, other] = await Promise.all([server.createDatabase(), server.createDatabase()]);
  await ask(one, "CREATE TABLE t (x int)");
  expect(await answerOf(other, "SELECT to_regclass('t')")).toBeNull();
  await server.stop();
  await expect(ask(one, "SELECT 1")).rejects.toThrow("does not exist");
});

test("all who ask share a server, and none of them can end it", async () => {
  const [one, other] = await Promise.all([startServer(), startServer()]);
  expect(one.url()).toBe(other.url());
  await expect(one.kill()).rejects.toThrow("own: true");
  await one.stop();
  expect(await answerOf(other.url(), "SELECT 1")).toBe(1);
});

test.runIf(canOwnServers)("a server of one's own keeps what was committed when it is killed, and leaves nothing behind", async () => {
  const server = await startServer({ own: true });
  const url = await server.createDatabase();
  await ask(url, "CREATE TABLE t (x int)");
  await ask(url, "INSERT INTO t SELECT generate_series(1, 1000)");
  const folder = String(await answerOf(url, "SELECT current_setting('data_directory')"));
  await server.kill();
  await expect(ask(url, "SELECT 1")).rejects.toThrow("ECONNREFUSED");
  await server.restart();
  expect(Number(await answerOf(url, "SELECT count(*) FROM t"))).toBe(1000);
  await server.stop();
  await server.stop();
  expect(existsSync(folder)).toBe(false);
});

test.runIf(canOwnServers)("a server goes with the process that started it, however that ends", async () => {
  const child = spawn(process.execPath, [fileURLToPath(new URL("./holder.mjs", import.meta.url))], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  try {
    const { url, supervisor } = JSON.parse(await firstLine(child.stdout));
    const folder = String(await answerOf(url, "SELECT current_setting('data_directory')"));
    child.kill("SIGKILL");
    await gone(supervisor);
    expect(existsSync(folder)).toBe(false);
    await expect(ask(url, "SELECT 1")).rejects.toThrow("ECONNREFUSED");
  } finally {
    child.kill("SIGKILL");
  }
});
