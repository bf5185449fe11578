// A short soak: worker processes that are really killed, frozen and stopped (the long one is `npm run soak`).

import { spawn } from "node:child_process";
import { join } from "node:path";
import { canOwnServers } from "@holdfast/postgres-server";
import { beforeAll, expect, test } from "vitest";
import { build, root } from "./built.ts";

beforeAll(() => build("packages/postgres", "packages/postgres-server"), 120_000);

function soak(...args: string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    let output = "";
    const child = spawn(process.execPath, [join(root, "soak/run.mjs"), ...args], { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        output += chunk;
      });
    }
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, output }));
  });
}

test("D4 D6 D7 D9 D12 W3 W4 M1 M3 M10 S1 K8 Y5 nothing is lost, repeated or changed when workers are killed, frozen and stopped", async () => {
  const { code, output } = await soak("--minutes", "0.12", "--workers", "3", "--lease", "800", "--open", "30");
  const last = output.trimEnd().split("\n").at(-1);
  expect(last, output).toMatch(/^soak: ok /);
  expect(code, output).toBe(0);
}, 120_000);

test("W4 D5 D9 nothing is lost when the workers of a process are stopped and started", async () => {
  const { code, output } = await soak("--minutes", "0.05", "--store", "memory", "--workers", "2", "--open", "20");
  const last = output.trimEnd().split("\n").at(-1);
  expect(last, output).toMatch(/^soak: ok /);
  expect(code, output).toBe(0);
}, 120_000);

test.runIf(canOwnServers)(
  "D4 D6 D7 D9 M1 M3 M10 W3 nothing is lost, repeated or changed when PostgreSQL itself dies, connections break and workers are killed",
  async () => {
    const { code, output } = await soak("--minutes", "0.12", "--store", "postgres", "--workers", "3", "--lease", "1000", "--open", "25");
    const last = output.trimEnd().split("\n").at(-1);
    expect(last, output).toMatch(/^soak: ok /);
    expect(code, output).toBe(0);
  },
  120_000,
);
