// Job: prove that the determinism guard tells of what workflow code reads from its surroundings, and of nothing else.
// Owns: the workflows in it.
// Invariants: V4 ("error" blocks a run, whatever its code does about the error); globals are as they were once no guarded worker lives.

import nodeCrypto, { randomUUID } from "node:crypto";
import fs, { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import timers from "node:timers";
import { Executor } from "@holdfast/core";
import { realEnvironment } from "@holdfast/host";
import { DeterminismGuard } from "@holdfast/host/node";
import { type AnyWorkflow, Holdfast, type Logger, Loop, Receive, RunBlockedError, signal, workflow } from "holdfast";
import { afterEach, describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import { testEngine } from "../../src/testing/testEngine.ts";

const engines: Holdfast[] = [];
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});

/** An engine on memory, and what it logged. */
async function open() {
  const warnings: string[] = [];
  const logger: Logger = { debug() {}, info() {}, warn: (message) => warnings.push(message), error() {} };
  const engine = await Holdfast.with({ store: new MemoryStore(), environment: realEnvironment }, { logger });
  engines.push(engine);
  return { engine, warnings };
}
async function blockedBy(workflow: AnyWorkflow): Promise<Error> {
  const engine = await testEngine({ workflows: [workflow] });
  engines.push(engine);
  const run = await engine.start(workflow, undefined, { id: "r1" });
  const error = await run.result().then(
    () => undefined,
    (failure: unknown) => failure,
  );
  expect(error).toBeInstanceOf(RunBlockedError);
  return error as Error;
}

/** Every place that is patched. */
function surroundings() {
  const { Date: date, performance, crypto, setTimeout, setInterval, setImmediate, fetch, Math: math } = globalThis;
  return [
    date, date.now, date.prototype.constructor, performance.now, crypto.randomUUID, crypto.getRandomValues, setTimeout, setInterval, setImmediate,
    fetch, math.random, process.env, nodeCrypto.randomUUID, nodeCrypto.randomBytes, randomUUID, fs.readFileSync, readFileSync, existsSync,
    statSync, readdirSync, timers.setTimeout,
  ]; // biome-ignore format: a list
}

const CALLS: readonly (readonly [what: string, call: () => unknown, instead: string])[] = [
  ["calls Date.now()", () => Date.now(), "ctx.now()"],
  ["calls new Date()", () => new Date(), "ctx.now()"],
  ["calls Date()", () => Date(), "ctx.now()"],
  ["calls performance.now()", () => performance.now(), "ctx.now()"],
  ["calls Math.random()", () => Math.random(), "ctx.random()"],
  ["calls crypto.randomUUID()", () => crypto.randomUUID(), "ctx.uuid()"],
  ["calls crypto.randomUUID()", () => randomUUID(), "ctx.uuid()"],
  ["calls crypto.getRandomValues()", () => crypto.getRandomValues(new Uint8Array(1)), "ctx.random()"],
  ["calls setTimeout()", () => clearTimeout(setTimeout(() => {}, 0)), "ctx.sleep"],
  ["calls setInterval()", () => clearInterval(setInterval(() => {}, 1_000)), "ctx.sleep"],
  ["calls setImmediate()", () => clearImmediate(setImmediate(() => {})), "ctx.yield()"],
  ["calls fetch()", () => void fetch("data:,x").catch(() => {}), "ctx.step"],
  ["reads process.env.HOME", () => process.env["HOME"], "ctx.sideEffect"],
  ["reads process.env", () => ({ ...process.env }), "ctx.sideEffect"],
  ["calls fs.readFileSync()", () => readFileSync(import.meta.filename), "ctx.step"],
  ["calls fs.existsSync()", () => existsSync("x"), "ctx.step"],
  ["calls fs.statSync()", () => statSync(import.meta.filename), "ctx.step"],
  ["calls fs.readdirSync()", () => fs.readdirSync(import.meta.dirname), "ctx.step"],
];

describe("determinism: warn", () => {
  it.each(CALLS)("reports code that %s, with the workflow, the run, the line and what to use instead", async (what, call, instead) => {
    const { engine, warnings } = await open();
    const reads = workflow("reads", async (ctx) => {
      await ctx.step("first", () => 1);
      call();
    });
    await engine.worker({ workflows: [reads], determinism: "warn" });

    await (await engine.start(reads, undefined, { id: "r1" })).result();

    expect(warnings[0]).toContain(`Workflow "reads" (run r1, root) ${what} at `);
    expect(warnings[0]).toMatch(/guard\.test\.ts:\d+/);
    expect(warnings[0]).toContain(instead);
  });

  it("tells once of each call site", async () => {
    const { engine, warnings } = await open();
    const reads = workflow("reads", async () => {
      for (let i = 0; i < 3; i++) Math.random();
      Math.random();
    });
    await engine.worker({ workflows: [reads], determinism: "warn" });

    for (let i = 0; i < 3; i++) await (await engine.start(reads, undefined)).result();

    expect(warnings).toHaveLength(2);
  });

  it("names the unit, and sees conditions and code after an await", async () => {
    const { engine, warnings } = await open();
    const reads = workflow("reads", async (ctx) => {
      await ctx.join("both", {
        left: async (ctx) => {
          await ctx.step("one", () => 1);
          return Date.now();
        },
      });
      await ctx.condition(() => Date.now() > 0);
    });
    await engine.worker({ workflows: [reads], determinism: "warn" });

    await (await engine.start(reads, undefined, { id: "r1" })).result();

    expect(warnings).toHaveLength(2);
    expect(warnings[0]).toContain('"reads" (run r1, both/left)');
    expect(warnings[1]).toContain(`"reads" (run r1, a condition's predicate)`);
  });

  it("leaves alone what is not workflow code: steps, side effects, loggers, codecs, activities of the process, Node itself", async () => {
    const warnings: string[] = [];
    const now = () => `${Date.now()} ${process.env["HOME"]} ${Math.random()} ${new Date()}`;
    const logger: Logger = { debug() {}, info: () => void now(), warn: (message) => warnings.push(message), error() {} };
    const codec = {
      encode: (value: unknown) => JSON.stringify({ value, at: now() }),
      decode: (data: unknown) => JSON.parse(String(data), (_key, value) => (now() === "" ? undefined : value)).value,
    };
    const engine = await Holdfast.with({ store: new MemoryStore(), environment: realEnvironment }, { logger, codec });
    engines.push(engine);
    const careful = workflow({ name: "careful", signals: { go: signal<string>() } }, async (ctx) => {
      ctx.log.info("hello");
      await ctx.sideEffect(now);
      const step = await ctx.step("read", async () => {
        now();
        await null;
        await new Promise((resolve) => setTimeout(resolve, 1));
        return now();
      });
      ctx.publishState({ step });
      const date = new Date(ctx.now().getTime() + 1_000);
      await ctx.waitForSignal("go");
      return [step, date instanceof Date, date.constructor === Date, process.env["NODE_ENV"], ctx.random(), ctx.uuid()];
    });
    await engine.worker({ workflows: [careful], determinism: "warn" });

    const runs = await engine.startMany(
      careful,
      Array.from({ length: 20 }, () => ({ input: undefined })),
    );
    await Promise.all(runs.map((run) => run.signal("go", now())));
    let ended = false;
    const all = Promise.all(runs.map((run) => run.result())).finally(() => (ended = true));
    while (!ended) await new Promise((resolve) => setImmediate(resolve, now()));

    for (const [, isDate, isConstructor] of await all) expect([isDate, isConstructor]).toEqual([true, true]);
    expect(warnings).toEqual([]);
  });

  it("names all the runs that it may have been, when several share a tick", async () => {
    const warnings: string[] = [];
    const guard = new DeterminismGuard("warn", { debug() {}, info() {}, warn: (message) => warnings.push(message), error() {} });
    const reads = workflow("reads", async () => Date.now());
    const start = (runId: string) => {
      const job = {
        type: "start",
        runId,
        workflow: "reads",
        version: undefined,
        input: "null",
        seed: "s",
        startedAt: 0,
        execution: 1,
      } as const;
      return new Executor({ workflow: reads, watch: guard }).activate({ time: 0, jobs: [job] });
    };
    try {
      await Promise.all([start("r1"), start("r2")]);
    } finally {
      guard.stop();
    }
    expect(warnings[0]).toContain('One of the workflows "reads" (run r1, root), "reads" (run r2, root) calls Date.now()');
  });

  it("the code that starts a run is not taken for the run", async () => {
    const { engine, warnings } = await open();
    const plain = workflow("plain", async (ctx) => ctx.step("one", () => 1));
    await engine.worker({ workflows: [plain], determinism: "warn" });

    const starting = engine.start(plain, undefined);
    let started = false;
    void starting.then(() => (started = true));
    for (let i = 0; i < 1_000 && !started; i++) await Promise.resolve(Date.now());
    await (await starting).result();

    expect(warnings).toEqual([]);
  });
});

describe("determinism: error", () => {
  it.each(CALLS)("V4 a run that %s is blocked, even if its code swallows the error", async (what, call, instead) => {
    const error = await blockedBy(
      workflow("reads", async (ctx) => {
        try {
          call();
        } catch {}
        await ctx.step("after", () => 1);
      }),
    );
    expect(error.message).toContain(what);
    expect(error.message).toContain(instead);
    expect(error.cause).toMatchObject({ name: "HoldfastError", code: "HF_NONDETERMINISTIC_CALL" });
  });

  it("V4 a rejection of it that no code handles ends nothing", async () => {
    const error = await blockedBy(
      workflow("floats", async (ctx) => {
        void (async () => Math.random())();
        await ctx.step("after", () => 1);
      }),
    );
    expect(error.cause).toMatchObject({ code: "HF_NONDETERMINISTIC_CALL" });
  });

  it("V4 the run goes on once its code is fixed", async () => {
    const store = new MemoryStore();
    const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };
    const engine = await Holdfast.with({ store, environment: realEnvironment }, { logger: silent });
    engines.push(engine);
    const bad = workflow("fixed", async (ctx) => ctx.step("one", () => 1).then((one) => one + Math.ceil(Math.random())));
    const worker = await engine.worker({ workflows: [bad], determinism: "error" });
    const run = await engine.start(bad, undefined);
    await expect(run.result()).rejects.toThrow(RunBlockedError);
    await worker.stop();

    await engine.worker({
      workflows: [workflow("fixed", async (ctx) => ctx.step("one", () => 1).then((one) => one + 1))],
      determinism: "error",
    });
    while ((await run.describe()).status === "blocked") await new Promise((resolve) => setTimeout(resolve, 5));

    expect(await run.result()).toBe(2);
  });
});

describe("R9 states", () => {
  const changing = workflow("changes", async (ctx) => {
    const tried: string[] = [];
    const attempt = (change: () => unknown): void => {
      try {
        change();
        tried.push("changed");
      } catch (error) {
        tried.push((error as Error).name);
      }
    };
    await ctx.loop({ name: "l", state: { list: [1] } }, async (_ctx, state) => {
      attempt(() => state.list.push(2));
      return Loop.break(0);
    });
    await ctx.receive(
      { list: [1] },
      {
        signals: {
          go: (_payload, state) => {
            attempt(() => state.list.push(2));
            return Receive.stop(state);
          },
        },
      },
    );
    return tried;
  });

  it.each([
    ["off", "changed"],
    ["warn", "TypeError"],
    ["error", "TypeError"],
  ] as const)("R9 with determinism: %s a change in place: %s", async (determinism, outcome) => {
    const { engine } = await open();
    await engine.worker({ workflows: [changing], determinism });
    const run = await engine.start(changing, undefined, { signals: [{ name: "go" }] });
    expect(await run.result()).toEqual([outcome, outcome]);
  });
});

describe("globals", () => {
  it("are the same while the guard is off", async () => {
    const before = surroundings();
    const { engine } = await open();
    const wf = workflow("reads", async () => Math.random() >= 0 && surroundings().every((value, i) => value === before[i]));
    await engine.worker({ workflows: [wf], determinism: "off" });

    expect(await (await engine.start(wf, undefined)).result()).toBe(true);
    expect(surroundings()).toEqual(before);
  });

  it("are patched while a guarded worker lives, and are as before when the last has stopped", async () => {
    const before = surroundings();
    const { engine } = await open();
    const one = await engine.worker({ workflows: [], determinism: "warn" });
    const two = await engine.worker({ workflows: [], determinism: "error" });
    const during = surroundings();
    expect(during.map((value, i) => value !== before[i])).toEqual(before.map(() => true));
    expect(globalThis.setTimeout).toBe(timers.setTimeout);

    await one.stop();
    expect(surroundings().every((value, i) => value === during[i])).toBe(true);
    await two.stop();

    expect(surroundings().map((value, i) => value === before[i])).toEqual(before.map(() => true));
  });

  it("keep what others have patched meanwhile", async () => {
    const { engine } = await open();
    const { random } = Math;
    const worker = await engine.worker({ workflows: [], determinism: "warn" });
    const theirs = () => 4;
    Math.random = theirs;
    try {
      await worker.stop();
      expect(Math.random).toBe(theirs);
    } finally {
      Math.random = random;
    }
  });

  it("work as ever outside of workflows", async () => {
    const { engine } = await open();
    await engine.worker({ workflows: [], determinism: "error" });

    expect(new Date()).toBeInstanceOf(Date);
    expect(new Date().constructor).toBe(Date);
    expect(new Date(0).getTime()).toBe(0);
    expect(typeof Date()).toBe("string");
    expect(structuredClone(new Date(5))).toEqual(new Date(5));
    class Later extends Date {}
    expect(new Later()).toBeInstanceOf(Later);
    expect(existsSync(import.meta.filename)).toBe(true);
    process.env["HOLDFAST_TEST"] = "x";
    expect([process.env["HOLDFAST_TEST"], "HOLDFAST_TEST" in process.env, Object.keys(process.env).includes("HOLDFAST_TEST")]).toEqual([
      "x",
      true,
      true,
    ]);
    delete process.env["HOLDFAST_TEST"];
    expect(process.env["HOLDFAST_TEST"]).toBeUndefined();
    await expect(fetch("data:,hello").then((response) => response.text())).resolves.toBe("hello");
  });

  it("an unknown mode is refused", async () => {
    const { engine } = await open();
    await expect(engine.worker({ workflows: [], determinism: "loud" as never })).rejects.toThrow(/determinism/);
  });
});
