// Runs that park, block or stop just as something comes: it is neither lost nor consumed twice, and no run sleeps forever.
import { Receive, signal, update, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("what comes too late on %s", (store) => {
  const engines = enginesOn(store);

  test("M7 M10 D9 a message that a run was given as it parked is not taken again when it comes back from the cache", async () => {
    const wires = [new Wire(), new Wire()] as const;
    const [here, there] = await Promise.all([engines.open({ wire: wires[0] }), engines.open({ wire: wires[1] })]);
    const validated: string[] = [];
    const counter = (who: string) =>
      workflow({ name: "counter", signals: { stop: signal<void>() }, updates: { add: update<number, number>() } }, async (ctx) => {
        const { state } = await ctx.receive(0, {
          signals: { stop: (_payload, sum) => Receive.stop(sum) },
          updates: {
            add: {
              validate: () => {
                validated.push(who);
                if (who === "there") throw new Error("Not here.");
              },
              handle: (n: number, sum: number) => Receive.reply(sum + n, sum + n),
            },
          },
        });
        return state;
      });
    const [mine, theirs] = [counter("here"), counter("there")];
    let turnOf = "";
    for (const wire of wires) {
      wire.intercept("claim", async (pass, request) =>
        request.workerId === turnOf ? pass(request) : { now: Date.now(), runs: [], nextAt: undefined },
      );
    }
    const first = await here.worker({ workflows: [mine], lease: "600ms" });
    const second = await there.worker({ workflows: [theirs] });
    const parking = new Gate();
    const delivered = new Gate();
    const parks = new Gate();
    const consumed: number[] = [];
    for (const wire of wires) {
      wire.intercept("commit", async (pass, commits) => {
        consumed.push(...commits.flatMap((commit) => commit.consumed ?? []));
        if (commits.some(({ lease }) => lease === "park")) {
          parking.open();
          await parks.passed;
        }
        return pass(commits);
      });
    }
    wires[0].intercept("renew", async (pass, ...args) => {
      const results = await pass(...args);
      if (results.some((answer) => answer !== "busy" && answer.inbox.length > 0)) delivered.open();
      return results;
    });
    const run = await here.start(mine, undefined);
    await parking.passed;
    const sent = errorOf(there.run(run.id, theirs).update("add", 5));
    await delivered.passed;
    await new Promise((resolve) => setImmediate(resolve));
    parks.open();
    await until(() => first.active === 0);
    turnOf = second.id;
    expect(await sent).toMatchObject({ message: expect.stringContaining("Not here.") });
    await until(() => second.active === 0);
    turnOf = first.id;
    await run.signal("stop");
    expect(await run.result({ timeout: "8s" })).toBe(0);
    expect(validated).toEqual(["there"]);
    expect(consumed).toEqual([...new Set(consumed)]);
  });

  test("V4 W4 D9 a run that is being blocked as its worker stops keeps its timer", async () => {
    const wire = new Wire();
    const [good, bad] = await Promise.all([engines.open(), engines.open({ wire })]);
    const nap = workflow("nap", async (ctx) => {
      await ctx.step("lie down", () => {});
      await ctx.sleep(300);
      return "rested";
    });
    const other = workflow("nap", async (ctx) => {
      await ctx.step("stand up", () => {});
      return "tired";
    });
    const worker = await good.worker({ workflows: [nap] });
    const run = await good.start(nap, undefined);
    await until(async () => (await run.describe()).status === "sleeping");
    await worker.stop();
    const blocking = new Gate();
    const refused = new Gate();
    wire.intercept("commit", async (pass, commits) => {
      if (!commits.some(({ blocked }) => blocked !== undefined)) return pass(commits);
      blocking.open();
      await refused.passed;
      throw new Error("The connection was lost.");
    });
    const diverging = await bad.worker({ workflows: [other], ...DOOMED, gracePeriod: "1s" });
    await blocking.passed;
    const stopped = diverging.stop();
    refused.open();
    await stopped;
    await engines.expireLeases();
    await good.worker({ workflows: [nap] });
    expect(await run.result({ timeout: "5s" })).toBe("rested");
  });
});
