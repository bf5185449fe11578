// Conformance of hosts: cancellation and termination.
// Owns: tests of how runs are stopped from outside.
// Invariants tested: K1–K6.

import assert from "node:assert/strict";
import { CanceledError, Receive, signal, workflow } from "@holdfast/core";
import { fails, failure, macrotasks, never, range, type Suite, same } from "./suite.ts";

export function cancellation({ test, t }: Suite): void {
  test("K1 K2 K3 cancellation reaches every unit, cleanup is shielded, the run ends canceled", async (host) => {
    const seen: string[] = [];
    const aborted: boolean[] = [];
    const long = workflow("long", async (ctx) => {
      try {
        await ctx.join("both", {
          sleeps: (branch) => branch.sleep(t("365d")),
          works: (branch) =>
            branch.step("work", ({ signal: told }) => {
              told.addEventListener("abort", () => aborted.push(true));
              return new Promise(() => {});
            }),
        });
      } catch (error) {
        seen.push((error as Error).constructor.name);
        await ctx.shield((inner) => inner.step("clean", async () => void seen.push("clean")));
        throw error;
      }
    });
    const run = await host.start(long);
    await run.cancel("enough");
    assert.ok((await failure(run.result())) instanceof CanceledError);
    await fails(run.result(), /enough/);
    same([seen, aborted], [["CanceledError", "clean"], [true]]);
  });

  test(
    "K1 D9 a cancel that is sent as its run ends is heard, or refused",
    async (host) => {
      const last = workflow("last", async (ctx) => {
        await ctx.sleep(t("1s"));
        return "done";
      });
      for (const moment of range(16)) {
        const run = await host.start(last, undefined, { id: `last-${moment}` });
        const skipped = host.skip("1s");
        await macrotasks(moment);
        const isAcknowledged = await run.cancel().then(
          () => true,
          () => false,
        );
        await skipped;
        await host.skip("1s");
        same(await run.status(), isAcknowledged ? "canceled" : "completed");
      }
    },
    { needs: "exact-clock" },
  );

  test("K1 K5 a cancel is not overwritten by a run in progress", async (host) => {
    let finish: (value: string) => void = () => {};
    const w = workflow("w", async (ctx) => {
      await ctx.step("long", () => new Promise<string>((resolve) => (finish = resolve)));
      await ctx.step("next", never); // it can't end before the cancel is there
      return "completed";
    });
    const run = await host.start(w);
    same(await run.status(), "running");
    // Both at once: the step ends and writes, the cancel is appended.
    const canceled = run.cancel("stop");
    finish("done");
    await canceled;
    await host.settle();
    same(await run.status(), "canceled");
    await fails(run.result(), /stop/);
    await host.crash();
    same(await run.status(), "canceled");
    await fails(run.signal("x"), "HF_RUN_CLOSED");
  });

  test("K2 new pausing operations throw at once, except in a shield; calls that don't pause still work", async (host) => {
    const w = workflow("w", async (ctx) => {
      const seen: unknown[] = [];
      try {
        await ctx.sleep(t("1d"));
      } catch {
        for (const call of [() => ctx.sleep(t("1s")), () => ctx.step("s", async () => 1), () => ctx.waitForSignal("x")])
          seen.push(await call().then(String, (error: Error) => error.name));
        seen.push(typeof ctx.random());
        seen.push(await ctx.shield((inner) => inner.step("clean", async () => "cleaned")));
        ctx.publishState(seen);
      }
    });
    const run = await host.start(w);
    await host.crash();
    await run.cancel();
    same(await run.status(), "canceled");
    same(await run.state(), ["CanceledError", "CanceledError", "CanceledError", "number", "cleaned"]);
  });

  test("K3 a cooperative run that caught its cancellation and returned is completed", async (host) => {
    const make = (cancellation: "cooperative" | undefined) =>
      workflow({ name: cancellation ?? "strict", ...(cancellation !== undefined && { cancellation }) }, async (ctx) => {
        try {
          await ctx.sleep(t("1d"));
          return "slept";
        } catch {
          return "cleaned up";
        }
      });
    const strict = await host.start(make(undefined), undefined, { id: "strict" });
    const cooperative = await host.start(make("cooperative"), undefined, { id: "cooperative" });
    for (const run of [strict, cooperative]) await run.cancel();
    same([await strict.status(), await cooperative.status()], ["canceled", "completed"]);
    same(await cooperative.result(), "cleaned up");
  });

  test("K3 a CanceledError without a cancel request is a failure", async (host) => {
    const w = workflow("w", async () => {
      throw new CanceledError("not requested");
    });
    const run = await host.start(w);
    same(await run.status(), "failed");
  });

  test("K4 a receive closes under cancellation: handlers in flight are cancelled and joined, then it throws", async (host) => {
    const log: string[] = [];
    const w = workflow({ name: "w", signals: { work: signal() } }, async (ctx) => {
      try {
        await ctx.receive(0, {
          signals: {
            work: (_, state) =>
              Receive.async(async (handler) => {
                try {
                  await handler.sleep(t("1d"));
                } catch (error) {
                  log.push(`handler ${(error as Error).name}`);
                  throw error;
                }
              }, state),
          },
        });
      } catch (error) {
        log.push(`receive ${(error as Error).name}`);
        throw error;
      }
    });
    const run = await host.start(w);
    await run.signal("work");
    await host.crash();
    await run.cancel();
    same(await run.status(), "canceled");
    same(log, ["handler CanceledError", "receive CanceledError"]);
  });

  test("K6 terminate ends a run at once, running no workflow code; its steps are notified", async (host) => {
    const log: string[] = [];
    const w = workflow("w", async (ctx) => {
      try {
        await ctx.step("work", ({ signal: told }) => {
          told.addEventListener("abort", () => log.push("told"));
          return never();
        });
      } finally {
        log.push("workflow code");
      }
    });
    const run = await host.start(w);
    await run.terminate("now");
    same(await run.status(), "terminated");
    await fails(run.result(), "HF_RUN_TERMINATED");
    await host.skip("1m");
    same(log, ["told"]);
  });
}
