// W1, W2, W4–W6: what workers take, how they stop, what waiting costs.

import { activity, signal, workflow } from "holdfast";
import type { ClaimRequest } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { aborted, enginesOn, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("workers on %s", (store) => {
  const engines = enginesOn(store);

  test("W1 no more runs in progress than there is room for; a free slot takes the next at once", async () => {
    const engine = await engines.open();
    let now = 0;
    let most = 0;
    const work = workflow("work", async (ctx) =>
      ctx.step("work", async () => {
        most = Math.max(most, ++now);
        await new Promise((resolve) => setTimeout(resolve, 2));
        now--;
      }),
    );
    await engine.worker({ workflows: [work], concurrency: 3 });
    const runs = await engine.startMany(
      work,
      Array.from({ length: 20 }, () => ({ input: undefined })),
    );
    await Promise.all(runs.map((run) => run.result()));
    expect(most).toBe(3);
  });

  test("W1 W5 runs that wait cost no slot", async () => {
    const engine = await engines.open();
    const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go"));
    const worker = await engine.worker({ workflows: [wait], concurrency: 1 });
    const runs = await engine.startMany(
      wait,
      Array.from({ length: 5 }, () => ({ input: undefined })),
    );
    await until(async () => (await engine.count()).sleeping === 5);
    await until(() => worker.active === 0);
    await Promise.all(runs.map((run, i) => run.signal("go", i)));
    expect(await Promise.all(runs.map((run) => run.result()))).toEqual([0, 1, 2, 3, 4]);
  });

  test("W1 only its queue, and only what it has code for", async () => {
    const engine = await engines.open();
    const [a, b] = [workflow("a", async () => "a"), workflow("b", async () => "b")];
    await engine.worker({ workflows: [a], queue: "one" });
    const runs = [
      await engine.start(a, undefined, { queue: "one" }),
      await engine.start(b, undefined, { queue: "one" }),
      await engine.start(a, undefined, { queue: "two" }),
    ];
    expect(await runs[0]?.result()).toBe("a");
    expect((await engine.list({ status: "pending" })).runs.map(({ id }) => id).sort()).toEqual([runs[1]?.id, runs[2]?.id].sort());
    await engine.worker({ workflows: [a], queue: "two" });
    await engine.worker({ workflows: [b], queue: "one" });
    expect(await Promise.all(runs.map((run) => run.result()))).toEqual(["a", "b", "a"]);
  });

  test("W2 a run that resumes is not starved by new ones", async () => {
    const engine = await engines.open();
    const order: string[] = [];
    const wait = workflow("wait", async (ctx) => {
      await ctx.waitForSignal("go");
      await ctx.step("note", () => void order.push("resumed"));
    });
    const fresh = workflow("fresh", async (ctx) => ctx.step("note", () => void order.push("new")));
    const first = await engine.worker({ workflows: [wait] });
    const run = await engine.start(wait, undefined);
    await until(async () => (await run.describe()).status === "sleeping");
    await first.stop();
    await run.signal("go");
    for (let i = 0; i < 10; i++) await engine.start(fresh, undefined);
    await engine.worker({ workflows: [wait, fresh], concurrency: 1 });
    await until(async () => (await engine.count()).completed === 11);
    expect(order[0]).toBe("resumed");
  });

  test("W4 stop lets running steps finish and commits; others go on at once, and run nothing twice", async () => {
    const first = await engines.open();
    const second = await engines.open();
    const entered = new Gate();
    const held = new Gate<string>();
    const ran: string[] = [];
    const chain = workflow("chain", async (ctx) => {
      const one = await ctx.step("one", async ({ attempt }) => {
        ran.push(`one ${attempt}`);
        entered.open();
        return held.passed;
      });
      await ctx.step("two", ({ attempt }) => void ran.push(`two ${attempt}`));
      return one;
    });
    const worker = await first.worker({ workflows: [chain] });
    const run = await second.start(chain, undefined);
    await entered.passed;
    const stopped = worker.stop();
    held.open("finished");
    await stopped;
    expect(worker.active).toBe(0);
    expect(ran).toEqual(["one 1"]);
    const other = await second.worker({ workflows: [chain] });
    expect(await run.result()).toBe("finished");
    // A step that was recorded as the worker stopped begins with attempt 1, elsewhere.
    expect(ran).toEqual(["one 1", "two 1"]);
    const [one, two] = await run.operations();
    expect(one?.attempts).toMatchObject([{ number: 1, status: "completed", workerId: worker.id }]);
    expect(two?.attempts).toMatchObject([{ number: 1, status: "completed", workerId: other.id }]);
  });

  test("W4 after the grace period steps are notified, and the run is free at once for others", async () => {
    const first = await engines.open();
    const second = await engines.open();
    const entered = new Gate();
    const told = new Gate<unknown>();
    const slow = workflow("slow", async (ctx) =>
      ctx.step("slow", async ({ attempt, signal }) => {
        if (attempt > 1) return "second";
        signal.addEventListener("abort", () => told.open(signal.reason));
        entered.open();
        return new Promise<string>(() => {});
      }),
    );
    const worker = await first.worker({ workflows: [slow], gracePeriod: 20 });
    const run = await second.start(slow, undefined);
    await entered.passed;
    await first.close(); // lease: 30 s
    expect(await told.passed).toMatchObject({ code: "HF_SHUTDOWN" });
    const other = await second.worker({ workflows: [slow] });
    expect(await run.result()).toBe("second");
    expect((await run.operations())[0]?.attempts).toMatchObject([
      { number: 1, status: "lost", workerId: worker.id },
      { number: 2, status: "completed", workerId: other.id },
    ]);
  });

  test("W4 D12 an attempt that was released is lost, whichever it was", async () => {
    const first = await engines.open();
    const second = await engines.open();
    const entered = new Gate();
    const slow = workflow("slow", async (ctx) =>
      ctx.step(
        "slow",
        async ({ attempt }) => {
          if (attempt === 1) throw new Error("not yet");
          if (attempt === 3) return "third";
          entered.open();
          return new Promise<string>(() => {});
        },
        { retry: { initialInterval: 1 } },
      ),
    );
    const worker = await first.worker({ workflows: [slow], gracePeriod: 0 });
    const run = await second.start(slow, undefined);
    await entered.passed;
    await worker.stop();
    await second.worker({ workflows: [slow] });
    expect(await run.result()).toBe("third");
    expect((await run.operations())[0]?.attempts.map(({ number, status }) => [number, status])).toEqual([
      [1, "failed"],
      [2, "lost"],
      [3, "completed"],
    ]);
  });

  test("W4 activities finish within the grace period too", async () => {
    const engine = await engines.open();
    const entered = new Gate();
    const held = new Gate<string>();
    const act = activity("act", async () => {
      entered.open();
      return held.passed;
    });
    const work = workflow("work", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [work] });
    const worker = await engine.worker({ workflows: [], activities: [act] });
    const run = await engine.start(work, undefined);
    await entered.passed;
    const stopped = worker.stop();
    held.open("finished");
    await stopped;
    expect(await run.result()).toBe("finished");
  });

  test("W4 after the grace period activities are notified, and others attempt them again", async () => {
    const engine = await engines.open();
    const entered = new Gate();
    const told = new Gate<unknown>();
    const act = activity("act", async (_: undefined, { attempt, signal }) => {
      if (attempt > 1) return "second";
      signal.addEventListener("abort", () => told.open(signal.reason));
      entered.open();
      return new Promise<string>(() => {});
    });
    const work = workflow("work", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [work] });
    const worker = await engine.worker({ workflows: [], activities: [act], gracePeriod: 0 });
    const run = await engine.start(work, undefined);
    await entered.passed;
    await worker.stop();
    expect(await told.passed).toMatchObject({ code: "HF_SHUTDOWN" });
    await engine.worker({ workflows: [], activities: [act] });
    expect(await run.result()).toBe("second");
  });

  test("W4 a stopped worker claims nothing more; stopping twice, or with nothing to do, is fine", async () => {
    const engine = await engines.open();
    const echo = workflow("echo", async (_ctx, input: number) => input);
    const worker = await engine.worker({ workflows: [echo] });
    await Promise.all([worker.stop(), worker.stop()]);
    await worker.stop();
    const run = await engine.start(echo, 1);
    expect((await run.describe()).status).toBe("pending");
    {
      await using again = await engine.worker({ workflows: [echo] });
      expect(await run.result()).toBe(1);
      expect(again.id).toMatch(/^worker-/);
    }
    expect((await (await engine.start(echo, 2)).describe()).status).toBe("pending");
  });

  test("W4 runs that stop between turns are released: another worker has them at once", async () => {
    const first = await engines.open();
    const second = await engines.open();
    const steps = workflow("steps", async (ctx) => {
      for (let i = 0; i < 50; i++) await ctx.step("step", () => i);
      return "done";
    });
    const worker = await first.worker({ workflows: [steps] });
    const runs = await first.startMany(
      steps,
      Array.from({ length: 5 }, () => ({ input: undefined })),
    );
    await until(async () => (await runs[0]?.describe())?.status === "running");
    await worker.stop();
    await second.worker({ workflows: [steps] });
    for (const run of runs) {
      expect(await second.run(run.id).result()).toBe("done");
      for (const { attempts } of await second.run(run.id).operations())
        expect(attempts).toMatchObject([{ number: 1, status: "completed" }]);
    }
  });

  test("W5 parked runs stay in memory: resuming replays nothing; those over cachedRuns are evicted and replayed", async () => {
    const wire = new Wire();
    const claims: boolean[] = [];
    wire.intercept("claim", async (pass, request: ClaimRequest) => {
      const result = await pass(request);
      claims.push(...result.runs.map(({ turns }) => turns === undefined));
      return result;
    });
    const engine = await engines.open({ wire });
    const begun: string[] = [];
    const wait = workflow("wait", async (ctx, name: string) => {
      begun.push(name);
      await ctx.waitForSignal("go");
      return name;
    });
    const worker = await engine.worker({ workflows: [wait], cachedRuns: 2 });
    const runs = [];
    for (const name of ["a", "b", "c"]) {
      const run = await engine.start(wait, name);
      runs.push(run);
      await until(async () => (await run.describe()).status === "sleeping" && worker.active === 0);
    }
    for (const run of runs.reverse()) {
      await run.signal("go");
      await run.result();
    }
    expect(claims).toEqual([true, true, false]); // c, b, and a: the least recently used
    expect(begun).toEqual(["a", "b", "c", "a"]);
  });

  test("W6 a run whose workflow no worker knows waits, and says so when asked", async () => {
    const engine = await engines.open();
    const order = workflow({ name: "order", version: "2" }, async () => "done");
    await engine.worker({ workflows: [workflow("other", async () => 1)] });
    const run = await engine.start(order, undefined);
    expect(await run.describe()).toMatchObject({ status: "pending", waitingFor: [expect.stringMatching(/no worker.* serves order@2/)] });
    await engine.worker({ workflows: [order] });
    expect(await run.result()).toBe("done");
  });

  test("W1 D9 a new run is taken at once by a worker of another engine", async () => {
    const engine = await engines.open();
    const client = await engines.open();
    const echo = workflow("echo", async (_ctx, input: number) => input);
    await engine.worker({ workflows: [echo] });
    for (let i = 0; i < 20; i++) expect(await (await client.start(echo, i)).result()).toBe(i);
  });

  test("W3 a run that is being created is not taken for lost when leases are renewed meanwhile", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const entered = new Gate();
    const held = new Gate();
    const long = workflow({ name: "long", signals: { poke: signal() } }, async (ctx) =>
      ctx.step("long", async () => {
        entered.open();
        await held.passed;
      }),
    );
    const quick = workflow("quick", async (ctx) => ctx.step("quick", () => "done"));
    await engine.worker({ workflows: [long, quick] }); // lease: 30 s
    const other = await engine.start(long, undefined);
    await entered.passed;
    let renewals = 0;
    wire.intercept("renew", async (pass, ...args) => {
      const result = await pass(...args);
      renewals++;
      return result;
    });
    wire.intercept("create", async (pass, runs) => {
      const before = renewals;
      await other.signal("poke");
      await until(() => renewals > before, "a renewal");
      await new Promise((resolve) => setImmediate(resolve)); // what it found out is known
      return pass(runs);
    });
    const claimed: string[] = [];
    wire.intercept("claim", async (pass, request) => {
      const result = await pass(request);
      claimed.push(...result.runs.map(({ run }) => run.workflow));
      return result;
    });
    expect(await (await engine.start(quick, undefined)).result({ timeout: "8s" })).toBe("done");
    expect(claimed).toEqual([]); // it was never given back
    held.open();
    await other.result();
  });

  test("W1 D9 a hint that comes while leases are being renewed is not passed over", async () => {
    const wire = new Wire();
    let hints = 0;
    wire.intercept("watch", (pass, onWakeup) =>
      pass((wakeup) => {
        if (wakeup.messages === true) hints++;
        onWakeup(wakeup);
      }),
    );
    const engine = await engines.open({ wire });
    const entered: Gate[] = [new Gate(), new Gate()];
    const race = workflow({ name: "race", signals: { go: signal() } }, async (ctx, n: number) => {
      const { winner } = await ctx.race("first", {
        long: (ctx) =>
          ctx.step("long", ({ signal }) => {
            entered[n]?.open();
            return aborted(signal);
          }),
        message: (ctx) => ctx.waitForSignal("go"),
      });
      return winner;
    });
    await engine.worker({ workflows: [race] }); // lease: 30 s, renewed every 10
    const runs = [await engine.start(race, 0), await engine.start(race, 1)] as const;
    await Promise.all(entered.map(({ passed }) => passed));
    const read = new Gate();
    const answered = new Gate();
    wire.intercept("renew", async (pass, ...args) => {
      wire.intercept("renew", undefined);
      const result = await pass(...args);
      read.open();
      await answered.passed;
      return result;
    });
    await runs[0].signal("go");
    await read.passed; // this renewal will not tell of what comes now
    const before = hints;
    await runs[1].signal("go");
    await until(() => hints > before, "a hint");
    answered.open();
    for (const run of runs) expect(await run.result({ timeout: "8s" })).toBe("message");
  });
});
