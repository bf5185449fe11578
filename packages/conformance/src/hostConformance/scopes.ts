// Conformance of hosts: branches, races, loops and cells.
// Owns: tests of structured concurrency.
// Invariants tested: C1–C3, C6, C7, L1, L3, L4.

import assert from "node:assert/strict";
import { FatalError, JoinError, Loop, workflow } from "@holdfast/core";
import { failure, replayed, type Suite, same } from "./suite.ts";

export function scopes({ test, t, clock }: Suite): void {
  test("C2 join runs branches side by side, and fails with every error after all have ended", async (host) => {
    const all = workflow("all", async (ctx, fail: boolean) =>
      ctx.join("all", {
        user: (branch) => branch.step("get", async () => "Ada"),
        posts: async (branch) => {
          await branch.sleep(t("1m"));
          return branch.step("get", async () => {
            if (fail) throw new FatalError("no posts");
            return ["post"];
          });
        },
      }),
    );
    const good = await host.start(all, false, { id: "good" });
    const bad = await host.start(all, true, { id: "bad" });
    await host.crash();
    await host.skip("1m");
    same(await good.result(), { user: "Ada", posts: ["post"] });
    const error = await failure(bad.result());
    assert.ok(error.cause instanceof JoinError);
    same(Object.keys(error.cause.errors), ["posts"]);
  });

  test("C3 C7 race gives the first to succeed; the other is cancelled, also when it is waiting for a retry", async (host) => {
    const first = workflow("first", async (ctx) => {
      const { winner, value } = await ctx.race("first", {
        work: async (branch) =>
          branch.step(
            "work",
            () => {
              throw new Error("busy");
            },
            { retry: { initialInterval: t("1h") } },
          ),
        timeout: async (branch) => {
          await branch.sleep(t("1m"));
          return "too late";
        },
      });
      await ctx.sleep(t("2h"));
      return [winner, value];
    });
    const run = await host.start(first);
    await host.skip("1m");
    await host.crash();
    for (let i = 0; i < 2; i++) await host.skip("1h");
    same(await run.result(), ["timeout", "too late"]);
  });

  test("C1 parallel and Promise.all take what comes, in any order", async (host) => {
    const mixed = workflow("mixed", async (ctx) => {
      const [a, b] = await Promise.all([ctx.step("a", async () => "a"), ctx.step("b", async () => "b")]);
      const settled = await ctx.parallel([
        (branch) => branch.step("x", async () => "x"),
        async () => {
          throw new Error("y");
        },
      ]);
      return [a, b, settled.map(({ status }) => status)];
    });
    same(await (await host.start(mixed)).result(), ["a", "b", ["fulfilled", "rejected"]]);
  });

  test("L1 L3 L4 a loop goes on from its last commit and keeps a bounded history", async (host) => {
    const ran: number[] = [];
    const poll = workflow("poll", (ctx) =>
      ctx.loop({ name: "poll", state: { n: 0 }, commitInterval: 2, historyEvery: 4, historyKeep: 2 }, async (body, { n }) => {
        await body.step("look", () => ran.push(n));
        await body.sleep(t("1s"));
        return n === 59 ? Loop.break(n) : Loop.continue({ n: n + 1 });
      }),
    );
    const run = await host.start(poll);
    const sizes: number[] = [];
    for (let i = 0; i < 70 && (await run.status()) !== "completed"; i++) {
      sizes.push((await run.history()).turns.length);
      await host.skip("1s");
      if (i % 9 === 0) await host.crash();
    }
    same(await run.result(), 59);
    same(
      ran,
      Array.from({ length: 60 }, (_, i) => i),
    );
    // By a real clock it is looked at just before a loop trims or just after, as it happens.
    const most = Math.max(...sizes.slice(1, 25)) * (clock === "virtual" ? 1 : 2);
    assert.ok(Math.max(...sizes.slice(25)) <= most, sizes.join());
    await replayed(run, poll);
  });

  test("C6 conditions and ivars wake units of the same run", async (host) => {
    const cell = workflow("cell", async (ctx) => {
      const value = ctx.ivar<string>();
      const result = await ctx.join("both", {
        waits: async (branch) => (await branch.condition(() => value.tryRead()))?.toUpperCase(),
        fills: async (branch) => value.put(await branch.step("get", async () => "hello")),
      });
      return result.waits;
    });
    same(await (await host.start(cell)).result(), "HELLO");
  });
}
