// S1–S3: rollbacks.

import { CanceledError, FatalError, RollbackError, RunFailedError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

/** A deadline that strikes when the steps are over, on a busy machine too. */
const AFTER_THE_STEPS = 1_500;

describe.each(STORES)("sagas on %s", (store) => {
  const engines = enginesOn(store);

  test("S1 rollbacks run in reverse order of completion, each as a durable step; the status says so meanwhile", async () => {
    const engine = await engines.open();
    const undone: unknown[] = [];
    const held = new Gate();
    const trip = workflow("trip", async (ctx) => {
      await ctx.step("hotel", () => "room 5", { rollback: (room) => void undone.push(room) });
      await ctx.step("meal", () => "no undo");
      await ctx.step("car", () => "a car", {
        rollback: async (car) => {
          await held.passed;
          undone.push(car);
        },
      });
      await ctx.step("flight", () => {
        throw new FatalError("no seats");
      });
    });
    await engine.worker({ workflows: [trip] });
    const run = await engine.start(trip, undefined);
    await until(async () => (await run.describe()).status === "rolling_back");
    held.open();
    const error = await errorOf(run.result());
    expect(error).toBeInstanceOf(RunFailedError);
    expect(error.message).toMatch(/no seats/);
    expect(undone).toEqual(["a car", "room 5"]);
    const rollbacks = (await run.operations()).slice(-2);
    expect(rollbacks.map(({ kind, name, status, attempts }) => [kind, name, status, attempts.length])).toEqual([
      ["step", "car", "completed", 1],
      ["step", "hotel", "completed", 1],
    ]);
  });

  test("S1 the status stays rolling_back while a rollback waits for its retry, and while others run", async () => {
    const engine = await engines.open();
    const held = new Gate();
    const entered = new Gate();
    const trip = workflow("trip", async (ctx) => {
      await ctx.step("a", () => "a", {
        rollback: () => {
          entered.open();
          return held.passed;
        },
      });
      await ctx.step("b", () => "b", {
        retry: { initialInterval: 100 },
        rollback: (_, { attempt }) => {
          if (attempt === 1) throw new Error("not yet");
        },
      });
      throw new Error("no");
    });
    await engine.worker({ workflows: [trip] });
    const run = await engine.start(trip, undefined);
    const seen = new Set<string>();
    const look = async () => seen.add((await run.describe()).status);
    await until(async () => (await look()).has("rolling_back"));
    seen.clear();
    let undoing = false;
    void entered.passed.then(() => {
      undoing = true;
    });
    await until(async () => {
      await look();
      return undoing;
    });
    await look();
    expect([...seen]).toEqual(["rolling_back"]);
    held.open();
    await expect(run.result()).rejects.toThrow(RunFailedError);
  });

  test("S1 W4 the status stays rolling_back when a worker that stops returns a claim that it has not taken up", async () => {
    const trip = workflow("trip", async (ctx) => {
      await ctx.step("a", () => "a", {
        retry: { initialInterval: "1h" },
        rollback: (_, { attempt }) => {
          if (attempt === 1) throw new Error("not yet");
        },
      });
      throw new Error("no");
    });
    const before = await engines.open({ skips: true });
    await before.worker({ workflows: [trip] });
    const { id } = await before.start(trip, undefined);
    const run = before.run(id, trip);
    await until(async () => (await run.operations()).at(-1)?.attempts.at(0)?.status === "failed");
    const wire = new Wire();
    const engine = await engines.open({ skips: true, wire });
    const started = new Gate();
    const stopped = new Gate<Promise<void>>();
    wire.intercept("claim", async (pass, request) => {
      await started.passed;
      const claims = await pass(request);
      if (claims.runs.length > 0) stopped.open(worker.stop());
      return claims;
    });
    await before.close();
    engines.skip(2 * 3_600_000);
    const worker = await engine.worker({ workflows: [trip] });
    started.open();
    await stopped.passed;
    const same = engine.run(id, trip);
    expect((await same.describe()).status).toBe("rolling_back");
    wire.intercept("claim", undefined);
    await engine.worker({ workflows: [trip] });
    await expect(same.result()).rejects.toThrow(RunFailedError);
  });

  test("S1 RollbackError thrown anywhere rolls back; rollbackCheckpoint discards what came before", async () => {
    const engine = await engines.open();
    const undone: string[] = [];
    const trip = workflow("trip", async (ctx) => {
      await ctx.step("a", () => "a", { rollback: (a) => void undone.push(a) });
      ctx.rollbackCheckpoint("paid");
      await ctx.step("b", () => "b", { rollback: (b) => void undone.push(b) });
      throw new RollbackError("changed my mind");
    });
    await engine.worker({ workflows: [trip] });
    const run = await engine.start(trip, undefined);
    expect((await errorOf(run.result())).cause).toMatchObject({ name: "RollbackError", message: "changed my mind" });
    expect(undone).toEqual(["b"]);
  });

  test("S1 a run that completes, and a step that failed, roll nothing back", async () => {
    const engine = await engines.open();
    const undone: string[] = [];
    const trip = workflow("trip", async (ctx) => {
      await ctx.step("a", () => "a", { rollback: () => void undone.push("a") });
      await ctx.step("b", () => Promise.reject(new FatalError("no")), { rollback: () => void undone.push("b") }).catch(() => {});
    });
    await engine.worker({ workflows: [trip] });
    await (await engine.start(trip, undefined)).result();
    expect(undone).toEqual([]);
  });

  test("S2 a rollback interrupted by a crash goes on where it was", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const entered = new Gate();
    const undone: string[] = [];
    const trip = workflow("trip", async (ctx) => {
      await ctx.step("a", () => "a", {
        rollback: (a, { attempt }) => {
          if (attempt === 1) {
            entered.open();
            return new Promise<void>(() => {});
          }
          undone.push(`${a} at ${attempt}`);
          return undefined;
        },
      });
      await ctx.step("b", () => "b", { rollback: (b) => void undone.push(b) });
      throw new Error("no");
    });
    await first.worker({ workflows: [trip], ...DOOMED });
    const run = await first.start(trip, undefined);
    await entered.passed;
    wire.cut();
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [trip] });
    await expect(second.run(run.id).result()).rejects.toThrow(RunFailedError);
    expect(undone).toEqual(["b", "a at 2"]);
  });

  test("S2 a rollback is retried like any step; one that fails for good leaves the run failed with both errors", async () => {
    const engine = await engines.open();
    const undone: string[] = [];
    const trip = workflow("trip", async (ctx) => {
      await ctx.step("a", () => "a", { rollback: () => void undone.push("a") });
      await ctx.step("b", () => "b", {
        retry: { maxAttempts: 2, initialInterval: 1 },
        rollback: (_, { attempt }) => {
          undone.push(`b ${attempt}`);
          throw new RangeError("can't undo");
        },
      });
      throw new TypeError("the reason");
    });
    await engine.worker({ workflows: [trip] });
    const run = await engine.start(trip, undefined);
    const error = await errorOf(run.result());
    expect(error.cause).toMatchObject({ name: "TypeError", message: "the reason" });
    expect(error.message).toMatch(
      /Not all of its steps were rolled back: step "rollback of b" failed after 2 attempts: RangeError: can't undo/,
    );
    const info = await run.describe();
    expect(info.status).toBe("failed");
    expect(info.error).toMatchObject({ name: "TypeError", message: "the reason" });
    expect(JSON.stringify(info.error?.data)).toMatch(/can't undo/);
    expect(undone.slice(0, 2)).toEqual(["b 1", "b 2"]);
  });

  test("S3 cancellation rolls back only if the workflow asks for it", async () => {
    const engine = await engines.open();
    const undone: string[] = [];
    const make = (name: string, rollbackOnCancel: boolean) =>
      workflow({ name, rollbackOnCancel }, async (ctx) => {
        await ctx.step("a", () => name, { rollback: (a) => void undone.push(a) });
        await ctx.sleep("1h");
      });
    const [asks, doesNot] = [make("asks", true), make("does not", false)];
    await engine.worker({ workflows: [asks, doesNot] });
    const runs = [await engine.start(asks, undefined), await engine.start(doesNot, undefined)];
    await until(async () => (await engine.count()).sleeping === 2);
    for (const run of runs) {
      await run.cancel();
      await expect(run.result()).rejects.toThrow(CanceledError);
      expect((await run.describe()).status).toBe("canceled");
    }
    expect(undone).toEqual(["asks"]);
  });

  test("C7 S1 a step with a rollback that lost a race is joined, and rolled back with the rest", async () => {
    const engine = await engines.open();
    const undone: string[] = [];
    const trip = workflow("trip", async (ctx) => {
      await ctx.race("first", {
        slow: (ctx) =>
          ctx.step("slow", () => new Promise<string>((resolve) => setTimeout(() => resolve("done"), 30)), {
            rollback: (a) => void undone.push(a),
          }),
        quick: (ctx) => ctx.sleep(1),
      });
      throw new Error("no");
    });
    await engine.worker({ workflows: [trip] });
    await expect((await engine.start(trip, undefined)).result()).rejects.toThrow(RunFailedError);
    expect(undone).toEqual(["done"]);
  });

  /** Deadlines that this engine has dealt with. */
  const countExpired = (wire: Wire): { expired: number } => {
    const count = { expired: 0 };
    wire.intercept("expire", async (pass) => {
      const found = await pass();
      count.expired += found.expired;
      return found;
    });
    return count;
  };

  test("K7 S1 a deadline that strikes while rollbacks run leaves them to run to their end", async () => {
    const wire = new Wire();
    const count = countExpired(wire);
    const engine = await engines.open({ wire });
    const held = new Gate();
    const undone: string[] = [];
    const trip = workflow({ name: "trip", deadline: AFTER_THE_STEPS }, async (ctx) => {
      for (const name of ["a", "b", "c"]) {
        const rollback = async () => {
          await held.passed;
          undone.push(name);
        };
        await ctx.step(name, () => {}, { rollback });
      }
      throw new Error("no stock");
    });
    await engine.worker({ workflows: [trip] });
    const run = await engine.start(trip, undefined);
    await until(() => count.expired === 1, "the deadline");
    expect((await run.describe()).status).toBe("rolling_back");
    held.open();
    const error = await errorOf(run.result({ timeout: "8s" }));
    expect(error.message).toMatch(/no stock/);
    expect(undone).toEqual(["c", "b", "a"]);
    expect(count.expired).toBe(1);
  });

  test("K7 S2 a rollback that waits to be tried again is tried again after the deadline", async () => {
    const wire = new Wire();
    const count = countExpired(wire);
    const engine = await engines.open({ wire });
    const attempts: number[] = [];
    const order = workflow({ name: "order", deadline: AFTER_THE_STEPS }, async (ctx) => {
      await ctx.step("charge", () => {}, {
        retry: { maxAttempts: Number.POSITIVE_INFINITY, initialInterval: 20, backoff: 1 },
        rollback: (_, { attempt }) => {
          attempts.push(attempt);
          if (count.expired === 0) throw new Error("the bank is down");
        },
      });
      throw new Error("no stock");
    });
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    const error = await errorOf(run.result({ timeout: "8s" }));
    expect([error.message, count.expired]).toEqual([expect.stringContaining("no stock"), 1]);
    const refund = (await run.operations()).at(-1);
    expect(refund).toMatchObject({ name: "charge", status: "completed" });
    expect(refund?.attempts.map(({ status }) => status)).toEqual([...attempts.slice(1).map(() => "failed"), "completed"]);
  });

  test("K7 S3 a deadline does not cut off the rollbacks of a cancellation", async () => {
    const wire = new Wire();
    const count = countExpired(wire);
    const engine = await engines.open({ wire });
    const held = new Gate();
    const undone: string[] = [];
    const trip = workflow({ name: "trip", rollbackOnCancel: true }, async (ctx) => {
      for (const name of ["a", "b"]) {
        const rollback = async () => {
          await held.passed;
          undone.push(name);
        };
        await ctx.step(name, () => {}, { rollback });
      }
      ctx.publishState("booked");
      await ctx.sleep("1h");
    });
    await engine.worker({ workflows: [trip] });
    const run = await engine.start(trip, undefined, { deadline: AFTER_THE_STEPS });
    await until(async () => (await run.state()) === "booked");
    await run.cancel();
    await until(() => count.expired === 1, "the deadline");
    held.open();
    await expect(run.result({ timeout: "8s" })).rejects.toThrow(CanceledError);
    expect(undone).toEqual(["b", "a"]);
  });
});
