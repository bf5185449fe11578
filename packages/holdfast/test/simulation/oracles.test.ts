// Oracles of what is told and of the order of claims: they hold where they must, and see what is planted.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { drawnScenes, explore, type Random, type Scene } from "../../src/simulation/index.ts";
import { root } from "../built.ts";

const only =
  (kind: string) =>
  (random: Random): Scene[] =>
    drawnScenes(random, [kind]);

test("W2 W3 runs of several priorities are claimed in their order, and all of them end", async () => {
  expect(await explore({ seeds: 60, scenes: only("rush") })).toBeGreaterThan(1_000);
  expect(await explore({ seeds: 6, scenes: only("rush"), store: "sqlite" })).toBeGreaterThan(100);
}, 120_000);

test("M11 a query of an entity shows what was acknowledged, and nothing that no commit has published", async () => {
  expect(await explore({ seeds: 60, scenes: only("entity") })).toBeGreaterThan(1_000);
  expect(await explore({ seeds: 6, scenes: only("entity"), store: "sqlite" })).toBeGreaterThan(100);
}, 120_000);

test("D12 every attempt of steps, transactions and activities is listed, in order, with its worker", async () => {
  for (const kind of ["errands", "transfers", "saga", "again"])
    expect(await explore({ seeds: 25, scenes: only(kind) })).toBeGreaterThan(100);
  expect(await explore({ seeds: 6, scenes: only("errands"), store: "sqlite" })).toBeGreaterThan(100);
}, 120_000);

test("W2 M11 D12 bugs in what is told and in the order of claims are found", async () => {
  const names = "newest-first,query-remembered,lost-attempts-unlisted";
  const output = await new Promise<string>((resolve, reject) => {
    let text = "";
    const args = [join(root, "simulation/run.mjs"), "--planted", names, "--most", "100", "--jobs", "1"];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    child.on("error", reject);
    child.on("close", () => resolve(text));
  });
  expect(output).toMatch(/`newest-first`\) \| claim order \| W2 \|/);
  expect(output).toMatch(/`query-remembered`\) \| queries \| M11 \|/);
  expect(output).toMatch(/`lost-attempts-unlisted`\) \| operations \| D12 \|/);
  expect(output).toMatch(/simulate: ok, all 3 planted bugs were found/);
}, 120_000);
