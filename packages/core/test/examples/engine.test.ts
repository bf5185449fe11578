// Job: run the examples of engine.ts.
// Owns: what is sent to them, and what must come out.
// Invariants: each title names its own.
import { type Command, FatalError, formatLocation, JoinError, NameRegistry, RaceError, replay, type Turn } from "@holdfast/core";
import { crashAnywhere, drive, Harness, runWorkflow } from "@holdfast/core/testing";
import { describe, expect, test } from "vitest";
import * as engine from "./engine.ts";

const opened = (commands: readonly Command[]) => commands.flatMap((one) => ("n" in one ? [formatLocation(one.unit, one.name, one.n)] : []));
const kept = (turns: readonly Turn[]) => opened(turns.flatMap((turn) => [...turn.commands]));

describe("history and replay", () => {
  test("D1 D6 Y1 the first execution runs the body, replay returns what was recorded", async () => {
    const fetched: string[] = [];
    const myWorkflow = engine.fetchOnce((id) => {
      fetched.push(id);
      return `data of ${id}`;
    });
    const h = await runWorkflow(myWorkflow, { id: "7" });
    expect([h.output, fetched]).toEqual(["data of 7", ["7"]]);
    await replay(myWorkflow, h.history());
    await h.recover();
    expect(fetched).toEqual(["7"]);
    await crashAnywhere(h);
  });

  test("Y1 replay writes nothing: a recovered run has the history it had", async () => {
    const h = await Harness.start(engine.sleeper);
    await h.resolve("before");
    const before = JSON.stringify(h.history());
    await h.recover();
    expect(JSON.stringify(h.history())).toBe(before);
  });

  test("X3 every entry has a location: a path through the execution tree", async () => {
    const h = await runWorkflow(engine.locations);
    expect(opened(h.commands)).toEqual(["a", "b", "outer", "outer/~0/inner", "parallel", "parallel/x/work"]);
    await crashAnywhere(h);
  });

  test("X3 a name registry keeps locations small, and gives them back", () => {
    const names = new NameRegistry();
    const compact = ["a", "b", "outer/~0/inner", "parallel/x/work"].map((location) => names.compact(location));
    expect(compact).toEqual([[0], [1], [2, { iteration: 0 }, 3], [4, 5, 6]]);
    expect(names.names).toEqual(["a", "b", "outer", "inner", "parallel", "x", "work"]);
    expect(compact.map((parts) => names.expand(parts))).toEqual(["a", "b", "outer/~0/inner", "parallel/x/work"]);
  });

  test("Y7 step, loop, sleep, message, join and race each leave an entry", async () => {
    const h = await Harness.start(engine.everyEntry);
    await drive(h);
    await h.signal("message");
    expect(h.status).toBe("completed");
    const types = h.commands.flatMap((one) => ("n" in one ? [one.type] : []));
    expect(types).toEqual(["step", "loop", "sleep", "signal", "join", "race"]);
    await crashAnywhere(h);
  });
});

describe("yielding", () => {
  test("K8 X10 a sleep yields until its deadline has passed; then replay goes on past it", async () => {
    const h = await Harness.start(engine.sleeper);
    await h.resolve("before");
    expect([h.status, h.openLocations]).toEqual(["sleeping", ["nap"]]);
    await h.recover();
    expect(await h.turn()).toEqual([]);
    await h.fire();
    expect([h.output, h.time - Date.UTC(2026, 0, 1)]).toEqual(["awake", 3_600_000]);
    await crashAnywhere(h);
  });

  test("X10 code that waits for messages does not notice that it was suspended", async () => {
    const seen: string[] = [];
    const h = await Harness.start(engine.listener(seen));
    await h.recover();
    await h.turn({ type: "evict" });
    expect(seen).toEqual([]);
  });

  test("M2 M5 messages are consumed in the order in which they were received, whatever their names", async () => {
    const h = new Harness(engine.listener([]));
    const jobs = [
      h.signalJob("refund", 1),
      h.signalJob("order", 2),
      h.signalJob("other", 3),
      h.signalJob("refund", 4),
      h.signalJob("order", 5),
    ];
    await h.start(undefined, ...jobs);
    expect(h.output).toEqual(["refund 1", "order 2", "refund 4"]);
    await crashAnywhere(h);
  });

  test("M5 M7 a message that comes while the run is away wakes it, once", async () => {
    const h = await Harness.start(engine.listener([]));
    await h.recover();
    await h.signal("order", 1);
    expect(h.output).toEqual(["order 1"]);
    await crashAnywhere(h);
  });
});

describe("errors", () => {
  test("D8 an ordinary error is tried again until it works", async () => {
    const attempts: number[] = [];
    const h = await runWorkflow(
      engine.flaky(({ attempt }) => {
        attempts.push(attempt);
        if (attempt < 3) throw new Error("not yet");
        return "done";
      }),
    );
    expect([h.output, attempts]).toEqual(["done", [1, 2, 3]]);
    await crashAnywhere(h);
  });

  test("D8 a step that has used up its attempts fails with its last error", async () => {
    const h = await runWorkflow(
      engine.flaky(({ attempt }) => {
        throw new Error(`attempt ${attempt}`);
      }),
    );
    expect([h.status, h.error]).toEqual(["failed", expect.objectContaining({ name: "StepFailedError", step: "work", attempts: 3 })]);
    expect(h.error?.cause).toMatchObject({ message: "attempt 3" });
    await crashAnywhere(h);
  });

  test("D8 a FatalError is not tried again", async () => {
    const h = await runWorkflow(engine.validated, { valid: false });
    expect([h.status, h.error]).toEqual(["failed", expect.objectContaining({ name: "StepFailedError", step: "validate", attempts: 1 })]);
    expect(h.error?.cause).toBeInstanceOf(FatalError);
    expect((await runWorkflow(engine.validated, { valid: true })).output).toBe("valid");
  });

  test("S1 D8 a RollbackError stops the run and undoes its steps, last first", async () => {
    const undone: string[] = [];
    const h = await runWorkflow(engine.halted(undone));
    expect([h.status, undone]).toEqual(["failed", ["card", "seat 7"]]);
    expect(h.error?.cause).toMatchObject({ name: "RollbackError", message: expect.stringContaining("Stop and roll back") });
    expect(opened(h.commands).filter((one) => one.startsWith("~rollback/"))).toEqual(["~rollback/charge", "~rollback/reserve"]);
    await crashAnywhere(h);
  });
});

describe("join and race", () => {
  test("C2 join waits for all branches and gives their values by key", async () => {
    const h = await Harness.start(engine.fetchAll);
    expect(h.openLocations).toEqual(["fetch-all/user/user", "fetch-all/posts/posts"]);
    await h.resolve("posts", ["first"]);
    expect(h.status).toBe("sleeping");
    await h.resolve("user", "Ada");
    expect(h.output).toEqual(["Ada", "first"]);
    await crashAnywhere(h);
  });

  test("C2 all errors of a join are collected, after every branch has ended", async () => {
    const h = await Harness.start(engine.fetchAll);
    await h.fail("user", new FatalError("no user"));
    expect(h.status).toBe("sleeping");
    await h.fail("posts", new FatalError("no posts"));
    expect(h.error).toBeInstanceOf(JoinError);
    expect(Object.keys((h.error as JoinError).errors)).toEqual(["user", "posts"]);
    await crashAnywhere(h);
  });

  test("C3 the first branch to succeed wins, the timer of the other is cancelled", async () => {
    const h = await Harness.start(engine.workOrTimeout);
    await drive(h, { skipTime: false });
    expect(h.output).toEqual({ winner: "work", value: "draft, finished" });
    expect(h.timers.size).toBe(0);
    expect(h.commands).toContainEqual(expect.objectContaining({ type: "winner", key: "work" }));
    await crashAnywhere(h);
  });

  test("C3 C7 the timeout wins, the work is cancelled and what it still reports is dropped", async () => {
    const h = await Harness.start(engine.workOrTimeout);
    const seq = h.find("draft").seq;
    await h.fire();
    expect(h.output).toEqual({ winner: "timeout", value: null });
    expect(h.commands).toContainEqual({ type: "cancel", seq });
    await h.recover();
    await crashAnywhere(h);
  });

  test("C3 Y4 a branch that fails does not win", async () => {
    const h = await Harness.start(engine.workOrTimeout);
    await h.fail("draft", new FatalError("no paper"));
    expect(h.status).toBe("sleeping");
    await h.fire();
    expect(h.output).toEqual({ winner: "timeout", value: null });
    await crashAnywhere(h);
  });

  test("C3 if every branch fails the race does", async () => {
    const h = await Harness.start(engine.everyoneFails);
    await h.turn(h.failed("one", new FatalError("1")), h.failed("two", new FatalError("2")));
    expect(h.error).toBeInstanceOf(RaceError);
    await crashAnywhere(h);
  });
});

describe("a loop with durable state", () => {
  /** So many pages of two items each. */
  const pages = (count: number) => (cursor: number | null) => ({
    items: (cursor ?? 0) < count ? [1, 2] : [],
    nextCursor: (cursor ?? 0) + 1,
  });

  test("L1 L2 its state goes from iteration to iteration until it breaks", async () => {
    const h = await runWorkflow(engine.processItems(pages(3)));
    expect(h.output).toBe(6);
    expect(opened(h.commands).slice(1, 5)).toEqual([
      "process-items/~0/fetch",
      "process-items/~0/process",
      "process-items/~1/fetch",
      "process-items/~1/process",
    ]);
    await crashAnywhere(h);
  });

  test("L4 after iteration 20 only the last ten are kept", async () => {
    const h = await runWorkflow(engine.processItems(pages(20)), undefined, { skipTime: false });
    const iterations = new Set(kept(h.turns).map((location) => /~(\d+)\//.exec(location)?.[1]));
    iterations.delete(undefined);
    expect([...iterations].map(Number)).toEqual(Array.from({ length: 11 }, (_, i) => 10 + i));
    await crashAnywhere(h);
  });

  test("L3 after a crash replay goes on from the last committed state", async () => {
    const fetched: (number | null)[] = [];
    const next = pages(13);
    const h = await Harness.start(
      engine.processItems((cursor) => {
        fetched.push(cursor);
        return next(cursor);
      }),
    );
    for (let page = 0; page < 12; page++) {
      await h.resolve("fetch", next(page));
      await h.resolve("process");
    }
    expect(h.openLocations).toEqual(["process-items/~12/fetch"]);
    await h.recover();
    await drive(h);
    expect([h.output, fetched]).toEqual([26, [12, 13]]);
    await crashAnywhere(h);
  });

  test("L3 L4 a long loop has a short history", async () => {
    const h = await runWorkflow(engine.processItems(pages(200)));
    expect(h.output).toBe(400);
    expect(kept(h.turns).length).toBeLessThan(45);
    await replay(h.workflow, h.history());
  });
});
