// Job: prove what is undone when a run fails, in which order, and what happens if undoing goes wrong.
// Owns: workflows whose steps have rollbacks; the host is played by hand or by `drive`.
// Invariants: S1 to S3, C7 (a cancelled step with a rollback is joined), L5.
import {
  type AnyWorkflow,
  type Command,
  FatalError,
  formatLocation,
  Loop,
  NondeterminismError,
  Receive,
  RollbackError,
  type UnitContext,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, drive, Harness, runWorkflow } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const nothing = () => undefined;
const broken = new Error("broken");
const wf = (run: (ctx: WorkflowContext) => Promise<unknown>): AnyWorkflow => workflow("wf", run);
const undoable = { rollback: nothing };
/** The steps that were undone, in order. */
const undone = (h: Harness) => h.commands.flatMap((one) => (one.type === "rollback" ? [one.name] : []));
const types = (commands: readonly Command[]) => commands.map((one) => one.type);
const opened = (commands: readonly Command[]) => commands.flatMap((one) => ("n" in one ? [formatLocation(one.unit, one.name, one.n)] : []));
const settle = async (h: Harness, ...names: string[]) => {
  for (const name of names) await h.resolve(name, name);
};

describe("when a run fails for good", () => {
  it("S1 its completed steps are undone in reverse order, each as a durable step of its own", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        await ctx.step("charge", nothing, undoable);
        await ctx.step("ship", nothing, undoable);
      }),
    );
    await settle(h, "reserve", "charge");
    const commands = await h.fail("ship", broken);
    expect(types(commands)).toEqual(["rollBack", "rollback"]);
    expect(opened(commands)).toEqual(["~rollback/charge"]);
    expect(h.status).toBe("sleeping");
    expect(opened(await h.resolve("~rollback/charge"))).toEqual(["~rollback/reserve"]);
    expect(types(await h.resolve("~rollback/reserve"))).toEqual(["fail"]);
    expect(h.terminal).toMatchObject({ type: "fail", rolledBack: true, error: { name: "StepFailedError" } });
    expect(h.terminal).not.toHaveProperty("rollbackError");
    await crashAnywhere(h);
  });

  it("S1 the command that begins it carries the error, so that the status can be rolling_back meanwhile", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        throw new Error("no stock");
      }),
    );
    const commands = await h.resolve("reserve");
    expect(commands[0]).toMatchObject({ type: "rollBack", error: { message: "no stock" } });
  });

  it("S1 the order is that of completion, not of start", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await Promise.all([ctx.step("a", nothing, undoable), ctx.step("b", nothing, undoable), ctx.step("c", nothing, undoable)]);
        throw new Error("all for nothing");
      }),
    );
    await settle(h, "c", "a", "b");
    await drive(h);
    expect(undone(h)).toEqual(["b", "a", "c"]);
    await crashAnywhere(h);
  });

  it("S1 the order is that of completion within one turn too", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.join("all", { a: (ctx) => ctx.step("a", nothing, undoable), b: (ctx) => ctx.step("b", nothing, undoable) });
        throw new Error("all for nothing");
      }),
    );
    await h.turn(h.resolved("b"), h.resolved("a"));
    await drive(h);
    expect(undone(h)).toEqual(["all/a/a", "all/b/b"]);
    await crashAnywhere(h);
  });

  it("S1 a rollback gets the output of its step, decoded, and its own key", async () => {
    const calls: unknown[] = [];
    const h = await runWorkflow(
      wf(async (ctx) => {
        await ctx.step("reserve", () => ({ id: 7, at: new Date(0) }), {
          rollback: (output, info) => void calls.push([output, info.attempt, info.idempotencyKey]),
        });
        throw new Error("no");
      }),
    );
    expect(calls).toEqual([[{ id: 7, at: new Date(0) }, 1, "~rollback/reserve"]]);
    expect(h.status).toBe("failed");
  });

  it("S1 a step that failed, and one that has no rollback, are not undone", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("plain", nothing);
        await ctx.step("failing", nothing, undoable).catch(nothing);
        await ctx.step("good", nothing, undoable);
        throw new Error("no");
      }),
    );
    await h.resolve("plain");
    await h.fail("failing", broken);
    await h.resolve("good");
    await drive(h);
    expect(undone(h)).toEqual(["good"]);
    await crashAnywhere(h);
  });

  it("S1 with nothing to undo it just fails, and may be resumed", async () => {
    const h = await Harness.start(wf((ctx) => ctx.step("charge", nothing, undoable)));
    const commands = await h.fail("charge", broken);
    expect(types(commands)).toEqual(["fail"]);
    expect(h.terminal).not.toHaveProperty("rolledBack");
  });

  it("S1 a transaction is undone like a step", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.transaction("insert", nothing, undoable);
        throw new Error("no");
      }),
    );
    await h.resolve("insert");
    expect(h.openLocations).toEqual(["~rollback/insert"]);
    expect(h.executor.body(h.find("~rollback/insert").seq)?.kind).toBe("rollback");
  });

  it("S1 a rollback has the retry policy of its step", async () => {
    const retry = { maxAttempts: 4 };
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, { rollback: nothing, retry });
        throw new Error("no");
      }),
    );
    await h.resolve("reserve");
    expect(h.executor.body(h.find("~rollback/reserve").seq)?.retry).toEqual(retry);
  });

  it("S1 steps of one name are distinguished", async () => {
    const outputs: unknown[] = [];
    const h = await runWorkflow(
      wf(async (ctx) => {
        for (let i = 0; i < 3; i++) await ctx.step("book", () => i, { rollback: (output) => void outputs.push(output) });
        throw new Error("no");
      }),
    );
    expect(undone(h)).toEqual(["book#2", "book#1", "book"]);
    expect(outputs).toEqual([2, 1, 0]);
    await crashAnywhere(h);
  });

  it("S1 steps in branches, loops, handlers, try and shield are undone too", async () => {
    const book = (name: string) => (ctx: UnitContext) => ctx.step(name, nothing, undoable);
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.join("j", { a: book("in-join") });
        await ctx.parallel([book("in-parallel")]);
        await ctx.loop("l", async (ctx) => Loop.break(await book("in-loop")(ctx)));
        await ctx.try("t", book("in-try"));
        await ctx.shield(book("in-shield"));
        await ctx.receive(0, {
          signals: {
            go: async (_payload, state, ctx) => {
              await book("in-handler")(ctx);
              return Receive.stop(state);
            },
          },
        });
        throw new Error("no");
      }),
    );
    await settle(h, "in-join", "in-parallel", "in-loop", "in-try", "in-shield");
    await h.signal("go");
    await settle(h, "in-handler");
    await drive(h);
    expect(undone(h)).toEqual([
      "receive/~h0/in-handler",
      "shield/in-shield",
      "t/in-try",
      "l/~0/in-loop",
      "parallel/~0/in-parallel",
      "j/a/in-join",
    ]);
    await crashAnywhere(h);
  });

  it("S1 in nested branches the order is that of completion, across all of them", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.join("out", {
          left: (ctx) => ctx.join("in", { a: (ctx) => ctx.step("a", nothing, undoable), b: (ctx) => ctx.step("b", nothing, undoable) }),
          right: async (ctx) => {
            await ctx.step("c", nothing, undoable);
            await ctx.step("d", nothing, undoable);
          },
        });
        throw new Error("no");
      }),
    );
    await settle(h, "b", "c", "a", "d");
    await drive(h);
    expect(undone(h).map((location) => location.split("/").at(-1))).toEqual(["d", "a", "c", "b"]);
    await crashAnywhere(h);
  });

  it("S1 P3 a step that completes after the workflow threw is undone as well", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const late = ctx.step("late", nothing, undoable);
        await ctx.step("charge", nothing);
        await late;
      }),
    );
    await h.fail("charge", broken);
    expect(h.status).toBe("sleeping");
    expect(opened(await h.resolve("late"))).toEqual(["~rollback/late"]);
    await drive(h);
    expect(h.terminal).toMatchObject({ type: "fail", rolledBack: true });
    await crashAnywhere(h);
  });

  it("S1 a failure that the workflow caught undoes nothing", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        await ctx.step("charge", nothing).catch(nothing);
        return "fine";
      }),
    );
    await h.resolve("reserve");
    await h.fail("charge", broken);
    expect(h.output).toBe("fine");
    expect(undone(h)).toEqual([]);
  });

  it("S1 a workflow that completes or continues as new undoes nothing", async () => {
    const done = await runWorkflow(wf((ctx) => ctx.step("reserve", nothing, undoable)));
    expect(undone(done)).toEqual([]);
    const continued = await runWorkflow(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        return ctx.continueAsNew(undefined);
      }),
    );
    expect(continued.status).toBe("continued");
    expect(undone(continued)).toEqual([]);
  });

  it("S1 an output that can't be encoded fails the run, and undoes it", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        return () => "a function";
      }),
    );
    await h.resolve("reserve");
    await drive(h);
    expect(h.error?.name).toBe("UnserializableValueError");
    expect(undone(h)).toEqual(["reserve"]);
    await crashAnywhere(h);
  });
});

describe("RollbackError", () => {
  it("S1 thrown by the workflow fails the run and undoes it", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        throw new RollbackError("out of stock");
      }),
    );
    await h.resolve("reserve");
    await drive(h);
    expect(h.error).toBeInstanceOf(RollbackError);
    expect(undone(h)).toEqual(["reserve"]);
    await crashAnywhere(h);
  });

  it("S1 thrown by a step, it is not retried, fails the run and undoes it", async () => {
    let attempts = 0;
    const h = await runWorkflow(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        await ctx.step("charge", () => {
          attempts++;
          throw new RollbackError("refused");
        });
      }),
    );
    expect(attempts).toBe(1);
    expect(h.error?.cause).toBeInstanceOf(RollbackError);
    expect(undone(h)).toEqual(["reserve"]);
  });

  it("S1 D8 it undoes at once where the run would otherwise be tried again", async () => {
    const retry = { maxAttempts: 5, initialInterval: 1000, backoff: 2, maxInterval: 10_000, jitter: 0 };
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        throw new RollbackError("out of stock");
      }),
      undefined,
      { retry },
    );
    expect(types(await h.resolve("reserve"))).toEqual(["rollBack", "rollback"]);
  });

  it("S1 thrown in a branch, the scope is joined first", async () => {
    const h = await Harness.start(
      wf((ctx) =>
        ctx.join("all", {
          a: async (ctx) => {
            await ctx.step("a", nothing, undoable);
            throw new RollbackError("no");
          },
          b: (ctx) => ctx.step("b", nothing, undoable),
        }),
      ),
    );
    expect(await h.resolve("a")).toEqual([]);
    await h.resolve("b");
    await drive(h);
    expect(h.error?.name).toBe("JoinError");
    expect(undone(h)).toEqual(["all/b/b", "all/a/a"]);
    await crashAnywhere(h);
  });
});

describe("rollbackCheckpoint", () => {
  it("S1 discards the steps before it", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("before", nothing, undoable);
        ctx.rollbackCheckpoint("safe");
        await ctx.step("after", nothing, undoable);
        throw new Error("no");
      }),
    );
    await settle(h, "before", "after");
    await drive(h);
    expect(undone(h)).toEqual(["after"]);
    expect(h.commands.filter((one) => one.type === "rollbackCheckpoint")).toMatchObject([{ name: "safe", unit: "" }]);
    await crashAnywhere(h);
  });

  it("S1 a step that was under way at the checkpoint is undone: it completed after it", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const slow = ctx.step("slow", nothing, undoable);
        await ctx.step("fast", nothing, undoable);
        ctx.rollbackCheckpoint("safe");
        await slow;
        throw new Error("no");
      }),
    );
    await settle(h, "fast", "slow");
    await drive(h);
    expect(undone(h)).toEqual(["slow"]);
    await crashAnywhere(h);
  });

  it("S1 with nothing left to undo the run may be resumed", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("before", nothing, undoable);
        ctx.rollbackCheckpoint("safe");
        await ctx.step("charge", nothing);
      }),
    );
    await settle(h, "before");
    await h.fail("charge", broken);
    expect(h.terminal).toMatchObject({ type: "fail" });
    expect(h.terminal).not.toHaveProperty("rolledBack");
  });

  it("L5 S1 a loop whose steps have rollbacks commits only past a checkpoint, and none is lost", async () => {
    const program = (checkpoint: boolean) =>
      wf(async (ctx) => {
        await ctx.loop({ name: "days", state: 0, commitInterval: 1 }, async (ctx, day) => {
          await ctx.step("work", nothing, undoable);
          if (checkpoint) ctx.rollbackCheckpoint("day");
          return day === 2 ? Loop.break() : Loop.continue(day + 1);
        });
        throw new Error("no");
      });
    const holding = await runWorkflow(program(false));
    expect(types(holding.commands)).not.toContain("commit");
    expect(undone(holding)).toEqual(["days/~2/work", "days/~1/work", "days/~0/work"]);
    await crashAnywhere(holding);
    const letting = await runWorkflow(program(true));
    expect(types(letting.commands)).toContain("commit");
    expect(undone(letting)).toEqual([]);
    await crashAnywhere(letting);
  });

  it("L5 S1 a rollback from before a loop survives the commits of the loop", async () => {
    const h = await runWorkflow(
      wf(async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        await ctx.loop({ name: "days", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (ctx, day) => {
          await ctx.step("work", nothing);
          return day === 3 ? Loop.break() : Loop.continue(day + 1);
        });
        throw new Error("no");
      }),
    );
    expect(types(h.commands)).toContain("commit");
    expect(undone(h)).toEqual(["reserve"]);
    await crashAnywhere(h);
  });

  it("L5 S1 a checkpoint in an iteration that was committed and trimmed still holds after a crash", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("before", nothing, undoable);
        await ctx.loop({ name: "days", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (ctx, day) => {
          await ctx.step("work", nothing);
          if (day === 0) ctx.rollbackCheckpoint("safe");
          return day === 2 ? Loop.break() : Loop.continue(day + 1);
        });
        await ctx.step("charge", nothing);
      }),
    );
    await settle(h, "before", "work", "work", "work");
    await h.recover();
    await h.fail("charge", broken);
    expect(undone(h)).toEqual([]);
    expect(h.status).toBe("failed");
    await crashAnywhere(h);
  });
});

describe("when undoing is interrupted or fails", () => {
  const three = wf(async (ctx) => {
    for (const name of ["a", "b", "c"]) await ctx.step(name, nothing, undoable);
    throw new Error("no");
  });

  it("S2 a crash in the middle goes on where it was", async () => {
    const h = await Harness.start(three);
    await settle(h, "a", "b", "c");
    await h.resolve("~rollback/c");
    await h.recover();
    expect(h.executor.waitingFor).toEqual(["rollback ~rollback/b"]);
    expect(h.executor.body(h.find("~rollback/b").seq)?.kind).toBe("rollback");
    await h.resolve("~rollback/b");
    await h.recover();
    await h.resolve("~rollback/a");
    expect(undone(h)).toEqual(["c", "b", "a"]);
    expect(h.terminal).toMatchObject({ type: "fail", rolledBack: true, error: { message: "no" } });
    await crashAnywhere(h);
  });

  it("S2 a rollback that fails leaves the run failed with both errors, and the ones before it alone", async () => {
    const h = await Harness.start(three);
    await settle(h, "a", "b", "c");
    await h.resolve("~rollback/c");
    await h.fail("~rollback/b", new FatalError("can't undo"), 3);
    expect(h.terminal).toMatchObject({
      type: "fail",
      rolledBack: true,
      error: { message: "no" },
      rollbackError: { name: "StepFailedError", cause: { name: "FatalError", message: "can't undo" } },
    });
    expect(undone(h)).toEqual(["c", "b"]);
    await crashAnywhere(h);
  });

  it("S2 the workflow runs no more while it is being undone: signals and results reach no code", async () => {
    const h = await Harness.start(three);
    await settle(h, "a", "b", "c");
    expect(await h.signal("go")).toEqual([]);
    expect(await h.turn({ type: "resolve", seq: 1, outcome: { status: "completed", value: "1" } })).toEqual([]);
    await drive(h);
    expect(h.status).toBe("failed");
    await crashAnywhere(h);
  });

  it("S2 K5 a cancel request that comes meanwhile changes nothing", async () => {
    const h = await Harness.start(three);
    await settle(h, "a", "b", "c");
    expect(await h.cancel()).toEqual([]);
    await drive(h);
    expect(undone(h)).toEqual(["c", "b", "a"]);
    expect(h.error?.message).toBe("no");
    await crashAnywhere(h);
  });

  it("S3 V4 divergence in the middle of undoing undoes nothing else", async () => {
    const h = await Harness.start(three);
    await settle(h, "a", "b", "c");
    const other = wf(async (ctx) => {
      for (const name of ["a", "b"]) await ctx.step(name, nothing, undoable);
      await ctx.step("d", nothing, undoable);
      throw new Error("no");
    });
    await expect(h.recover(other)).rejects.toThrow(NondeterminismError);
    expect(h.openLocations).toEqual(["~rollback/c"]);
  });
});

describe("cancellation", () => {
  const program = (rollbackOnCancel: boolean) =>
    workflow({ name: "wf", rollbackOnCancel }, async (ctx) => {
      await ctx.step("reserve", nothing, undoable);
      await ctx.step("charge", nothing, undoable);
      await ctx.sleep("1h");
    });

  it("S3 undoes nothing by itself", async () => {
    const h = await Harness.start(program(false));
    await settle(h, "reserve", "charge");
    await h.cancel();
    expect(h.status).toBe("canceled");
    expect(undone(h)).toEqual([]);
    await crashAnywhere(h);
  });

  it("S3 undoes with rollbackOnCancel, and the run ends canceled", async () => {
    const h = await Harness.start(program(true));
    await settle(h, "reserve", "charge");
    const commands = await h.cancel("enough");
    expect(types(commands)).toEqual(["cancel", "rollBack", "rollback"]);
    await settle(h, "~rollback/charge", "~rollback/reserve");
    expect(undone(h)).toEqual(["charge", "reserve"]);
    expect(h.terminal).toEqual({ type: "canceled", reason: "enough" });
    await crashAnywhere(h);
  });

  it("S3 S2 a rollback that fails then leaves the run failed, with both errors", async () => {
    const h = await Harness.start(program(true));
    await settle(h, "reserve");
    await h.cancel("enough");
    // charge has a rollback, so it is joined; it did not succeed.
    await h.fail("charge", broken);
    await h.fail("~rollback/reserve", new Error("can't undo"));
    expect(h.terminal).toMatchObject({
      type: "fail",
      rolledBack: true,
      error: { name: "CanceledError" },
      rollbackError: { cause: { message: "can't undo" } },
    });
    await crashAnywhere(h);
  });

  it("S3 shielded cleanup comes first, undoing after it", async () => {
    const h = await Harness.start(
      workflow({ name: "wf", rollbackOnCancel: true }, async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        try {
          await ctx.sleep("1h");
        } finally {
          await ctx.shield((ctx) => ctx.step("notify", nothing, undoable));
        }
      }),
    );
    await settle(h, "reserve");
    await h.cancel();
    await settle(h, "notify");
    await drive(h);
    expect(undone(h)).toEqual(["shield/notify", "reserve"]);
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  it("S3 a cooperative workflow that caught it and returned is completed, and undoes nothing", async () => {
    const h = await Harness.start(
      workflow({ name: "wf", rollbackOnCancel: true, cancellation: "cooperative" }, async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        await ctx.sleep("1h").catch(nothing);
        return "kept";
      }),
    );
    await settle(h, "reserve");
    await h.cancel();
    expect(h.output).toBe("kept");
    expect(undone(h)).toEqual([]);
  });

  it("S3 X10 eviction undoes nothing", async () => {
    const h = await Harness.start(program(true));
    await settle(h, "reserve", "charge");
    expect(await h.turn({ type: "evict" })).toEqual([]);
    expect(undone(h)).toEqual([]);
  });

  it("S3 V4 divergence undoes nothing", async () => {
    const h = await Harness.start(program(true));
    await settle(h, "reserve", "charge");
    await expect(h.recover(wf((ctx) => ctx.step("other", nothing)))).rejects.toThrow(NondeterminismError);
    expect(undone(h)).toEqual([]);
    expect(h.status).toBe("sleeping");
  });
});

describe("a step with a rollback that is cancelled while it runs", () => {
  it("C7 is notified, and joined: the run is not over before it", async () => {
    const h = await Harness.start(
      workflow({ name: "wf", rollbackOnCancel: true }, async (ctx) => {
        await ctx.step("charge", nothing, undoable);
      }),
    );
    const { seq } = h.find("charge");
    expect(await h.cancel()).toEqual([{ type: "cancel", seq, join: true }]);
    expect(h.status).toBe("sleeping");
    expect(h.openLocations).toEqual(["charge"]);
    await crashAnywhere(h);
  });

  it("C7 S1 if it succeeded it is rolled back with the rest", async () => {
    const h = await Harness.start(
      workflow({ name: "wf", rollbackOnCancel: true }, async (ctx) => {
        await ctx.step("reserve", nothing, undoable);
        await ctx.step("charge", nothing, undoable);
      }),
    );
    await settle(h, "reserve");
    await h.cancel();
    await settle(h, "charge");
    await drive(h);
    expect(undone(h)).toEqual(["charge", "reserve"]);
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  for (const [how, outcome] of Object.entries({
    failed: { status: "failed", error: { name: "Error", message: "broken" } },
    canceled: { status: "canceled" },
  } as const)) {
    it(`C7 if it ended ${how} there is nothing to undo`, async () => {
      const h = await Harness.start(
        workflow({ name: "wf", rollbackOnCancel: true }, async (ctx) => {
          await ctx.step("charge", nothing, undoable);
        }),
      );
      await h.cancel();
      await h.turn(h.outcome("charge", outcome));
      expect(h.terminal).toEqual({ type: "canceled" });
      await crashAnywhere(h);
    });
  }

  it("C7 its unit sees CanceledError, however it ended", async () => {
    const seen: string[] = [];
    const h = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("charge", nothing, undoable).catch((error: Error) => seen.push(error.name));
      }),
    );
    await h.cancel();
    await settle(h, "charge");
    expect(seen).toEqual(["CanceledError"]);
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });

  const race = (ending: "fail" | "complete") =>
    wf(async (ctx) => {
      const { winner } = await ctx.race("first", {
        fast: (ctx) => ctx.step("fast", nothing),
        slow: (ctx) => ctx.step("slow", nothing, undoable),
      });
      if (ending === "fail") throw new Error("no");
      return winner;
    });

  it("C7 C3 a race that it lost waits for it", async () => {
    const h = await Harness.start(race("complete"));
    const commands = await h.resolve("fast");
    expect(types(commands)).toEqual(["winner", "cancel"]);
    expect(commands[1]).toMatchObject({ join: true });
    expect(h.status).toBe("sleeping");
    await h.resolve("slow");
    expect(h.output).toBe("fast");
    expect(undone(h)).toEqual([]);
    await crashAnywhere(h);
  });

  it("C7 S1 lost in a race and succeeded, it is undone when the run fails", async () => {
    const h = await Harness.start(race("fail"));
    await h.resolve("fast");
    await h.resolve("slow");
    await drive(h);
    expect(undone(h)).toEqual(["first/slow/slow"]);
    await crashAnywhere(h);
  });

  it("C7 a step without a rollback is abandoned: the race does not wait for it", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        const { winner } = await ctx.race("first", { fast: (ctx) => ctx.step("fast", nothing), slow: (ctx) => ctx.step("slow", nothing) });
        return winner;
      }),
    );
    expect(types(await h.resolve("fast"))).toEqual(["winner", "cancel", "settle", "complete"]);
    await crashAnywhere(h);
  });

  it("C7 S2 a crash between the cancel and its outcome loses nothing", async () => {
    const h = await Harness.start(
      workflow({ name: "wf", rollbackOnCancel: true }, async (ctx) => {
        await ctx.step("charge", nothing, undoable);
      }),
    );
    await h.cancel();
    await h.recover();
    expect(h.executor.openOperations).toEqual([h.find("charge").seq]);
    await settle(h, "charge");
    await h.recover();
    await settle(h, "~rollback/charge");
    expect(h.status).toBe("canceled");
    await crashAnywhere(h);
  });
});

describe("what a host learns about rollbacks", () => {
  it("K7 S1 a rollback counts until it has run, while it is open too: a deadline waits for it", async () => {
    const h = await Harness.start(
      wf(async (ctx) => {
        for (const name of ["a", "b", "c"]) await ctx.step(name, nothing, undoable);
        throw broken;
      }),
    );
    const counts: number[] = [h.executor.rollbacks];
    for (const name of ["a", "b", "c", "~rollback/c", "~rollback/b", "~rollback/a"]) {
      await settle(h, name);
      counts.push(h.executor.rollbacks);
      await h.recover();
      expect(h.executor.rollbacks).toBe(counts.at(-1));
    }
    expect(counts).toEqual([0, 1, 2, 3, 2, 1, 0]);
    expect(h.terminal).toMatchObject({ type: "fail", rolledBack: true });
  });

  it("K7 S3 the same after a cancellation that rolls back", async () => {
    const h = await Harness.start(
      workflow({ name: "wf", rollbackOnCancel: true }, async (ctx) => {
        await ctx.step("a", nothing, undoable);
        await ctx.step("b", nothing, undoable);
        await ctx.sleep("1h");
      }),
    );
    await settle(h, "a", "b");
    await h.cancel();
    expect(h.executor.rollbacks).toBe(2);
    await settle(h, "~rollback/b");
    expect(h.executor.rollbacks).toBe(1);
    await settle(h, "~rollback/a");
    expect([h.executor.rollbacks, h.status]).toEqual([0, "canceled"]);
  });
});
