// Job: prove that a worker that lost a run writes nothing of it, while the run is open and another goes on with it.
// Owns: the workflows in it; the wire keeps the first worker from renewing its lease.
// Invariants: D4 (the epoch of the claim, not the status of the run, decides), D6 (a transaction is fenced as well).

import { type Workflow, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import type { CommitResult, TurnCommit } from "../../src/store/port.ts";
import { DOOMED, enginesOn, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("a lost claim on %s", (store) => {
  const engines = enginesOn(store);

  /** A worker that stands still until its lease has run out, and another that takes what it had. */
  async function twoWorkers(work: (who: "frozen" | "other") => Workflow<void, string>, wire = new Wire()) {
    const answers: [TurnCommit, CommitResult["status"] | undefined][] = [];
    wire.intercept("renew", async (_pass, _worker, _lease, claims) => claims.map(() => ({ held: true, inbox: [] })));
    wire.intercept("claim", async () => ({ now: Date.now(), runs: [], nextAt: undefined })); // nor does it take the run again
    wire.intercept("commit", async (pass, commits) => {
      const results = await pass(commits);
      for (const [i, commit] of commits.entries()) {
        const answer = results[i];
        answers.push([commit, answer === "busy" ? undefined : answer?.status]);
      }
      return results;
    });
    const frozen = await engines.open({ wire });
    const other = await engines.open();
    const mine = work("frozen");
    const worker = await frozen.worker({ workflows: [mine], ...DOOMED });
    const run = await frozen.start(mine, undefined); // begun here: no claim
    const takeOver = async () => {
      await engines.expireLeases();
      return other.worker({ workflows: [work("other")] });
    };
    return { answers, worker, takeOver, run: other.run(run.id) };
  }

  test.each(["works on it", "has parked it"] as const)("D4 what the first has to write is stale while the other %s", async (how) => {
    const entered = new Gate();
    const thaws = new Gate();
    const taken = new Gate();
    const goesOn = new Gate();
    const ran: string[] = [];
    const work = (who: "frozen" | "other") =>
      workflow("work", async (ctx) => {
        const value = await ctx.step("work", async () => {
          ran.push(`work, ${who}`);
          if (who === "frozen") {
            entered.open();
            await thaws.passed;
          } else {
            taken.open();
            if (how === "works on it") await goesOn.passed;
          }
          return who;
        });
        await ctx.step("after", () => void ran.push(`after, ${who}`));
        if (how === "has parked it") await ctx.waitForSignal("go");
        return value;
      });
    const { answers, worker, takeOver, run } = await twoWorkers(work);
    await entered.passed;
    await takeOver();
    await taken.passed;
    if (how === "has parked it") await until(async () => (await run.describe()).status === "sleeping");
    const history = JSON.stringify(await run.history());
    answers.length = 0;

    thaws.open(); // it wakes, and has a result to write
    await until(() => worker.active === 0);
    expect(answers.map(([, status]) => status)).toEqual(["stale"]);
    expect(answers[0]?.[0].turn?.jobs).toMatchObject([{ type: "resolve" }]);
    expect(JSON.stringify(await run.history())).toBe(history);

    goesOn.open();
    if (how === "has parked it") await run.signal("go");
    expect(await run.result({ timeout: "8s" })).toBe("other");
    expect(ran).toEqual(["work, frozen", "work, other", "after, other"]);
  });

  test("D4 D6 a transaction of the first does not run once the other has the run", async () => {
    const asked = new Gate();
    const thaws = new Gate();
    const taken = new Gate();
    const goesOn = new Gate();
    const ran: string[] = [];
    const work = (who: "frozen" | "other") =>
      workflow("work", async (ctx) => {
        const value = await ctx.transaction("write", () => {
          ran.push(who);
          return who;
        });
        if (who === "other") taken.open();
        await ctx.step("after", () => goesOn.passed);
        return value;
      });
    const wire = new Wire();
    // The store is asked only after the run was taken away.
    wire.intercept("transact", async (pass, claim, body) => {
      asked.open();
      await thaws.passed;
      return pass(claim, body);
    });
    const { worker, takeOver, run } = await twoWorkers(work, wire);
    await asked.passed;
    await takeOver();
    await taken.passed;
    thaws.open();
    await until(() => worker.active === 0);
    goesOn.open();
    expect(await run.result({ timeout: "8s" })).toBe("other");
    expect(ran).toEqual(["other"]);
  });
});
