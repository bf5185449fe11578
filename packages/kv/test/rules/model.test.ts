// Job: prove that everything in the model works on the key-value host, also after the process died in between.
// Owns: nothing.
// Invariants: behaviour is seen through `Host` alone, so that these tests fit any host.

import {
  activity,
  CanceledError,
  FatalError,
  JoinError,
  Loop,
  Receive,
  RollbackError,
  RunFailedError,
  replay,
  StepFailedError,
  signal,
  update,
  workflow,
} from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { KvHost } from "../host.ts";

// biome-ignore lint/suspicious/noExplicitAny: an error of whatever class; what it has is what is tested
const failure = (thrown: unknown): any => thrown;

describe("steps, time and values", () => {
  test("D6 steps run once, in order, and their values are those that were recorded", async () => {
    const ran: string[] = [];
    const order = workflow("order", async (ctx, amount: number) => {
      const reserved = await ctx.step("reserve", async () => {
        ran.push("reserve");
        return { at: new Date(5), tags: new Set(["a"]), none: undefined };
      });
      await ctx.sleep("1h");
      const charged = await ctx.step("charge", () => {
        ran.push("charge");
        return amount * 2;
      });
      return { reserved, charged };
    });
    const host = new KvHost();
    const run = await host.start(order, 21);
    await host.crash();
    await host.skip("1h");
    expect(await run.result()).toEqual({ reserved: { at: new Date(5), tags: new Set(["a"]), none: undefined }, charged: 42 });
    expect(ran).toEqual(["reserve", "charge"]);
  });

  test("K8 a sleep survives the process, and is never early", async () => {
    const nap = workflow("nap", async (ctx) => {
      const before = ctx.now().getTime();
      await ctx.sleep("10m");
      return ctx.now().getTime() - before;
    });
    const host = new KvHost();
    const run = await host.start(nap);
    expect(await run.waitingFor()).toEqual([expect.stringContaining("sleep")]);
    await host.skip("9m");
    await host.crash();
    await host.skip("59s");
    expect(await run.status()).toBe("sleeping");
    await host.skip("1s");
    expect(await run.result()).toBe(600_000);
  });

  test("P6 P7 side effects, random draws and times are the same after a crash", async () => {
    let effects = 0;
    const dice = workflow("dice", async (ctx) => {
      const drawn = [ctx.random(), ctx.uuid(), await ctx.sideEffect(() => ++effects), ctx.now().getTime()];
      ctx.publishState(drawn);
      await ctx.waitForSignal("go");
      return drawn;
    });
    const host = new KvHost();
    const run = await host.start(dice);
    const published = await run.state();
    await host.crash();
    await host.skip("1d");
    await run.signal("go");
    expect(await run.result()).toEqual(published);
    expect(effects).toBe(1);
  });

  test("D8 a failed step is tried again when its time has come, by its policy", async () => {
    const attempts: number[] = [];
    const flaky = workflow("flaky", (ctx) =>
      ctx.step(
        "fetch",
        ({ attempt }) => {
          attempts.push(attempt);
          if (attempt < 3) throw new Error(`no ${attempt}`);
          return attempt;
        },
        { retry: { initialInterval: "1m", jitter: 0 } },
      ),
    );
    const host = new KvHost();
    const run = await host.start(flaky);
    expect(await run.waitingFor()).toEqual([expect.stringMatching(/^step fetch \(attempt 2 at 2026-01-01T00:01:00/)]);
    await host.crash();
    await host.skip("59s");
    expect(attempts).toEqual([1]);
    await host.skip("1s");
    expect(attempts).toEqual([1, 2]);
    await host.skip("2m");
    expect(await run.result()).toBe(3);
  });

  test("D8 FatalError is not tried again, and a step that is used up fails with its cause", async () => {
    const doomed = workflow("doomed", async (ctx) => {
      await ctx.step("once", () => {
        throw new FatalError("never");
      });
    });
    const host = new KvHost();
    const run = await host.start(doomed);
    const error = await run.result().then(failure, failure);
    expect(error).toBeInstanceOf(RunFailedError);
    expect(error.cause).toBeInstanceOf(StepFailedError);
    expect(error.cause.attempts).toBe(1);
  });

  test("P8 a step whose result can't be stored fails without another attempt, and says so", async () => {
    let ran = 0;
    const odd = workflow("odd", (ctx) =>
      ctx.step("odd", () => {
        ran++;
        return { fn: () => 1 } as unknown;
      }),
    );
    const host = new KvHost();
    const error = await (await host.start(odd)).result().then(failure, failure);
    expect(String(error.cause.cause.message)).toContain("value.fn");
    expect(ran).toBe(1);
  });

  test("D8 an attempt that takes longer than its timeout is told and fails", async () => {
    const signals: AbortSignal[] = [];
    const slow = workflow("slow", (ctx) =>
      ctx.step(
        "wait",
        ({ signal: aborted }) => {
          signals.push(aborted);
          return new Promise(() => {});
        },
        { timeout: "5s", retry: { maxAttempts: 2, initialInterval: "1s", jitter: 0 } },
      ),
    );
    const host = new KvHost();
    const run = await host.start(slow);
    await host.skip("20s");
    await expect(run.result()).rejects.toThrow(/timeout of 5s/);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  });
});

describe("messages", () => {
  test("M1 M2 M4 signals are buffered in order, across a crash, and popped by name", async () => {
    const collect = workflow("collect", async (ctx) => {
      await ctx.waitForSignal("go");
      const got: unknown[] = [];
      for (let i = 0; i < 3; i++) got.push(await ctx.waitForSignal("item"));
      return got;
    });
    const host = new KvHost();
    const run = await host.start(collect);
    await run.signal("item", 1);
    await run.signal("item", 2);
    await host.crash();
    await run.signal("item", 3);
    await run.signal("go");
    expect(await run.result()).toEqual([1, 2, 3]);
  });

  test("M3 a signal that is sent again under its key is one delivery, also after a crash", async () => {
    const count = workflow("count", async (ctx) => {
      await ctx.waitForSignal("end");
      return (await ctx.listen(["hit"], { count: 10, timeout: "1s" })).length;
    });
    const host = new KvHost();
    const run = await host.start(count);
    await run.signal("hit", 1, { idempotencyKey: "k" });
    await run.signal("hit", 1, { idempotencyKey: "k" });
    await host.crash();
    await run.signal("hit", 1, { idempotencyKey: "k" });
    await run.signal("hit", 1);
    await run.signal("end");
    expect(await run.result()).toBe(2);
  });

  test("M4 a wait times out, and what comes later stays buffered", async () => {
    const patient = workflow("patient", async (ctx) => {
      const first = await ctx.waitForSignal("word", { timeout: "1m" });
      await ctx.sleep("1m");
      return [first.timedOut, await ctx.waitForSignal("word")];
    });
    const host = new KvHost();
    const run = await host.start(patient);
    await host.skip("61s");
    await run.signal("word", "late");
    await host.skip("1m");
    expect(await run.result()).toEqual([true, "late"]);
  });

  test("M8 signals that are sent with the start are there in the first turn", async () => {
    const early = workflow("early", async (ctx) => ctx.waitForSignal("word"));
    const host = new KvHost();
    const run = await host.start(early, undefined, { signals: [{ name: "word", payload: "first" }] });
    expect(await run.result()).toBe("first");
    expect((await run.history()).turns).toHaveLength(1);
  });

  const account = workflow(
    {
      name: "account",
      signals: { close: signal() },
      updates: { deposit: update<number, number>(z.number().positive()), slow: update<string, string>() },
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
                await handler.sleep("1m");
                return word.toUpperCase();
              }, held),
          },
          checkpointEvery: 5,
        },
      );
      return state.balance;
    },
  );

  test("M10 R4 updates are answered, refused by their validator, and answered again under their key", async () => {
    const host = new KvHost();
    const run = await host.start(account);
    expect(await run.update("deposit", 30, { idempotencyKey: "d1" })).toBe(30);
    expect(await run.update("deposit", 20)).toBe(50);
    await host.crash();
    expect(await run.update("deposit", 30, { idempotencyKey: "d1" })).toBe(30);
    await expect(run.update("deposit", 60)).rejects.toMatchObject({
      code: "HF_UPDATE_REJECTED",
      message: expect.stringContaining("too rich"),
    });
    await expect(run.update("deposit", -1)).rejects.toMatchObject({ code: "HF_INVALID_INPUT" });
    expect(await run.query("balance")).toBe(50);
    await run.signal("close");
    expect(await run.result()).toBe(50);
    expect(await run.query("balance")).toBe(50); // M11: of closed runs too
    await expect(run.query("nothing")).rejects.toMatchObject({ code: "HF_QUERY_FAILED" });
  });

  test("A1 M10 the reply of an async handler comes after a crash and a wait", async () => {
    const host = new KvHost();
    const run = await host.start(account);
    const before = run.update("slow", "word", { idempotencyKey: "s" });
    before.catch(() => {});
    await host.settle();
    await host.crash();
    await host.skip("1m");
    expect(await run.update("slow", "word", { idempotencyKey: "s" })).toBe("WORD");
  });

  test("R11 a receive with checkpoints keeps a bounded history, and goes on from the last after a crash", async () => {
    const host = new KvHost();
    const run = await host.start(account);
    const lengths: number[] = [];
    for (let i = 1; i <= 40; i++) {
      expect(await run.update("deposit", 1)).toBe(i);
      lengths.push((await run.history()).turns.length);
      if (i % 7 === 0) await host.crash();
    }
    expect(Math.max(...lengths.slice(10))).toBeLessThanOrEqual(Math.max(...lengths.slice(0, 10)));
    await run.signal("close");
    expect(await run.result()).toBe(40);
    await replay(account, await run.history());
  });

  test("M12 closed and unknown runs take no messages", async () => {
    const host = new KvHost();
    const done = workflow("done", async () => "done");
    const run = await host.start(done);
    await expect(run.signal("x")).rejects.toMatchObject({ code: "HF_RUN_CLOSED" });
    await expect(host.run(done, "nobody").signal("x")).rejects.toMatchObject({ code: "HF_RUN_NOT_FOUND" });
    await expect(host.run(done, "nobody").query("x")).rejects.toMatchObject({ code: "HF_RUN_NOT_FOUND" });
  });

  test("M10 an update that its run leaves unanswered fails when the run closes", async () => {
    const brief = workflow({ name: "brief", updates: { ask: update<string, string>() } }, async (ctx) => {
      await ctx.receive(0, {
        updates: { ask: (_, state) => Receive.async(() => ctx.condition(() => false) as never, state) },
        timeout: "1s",
      });
    });
    const host = new KvHost();
    const run = await host.start(brief);
    const asked = run.update("ask", "?");
    asked.catch(() => {});
    await host.settle();
    await run.terminate("enough");
    await expect(asked).rejects.toMatchObject({ code: "HF_RUN_CLOSED" });
    await expect(run.result()).rejects.toMatchObject({ code: "HF_RUN_TERMINATED" });
  });

  test("M13 a signal that the receiver's schema refuses is delivered to nobody", async () => {
    const untyped = workflow("typed", async (ctx) => ctx.waitForSignal("number"));
    const typed = workflow({ name: "typed", signals: { number: signal(z.number()) } }, async (ctx) => ctx.waitForSignal("number"));
    const host = new KvHost();
    await host.start(untyped);
    await host.crash();
    const sender = host.handle("run"); // by the code that has no schema
    const run = host.run(typed, "run");
    await sender.signal("number", "no number" as never);
    await host.settle();
    expect(await run.status()).toBe("sleeping");
    await expect(run.signal("number", "nor this")).rejects.toMatchObject({ code: "HF_INVALID_INPUT" });
    await run.signal("number", 5);
    expect(await run.result()).toBe(5);
  });
});

describe("scopes", () => {
  test("C2 join runs branches side by side, and fails with every error after all have ended", async () => {
    const all = workflow("all", async (ctx, fail: boolean) =>
      ctx.join("all", {
        user: (branch) => branch.step("get", async () => "Ada"),
        posts: async (branch) => {
          await branch.sleep("1m");
          return branch.step("get", async () => {
            if (fail) throw new FatalError("no posts");
            return ["post"];
          });
        },
      }),
    );
    const host = new KvHost();
    const good = await host.start(all, false, { id: "good" });
    const bad = await host.start(all, true, { id: "bad" });
    await host.crash();
    await host.skip("1m");
    expect(await good.result()).toEqual({ user: "Ada", posts: ["post"] });
    const error = await bad.result().then(failure, failure);
    expect(error.cause).toBeInstanceOf(JoinError);
    expect(Object.keys(error.cause.errors)).toEqual(["posts"]);
  });

  test("C3 C7 race gives the first to succeed; the other is cancelled, also when it is waiting for a retry", async () => {
    const first = workflow("first", async (ctx) => {
      const { winner, value } = await ctx.race("first", {
        work: async (branch) =>
          branch.step(
            "work",
            () => {
              throw new Error("busy");
            },
            { retry: { initialInterval: "1h" } },
          ),
        timeout: async (branch) => {
          await branch.sleep("1m");
          return "too late";
        },
      });
      await ctx.sleep("2h");
      return [winner, value];
    });
    const host = new KvHost();
    const run = await host.start(first);
    await host.skip("1m");
    await host.crash();
    await host.skip("2h");
    expect(await run.result()).toEqual(["timeout", "too late"]);
  });

  test("C1 parallel and Promise.all take what comes, in any order", async () => {
    const order: string[] = [];
    const mixed = workflow("mixed", async (ctx) => {
      const [a, b] = await Promise.all([ctx.step("a", async () => order.push("a")), ctx.step("b", async () => order.push("b"))]);
      const settled = await ctx.parallel([
        (branch) => branch.step("x", async () => "x"),
        async () => {
          throw new Error("y");
        },
      ]);
      return [a, b, settled.map(({ status }) => status)];
    });
    const host = new KvHost();
    expect(await (await host.start(mixed)).result()).toEqual([1, 2, ["fulfilled", "rejected"]]);
  });

  test("L1 L3 L4 a loop goes on from its last commit and keeps a bounded history", async () => {
    const ran: number[] = [];
    const poll = workflow("poll", (ctx) =>
      ctx.loop({ name: "poll", state: { n: 0 }, commitInterval: 2, historyEvery: 4, historyKeep: 2 }, async (body, { n }) => {
        await body.step("look", () => ran.push(n));
        await body.sleep("1s");
        return n === 59 ? Loop.break(n) : Loop.continue({ n: n + 1 });
      }),
    );
    const host = new KvHost();
    const run = await host.start(poll);
    const sizes: number[] = [];
    for (let i = 0; i < 60; i++) {
      await host.skip("1s");
      sizes.push(host.driver("run").namespace.entries.size);
      if (i % 9 === 0) await host.crash();
    }
    expect(await run.result()).toBe(59);
    expect(ran).toEqual(Array.from({ length: 60 }, (_, i) => i));
    expect(Math.max(...sizes.slice(30, 59))).toBeLessThanOrEqual(Math.max(...sizes.slice(0, 30)));
    await replay(poll, await run.history());
  });

  test("C6 conditions and ivars wake units of the same run", async () => {
    const cell = workflow("cell", async (ctx) => {
      const value = ctx.ivar<string>();
      const result = await ctx.join("both", {
        waits: async (branch) => (await branch.condition(() => value.tryRead()))?.toUpperCase(),
        fills: async (branch) => value.put(await branch.step("get", async () => "hello")),
      });
      return result.waits;
    });
    const host = new KvHost();
    expect(await (await host.start(cell)).result()).toBe("HELLO");
  });
});

describe("ends", () => {
  test("S1 S2 a saga undoes what succeeded, last first, across a crash; status rolling_back meanwhile", async () => {
    const undone: string[] = [];
    const trip = workflow("trip", async (ctx) => {
      for (const part of ["flight", "hotel", "car"]) {
        await ctx.step(part, async () => part, {
          rollback: async (name, { attempt }) => {
            if (name === "hotel" && attempt === 1) await new Promise(() => {}); // until the process dies
            undone.push(name);
          },
        });
      }
      throw new RollbackError("no weather");
    });
    const host = new KvHost();
    const run = await host.start(trip);
    expect(undone).toEqual(["car"]);
    expect(await run.status()).toBe("rolling_back");
    await host.crash();
    await expect(run.result()).rejects.toThrow(/no weather/);
    expect(undone).toEqual(["car", "hotel", "flight"]);
    await expect(run.recover()).rejects.toMatchObject({ code: "HF_NOT_RESUMABLE" });
  });

  test("K1 K2 K3 cancellation reaches every unit, cleanup is shielded, the run ends canceled", async () => {
    const seen: string[] = [];
    const aborted: boolean[] = [];
    const long = workflow("long", async (ctx) => {
      try {
        await ctx.join("both", {
          sleeps: (branch) => branch.sleep("365d"),
          works: (branch) =>
            branch.step("work", ({ signal: told }) => {
              told.addEventListener("abort", () => aborted.push(true));
              return new Promise(() => {});
            }),
        });
      } catch (error) {
        seen.push((error as Error).constructor.name);
        await ctx.shield((inner) => inner.step("clean", async () => void seen.push("clean")));
        throw error;
      }
    });
    const host = new KvHost();
    const run = await host.start(long);
    await run.cancel("enough");
    await expect(run.result()).rejects.toThrow(CanceledError);
    await expect(run.result()).rejects.toThrow(/enough/);
    expect([seen, aborted]).toEqual([["CanceledError", "clean"], [true]]);
  });

  test("K7 a deadline fails the run, running only its rollbacks", async () => {
    const log: string[] = [];
    const late = workflow("late", async (ctx) => {
      await ctx.step("book", async () => "room", { rollback: async (room) => void log.push(`undo ${room}`) });
      try {
        await ctx.sleep("1d");
      } finally {
        log.push("workflow code");
      }
    });
    const host = new KvHost();
    const run = await host.start(late, undefined, { deadline: "1h" });
    await host.crash();
    await host.skip("1h");
    await expect(run.result()).rejects.toThrow(/deadline/);
    expect(log).toEqual(["undo room"]);
  });

  test("K7 a retry that would come after the deadline fails the run now", async () => {
    const late = workflow("late", (ctx) =>
      ctx.step(
        "try",
        () => {
          throw new Error("no");
        },
        { retry: { initialInterval: "2h" } },
      ),
    );
    const host = new KvHost();
    const run = await host.start(late, undefined, { deadline: "1h" });
    await expect(run.result()).rejects.toThrow(/deadline/);
  });

  test("P10 continueAsNew begins anew with an empty history; signals nobody took move on, in order", async () => {
    const chain = workflow({ name: "chain", signals: { word: signal<string>(), go: signal() } }, async (ctx, n: number) => {
      await ctx.waitForSignal("go");
      if (n < 3) return ctx.continueAsNew(n + 1);
      return [n, await ctx.waitForSignal("word"), await ctx.waitForSignal("word")];
    });
    const host = new KvHost();
    const run = await host.start(chain, 1);
    await run.signal("word", "a");
    await run.signal("go");
    expect((await run.history()).turns).toHaveLength(1);
    await run.signal("word", "b");
    await host.crash();
    await run.signal("go");
    await run.signal("go");
    expect(await run.result()).toEqual([3, "a", "b"]);
  });

  test("D10 a run with a retry of its own is tried again; completed steps don't run again", async () => {
    const ran: string[] = [];
    const again = workflow({ name: "again", retry: { maxAttempts: 3, initialInterval: "1m", jitter: 0 } }, async (ctx) => {
      await ctx.step("first", () => void ran.push("first"));
      await ctx.step(
        "second",
        () => {
          ran.push("second");
          if (ran.length < 4) throw new Error("not yet");
        },
        { retry: { maxAttempts: 1 } },
      );
      return ctx.run.attempt;
    });
    const host = new KvHost();
    const run = await host.start(again);
    expect(await run.waitingFor()).toEqual([expect.stringContaining("another attempt at")]);
    await run.signal("whatever");
    expect(ran).toEqual(["first", "second"]);
    await host.crash();
    await host.skip("1m");
    await host.skip("2m");
    expect(await run.result()).toBe(3);
    expect(ran).toEqual(["first", "second", "second", "second"]);
  });

  test("D10 recover goes on where a failed run stopped: exhausted steps are tried again, completed ones are not", async () => {
    const ran: string[] = [];
    let broken = true;
    const mendable = workflow("mendable", async (ctx) => {
      await ctx.step("first", () => void ran.push("first"));
      return ctx.step(
        "second",
        () => {
          ran.push("second");
          if (broken) throw new Error("broken");
          return "mended";
        },
        { retry: { maxAttempts: 2, initialInterval: 1 } },
      );
    });
    const host = new KvHost();
    const run = await host.start(mendable);
    await host.skip("1s");
    await expect(run.result()).rejects.toThrow(/broken/);
    await host.crash();
    broken = false;
    await run.recover();
    expect(await run.result()).toBe("mended");
    expect(ran).toEqual(["first", "second", "second", "second"]);
    await expect(run.recover()).rejects.toMatchObject({ code: "HF_NOT_RESUMABLE" });
  });

  test("D8 recover tries at once what waits for its next attempt", async () => {
    let attempts = 0;
    const waits = workflow("waits", (ctx) =>
      ctx.step(
        "try",
        () => {
          if (++attempts === 1) throw new Error("no");
          return attempts;
        },
        { retry: { initialInterval: "1d" } },
      ),
    );
    const host = new KvHost();
    const run = await host.start(waits);
    expect(await run.status()).toBe("sleeping");
    await run.recover();
    expect(await run.result()).toBe(2);
  });
});

describe("activities in place", () => {
  const resize = activity(
    "resize",
    async ({ width }: { width: number }, info) => {
      info.heartbeat({ done: info.attempt });
      if (info.attempt < 3) throw new Error("busy");
      return { width: width * 2, last: info.lastHeartbeat };
    },
    { retry: { initialInterval: "1s", jitter: 0 } },
  );
  const image = workflow("image", (ctx) => ctx.activity(resize, { width: 5 }));

  test("D11 they run here, with retries and what the attempt before reported", async () => {
    const host = new KvHost({ activities: [resize] });
    const run = await host.start(image);
    await host.crash();
    await host.skip("10s");
    expect(await run.result()).toEqual({ width: 10, last: { done: 2 } });
  });
  test("V4 one that is not passed blocks the run, which goes on once it is", async () => {
    const host = new KvHost();
    const run = await host.start(image);
    await expect(run.result()).rejects.toThrow(/activities: \[resize\]/);
    expect(await run.status()).toBe("blocked");
  });
  test("D11 timeouts: of one attempt, of all together, of heartbeats", async () => {
    const never = activity("never", () => new Promise<void>(() => {}), { retry: { maxAttempts: 2, initialInterval: "1s", jitter: 0 } });
    const calls = workflow("calls", async (ctx) => {
      const outcome = async (options: object) => {
        const start = ctx.now().getTime();
        const { ok } = await ctx.try("call", (inner) => inner.activity(never, undefined, options));
        return [ok, ctx.now().getTime() - start];
      };
      return [await outcome({ startToClose: "5s" }), await outcome({ scheduleToClose: "7s" }), await outcome({ heartbeat: "3s" })];
    });
    const host = new KvHost({ activities: { never } });
    const run = await host.start(calls);
    await host.skip("1m");
    expect(await run.result()).toEqual([[false, 11_000], [false, 7_000], [false, 7_000]]); // biome-ignore format: a table
  });
});

describe("changing code", () => {
  test("V1 patched runs keep to the old path, new ones take the new", async () => {
    const make = (patched: boolean) =>
      workflow("greet", async (ctx) => {
        const word = patched && ctx.patched("new-word") ? "hi" : "hello";
        await ctx.step(`say ${word}`, async () => {});
        await ctx.waitForSignal("go");
        return word;
      });
    const host = new KvHost();
    const old = await host.start(make(false), undefined, { id: "old" });
    await host.crash();
    host.run(make(true), "old");
    const fresh = await host.start(make(true), undefined, { id: "fresh" });
    await old.signal("go");
    await fresh.signal("go");
    expect([await old.result(), await fresh.result()]).toEqual(["hello", "hi"]);
  });

  test("V3 an operation that was taken out is passed over, also if the run waits at it", async () => {
    const before = workflow("w", async (ctx) => {
      await ctx.step("gone", async () => 1);
      await ctx.waitForSignal("never");
      return "old";
    });
    const after = workflow("w", async (ctx) => {
      ctx.removed("gone", "step");
      ctx.removed("never", "signal");
      return ctx.step("new", async () => "new");
    });
    const host = new KvHost();
    await host.start(before);
    await host.crash();
    const run = host.run(after, "run");
    await host.handle("run").wake();
    expect(await run.result()).toBe("new");
  });

  test("V2 a run of another version waits for code that serves it", async () => {
    const make = (version: string, serves?: string[]) =>
      workflow({ name: "w", version, signals: { go: signal() }, ...(serves !== undefined && { serves }) }, async (ctx) => {
        await ctx.waitForSignal("go");
        return ctx.version;
      });
    const host = new KvHost();
    await host.start(make("1"));
    const wrong = host.run(make("2"), "run");
    await wrong.signal("go");
    await expect(wrong.result()).rejects.toThrow(/version 1/);
    const right = host.run(make("2", ["1"]), "run");
    await host.skip("1h");
    expect(await right.result()).toBe("1");
  });
});
