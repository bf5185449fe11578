// Job: prove what happens where rules meet: commits beside yields, late answers to trimmed operations, long quiet histories, resumes.
// Owns: one run for each meeting that has gone wrong before.
// Invariants: L3, L4, R11, D10, Y1, Y5, M2, K8, C2; each as the title says.
import { Loop, OutOfTurnError, type Payload, Receive, replay, replayView, type Turn, type WorkflowContext, workflow } from "@holdfast/core";
import { crashAnywhere, drive, Harness } from "@holdfast/core/testing";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { describe, expect, it } from "vitest";

const nothing = () => undefined;
const throughJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

describe("commits beside a unit that yields", () => {
  it("R11 a receive does not checkpoint while the root around it is in the middle of its yields", async () => {
    const wf = workflow("entity", async (ctx) => {
      const received = ctx.receive(0, {
        checkpointEvery: 1,
        signals: {
          a: async (_payload: unknown, state: number, c) => {
            await c.step("handle", nothing);
            return state === 2 ? Receive.stop(state) : Receive.noreply(state + 1);
          },
        },
      });
      await ctx.sleep(10);
      for (let i = 0; i < 5; i++) await ctx.yield();
      await ctx.sideEffect(() => "after the yields");
      return (await received).state;
    });
    const h = await Harness.start(wf);
    await h.signal("a");
    h.time += 10;
    await h.turn({ type: "fire", seq: h.nextTimer ?? 0 }, h.resolved("handle"));
    for (let i = 0; i < 2; i++) {
      await h.signal("a");
      await h.resolve("handle");
    }
    expect(h.output).toBe(2);
    expect(h.commands.filter((command) => command.type === "commit").map((command) => command.count)).toEqual([2]);
    await crashAnywhere(h);
  });

  it("L3 nor does a loop commit", async () => {
    const wf = workflow("looping", async (ctx) => {
      const looped = ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, i: number) => {
        await c.step("s", nothing);
        return i === 3 ? Loop.break(i) : Loop.continue(i + 1);
      });
      await ctx.sleep(10);
      for (let i = 0; i < 5; i++) await ctx.yield();
      await ctx.sideEffect(() => "after the yields");
      return looped;
    });
    const h = await Harness.start(wf);
    h.time += 10;
    await h.turn({ type: "fire", seq: h.nextTimer ?? 0 }, h.resolved("s"));
    await drive(h);
    expect(h.output).toBe(3);
    await crashAnywhere(h);
  });
});

describe("histories that grow in other ways than by operations", () => {
  it("L4 the ends of children that outlived their iteration are trimmed too", async () => {
    const child = workflow("child", async () => 1);
    const wf = workflow("parent", async (ctx) =>
      ctx.loop({ name: "l", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 0 }, async (c, i: number) => {
        await c.startChild(child, undefined);
        await c.sleep(1);
        return i === 49 ? Loop.break(i) : Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf);
    const started: number[] = [];
    let largest = 0;
    while (h.terminal === undefined) {
      const { seq } = h.find("child");
      started.push(seq);
      await h.turn({ type: "childStarted", seq, runId: `child-${seq}` });
      h.open.delete(seq);
      const ended = started.at(-5);
      if (ended !== undefined) await h.turn({ type: "resolve", seq: ended, outcome: { status: "completed", value: "1" } });
      await h.fire();
      largest = Math.max(
        largest,
        h.turns.reduce((sum, turn) => sum + turn.jobs.length + turn.commands.length, 0),
      );
    }
    expect(h.output).toBe(49);
    expect(largest).toBeLessThan(30);
    await crashAnywhere(h);
  });

  it("Y1 M2 thousands of turns in which no code runs are replayed", async () => {
    const wf = workflow("sleeper", async (ctx) => {
      await ctx.sleep(10);
      return ctx.waitForSignal("s");
    });
    const h = await Harness.start(wf);
    const turns: Turn[] = [...h.turns];
    for (let i = 1; i <= 20_000; i++) {
      const signal = { type: "signal", id: `m${i}`, name: "s", payload: String(i) as Payload } as const;
      turns.push({ index: i, time: h.time, historyLength: i + 1, jobs: [signal], commands: [] });
    }
    const executor = h.createExecutor();
    expect((await executor.replay(replayView(turns))).status).toBe("ok");
    const completion = await executor.activate({ time: h.time + 10, jobs: [{ type: "fire", seq: h.nextTimer ?? 0 }] });
    expect(completion.status === "ok" && completion.commands.at(-1)).toEqual({ type: "complete", value: "1" });
  });
});

describe("resumes", () => {
  it("D10 a child that was canceled is tried again like one that failed", async () => {
    const child = workflow("child", async () => 1);
    const wf = workflow("parent", async (ctx) => ctx.child(child, undefined));
    const h = await Harness.start(wf);
    const { seq } = h.find("child");
    await h.turn(h.outcome("child", { status: "canceled" }));
    expect(h.status).toBe("failed");
    await h.resume();
    expect(h.terminal).toBeUndefined();
    await h.turn({ type: "resolve", seq, outcome: { status: "completed", value: "5" } });
    expect(h.output).toBe(5);
    await replay(wf, throughJson(h.history()));
  });

  it("D10 L3 a loop that comes after the voided operation commits again, and replay takes it from there", async () => {
    const wf = workflow("late", async (ctx) => {
      let failure: unknown;
      await ctx.step("bad", nothing).catch((error: unknown) => {
        failure = error;
      });
      const result = await ctx.loop({ name: "l", state: 0, commitInterval: 2, historyEvery: 1_000 }, async (c, i: number) => {
        await c.step("s", () => i);
        return i === 4 ? Loop.break(i) : Loop.continue(i + 1);
      });
      if (failure !== undefined) throw failure;
      return result;
    });
    const h = await Harness.start(wf);
    await h.fail("bad", new Error("broken"));
    await drive(h);
    expect(h.status).toBe("failed");
    await h.resume();
    await drive(h);
    expect(h.output).toBe(4);
    await replay(wf, throughJson(h.history()));
  });
});

describe("operations that are put off behind a removed one", () => {
  it("X11 V3 fail without an unhandled rejection while no code awaits them", async () => {
    const unhandled: unknown[] = [];
    const listener = (error: unknown) => unhandled.push(error);
    process.on("unhandledRejection", listener);
    const version = (run: (ctx: WorkflowContext) => Promise<unknown>) =>
      workflow("changing", async (ctx) => {
        await run(ctx);
        const failing = ctx.step("new", nothing);
        await ctx.sleep(10);
        return failing.catch(() => "caught");
      });
    const h = await Harness.start(version((ctx) => ctx.step("old", nothing)));
    await h.resolve("old");
    await h.fail("new", new Error("broken"));
    await h.recover(version(async (ctx) => ctx.removed("old", "step")));
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", listener);
    expect(unhandled).toEqual([]);
    await h.fire();
    expect(h.output).toBe("caught");
  });
});

describe("listeners of ctx.signal", () => {
  it("X7 K1 one that calls ctx poisons its run, and does not end the process", async () => {
    const wf = workflow("listening", async (ctx) => {
      const cell = ctx.ivar<number>();
      ctx.signal.addEventListener("abort", () => {
        ctx.publishState("too late");
        cell.put(1);
        void ctx.step("cleanup", nothing);
      });
      await ctx.sleep(10);
    });
    const uncaught: unknown[] = [];
    const listener = (error: unknown) => uncaught.push(error);
    process.on("uncaughtException", listener);
    const h = await Harness.start(wf);
    await expect(h.cancel()).rejects.toThrow(OutOfTurnError);
    await new Promise((resolve) => setImmediate(resolve));
    process.off("uncaughtException", listener);
    expect(uncaught).toEqual([]);
  });
});

describe("the input of a child", () => {
  type Schema = StandardSchemaV1<string, number>;
  const schema = (validate: (value: unknown) => unknown) => ({ "~standard": { version: 1, vendor: "test", validate } }) as Schema;
  /** Text in, a number out: not to be applied twice. */
  const toNumber = schema((value) => (typeof value === "string" ? { value: Number(value) } : { issues: [{ message: "expected text" }] }));
  const parentOf = (input: Schema, given: unknown, how: "child" | "startChild") => {
    const kid = workflow({ name: "kid", input }, async (_ctx, n) => n);
    return workflow("parent", async (ctx) => {
      if (how === "child") return ctx.child(kid, given as never);
      return (await ctx.startChild(kid, given as never)).id;
    });
  };

  it.each(["child", "startChild"] as const)("M1 %s applies the child's schema, once: the command has what it made", async (how) => {
    const h = await Harness.start(parentOf(toNumber, "5", how));
    expect(h.find("kid")).toMatchObject({ type: "child", input: "5" }); // the payload of the number
    await h.recover();
    await crashAnywhere(h);
  });
  it.each(["child", "startChild"] as const)(
    "M1 %s with an input that the schema refuses fails, and may be caught; no child is asked for",
    async (how) => {
      const h = await Harness.start(parentOf(toNumber, 5, how));
      expect(h.error).toMatchObject({ name: "InvalidInputError", message: expect.stringContaining("expected text") });
      expect(h.openLocations).toEqual([]);
      await replay(h.workflow, throughJson(h.history()));
    },
  );
  it("X8 a schema that takes its time is refused: workflow code can't wait for it", async () => {
    const h = await Harness.start(parentOf(schema(async (value) => ({ value })), "5", "child")); // biome-ignore format: one line
    expect(h.error).toMatchObject({ name: "InvalidInputError", message: expect.stringContaining("asynchronous") });
  });
});

describe("what bad input gets", () => {
  it.each([0, -1, 1.5, Number.NaN])("R11 checkpointEvery: %d is refused; it would never dispatch", async (checkpointEvery) => {
    const wf = workflow("entity", async (ctx) => ctx.receive(0, { checkpointEvery, signals: { a: () => Receive.stop(1) } }));
    const h = await Harness.start(wf);
    expect(h.error).toMatchObject({ name: "InvalidInputError" });
  });
  it.each([Number.NaN, Number.POSITIVE_INFINITY, {} as never])("P8 an attribute of %s is refused: no store could find it", async (x) => {
    const wf = workflow("entity", async (ctx) => ctx.setAttributes({ x }));
    const h = await Harness.start(wf);
    expect(h.error).toMatchObject({ name: "InvalidInputError", message: expect.stringContaining("finite number") });
  });
  it("K7 a child's deadline that is not a time is refused", async () => {
    const child = workflow("child", async () => 1);
    const wf = workflow("parent", async (ctx) => ctx.child(child, undefined, { deadline: new Date(Number.NaN) }));
    const h = await Harness.start(wf);
    expect(h.error).toMatchObject({ name: "InvalidInputError" });
  });
  it("C2 a branch may have any name, __proto__ too, and its error is kept under it", async () => {
    const fails = async () => {
      throw new Error("broken");
    };
    const wf = workflow("joining", async (ctx) => {
      const tried = await ctx.try("t", (c) => c.join("j", { ["__proto__"]: fails, "": fails, "a/b": fails }));
      return tried.ok ? [] : Object.keys((tried.error as unknown as { errors: object }).errors);
    });
    const h = await Harness.start(wf);
    expect(h.output).toEqual(["__proto__", "", "a/b"]);
    await crashAnywhere(h);
  });

  it("Y5 a history with any part missing or of another kind is a typed error, never a crash", async () => {
    const wf = workflow("rich", async (ctx) => {
      await ctx.step("a", nothing);
      await ctx.sideEffect(() => ({ z: 1 }));
      ctx.setAttributes({ a: 1 });
      await ctx.loop({ name: "l", state: 0, commitInterval: 2 }, async (c, i: number) => {
        await c.step("s", nothing);
        return i === 3 ? Loop.break(i) : Loop.continue(i + 1);
      });
      const signals = { a: (_: unknown, n: number) => (n === 3 ? Receive.stop(n) : Receive.noreply(n + 1)) };
      await ctx.receive(0, { timeout: 1_000, checkpointEvery: 2, signals });
      await ctx.join("j", { a: (c) => c.step("f", nothing) });
    });
    const h = await Harness.start(wf);
    await drive(h, { skipTime: false });
    await h.signal("other");
    for (let i = 0; i < 4; i++) await h.signal("a");
    await h.fail("f", new TypeError("broken", { cause: new RangeError("deep") }));
    await h.resume();
    await drive(h);
    expect(h.status).toBe("completed");
    const text = JSON.stringify(h.history());
    const untyped: string[] = [];
    for (const path of pathsOf(JSON.parse(text))) {
      for (const value of [undefined, null, 5, "x", [], {}, true, { $payload: "bad" }]) {
        const history = JSON.parse(text);
        const key = path.at(-1) as string;
        const parent = path.slice(0, -1).reduce((node, part) => node[part], history);
        if (value === undefined) delete parent[key];
        else parent[key] = value;
        const error: unknown = await replay(wf, history).catch((caught: unknown) => caught);
        if (error !== undefined && !(error as { code?: unknown }).code)
          untyped.push(`${path.join(".")} = ${JSON.stringify(value)}: ${error}`);
      }
    }
    expect(untyped).toEqual([]);
  });
});

/** Every place in a tree of JSON. */
function pathsOf(tree: unknown, path: readonly string[] = []): string[][] {
  if (typeof tree !== "object" || tree === null) return [];
  return Object.entries(tree).flatMap(([key, value]) => [[...path, key], ...pathsOf(value, [...path, key])]);
}
