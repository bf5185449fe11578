// Conformance of hosts: starts, and how runs stand.
// Owns: tests of ids, conflicts and what is started later.
// Invariants tested: P1, P5, P10, P11, Q9, Q10.

import { workflow } from "@holdfast/core";
import { fails, type Suite, same } from "./suite.ts";

const echo = workflow("echo", async (ctx, word: string) => {
  await ctx.waitForSignal("go");
  return word;
});

export function starting({ test, t }: Suite): void {
  test("P11 a run says how it stands", async (host) => {
    const w = workflow("w", async (ctx, how: string) => {
      if (how === "sleeps") await ctx.sleep(t("1h"));
      if (how === "waits") await ctx.waitForSignal("go");
      if (how === "works") await ctx.step("work", () => new Promise(() => {}));
      if (how === "fails") throw new TypeError("bad");
    });
    const seen: Record<string, string> = {};
    for (const how of ["sleeps", "waits", "works", "fails", "ends"]) seen[how] = await (await host.start(w, how, { id: how })).status();
    same(seen, { sleeps: "sleeping", waits: "sleeping", works: "running", fails: "failed", ends: "completed" });
  });

  test("P1 P8 an output is what was recorded, also after the process that computed it", async (host) => {
    const value = { at: new Date(7), big: 10n ** 20n, bytes: Uint8Array.of(1, 2), map: new Map([[1, undefined]]), nan: Number.NaN };
    const w = workflow("w", async (_, input) => input);
    const run = await host.start(w, value);
    same(await run.result(), value);
    await host.crash();
    same(await run.result(), value);
  });

  test(
    "P10 a run of an id that exists is refused, or found, or begun again once it is closed",
    async (host) => {
      const run = await host.start(echo, "one");
      await fails(host.start(echo, "two"), "HF_RUN_ALREADY_EXISTS");
      await host.start(echo, "three", { onConflict: "use-existing" });
      await host.crash();
      await run.signal("go");
      same(await run.result(), "one");
      await fails(host.start(echo, "four"), "HF_RUN_ALREADY_EXISTS");
      await host.start(echo, "five", { onConflict: "restart-if-closed" });
      await run.signal("go");
      same(await run.result(), "five");
    },
    { needs: "startOptions" },
  );

  test(
    "M3 P10 a start that is repeated under its key is one run",
    async (host) => {
      const first = await host.start(echo, "one", { id: "first", idempotencyKey: "k" });
      const second = await host.start(echo, "two", { id: "second", idempotencyKey: "k" });
      same([first.id, second.id], [host.idOf("first"), host.idOf("first")]);
    },
    { needs: "startOptions" },
  );

  test(
    "K8 P11 a run that is started later is pending until then, though the process dies",
    async (host) => {
      const run = await host.start(echo, "one", { delay: "1h", signals: [{ name: "go" }] });
      same(await run.status(), "pending");
      await host.crash();
      await host.skip("1h");
      same(await run.result(), "one");
    },
    { needs: "startOptions" },
  );
  test(
    "K8 P11 a run that is started later does not begin before its time",
    async (host) => {
      const run = await host.start(echo, "one", { delay: "1h", signals: [{ name: "go" }] });
      await host.skip("59m");
      await host.crash();
      await host.skip("59s");
      same(await run.status(), "pending");
      await host.skip("1s");
      same(await run.result(), "one");
    },
    { needs: ["startOptions", "exact-clock"] },
  );

  test(
    "Q10 P11 a run that is after another is pending until that has closed, and says what it waits for",
    async (host) => {
      const first = await host.start(echo, "one", { id: "first" });
      const second = await host.start(echo, "two", { id: "second", after: first.id, signals: [{ name: "go" }] });
      same([await second.status(), await second.waitingFor()], ["pending", [`run ${first.id} to close`]]);
      await host.crash();
      same(await second.status(), "pending");
      await first.signal("go");
      same([await first.result(), await second.result()], ["one", "two"]);
    },
    { needs: "startOptions" },
  );
  test(
    "Q10 K9 runs that are each after the one before go in order, and one that is canceled leaves its place",
    async (host) => {
      const order: string[] = [];
      const noted = workflow("noted", async (ctx, word: string) => {
        await ctx.waitForSignal("go");
        await ctx.step("note", () => order.push(word));
      });
      const first = await host.start(noted, "a", { id: "a" });
      const second = await host.start(noted, "b", { id: "b", after: first.id });
      const third = await host.start(noted, "c", { id: "c", after: second.id, signals: [{ name: "go" }] });
      await second.cancel();
      same([await second.status(), await third.status()], ["canceled", "pending"]);
      await first.signal("go");
      await third.result();
      same(order, ["a", "c"]);
    },
    { needs: "startOptions" },
  );
  test(
    "Q10 P10 a run that is after another waits for the end of its chain",
    async (host) => {
      const chain = workflow("chain", async (ctx, n: number) => {
        await ctx.waitForSignal("go");
        return n === 0 ? "over" : ctx.continueAsNew(n - 1);
      });
      const first = await host.start(chain, 1, { id: "first" });
      const second = await host.start(echo, "two", { id: "second", after: first.id, signals: [{ name: "go" }] });
      await first.signal("go");
      same([await first.status(), await second.status()], ["sleeping", "pending"]);
      await first.signal("go");
      same([await first.result(), await second.result()], ["over", "two"]);
    },
    { needs: "startOptions" },
  );

  test(
    "Q9 debounce: a burst of starts is one run, with the input of the last, once they have stopped",
    async (host) => {
      const seen: string[] = [];
      const index = workflow("index", (ctx, word: string) => ctx.step("note", () => seen.push(word)));
      const burst = (word: string) => host.start(index, word, { onConflict: "debounce", delay: "1h", maxDelay: "3h" });
      await burst("one");
      await host.skip("40m");
      await burst("two");
      await host.skip("40m");
      const run = await burst("three");
      await host.crash();
      same([await run.status(), seen], ["pending", []]);
      await host.skip("1h");
      await run.result();
      same(seen, ["three"]);
    },
    { needs: "startOptions" },
  );
  test(
    "Q9 debounce: a start of a run that has begun follows it, and the result is that of the newest execution",
    async (host) => {
      const run = await host.start(echo, "one", { onConflict: "debounce" });
      await host.start(echo, "two", { onConflict: "debounce", signals: [{ name: "go" }] });
      await host.crash();
      await host.start(echo, "three", { onConflict: "debounce" });
      same(await run.status(), "sleeping");
      await run.signal("go");
      same(await run.result(), "three");
    },
    { needs: "startOptions" },
  );
  test(
    "Q9 M1 a signal that the execution before was given and did not consume is the next one's",
    async (host) => {
      const taker = workflow("taker", async (ctx, names: string[]) => {
        const taken: unknown[] = [];
        for (const name of names) taken.push(await ctx.waitForSignal(name));
        return taken;
      });
      const run = await host.start(taker, ["go"], { onConflict: "debounce" });
      await run.signal("later", "early bird");
      await host.start(taker, ["later", "later"], { onConflict: "debounce", signals: [{ name: "later", payload: "with the start" }] });
      await run.signal("go", 1);
      same(await run.result(), ["early bird", "with the start"]);
    },
    { needs: "startOptions" },
  );
  test(
    "Q9 K1 replace cancels the run that has begun, which cleans up, and goes on with the newer start",
    async (host) => {
      const log: string[] = [];
      const report = workflow("report", async (ctx, word: string) => {
        try {
          await ctx.waitForSignal("go");
          return word;
        } finally {
          await ctx.shield((inner) => inner.step("clean up", () => log.push(`${word} is over`)));
        }
      });
      const run = await host.start(report, "one", { onConflict: "replace" });
      await host.start(report, "two", { onConflict: "replace" });
      same([await run.status(), log], ["sleeping", ["one is over"]]);
      await run.signal("go");
      same([await run.result(), log], ["two", ["one is over", "two is over"]]);
    },
    { needs: "startOptions" },
  );
  test(
    "Q9 K1 a caller that cancels a run cancels what would have followed",
    async (host) => {
      const run = await host.start(echo, "one", { onConflict: "debounce" });
      await host.start(echo, "two", { onConflict: "debounce", signals: [{ name: "go" }] });
      await run.cancel();
      same(await run.status(), "canceled");
    },
    { needs: "startOptions" },
  );
  test(
    "Q9 M3 a start that is repeated under its key changes nothing",
    async (host) => {
      const run = await host.start(echo, "one", { onConflict: "replace", idempotencyKey: "k" });
      await host.start(echo, "two", { onConflict: "replace", idempotencyKey: "k" });
      await run.signal("go");
      same(await run.result(), "one");
    },
    { needs: "startOptions" },
  );
}
