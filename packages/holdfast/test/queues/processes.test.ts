// Real processes on a queue with a limit: workers are killed all the time, and the limit holds by what the store has recorded.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { range } from "@holdfast/conformance/bench";
import { startServer, type TestServer } from "@holdfast/postgres-server";
import { Holdfast, workflow } from "holdfast";
import { Client } from "pg";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { build } from "../built.ts";

let server: TestServer | undefined;
let url = "";
beforeAll(async () => {
  build("packages/postgres");
  server = await startServer();
  url = await server.createDatabase();
}, 120_000);
afterAll(async () => {
  await server?.stop();
}, 60_000);

const PROGRAM = join(import.meta.dirname, "processes/worker.mjs");
const WORKERS = 4;
const KILLS = process.env["HOLDFAST_NIGHTLY"] === undefined ? 6 : 50;

test("Q2 Q3 four workers with 100 slots each on a queue of three, killed again and again: never more than three", async () => {
  const engine = await Holdfast.open(url);
  onTestFinished(() => engine.close());
  await engine.queues.set("three", { concurrency: 3 });
  const job = workflow("job", async () => {});
  const client = new Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  const count = async (condition: string): Promise<number> => {
    const { rows } = await client.query<{ n: number }>(`SELECT count(*)::integer AS n FROM holdfast.runs WHERE ${condition}`);
    return rows[0]?.n ?? 0;
  };

  const children = new Set<ChildProcess>();
  onTestFinished(() => {
    for (const child of children) child.kill("SIGKILL");
  });
  const start = async (): Promise<ChildProcess> => {
    const child = spawn(process.execPath, [PROGRAM, url], { stdio: ["ignore", "pipe", "inherit"] });
    children.add(child);
    child.once("close", () => children.delete(child));
    await Promise.race([once(child.stdout, "data"), once(child, "close")]);
    return child;
  };

  // What workers have, at one moment after the other: a statement sees one.
  let isOver = false;
  const held = { most: 0, samples: 0 };
  const watching = (async () => {
    while (!isOver) {
      held.most = Math.max(held.most, await count("worker_id IS NOT NULL"));
      held.samples++;
    }
  })();

  let started = 0;
  const feed = async (): Promise<void> => {
    if ((await count("finished_at IS NULL")) >= 20) return;
    await engine.startMany(job, range(20).map(() => ({ queue: "three" }))); // biome-ignore format: one call
    started += 20;
  };
  await feed();
  const workers = await Promise.all(range(WORKERS).map(start));
  for (const kill of range(KILLS)) {
    await feed();
    await expect.poll(() => count("worker_id IS NOT NULL"), { timeout: 60_000, interval: 5 }).toBeGreaterThan(0);
    const place = kill % WORKERS;
    const child = workers[place];
    if (child?.kill("SIGKILL") === true) await once(child, "close");
    workers[place] = await start();
  }
  await expect.poll(() => count("finished_at IS NULL"), { timeout: 120_000, interval: 20 }).toBe(0);
  isOver = true;
  await watching;
  expect(held.most).toBe(3);
  expect(held.samples).toBeGreaterThan(100);
  expect(await count("status = 'completed'")).toBe(started);
  expect((await engine.queues.get("three")).runs).toEqual({ waiting: 0, held: 0, oldest: undefined });
}, 300_000);
