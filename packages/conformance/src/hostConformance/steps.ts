// Conformance of hosts: steps, their attempts, time and values.
// Owns: tests of what a run computes by itself.
// Invariants tested: D6, D7, D8, D10, K1, K7, K8, P6, P7, P8, X11.

import assert from "node:assert/strict";
import { DeadlineExceededError, FatalError, RetryLaterError, RunFailedError, StepFailedError, workflow } from "@holdfast/core";
import { fails, failure, type Suite, same, says } from "./suite.ts";

export function steps({ test, t }: Suite): void {
  test("D6 steps run once, in order, and their values are those that were recorded", async (host) => {
    const ran: string[] = [];
    const order = workflow("order", async (ctx, amount: number) => {
      const reserved = await ctx.step("reserve", async () => {
        ran.push("reserve");
        return { at: new Date(5), tags: new Set(["a"]), none: undefined };
      });
      await ctx.sleep(t("1h"));
      const charged = await ctx.step("charge", () => {
        ran.push("charge");
        return amount * 2;
      });
      return { reserved, charged };
    });
    const run = await host.start(order, 21);
    await host.crash();
    await host.skip("1h");
    same(await run.result(), { reserved: { at: new Date(5), tags: new Set(["a"]), none: undefined }, charged: 42 });
    same(ran, ["reserve", "charge"]);
  });

  test("D8 a step may pass on a copy of its info: it has the attempt, the key and the signal, and nothing else", async (host) => {
    const w = workflow("w", async (ctx) =>
      ctx.step("copies", (info) => Object.entries({ ...info }).map(([key, value]) => [key, typeof value])),
    );
    const run = await host.start(w);
    const expected = [
      ["attempt", "number"],
      ["idempotencyKey", "string"],
      ["signal", "object"],
    ];
    same(await run.result(), expected);
  });

  test("X11 D7 a step or rollback that throws what can't be read fails like any other, and ends nothing", async (host) => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const hostile: readonly (() => unknown)[] = [
      () => proxy,
      () => Object.defineProperty(new Error("no"), "cause", { get: () => assert.fail("a getter that throws") }),
      () => new Error("no", { cause: proxy }),
      () => Object.create(null),
      () => Symbol("no"),
    ];
    const bad = workflow("bad", async (ctx, which: number) => {
      const once = { retry: { maxAttempts: 1 } };
      const fail = (): never => {
        throw hostile[which]?.();
      };
      await ctx.step("kept", () => 1, { ...once, rollback: fail });
      await ctx.step("caught", fail, once).catch(() => {});
      await ctx.step("thrown", fail, { retry: { maxAttempts: 2, nonRetryable: async () => Promise.reject(new Error("async")) } as never });
    });
    for (const which of hostile.keys()) {
      const run = await host.start(bad, which, { id: `r${which}` });
      await host.skip("1h");
      same(await run.status(), "failed");
    }
    const fine = await host.start(
      workflow("fine", async (ctx) => ctx.step("one", () => 1)),
      undefined,
      { id: "fine" },
    );
    same(await fine.result(), 1);
  });

  test("X11 K1 a listener that throws when its signal aborts, of ctx or of a step, ends nothing", async (host) => {
    const aborted: string[] = [];
    const listen = (signal: AbortSignal, name: string): void => {
      signal.addEventListener("abort", () => {
        aborted.push(name);
        throw new Error(name);
      });
      signal.addEventListener("abort", async () => {
        throw new Error(`${name}, later`);
      });
      signal.onabort = () => {
        throw new Error(`${name}, too`);
      };
    };
    const waits = workflow("waits", async (ctx) => {
      listen(ctx.signal, "ctx");
      await ctx.step("hangs", ({ signal }) => {
        listen(signal, "step");
        return new Promise(() => {});
      });
    });
    const run = await host.start(waits);
    await run.cancel("enough");
    same(await run.status(), "canceled");
    same(aborted.sort(), ["ctx", "step"]);
  });

  test(
    "K8 a sleep survives the process, and is never early",
    async (host) => {
      const nap = workflow("nap", async (ctx) => {
        const before = ctx.now().getTime();
        await ctx.sleep(t("10m"));
        return ctx.now().getTime() - before;
      });
      const run = await host.start(nap);
      says(await run.waitingFor(), /sleep/);
      await host.skip("9m");
      await host.crash();
      await host.skip("59s");
      same(await run.status(), "sleeping");
      await host.skip("1s");
      same(await run.result(), 600_000);
    },
    { needs: "exact-clock" },
  );

  test(
    "D8 a RetryLaterError says when the next attempt is: not the policy, nor its cap, also after a crash",
    async (host) => {
      const limited = workflow("limited", async (ctx) => {
        const before = ctx.now().getTime();
        const attempt = await ctx.step(
          "call",
          ({ attempt: number }) => {
            if (number === 1) throw new RetryLaterError("429", { after: t("1h") });
            if (number === 2) throw new RetryLaterError("429", { after: 0 });
            return number;
          },
          { retry: { initialInterval: t("10s"), maxInterval: t("20s"), jitter: 0, maxAttempts: 3 } },
        );
        return [attempt, ctx.now().getTime() - before];
      });
      const run = await host.start(limited);
      await host.skip("59m");
      await host.crash();
      await host.skip("59s");
      same(await run.status(), "sleeping");
      await host.skip("1s");
      same(await run.result(), [3, 3_600_000]);
    },
    { needs: "exact-clock" },
  );
  test(
    "D8 an attempt that asks for time counts: after the last the step fails, with its error as the cause",
    async (host) => {
      const busy = workflow("busy", (ctx) =>
        ctx.step("call", () => Promise.reject(new RetryLaterError("429", { after: t("1m") })), { retry: { maxAttempts: 2 } }),
      );
      const run = await host.start(busy);
      await host.skip("59s");
      same(await run.status(), "sleeping");
      await host.skip("1s");
      const { cause } = await failure(run.result());
      assert.ok(cause instanceof StepFailedError);
      assert.ok(cause.cause instanceof RetryLaterError);
      same([cause.attempts, cause.cause.after, cause.cause.message], [2, 60_000, "429"]);
    },
    { needs: "exact-clock" },
  );
  test("K7 D8 time that is asked for beyond the deadline fails the run now", async (host) => {
    const busy = workflow("busy", (ctx) => ctx.step("call", () => Promise.reject(new RetryLaterError("429", { after: t("1h") }))));
    const run = await host.start(busy, undefined, { deadline: "30m" });
    const { cause } = await failure(run.result());
    assert.ok(cause instanceof DeadlineExceededError);
  });
  test(
    "D8 D10 a RetryLaterError says when a run is tried again as a whole",
    async (host) => {
      let calls = 0;
      const again = workflow({ name: "again", retry: { maxAttempts: 2, initialInterval: t("1s"), jitter: 0 } }, (ctx) => {
        const call = (): number => {
          if (++calls === 1) throw new RetryLaterError("not now", { after: t("1h") });
          return calls;
        };
        return ctx.step("call", call, { retry: { maxAttempts: 1 } });
      });
      const run = await host.start(again);
      await host.skip("59m59s");
      same(await run.status(), "sleeping");
      await host.skip("1s");
      same(await run.result(), 2);
    },
    { needs: "exact-clock" },
  );

  test("P6 P7 side effects, random draws and times are the same after a crash", async (host) => {
    let effects = 0;
    const dice = workflow("dice", async (ctx) => {
      const drawn = [ctx.random(), ctx.uuid(), await ctx.sideEffect(() => ++effects), ctx.now().getTime()];
      ctx.publishState(drawn);
      await ctx.waitForSignal("go");
      return drawn;
    });
    const run = await host.start(dice);
    const published = await run.state();
    await host.crash();
    await host.skip("1d");
    await run.signal("go");
    same(await run.result(), published);
    same(effects, 1);
  });

  test(
    "D8 a failed step is tried again when its time has come, by its policy",
    async (host) => {
      const attempts: number[] = [];
      const flaky = workflow("flaky", (ctx) =>
        ctx.step(
          "fetch",
          ({ attempt }) => {
            attempts.push(attempt);
            if (attempt < 3) throw new Error(`no ${attempt}`);
            return attempt;
          },
          { retry: { initialInterval: t("1m"), jitter: 0 } },
        ),
      );
      const run = await host.start(flaky);
      says(await run.waitingFor(), /^step fetch \(attempt 2 at 2026-01-01T00:01:00/);
      await host.crash();
      await host.skip("59s");
      same(attempts, [1]);
      await host.skip("1s");
      same(attempts, [1, 2]);
      await host.skip("2m");
      same(await run.result(), 3);
    },
    { needs: "exact-clock" },
  );

  test("D8 FatalError is not tried again, and a step that is used up fails with its cause", async (host) => {
    const doomed = workflow("doomed", async (ctx) => {
      await ctx.step("once", () => {
        throw new FatalError("never");
      });
    });
    const run = await host.start(doomed);
    const error = await failure(run.result());
    assert.ok(error instanceof RunFailedError);
    assert.ok(error.cause instanceof StepFailedError);
    same(error.cause.attempts, 1);
  });

  test("P8 a step whose result can't be stored fails without another attempt, and says so", async (host) => {
    let ran = 0;
    const odd = workflow("odd", (ctx) =>
      ctx.step("odd", () => {
        ran++;
        return { fn: () => 1 } as unknown;
      }),
    );
    const error = await failure((await host.start(odd)).result());
    assert.match(error.cause.cause.message, /^value\.fn in the result of step odd, which has run, can't be stored: it is a function/);
    same(ran, 1);
  });

  test("D8 an attempt that takes longer than its timeout is aborted and fails", async (host) => {
    const signals: AbortSignal[] = [];
    const slow = workflow("slow", (ctx) =>
      ctx.step(
        "wait",
        ({ signal: aborted }) => {
          signals.push(aborted);
          return new Promise(() => {});
        },
        { timeout: t("5s"), retry: { maxAttempts: 2, initialInterval: t("1s"), jitter: 0 } },
      ),
    );
    const run = await host.start(slow);
    for (let i = 0; i < 4; i++) await host.skip("5s");
    await fails(run.result(), /timeout of /);
    same(
      signals.map(({ aborted }) => aborted),
      [true, true],
    );
  });
}
