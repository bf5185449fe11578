// D4, D7, W3: claims are leases; who has lost one writes nothing, and others go on at the last commit.

import { workflow } from "holdfast";
import { StoreFullError, type TurnCommit } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

/** Leases of an engine on this wire are never renewed, and it does not learn of it. */
function withoutRenewals(wire: Wire): void {
  wire.intercept("renew", async (_pass, _worker, _lease, claims) => claims.map(() => ({ held: true, inbox: [] })));
}

/** An engine on this wire claims no run from now on, not even its own whose lease has run out: it would tell their steps (D4). */
function takesNothing(wire: Wire): void {
  wire.intercept("claim", async () => ({ now: Date.now(), runs: [], nextAt: undefined }));
}

describe.each(STORES)("recovery on %s", (store) => {
  const engines = enginesOn(store);

  test("W3 runs of a dead worker are claimed by others after the lease, and resume at the last commit", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const entered = new Gate();
    const never = new Gate();
    const ran: string[] = [];
    const chain = workflow("chain", async (ctx) => {
      const one = await ctx.step("one", () => {
        ran.push("one");
        return 1;
      });
      const two = await ctx.step("two", async ({ attempt }) => {
        ran.push("two");
        if (attempt > 1) return 2;
        entered.open();
        await never.passed;
        return 0;
      });
      return one + two;
    });
    await first.worker({ workflows: [chain], ...DOOMED });
    const run = await first.start(chain, undefined);
    await entered.passed;
    wire.cut();
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [chain] });
    expect(await second.run(run.id).result()).toBe(3);
    expect(ran).toEqual(["one", "two", "two"]);
  });

  test("W3 D4 a run that could not be given back, the disk being full, goes on when there is room, long before its lease ends", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    let isFull = false;
    const refused: string[] = [];
    wire.intercept("commit", (pass, turns) => {
      if (!isFull) return pass(turns);
      refused.push(...turns.map(({ lease }) => lease));
      return Promise.reject(new StoreFullError({ where: "the disk" }));
    });
    const work = workflow("work", async (ctx) => {
      await ctx.step("fill", ({ attempt }) => {
        isFull = attempt === 1;
      });
      return ctx.step("rest", () => "done");
    });
    await engine.worker({ workflows: [work], lease: "10m" });
    const run = await engine.start(work, undefined);
    await until(() => refused.filter((lease) => lease === "park").length > 1, "more than one try to give it back");
    isFull = false;
    expect(await run.result({ timeout: "10s" })).toBe("done");
  });

  test("W3 a lease is renewed while the worker lives: a long step is not taken away", async () => {
    const first = await engines.open();
    const second = await engines.open();
    const held = new Gate();
    const entered = new Gate();
    const claims: string[] = [];
    let runs = 0;
    const slow = workflow("slow", async (ctx) =>
      ctx.step("slow", async () => {
        runs++;
        entered.open();
        await held.passed;
      }),
    );
    const owner = await first.worker({ workflows: [slow], lease: "3s" });
    const run = await first.start(slow, undefined);
    await entered.passed;
    await second.worker({ workflows: [slow] });
    const began = (await run.describe()).availableAt?.getTime() ?? 0;
    await until(async () => {
      const { availableAt, workerId } = await run.describe();
      claims.push(workerId ?? "");
      return (availableAt?.getTime() ?? 0) > began + 3_000;
    });
    held.open();
    await run.result();
    expect(new Set(claims)).toEqual(new Set([owner.id]));
    expect(runs).toBe(1);
  });

  test("D4 a worker that lost its claim writes nothing, and its steps see their signal aborted", async () => {
    const wire = new Wire();
    withoutRenewals(wire);
    const tried: TurnCommit[] = [];
    let stale = 0;
    wire.intercept("commit", async (pass, turns) => {
      const results = await pass(turns);
      tried.push(...turns);
      stale += results.filter((answer) => answer !== "busy" && answer.status === "stale").length;
      return results;
    });
    const frozen = await engines.open({ wire });
    const entered = new Gate();
    const released = new Gate();
    const told = new Gate<unknown>();
    const ran: string[] = [];
    const work = (who: string) =>
      workflow("work", async (ctx) => {
        const [value] = await Promise.all([
          ctx.step("work", async ({ signal }) => {
            if (who === "other") return "other";
            signal.addEventListener("abort", () => told.open(signal.reason));
            entered.open();
            await released.passed;
            return "frozen";
          }),
          ctx.step("beside", async ({ signal }) => {
            if (who === "other") return;
            signal.addEventListener("abort", () => told.open(signal.reason));
            await new Promise(() => {});
          }),
        ]);
        await ctx.step("after", () => void ran.push(who));
        return value;
      });
    const frozenWork = work("frozen");
    await frozen.worker({ workflows: [frozenWork], ...DOOMED });
    const run = await frozen.start(frozenWork, undefined);
    await entered.passed;

    takesNothing(wire);
    const other = await engines.open();
    await engines.expireLeases();
    await other.worker({ workflows: [work("other")] });
    expect(await other.run(run.id).result()).toBe("other");
    const history = JSON.stringify(await other.run(run.id).history());

    released.open(); // it wakes, and has a result to write
    expect(await told.passed).toMatchObject({ code: "HF_CLAIM_LOST" });
    await until(() => stale > 0);
    expect(tried.at(-1)?.runId).toBe(run.id);
    expect(ran).toEqual(["other"]);
    expect(JSON.stringify(await other.run(run.id).history())).toBe(history);
    expect(await other.run(run.id).describe()).toMatchObject({ status: "completed", output: "other" });
  });

  test("D4 a worker that learns at a renewal that its lease is lost aborts the steps of the run", async () => {
    const wire = new Wire();
    withoutRenewals(wire);
    const frozen = await engines.open({ wire });
    const entered = new Gate();
    const told = new Gate<unknown>();
    const work = (mine: boolean) =>
      workflow("work", async (ctx) =>
        ctx.step("work", async ({ signal }) => {
          if (!mine) return "other";
          signal.addEventListener("abort", () => told.open(signal.reason));
          entered.open();
          return new Promise<string>(() => {});
        }),
      );
    const mine = work(true);
    const worker = await frozen.worker({ workflows: [mine], ...DOOMED, lease: "3s" }); // renews every second
    const run = await frozen.start(mine, undefined);
    await entered.passed;
    takesNothing(wire);
    const other = await engines.open();
    await engines.expireLeases();
    await other.worker({ workflows: [work(false)] });
    expect(await other.run(run.id).result()).toBe("other");
    wire.intercept("renew", undefined);
    expect(await told.passed).toMatchObject({ code: "HF_CLAIM_LOST" });
    await until(() => worker.active === 0);
  });

  test("K5 a canceled run stays canceled, whatever an older worker still tries to write", async () => {
    const wire = new Wire();
    withoutRenewals(wire);
    const frozen = await engines.open({ wire });
    const entered = new Gate();
    const released = new Gate();
    let stale = 0;
    wire.intercept("commit", async (pass, turns) => {
      const results = await pass(turns);
      stale += results.filter((answer) => answer !== "busy" && answer.status === "stale").length;
      return results;
    });
    const work = workflow("work", async (ctx) => {
      await ctx.step("work", async ({ attempt }) => {
        if (attempt > 1) return new Promise(() => {});
        entered.open();
        await released.passed;
        return undefined;
      });
      return "completed";
    });
    await frozen.worker({ workflows: [work], ...DOOMED });
    const run = await frozen.start(work, undefined);
    await entered.passed;
    takesNothing(wire);
    const other = await engines.open();
    await engines.expireLeases();
    await other.worker({ workflows: [work] });
    await other.run(run.id).cancel("enough");
    const error = await errorOf(other.run(run.id).result());
    expect(error.name).toBe("CanceledError");
    released.open();
    await until(() => stale > 0);
    expect((await other.run(run.id).describe()).status).toBe("canceled");
  });

  test("W3 many runs of a dead worker all go on elsewhere", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const nap = workflow("nap", async (ctx, n: number) => {
      const a = await ctx.step("a", () => n);
      await ctx.sleep(100);
      return a + (await ctx.step("b", () => 1));
    });
    await first.worker({ workflows: [nap], ...DOOMED });
    const runs = await first.startMany(
      nap,
      Array.from({ length: 30 }, (_, n) => ({ input: n })),
    );
    wire.cut();
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [nap] });
    const results = await Promise.all(runs.map(({ id }) => second.run(id, nap).result()));
    expect(results).toEqual(runs.map((_, n) => n + 1));
  });

  test("D7 V4 a run that kills its workers is blocked after its recoveries, is not tried by time, and can be resumed", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const sound = workflow("deadly", async (ctx) => ctx.step("work", () => "done"));
    // A store that tells of 101 recoveries stands for 101 workers that died.
    wire.intercept("claim", async (pass, request) => {
      const result = await pass(request);
      return { ...result, runs: result.runs.map((claim) => ({ ...claim, recovered: true, run: { ...claim.run, recoveries: 101 } })) };
    });
    const run = await engine.start(sound, undefined);
    await engine.worker({ workflows: [sound] });
    const error = await errorOf(run.result());
    expect(error).toMatchObject({ name: "RunBlockedError", runId: run.id });
    expect(error.message).toMatch(/recovered 101 times/);
    expect(await run.describe()).toMatchObject({ status: "blocked", availableAt: undefined });
    wire.intercept("claim", undefined);
    await run.resume();
    await until(async () => (await run.describe()).status === "completed");
    expect(await run.result()).toBe("done");
  });

  test("D2 W3 a run whose commit failed is given back: others, or the same worker, need not wait for its lease to end", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const ran: string[] = [];
    const told = new Gate<unknown>();
    const work = workflow("work", async (ctx) =>
      Promise.all([
        ctx.step("one", ({ attempt }) => void ran.push(`one ${attempt}`)).then(() => ctx.step("two", ({ attempt }) => attempt)),
        ctx.step("beside", ({ attempt, signal }) => {
          if (attempt > 1) return attempt;
          signal.addEventListener("abort", () => told.open(signal.reason));
          return new Promise<number>(() => {});
        }),
      ]),
    );
    await engine.worker({ workflows: [work] }); // lease: 30 s
    let failures = 0;
    wire.intercept("commit", (pass, commits) => {
      const isTurn = commits.some(({ turn }) => turn !== undefined);
      return isTurn && failures++ < 1 ? Promise.reject(new Error("The disk is full.")) : pass(commits);
    });
    const run = await engine.start(work, undefined);
    expect(await run.result({ timeout: "8s" })).toEqual([1, 2]);
    expect(ran[0]).toBe("one 1");
    expect(await told.passed).toMatchObject({ message: "The disk is full." });
    expect(engines.log.filter(({ message }) => message.startsWith("A commit failed")).length).toBe(1);
    expect((await run.operations()).find(({ name }) => name === "beside")?.attempts[0]).toMatchObject({ number: 1, status: "lost" });
  });

  test("W3 where it can't be given back either, the log says so", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const work = workflow("work", async (ctx) => ctx.step("one", () => {}));
    const worker = await engine.worker({ workflows: [work], ...DOOMED });
    wire.intercept("commit", () => Promise.reject(new Error("The disk is full.")));
    const run = await engine.start(work, undefined);
    await until(() => engines.log.some(({ message }) => message.includes("other workers can claim it when its lease expires")));
    await until(() => worker.active === 0);
    wire.intercept("commit", undefined);
    await engines.expireLeases();
    await engine.worker({ workflows: [work] });
    await run.result({ timeout: "8s" });
  });

  test("D4 a commit that turns out stale starts no step of it, and aborts those in flight", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const began: string[] = [];
    const told = new Gate<unknown>();
    const refused = new Gate();
    const work = workflow("work", async (ctx) =>
      Promise.all([
        ctx.step("beside", async ({ signal }) => {
          signal.addEventListener("abort", () => told.open(signal.reason));
          await new Promise(() => {});
        }),
        ctx.step(
          "flaky",
          ({ attempt }) => {
            began.push(`flaky ${attempt}`);
            throw new Error("not yet");
          },
          { retry: { initialInterval: 1 } },
        ),
        ctx.step("quick", () => {}).then(() => ctx.step("next", () => void began.push("next"))),
      ]),
    );
    // Another worker took the run when its first turn was durable: whatever this one commits from then on is stale.
    wire.intercept("commit", async (_pass, commits) => {
      takesNothing(wire);
      refused.open();
      return commits.map(() => ({ status: "stale" as const }));
    });
    const worker = await engine.worker({ workflows: [work], gracePeriod: 0 });
    await engine.start(work, undefined);
    await refused.passed;
    expect(await told.passed).toMatchObject({ code: "HF_CLAIM_LOST" });
    await until(() => worker.active === 0);
    expect(began).toEqual(["flaky 1"]);
    await engine.close(); // whatever it would still begin, it has by now
    expect(began).toEqual(["flaky 1"]);
  });

  test("D4 D8 a retry whose announcement is stale is not begun", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const began: number[] = [];
    const refused = new Gate();
    const work = workflow("work", async (ctx) =>
      ctx.step(
        "flaky",
        ({ attempt }) => {
          began.push(attempt);
          throw new Error("not yet");
        },
        { retry: { initialInterval: 1 } },
      ),
    );
    wire.intercept("commit", async (pass, commits) => {
      const isRetry = commits.some(({ attempts = [] }) => attempts.some(({ number, status }) => number === 2 && status === "running"));
      if (!isRetry) return pass(commits);
      takesNothing(wire);
      refused.open();
      return commits.map(() => ({ status: "stale" as const }));
    });
    const worker = await engine.worker({ workflows: [work], gracePeriod: 0 });
    await engine.start(work, undefined);
    await refused.passed;
    await until(() => worker.active === 0);
    await engine.close();
    expect(began).toEqual([1]);
  });
});
