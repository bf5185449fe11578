// What one worker leaves behind, and how the next goes on from there.

import { Holdfast, workflow } from "holdfast";
import { afterEach, expect, test } from "vitest";
import { realEnvironment } from "../../src/host/environment.ts";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { Store } from "../../src/store/port.ts";

const engines: Holdfast[] = [];
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** An engine on a store of which some methods are others. */
async function open(change: (store: Store) => Partial<Store> = () => ({}), store: Store = new MemoryStore()): Promise<Holdfast> {
  const changes: Partial<Store> = change(store);
  const changed = new Proxy(store, {
    get: (target, key: keyof Store) => {
      const value = changes[key] ?? target[key];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const engine = await Holdfast.with({ store: changed, environment: realEnvironment }, { logger: silent });
  engines.push(engine);
  return engine;
}

async function until(holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error("what was waited for did not come");
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
function gate(): { readonly passed: Promise<void>; open(): void } {
  let open = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}
const quick = { initialInterval: 1, jitter: 0 };

test("W4 D8 a retry that comes due while its worker stops is left to the next, at once", async () => {
  const slow = gate();
  let failedAt: number | undefined;
  const both = workflow("both", async (ctx) =>
    Promise.all([
      ctx.step("slow", () => slow.passed.then(() => "slow")),
      ctx.step(
        "flaky",
        ({ attempt }) => {
          if (attempt > 1) return "flaky";
          failedAt = performance.now();
          throw new Error("not yet");
        },
        { retry: quick },
      ),
    ]),
  );
  const engine = await open();
  const first = await engine.worker({ workflows: [both] });
  const run = await engine.start(both, undefined);
  await until(() => failedAt !== undefined);
  const stopped = first.stop();
  await until(() => performance.now() - (failedAt ?? 0) > 20);
  slow.open();
  await stopped;
  await engine.worker({ workflows: [both] });
  expect(await run.result({ timeout: "5s" })).toEqual(["slow", "flaky"]);
});

test("W4 D12 a step that was recorded by a worker that stops is begun by the next as its first attempt", async () => {
  const slow = gate();
  const began: string[] = [];
  const two = workflow("two", async (ctx) => {
    await ctx.step("first", () => {
      began.push("first");
      return slow.passed;
    });
    return ctx.step("second", ({ attempt }) => attempt);
  });
  const engine = await open();
  const first = await engine.worker({ workflows: [two] });
  const run = await engine.start(two, undefined);
  await until(() => began.length === 1);
  const stopped = first.stop();
  slow.open();
  await stopped;
  const second = await engine.worker({ workflows: [two] });
  expect(await run.result({ timeout: "5s" })).toBe(1);
  const attempts = (await run.operations())[1]?.attempts;
  expect(attempts).toMatchObject([{ number: 1, status: "completed", workerId: second.id }]);
});

test("W4 D12 an attempt that the grace period cut off is listed as lost", async () => {
  let attempts = 0;
  const retried = workflow("retried", async (ctx) =>
    ctx.step(
      "work",
      ({ attempt, signal }) => {
        attempts = attempt;
        if (attempt === 1) throw new Error("not yet");
        if (attempt > 2) return "done";
        return new Promise<string>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      },
      { retry: quick },
    ),
  );
  const engine = await open();
  const first = await engine.worker({ workflows: [retried], gracePeriod: 1 });
  const run = await engine.start(retried, undefined);
  await until(() => attempts === 2);
  await first.stop();
  await engine.worker({ workflows: [retried] });
  expect(await run.result({ timeout: "5s" })).toBe("done");
  const statuses = (await run.operations())[0]?.attempts.map(({ status }) => status);
  expect(statuses).toEqual(["failed", "lost", "completed"]);
});

test("D4 a worker that takes its own run again, its lease having run out, tells the steps that it had", async () => {
  let told = false;
  const long = workflow("long", async (ctx) =>
    ctx.step("work", ({ attempt, signal }) => {
      if (attempt > 1) return attempt;
      return new Promise<number>(() => {
        signal.addEventListener("abort", () => {
          told = true;
        });
      });
    }),
  );
  const engine = await open(() => ({ renew: () => Promise.reject(new Error("it stood still")) }));
  await engine.worker({ workflows: [long], lease: 50 });
  const run = await engine.start(long, undefined);
  expect(await run.result({ timeout: "5s" })).toBe(2);
  expect(told).toBe(true);
});

test("D6 D12 a transaction whose worker could not record the turn after it has completed, at its first attempt", async () => {
  let bodies = 0;
  let fail = false;
  const booking = workflow("booking", async (ctx) =>
    ctx.transaction("book", () => {
      bodies++;
      fail = true;
      return "booked";
    }),
  );
  const engine = await open((store) => ({
    commit: (turns) => {
      if (!fail) return store.commit(turns);
      fail = false;
      return Promise.reject(new Error("the worker died"));
    },
  }));
  await engine.worker({ workflows: [booking], lease: 50 });
  const run = await engine.start(booking, undefined);
  expect(await run.result({ timeout: "5s" })).toBe("booked");
  expect(bodies).toBe(1);
  expect((await run.operations())[0]?.attempts).toMatchObject([{ number: 1, status: "completed" }]);
});

test("K1 a cancellation that arrives while the run is being taken up for the first time reaches it", async () => {
  const waiting = workflow("waiting", async (ctx) => ctx.waitForSignal("never"));
  const engine = await open((store) => ({
    claim: async (request) => {
      const result = await store.claim(request);
      const [claim] = result.runs;
      if (claim?.run.turns === 0) void sendSoon(store, claim.run.id);
      return result;
    },
  }));
  await engine.worker({ workflows: [waiting] });
  const run = await engine.start(waiting, undefined, { idempotencyKey: "claimed, not begun here" });
  await expect(run.result({ timeout: "5s" })).rejects.toThrow(/cancel/i);
  expect((await run.describe()).status).toBe("canceled");
});

/** After the claim has been taken, before its first turn. */
async function sendSoon(store: Store, runId: string): Promise<void> {
  for (let i = 0; i < 5; i++) await Promise.resolve();
  await store.send([{ runId, message: { job: { type: "cancel", reason: undefined } } }]);
}

test("W3 a worker that stood still until others had its run begins no step of it", async () => {
  const awake = gate();
  const later = () => awake.passed.then(() => new Promise((resolve) => setTimeout(resolve, 10)));
  let isAsleep = false;
  const begun: string[] = [];
  const two = workflow("two", async (ctx) => {
    await ctx.step("first", () => "done");
    await ctx.step("second", ({ attempt }) => {
      begun.push(`second ${attempt}`);
      return "done";
    });
  });
  const shared = new MemoryStore();
  const dozing = await open(
    (store) => ({
      // It falls asleep as the second step is committed: nothing reaches it, and it asks for nothing.
      commit: async (turns) => {
        const results = await store.commit(turns);
        if (turns.some(({ turn }) => turn?.commands.some((command) => command.type === "step" && command.name === "second"))) {
          isAsleep = true;
          await awake.passed;
        }
        return results;
      },
      renew: async (...claims) => {
        if (isAsleep) await later();
        return store.renew(...claims);
      },
      claim: async (request) => {
        if (isAsleep) await later();
        return store.claim(request);
      },
    }),
    shared,
  );
  await dozing.worker({ workflows: [two], lease: 60 });
  const run = await dozing.start(two, undefined);
  await until(() => isAsleep);
  const other = await open(undefined, shared);
  await other.worker({ workflows: [two], lease: 60 });
  await until(() => begun.length > 0);
  awake.open();
  await run.result({ timeout: "5s" });
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
  expect(begun).toEqual(["second 2"]);
});
