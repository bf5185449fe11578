// Writes that a store refuses: only the caller of the refused item gets the error, not others that shared its write.

import { activity, jsonCodec, signal, workflow } from "@holdfast/core";
import { ask } from "@holdfast/postgres-server";
import type { Holdfast } from "holdfast";
import { type Store, StoreError, StoreRefusedError } from "holdfast/store";
import { afterEach, describe, expect, test } from "vitest";
import { openShell } from "../sqlite/support.ts";
import { type Engines, enginesOn, Gate, STORES, type StoreName, until, Wire } from "./engines.ts";

const RUNS = Array.from({ length: 50 }, (_, i) => ([7, 8, 31].includes(i) ? `bad-${i}` : `good-${i}`));
const isBad = (id: string): boolean => id.startsWith("bad");
const BAD = RUNS.filter(isBad);

const doubled = workflow("doubled", async (ctx, input: number) => ctx.step("double", () => input * 2));
const listens = workflow({ name: "listens", signals: { say: signal<string>() } }, async (ctx) => [
  await ctx.waitForSignal("say"),
  await ctx.waitForSignal("say"),
]);
const crowded = workflow({ name: "crowded", signals: { say: signal<string>() } }, async (ctx) => {
  const heard: string[] = [];
  while (heard.at(-1) !== "last") heard.push(...(await ctx.listen(["say"], { count: 100 })).map(({ payload }) => payload));
  return heard;
});
const began = new Map<string, Gate<string>>();
const work = activity("work", (id: string) => {
  const gate = new Gate<string>();
  began.set(id, gate);
  return gate.passed;
});
const delegates = workflow("delegates", async (ctx, id: string) => {
  try {
    return await ctx.activity(work, id);
  } catch (error) {
    return (error as { cause?: { code?: string } }).cause?.code;
  }
});
const limited = workflow("limited", async (ctx, id: string) => {
  try {
    return await ctx.activity(work, id, { startToClose: 200, retry: { maxAttempts: 1 } });
  } catch (error) {
    return (error as { cause?: { code?: string } }).cause?.code;
  }
});
const WORKER = {
  workflows: [doubled, listens, crowded, delegates, limited],
  activities: [work],
  determinism: "off",
  gracePeriod: 0,
} as const;

type What = "turns" | "runs" | "messages" | "answers" | "failures" | "ends" | "claims";
/** From now on the store refuses what belongs to a run whose id begins with "bad", and accepts it again when the test says so. */
type Refuse = (what: What) => Promise<() => Promise<void>>;

/** Rows of these tables that belong to such a run, and of which this holds. */
const WHERE: Record<What, readonly [event: string, table: string, run: string, condition: string]> = {
  turns: ["INSERT", "records", "run", "true"],
  runs: ["INSERT", "executions", "run", "true"],
  messages: ["INSERT", "inbox", "run", "NEW.value IS NOT NULL"],
  answers: ["INSERT", "inbox", "run", "NEW.value IS NOT NULL"],
  failures: ["INSERT", "inbox", "run", "NEW.value IS NULL"],
  claims: ["UPDATE", "runs", "key", "NEW.worker_id IS NOT NULL"],
  ends: ["UPDATE", "runs", "key", "NEW.finished_at IS NOT NULL"],
};

function inMemory(wire: Wire): Refuse {
  const refusing = <I>(idOf: (item: I) => string) => {
    return <R>(pass: (items: readonly I[]) => Promise<R>, items: readonly I[]): Promise<R> =>
      items.some((item) => isBad(idOf(item)))
        ? Promise.reject(new StoreRefusedError({ where: "memory", reason: "not this one" }))
        : pass(items);
  };
  type Commit = Parameters<Store["commit"]>[0][number];
  // A turn may be refused, and the word that its run is blocked taken.
  const turns = refusing(({ runId, blocked }: Commit) => (blocked === undefined ? runId : ""));
  const refusals: Partial<Record<What, () => void>> = {
    turns: () => wire.intercept("commit", turns),
    runs: () =>
      wire.intercept(
        "create",
        refusing(({ id }) => id),
      ),
    messages: () =>
      wire.intercept(
        "send",
        refusing(({ runId }) => runId),
      ),
    answers: () =>
      wire.intercept(
        "answerTasks",
        refusing(({ outcome }) => (outcome.status === "completed" ? String(jsonCodec.decode(outcome.value)) : "")),
      ),
  };
  return async (what) => {
    refusals[what]?.();
    return async () => {
      for (const method of ["commit", "create", "send", "answerTasks"] as const) wire.intercept(method, undefined);
    };
  };
}
function inSqlite(engines: Engines): Refuse {
  const exec = (sql: string): void => {
    const shell = openShell(engines.path);
    shell.exec(sql);
    shell.close();
  };
  return async (what) => {
    const [event, table, run, condition] = WHERE[what];
    exec(
      `CREATE TRIGGER refuse BEFORE ${event} ON holdfast_${table} WHEN (SELECT id FROM holdfast_runs WHERE key = NEW.${run}) LIKE 'bad%' AND ${condition}
       BEGIN SELECT RAISE(ABORT, 'not this one'); END`,
    );
    return async () => exec("DROP TRIGGER refuse");
  };
}
function inPostgres(engines: Engines): Refuse {
  const exec = (sql: string): Promise<unknown> => ask(engines.url ?? "", sql);
  return async (what) => {
    const [event, table, run, condition] = WHERE[what];
    await exec(
      `CREATE FUNCTION holdfast.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF (SELECT id FROM holdfast.runs WHERE key = NEW.${run}) LIKE 'bad%' AND ${condition} THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW;
       END $$`,
    );
    await exec(`CREATE TRIGGER refuse BEFORE ${event} ON holdfast.${table} FOR EACH ROW EXECUTE FUNCTION holdfast.refuse()`);
    return async () => void (await exec("DROP FUNCTION holdfast.refuse() CASCADE"));
  };
}
function refuseOn(name: StoreName, engines: Engines, wire: Wire): Refuse {
  if (name === "memory") return inMemory(wire);
  return name === "sqlite" ? inSqlite(engines) : inPostgres(engines);
}

describe.each(STORES)("on %s", (name) => {
  const engines = enginesOn(name);
  const wire = new Wire();
  const refuse = refuseOn(name, engines, wire);
  let accept = async (): Promise<void> => {};
  afterEach(async () => {
    await accept().catch(() => undefined);
    accept = async () => {};
  });
  const open = (): Promise<Holdfast> => engines.open(name === "memory" ? { wire } : {});

  test("D3 V4 of fifty turns that are ready together three are refused: the others end, those runs are blocked, say why, and go on once it is fixed", async () => {
    const engine = await open();
    const runs = await Promise.all(RUNS.map((id, i) => engine.start(doubled, i, { id })));
    accept = await refuse("turns");
    await engine.worker(WORKER);
    const results = await Promise.all(runs.map((run) => run.result({ timeout: "20s" }).catch((error: unknown) => error)));
    for (const [i, id] of RUNS.entries()) {
      if (!isBad(id)) expect(results[i]).toBe(i * 2);
      else expect(results[i]).toMatchObject({ code: "HF_RUN_BLOCKED", cause: { code: "HF_STORE_REFUSED" } });
    }
    for (const id of BAD) {
      const { status, error, waitingFor } = await engine.run(id, doubled).describe();
      expect([status, error?.message, waitingFor]).toEqual([
        "blocked",
        expect.stringContaining("not this one"),
        ["the store to accept its writes (StoreRefusedError)"],
      ]);
    }
    const isTold = ({ level, message }: { level: string; message: string }) =>
      level === "error" && /^3 runs of .* are blocked/.test(message);
    await until(() => engines.log.some(isTold), "the log");
    await accept();
    await Promise.all(BAD.map((id) => engine.run(id, doubled).resume()));
    for (const id of BAD) {
      const run = engine.run(id, doubled);
      await until(async () => (await run.describe()).status === "completed", `${id} to end`);
      expect(await run.result()).toBe(RUNS.indexOf(id) * 2);
    }
  }, 60_000);

  test.each([false, true])(
    "D3 of fifty runs that are started together three are refused, with a worker here: %s. Their callers hear of it, the others are there",
    async (hasWorker) => {
      const engine = await open();
      if (hasWorker) await engine.worker({ ...WORKER, concurrency: 100 });
      accept = await refuse("runs");
      const started = await Promise.allSettled(RUNS.map((id, i) => engine.start(doubled, i, { id })));
      for (const [i, id] of RUNS.entries()) {
        const one = started[i];
        if (isBad(id)) expect(one).toMatchObject({ status: "rejected", reason: { code: "HF_STORE_REFUSED" } });
        else expect(one?.status).toBe("fulfilled");
      }
      const { capped, ...counts } = await engine.count();
      expect([capped, Object.values(counts).reduce((sum, count) => sum + count, 0)]).toEqual([[], 47]);
      await accept();
      if (!hasWorker) await engine.worker(WORKER);
      // Under their ids nothing was left behind.
      for (const id of BAD) expect(await (await engine.start(doubled, 4, { id })).result({ timeout: "20s" })).toBe(8);
      expect(await engine.run("good-0", doubled).result({ timeout: "20s" })).toBe(0);
    },
    60_000,
  );

  test("D3 M1 M2 of signals that are sent together those to one run are refused: their senders hear of it, the others arrive once, in order", async () => {
    const engine = await open();
    const ids = ["good-1", "bad", "good-2"];
    const runs = await Promise.all(ids.map((id) => engine.start(listens, undefined, { id })));
    accept = await refuse("messages");
    const sent = await Promise.allSettled(["a", "b"].flatMap((word) => runs.map((run) => run.signal("say", word))));
    expect(sent.map(({ status }) => status)).toEqual(["a", "b"].flatMap(() => ["fulfilled", "rejected", "fulfilled"]));
    expect(sent[1]).toMatchObject({ reason: { code: "HF_STORE_REFUSED" } });
    await accept();
    await runs[1]?.signal("say", "c");
    await runs[1]?.signal("say", "d");
    await engine.worker(WORKER);
    expect(await Promise.all(runs.map((run) => run.result({ timeout: "20s" })))).toEqual([
      ["a", "b"],
      ["c", "d"],
      ["a", "b"],
    ]);
  }, 60_000);

  test.each([3, 1_100])(
    "D2 M1 M3 a crowd of signals that goes in several transactions, number %i to a run that is refused: the others arrive once, in order",
    async (refused) => {
      const engine = await open();
      const run = await engine.start(crowded, undefined, { id: "good" });
      const bad = await engine.start(crowded, undefined, { id: "bad" });
      accept = await refuse("messages");
      const numbers = Array.from({ length: 1_200 }, (_, i) => i);
      const sent = await Promise.allSettled(numbers.map((n) => (n === refused ? bad : run).signal("say", `${n}`)));
      expect(sent.flatMap(({ status }, i) => (status === "fulfilled" ? [] : [i]))).toEqual([refused]);
      await run.signal("say", "last");
      await engine.worker(WORKER);
      expect(await run.result({ timeout: "20s" })).toEqual([...numbers.filter((n) => n !== refused).map(String), "last"]);
    },
    60_000,
  );

  test("D11 P8 an activity whose result is refused has run: it fails without another attempt, and those beside it are answered", async () => {
    const engine = await open();
    await engine.worker({ ...WORKER, activityConcurrency: 50 });
    const ids = ["good-1", "bad", "good-2"];
    began.clear();
    const runs = await Promise.all(ids.map((id) => engine.start(delegates, id, { id })));
    await until(() => began.size === 3, "all to be at work");
    accept = await refuse("answers");
    for (const [id, gate] of began) gate.open(`${id} is done`);
    expect(await Promise.all(runs.map((run) => run.result({ timeout: "20s" })))).toEqual([
      "good-1 is done",
      "HF_STORE_REFUSED",
      "good-2 is done",
    ]);
  }, 60_000);
});

describe.each(["sqlite", "postgres"] as const)("what time does, on %s", (name) => {
  const engines = enginesOn(name);
  const refuse = refuseOn(name, engines, new Wire());
  let accept = async (): Promise<void> => {};
  afterEach(async () => {
    await accept().catch(() => undefined);
    accept = async () => {};
  });
  const LATE = "Deadlines could not be checked; trying again.";

  test("K7 a deadline that can't be written does not stop others from striking, and is reported once", async () => {
    const engine = await engines.open();
    accept = await refuse("ends");
    const start = (id: string) => engine.start(doubled, 1, { id, deadline: 300 });
    const endOf = async (run: { result(options: { timeout: "20s" }): Promise<unknown> }) =>
      run.result({ timeout: "20s" }).catch(({ cause }: { cause?: { code?: string } }) => cause?.code);
    const [first, bad, second] = [await start("good-1"), await start("bad"), await start("good-2")];
    for (const run of [first, second]) expect(await endOf(run)).toBe("HF_DEADLINE_EXCEEDED");
    await until(() => engines.log.some(({ message }) => message === LATE), "the log to tell of it");
    expect((await bad.describe()).status).toBe("pending");
    expect(await endOf(await start("good-3"))).toBe("HF_DEADLINE_EXCEEDED");
    expect(engines.log.filter(({ message }) => message === LATE)).toHaveLength(1);
    await accept();
    expect(await endOf(bad)).toBe("HF_DEADLINE_EXCEEDED");
  }, 60_000);

  test("D11 an attempt that can't be ended keeps no other activity from being claimed, ended or answered", async () => {
    const engine = await engines.open();
    await engine.worker({ ...WORKER, activityConcurrency: 50 });
    began.clear();
    accept = await refuse("failures");
    const bad = await engine.start(limited, "bad", { id: "bad" });
    const beside = await engine.start(limited, "good-1", { id: "good-1" });
    expect(await beside.result({ timeout: "20s" })).toBe("HF_STEP_TIMEOUT");
    await until(() => engines.log.some(({ message }) => message === LATE), "the log to tell of it");
    const later = await engine.start(delegates, "good-2", { id: "good-2" });
    await until(() => began.has("good-2"), "it to be claimed");
    began.get("good-2")?.open("done");
    expect(await later.result({ timeout: "20s" })).toBe("done");
    await accept();
    expect(await bad.result({ timeout: "20s" })).toBe("HF_STEP_TIMEOUT");
  }, 60_000);
});

describe.each(["sqlite", "postgres"] as const)("claims, on %s", (name) => {
  const engines = enginesOn(name);
  const refuse = refuseOn(name, engines, new Wire());

  test("W1 W2 a run that can't be claimed does not stop its worker from claiming others, and is reported once", async () => {
    const engine = await engines.open();
    const [bad, ...others] = [
      await engine.start(doubled, 1, { id: "bad" }),
      await engine.start(doubled, 2),
      await engine.start(doubled, 3),
    ];
    const accept = await refuse("claims");
    await engine.worker({ ...WORKER, concurrency: 1 });
    expect(await Promise.all(others.map((run) => run.result({ timeout: "20s" })))).toEqual([4, 6]);
    expect(engines.log.filter(({ level }) => level === "error")).toMatchObject([
      { message: "A run can't be claimed; others are.", fields: { error: { code: "HF_STORE_REFUSED" } } },
    ]);
    await accept();
    expect(await bad.result({ timeout: "20s" })).toBe(2);
  }, 60_000);
});

describe("in memory", () => {
  const engines = enginesOn("memory");

  test.each(["HF_STORE_UNAVAILABLE", "HF_STORE_BUSY", "HF_STORE_FULL", "HF_STORE_FAILED", "HF_STORE_MOVED"] as const)(
    "V4 W3 a store that is in trouble for a while (%s) blocks no run",
    async (code) => {
      const wire = new Wire();
      const engine = await engines.open({ wire });
      let failures = 0;
      wire.intercept("commit", async (pass, turns) => {
        if (failures++ < 4) throw new StoreError("Not now.", { code });
        return pass(turns);
      });
      const run = await engine.start(doubled, 2);
      await engine.worker(WORKER);
      expect(await run.result({ timeout: "20s" })).toBe(4);
      expect(engines.log.filter(({ message }) => message.includes("is blocked"))).toEqual([]);
    },
  );

  test("D3 V4 a turn that was refused because of another turn, for a moment, is written: its run is not blocked", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    let refusals = 0;
    wire.intercept("commit", async (pass, turns) => {
      if (refusals++ === 0) throw new StoreRefusedError({ where: "memory", reason: "twice the same" });
      return pass(turns);
    });
    const run = await engine.start(doubled, 2);
    await engine.worker(WORKER);
    expect(await run.result({ timeout: "20s" })).toBe(4);
    expect(engines.log.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("W3 D4 a lease that can't be renewed is released, with its steps; those beside it are kept", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const steps = new Map<string, { readonly gate: Gate; readonly signal: AbortSignal }>();
    const long = workflow("long", async (ctx, id: string) =>
      ctx.step("wait", ({ signal }) => {
        const gate = new Gate();
        steps.set(id, { gate, signal });
        return gate.passed;
      }),
    );
    wire.intercept("renew", async (pass, workerId, lease, claims) => {
      if (claims.some(({ runId }) => isBad(runId))) throw new StoreRefusedError({ where: "memory", reason: "not this one" });
      return pass(workerId, lease, claims);
    });
    await engine.worker({ workflows: [long], gracePeriod: 0, lease: 3_000, determinism: "off" });
    const ids = ["good-1", "bad", "good-2"];
    const runs = await Promise.all(ids.map((id) => engine.start(long, id, { id })));
    await until(() => steps.size === 3, "all to be at their step");
    await until(() => steps.get("bad")?.signal.aborted, "the step to be told");
    wire.intercept("renew", undefined);
    await until(() => steps.get("bad")?.signal.aborted === false, "its run to be taken up again");
    expect(["good-1", "good-2"].map((id) => steps.get(id)?.signal.aborted)).toEqual([false, false]);
    for (const { gate } of steps.values()) gate.open();
    await Promise.all(runs.map((run) => run.result({ timeout: "20s" })));
  });

  test("V4 W3 D7 a run that can't even be blocked is left to its lease, and does not affect the runs beside it", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const refused: string[] = [];
    wire.intercept("commit", async (pass, turns) => {
      const bad = turns.find(({ runId }) => isBad(runId));
      if (bad === undefined) return pass(turns);
      if (turns.length === 1) refused.push(bad.status);
      throw new StoreRefusedError({ where: "memory", reason: "not this one" });
    });
    const runs = await Promise.all(["bad", "good"].map((id) => engine.start(doubled, 2, { id })));
    const worker = await engine.worker({ ...WORKER, lease: "200ms" });
    expect(await runs[1]?.result({ timeout: "20s" })).toBe(4);
    await until(() => refused.filter((status) => status === "blocked").length >= 4, "it to be tried again when its lease was over");
    wire.intercept("commit", undefined);
    expect(await runs[0]?.result({ timeout: "20s" })).toBe(4);
    await worker.stop();
  });
});
