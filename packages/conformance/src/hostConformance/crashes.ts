// Conformance of hosts: a process that dies at any of its writes.
// Owns: tests that kill it there, one after the other.
// Invariants tested: D1, D2, D6, D7, D9, K1, K6, M1, M3, M7, M10, Q9, Q10, Y1.

import assert from "node:assert/strict";
import { type AnyWorkflow, FatalError, Loop, Receive, signal, update, workflow } from "@holdfast/core";
import type { SuiteHost } from "./clock.ts";
import { type MakeHost, never, range, replayed, type Suite, same } from "./suite.ts";

/** Ignores failures: the process may die during the call, and then it is sent again. */
const perhaps = (promise: Promise<unknown>): Promise<void> =>
  promise.then(
    () => {},
    () => {},
  );

/** Does this with a host that dies at its first write, at its second (by a real clock: second, fourth …), until there are no more. */
async function atEveryWrite(
  { clock }: Suite,
  makeHost: MakeHost,
  run: (host: SuiteHost, name: string, die: () => void) => Promise<void>,
): Promise<void> {
  for (const when of ["before", "after"] as const) {
    for (let write = 1, isOver = false; !isOver; write = clock === "virtual" ? write + 1 : write * 2) {
      const host = await makeHost();
      let doom = { struck: false };
      const name = `${when} write ${write}`;
      try {
        await run(host, name, () => {
          doom = host.dieAt(write, when);
        });
      } catch (cause) {
        throw new Error(`Killed ${name}: ${(cause as Error).message}`, { cause });
      }
      isOver = !doom.struck;
      assert.ok(write > 1 || !isOver, "It died at no write at all.");
      assert.ok(write < 200, "It never comes to an end.");
    }
  }
}
/** Starts it again if no caller was notified that it had been started. */
async function startedFor(host: SuiteHost, code: AnyWorkflow, input: unknown, id: string) {
  const run = host.run(code, id);
  const missing = await run.status().then(
    () => false,
    (error: { code?: string }) => error.code === "HF_RUN_NOT_FOUND",
  );
  return missing ? host.start(code, input, { id }) : run;
}

/** Counts what steps did, in the order in which they did it. */
function makeWork({ t }: Suite) {
  const effects: string[] = [];
  const work = workflow("work", async (ctx) => {
    const effect = (name: string) => async () => void effects.push(name);
    await ctx.step("begin", effect("begin"));
    const { ok } = await ctx.try("risky", async (inner) => {
      await inner.step("risk", async () => {
        effects.push("risk");
        throw new FatalError("as expected");
      });
    });
    const joined = await ctx.join("both", {
      left: async (branch) => {
        await branch.step("a", effect("left a"));
        await branch.sleep(t("1m"));
        return branch.step("b", async () => effects.push("left b") > 0);
      },
      right: async (branch) => {
        await branch.step("a", effect("right a"), { retry: { maxAttempts: 3 } });
        return "right";
      },
    });
    const raced = await ctx.race("first", {
      slow: async (branch) => {
        await branch.sleep(t("1d"));
        return "slow";
      },
      fast: async (branch) => branch.step("fast", async () => "fast"),
    });
    const looped = await ctx.loop(
      { name: "count", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 },
      async (body, n: number) => {
        await body.step("turn", effect(`turn ${n}`));
        return n === 5 ? Loop.break(n) : Loop.continue(n + 1);
      },
    );
    await ctx.step("end", effect("end"));
    return { ok, joined, raced, looped };
  });
  return { work, effects };
}
const EXPECTED = { ok: false, joined: { left: true, right: "right" }, raced: { winner: "fast", value: "fast" }, looped: 5 };
const EFFECTS = ["begin", "risk", "left a", "right a", "left b", ...range(6).map((n) => `turn ${n}`), "end"];

export function crashes(suite: Suite): void {
  const { test, t } = suite;
  test(
    "D1 D2 D6 Y1 a run that is killed at any of its writes ends as if it had not been",
    async (_, makeHost) => {
      await atEveryWrite(suite, makeHost, async (host, name, die) => {
        const { work, effects } = makeWork(suite);
        die();
        await perhaps(host.start(work));
        await host.skip("1m");
        await host.crash();
        const run = await startedFor(host, work, undefined, "run");
        await host.skip("2m");
        same(await run.result(), EXPECTED, name);
        const again = effects.filter((effect, i) => effects.indexOf(effect) !== i);
        same([...new Set(effects)].toSorted(), EFFECTS.toSorted(), name);
        // Only what was in flight when it died: the two branches of the join at most.
        assert.ok(again.length <= 2, `${name}: ${again.join(", ")} ran again`);
        await replayed(run, work);
      });
    },
    { needs: "dieAt" },
  );

  test(
    "D7 a run that is killed again and again goes on each time from where it was",
    async (host) => {
      const { work, effects } = makeWork(suite);
      const run = await host.start(work);
      for (let crashed = 0; crashed < 100 && (await run.status()) !== "completed"; crashed++) {
        await host.crash();
        host.dieAt(3, "after");
        await host.skip("10s");
        await host.crash();
      }
      same(await run.result(), EXPECTED);
      same(new Set(effects), new Set(EFFECTS));
    },
    { needs: "dieAt" },
  );

  test(
    "M1 M3 M7 D9 a message that is sent until it is acknowledged is taken once, whichever write the process dies at",
    async (_, makeHost) => {
      const words = workflow("words", async (ctx) => [
        await ctx.waitForSignal("word"),
        await ctx.waitForSignal("word"),
        await ctx.listen(["word"], { count: 10, timeout: t("1s") }),
      ]);
      await atEveryWrite(suite, makeHost, async (host, name, die) => {
        const run = await host.start(words);
        await run.signal("word", 1);
        die();
        let isSent = false;
        await perhaps(run.signal("word", 2, { idempotencyKey: "k" }).then(() => (isSent = true)));
        await host.crash();
        if (!isSent) await run.signal("word", 2, { idempotencyKey: "k" });
        await host.skip("2s");
        same(await run.result(), [1, 2, []], name);
      });
    },
    { needs: "dieAt" },
  );

  test(
    "K1 a cancel that was acknowledged outlives the process that acknowledged it",
    async (_, makeHost) => {
      const long = workflow("long", (ctx) => ctx.step("long", never));
      await atEveryWrite(suite, makeHost, async (host, name, die) => {
        const run = await host.start(long);
        die();
        let isSent = false;
        await perhaps(run.cancel("why").then(() => (isSent = true)));
        await host.crash();
        if (!isSent && (await run.status()) !== "canceled") await run.cancel("why");
        same(await run.status(), "canceled", name);
      });
    },
    { needs: "dieAt" },
  );

  test(
    "M10 an update that was accepted is made once and answered, whichever write the process dies at",
    async (_, makeHost) => {
      await atEveryWrite(suite, makeHost, async (host, name, die) => {
        let handled = 0;
        const sums = workflow({ name: "sums", updates: { add: update<number, number>() } }, async (ctx) => {
          await ctx.receive(0, {
            updates: {
              add: async (n, sum, handler) => {
                const total = await handler.step("add", async () => {
                  handled++;
                  return sum + n;
                });
                return Receive.reply(total, total);
              },
            },
          });
        });
        const run = await host.start(sums);
        same(await run.update("add", 5, { idempotencyKey: "one" }), 5);
        die();
        await perhaps(run.update("add", 7, { idempotencyKey: "two" }));
        await host.crash();
        same(await run.update("add", 7, { idempotencyKey: "two" }), 12, name);
        same(await run.update("add", 5, { idempotencyKey: "one" }), 5, name);
        assert.ok(handled <= 3, `${name}: handled ${handled} times`);
      });
    },
    { needs: "dieAt" },
  );

  test(
    "D2 K6 whichever write of parent or child dies, the child runs once and the parent is notified of its end",
    async (_, makeHost) => {
      let shipped = 0;
      const ship = workflow("ship", async (ctx, parcel: string) => {
        await ctx.sleep(t("1m"));
        return ctx.step("ship", async () => `${parcel} shipped ${++shipped > 0}`);
      });
      const order = workflow("order", async (ctx, parcel: string) => ctx.child(ship, parcel));
      await atEveryWrite(suite, makeHost, async (host, name, die) => {
        shipped = 0;
        host.teach(ship);
        die();
        await perhaps(host.start(order, "lamp"));
        await host.skip("1m");
        await host.crash();
        const run = await startedFor(host, order, "lamp", "run");
        await host.skip("3m");
        same(await run.result(), "lamp shipped true", name);
        assert.ok(shipped <= 2, `${name}: shipped ${shipped} times`);
      });
    },
    { needs: "dieAt" },
  );

  test(
    "M3 D7 a signal from run to run is one delivery, whichever write the process dies at",
    async (_, makeHost) => {
      const counts = workflow({ name: "counts", signals: { word: signal<string>(), end: signal() } }, async (ctx) => {
        await ctx.waitForSignal("end");
        return (await ctx.listen(["word"], { count: 10, timeout: t("1s") })).length;
      });
      const speaker = workflow("speaker", async (ctx, ear: string) => ctx.signalRun(ear, "word", "hello"));
      await atEveryWrite(suite, makeHost, async (host, name, die) => {
        const heard = await host.start(counts, undefined, { id: "ear" });
        die();
        await perhaps(host.start(speaker, host.idOf("ear"), { id: "mouth" }));
        await host.crash();
        const mouth = await startedFor(host, speaker, host.idOf("ear"), "mouth");
        same(await mouth.status(), "completed", name);
        await heard.signal("end");
        await host.skip("1s");
        same(await heard.result(), 1, name);
      });
    },
    { needs: "dieAt" },
  );

  test(
    "Q9 Q10 D2 M3 starts that replace a run, or wait for it, are there once, whatever write they are killed at",
    async (_, makeHost) => {
      const late = workflow("late", async () => "after");
      await atEveryWrite(suite, makeHost, async (host, name, die) => {
        const cleaned: number[] = [];
        const replaced = workflow({ name: "replaced", signals: { n: signal<number>(), go: signal() } }, async (ctx, n: number) => {
          const got: number[] = [];
          try {
            do got.push(await ctx.waitForSignal("n"));
            while (got.at(-1) !== n);
            await ctx.waitForSignal("go");
            return got;
          } finally {
            await ctx.shield(async (inner) => void (await inner.step("clean", async () => cleaned.push(n))));
          }
        });
        const start = (n: number) =>
          host.start(replaced, n, { onConflict: "replace", idempotencyKey: `k${n}`, signals: [{ name: "n", payload: n }] });
        host.teach(late);
        die();
        await perhaps(start(1));
        await perhaps(host.start(late, undefined, { id: "late", after: host.idOf("run") }));
        await perhaps(start(2));
        await perhaps(start(3));
        await host.crash();
        for (const n of [1, 2, 3]) await start(n);
        const after = host.run(late, "late");
        const isThere = await after.status().then(
          () => true,
          () => false,
        );
        if (!isThere) await host.start(late, undefined, { id: "late", after: host.idOf("run") });
        same(await after.status(), "pending", name);
        const run = host.run(replaced, "run");
        await run.signal("go");
        const got = (await run.result()) as number[];
        // Signals that an execution has consumed are gone with it; none is there twice, and the newest start brings its own.
        same([got.at(-1), got.toSorted()], [3, [...new Set(got)].toSorted()], name);
        same(await after.result(), "after", name);
        assert.equal(cleaned.at(-1), 3, name);
        await replayed(run, replaced);
      });
    },
    { needs: ["dieAt", "startOptions"] },
  );
}
