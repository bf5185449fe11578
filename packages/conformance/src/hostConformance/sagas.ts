// Conformance of hosts: sagas.
// Owns: tests of rollbacks.
// Invariants tested: S1–S3, K7, D8.

import assert from "node:assert/strict";
import { inspect } from "node:util";
import { FatalError, RetryLaterError, RollbackError, workflow } from "@holdfast/core";
import { fails, failure, type Suite, same } from "./suite.ts";

export function sagas({ test, t }: Suite): void {
  test("S1 S2 a saga undoes what succeeded, last first, across a crash; status rolling_back meanwhile", async (host) => {
    const undone: string[] = [];
    const trip = workflow("trip", async (ctx) => {
      for (const part of ["flight", "hotel", "car"]) {
        await ctx.step(part, async () => part, {
          rollback: async (name, { attempt }) => {
            if (name === "hotel" && attempt === 1) await new Promise(() => {}); // until the process dies
            undone.push(name);
          },
        });
      }
      throw new RollbackError("no weather");
    });
    const run = await host.start(trip);
    same(undone, ["car"]);
    same(await run.status(), "rolling_back");
    await host.crash();
    await fails(run.result(), /no weather/);
    same(undone, ["car", "hotel", "flight"]);
    await fails(run.recover(), "HF_NOT_RESUMABLE");
  });

  test(
    "S1 D8 a rollback that asks for time gets it, also past the deadline of its run",
    async (host) => {
      const undone: string[] = [];
      const trip = workflow("trip", async (ctx) => {
        await ctx.step("book", async () => "booked", {
          rollback: async (name, { attempt }) => {
            if (attempt === 1) throw new RetryLaterError("429", { after: t("1h") });
            undone.push(name);
          },
        });
        throw new RollbackError("no weather");
      });
      const run = await host.start(trip, undefined, { deadline: "10m" });
      await host.skip("59m59s");
      same([undone, await run.status()], [[], "rolling_back"]);
      await host.skip("1s");
      same([undone, await run.status()], [["booked"], "failed"]);
    },
    { needs: "exact-clock" },
  );
  test("S1 rollbackCheckpoint discards what came before; a step that failed is not undone", async (host) => {
    const undone: string[] = [];
    const w = workflow("w", async (ctx) => {
      const rollback = async (name: string) => void undone.push(name);
      await ctx.step("kept", async () => "kept", { rollback });
      ctx.rollbackCheckpoint("kept");
      await ctx.step("undone", async () => "undone", { rollback });
      await ctx.step("failed", () => Promise.reject(new FatalError("no")), { rollback });
    });
    const run = await host.start(w);
    same(await run.status(), "failed");
    same(undone, ["undone"]);
  });

  test("S1 a run that completes rolls nothing back", async (host) => {
    const undone: string[] = [];
    const w = workflow("w", (ctx) => ctx.step("s", async () => "s", { rollback: async (name) => void undone.push(name) }));
    const run = await host.start(w);
    same([await run.result(), undone], ["s", []]);
  });

  test("S2 a rollback is retried like any step; one that fails for good leaves the run failed with both errors", async (host) => {
    const attempts: number[] = [];
    const w = workflow("w", async (ctx) => {
      await ctx.step("book", async () => "room", {
        rollback: (_, { attempt }) => {
          attempts.push(attempt);
          throw new Error("hotel is closed");
        },
        retry: { maxAttempts: 2, initialInterval: t("1h"), jitter: 0 },
      });
      throw new FatalError("no weather");
    });
    const run = await host.start(w);
    same([await run.status(), attempts], ["rolling_back", [1]]);
    await host.crash();
    await host.skip("1h");
    same([await run.status(), attempts], ["failed", [1, 2]]);
    const told = inspect(await failure(run.result()), { depth: 10 });
    assert.match(told, /no weather/);
    assert.match(told, /hotel is closed/);
  });

  test("S3 cancellation rolls back only if the workflow asks for it", async (host) => {
    const undone: string[] = [];
    const make = (name: string, rollbackOnCancel: boolean) =>
      workflow({ name, rollbackOnCancel }, async (ctx) => {
        await ctx.step("s", async () => name, { rollback: async (done) => void undone.push(done) });
        await ctx.sleep(t("1d"));
      });
    for (const asks of [true, false]) {
      const id = asks ? "asks" : "does not";
      const run = await host.start(make(asks ? "asks" : "not", asks), undefined, { id });
      await run.cancel();
      same(await run.status(), "canceled");
    }
    same(undone, ["asks"]);
  });

  test(
    "K7 S1 a deadline that strikes while rollbacks run leaves them to run to their end",
    async (host) => {
      const undone: string[] = [];
      const w = workflow("w", async (ctx) => {
        for (const name of ["first", "second"])
          await ctx.step(name, async () => name, {
            rollback: async (done, { attempt }) => {
              if (done === "second" && attempt === 1) throw new Error("not yet");
              undone.push(done);
            },
            retry: { initialInterval: t("2h"), jitter: 0 },
          });
        throw new RollbackError("on purpose");
      });
      const run = await host.start(w, undefined, { deadline: "1h" });
      same([await run.status(), undone], ["rolling_back", []]);
      await host.skip("1h");
      same([await run.status(), undone], ["rolling_back", []]);
      await host.crash();
      await host.skip("1h");
      same([await run.status(), undone], ["failed", ["second", "first"]]);
    },
    { needs: "exact-clock" },
  );
}
