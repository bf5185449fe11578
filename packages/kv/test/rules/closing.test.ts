// Job: prove that a run which ends misses no message that was acknowledged, whichever process sends it, and whichever dies in between.
// Owns: nothing.
// Invariants: H5 D9 K1 M1, seen at the driver's door. A batch is the mark of a run that is about to end, its end, or another.

import { type History, signal, workflow } from "@holdfast/core";
import {
  createWorkflow,
  type EngineDriver,
  type Environment,
  type KvWrite,
  MemoryDriver,
  openWorkflow,
  realEnvironment,
  runWorkflow,
} from "@holdfast/kv";
import { describe, expect, test } from "vitest";
import { decode } from "../../src/storage/binary.ts";
import type { Status } from "../../src/storage/contents.ts";
import { KEY, PREFIX } from "../../src/storage/layout.ts";
import { compareBytes } from "../../src/storage/tuple.ts";
import { KvHost } from "../host.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** Takes what comes until 20 ms pass in which nothing does. */
const drain = workflow({ name: "drain", signals: { word: signal<number>(), go: signal() } }, async (ctx) => {
  await ctx.waitForSignal("go");
  const words: number[] = [];
  for (;;) {
    const got = await ctx.listen(["word"], { count: 100, timeout: 20 });
    if (got.length === 0) return words;
    for (const { payload } of got) words.push(payload as number);
  }
});

function statusIn(writes: readonly KvWrite[]): Status | undefined {
  const write = writes.find((one) => one.type === "set" && compareBytes(one.key, KEY.status) === 0);
  return write?.type === "set" ? (decode(write.value) as Status) : undefined;
}
function momentOf(writes: readonly KvWrite[]): "mark" | "end" | undefined {
  const status = statusIn(writes);
  if (status?.closing === true) return "mark";
  return status !== undefined && ["completed", "failed", "canceled", "terminated"].includes(status.status) ? "end" : undefined;
}

/** What happens before or after the batches of a run's end. */
class Hooked extends MemoryDriver {
  before: Partial<Record<"mark" | "end", () => unknown>> = {};
  after: Partial<Record<"mark" | "end", () => unknown>> = {};
  moments: string[] = [];
  override async batch(writes: readonly KvWrite[]): Promise<void> {
    const moment = momentOf(writes);
    if (moment !== undefined) this.moments.push(moment);
    await this.#once(this.before, moment);
    await super.batch(writes);
    await this.#once(this.after, moment);
  }
  async #once(hooks: Partial<Record<"mark" | "end", () => unknown>>, moment: "mark" | "end" | undefined): Promise<void> {
    const hook = moment === undefined ? undefined : hooks[moment];
    if (moment !== undefined) delete hooks[moment];
    await hook?.();
  }
}
const elsewhere = (driver: MemoryDriver): MemoryDriver => new MemoryDriver({ namespace: driver.namespace, alarms: driver.alarms });
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

describe("a signal that comes while the run ends", () => {
  /** Each batch takes a while, as that of a database in the network. */
  class Slow extends MemoryDriver {
    override async batch(writes: readonly KvWrite[]): Promise<void> {
      await pause(3);
      await super.batch(writes);
    }
  }

  for (const where of ["the run's process", "another process"] as const) {
    test(`M1 D9 H5 a run that drains its signals has seen every one that was acknowledged to ${where}`, { timeout: 60_000 }, async () => {
      const rounds = Array.from({ length: 40 }, async (_, round) => {
        const driver = new Slow();
        const live = runWorkflow({ driver, workflow: drain, id: "r", mode: "live", logger: silent });
        const other = new Slow({ namespace: driver.namespace, alarms: driver.alarms });
        const sender = where === "the run's process" ? live : openWorkflow({ driver: other, workflow: drain, id: "r", logger: silent });
        await live.describe();
        await sender.signal("go");
        const acknowledged: number[] = [];
        // It ends when a signal is late; where timers are late as well, when the sender stops.
        for (let n = 0; n < 200; n++) {
          try {
            await sender.signal("word", n);
          } catch (error) {
            expect((error as { code?: string }).code).toBe("HF_RUN_CLOSED");
            break;
          }
          acknowledged.push(n);
          await pause(12 + ((round * 7 + n * 3) % 15));
        }
        const result = await live.result();
        expect(result).toEqual({ status: "completed", output: acknowledged });
        expect(await driver.list(PREFIX.messages)).toEqual([]);
      });
      await Promise.all(rounds);
    });
  }

  for (const when of ["before", "after"] as const)
    for (const moment of ["mark", "end"] as const)
      for (const from of ["here", "elsewhere"] as const)
        test(`M1 H5 sent ${when} the ${moment}, from ${from}: it is delivered, or refused`, async () => {
          const driver = new Hooked();
          const live = runWorkflow({ driver, workflow: drain, id: "r", mode: "live", logger: silent });
          const sender = from === "here" ? live : openWorkflow({ driver: elsewhere(driver), workflow: drain, id: "r", logger: silent });
          let sent: Promise<string> | undefined;
          driver[when][moment] = () => {
            sent = sender.signal("word", 7).then(
              () => "acknowledged",
              (error) => error.code,
            );
            // Who sends from elsewhere before the run has marked itself has its answer before that.
            return moment === "mark" && when === "before" ? sent : pause(5);
          };
          await live.signal("go");
          const { output } = (await live.result()) as { output: number[] };
          expect([await sent, output]).toEqual(moment === "mark" ? ["acknowledged", [7]] : ["HF_RUN_CLOSED", []]);
          expect(await driver.list(PREFIX.messages)).toEqual([]);
        });

  test("D9 a run that asks for no more ends however many come; a message after its end is refused", async () => {
    const driver = new Hooked();
    const w = workflow({ name: "w", signals: { go: signal(), word: signal<number>() } }, async (ctx) => {
      await ctx.waitForSignal("go");
      return "done";
    });
    const options = { driver, workflow: w, id: "r", logger: silent };
    await runWorkflow(options);
    const sender = openWorkflow({ ...options, driver: elsewhere(driver) });
    await sender.signal("go");
    driver.before["mark"] = () => sender.signal("word", 1);
    expect(await runWorkflow(options)).toEqual({ status: "completed", output: "done" });
    await expect(sender.signal("word", 2)).rejects.toMatchObject({ code: "HF_RUN_CLOSED" });
    expect(driver.moments).toEqual(["mark", "end"]);
    // What it left alone does not wake it again and again.
    await runWorkflow(options);
    expect(driver.alarms.get("r")).toBeUndefined();
  });

  test("D9 a timer and a signal in one activation: the signal has its own turn, before the timer", async () => {
    for (const first of ["signal", "sleep"] as const) {
      const host = new KvHost();
      const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) => {
        const branches = {
          signal: (branch: typeof ctx) => branch.waitForSignal("word"),
          sleep: (branch: typeof ctx) => branch.sleep("1h"),
        };
        const other = first === "signal" ? "sleep" : "signal";
        return (await ctx.race("either", { [first]: branches[first], [other]: branches[other] } as never)) as { winner: string };
      });
      const run = await host.start(w);
      // Both are there when the run is woken.
      host.world.time += 3_600_000;
      await run.signal("word", "hello");
      expect(await run.result(), first).toEqual({ winner: "signal", value: "hello" });
    }
    const host = new KvHost();
    const run = await host.start(drain);
    await run.signal("go");
    host.world.time += 20;
    await run.signal("word", 7);
    await host.skip("1s");
    expect(await run.result()).toEqual([7]);
  });

  test("D9 M3 a repeated signal that came late is not a second delivery, and the run ends", async () => {
    const driver = new Hooked();
    const options = { driver, workflow: drain, id: "r", logger: silent };
    const live = runWorkflow({ ...options, mode: "live" });
    const sender = openWorkflow({ ...options, driver: elsewhere(driver) });
    driver.before["mark"] = () => sender.signal("word", 1, { idempotencyKey: "k" });
    await live.signal("word", 1, { idempotencyKey: "k" });
    await live.signal("go");
    expect(await live.result()).toEqual({ status: "completed", output: [1] });
  });
});

/** The types of the jobs of each turn. */
function jobsOf({ turns }: History): string[][] {
  return turns.map((turn) => (turn as { jobs: { type: string }[] }).jobs.map(({ type }) => type));
}

describe("a turn that is taken back", () => {
  test("D9 outcomes of steps are kept, and come in the turn after; no step runs again", async () => {
    const ran: string[] = [];
    const driver = new Hooked();
    const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) => {
      const work = ctx.step("work", async () => void ran.push("work"));
      const { winner } = await ctx.race("either", {
        word: (branch) => branch.waitForSignal("word"),
        quick: (branch) => branch.step("quick", async () => void ran.push("quick")),
      });
      await work;
      return winner;
    });
    const options = { driver, workflow: w, id: "r", logger: silent };
    const sender = openWorkflow({ ...options, driver: elsewhere(driver) });
    driver.before["mark"] = () => sender.signal("word", "late");
    expect(await runWorkflow(options)).toEqual({ status: "completed", output: "word" });
    expect(ran).toEqual(["work", "quick"]);
    expect(driver.moments).toEqual(["mark", "mark", "end"]);
    expect(jobsOf(await openWorkflow(options).history())).toEqual([["start"], ["signal"], ["resolve"]]);
  });

  test("D5 D9 what is in flight goes on: a step that lost its race to the turn has one attempt", async () => {
    const driver = new Hooked();
    let finish: (value: string) => void = () => {};
    let attempts = 0;
    const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) =>
      ctx.race("any", {
        both: async (branch) => {
          await branch.waitForSignal("word");
          return branch.waitForSignal("word");
        },
        work: (branch) =>
          branch.step("work", () => {
            attempts++;
            return new Promise<string>((resolve) => {
              finish = resolve;
            });
          }),
        late: async (branch) => {
          await branch.sleep(10);
        },
      }),
    );
    const live = runWorkflow({ driver, workflow: w, id: "r", mode: "live", logger: silent });
    driver.before["mark"] = async () => {
      await openWorkflow({ driver: elsewhere(driver), workflow: w, id: "r" }).signal("word", "late");
      finish("worked"); // its outcome comes while the turn is taken back
    };
    const { output } = (await live.result()) as { output: { winner: string } };
    expect(["late", "work"]).toContain(output.winner);
    expect(attempts).toBe(1);
  });

  test("D9 nothing of it is in history: a late signal is there once", async () => {
    const driver = new Hooked();
    const options = { driver, workflow: drain, id: "r", logger: silent };
    const live = runWorkflow({ ...options, mode: "live" });
    driver.before["mark"] = () => openWorkflow({ ...options, driver: elsewhere(driver) }).signal("word", 1);
    await live.signal("go");
    await live.result();
    const signals = jobsOf(await live.history())
      .flat()
      .filter((type) => type === "signal");
    expect(signals).toHaveLength(2); // go, and the late one, once
  });

  test("D9 D10 the first turn of another attempt is taken back like others", async () => {
    const driver = new Hooked();
    let broken = true;
    const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) => {
      const { timedOut } = await ctx.waitForSignal("word", { timeout: 1 });
      await ctx.step("work", () => (broken ? Promise.reject(new Error("broken")) : Promise.resolve()), { retry: { maxAttempts: 1 } });
      const again = await ctx.waitForSignal("word", { timeout: 1 });
      return [timedOut, again.timedOut];
    });
    const options = { driver, workflow: w, id: "r", logger: silent };
    expect(await runWorkflow({ ...options, mode: "live" }).result()).toMatchObject({ status: "failed" });
    broken = false;
    const handle = openWorkflow(options);
    await handle.recover();
    const sender = openWorkflow({ ...options, driver: elsewhere(driver) });
    driver.before["mark"] = () => sender.signal("word", "late");
    expect(await runWorkflow({ ...options, mode: "live" }).result()).toEqual({ status: "completed", output: [true, false] });
  });

  test("D9 the only turn of a run that was created before is taken back like others", async () => {
    const driver = new Hooked();
    const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) => {
      const { winner } = await ctx.race("either", {
        word: (branch) => branch.waitForSignal("word"),
        now: async () => {},
      });
      return winner;
    });
    const options = { driver, workflow: w, id: "r", logger: silent };
    await createWorkflow(options);
    const sender = openWorkflow({ ...options, driver: elsewhere(driver) });
    driver.before["mark"] = () => sender.signal("word", "late");
    expect(await runWorkflow(options)).toMatchObject({ status: "completed" });
    expect(jobsOf(await openWorkflow(options).history())[0]).toEqual(["start", "signal"]);
  });
});

describe("a cancellation that comes while the run ends", () => {
  for (const from of ["here", "elsewhere"] as const)
    test(`K1 H5 acknowledged while the last turn is computed, it ends the run canceled (from ${from})`, async () => {
      const driver = new Hooked();
      let cancel: () => unknown = () => {};
      const w = workflow({ name: "w", signals: { go: signal() } }, async (ctx) => {
        await ctx.waitForSignal("go");
        cancel();
        return "done";
      });
      const live = runWorkflow({ driver, workflow: w, id: "r", mode: "live", logger: silent });
      await live.describe();
      const sender = from === "here" ? live : openWorkflow({ driver: elsewhere(driver), workflow: w, id: "r", logger: silent });
      let canceled: Promise<unknown> | undefined;
      cancel = () => {
        canceled ??= sender.cancel("no more").then(
          () => "acknowledged",
          (error) => error.code,
        );
      };
      await live.signal("go");
      const { status } = await live.result();
      expect([await canceled, status]).toEqual(["acknowledged", "canceled"]);
    });

  test("K1 H5 before the mark it counts, after the end it is refused", async () => {
    for (const [moment, expected] of [
      ["mark", ["acknowledged", "canceled"]],
      ["end", ["HF_RUN_CLOSED", "completed"]],
    ] as const) {
      const driver = new Hooked();
      const options = { driver, workflow: drain, id: "r", logger: silent };
      const live = runWorkflow({ ...options, mode: "live" });
      const sender = openWorkflow({ ...options, driver: elsewhere(driver) });
      let sent: Promise<string> | undefined;
      driver.before[moment] = () => {
        sent = sender.cancel().then(
          () => "acknowledged",
          (error) => error.code,
        );
        return pause(5);
      };
      await live.signal("go");
      const { status } = await live.result();
      expect([await sent, status]).toEqual(expected);
    }
  });
});

describe("what is left in between", () => {
  test("H5 D2 whichever batch of the end its process dies at, the run ends once, with every signal that was acknowledged", async () => {
    for (const moment of ["mark", "end"] as const) {
      for (const when of ["before", "after"] as const) {
        const host = new KvHost();
        const run = await host.start(drain);
        await run.signal("go");
        await run.signal("word", 1);
        const { process } = host;
        process.onBatch = (at, writes) => {
          if (at === when && momentOf(writes) === moment) process.dead = true;
        };
        await host.skip("1s");
        expect(process.dead).toBe(true);
        const isOver = moment === "end" && when === "after";
        if (isOver) {
          await host.crash();
          await expect(run.signal("word", 2)).rejects.toMatchObject({ code: "HF_RUN_CLOSED" });
        } else {
          await host.crash();
          await host.skip("1s");
        }
        expect(await run.result(), `${when} the ${moment}`).toEqual([1]);
      }
    }
  });

  /** The run has marked itself, and its process is gone. */
  async function leftClosing() {
    const driver = new Hooked();
    const options = { driver, workflow: drain, id: "r", logger: silent };
    await runWorkflow(options);
    await openWorkflow(options).signal("go");
    driver.after["mark"] = () => new Promise(() => {});
    void runWorkflow({ ...options, mode: "live" });
    await expect.poll(() => driver.moments).toEqual(["mark"]);
    return { ...options, driver: elsewhere(driver) };
  }

  test("H5 a sender that finds the mark waits: another process takes up the run, and it is delivered", async () => {
    const options = await leftClosing();
    const sender = openWorkflow({ ...options, driver: elsewhere(options.driver) });
    const sent = sender.signal("word", 7);
    await expect.poll(async () => (await options.driver.list(PREFIX.messages)).length).toBe(1);
    expect(options.driver.alarms.get("r")).toBeLessThanOrEqual(Date.now()); // the run is due
    const live = runWorkflow({ ...options, mode: "live" });
    await sent;
    expect(await live.result()).toEqual({ status: "completed", output: [7] });
  });

  test("H5 a sender that has waited too long withdraws its message and says so", async () => {
    const options = await leftClosing();
    let hours = 0;
    const hasty: Environment = { ...realEnvironment, elapsed: () => hours++ * 3_600_000 };
    const sender = openWorkflow({ ...options, environment: hasty });
    await expect(sender.signal("word", 7)).rejects.toMatchObject({ code: "HF_KV_RUN_CLOSING", retryable: true });
    expect(await options.driver.list(PREFIX.messages)).toEqual([]);
    expect(await runWorkflow({ ...options, mode: "live" }).result()).toEqual({ status: "completed", output: [] });
  });

  test("H5 a batch of the end that can't be written stops the run; a signal that comes then is not acknowledged, and the run goes on later", async () => {
    const driver = new Hooked();
    const options = { driver, workflow: drain, id: "r", logger: silent };
    const live = runWorkflow({ ...options, mode: "live" });
    driver.before["end"] = () => {
      throw new Error("The disk is full.");
    };
    await live.signal("go");
    await expect(live.result()).rejects.toMatchObject({ code: "HF_KV_WRITE_FAILED" });
    expect(await runWorkflow({ ...options, mode: "live" }).result()).toEqual({ status: "completed", output: [] });
  });

  test("H5 M1 a sender that looks long after is acknowledged if a turn was given its message, though the run has ended", async () => {
    const driver = new MemoryDriver();
    const options = { driver, workflow: drain, id: "r", logger: silent };
    await runWorkflow(options);
    let release: () => void = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow: EngineDriver = Object.assign(elsewhere(driver), {
      get: async (key: Uint8Array) => {
        if ((await driver.list(PREFIX.messages)).length > 0) await released;
        return driver.get(key);
      },
    });
    const sent = openWorkflow({ ...options, driver: slow }).signal("go");
    await expect.poll(async () => (await driver.list(PREFIX.messages)).length).toBe(1);
    expect(await runWorkflow({ ...options, mode: "live" }).result()).toEqual({ status: "completed", output: [] });
    release();
    await sent;
  });

  test("D10 M1 what a failed run had not taken is there when it goes on", async () => {
    const driver = new Hooked();
    let broken = true;
    const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) => {
      await ctx.step("work", () => (broken ? Promise.reject(new Error("broken")) : Promise.resolve()), { retry: { maxAttempts: 1 } });
      return ctx.waitForSignal("word");
    });
    const options = { driver, workflow: w, id: "r", logger: silent };
    const sender = openWorkflow({ ...options, driver: elsewhere(driver) });
    driver.before["mark"] = () => sender.signal("word", "early");
    expect(await runWorkflow(options)).toMatchObject({ status: "failed" });
    broken = false;
    await openWorkflow(options).recover();
    expect(await runWorkflow(options)).toEqual({ status: "completed", output: "early" });
  });
});
