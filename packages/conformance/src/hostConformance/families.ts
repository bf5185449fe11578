// Conformance of hosts: children, and messages to other runs.
// Owns: tests that need more than one run.
// Invariants tested: C7, D2, K1, K3, K6, M3, M12, P10.

import assert from "node:assert/strict";
import { ChildFailedError, FatalError, signal, workflow } from "@holdfast/core";
import { failure, type Suite, same, says } from "./suite.ts";

const listener = workflow({ name: "listener", signals: { word: signal<string>() } }, async (ctx) => ctx.waitForSignal("word"));
const speaker = workflow("speaker", async (ctx, to: string) => {
  await ctx.signalRun(to, "word", "hello");
  return "said";
});

export function families({ test, t }: Suite): void {
  const ship = workflow("ship", async (ctx, parcel: string) => {
    await ctx.sleep(t("1h"));
    if (parcel === "lost") throw new FatalError("lost");
    return `${parcel} shipped`;
  });
  const order = workflow("order", async (ctx, parcel: string) => {
    const result = await ctx.child(ship, parcel);
    return { result };
  });

  test("K6 a child's result comes back to its parent, though the process dies in between", async (host) => {
    host.teach(ship);
    const run = await host.start(order, "lamp");
    says(await run.waitingFor(), /child ship/);
    await host.crash();
    await host.skip("1h");
    same(await run.result(), { result: "lamp shipped" });
  });

  test("K3 a child that fails or is canceled is a ChildFailedError", async (host) => {
    host.teach(ship);
    const canceled = await host.start(order, "lamp", { id: "canceled" });
    await host.run(ship, "canceled/ship").cancel("why");
    const failed = await host.start(order, "lost", { id: "failed" });
    await host.skip("1h");
    for (const run of [failed, canceled]) assert.ok((await failure(run.result())).cause instanceof ChildFailedError);
  });

  test("K6 open children follow the end of their parent, each by its policy", async (host) => {
    const sleeper = workflow("sleeper", async (ctx) => ctx.sleep(t("1d")));
    const parent = workflow("parent", async (ctx) => {
      for (const parentClose of ["cancel", "abandon", "terminate"] as const)
        await ctx.startChild(sleeper, undefined, { id: host.idOf(parentClose), parentClose });
      await ctx.waitForSignal("go");
      return "gone";
    });
    host.teach(sleeper);
    const run = await host.start(parent);
    await host.crash();
    await run.signal("go");
    same(await run.result(), "gone");
    const statuses = await Promise.all(["cancel", "abandon", "terminate"].map((id) => host.run(sleeper, id).status()));
    same(statuses, ["canceled", "sleeping", "terminated"]);
  });

  test("C7 a child that its parent no longer waits for is canceled", async (host) => {
    const slow = workflow("slow", async (ctx) => ctx.sleep(t("1d")));
    host.teach(slow);
    const impatient = workflow("impatient", async (ctx) =>
      ctx.race("first", {
        ships: (branch) => branch.child(slow, undefined, { id: host.idOf("slow") }),
        waits: async (branch) => {
          await branch.sleep(t("1s"));
          return "too slow";
        },
      }),
    );
    const run = await host.start(impatient);
    await host.skip("1s");
    same(await run.result(), { winner: "waits", value: "too slow" });
    same(await host.run(slow, "slow").status(), "canceled");
  });

  test("K6 an id that is taken is an error of the call", async (host) => {
    await host.start(ship, "first", { id: "taken" });
    const clash = workflow("clash", async (ctx) => ctx.child(ship, "second", { id: host.idOf("taken") }));
    const run = await host.start(clash);
    const error = await failure(run.result());
    same(error.cause.cause.code, "HF_RUN_ALREADY_EXISTS");
  });

  test("P10 the answer to an execution that is over is dropped", async (host) => {
    host.teach(ship);
    const again = workflow("again", async (ctx, n: number) => {
      if (n > 0) {
        await ctx.startChild(ship, `of ${n}`);
        return ctx.continueAsNew(n - 1);
      }
      await ctx.sleep(t("1h"));
      return "end";
    });
    const run = await host.start(again, 2);
    for (let i = 0; i < 3; i++) await host.skip("1h");
    same(await run.result(), "end");
  });

  test("M12 a signal reaches a run, once, and fails for an unknown one", async (host) => {
    const heard = await host.start(listener, undefined, { id: "ear" });
    const said = await host.start(speaker, host.idOf("ear"), { id: "mouth" });
    same([await said.result(), await heard.result()], ["said", "hello"]);
    const lost = await host.start(speaker, host.idOf("missing"), { id: "lost" });
    same((await failure(lost.result())).cause.code, "HF_RUN_NOT_FOUND");
  });

  test("M12 a signal from run to run fails for a closed one, and says that it is closed", async (host) => {
    const heard = await host.start(listener, undefined, { id: "ear", signals: [{ name: "word", payload: "hello" }] });
    same(await heard.result(), "hello");
    const late = await host.start(speaker, host.idOf("ear"), { id: "late" });
    same((await failure(late.result())).cause.code, "HF_RUN_CLOSED");
  });

  test("K1 cancelRun cancels", async (host) => {
    const heard = await host.start(listener, undefined, { id: "ear" });
    const ends = workflow("ends", async (ctx) => ctx.cancelRun(host.idOf("ear")));
    await host.start(ends, undefined, { id: "ends" });
    same(await heard.status(), "canceled");
  });
}
