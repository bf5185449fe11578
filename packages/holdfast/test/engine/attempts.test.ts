// D7, D8, D12: attempts count, retries wait as durable timers, and all of it can be looked at.

import { FatalError, RollbackError, RunFailedError, StepFailedError, StepTimeoutError, UnserializableValueError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { aborted, DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("attempts on %s", (store) => {
  const engines = enginesOn(store);

  test("D8 D12 a step that fails is tried again, and every attempt is kept", async () => {
    const engine = await engines.open();
    const seen: { attempt: number; key: string }[] = [];
    const flaky = workflow("flaky", async (ctx) =>
      ctx.step(
        "flaky",
        ({ attempt, idempotencyKey }) => {
          seen.push({ attempt, key: idempotencyKey });
          if (attempt < 3) throw new TypeError(`not yet (${attempt})`);
          return attempt;
        },
        { retry: { initialInterval: 5 } },
      ),
    );
    const worker = await engine.worker({ workflows: [flaky] });
    const run = await engine.start(flaky, undefined, { id: "r" });
    expect(await run.result()).toBe(3);
    expect(seen).toEqual([1, 2, 3].map((attempt) => ({ attempt, key: "r/flaky" })));
    const [operation] = await run.operations();
    expect(engines.log.map(({ level, message }) => `${level} ${message.replace(/in .*/, "in …")}`)).toEqual([
      'warn Attempt 1 of step "flaky" failed; next attempt in …',
      'warn Attempt 2 of step "flaky" failed; next attempt in …',
    ]);
    expect(engines.log[0]?.fields).toMatchObject({ runId: "r", workflow: "flaky", error: { name: "TypeError", message: "not yet (1)" } });
    expect(operation).toMatchObject({ kind: "step", name: "flaky", location: "flaky", status: "completed", output: 3 });
    expect(operation?.attempts).toMatchObject([
      { number: 1, status: "failed", error: { name: "TypeError", message: "not yet (1)" }, workerId: worker.id },
      { number: 2, status: "failed", error: { name: "TypeError", message: "not yet (2)" }, workerId: worker.id },
      { number: 3, status: "completed", error: undefined, workerId: worker.id },
    ]);
    for (const { startedAt, endedAt } of operation?.attempts ?? []) expect(endedAt?.getTime()).toBeGreaterThanOrEqual(startedAt.getTime());
  });

  test("D12 an operation that ends while it is read is shown with the attempt that ended it", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const [entered, held] = [new Gate(), new Gate()];
    const slow = workflow("slow", async (ctx) =>
      ctx.step(
        "slow",
        async ({ attempt }) => {
          if (attempt === 1) throw new Error("not yet");
          entered.open();
          await held.passed;
        },
        { retry: { initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [slow] });
    const run = await engine.start(slow, undefined);
    await entered.passed;
    wire.intercept("history", async (pass, ...asked) => {
      held.open();
      await run.result();
      return pass(...asked);
    });
    const [operation] = await run.operations();
    expect([operation?.status, operation?.attempts.map(({ status }) => status)]).toEqual(["completed", ["failed", "completed"]]);
  });

  test("F1 D12 a fork copies an operation that ends meanwhile with the attempt that ended it", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const [entered, held] = [new Gate(), new Gate()];
    const slow = workflow("slow", async (ctx) => {
      await ctx.step(
        "slow",
        async ({ attempt }) => {
          if (attempt === 1) throw new Error("not yet");
          entered.open();
          await held.passed;
        },
        { retry: { initialInterval: 1 } },
      );
      await ctx.step("next", () => 0);
    });
    await engine.worker({ workflows: [slow] });
    const run = await engine.start(slow, undefined);
    await entered.passed;
    wire.intercept("history", async (pass, ...asked) => {
      held.open();
      await run.result();
      return pass(...asked);
    });
    const fork = await run.fork({ before: "next" });
    await fork.result();
    const [operation] = await fork.operations();
    expect(operation?.attempts.map(({ status }) => status)).toEqual(["failed", "completed"]);
  });

  test("D8 after its last attempt a step fails with StepFailedError and its cause", async () => {
    const engine = await engines.open();
    const caught: unknown[] = [];
    const broken = workflow("broken", async (ctx) => {
      try {
        await ctx.step("broken", () => Promise.reject(new RangeError("no")), { retry: { maxAttempts: 2, initialInterval: 1 } });
      } catch (error) {
        caught.push(error);
        throw error;
      }
    });
    await engine.worker({ workflows: [broken] });
    const run = await engine.start(broken, undefined);
    const error = await errorOf(run.result());
    expect(error).toBeInstanceOf(RunFailedError);
    expect(error.cause).toBeInstanceOf(StepFailedError);
    expect(caught).toMatchObject([{ step: "broken", attempts: 2, cause: { name: "RangeError", message: "no" } }]);
    expect((await run.operations())[0]?.attempts.map(({ number, status }) => [number, status])).toEqual([
      [1, "failed"],
      [2, "failed"],
    ]);
  });

  test.each([
    ["FatalError", () => new FatalError("no"), {}],
    ["RollbackError", () => new RollbackError("no"), {}],
    ["what nonRetryable names", () => new RangeError("no"), { nonRetryable: ["RangeError"] }],
    ["what nonRetryable tests", () => new RangeError("no"), { nonRetryable: (error: Error) => error.message === "no" }],
  ])("D8 %s is never retried", async (_, error, retry) => {
    const engine = await engines.open();
    let attempts = 0;
    const fatal = workflow("fatal", async (ctx) =>
      ctx.step(
        "fatal",
        () => {
          attempts++;
          throw error();
        },
        { retry: { initialInterval: 1, ...retry } },
      ),
    );
    await engine.worker({ workflows: [fatal] });
    const run = await engine.start(fatal, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    expect(attempts).toBe(1);
  });

  test("P8 a step whose result can't be stored has run: it fails at once, and says where", async () => {
    const engine = await engines.open();
    let attempts = 0;
    const odd = workflow("odd", async (ctx) => ctx.step("odd", () => ({ list: [1, () => attempts++] })));
    await engine.worker({ workflows: [odd] });
    const error = await errorOf((await engine.start(odd, undefined)).result());
    const { cause } = error.cause as Error;
    expect(cause).toBeInstanceOf(UnserializableValueError);
    expect((cause as UnserializableValueError).path).toContain("list[1]");
  });

  test("D8 a retry is waited for in the store: the run parks, says so, and another engine makes the next attempt", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const tried: number[] = [];
    const flaky = workflow("flaky", async (ctx) =>
      ctx.step(
        "charge",
        ({ attempt }) => {
          tried.push(attempt);
          if (attempt === 1) throw new Error("not yet");
          return "charged";
        },
        { retry: { initialInterval: 400, jitter: 0 } },
      ),
    );
    await first.worker({ workflows: [flaky] });
    const run = await first.start(flaky, undefined);
    const info = await until(async () => {
      const seen = await run.describe();
      return seen.status === "sleeping" && seen;
    });
    expect(info.waitingFor).toEqual([expect.stringMatching(/^step charge \(attempt 2 at \d{4}-.*Z\)$/)]);
    expect(info.availableAt).toBeInstanceOf(Date);
    wire.cut();
    const second = await engines.open();
    await second.worker({ workflows: [flaky] });
    expect(await second.run(run.id).result()).toBe("charged");
    expect(tried).toEqual([1, 2]);
    // K8: not before its time.
    const [operation] = await second.run(run.id).operations();
    const [one, two] = operation?.attempts ?? [];
    expect(two?.startedAt.getTime()).toBeGreaterThanOrEqual((one?.endedAt?.getTime() ?? Number.NaN) + 400);
  });

  test("D7 an attempt that did not end counts, is kept as lost, and the next one has the next number", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const entered = new Gate();
    const tried: number[] = [];
    const never = new Gate<string>();
    const kill = workflow("kill", async (ctx) =>
      ctx.step("kill", ({ attempt }) => {
        tried.push(attempt);
        if (attempt === 1) {
          entered.open();
          return never.passed;
        }
        return "survived";
      }),
    );
    const dead = await first.worker({ workflows: [kill], ...DOOMED });
    const run = await first.start(kill, undefined);
    await entered.passed;
    wire.cut();
    const second = await engines.open();
    await engines.expireLeases();
    const alive = await second.worker({ workflows: [kill] });
    const found = second.run(run.id);
    expect(await found.result()).toBe("survived");
    expect(tried).toEqual([1, 2]);
    expect((await found.operations())[0]?.attempts).toMatchObject([
      { number: 1, status: "lost", workerId: dead.id },
      { number: 2, status: "completed", workerId: alive.id },
    ]);
    never.open("late");
  });

  test("D7 a step that kills its worker is stopped after its attempts", async () => {
    const tried: number[] = [];
    let entered = new Gate();
    const never = new Gate();
    const kill = workflow("kill", async (ctx) =>
      ctx.step(
        "kill",
        ({ attempt }) => {
          tried.push(attempt);
          entered.open();
          return never.passed;
        },
        { retry: { maxAttempts: 2 } },
      ),
    );
    for (let i = 0; i < 2; i++) {
      const wire = new Wire();
      const engine = await engines.open({ wire });
      await engine.worker({ workflows: [kill], ...DOOMED });
      if (i === 0) await engine.start(kill, undefined, { id: "r" });
      await entered.passed;
      wire.cut();
      await engines.expireLeases();
      entered = new Gate();
    }
    const engine = await engines.open();
    await engine.worker({ workflows: [kill] });
    const error = await errorOf(engine.run("r").result());
    expect(error.cause).toMatchObject({ name: "StepFailedError", attempts: 2 });
    expect(tried).toEqual([1, 2]);
    expect((await engine.run("r").operations())[0]?.attempts.map(({ number, status }) => [number, status])).toEqual([
      [1, "lost"],
      [2, "lost"],
    ]);
  });

  test("D7 retries after a crash go on from the attempts before it", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const entered = new Gate();
    const never = new Gate();
    const tried: number[] = [];
    const flaky = workflow("flaky", async (ctx) =>
      ctx.step(
        "flaky",
        ({ attempt }) => {
          tried.push(attempt);
          if (attempt === 2) {
            entered.open();
            return never.passed;
          }
          throw new Error(`no (${attempt})`);
        },
        { retry: { maxAttempts: 3, initialInterval: 1 } },
      ),
    );
    await first.worker({ workflows: [flaky], ...DOOMED });
    const run = await first.start(flaky, undefined);
    await entered.passed;
    wire.cut();
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [flaky] });
    await expect(second.run(run.id).result()).rejects.toThrow(RunFailedError);
    expect(tried).toEqual([1, 2, 3]);
    expect((await second.run(run.id).operations())[0]?.attempts.map(({ number, status }) => [number, status])).toEqual([
      [1, "failed"],
      [2, "lost"],
      [3, "failed"],
    ]);
  });

  test("D7 W5 a worker that has a run in memory sees the attempts that others made meanwhile", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const second = await engines.open();
    const tried: number[] = [];
    const flaky = workflow("flaky", async (ctx) =>
      ctx.step(
        "flaky",
        ({ attempt }) => {
          tried.push(attempt);
          if (attempt < 3) throw new Error("no");
        },
        { retry: { initialInterval: 60, backoff: 1, jitter: 0 } },
      ),
    );
    await first.worker({ workflows: [flaky] });
    const run = await first.start(flaky, undefined);
    const parked = (attempts: number) => until(async () => tried.length === attempts && (await run.describe()).status === "sleeping");
    wire.intercept("claim", async (pass, request) => pass({ ...request, serves: [] }));
    await parked(1);
    const other = await second.worker({ workflows: [flaky] });
    await until(() => tried.length >= 2);
    await other.stop();
    wire.intercept("claim", undefined);
    await run.result();
    expect(tried).toEqual([1, 2, 3]);
  });

  test("D8 an attempt over its timeout is aborted and is a failed attempt; its late result is dropped", async () => {
    const engine = await engines.open();
    const reasons: unknown[] = [];
    const late = new Gate<string>();
    const slow = workflow("slow", async (ctx) =>
      ctx.step(
        "slow",
        async ({ attempt, signal }) => {
          if (attempt === 2) return "in time";
          signal.addEventListener("abort", () => reasons.push(signal.reason));
          return late.passed;
        },
        { timeout: 20, retry: { initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [slow] });
    const run = await engine.start(slow, undefined);
    expect(await run.result()).toBe("in time");
    late.open("late");
    expect(reasons).toEqual([expect.any(StepTimeoutError)]);
    const [operation] = await run.operations();
    expect(operation).toMatchObject({ output: "in time" });
    expect(operation?.attempts).toMatchObject([{ status: "failed", error: { name: "StepTimeoutError" } }, { status: "completed" }]);
  });

  test("D12 operations come in order of emission, with their units, kinds and ends", async () => {
    const engine = await engines.open();
    const held = new Gate();
    const mixed = workflow("mixed", async (ctx) => {
      await ctx.step("first", () => 1);
      await ctx.sideEffect(() => "noted");
      await ctx.sleep("nap", 1);
      await ctx.race("either", {
        quick: (ctx) => ctx.step("quick", () => 2),
        slow: (ctx) => ctx.step("slow", ({ signal }) => aborted(signal)),
      });
      await Promise.all([ctx.step("last", () => held.passed), ctx.waitForSignal("go")]);
    });
    const worker = await engine.worker({ workflows: [mixed] });
    const run = await engine.start(mixed, undefined);
    const running = await until(async () => {
      const seen = await run.operations();
      return seen.some(({ name }) => name === "last") && seen;
    });
    expect(running.map(({ kind, name, status }) => [kind, name, status])).toEqual([
      ["step", "first", "completed"],
      ["sideEffect", "sideEffect", "completed"],
      ["sleep", "nap", "completed"],
      ["race", "either", "completed"],
      ["step", "quick", "completed"],
      ["step", "slow", "abandoned"],
      ["step", "last", "running"],
      ["signal", "go", "waiting"],
    ]);
    expect(running.map(({ location }) => location)).toContain("either/quick/quick");
    expect(running.find(({ name }) => name === "last")?.attempts).toMatchObject([
      { number: 1, status: "running", workerId: worker.id, endedAt: undefined },
    ]);
    held.open();
    await run.signal("go");
    await run.result();
    expect((await run.operations()).slice(-2).map(({ status }) => status)).toEqual(["completed", "completed"]);
  });

  test("D6 D12 an attempt has completed in the commit that records its outcome, not before", async () => {
    const wire = new Wire();
    const early: unknown[] = [];
    let recorded = 0;
    wire.intercept("commit", (pass, commits) => {
      for (const { attempts = [], turn } of commits) {
        for (const row of attempts.filter(({ status }) => status === "completed")) {
          if (turn?.jobs.some((job) => job.type === "resolve" && job.seq === row.seq) === true) recorded++;
          else early.push(row);
        }
      }
      return pass(commits);
    });
    const engine = await engines.open({ wire });
    const held = new Gate<string>();
    const entered = new Gate();
    const both = workflow("both", async (ctx) =>
      ctx.join("both", {
        flaky: (ctx) =>
          ctx.step(
            "flaky",
            async ({ attempt }) => {
              if (attempt === 1) throw new Error("not yet");
              entered.open();
              return held.passed;
            },
            { retry: { initialInterval: 1 } },
          ),
        other: async (ctx) => {
          await ctx.step("other", () => entered.passed);
          held.open("while this turn is computed"); // its commit comes before the turn that takes the outcome
          await ctx.step("after", () => {});
        },
      }),
    );
    await engine.worker({ workflows: [both], determinism: "off" });
    const run = await engine.start(both, undefined);
    expect(await run.result()).toMatchObject({ flaky: "while this turn is computed" });
    expect(early).toEqual([]);
    expect(recorded).toBe(1);
    const flaky = (await run.operations()).find(({ name }) => name === "flaky");
    expect(flaky?.attempts.map(({ number, status }) => [number, status])).toEqual([
      [1, "failed"],
      [2, "completed"],
    ]);
  });
});
