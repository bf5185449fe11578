// Conformance of hosts: updates and queries.
// Owns: tests of `receive` as callers see it.
// Invariants tested: A1, M8–M11, P5, R4, R9–R11.

import assert from "node:assert/strict";
import { Receive, signal, update, workflow } from "@holdfast/core";
import { fails, failure, numbers, replayed, type Suite, same } from "./suite.ts";

/** A deposit is answered at once; what is asked slowly, after a minute. */
function makeAccount({ t }: Suite) {
  return workflow(
    {
      name: "account",
      signals: { close: signal() },
      updates: { deposit: update<number, number>(numbers((n) => n > 0)), slow: update<string, string>() },
      queries: { balance: (state: { balance: number } | undefined) => state?.balance ?? 0 },
    },
    async (ctx) => {
      const { state } = await ctx.receive(
        { balance: 0 },
        {
          signals: { close: (_, held) => Receive.stop(held) },
          updates: {
            deposit: {
              validate(amount, held) {
                if (held.balance + amount > 100) throw new Error("too rich");
              },
              async handle(amount, held, handler) {
                const balance = await handler.step("add", () => held.balance + amount);
                handler.publishState({ balance });
                return Receive.reply(balance, { balance });
              },
            },
            slow: (word, held) =>
              Receive.async(async (handler) => {
                await handler.sleep(t("1m"));
                return word.toUpperCase();
              }, held),
          },
          checkpointEvery: 5,
        },
      );
      return state.balance;
    },
  );
}

/** Opens its receive after the signal `go`. */
const late = workflow(
  { name: "late", signals: { go: signal() }, updates: { add: update<number, number>(numbers((n) => n > 0)) } },
  async (ctx) => {
    await ctx.waitForSignal("go");
    const { state } = await ctx.receive(0, {
      updates: {
        add: {
          validate(n) {
            if (n > 100) throw new Error("too much");
          },
          handle: (n, sum) => Receive.stop(sum + n, sum + n),
        },
      },
    });
    return state;
  },
);

/** Its receive is two signals and an execution away. */
const distant = workflow(
  { name: "distant", signals: { go: signal() }, updates: { add: update<number, number>() } },
  async (ctx, n: number) => {
    await ctx.waitForSignal("go");
    if (n < 2) return ctx.continueAsNew(n + 1);
    await ctx.waitForSignal("go");
    const validate = (amount: number): void => {
      if (amount < 0) throw new Error("too little");
    };
    const handle = (amount: number, sum: number) => (amount === 0 ? Receive.stop(sum, sum) : Receive.reply(sum + amount, sum + amount));
    return (await ctx.receive(0, { updates: { add: { validate, handle } } })).state;
  },
);

function patience({ test }: Suite): void {
  const needs = { needs: "acceptWithin" } as const;
  test(
    "M8 with acceptWithin an update waits for the receive that accepts it, and leaves no trace before",
    async (host) => {
      const run = await host.start(late);
      const asked = run.update("add", 5, { acceptWithin: "1d" });
      await fails(run.update("add", 6), "HF_UPDATE_REJECTED");
      await host.skip("30m");
      await run.signal("go");
      same([await asked, await run.result()], [5, 5]);
      const jobs = (await run.history()).turns.flatMap((turn) => (turn as { jobs: { type: string }[] }).jobs);
      same(jobs.filter(({ type }) => type === "update").length, 1);
      await replayed(run, late);
    },
    needs,
  );
  test(
    "M8 M10 it outlives the process, and a caller that returns with its key gets its outcome",
    async (host) => {
      const run = await host.start(late);
      const asked = failure(run.update("add", 5, { acceptWithin: "1d", idempotencyKey: "k" }));
      await host.settle();
      await host.crash();
      await asked; // the process died under it
      await host.skip("10m");
      await run.signal("go");
      same([await run.update("add", 5, { idempotencyKey: "k" }), await run.result()], [5, 5]);
    },
    needs,
  );
  test(
    "M8 once its time is over it is rejected, and no receive sees it",
    async (host) => {
      const run = await host.start(late);
      const asked = failure(run.update("add", 5, { acceptWithin: "1h", idempotencyKey: "k" }));
      await host.skip("1h1s");
      const error = await asked;
      same(error.code, "HF_UPDATE_REJECTED");
      assert.match(error.message, /within the time/);
      await run.signal("go");
      same([await run.update("add", 7), await run.result()], [7, 7]);
    },
    needs,
  );
  test(
    "M8 M10 an update whose time is over stays rejected under its key",
    async (host) => {
      const run = await host.start(late);
      const asked = failure(run.update("add", 5, { acceptWithin: "1h", idempotencyKey: "k" }));
      await host.skip("1h1s");
      same((await asked).code, "HF_UPDATE_REJECTED");
      await run.signal("go");
      await fails(run.update("add", 5, { idempotencyKey: "k" }), "HF_UPDATE_REJECTED");
      same([await run.update("add", 7), await run.result()], [7, 7]);
    },
    needs,
  );
  test(
    "M8 one whose caller has gone is rejected by the next activation after its time",
    async (host) => {
      const run = await host.start(late);
      const asked = failure(run.update("add", 5, { acceptWithin: "1h", idempotencyKey: "k" }));
      await host.settle();
      await host.crash();
      await asked; // the process died under it
      await host.skip("2h");
      await run.signal("go");
      await fails(run.update("add", 5, { idempotencyKey: "k" }), "HF_UPDATE_REJECTED");
      same(await run.status(), "sleeping");
    },
    needs,
  );
  test(
    "M8 M9 a validator's refusal is final, and so is that of its schema",
    async (host) => {
      const run = await host.start(late);
      await run.signal("go");
      await fails(run.update("add", 500, { acceptWithin: "1h" }), /too much/);
      await fails(run.update("add", -1, { acceptWithin: "1h" }), "HF_INVALID_INPUT");
      same([await run.update("add", 7, { acceptWithin: "1h" }), await run.result()], [7, 7]);
    },
    needs,
  );
  test(
    "M8 an update that may wait is offered to each turn until a receive takes it up, through crashes and executions",
    async (host) => {
      const run = await host.start(distant, 1);
      const ask = (amount: number, key: string) => {
        const reply = run.update("add", amount, { acceptWithin: "1d", idempotencyKey: key });
        reply.catch(() => {}); // the process may die under it
        return host.settle().then(() => ({ reply }));
      };
      await ask(5, "first");
      await ask(7, "second");
      await fails(run.update("add", 1), "HF_UPDATE_REJECTED"); // one that may not wait
      await run.signal("go");
      await host.crash();
      await run.signal("go");
      await host.skip("10m");
      const first = await ask(5, "first");
      const refused = await ask(-1, "refused");
      await run.signal("go");
      same(await first.reply, 5); // in the order in which they came
      await fails(refused.reply, /too little/);
      same(await run.update("add", 7, { idempotencyKey: "second" }), 12);
      await run.update("add", 0);
      same(await run.result(), 12);
    },
    needs,
  );
  test(
    "M8 one that waits when its run ends is answered so",
    async (host) => {
      const run = await host.start(distant, 2);
      const asked = failure(run.update("add", 5, { acceptWithin: "1d" }));
      await host.settle();
      await run.cancel();
      same((await asked).code, "HF_RUN_CLOSED");
    },
    needs,
  );
}

export function updates(suite: Suite): void {
  patience(suite);
  const account = makeAccount(suite);
  const { test, t } = suite;
  test("M3 M10 an update and a signal under the same key are two messages", async (host) => {
    const run = await host.start(account);
    same(await run.update("deposit", 30, { idempotencyKey: "k" }), 30);
    await run.signal("close", undefined, { idempotencyKey: "k" });
    same(await run.result(), 30);
  });
  test("M10 R4 updates are answered, refused by their validator, and answered again under their key", async (host) => {
    const run = await host.start(account);
    same(await run.update("deposit", 30, { idempotencyKey: "d1" }), 30);
    same(await run.update("deposit", 20), 50);
    await host.crash();
    same(await run.update("deposit", 30, { idempotencyKey: "d1" }), 30);
    const refused = await failure(run.update("deposit", 60));
    same(refused.code, "HF_UPDATE_REJECTED");
    assert.match(refused.message, /too rich/);
    await fails(run.update("deposit", -1), "HF_INVALID_INPUT");
    same(await run.query("balance"), 50);
    await run.signal("close");
    same(await run.result(), 50);
    same(await run.query("balance"), 50); // M11: of closed runs too
    await fails(run.query("nothing"), "HF_QUERY_FAILED");
  });

  test("A1 M10 the reply of an async handler comes after a crash and a wait", async (host) => {
    const run = await host.start(account);
    const before = run.update("slow", "word", { idempotencyKey: "s" });
    before.catch(() => {});
    await host.settle();
    await host.crash();
    await host.skip("1m");
    same(await run.update("slow", "word", { idempotencyKey: "s" }), "WORD");
  });

  test("R11 a receive with checkpoints keeps a bounded history, and goes on from the last after a crash", async (host) => {
    const run = await host.start(account);
    const lengths: number[] = [];
    for (let i = 1; i <= 40; i++) {
      same(await run.update("deposit", 1), i);
      lengths.push((await run.history()).turns.length);
      if (i % 7 === 0) await host.crash();
    }
    assert.ok(Math.max(...lengths.slice(10)) <= Math.max(...lengths.slice(0, 10)));
    await run.signal("close");
    same(await run.result(), 40);
    await replayed(run, account);
  });

  test("M10 an update that its run leaves unanswered fails when the run closes", async (host) => {
    const brief = workflow({ name: "brief", updates: { ask: update<string, string>() } }, async (ctx) => {
      await ctx.receive(0, {
        updates: { ask: (_, state) => Receive.async((handler) => handler.condition(() => false) as never, state) },
        timeout: t("1d"),
      });
    });
    const run = await host.start(brief);
    const asked = run.update("ask", "?");
    asked.catch(() => {});
    await host.settle();
    await run.terminate("enough");
    await fails(asked, "HF_RUN_CLOSED");
    await fails(run.result(), "HF_RUN_TERMINATED");
  });

  test("M8 an update that no receive accepts is rejected, and leaves nothing in history", async (host) => {
    const deaf = workflow({ name: "deaf", updates: { ask: update<string, string>() } }, async (ctx) => ctx.waitForSignal("go" as never));
    const run = await host.start(deaf);
    const before = await run.history();
    await fails(run.update("ask", "?"), "HF_UPDATE_REJECTED");
    same((await run.history()).turns, before.turns);
  });

  test("M9 an update that its validator refuses leaves nothing in history", async (host) => {
    const run = await host.start(account);
    const before = await run.history();
    await fails(run.update("deposit", 200), "HF_UPDATE_REJECTED");
    same((await run.history()).turns, before.turns);
    same(await run.update("deposit", 1), 1);
  });

  test("R9 a handler that throws fails its update, the state is unchanged, the run goes on", async (host) => {
    const moody = workflow({ name: "moody", updates: { add: update<number, number>() } }, async (ctx) => {
      await ctx.receive(0, {
        updates: {
          add: (n, sum) => {
            if (n < 0) throw new RangeError("no debts");
            return Receive.reply(sum + n, sum + n);
          },
        },
      });
    });
    const run = await host.start(moody);
    same(await run.update("add", 5), 5);
    await fails(run.update("add", -1, { idempotencyKey: "bad" }), /no debts/);
    await host.crash();
    await fails(run.update("add", -1, { idempotencyKey: "bad" }), /no debts/); // M10: the same outcome
    same(await run.update("add", 1), 6);
  });

  test(
    "R10 A3 async handlers and sync ones change one state, and no change is lost",
    async (host) => {
      const counter = workflow(
        { name: "counter", signals: { end: signal() }, updates: { slow: update<number, number>(), fast: update<number, number>() } },
        async (ctx) => {
          const { state } = await ctx.receive(0, {
            signals: { end: (_, sum) => Receive.stop(sum) },
            updates: {
              slow: (n, sum) =>
                Receive.async(async (handler) => {
                  await handler.sleep(t("1m"));
                  return handler.updateState((held) => [held + n, held + n]);
                }, sum),
              fast: (n, sum) => Receive.reply(sum + n, sum + n),
            },
          });
          return state;
        },
      );
      const run = await host.start(counter);
      for (const n of [1, 2]) run.update("slow", n).catch(() => {}); // the process dies under it
      await host.settle();
      same(await run.update("fast", 10), 10);
      await host.crash();
      same(await run.update("fast", 20), 30);
      await run.signal("end"); // R5: what is in flight is waited for
      same(await run.status(), "sleeping");
      await host.skip("1m");
      same(await run.result(), 33);
    },
    { needs: "exact-clock" },
  );

  test("P5 M11 published state is seen from outside, of open and closed runs, and outlives its scope", async (host) => {
    const shows = workflow({ name: "shows", queries: { twice: (state: number | undefined) => (state ?? 0) * 2 } }, async (ctx) => {
      await ctx.waitForSignal("go" as never);
      await ctx.join("j", { one: async (branch) => branch.publishState(21) });
      await ctx.waitForSignal("go" as never);
    });
    const run = await host.start(shows);
    same([await run.state(), await run.query("twice")], [undefined, 0]);
    await run.signal("go");
    await host.crash();
    same([await run.state(), await run.query("twice")], [21, 42]);
    await run.signal("go");
    same([await run.status(), await run.query("twice")], ["completed", 42]);
  });
}
