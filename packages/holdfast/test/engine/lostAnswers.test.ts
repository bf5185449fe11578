// A call was carried out and its answer was lost: the worker can't know. It counts no attempt that it never began (D7), and touches no run
// of others (D4).

import { activity, type Holdfast, workflow } from "holdfast";
import { type Store, StoreError, type TurnCommit } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, STORES, until, Wire } from "./engines.ts";

const away = (): StoreError => new StoreError("The store can't be reached.", { code: "HF_STORE_UNAVAILABLE", retryable: true });
const opens = ({ turn }: TurnCommit, name: string): boolean =>
  turn?.commands.some((command) => "name" in command && command.name === name) === true;

/** Once: the commit is carried out, and its answer is lost. */
function loseAnswer(wire: Wire, isIt: (commit: TurnCommit) => boolean, then: () => void = () => {}): void {
  wire.intercept("commit", async (pass, commits) => {
    const results = await pass(commits);
    if (!commits.some(isIt)) return results;
    wire.intercept("commit", undefined);
    then();
    throw away();
  });
}
const ONCE = { retry: { maxAttempts: 1 } } as const;
const LEASE = { lease: "3s" } as const;

describe.each(STORES)("answers that are lost, on %s", (store) => {
  const engines = enginesOn(store);
  const ran: string[] = [];
  const order = workflow("order", async (ctx) => {
    await ctx.step("first", ({ attempt }) => void ran.push(`first ${attempt}`), ONCE);
    await ctx.step("second", ({ attempt }) => void ran.push(`second ${attempt}`), ONCE);
    return "done";
  });
  const open = async (): Promise<{ engine: Holdfast; wire: Wire }> => {
    ran.length = 0;
    const wire = new Wire();
    return { wire, engine: await engines.open({ wire }) };
  };

  test.each([
    ["before the call has failed", false],
    ["after that", true],
  ])("D7 an activity whose claim was carried out %s, and lost, has not begun: it runs, though it has one attempt", async (_, isLate) => {
    const { wire, engine } = await open();
    const act = activity("act", (n: number, { attempt }) => `${n} ${attempt}`, ONCE);
    const acts = workflow("acts", async (ctx, n: number) => ctx.activity(act, n));
    let first: Parameters<Store["claimTasks"]>[0] | undefined;
    let isCarriedOut = false;
    wire.intercept("claimTasks", async (pass, request) => {
      if (isCarriedOut) return pass(request);
      if (first === undefined && isLate) {
        first = request;
        throw away();
      }
      const claim = await pass(first ?? request);
      if (claim.tasks.length === 0) return claim;
      isCarriedOut = true;
      if (isLate) return pass(request);
      throw away();
    });
    await engine.worker({ workflows: [acts], activities: [act], ...LEASE });
    const runs = await engine.startMany(acts, [{ input: 1 }, { input: 2 }]);
    expect(await Promise.all(runs.map((run) => run.result({ timeout: "15s" })))).toEqual(["1 1", "2 1"]);
    expect(isCarriedOut).toBe(true);
  });

  test("D7 D11 an activity that has run, and whose outcome could not be stored, is not taken for one that has not begun", async () => {
    const { wire, engine } = await open();
    const attempts: number[] = [];
    const act = activity("act", (_: undefined, { attempt }) => attempts.push(attempt), { retry: { maxAttempts: 2, initialInterval: 1 } });
    const acts = workflow("acts", async (ctx) => ctx.activity(act, undefined));
    wire.intercept("answerTasks", async () => {
      wire.intercept("answerTasks", undefined);
      wire.intercept("claimTasks", async () => {
        wire.intercept("claimTasks", undefined);
        throw away();
      });
      throw away();
    });
    await engine.worker({ workflows: [acts], activities: [act], lease: "1s" });
    expect(await (await engine.start(acts, undefined)).result({ timeout: "15s" })).toBe(2);
    expect(attempts).toEqual([1, 2]);
  });

  test("D7 a step that a lost commit opened was not begun, and its worker knows it", async () => {
    const { wire, engine } = await open();
    await engine.worker({ workflows: [order], ...LEASE });
    let isGivenBack = false;
    loseAnswer(
      wire,
      (commit) => opens(commit, "second"),
      () => {
        // It can't be given back either: the worker comes upon it when its lease is over.
        wire.intercept("commit", async (pass, commits) => {
          if (!commits.every(({ turn, attempts = [] }) => turn === undefined && !attempts.some(({ number }) => number === 1)))
            return pass(commits);
          isGivenBack = true;
          throw away();
        });
      },
    );
    const run = await engine.start(order, undefined);
    expect(await run.result()).toBe("done");
    expect(isGivenBack).toBe(true);
    expect(ran).toEqual(["first 1", "second 1"]);
  });

  test("D7 the same, where another worker has the run next", async () => {
    const { wire, engine } = await open();
    await engine.worker({ workflows: [order], ...LEASE });
    const other = await engines.open();
    loseAnswer(
      wire,
      (commit) => opens(commit, "second"),
      () => wire.intercept("claim", async () => ({ now: Date.now(), runs: [], nextAt: undefined })),
    );
    const run = await engine.start(order, undefined);
    await other.worker({ workflows: [order], ...LEASE });
    expect(await run.result()).toBe("done");
    expect(ran).toEqual(["first 1", "second 1"]);
  });

  test("D7 the first step of a run whose start was lost", async () => {
    const { wire, engine } = await open();
    await engine.worker({ workflows: [order], lease: "10m" });
    wire.intercept("create", async (pass, runs) => {
      await pass(runs);
      throw away();
    });
    await expect(engine.start(order, undefined, { id: "a" })).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
    expect(await engine.run("a", order).result({ timeout: "20s" })).toBe("done");
    expect(ran).toEqual(["first 1", "second 1"]);
  });

  test("D7 an attempt that a lost commit announced", async () => {
    const { wire, engine } = await open();
    const flaky = workflow("flaky", async (ctx) =>
      ctx.step(
        "try",
        ({ attempt }) => {
          ran.push(`try ${attempt}`);
          if (attempt === 1) throw new Error("not yet");
        },
        { retry: { maxAttempts: 2, initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [flaky], ...LEASE });
    let isLost = false;
    const announces = ({ attempts = [] }: TurnCommit): boolean =>
      attempts.some(({ number, status }) => number === 2 && status === "running");
    loseAnswer(wire, announces, () => {
      isLost = true;
    });
    const run = await engine.start(flaky, undefined);
    await run.result();
    expect(isLost).toBe(true);
    expect(ran).toEqual(["try 1", "try 2"]);
  });

  test("D7 a commit that never arrived opens its steps when it is made again; a worker that dies in one has tried it", async () => {
    const { wire, engine } = await open();
    await engine.worker({ workflows: [order], ...LEASE });
    const killer = workflow("killer", async (ctx) => {
      await ctx.sleep(1);
      const die = (attempt: number): Promise<never> => {
        ran.push(`deadly ${attempt}`);
        wire.cut();
        return new Promise(() => {});
      };
      await ctx.step("deadly", ({ attempt }) => die(attempt), ONCE);
    });
    await engine.worker({ workflows: [killer], queue: "deadly", ...DOOMED });
    let isLost = false;
    wire.intercept("commit", async (pass, commits) => {
      if (isLost || !commits.some((commit) => opens(commit, "deadly"))) return pass(commits);
      isLost = true;
      throw away();
    });
    const run = await engine.start(killer, undefined, { queue: "deadly", id: "k" });
    await until(() => ran.length > 0, "the step that kills its worker");
    await engines.expireLeases();
    const other = await engines.open();
    await other.worker({ workflows: [killer], queue: "deadly", ...LEASE });
    await expect(other.run(run.id, killer).result({ timeout: "20s" })).rejects.toMatchObject({ name: "RunFailedError" });
    expect(isLost).toBe(true);
    expect(ran).toEqual(["deadly 1"]);
  });

  if (store !== "memory") {
    test.each(["was", "was not"])(
      "D6 W3 a transaction that %s carried out is found out about at once, not when its lease is over",
      async (how) => {
        const { wire, engine } = await open();
        const pay = workflow("pay", async (ctx) =>
          ctx.transaction("charge", (_: unknown, { attempt }: { attempt: number }) => {
            ran.push(`charge ${attempt}`);
            return store === "sqlite" ? (attempt as never) : (Promise.resolve(attempt) as never);
          }),
        );
        await engine.worker({ workflows: [pay], lease: "10m" });
        wire.intercept("transact", async (pass, claim, body) => {
          wire.intercept("transact", undefined);
          if (how === "was") await pass(claim, body);
          throw away();
        });
        const run = await engine.start(pay, undefined);
        expect(await run.result({ timeout: "20s" })).toBe(how === "was" ? 1 : 2);
        expect(ran).toEqual(how === "was" ? ["charge 1"] : ["charge 2"]);
      },
    );
  }

  test("D4 a start that never arrived touches no run of others under its id", async () => {
    const { wire, engine } = await open();
    await engine.worker({ workflows: [order], ...LEASE });
    let theirs: Parameters<Store["create"]>[0][number] | undefined;
    wire.intercept("create", async (pass, runs) => {
      const [run] = runs;
      if (run?.first === undefined || theirs !== undefined) return pass(runs);
      theirs = { ...run, seed: "of others", first: { ...run.first, workerId: "others", lease: 60_000 } };
      await pass([theirs]);
      throw away();
    });
    const looks: string[] = [];
    wire.intercept("get", async (pass, ids) => {
      looks.push(...ids);
      return pass(ids);
    });
    await expect(engine.start(order, undefined, { id: "a" })).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
    await until(() => looks.includes("a"), "the look whether it was created");
    const run = await engine.start(order, undefined, { id: "b" });
    expect(await run.result()).toBe("done");
    expect(await engine.run("a", order).describe()).toMatchObject({ workerId: "others", status: "running" });
  });
});
