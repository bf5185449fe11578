// Conformance of hosts: code that has changed.
// Owns: tests of runs that continue with other code than they began with.
// Invariants tested: V1–V4, K6, S3, X7, X8, Y2.

import assert from "node:assert/strict";
import { RollbackError, signal, workflow } from "@holdfast/core";
import { fails, type Suite, same } from "./suite.ts";

export function changes({ test, t }: Suite): void {
  test("V1 patched runs keep to the old path, new ones take the new", async (host) => {
    const make = (patched: boolean) =>
      workflow("greet", async (ctx) => {
        const word = patched && ctx.patched("new-word") ? "hi" : "hello";
        await ctx.step(`say ${word}`, async () => {});
        await ctx.waitForSignal("go");
        return word;
      });
    const old = await host.start(make(false), undefined, { id: "old" });
    await host.crash();
    host.run(make(true), "old");
    const fresh = await host.start(make(true), undefined, { id: "fresh" });
    await old.signal("go");
    await fresh.signal("go");
    same([await old.result(), await fresh.result()], ["hello", "hi"]);
  });

  test("V3 an operation that was taken out is passed over, also if the run waits at it", async (host) => {
    const before = workflow("w", async (ctx) => {
      await ctx.step("gone", async () => 1);
      await ctx.waitForSignal("never");
      return "old";
    });
    const after = workflow("w", async (ctx) => {
      ctx.removed("gone", "step");
      ctx.removed("never", "signal");
      return ctx.step("new", async () => "new");
    });
    await host.start(before);
    await host.crash();
    const run = host.run(after, "run");
    await run.signal("poke"); // a worker that is notified looks at the run
    same(await run.result(), "new");
  });

  test("V3 resume of an open run is a wake-up: code that has taken out the operation it waits at goes on", async (host) => {
    const waits = [
      ["never", "signal"],
      ["sleep", "sleep"],
      ["receive", "receive"],
    ] as const;
    for (const [name, kind] of waits) {
      const before = workflow("w", async (ctx) => {
        await ctx.step("first", async () => 1);
        if (kind === "signal") await ctx.waitForSignal(name);
        else if (kind === "sleep") await ctx.sleep(t("30d"));
        else await ctx.receive(0, { timeout: t("30d") });
        return "old";
      });
      const after = workflow("w", async (ctx) => {
        const first = await ctx.step("first", async () => 2);
        ctx.removed(name, kind);
        return ctx.step("new", async () => `new ${first}`);
      });
      await host.start(before, undefined, { id: kind });
      await host.crash();
      const run = host.run(after, kind);
      await run.recover();
      same(await run.result(), "new 1");
    }
  });

  test("V3 resume of a run that has nothing to go on with changes nothing", async (host) => {
    let runs = 0;
    const wait = workflow("w", async (ctx) => {
      await ctx.step("first", async () => ++runs);
      return ctx.waitForSignal("go");
    });
    const run = await host.start(wait);
    await run.recover();
    await run.recover();
    same(await run.status(), "sleeping");
    await run.signal("go", "on");
    same([await run.result(), runs], ["on", 1]);
  });

  test("Y2 a changed retry policy or timeout blocks no run: a step keeps what was recorded with it, the next one gets the new", async (host) => {
    const attempts: string[] = [];
    const make = (maxAttempts: number) =>
      workflow("w", async (ctx) => {
        // Long: the process dies before its code has made all attempts.
        const options = { retry: { maxAttempts, initialInterval: t("1h"), backoff: 1, jitter: 0 }, timeout: maxAttempts * 1_000 } as const;
        for (const name of ["one", "two"]) {
          const fail = (): never => {
            attempts.push(name);
            throw new Error("no");
          };
          await ctx.step(name, fail, options).catch(() => {});
        }
      });
    const run = await host.start(make(3));
    await host.crash();
    host.run(make(5), "run");
    for (let i = 0; i < 20 && (await run.status()) !== "completed"; i++) await host.skip("1h");
    await run.result();
    same(attempts.filter((name) => name === "one").length, 3);
    same(attempts.filter((name) => name === "two").length, 5);
  });

  test("V2 a run of another version waits for code that serves it", async (host) => {
    const make = (version: string, serves?: string[]) =>
      workflow({ name: "w", version, signals: { go: signal() }, ...(serves !== undefined && { serves }) }, async (ctx) => {
        await ctx.waitForSignal("go");
        return ctx.version;
      });
    await host.start(make("1"));
    const wrong = host.run(make("2"), "run");
    await wrong.signal("go");
    assert.notEqual(await wrong.status(), "completed");
    const right = host.run(make("2", ["1"]), "run");
    await host.skip("1h");
    same(await right.result(), "1");
  });

  test("V4 S3 code that diverges blocks the run; no rollback runs, and the old code goes on with it", async (host) => {
    const undone: string[] = [];
    const make = (name: string) =>
      workflow("w", async (ctx) => {
        await ctx.step("book", async () => "room", { rollback: async (room) => void undone.push(room) });
        await ctx.step(name, async () => name);
        await ctx.waitForSignal("go");
        throw new RollbackError("on purpose");
      });
    const run = await host.start(make("pay"));
    await host.crash();
    host.run(make("charge"), "run");
    await run.signal("go");
    same(await run.status(), "blocked");
    await fails(run.result(), /charge/);
    await host.skip("1d"); // it is tried again and again
    same([await run.status(), undone], ["blocked", []]);

    host.run(make("pay"), "run");
    await host.skip("10m");
    await fails(run.result(), /on purpose/);
    same(undone, ["room"]);
  });

  test("V4 X7 X8 code that breaks a rule blocks the run too, and leaves no trace of the turn", async (host) => {
    const make = (bad: boolean) =>
      workflow("w", async (ctx) => {
        await ctx.waitForSignal("go");
        const before = await ctx.step("before", async () => 1);
        if (bad) await new Promise((resolve) => setTimeout(resolve, 1));
        return before;
      });
    const run = await host.start(make(true));
    await run.signal("go");
    same(await run.status(), "blocked");
    await fails(run.result(), /ctx.step/);
    host.run(make(false), "run");
    await run.recover(); // it is not tried again by itself
    same(await run.result(), 1);
  });

  test("V4 a turn that broke a rule is not computed again by itself, nor for messages, which are kept", async (host) => {
    let posted = 0;
    const make = (bad: boolean) =>
      workflow("w", async (ctx) => {
        await ctx.waitForSignal("go");
        if (bad) {
          posted++; // what it does outside of steps
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
        return ctx.waitForSignal("word");
      });
    const run = await host.start(make(true));
    await run.signal("go");
    same(await run.status(), "blocked");
    await run.signal("word", "kept");
    await host.skip("1d");
    same([await run.status(), posted], ["blocked", 1]);
    host.run(make(false), "run");
    await run.recover();
    same(await run.result(), "kept");
    same(posted, 1);
  });

  test("K6 V4 terminate ends a run that its code can't advance", async (host) => {
    const make = (name: string) =>
      workflow("w", async (ctx) => {
        await ctx.step(name, async () => 1);
        await ctx.waitForSignal("go");
      });
    const run = await host.start(make("old"));
    host.run(make("new"), "run");
    await run.signal("go");
    same(await run.status(), "blocked");
    await run.terminate("no code for it");
    same(await run.status(), "terminated");
  });
}
