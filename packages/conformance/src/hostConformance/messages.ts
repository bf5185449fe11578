// Conformance of hosts: signals.
// Owns: tests of messages that are sent, kept and taken.
// Invariants tested: M1–M6, M8, M12, M13, D9, R1, R2, R8.

import { Receive, signal, workflow } from "@holdfast/core";
import { fails, macrotasks, numbers, range, type Suite, same } from "./suite.ts";

export function messages({ test, t }: Suite): void {
  test("M1 M2 M4 signals are buffered in order, across a crash, and popped by name", async (host) => {
    const collect = workflow("collect", async (ctx) => {
      await ctx.waitForSignal("go");
      const got: unknown[] = [];
      for (let i = 0; i < 3; i++) got.push(await ctx.waitForSignal("item"));
      return got;
    });
    const run = await host.start(collect);
    await run.signal("item", 1);
    await run.signal("item", 2);
    await host.crash();
    await run.signal("item", 3);
    await run.signal("go");
    same(await run.result(), [1, 2, 3]);
  });

  test("M3 a signal that is sent again under its key is one delivery, also after a crash", async (host) => {
    const count = workflow("count", async (ctx) => {
      await ctx.waitForSignal("end");
      return (await ctx.listen(["hit"], { count: 10, timeout: t("1s") })).length;
    });
    const run = await host.start(count);
    await run.signal("hit", 1, { idempotencyKey: "k" });
    await run.signal("hit", 1, { idempotencyKey: "k" });
    await host.crash();
    await run.signal("hit", 1, { idempotencyKey: "k" });
    await run.signal("hit", 1);
    await run.signal("end");
    same(await run.result(), 2);
  });

  test("M4 a wait times out, and what comes later stays buffered", async (host) => {
    const patient = workflow("patient", async (ctx) => {
      const first = await ctx.waitForSignal("word", { timeout: t("1m") });
      await ctx.sleep(t("1m"));
      return [first.timedOut, await ctx.waitForSignal("word")];
    });
    const run = await host.start(patient);
    await host.skip("61s");
    await run.signal("word", "late");
    await host.skip("1m");
    same(await run.result(), [true, "late"]);
  });

  test(
    "M1 D9 a signal that is sent as its run ends is in the output, or refused",
    async (host) => {
      const drain = workflow("drain", async (ctx) => {
        const heard: unknown[] = [];
        for (;;) {
          const batch = await ctx.listen(["tick"], { count: 10, timeout: t("1s") });
          if (batch.length === 0) return heard;
          heard.push(...batch.map(({ payload }) => payload));
        }
      });
      for (const moment of range(16)) {
        const run = await host.start(drain, undefined, { id: `drain-${moment}` });
        const skipped = host.skip("1s");
        await macrotasks(moment);
        const isAcknowledged = await run.signal("tick", moment).then(
          () => true,
          () => false,
        );
        await skipped;
        await host.skip("2s");
        same(await run.result(), isAcknowledged ? [moment] : []);
      }
    },
    { needs: "exact-clock" },
  );

  test(
    "D9 a signal that comes with the timer that ends its wait is heard",
    async (host) => {
      const race = workflow("race", (ctx) =>
        ctx.race("first", { heard: (branch) => branch.waitForSignal("go"), slept: (branch) => branch.sleep(t("50m")) }),
      );
      const run = await host.start(race);
      // The process dies before it could take the signal; when it is back, the timer is due as well.
      host.dieAt(2, "before");
      await run.signal("go", "now").catch(() => {});
      await host.skip("1h").catch(() => {});
      await host.crash();
      same(await run.result(), { winner: "heard", value: "now" });
    },
    { needs: "dieAt" },
  );

  test("M8 signals that are sent with the start are there in the first turn", async (host) => {
    const early = workflow("early", async (ctx) => ctx.waitForSignal("word"));
    const run = await host.start(early, undefined, { signals: [{ name: "word", payload: "first" }] });
    same(await run.result(), "first");
    same((await run.history()).turns.length, 1);
  });

  test("M12 closed and unknown runs take no messages", async (host) => {
    const done = workflow("done", async () => "done");
    const run = await host.start(done);
    await fails(run.signal("x"), "HF_RUN_CLOSED");
    await fails(host.run(done, "missing").signal("x"), "HF_RUN_NOT_FOUND");
    await fails(host.run(done, "missing").query("x"), "HF_RUN_NOT_FOUND");
  });

  test("M13 a signal that the receiver's schema refuses is not delivered; the run goes on", async (host) => {
    const untyped = workflow("typed", async (ctx) => ctx.waitForSignal("number"));
    const typed = workflow({ name: "typed", signals: { number: signal(numbers()) } }, async (ctx) => ctx.waitForSignal("number"));
    const sender = await host.start(untyped);
    const run = host.run(typed, "run");
    await sender.signal("number", "no number");
    same(await run.status(), "sleeping");
    await fails(run.signal("number", "nor this"), "HF_INVALID_INPUT"); // M1: at the sender
    await host.crash();
    await run.signal("number", 5);
    same(await run.result(), 5);
  });

  test("M5 listen takes up to count of any of the names, in the order they came, and waits for the first", async (host) => {
    const hears = workflow("hears", async (ctx) => {
      const all: unknown[] = [];
      for (const count of [2, 10, 10]) {
        const heard = await ctx.listen(["a", "b"], { count, timeout: t("1m") });
        all.push(heard.map(({ name, payload }) => `${name}${payload}`));
      }
      return all;
    });
    const signals = ["a1", "b2", "c3", "a4"].map(([name = "", payload]) => ({ name, payload }));
    const run = await host.start(hears, undefined, { signals });
    await host.skip("1m");
    same(await run.result(), [["a1", "b2"], ["a4"], []]);
  });

  test("M6 several waiters of one name are served in the order in which they began to wait", async (host) => {
    const three = workflow("three", (ctx) =>
      ctx.join("all", {
        last: async (branch) => {
          await branch.sleep(t("1m"));
          return branch.waitForSignal("word");
        },
        first: (branch) => branch.waitForSignal("word"),
        second: (branch) => branch.waitForSignal("word"),
      }),
    );
    const run = await host.start(three);
    await host.skip("1m");
    await host.crash();
    for (const word of ["a", "b", "c"]) await run.signal("word", word);
    same(await run.result(), { last: "c", first: "a", second: "b" });
  });

  test(
    "R1 R2 R8 a receive takes what is buffered first, in order, and ends at its timeout",
    async (host) => {
      const talk = workflow({ name: "talk", signals: { go: signal(), say: signal<string>(), other: signal<string>() } }, async (ctx) => {
        await ctx.waitForSignal("go");
        const { state, timedOut } = await ctx.receive([] as string[], {
          signals: { say: (word, said) => Receive.noreply([...said, word]) },
          timeout: t("1m"),
        });
        return [state, timedOut, await ctx.waitForSignal("other")];
      });
      const run = await host.start(talk);
      await run.signal("say", "one");
      await run.signal("other", "kept");
      await run.signal("say", "two");
      await run.signal("go");
      await host.skip("30s");
      await host.crash();
      await run.signal("say", "three");
      await host.skip("31s");
      same(await run.result(), [["one", "two", "three"], true, "kept"]);
    },
    { needs: "exact-clock" },
  );
}
