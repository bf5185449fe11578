// Job: prove what needs other runs: children, signals to them, their ends, by way of the host's router.
// Owns: nothing.
// Invariants: whatever dies in between, each is told of what concerns it, once.

import { ChildFailedError, FatalError, signal, workflow } from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { KvHost } from "../host.ts";

// biome-ignore lint/suspicious/noExplicitAny: an error of whatever class; what it has is what is tested
const failure = (thrown: unknown): any => thrown;

const ship = workflow("ship", async (ctx, parcel: string) => {
  await ctx.sleep("1m");
  if (parcel === "lost") throw new FatalError("lost");
  return `${parcel} shipped`;
});
const order = workflow("order", async (ctx, parcel: string) => {
  const result = await ctx.child(ship, parcel);
  return { result };
});

function makeHost(options: ConstructorParameters<typeof KvHost>[0] = {}): KvHost {
  const host = new KvHost(options);
  host.teach(ship, order);
  return host;
}

describe("children", () => {
  test("K6 a child's result comes back to its parent, though the process dies in between", async () => {
    const host = makeHost();
    const run = await host.start(order, "lamp");
    expect(await run.waitingFor()).toEqual([expect.stringContaining("child ship")]);
    await host.crash();
    await host.skip("1m");
    expect(await run.result()).toEqual({ result: "lamp shipped" });
  });

  test("K3 a child that fails or is canceled is a ChildFailedError", async () => {
    const host = makeHost();
    const failed = await host.start(order, "lost", { id: "failed" });
    const canceled = await host.start(order, "lamp", { id: "canceled" });
    await host.handle("canceled/ship").cancel("why");
    await host.skip("1m");
    for (const run of [failed, canceled]) expect((await run.result().then(failure, failure)).cause).toBeInstanceOf(ChildFailedError);
  });

  test("D2 K6 whichever batch of parent or child dies, the child runs once and the parent hears of it", async () => {
    for (const when of ["before", "after"] as const) {
      for (let at = 1; at <= 12; at++) {
        const host = makeHost();
        let seen = 0;
        const { process } = host;
        process.onBatch = (moment) => {
          if (moment === when && ++seen === at) process.dead = true;
        };
        await host.start(order, "lamp");
        await host.skip("1m");
        if (host.driver("run").namespace.entries.size === 0) continue; // it was never started
        process.onBatch = undefined;
        await host.crash();
        await host.skip("3m");
        expect(await host.run(order, "run").status(), `${when} batch ${at}`).toBe("completed");
        expect(await host.run(order, "run").result(), `${when} batch ${at}`).toEqual({ result: "lamp shipped" });
      }
    }
  });

  test("K6 open children follow the end of their parent, each by its policy", async () => {
    const sleeper = workflow("sleeper", async (ctx) => ctx.sleep("1d"));
    const parent = workflow("parent", async (ctx) => {
      for (const parentClose of ["cancel", "abandon", "terminate"] as const)
        await ctx.startChild(sleeper, undefined, { id: parentClose, parentClose });
      await ctx.waitForSignal("go");
      return "gone";
    });
    const host = makeHost();
    host.teach(sleeper);
    const run = await host.start(parent);
    await host.crash();
    await run.signal("go");
    expect(await run.result()).toBe("gone");
    const statuses = await Promise.all(["cancel", "abandon", "terminate"].map((id) => host.run(sleeper, id).status()));
    expect(statuses).toEqual(["canceled", "sleeping", "terminated"]);
  });

  test("C7 a child that its parent gives up is canceled", async () => {
    const impatient = workflow("impatient", async (ctx) =>
      ctx.race("first", {
        ships: (branch) => branch.child(ship, "slow", { id: "slow" }),
        waits: async (branch) => {
          await branch.sleep("1s");
          return "too slow";
        },
      }),
    );
    const host = makeHost();
    const run = await host.start(impatient);
    await host.skip("1s");
    expect(await run.result()).toEqual({ winner: "waits", value: "too slow" });
    expect(await host.run(ship, "slow").status()).toBe("canceled");
  });

  test("K6 an id that is taken is an error of the call", async () => {
    const host = makeHost();
    await host.start(ship, "first", { id: "taken" });
    const clash = workflow("clash", async (ctx) => ctx.child(ship, "second", { id: "taken" }));
    const run = await host.start(clash);
    const error = await run.result().then(failure, failure);
    expect(error.cause.cause).toMatchObject({ code: "HF_RUN_ALREADY_EXISTS" });
  });

  test("P10 the answer to an execution that is over is nobody's", async () => {
    const again = workflow("again", async (ctx, n: number) => {
      if (n > 0) {
        await ctx.startChild(ship, `of ${n}`);
        return ctx.continueAsNew(n - 1);
      }
      await ctx.sleep("1h");
      return "end";
    });
    const host = makeHost();
    const run = await host.start(again, 2);
    await host.skip("2m");
    await host.skip("1h");
    expect(await run.result()).toBe("end");
  });
});

describe("messages to other runs", () => {
  const listener = workflow({ name: "listener", signals: { word: signal<string>() } }, async (ctx) => ctx.waitForSignal("word"));
  const speaker = workflow("speaker", async (ctx, to: string) => {
    await ctx.signalRun(to, "word", "hello");
    return "said";
  });

  test("M12 a signal reaches a run, once, and fails for unknown and closed ones", async () => {
    const host = makeHost();
    const heard = await host.start(listener, undefined, { id: "ear" });
    const said = await host.start(speaker, "ear", { id: "mouth" });
    expect([await said.result(), await heard.result()]).toEqual(["said", "hello"]);
    const late = await host.start(speaker, "ear", { id: "late" });
    expect((await late.result().then(failure, failure)).cause).toMatchObject({ code: "HF_RUN_CLOSED" });
    const lost = await host.start(speaker, "nobody", { id: "lost" });
    expect((await lost.result().then(failure, failure)).cause).toMatchObject({ code: "HF_RUN_NOT_FOUND" });
  });

  test("M3 D7 a signal that is sent again after a crash is one delivery", async () => {
    const counts = workflow({ name: "counts", signals: { word: signal<string>(), end: signal() } }, async (ctx) => {
      await ctx.waitForSignal("end");
      return (await ctx.listen(["word"], { count: 10, timeout: "1s" })).length;
    });
    const host = makeHost();
    const heard = await host.start(counts, undefined, { id: "ear" });
    const { process } = host;
    let batches = 0;
    process.onBatch = (moment) => {
      // the speaker's first turn, the message to the ear, the ear's turn; and then the speaker's record that it was sent
      if (moment === "before" && ++batches === 4) process.dead = true;
    };
    await host.start(speaker, "ear", { id: "mouth" });
    expect(process.dead).toBe(true);
    await host.crash();
    expect(await host.run(speaker, "mouth").result()).toBe("said");
    await heard.signal("end");
    await host.skip("1s");
    expect(await heard.result()).toBe(1);
  });

  test("K1 cancelRun cancels", async () => {
    const host = makeHost();
    const heard = await host.start(listener, undefined, { id: "ear" });
    const ends = workflow("ends", async (ctx) => ctx.cancelRun("ear"));
    await host.start(ends, undefined, { id: "ends" });
    expect(await heard.status()).toBe("canceled");
  });

  test("V4 without a router it is a clear error, and the run goes on once there is one", async () => {
    const host = makeHost({ routed: false });
    for (const [id, w, input] of [
      ["child", order, "lamp"],
      ["signal", speaker, "ear"],
    ] as const) {
      const run = await host.start(w, input, { id });
      await expect(run.result()).rejects.toThrow(/router/);
      expect(await run.status()).toBe("blocked");
    }
  });

  test("V4 D6 a transaction is a clear error: there is nothing to share it with", async () => {
    const host = makeHost();
    const run = await host.start(workflow("t", (ctx) => ctx.transaction("t", async () => 1)));
    await expect(run.result()).rejects.toThrow(/use ctx.step/);
  });
});
