// Conformance of hosts: starts, and how runs stand.
// Owns: tests of ids, conflicts and what is started later.
// Invariants tested: P1, P5, P10, P11.

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
    "P10 a run of an id that exists is refused, or found, or begun anew once it is closed",
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
}
