// Conformance of hosts: deadlines, continuations, runs that are tried again.
// Owns: tests of how runs end, and of how they continue after an end.
// Invariants tested: D8, D10, D12, K7, P10.

import { FatalError, Loop, signal, workflow } from "@holdfast/core";
import type { HostRun } from "./host.ts";
import { fails, type Suite, same, says } from "./suite.ts";

export function endings({ test, t }: Suite): void {
  test("K7 a deadline fails the run, running only its rollbacks", async (host) => {
    const log: string[] = [];
    const late = workflow("late", async (ctx) => {
      await ctx.step("book", async () => "room", { rollback: async (room) => void log.push(`undo ${room}`) });
      try {
        await ctx.sleep(t("1d"));
      } finally {
        log.push("workflow code");
      }
    });
    const run = await host.start(late, undefined, { deadline: "1h" });
    await host.crash();
    await host.skip("1h");
    await fails(run.result(), /deadline/);
    same(log, ["undo room"]);
  });

  test("K7 a retry that would come after the deadline fails the run now", async (host) => {
    const late = workflow("late", (ctx) =>
      ctx.step(
        "try",
        () => {
          throw new Error("no");
        },
        { retry: { initialInterval: t("2h") } },
      ),
    );
    const run = await host.start(late, undefined, { deadline: "1h" });
    await fails(run.result(), /deadline/);
  });

  test(
    "K7 a run whose deadline passes while every process is down is not advanced, and none of its steps starts",
    async (host) => {
      const ran: string[] = [];
      const late = workflow({ name: "late", signals: { go: signal() } }, async (ctx) => {
        await ctx.step("book", async () => void ran.push("book"), { rollback: async () => void ran.push("undo book") });
        await ctx.waitForSignal("go");
        await ctx.sleep(t("1h"));
        await ctx.step("charge", async () => void ran.push("charge"));
      });
      const run = await host.start(late, undefined, { deadline: "2h" });
      await run.signal("go");
      const doom = host.dieAt(1, "before"); // the turn of the timer is never written
      for (let i = 0; i < 3; i++) await host.skip("1h");
      same(doom.struck, true);
      await host.crash();
      await fails(run.result(), /deadline/);
      same(ran, ["book", "undo book"]);
    },
    { needs: "dieAt" },
  );

  test("K7 a deadline that is over is accepted, and fails the run at once: it is not begun", async (host) => {
    const ran: string[] = [];
    const late = workflow("late", async (ctx) => {
      ran.push("code");
      await ctx.step("charge", async () => void ran.push("charge"));
    });
    const run = await host.start(late, undefined, { deadline: 0 });
    await host.skip("1s");
    await fails(run.result(), /deadline/);
    same(ran, []);
  });

  test("K7 S1 an attempt of the run that would come after the deadline is none: what the run did is undone", async (host) => {
    const ran: string[] = [];
    const late = workflow({ name: "late", retry: { maxAttempts: 5, initialInterval: t("2h"), jitter: 0 } }, async (ctx) => {
      await ctx.step("book", async () => void ran.push("book"), { rollback: async () => void ran.push("undo book") });
      throw new Error("on purpose");
    });
    const run = await host.start(late, undefined, { deadline: "1h" });
    await fails(run.result(), /on purpose/);
    same(ran, ["book", "undo book"]);
  });

  test("P10 continueAsNew starts over with an empty history; signals that no code consumed move on, in order", async (host) => {
    const chain = workflow({ name: "chain", signals: { word: signal<string>(), go: signal() } }, async (ctx, n: number) => {
      await ctx.waitForSignal("go");
      if (n < 3) return ctx.continueAsNew(n + 1);
      return [n, await ctx.waitForSignal("word"), await ctx.waitForSignal("word")];
    });
    const run = await host.start(chain, 1);
    await run.signal("word", "a");
    await run.signal("go");
    same((await run.history()).turns.length, 1);
    await run.signal("word", "b");
    await host.crash();
    await run.signal("go");
    await run.signal("go");
    same(await run.result(), [3, "a", "b"]);
  });

  test("D10 a run with its own retry is tried again; completed steps don't run again", async (host) => {
    const ran: string[] = [];
    const again = workflow({ name: "again", retry: { maxAttempts: 3, initialInterval: t("1h"), jitter: 0 } }, async (ctx) => {
      await ctx.step("first", () => void ran.push("first"));
      await ctx.step(
        "second",
        () => {
          ran.push("second");
          if (ran.length < 4) throw new Error("not yet");
        },
        { retry: { maxAttempts: 1 } },
      );
      return ctx.run.attempt;
    });
    const run = await host.start(again);
    says(await run.waitingFor(), /another attempt at/);
    await run.signal("whatever");
    same(ran, ["first", "second"]);
    await host.crash();
    for (let i = 0; i < 4; i++) await host.skip("1h");
    same(await run.result(), 3);
    same(ran, ["first", "second", "second", "second"]);
  });

  test("D10 recover goes on where a failed run stopped: exhausted steps are tried again, completed ones are not", async (host) => {
    const ran: string[] = [];
    let broken = true;
    const mendable = workflow("mendable", async (ctx) => {
      await ctx.step("first", () => void ran.push("first"));
      return ctx.step(
        "second",
        () => {
          ran.push("second");
          if (broken) throw new Error("broken");
          return "fixed";
        },
        { retry: { maxAttempts: 2, initialInterval: 1 } },
      );
    });
    const run = await host.start(mendable);
    await host.skip("1s");
    await fails(run.result(), /broken/);
    await host.crash();
    broken = false;
    await run.recover();
    same(await run.result(), "fixed");
    same(ran, ["first", "second", "second", "second"]);
    await fails(run.recover(), "HF_NOT_RESUMABLE");
  });

  test(
    "D10 D12 scopes around an operation that is tried again are listed as open, and then as they ended",
    async (host) => {
      let broken = true;
      const mendable = workflow("mendable", (ctx) =>
        ctx.join("both", {
          left: async (branch) => branch.step("left", () => 1),
          right: async (branch) =>
            branch.loop("again", async (iteration) => {
              await iteration.step("right", () => {
                if (broken) throw new FatalError("broken");
              });
              await iteration.sleep(t("1m"));
              return Loop.break(2);
            }),
        }),
      );
      const listed = async (run: HostRun): Promise<unknown[]> =>
        ((await run.operations?.()) ?? []).map(({ location, status }) => `${location} ${status}`);
      const run = await host.start(mendable);
      await fails(run.result(), /broken/);
      broken = false;
      await run.recover();
      await host.crash();
      same((await listed(run)).slice(0, 4), [
        "both waiting",
        "both/left/left completed",
        "both/right/again waiting",
        "both/right/again/~0/right completed",
      ]);
      await host.skip("1m");
      same(await run.result(), { left: 1, right: 2 });
      same(await listed(run), [
        "both completed",
        "both/left/left completed",
        "both/right/again completed",
        "both/right/again/~0/right completed",
        "both/right/again/~0/sleep completed",
      ]);
    },
    { needs: "operations" },
  );
}
