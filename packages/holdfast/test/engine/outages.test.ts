// Job: prove what operators hear of a database that is gone, and of runs that were taken over.
// Owns: the engines of each test.
// Invariants: one line when it is gone and one when it is back; W3 (who had the runs).

import { workflow } from "holdfast";
import { StoreError } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, Gate, STORES, until, Wire } from "./engines.ts";

const nap = workflow("nap", async (ctx) => {
  await ctx.step("work", () => 1);
  await ctx.sleep(10);
  return ctx.step("more", () => "done");
});

describe("a database that is gone", () => {
  const engines = enginesOn("memory");

  test("D9 is one line when it goes and one when it is back, with how long it was, whatever fails meanwhile", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    await engine.worker({ workflows: [nap], lease: "300ms" });
    let failed = 0;
    const gone = (): Promise<never> => {
      failed++;
      return Promise.reject(new StoreError("There is no server.", { code: "HF_STORE_UNAVAILABLE", retryable: true }));
    };
    const methods = ["claim", "claimTasks", "commit", "renew", "expire", "get", "updates"] as const;
    for (const method of methods) wire.intercept(method, gone);
    const runs = await Promise.all(Array.from({ length: 20 }, () => engine.start(nap))); // none can end meanwhile
    await until(() => failed > 20, "many calls to fail");
    for (const method of methods) wire.intercept(method, undefined);
    for (const run of runs) expect(await run.result({ timeout: "10s" })).toBe("done");
    await until(() => engines.log.some(({ level }) => level === "info"), "the news that it is back");
    const lines = engines.log.filter(({ level }) => level !== "debug").map(({ level, message }) => `${level} ${message}`);
    expect(lines).toEqual([
      "error Database unreachable: runs wait until it is back. Trying again.",
      expect.stringMatching(/^info Database reachable again after \d+ ?s\.$/),
    ]);
  });

  test("D9 a store that passes for other reasons is reported once in a while", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    await engine.worker({ workflows: [nap] });
    let failed = 0;
    wire.intercept("expire", () => {
      failed++;
      return Promise.reject(new StoreError("The disk is full.", { code: "HF_STORE_FULL", retryable: true }));
    });
    await until(() => failed > 2, "several looks");
    expect(engines.log.filter(({ level }) => level === "error")).toHaveLength(1);
  });

  test("D9 so is one that can't be used, however often it is asked; two reasons are two lines", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    let failed = 0;
    wire.intercept("claim", () => {
      const what = failed++ % 2 === 0 ? "A column is missing." : "A function is missing.";
      return Promise.reject(new StoreError(what, { code: "HF_STORE_FAILED" }));
    });
    await engine.worker({ workflows: [nap] });
    await until(() => failed > 5, "several claims");
    expect(engines.log.filter(({ level }) => level === "error")).toHaveLength(2);
  });
});

describe.each(STORES)("runs of a dead worker on %s", (store) => {
  const engines = enginesOn(store);

  test("W3 are taken over with one line, which says how many they are and whose they were", async () => {
    const wire = new Wire();
    const [dead, living] = await Promise.all([engines.open({ wire }), engines.open()]);
    const held = new Gate();
    let begun = 0;
    const stuck = workflow("stuck", async (ctx) => {
      await ctx.step("hangs", ({ attempt }) => {
        begun++;
        return attempt === 1 ? held.passed : undefined;
      });
    });
    const worker = await dead.worker({ workflows: [stuck], ...DOOMED });
    const ids = await Promise.all([1, 2, 3].map(async () => (await dead.start(stuck, undefined)).id));
    await until(() => begun === 3, "all of them to hang");
    wire.cut();
    await engines.expireLeases();
    const heir = await living.worker({ workflows: [stuck] });
    for (const id of ids) await living.run(id).result({ timeout: "10s" });
    await heir.stop();
    const lines = engines.log.filter(({ message }) => message.startsWith("Took over"));
    expect(lines).toMatchObject([{ level: "info", message: `Took over 3 runs from ${worker.id} (lease expired).` }]);
    held.open();
  });
});
