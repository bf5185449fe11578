// Job: hold the LevelDB driver against the port, and show what its store adds: ids, alarms, one writer for all.
// Owns: the folders and processes that it makes.
// Invariants: those of the suite; processes are really killed.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { driverConformance } from "@holdfast/conformance";
import { type EngineDriver, openWorkflow, runWorkflow, signal, workflow } from "@holdfast/kv";
import { LevelStore } from "@holdfast/kv/level";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { build, root } from "../built.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-level-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let count = 0;
const newFolder = () => join(folder, `db-${++count}`);

const stores = new Map<EngineDriver, { readonly store: LevelStore; readonly path: string }>();
async function open(path: string, runId = "run"): Promise<EngineDriver> {
  const store = await LevelStore.open(path);
  const driver = store.driver(runId);
  stores.set(driver, { store, path });
  return driver;
}
function homeOf(driver: EngineDriver) {
  const home = stores.get(driver);
  if (home === undefined) throw new Error("Not one of ours.");
  return home;
}

/** A process that writes batches, and is killed in the middle of one. */
async function killedProcess(): Promise<EngineDriver> {
  const path = newFolder();
  const child = spawn(process.execPath, ["packages/kv/test/processes/batches.mjs", path], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error("It ended by itself.")));
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      if (text.split("\n").some((line) => Number(line) >= 5)) resolve();
    });
  });
  child.kill("SIGKILL");
  await once(child, "close");
  return open(path, "killed");
}

beforeAll(() => build("packages/conformance"), 60_000);

describe("the LevelDB driver", () =>
  driverConformance({
    name: "LevelDB",
    test,
    makeDriver: () => open(newFolder()),
    close: (driver) => homeOf(driver).store.close(),
    beside(driver) {
      const { store, path } = homeOf(driver);
      const other = store.driver("run2"); // "run" is a prefix of it
      stores.set(other, { store, path });
      return other;
    },
    async reopen(driver) {
      const { store, path } = homeOf(driver);
      await store.close();
      return open(path);
    },
    killed: killedProcess,
    alarmOf: (driver, runId) => homeOf(driver).store.alarms.get(runId),
  }));

describe("a LevelDB of many runs", () => {
  async function openStore(): Promise<LevelStore> {
    const store = await LevelStore.open(newFolder());
    onTestFinished(() => store.close());
    return store;
  }

  test("H1 a run has one driver, however often it is asked for", async () => {
    const store = await openStore();
    expect(store.driver("a")).toBe(store.driver("a"));
    expect(store.driver("a")).not.toBe(store.driver("b"));
  });

  test("H1 M1 a live run stays, though no code refers to its driver or handle", async () => {
    setFlagsFromString("--expose-gc");
    const collectGarbage = runInNewContext("gc") as () => void;
    const store = await openStore();
    const heard: string[] = [];
    const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) => {
      const word = await ctx.waitForSignal("word");
      await ctx.step("hear", async () => void heard.push(word));
    });
    const start = async () => {
      await runWorkflow({ driver: store.driver("a"), workflow: w, id: "a", mode: "live" }).describe();
    };
    await start();
    for (let i = 0; i < 5; i++) {
      await new Promise((resolve) => setImmediate(resolve));
      collectGarbage();
    }
    const handle = openWorkflow({ driver: store.driver("a"), workflow: w, id: "a" });
    await handle.signal("word", "hello"); // no process watches the alarms here: only a live run gets it
    await expect.poll(() => heard).toEqual(["hello"]);
    await expect.poll(async () => (await handle.describe()).status).toBe("completed");
  });

  test("D2 D6 H3 a store that is closed under a live run stops it as its last batch left it; opened again, it goes on", async () => {
    const path = newFolder();
    const ran: string[] = [];
    let finish: () => void = () => {};
    const w = workflow("w", async (ctx) => {
      await ctx.step("first", async () => void ran.push("first"));
      await ctx.step("second", async () => {
        ran.push("second");
        if (ran.length === 2) await new Promise<void>((resolve) => (finish = resolve));
      });
      return ctx.step("third", async () => ran.length);
    });
    const before = await LevelStore.open(path);
    const result = runWorkflow({ driver: before.driver("a"), workflow: w, id: "a", mode: "live" }).result();
    await expect.poll(() => ran).toEqual(["first", "second"]);
    await before.close();
    finish();
    await expect(result).rejects.toMatchObject({ code: "HF_KV_WRITE_FAILED" });

    const after = await LevelStore.open(path);
    onTestFinished(() => after.close());
    expect(after.alarms.due(Date.now())).toEqual(["a"]); // it was at work
    const handle = openWorkflow({ driver: after.driver("a"), workflow: w, id: "a" });
    expect(await handle.wake()).toEqual({ status: "completed", output: 3 });
    expect(ran).toEqual(["first", "second", "second"]);
    expect(after.alarms.get("a")).toBeUndefined();
  });

  test("D9 an alarm that could not be stored is none: asked for again, it is written again", async () => {
    const store = await LevelStore.open(newFolder());
    const driver = store.driver("a");
    await driver.setAlarm("a", 100);
    await store.close(); // nothing can be written any more
    for (let i = 0; i < 2; i++) await expect(driver.setAlarm("a", 200)).rejects.toThrow();
    for (let i = 0; i < 2; i++) await expect(driver.clearAlarm("a")).rejects.toThrow();
  });

  test("an id that can be none is refused before it becomes the name of a sublevel", async () => {
    const store = await openStore();
    for (const id of ["", "\ud800", "a\u0000b", "x".repeat(600)])
      expect(() => store.driver(id)).toThrow(expect.objectContaining({ code: "HF_INVALID_INPUT" }));
  });

  test("H3 ids of all kinds have their own namespaces, and are listed", async () => {
    const store = await openStore();
    const ids = ["a", "a!", "a!b", "a/b", "ä", "order-7/ship#1", "%21", "~", '"', "a b", "日本", "A"];
    const key = Uint8Array.of(1);
    for (const id of ids) await store.driver(id).set(key, new TextEncoder().encode(id));
    for (const id of ids) expect(new TextDecoder().decode(await store.driver(id).get(key))).toBe(id);
    const listed: string[] = [];
    for await (const id of store.runs()) listed.push(id);
    expect(listed.toSorted()).toEqual(ids.toSorted());

    await store.delete("a!");
    expect(await store.driver("a!").get(key)).toBeUndefined();
    expect(await store.driver("a!b").get(key)).toBeDefined();
  });

  test("H3 one queue has the alarms of all runs, the most overdue first", async () => {
    const store = await openStore();
    const at = { a: 300, b: 100, c: 200, d: 900 };
    for (const [id, time] of Object.entries(at)) await store.driver(id).setAlarm(id, time);
    expect([store.alarms.next, store.alarms.size]).toEqual([100, 4]);
    expect(store.alarms.due(50)).toEqual([]);
    expect(store.alarms.due(300)).toEqual(["b", "c", "a"]);
    expect(store.alarms.due(300)).toEqual(["b", "c", "a"]); // until they are dealt with

    await store.driver("b").setAlarm("b", 250);
    await store.driver("c").clearAlarm("c");
    expect(store.alarms.due(1_000)).toEqual(["b", "a", "d"]);
    expect(store.alarms.next).toBe(250);
  });

  test("a folder that can't be opened is an error that says what to do", async () => {
    const file = newFolder();
    writeFileSync(file, "no folder");
    await expect(LevelStore.open(file)).rejects.toMatchObject({ code: "HF_KV_CANNOT_OPEN" });
    const path = newFolder();
    const store = await LevelStore.open(path);
    onTestFinished(() => store.close());
    await expect(LevelStore.open(path)).rejects.toThrow(/Only one process can have it open/);
  });
});

test.skipIf(process.platform === "win32")("the folder that it makes is for its user alone; one that exists keeps its mode", async () => {
  const [made, there] = [newFolder(), newFolder()];
  mkdirSync(there, { mode: 0o750 });
  for (const path of [made, there]) await (await LevelStore.open(path)).close();
  expect([made, there].map((path) => (statSync(path).mode & 0o777).toString(8))).toEqual(["700", "750"]);
});
