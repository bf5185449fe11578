// Conformance of hosts: activities, wherever they run.
// Owns: tests of their attempts and limits.
// Invariants tested: D8, D11, K7.

import { activity, RetryLaterError, workflow } from "@holdfast/core";
import { failure, type Suite, same } from "./suite.ts";

export function activities({ test, t }: Suite): void {
  const resize = activity(
    "resize",
    async ({ width }: { width: number }, info) => {
      info.heartbeat({ done: info.attempt });
      if (info.attempt < 3) throw new Error("busy");
      return { width: width * 2, last: info.lastHeartbeat };
    },
    { retry: { initialInterval: t("1s"), jitter: 0 } },
  );
  const image = workflow("image", (ctx) => ctx.activity(resize, { width: 5 }));

  const never = activity("never", () => new Promise<void>(() => {}), { retry: { maxAttempts: 2, initialInterval: t("1s"), jitter: 0 } });

  const throttled = activity(
    "throttled",
    (_: undefined, info) => {
      if (info.attempt === 1) throw new RetryLaterError("429", { after: t("1h") });
      return info.attempt;
    },
    { retry: { initialInterval: t("1s"), maxInterval: t("2s"), jitter: 0 } },
  );

  test(
    "D8 D11 a RetryLaterError of an activity says when the next attempt is, whatever its policy says",
    async (host) => {
      const call = workflow("call", (ctx) => ctx.activity(throttled, undefined));
      const run = await host.start(call);
      await host.skip("59m59s");
      same(await run.status(), "sleeping");
      await host.skip("2s");
      same(await run.result(), 2);
    },
    { activities: [throttled], needs: "exact-clock" },
  );
  test(
    "K7 D8 D11 time that an activity asks for beyond the deadline of its run fails the run now",
    async (host) => {
      const call = workflow("call", (ctx) => ctx.activity(throttled, undefined));
      const run = await host.start(call, undefined, { deadline: "30m" });
      await host.skip("2s");
      same((await failure(run.result())).cause.code, "HF_DEADLINE_EXCEEDED");
    },
    { activities: [throttled] },
  );
  test(
    "D8 D11 time that an activity asks for beyond its scheduleToClose fails it now",
    async (host) => {
      const call = workflow("call", async (ctx) => {
        const { ok } = await ctx.try("call", (inner) => inner.activity(throttled, undefined, { scheduleToClose: t("10m") }));
        return [ok, ctx.now().getTime() - ctx.run.startedAt.getTime() < 600_000];
      });
      same(await (await host.start(call)).result(), [false, true]);
    },
    { activities: [throttled] },
  );
  test(
    "D11 they run here, with retries and what the attempt before reported",
    async (host) => {
      const run = await host.start(image);
      await host.crash();
      for (let i = 0; i < 5; i++) await host.skip("2s");
      same(await run.result(), { width: 10, last: { done: 2 } });
    },
    { activities: [resize] },
  );
  test(
    "D11 timeouts: of one attempt, of all together, of heartbeats",
    async (host) => {
      const calls = workflow("calls", async (ctx) => {
        const outcome = async (options: object) => {
          const start = ctx.now().getTime();
          const { ok } = await ctx.try("call", (inner) => inner.activity(never, undefined, options));
          return [ok, ctx.now().getTime() - start];
        };
        return [
          await outcome({ startToClose: t("5s") }),
          await outcome({ scheduleToClose: t("7s") }),
          await outcome({ heartbeat: t("3s") }),
        ];
      });
      const run = await host.start(calls);
      await host.skip("1m");
      same(await run.result(), [[false, 11_000], [false, 7_000], [false, 7_000]]); // biome-ignore format: a table
    },
    { activities: [never], needs: "exact-clock" },
  );
}
