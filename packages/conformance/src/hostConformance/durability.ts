// Conformance of hosts: completed work is not repeated.
// Owns: tests of steps, attempts and transactions across the end of a process.
// Invariants tested: C2, D5, D6, D7, D12, X10, X11, Y4.

import assert from "node:assert/strict";
import { FatalError, workflow } from "@holdfast/core";
import { fails, never, type Suite, same } from "./suite.ts";

export function durability({ test, t }: Suite): void {
  test("C2 D6 a step without a value inside a join does not run again after a replay", async (host) => {
    let ran = 0;
    const w = workflow("w", async (ctx) => {
      const result = await ctx.join("both", {
        silent: (branch) => branch.step("nothing", async () => void ran++),
        other: (branch) => branch.waitForSignal("go"),
      });
      return "silent" in result && result.silent === undefined;
    });
    const run = await host.start(w);
    for (let i = 0; i < 3; i++) await host.crash();
    await run.signal("go");
    same(await run.result(), true);
    same(ran, 1);
  });

  test("Y4 a `try` that failed replays as failed, and takes the way it took", async (host) => {
    let attempts = 0;
    const w = workflow("w", async (ctx) => {
      const tried = await ctx.try("risk", (inner) =>
        inner.step("risk", async () => {
          if (++attempts === 1) throw new FatalError("first time");
          return "would succeed now";
        }),
      );
      await ctx.waitForSignal("go");
      return tried.ok ? tried.value : `failed: ${(tried.error.cause as Error).message}`;
    });
    const run = await host.start(w);
    await host.crash();
    await run.signal("go");
    same(await run.result(), "failed: first time");
    same(attempts, 1);
  });

  test("D7 a step that kills the process is stopped after its attempts", async (host) => {
    let begun = 0;
    const w = workflow("w", async (ctx) => {
      try {
        return await ctx.step(
          "deadly",
          () => {
            begun++;
            return never();
          },
          { retry: { maxAttempts: 3, initialInterval: 1 } },
        );
      } catch (error) {
        return (error as Error).message;
      }
    });
    const run = await host.start(w);
    for (let i = 0; i < 10; i++) {
      await host.crash();
      await host.skip("1s"); // whatever the next attempt waits for
    }
    assert.match(String(await run.result()), /failed after 3 attempts.*stopped before it stored the outcome/);
    same(begun, 3);
  });

  test("D7 a step that may be tried once is tried once, though the process dies", async (host) => {
    let begun = 0;
    const w = workflow("w", (ctx) =>
      ctx.step(
        "once",
        () => {
          begun++;
          return never();
        },
        { retry: { maxAttempts: 1 } },
      ),
    );
    const run = await host.start(w);
    await host.crash();
    await fails(run.result(), /after 1 attempt/);
    same(begun, 1);
  });

  test("D5 a step is not run again because a sibling slept", async (host) => {
    let ran = 0;
    let finish: () => void = () => {};
    const w = workflow("w", (ctx) =>
      ctx.join("both", {
        sleeps: (branch) => branch.sleep(t("2h")),
        works: (branch) =>
          branch.step("work", async () => {
            ran++;
            await new Promise<void>((resolve) => (finish = resolve));
            return ran;
          }),
      }),
    );
    const run = await host.start(w);
    await host.skip("30m");
    same(await run.status(), "running"); // not parked: something is in flight
    finish();
    for (let i = 0; i < 2; i++) await host.skip("1h");
    same(await run.result(), { sleeps: undefined, works: 1 });
  });

  test(
    "D12 operations are listed in order of emission, with their attempts",
    async (host) => {
      const w = workflow("w", async (ctx) => {
        await ctx.step(
          "flaky",
          ({ attempt }) => {
            if (attempt === 1) throw new Error("no");
          },
          { retry: { initialInterval: t("1s"), jitter: 0 } },
        );
        await ctx.sleep(t("1m"));
      });
      const run = await host.start(w);
      await host.skip("1s");
      await host.crash();
      await host.skip("1m");
      const operations = (await run.operations?.()) ?? [];
      same(
        operations.map(({ kind, name, attempts }) => [kind, name, attempts.map(({ status }) => status)]),
        [
          ["step", "flaky", ["failed", "completed"]],
          ["sleep", "sleep", []],
        ],
      );
    },
    { needs: "operations" },
  );

  test(
    "D6 a transaction is made once, though the process dies",
    async (host) => {
      let ran = 0;
      const w = workflow("w", async (ctx) => {
        const made = await ctx.transaction("make", () => ++ran);
        await ctx.waitForSignal("go");
        return made;
      });
      const run = await host.start(w);
      await host.crash();
      await run.signal("go");
      same([await run.result(), ran], [1, 1]);
    },
    { needs: "transaction" },
  );

  test(
    "X10 code that is suspended hears nothing of it: neither of sleep nor of the end of the process",
    async (host) => {
      const heard: string[] = [];
      const w = workflow("w", async (ctx) => {
        try {
          await ctx.sleep(t("1h"));
        } catch {
          heard.push("catch");
        } finally {
          heard.push("finally");
        }
        return "slept";
      });
      const run = await host.start(w);
      await host.crash();
      await host.skip("30m");
      same(heard, []);
      await host.skip("30m");
      same([await run.result(), heard], ["slept", ["finally"]]);
    },
    { needs: "exact-clock" },
  );

  test("X11 an operation that fails while no code awaits it yet is delivered when it is awaited", async (host) => {
    const w = workflow("w", async (ctx) => {
      // The operation itself, not a promise that is derived from it: Node reports those to the listeners of a test runner, too.
      const early = ctx.step("fails", () => Promise.reject(new Error("early")), { retry: { maxAttempts: 1 } });
      await ctx.sleep(t("1m"));
      try {
        await early;
        return "not reached";
      } catch (error) {
        return ((error as Error).cause as Error).message;
      }
    });
    const run = await host.start(w);
    await host.skip("1m");
    same(await run.result(), "early");
  });
}
