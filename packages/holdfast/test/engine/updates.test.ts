// M8–M11: updates and queries, as their callers see them; P4 and P5, published state.

import {
  InvalidInputError,
  QueryFailedError,
  Receive,
  RunClosedError,
  RunNotFoundError,
  UpdateFailedError,
  UpdateRejectedError,
  update,
  workflow,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

const account = workflow(
  {
    name: "account",
    updates: { add: update<number, number>(), fail: update<void, void>(), close: update<void, number>() },
    queries: {
      balance: (state: number | undefined) => state ?? 0,
      scaled: (state: number, by: number) => state * by,
      broken: (): number => {
        throw new Error("no such luck");
      },
    },
  },
  async (ctx) => {
    ctx.publishState(0);
    const { state } = await ctx.receive(0, {
      updates: {
        add: {
          validate: (n, balance) => {
            if (balance + n < 0) throw new RangeError("not enough");
          },
          handle: async (n, balance, ctx) => {
            const next = await ctx.step("add", () => balance + n);
            ctx.publishState(next);
            return Receive.reply(next, next);
          },
        },
        fail: () => {
          throw new TypeError("broken");
        },
        close: (_, balance) => Receive.stop(balance, balance),
      },
    });
    return state;
  },
);

describe.each(STORES)("updates on %s", (store) => {
  const engines = enginesOn(store);

  test("M10 the caller gets the outcome once it is durable", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [account] });
    const run = await engine.start(account, undefined);
    expect(await run.update("add", 5)).toBe(5);
    expect(await run.state()).toBe(5);
    expect(await Promise.all([1, 2, 3].map((n) => run.update("add", n)))).toEqual([6, 8, 11]);
    expect(await run.update("close")).toBe(11);
    expect(await run.result()).toBe(11);
  });

  test("M9 a validator that throws rejects the update, and nothing enters history", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [account] });
    const run = await engine.start(account, undefined);
    await run.update("add", 5);
    const before = (await run.describe()).historyLength;
    const error = await errorOf(run.update("add", -6));
    expect(error).toBeInstanceOf(UpdateRejectedError);
    expect(error.message).toMatch(/not enough/);
    expect((await run.describe()).historyLength).toBe(before);
    expect(await run.update("add", -5)).toBe(0);
  });

  test("M8 an update that no receive accepts is rejected", async () => {
    const engine = await engines.open();
    const busy = workflow({ name: "busy", updates: { add: update<number, number>() } }, async (ctx) => {
      await ctx.sleep("1h");
    });
    await engine.worker({ workflows: [busy] });
    const run = await engine.start(busy, undefined);
    await expect(run.update("add", 1)).rejects.toThrow(UpdateRejectedError);
    expect((await run.describe()).status).toBe("sleeping");
  });

  test("M10 a handler that throws fails the update; the run goes on", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [account] });
    const run = await engine.start(account, undefined);
    const error = await errorOf(run.update("fail"));
    expect(error).toBeInstanceOf(UpdateFailedError);
    expect(error.cause).toMatchObject({ name: "TypeError", message: "broken" });
    expect(await run.update("add", 1)).toBe(1);
  });

  test("M3 M10 a caller that reconnects with the same id gets the same outcome, and the update is made once", async () => {
    const engine = await engines.open();
    const client = await engines.open();
    await engine.worker({ workflows: [account] });
    const run = await engine.start(account, undefined);
    const add = (by = run) => by.update("add", 5, { idempotencyKey: "five" });
    expect(await Promise.all([add(), add(), add(client.run(run.id, account))])).toEqual([5, 5, 5]);
    await expect(run.update("add", -100, { idempotencyKey: "much" })).rejects.toThrow(UpdateRejectedError);
    await expect(run.update("add", -100, { idempotencyKey: "much" })).rejects.toThrow(UpdateRejectedError);
    expect(await run.update("close")).toBe(5);
    await run.result();
    expect(await add(client.run(run.id, account))).toBe(5); // after the end too
    await expect(run.update("add", 1)).rejects.toThrow(RunClosedError);
    await expect(engine.run("missing", account).update("add", 1)).rejects.toThrow(RunNotFoundError);
  });

  test("M10 an accepted update survives the death of its worker, and its caller gets the outcome from the next one", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const client = await engines.open();
    const entered = new Gate();
    const slow = workflow({ name: "slow", updates: { work: update<void, string>() } }, async (ctx) => {
      await ctx.receive(null, {
        updates: {
          work: async (_, state, ctx) => {
            const done = await ctx.step("work", async ({ attempt }) => {
              if (attempt > 1) return "worked";
              entered.open();
              return new Promise<string>(() => {});
            });
            return Receive.stop(done, state);
          },
        },
      });
    });
    await first.worker({ workflows: [slow], ...DOOMED });
    const run = await client.start(slow, undefined);
    const outcome = run.update("work");
    await entered.passed;
    wire.cut();
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [slow] });
    expect(await outcome).toBe("worked");
  });

  test("M10 a caller whose run ends without an outcome is not left waiting", async () => {
    const engine = await engines.open();
    const entered = new Gate();
    const stuck = workflow({ name: "stuck", updates: { work: update<void, string>() } }, async (ctx) => {
      await ctx.receive(null, {
        updates: {
          work: async (_, state, ctx) => {
            await ctx.step("work", () => {
              entered.open();
              return new Promise(() => {});
            });
            return Receive.reply("", state);
          },
        },
      });
    });
    await engine.worker({ workflows: [stuck], gracePeriod: 0 });
    const run = await engine.start(stuck, undefined);
    const accepted = errorOf(run.update("work"));
    await entered.passed;
    await run.terminate("enough");
    expect(await accepted).toMatchObject({ name: "RunClosedError" });
    const waiting = await engine.start(stuck, undefined, { queue: "unserved" });
    const sent = errorOf(waiting.update("work"));
    await until(async () => (await engine.list({ status: "pending" })).runs.length === 1);
    await until(async () => {
      await waiting.terminate().catch(() => {});
      return (await waiting.describe()).status === "terminated";
    });
    expect(await sent).toMatchObject({ name: "RunClosedError" });
  });

  test("M10 timeout ends the waiting, not the update", async () => {
    const engine = await engines.open();
    const run = await engine.start(account, undefined);
    await expect(run.update("add", 5, { idempotencyKey: "five", timeout: 20 })).rejects.toMatchObject({ code: "HF_WAIT_TIMEOUT" });
    await engine.worker({ workflows: [account] });
    expect(await run.update("add", 5, { idempotencyKey: "five" })).toBe(5);
    expect(await run.state()).toBe(5);
  });

  test("M1 an input that the schema refuses is refused at the caller", async () => {
    const engine = await engines.open();
    const typed = workflow({ name: "typed", updates: { set: update<{ n: number }, number>(z.object({ n: z.number() })) } }, async (ctx) => {
      await ctx.receive(0, { updates: { set: ({ n }) => Receive.stop(n, n) } });
    });
    await engine.worker({ workflows: [typed] });
    const run = await engine.start(typed, undefined);
    await expect(run.update("set", { n: "1" } as never)).rejects.toThrow(InvalidInputError);
    expect(await run.update("set", { n: 1 })).toBe(1);
  });

  test("M8 updateWithStart starts the run and its first receive takes the update; then it finds the run", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [account] });
    const add = (n: number) => engine.updateWithStart(account, undefined, { name: "add", input: n }, { id: "acc" });
    const first = await add(5);
    expect(first.result).toBe(5);
    expect(first.run.id).toBe("acc");
    expect((await add(6)).result).toBe(11);
    expect(await first.run.update("close")).toBe(11);
    await first.run.result();
    await expect(add(1)).rejects.toThrow(RunClosedError);
  });

  test("M8 M10 updateWithStart repeated under its key gives the same outcome, while the run is open and after", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [account] });
    const add = () => engine.updateWithStart(account, undefined, { name: "add", input: 5, idempotencyKey: "five" }, { id: "acc" });
    const both = await Promise.all([add(), add()]);
    expect(both.map(({ result }) => result)).toEqual([5, 5]);
    await both[0]?.run.update("close");
    await both[0]?.run.result();
    expect((await add()).result).toBe(5);
  });

  test("M8 updateWithStart without an id starts its own run, and rejects what no code accepts", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [account] });
    const [a, b] = await Promise.all([1, 2].map((n) => engine.updateWithStart(account, undefined, { name: "add", input: n })));
    expect([a?.result, b?.result]).toEqual([1, 2]);
    expect(a?.run.id).not.toBe(b?.run.id);
    await expect(engine.updateWithStart(account, undefined, { name: "add", input: -1 })).rejects.toThrow(UpdateRejectedError);
  });
});

describe.each(STORES)("queries on %s", (store) => {
  const engines = enginesOn(store);

  test("M11 P5 from an engine without workers, on open and on closed runs, of the published state", async () => {
    const engine = await engines.open();
    const client = await engines.open();
    await engine.worker({ workflows: [account] });
    const run = await engine.start(account, undefined);
    await run.update("add", 4);
    const asked = client.run(run.id, account);
    expect(await asked.query("balance")).toBe(4);
    expect(await asked.query("scaled", 3)).toBe(12);
    await run.update("close");
    await run.result();
    await engine.close();
    expect(await asked.query("balance")).toBe(4);
    expect(await asked.state()).toBe(4);
  });

  test("M11 a run that has published nothing yet answers from undefined", async () => {
    const engine = await engines.open();
    const run = await engine.start(account, undefined);
    expect(await run.query("balance")).toBe(0);
    expect(await run.state()).toBeUndefined();
  });

  test("M11 they write nothing, and need no worker to be awake", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [account] });
    const run = await engine.start(account, undefined);
    await run.update("add", 1);
    await until(async () => (await run.describe()).status === "sleeping");
    const before = await run.describe();
    for (let i = 0; i < 10; i++) await run.query("balance");
    expect(await run.describe()).toEqual(before);
  });

  test("M11 P8 a query whose result can't be given is a QueryFailedError that says why", async () => {
    const engine = await engines.open();
    const odd = workflow({ name: "odd", queries: { fn: () => () => 1, later: async () => 1 } }, async () => {});
    const run = await engine.start(odd, undefined);
    for (const name of ["fn", "later"] as const) {
      const error = await errorOf(run.query(name) as Promise<unknown>);
      expect(error).toBeInstanceOf(QueryFailedError);
      expect(error.cause).toMatchObject({ name: "UnserializableValueError" });
    }
  });

  test("M11 unknown or throwing: QueryFailedError", async () => {
    const engine = await engines.open();
    const client = await engines.open();
    const run = await engine.start(account, undefined);
    await expect(run.query("broken")).rejects.toThrow(QueryFailedError);
    await expect(run.query("nope" as "broken")).rejects.toThrow(QueryFailedError);
    await expect(client.run(run.id).query("balance")).rejects.toThrow(/does not know workflow "account"/);
    await expect(engine.run("missing", account).query("balance")).rejects.toThrow(RunNotFoundError);
  });

  test("P5 published state is seen with the commit of its turn, and outlives the scope", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const client = await engines.open();
    const told = workflow("told", async (ctx) => {
      await ctx.waitForSignal("go");
      await ctx.join("both", { a: async (ctx) => ctx.publishState({ from: "a branch" }) });
      await ctx.waitForSignal("end");
    });
    const asked = new Gate<unknown>();
    wire.intercept("commit", async (pass, turns) => {
      if (turns.some(({ state }) => state !== undefined)) asked.open(await client.run(turns[0]?.runId ?? "").state());
      return pass(turns);
    });
    await engine.worker({ workflows: [told] });
    const run = await engine.start(told, undefined);
    await run.signal("go");
    expect(await asked.passed).toBeUndefined();
    expect(await until(async () => client.run(run.id).state())).toEqual({ from: "a branch" });
    await run.signal("end");
    await run.result();
  });
});
