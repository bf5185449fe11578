// Who waits for results, and what is looked up for them.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { realEnvironment } from "@holdfast/host";
import { activity, FatalError, Holdfast, update, workflow } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { ResultWaiters } from "../../src/engine/resultWaiters.ts";
import { StoreCorruptError, StoreMovedError } from "../../src/store/errors.ts";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { RunRow, Store } from "../../src/store/port.ts";
import { SqliteStore } from "../../src/store/sqlite/store.ts";

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

test("M10 a row that can't be read does not stop others from getting the result of another run", async () => {
  const get = async (ids: readonly string[]) => {
    if (ids.includes("damaged")) throw new StoreCorruptError({ where: "here" });
    return ids.map((id) => ({ id, status: "completed" }) as RunRow);
  };
  const results = new ResultWaiters({ get } as Partial<Store> as Store, realEnvironment, quiet);
  const damaged = results.end("damaged", {}).catch((error: unknown) => error);
  expect(await results.end("healthy", {})).toMatchObject({ id: "healthy", status: "completed" });
  expect(await damaged).toBeInstanceOf(StoreCorruptError);
});

test.each(["the update", "its run"])(
  "M10 a row of %s that can't be read does not stop others from getting the outcome of another update",
  async (which) => {
    const damage = <T extends { readonly runId: string }>(keys: readonly T[]): void => {
      if (keys.some(({ runId }) => runId === "damaged")) throw new StoreCorruptError({ where: "here" });
    };
    const updates = async (keys: readonly { runId: string; id: string }[]) => {
      if (which === "the update") damage(keys);
      return keys.map(({ runId }) => (runId === "damaged" ? undefined : ({ status: "completed", value: "1" } as const)));
    };
    const get = async (ids: readonly string[]) => {
      damage(ids.map((runId) => ({ runId })));
      return ids.map((id) => ({ id, status: "completed" }) as RunRow);
    };
    const results = new ResultWaiters({ get, updates } as Partial<Store> as Store, realEnvironment, quiet);
    const damaged = results.update("damaged", "u", IN_TIME).catch((error: unknown) => error);
    expect(await results.update("healthy", "u", IN_TIME)).toEqual({ status: "completed", value: "1" });
    expect(await damaged).toBeInstanceOf(StoreCorruptError);
  },
);

test("M10 a caller that waits for a result or a reply gets an error if the store was moved away", async () => {
  const moved = new StoreMovedError({ where: "here", what: "deleted" });
  const refuse = () => Promise.reject(moved);
  const results = new ResultWaiters({ get: refuse, updates: refuse } as Partial<Store> as Store, realEnvironment, quiet);
  const waits = [results.end("a", IN_TIME), results.update("a", "u", IN_TIME)];
  expect(await Promise.all(waits.map((wait) => wait.catch((error: unknown) => error)))).toEqual([moved, moved]);
});

test("M10 result() and update() reject once the file under an open engine was deleted", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-results-"));
  const path = join(folder, "x.db");
  const engine = await Holdfast.open(`file:${path}`, { logger: quiet });
  const waits = workflow({ name: "waits", updates: { add: update<number, number>() } }, async (ctx) => ctx.sleep("1h"));
  const run = await engine.start(waits, undefined); // no worker claims it
  const ends = [run.result(), run.update("add", 1)].map((end) => end.catch((error: unknown) => error));
  await expect.poll(async () => (await engine.count({})).pending).toBe(1);
  rmSync(path);
  expect(await Promise.all(ends)).toMatchObject([{ code: "HF_STORE_MOVED" }, { code: "HF_STORE_MOVED" }]);
  await engine.close().catch(() => {});
  rmSync(folder, { recursive: true });
});

/** A store of which a test says what has ended; looks are answered with what was so when they began. */
function endings() {
  const [ended, answered, looks] = [new Set<string>(), new Set<string>(), [] as (readonly string[])[]];
  const gate: { passed?: Promise<void> } = {};
  const store = {
    get: async (ids: readonly string[]) => {
      looks.push(ids);
      const rows = ids.map((id) => ({ id, status: ended.has(id) ? "completed" : "running" }) as RunRow);
      await gate.passed;
      return rows;
    },
    updates: async (keys: readonly { runId: string; id: string }[]) =>
      keys.map(({ runId, id }) => (answered.has(`${runId} ${id}`) ? ({ status: "completed", value: "1" } as const) : undefined)),
  };
  const results = new ResultWaiters(store as Partial<Store> as Store, realEnvironment, quiet);
  const isLooked = (count: number) => expect.poll(() => looks.length >= count && !results.busy, { interval: 1 }).toBe(true);
  return { ended, answered, looks, results, isLooked, gate };
}
const IN_TIME = { timeout: 50_000 };

test("M10 D9 a hint that names runs has those looked at that are waited for, with their updates, and no others", async () => {
  const { ended, answered, looks, results, isLooked } = endings();
  const [a, b] = [results.end("a", IN_TIME), results.end("b", IN_TIME)];
  const [reply, other] = [results.update("a", "u", IN_TIME), results.update("b", "u", IN_TIME)];
  await expect(results.update("a", "v", { timeout: 1 })).rejects.toMatchObject({ code: "HF_WAIT_TIMEOUT" });
  await isLooked(2);
  looks.length = 0;
  for (const id of ["a", "b"]) ended.add(id);
  answered.add("a u");
  results.lookAtEnded(["unknown", "a", "a"]);
  expect([await a, await reply]).toEqual([expect.objectContaining({ id: "a" }), { status: "completed", value: "1" }]);
  expect(looks).toEqual([["a"]]);
  answered.add("b u");
  results.lookAtEnded(["b"]);
  expect([await b, await other]).toEqual([expect.objectContaining({ id: "b" }), { status: "completed", value: "1" }]);
});

test("M10 D9 a hint that names a run and comes while it is being looked at has it looked at again", async () => {
  const { ended, looks, results, gate } = endings();
  let open = (): void => {};
  gate.passed = new Promise((resolve) => {
    open = resolve;
  });
  const end = results.end("a", IN_TIME);
  await expect.poll(() => looks.length, { interval: 1 }).toBe(1);
  ended.add("a");
  results.lookAtEnded(["a"]);
  delete gate.passed;
  open();
  expect(await end).toMatchObject({ id: "a", status: "completed" });
});

test.each([
  ["before anybody waits for it", ["expect", "hint", "wait"]],
  ["before the answer to its creation", ["hint", "expect", "wait"]],
  ["while a caller waits for it", ["expect", "wait", "hint"]],
  ["while a caller waits for it, before the answer to its creation", ["wait", "hint", "expect"]],
])("M10 D9 the end of a run that was created here is found, though its own worker did not end it: the hint comes %s", async (_, order) => {
  const { ended, results } = endings();
  ended.add("a");
  let end: Promise<unknown> | undefined;
  for (const what of order) {
    if (what === "expect") results.expectOwnEnd("a");
    else if (what === "hint") results.lookAtEnded(["a"]);
    else end = results.end("a", IN_TIME);
  }
  expect(await end).toMatchObject({ id: "a", status: "completed" });
});

test("D9 a run that was created here is not looked at because of hints that name others", async () => {
  const { looks, results } = endings();
  results.expectOwnEnd("a");
  results.lookAtEnded(["b"]);
  const end = results.end("a", IN_TIME);
  results.lookAtEnded(["b", "c"]);
  await new Promise((resolve) => setImmediate(resolve));
  results.runEnded({ id: "a", status: "completed", output: undefined, error: undefined });
  expect([await end, looks]).toMatchObject([{ id: "a" }, []]);
});

test("K6 M10 a run that its own process terminates is reported by that write, not by a look that comes later", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-results-"));
  const store = new SqliteStore(join(folder, "x.db"), { synchronous: "NORMAL" });
  // Nothing polls: a result that is not notified at once never is.
  const environment = { ...realEnvironment, every: () => ({ cancel: () => {} }) };
  const engine = await Holdfast.with({ store, environment }, { logger: quiet });
  const waits = workflow("waits", async (ctx) => ctx.waitForSignal("never" as never));
  await engine.worker({ workflows: [waits], determinism: "off" });
  const run = await engine.start(waits, undefined);
  const ended = run.result({ timeout: "5s" }).catch((error: { code?: string }) => error.code);
  await run.terminate("enough");
  expect(await ended).toBe("HF_RUN_TERMINATED");
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

test("K9 M10 a run that a workflow here cancels before it has begun is reported by that write", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-"));
  const store = new SqliteStore(join(folder, "runs.db"));
  const environment = { ...realEnvironment, every: () => ({ cancel: () => {} }) }; // nothing polls
  const engine = await Holdfast.with({ store, environment }, { logger: quiet });
  try {
    const later = workflow("later", async (ctx) => ctx.sleep("1h"));
    const caller = workflow("caller", async (ctx) => {
      await ctx.waitForSignal("now");
      await ctx.cancelRun("later");
    });
    await engine.worker({ workflows: [caller, later], concurrency: 1 });
    const calling = await engine.start(caller, undefined);
    const run = await engine.start(later, undefined, { id: "later", delay: "1h" });
    const canceled = run.result({ timeout: "8s" }).catch((error: unknown) => error);
    await calling.signal("now");
    expect(await canceled).toMatchObject({ name: "CanceledError" });
  } finally {
    await engine.close();
    rmSync(folder, { recursive: true });
  }
});

test("P7 D10 the turn of a resume is not before the turn that failed, though the store's clock has gone back", async () => {
  let time = 10_000;
  const store = new MemoryStore({ clock: () => time });
  const environment = { ...realEnvironment, now: () => time };
  const engine = await Holdfast.with({ store, environment }, { logger: quiet });
  let isMended = false;
  const fails = workflow("fails", async (ctx) =>
    ctx.step("once", () => {
      if (isMended) return "fixed";
      time = 12_000;
      throw new FatalError("no");
    }),
  );
  const worker = await engine.worker({ workflows: [fails] });
  const run = await engine.start(fails, undefined);
  await run.result().catch(() => undefined);
  await worker.stop();
  time = 9_000;
  isMended = true;
  await engine.worker({ workflows: [fails] });
  await run.resume();
  expect(await run.result()).toBe("fixed");
  const times = (await store.history(run.id)).map((turn) => turn.time);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  await engine.close();
});

test("W6 it does not warn of a run that waits for a busy worker of another process", async () => {
  const warned: string[] = [];
  const logger = { ...quiet, warn: (message: string) => void warned.push(message) };
  const environment = fast();
  const store = new MemoryStore({ clock: environment.now });
  await using elsewhere = await Holdfast.with({ store, environment }, { logger: quiet });
  await using client = await Holdfast.with({ store, environment }, { logger });
  let free: (value: unknown) => void = () => {};
  const held = new Promise((resolve) => {
    free = resolve;
  });
  const order = workflow("order", async (ctx) => ctx.step("work", () => held));
  await elsewhere.worker({ workflows: [order], concurrency: 1, lease: "1h" });
  const first = await client.start(order);
  await expect.poll(async () => (await first.describe()).status).toBe("running");
  const second = (await client.start(order)).result();
  const other = (await client.start("other")).result().catch(() => {});
  await expect.poll(() => warned.length).toBeGreaterThan(0);
  expect(warned).toEqual([expect.stringContaining("serves other.")]);
  free(1);
  expect(await second).toBe(1);
  await client.close();
  await other;
});

test("W6 of a result that nothing alive can fulfil, as far as this process knows, it warns once", async () => {
  const warned: string[] = [];
  const logger = { ...quiet, warn: (message: string) => void warned.push(message) };
  const environment = fast();
  await using engine = await Holdfast.with({ store: new MemoryStore({ clock: environment.now }), environment }, { logger });
  const render = activity("render", async () => 1);
  const order = workflow({ name: "order", version: "2" }, async () => 1);
  const page = workflow("page", async (ctx) => ctx.activity(render));
  const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go"));
  await engine.worker({ workflows: [page, wait] });
  const waits = [order, order, page, wait].map(async (one, i) => {
    const run = await engine.start(one, undefined, { id: `r${i}` });
    return run.result().catch(() => {});
  });
  await expect.poll(() => warned.length).toBeGreaterThanOrEqual(2);
  const third = (await engine.start(order, undefined, { id: "r4" })).result().catch(() => {});
  const last = (await engine.start("other", undefined, { id: "r5" })).result().catch(() => {});
  await expect.poll(() => warned.some((text) => text.includes("serves other"))).toBe(true);
  expect(warned).toEqual([
    expect.stringMatching(
      /^A caller waits for the result of run r[01], but the run does not continue: no worker serves order@2\. Start a worker/,
    ),
    expect.stringMatching(/run r2, .*: activity render \(no worker serves it\)\./),
    expect.stringMatching(/run r5, .*: no worker serves other\./),
  ]);
  await engine.close();
  await Promise.all([...waits, third, last]);
});

/**
 * Time that is looked at passes a hundred times as fast, by a timer: while the process gets no time of the machine, none passes. Otherwise a
 * worker would be dead before it could say that it is alive.
 */
function fast(): typeof realEnvironment {
  const began = realEnvironment.now();
  let passed = 0;
  const timer = setInterval(() => {
    passed += 100;
  }, 1);
  onTestFinished(() => clearInterval(timer));
  return {
    ...realEnvironment,
    now: () => began + passed,
    elapsed: () => passed,
    every: (ms, callback) => realEnvironment.every(ms / 100, callback),
  };
}
