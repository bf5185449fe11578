// What one worker leaves behind, and how the next goes on from there.

import { realEnvironment } from "@holdfast/host";
import { Holdfast, Loop, workflow } from "holdfast";
import { afterEach, expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { Store, TurnCommit } from "../../src/store/port.ts";

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
  const deadline = performance.now() + 50_000;
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
  expect(await run.result({ timeout: "20s" })).toEqual(["slow", "flaky"]);
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
  expect(await run.result({ timeout: "20s" })).toBe(1);
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
  expect(await run.result({ timeout: "20s" })).toBe("done");
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
  await engine.worker({ workflows: [long], lease: 300 });
  const run = await engine.start(long, undefined);
  expect(await run.result({ timeout: "20s" })).toBeGreaterThan(1); // the lease of the second attempt may run out, too
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
  await engine.worker({ workflows: [booking], lease: 1_000 });
  const run = await engine.start(booking, undefined);
  expect(await run.result({ timeout: "20s" })).toBe("booked");
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
  await expect(run.result({ timeout: "20s" })).rejects.toThrow(/cancel/i);
  expect((await run.describe()).status).toBe("canceled");
});

/** After the claim has been taken, before its first turn. */
async function sendSoon(store: Store, runId: string): Promise<void> {
  for (let i = 0; i < 5; i++) await Promise.resolve();
  await store.send([{ runId, message: { job: { type: "cancel", reason: undefined } } }]);
}

/** A workflow whose attempts are listed, each with the name of the engine that made it. */
const listing = (who: string, begun: string[]) =>
  workflow("two", async (ctx) => {
    for (const name of ["first", "second"]) await ctx.step(name, ({ attempt }) => void begun.push(`${name} step by ${who}, ${attempt}`));
  });
/** A store whose process stands still from the end of a call that `falls` says until it is woken: nothing reaches it, it asks for nothing. */
function dozing(
  falls: (name: "create" | "commit", items: readonly unknown[]) => boolean,
  failures = 0,
  fails: "throws" | "is busy" = "throws",
) {
  const awake = gate();
  const state = { isAsleep: false, failedRenewals: 0, wake: awake.open };
  const whenAwake = async () => {
    if (!state.isAsleep) return;
    await awake.passed;
    await new Promise((resolve) => setTimeout(resolve, 10)); // what was on its way to it comes first
  };
  const doze = async <T>(name: "create" | "commit", items: readonly unknown[], write: () => Promise<T>): Promise<T> => {
    const result = await write();
    if (!state.isAsleep && falls(name, items)) {
      state.isAsleep = true;
      await awake.passed;
    }
    return result;
  };
  const change = (store: Store): Partial<Store> => ({
    create: (runs) => doze("create", runs, () => store.create(runs)),
    commit: (turns) => doze("commit", turns, () => store.commit(turns)),
    claim: (request) => whenAwake().then(() => store.claim(request)),
    renew: async (...claims) => {
      await whenAwake();
      if (state.isAsleep && state.failedRenewals++ < failures) {
        if (fails === "is busy") return claims[2].map(() => "busy" as const);
        throw new Error("not now");
      }
      return store.renew(...claims);
    },
  });
  return { state, change };
}
const opensSecond = (_: string, items: readonly unknown[]) =>
  (items as readonly TurnCommit[]).some(({ turn }) =>
    turn?.commands.some((command) => command.type === "step" && command.name === "second"),
  );

test.each([
  ["the commit of a step", opensSecond, 0, ["first step by me, 1", "second step by the other, 2"]],
  ["the commit of a step, and can't renew at once", opensSecond, 3, ["first step by me, 1", "second step by the other, 2"]],
  ["the commit of a step, and finds its run locked", opensSecond, 3, ["first step by me, 1", "second step by the other, 2"]],
  ["the creation of a run", (name: string) => name === "create", 0, ["first step by the other, 2", "second step by the other, 1"]],
] as const)(
  "W3 a worker that stood still after %s until others had the run begins no step of it",
  async (what, falls, failures, expected) => {
    const shared = new MemoryStore();
    const begun: string[] = [];
    const { state, change } = dozing(falls, failures, what.includes("locked") ? "is busy" : "throws");
    const first = await open(change, shared);
    const mine = listing("me", begun);
    await first.worker({ workflows: [mine], lease: 1_000 });
    const started = first.start(mine, undefined, { id: "run" });
    await until(() => state.isAsleep);
    const other = await open(undefined, shared);
    await other.worker({ workflows: [listing("the other", begun)] });
    await until(() => begun.some((step) => step.includes("the other")));
    state.wake();
    await (await started).result({ timeout: "20s" });
    await until(() => state.failedRenewals >= failures);
    await Promise.all(engines.splice(0).map((engine) => engine.close()));
    expect(begun).toEqual(expected);
  },
);

test("W3 W4 a worker that stood still, and stops before its lease is sure again, begins no step", async () => {
  const shared = new MemoryStore();
  const begun: string[] = [];
  const { state, change } = dozing(opensSecond, Number.POSITIVE_INFINITY);
  const first = await open(change, shared);
  const mine = listing("me", begun);
  await first.worker({ workflows: [mine], lease: 1_000 });
  const run = await first.start(mine, undefined);
  await until(() => state.isAsleep);
  const other = await open(undefined, shared);
  await other.worker({ workflows: [listing("the other", begun)] });
  await until(() => begun.some((step) => step.includes("the other")));
  state.wake();
  await run.result({ timeout: "20s" });
  await until(() => state.failedRenewals >= 3);
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
  expect(begun).toEqual(["first step by me, 1", "second step by the other, 2"]);
});

test("W3 a commit that was quick says nothing of a lease that was not renewed before it: no step begins that others may have", async () => {
  const lease = 2_000;
  const shared = new MemoryStore();
  const begun: string[] = [];
  const { state, change } = dozing(opensSecond);
  const first = await open((store) => ({ ...change(store), renew: () => Promise.reject(new Error("not now")) }), shared);
  const mine = workflow("two", async (ctx) => {
    await ctx.step("first", () => new Promise<void>((resolve) => setTimeout(resolve, lease * 0.65)));
    await ctx.step("second", ({ attempt }) => void begun.push(`second step by me, ${attempt}`));
  });
  await first.worker({ workflows: [mine], lease });
  const run = await first.start(mine, undefined);
  await until(() => state.isAsleep);
  const other = await open(undefined, shared);
  await other.worker({ workflows: [listing("the other", begun)] });
  await until(() => begun.length > 0);
  state.wake();
  await run.result({ timeout: "20s" });
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
  expect(begun).toEqual(["second step by the other, 2"]);
});

test("W3 D9 a worker that hears late, and then of messages without end, goes on", async () => {
  let slow = true;
  const begun: string[] = [];
  let hint = () => {};
  const engine = await open((store) => ({
    commit: async (turns) => {
      const results = await store.commit(turns);
      if (slow && opensSecond("commit", turns)) {
        slow = false;
        await new Promise((resolve) => setTimeout(resolve, 800));
      }
      return results;
    },
    renew: (...claims) => new Promise((resolve) => setTimeout(resolve, 2)).then(() => store.renew(...claims)),
    watch: (watcher) => {
      hint = () => watcher({ messages: true });
      return store.watch(watcher);
    },
  }));
  const steady = setInterval(() => hint(), 1);
  const mine = listing("me", begun);
  await engine.worker({ workflows: [mine], lease: 1_000 });
  await (await engine.start(mine, undefined)).result({ timeout: "20s" });
  clearInterval(steady);
  expect(begun).toEqual(["first step by me, 1", "second step by me, 1"]);
});

test("L4 a first turn that trims is counted as what it leaves", async () => {
  const store = new MemoryStore();
  const engine = await open(undefined, store);
  const trims = workflow("trims", async (ctx) => {
    await ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 1 }, async (inner, i) => {
      await inner.sideEffect(() => i);
      return i >= 20 ? Loop.break(i) : Loop.continue(i + 1);
    });
    await ctx.step("after", () => "done");
  });
  await engine.worker({ workflows: [trims] });
  await (await engine.start(trims, undefined, { id: "run" })).result({ timeout: "20s" });
  const turns = (await store.history("run")) ?? [];
  expect(turns.length).toBeGreaterThan(1);
  let before = 0;
  for (const { jobs, commands, historyLength } of turns) {
    expect(historyLength).toBe(before);
    before += jobs.length + commands.length;
  }
  expect((await store.get(["run"]))[0]?.historyLength).toBe(before);
});
