// Job: run the examples of model.ts.
// Owns: what is sent to them, and what must come out.
// Invariants: each title names its own.
import { type Command, FatalError, formatLocation, IllegalCallError, replay, UpdateRejectedError } from "@holdfast/core";
import { crashAfter, crashAnywhere, drive, Harness, runWorkflow } from "@holdfast/core/testing";
import { describe, expect, test } from "vitest";
import * as model from "./model.ts";

const kinds = (commands: readonly Command[]) => commands.map((one) => one.type);
const opened = (commands: readonly Command[]) => commands.flatMap((one) => ("n" in one ? [formatLocation(one.unit, one.name, one.n)] : []));
const activities = model.MODEL_ACTIVITIES;

describe("sequential primitives", () => {
  test("P6 a side effect runs once and its value is recorded; replay returns it without running it", async () => {
    let calls = 0;
    const identifiers = model.identifiers(() => ++calls);
    const h = await Harness.start(identifiers);
    await h.recover();
    await h.fire();
    expect([h.output, calls]).toEqual([{ orderNumber: 1, correlationId: "correlation-2" }, 2]);
    for (const cut of [1, 2]) await crashAfter(h, cut);
    await replay(identifiers, h.history());
    expect(calls).toBe(2);
  });

  test("P6 P8 an order keeps its number and its time, whatever the clock says when it is replayed", async () => {
    let sequence = 40;
    let year = 2020;
    const h = await Harness.start(
      model.orderProcessing(
        () => ++sequence,
        () => new Date(Date.UTC(++year, 0, 1)),
      ),
      { customerId: "c" },
    );
    expect(h.state).toEqual({ orderNumber: 41, status: "processing" });
    await h.recover();
    await h.resolve("orders.process");
    expect(h.output).toEqual({ orderNumber: 41, startedAt: new Date(Date.UTC(2021, 0, 1)) });
  });

  test("K8 sleep is a durable timer: a restart in between changes nothing", async () => {
    const h = await Harness.start(model.identifiers(() => 1));
    const due = [...h.timers.values()];
    await h.recover();
    expect([...h.timers.values()]).toEqual(due);
    await h.fire();
    expect([h.status, h.time]).toEqual(["completed", due[0]]);
  });

  test("M1 M2 M4 signals that come during linear execution are buffered and consumed one at a time", async () => {
    const h = await Harness.start(model.approvals);
    await h.signal("approve", "first");
    await h.signal("approve", "second");
    expect(h.openLocations).toEqual(["prepare"]);
    await h.resolve("prepare");
    expect(h.output).toEqual(["first", "second"]);
    await crashAnywhere(h);
  });

  test("M4 without a buffered signal it blocks until one comes", async () => {
    const h = await Harness.start(model.approvals);
    await h.resolve("prepare");
    expect(h.executor.waitingFor).toEqual(["signal approve"]);
    await h.signal("approve", 1);
    expect(h.executor.waitingFor).toEqual(["signal approve#1"]);
    await h.signal("approve", 2);
    expect(h.output).toEqual([1, 2]);
    await crashAnywhere(h);
  });
});

describe("versioning", () => {
  test("V1 a new run takes the new path and records the patch", async () => {
    const h = await Harness.start(model.pricing, "book");
    expect(opened(h.commands)).toEqual(["use-new-pricing", "pricing.v2"]);
    await drive(h);
    expect(h.output).toBe("book: new");
    await crashAnywhere(h);
  });

  test("V1 a run from before the patch stays on the old path", async () => {
    const h = await Harness.start(model.pricingBefore, "book");
    await h.recover(model.pricing);
    await drive(h);
    expect(h.output).toBe("book: old");
  });

  test("V1 deprecatePatch takes histories that have the marker and histories that have none", async () => {
    const marked = await runWorkflow(model.pricing, "book");
    await expect(replay(model.pricingAfter, marked.history())).resolves.toBeUndefined();
    const deprecated = await runWorkflow(model.pricingAfter, "book");
    await expect(replay(model.pricingAfter, deprecated.history())).resolves.toBeUndefined();
    expect(deprecated.output).toBe("book: new");
  });
});

describe("a workflow's structure", () => {
  test("P1 {:ok, result} completes, {:error, reason} fails, {:continue_as_new, args} continues", async () => {
    const ends = ["ok", "error", "continue_as_new"] as const;
    const runs = await Promise.all(ends.map((end) => runWorkflow(model.checkout, { end })));
    expect(runs.map((h) => h.status)).toEqual(["completed", "failed", "continued"]);
    expect([runs[0]?.output, runs[1]?.error?.message]).toEqual(["paid", "declined"]);
    for (const h of runs) await crashAnywhere(h);
  });

  test("M11 P5 queries see the last published state and advance nothing", async () => {
    const h = await Harness.start(model.checkout, { end: "ok" });
    const before = h.turns.length;
    expect(await h.turn(h.queryJob("status"), h.queryJob("items"))).toEqual([]);
    expect(h.answers.map((one) => ("value" in one ? h.codec.decode(one.value) : one))).toEqual(["open", ["book"]]);
    expect(h.turns).toHaveLength(before);
  });
});

describe("receive", () => {
  test("R1 R4 noreply, reply and stop do what they say", async () => {
    const h = await Harness.start(model.handlers);
    await h.signal("name", "a");
    await h.update("add", 2, "one");
    await h.signal("name", "b");
    await h.update("add", 3, "two");
    expect([h.updateResult("one"), h.updateResult("two")]).toEqual([{ value: 2 }, { value: 5 }]);
    await h.signal("done");
    expect(h.output).toEqual({ state: { names: ["a", "b"], sum: 5 }, timedOut: false });
    await crashAnywhere(h);
  });

  test("R4 an update may reply and stop at once", async () => {
    const h = await Harness.start(model.handlers);
    await h.update("finish", undefined, "end");
    expect([h.updateResult("end"), h.status]).toEqual([{ value: "bye" }, "completed"]);
    await crashAnywhere(h);
  });

  test("M9 a validator sees arguments and state; what it rejects leaves no event", async () => {
    const h = await Harness.start(model.handlers);
    await h.update("guarded", 5, "accepted");
    const before = h.turns.length;
    expect(await h.update("guarded", 5, "rejected")).toEqual([]);
    expect(h.turns).toHaveLength(before);
    expect(h.updateResult("accepted")).toEqual({ value: 5 });
    expect(h.updateResult("rejected")).toEqual({
      error: expect.objectContaining({ name: "UpdateRejectedError", message: expect.stringContaining("reason") }),
    });
    await crashAnywhere(h);
  });

  test("M8 outside of a receive an update is rejected, not buffered", async () => {
    const h = await Harness.start(model.approvals);
    await h.update("add", 1, "missing");
    expect(h.updateResult("missing")).toEqual({ error: expect.any(UpdateRejectedError) });
  });

  test("R1 R8 the caller can tell a timeout from a stop", async () => {
    const late = await Harness.start(model.dayLong);
    await late.signal("note", "a");
    await late.fire();
    expect([late.output, late.time - Date.UTC(2026, 0, 1)]).toEqual([{ timedOut: ["a"] }, 86_400_000]);
    const closed = await Harness.start(model.dayLong);
    await closed.signal("note", "a");
    await closed.signal("close");
    expect(closed.output).toEqual(["a"]);
    await crashAnywhere(late);
    await crashAnywhere(closed);
  });

  test("R3 a sync handler may block, and the next message waits for it", async () => {
    const h = await Harness.start(model.blocking);
    await h.signal("work", 1);
    await h.signal("work", 2);
    expect(h.openLocations).toEqual(["receive/~h0/parallel/~0/left", "receive/~h0/parallel/~1/right"]);
    await drive(h, { skipTime: false });
    expect(h.openLocations).toEqual(["receive/~h0/rest"]);
    await h.fire();
    expect(h.openLocations).toEqual(["receive/~h1/parallel/~0/left", "receive/~h1/parallel/~1/right"]);
    await drive(h);
    await h.signal("done");
    expect(h.output).toEqual([1, 2]);
    await crashAnywhere(h);
  });
});

describe("async handlers", () => {
  test("A1 the update is accepted at once, the receive goes on, the function's value is the reply", async () => {
    const h = await Harness.start(model.addItems);
    expect(kinds(await h.update("addItem", "book", "one"))).toContain("acceptUpdate");
    await h.update("addItem", "pen", "two");
    expect(h.openLocations).toEqual(["receive/~h0/~async/pricing.lookup", "receive/~h1/~async/pricing.lookup"]);
    expect([h.updateResult("one"), h.updateResult("two")]).toEqual([undefined, undefined]);
    await h.resolve("receive/~h1/~async/pricing.lookup", 3);
    await h.resolve("receive/~h0/~async/pricing.lookup", 4);
    expect([h.updateResult("one"), h.updateResult("two")]).toEqual([{ value: 4 }, { value: 3 }]);
    await h.signal("stop");
    expect(h.output).toEqual(["book", "pen"]);
    await crashAnywhere(h);
  });

  test("A3 no stale reads: changes that settle in one turn see each other", async () => {
    const h = await Harness.start(model.addItems);
    await h.update("addItem", "book", "one");
    await h.update("addItem", "pen", "two");
    await h.turn(h.resolved("receive/~h0/~async/pricing.lookup", 4), h.resolved("receive/~h1/~async/pricing.lookup", 3));
    await h.update("count", undefined, "count");
    expect(h.updateResult("count")).toEqual({ value: 2 });
    await crashAnywhere(h);
  });

  test("A1 if the function throws, the update fails and the workflow continues", async () => {
    const h = await Harness.start(model.addItems);
    await h.update("addItem", "book", "one");
    await h.fail("pricing.lookup", new FatalError("no such sku"));
    expect(h.updateResult("one")).toEqual({ error: expect.objectContaining({ name: "ActivityFailedError" }) });
    await h.signal("stop");
    expect([h.status, h.output]).toEqual(["completed", []]);
    await crashAnywhere(h);
  });

  test("A2 a signal's value is ignored, its error is logged and kept, the workflow continues", async () => {
    const lines: string[] = [];
    const write = (message: string) => lines.push(message);
    const h = await Harness.start(model.addItems, undefined, { logger: { debug: write, info: write, warn: write, error: write } });
    await h.signal("note", "good");
    await h.signal("note", "bad");
    await h.resolve("receive/~h0/~async/note");
    expect(lines).toEqual([]);
    expect(kinds(await h.resolve("receive/~h1/~async/note"))).toEqual(["handlerFailed"]);
    expect(lines).toEqual([expect.stringContaining("no such note")]);
    await h.signal("stop");
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  test("R5 P3 a stop lets async handlers finish before the receive returns", async () => {
    const h = await Harness.start(model.addItems);
    await h.update("addItem", "book", "one");
    await h.signal("stop");
    expect(h.status).toBe("sleeping");
    await h.resolve("pricing.lookup", 4);
    expect([h.updateResult("one"), h.output]).toEqual([{ value: 4 }, ["book"]]);
    await crashAnywhere(h);
  });

  test("A4 nothing is called on ctx inside the closure of updateState: publish after it", async () => {
    const h = await Harness.start(model.publishesInClosure);
    await expect(h.update("restock", "x")).rejects.toBeInstanceOf(IllegalCallError);
  });
});

describe("parallel", () => {
  test("C1 every branch runs to its end; results and errors come in input order", async () => {
    const h = await runWorkflow(model.threeSteps, undefined, { activities, pick: (open) => open.slice(-1) });
    expect(h.output).toEqual([{ ok: "a" }, { error: "ActivityFailedError" }, { ok: "c" }]);
    await crashAnywhere(h);
  });

  test("C1 P2 both activities run at once", async () => {
    const h = await Harness.start(model.userAndConfig, { userId: 1, tenant: "t" });
    expect(h.openLocations).toEqual(["parallel/~0/users.fetch", "parallel/~1/config.load"]);
    await drive(h, { activities });
    expect(h.output).toEqual({ user: { id: 1, name: "Ada" }, config: { tenant: "t", theme: "dark" } });
    await crashAnywhere(h);
  });

  test("N C1 branches nest, and do what sequential code does", async () => {
    const h = await Harness.start(model.nestedFanOut);
    expect(h.openLocations).toEqual(["parallel/~1/sleep", "parallel/~0/parallel/~0/a", "parallel/~0/parallel/~1/b"]);
    expect(h.state).toBe("from a branch");
    await drive(h);
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });
});

describe("state and commands", () => {
  test("P4 P5 local variables, the accumulator and published state are independent", async () => {
    const h = await Harness.start(model.threeStates);
    expect(h.state).toBeUndefined();
    await h.resolve("local", "local");
    await h.signal("set", "changed");
    expect(h.state).toEqual({ phase: "open", itemCount: 0 });
    await h.signal("done");
    expect(h.state).toEqual({ phase: "charging" });
    await h.fire();
    expect(h.output).toEqual({ local: "local", state: "changed" });
    await crashAnywhere(h);
  });

  test("Y7 X1 what each construct asks of its host", async () => {
    const user = await Harness.start(model.userAndConfig, { userId: 1, tenant: "t" });
    expect(kinds(user.commands)).toEqual(["parallel", "activity", "activity"]);
    const slept = await Harness.start(model.checkout, { end: "continue_as_new" });
    expect(kinds(slept.commands)).toEqual(["sleep"]);
    expect(kinds(await slept.fire())).toEqual(["continueAsNew"]);
    const patched = await Harness.start(model.pricing, "book");
    expect(kinds(patched.commands)).toEqual(["patch", "step"]);
    const item = await Harness.start(model.addItems);
    expect(kinds(await item.update("addItem", "book"))).toEqual(["acceptUpdate", "dispatch", "activity"]);
    expect(kinds(await item.resolve("pricing.lookup", 4))).toEqual(["completeUpdate"]);
  });
});
