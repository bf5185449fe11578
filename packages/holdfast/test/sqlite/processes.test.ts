// Real processes on one file: they share, they race, they are killed.

import { range } from "@holdfast/conformance/bench";
import { expect, test } from "vitest";
import { start } from "./processes/child.ts";
import { newPath, openShell, openStore } from "./support.ts";

test("W3 two processes claim five hundred runs: each is claimed by one of them, once", async () => {
  const path = newPath();
  const store = await openStore(path);
  const workers = await Promise.all(["one", "two"].map((name) => start("claimer", path, name, "500")));
  await Promise.all(workers.map(({ printed }) => printed(1)));
  const ids = range(500).map((i) => `run-${i}`);
  const run = { workflow: "order", version: undefined, input: "null", queue: "default", priority: 0, attributes: {}, seed: "seed" };
  for (let i = 0; i < 500; i += 50) await store.create(ids.slice(i, i + 50).map((id) => ({ ...run, id, onConflict: "reject" })));
  expect(await Promise.all(workers.map(({ ended }) => ended))).toEqual([0, 0]);
  const claimed = workers.map(({ lines }) => lines.slice(1));
  expect(claimed.flat().sort()).toEqual(ids.sort());
  const { runs } = await store.list({ limit: 1_000 });
  expect(runs.filter(({ status, epoch, turns }) => status === "completed" && epoch === 2 && turns === 1)).toHaveLength(500);
}, 60_000);

test("many processes open and use the same new file at once", async () => {
  const path = newPath();
  const openers = await Promise.all(range(6).map(() => start("opener", path)));
  await Promise.all(openers.map(({ ended }) => ended));
  expect(openers.map(({ lines }) => lines)).toEqual(openers.map(() => ["opened"]));
  expect((await (await openStore(path)).count({})).pending).toBe(6);
  const shell = openShell(path);
  expect(shell.rows("SELECT version FROM holdfast_schema")).toEqual([{ version: 1 }]);
  shell.close();
}, 60_000);

test("D2 a process that is killed in the middle of commits leaves a sound file, with everything that it acknowledged", async () => {
  const path = newPath();
  const store = await openStore(path);
  for (const round of range(5)) {
    const child = await start("committer", path, `round-${round}`);
    await child.printed(40 + round * 17);
    child.process.kill("SIGKILL");
    expect(await child.ended).toBe("SIGKILL");
    const last = new Map<string, number>();
    for (const line of child.lines) {
      const [id = "", index] = line.split(" ");
      if (index !== undefined) last.set(id, Number(index));
    }
    expect(last.size).toBeGreaterThan(0);
    for (const [id, index] of last) {
      const [row] = await store.get([id]);
      const history = await store.history(id);
      expect(row?.turns).toBeGreaterThan(index);
      // All of a turn, or nothing of it.
      expect(history.map((turn) => turn.index)).toEqual(range(row?.turns ?? 0));
      expect(history.every(({ jobs, commands }) => jobs.length === 1 && commands.length === 1)).toBe(true);
      expect([row?.historyLength, row?.state]).toEqual([history.length * 2, JSON.stringify(history.length - 1)]);
    }
    const shell = openShell(path);
    expect(shell.rows("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
    shell.close();
  }
  // And it can be used.
  const run = { workflow: "order", version: undefined, input: "null", queue: "default", priority: 0, attributes: {}, seed: "seed" };
  expect(await store.create([{ ...run, id: "after", onConflict: "reject" }])).toMatchObject([{ status: "created" }]);
}, 60_000);
