// Job: run the examples of workflows.ts.
// Owns: what is sent to them, and what must come out.
// Invariants: each title names its own.
import { type Command, FatalError, formatLocation, IllegalCallError, RollbackError, UpdateRejectedError, workflow } from "@holdfast/core";
import { crashAfter, crashAnywhere, drive, Harness, runWorkflow } from "@holdfast/core/testing";
import { describe, expect, test } from "vitest";
import { ACTIVITIES } from "./shop.ts";
import * as example from "./workflows.ts";

const HOUR = 3_600_000;
const opened = (commands: readonly Command[]) => commands.flatMap((one) => ("n" in one ? [formatLocation(one.unit, one.name, one.n)] : []));
const ended = (h: Harness) => [h.status, h.output];

describe("onboarding", () => {
  test("P1 P2 runs its activities one after the other and completes", async () => {
    const h = await Harness.start(example.onboarding, { userId: "7" });
    expect(h.openLocations).toEqual(["accounts.create"]);
    await h.resolve("accounts.create", { id: "acct-7" });
    expect(h.openLocations).toEqual(["email.welcome"]);
    await h.resolve("email.welcome");
    expect(ended(h)).toEqual(["completed", { accountId: "acct-7" }]);
    await crashAnywhere(h);
  });

  test("P5 M11 its query sees each step as it is published, and after the end", async () => {
    const h = await Harness.start(example.onboarding, { userId: "7" });
    const seen = [h.executor.query("status", undefined)];
    await h.resolve("accounts.create", { id: "acct-7" });
    seen.push(h.executor.query("status", undefined));
    await h.resolve("email.welcome");
    seen.push(h.executor.query("status", undefined));
    expect(seen).toEqual(["creating_account", "sending_welcome", "done"]);
  });

  test("P1 fails when an activity fails for good", async () => {
    const h = await Harness.start(example.onboarding, { userId: "7" });
    await h.fail("accounts.create", new FatalError("taken"));
    expect(h.status).toBe("failed");
    expect(h.error?.name).toBe("ActivityFailedError");
    expect(h.error?.cause).toMatchObject({ message: "taken" });
  });
});

describe("counter", () => {
  test("R1 M3 every signal is one change of the state, until one stops it", async () => {
    const h = await Harness.start(example.counter);
    for (const name of ["increment", "increment", "decrement", "increment"]) await h.signal(name);
    expect(h.status).toBe("sleeping");
    await h.signal("done");
    expect(ended(h)).toEqual(["completed", 2]);
    await crashAnywhere(h);
  });

  test("P4 P5 the reducer state is not published by itself", async () => {
    const h = await Harness.start(example.counter);
    await h.signal("increment");
    expect(h.executor.query("value", undefined)).toBe(0);
    await h.signal("done");
    expect(h.executor.query("value", undefined)).toBe(1);
  });

  test("M8 R2 signals that came with the start are dispatched in the order of arrival", async () => {
    const h = new Harness(example.counter);
    await h.start(undefined, h.signalJob("increment"), h.signalJob("increment"), h.signalJob("done"), h.signalJob("increment"));
    expect(ended(h)).toEqual(["completed", 2]);
    await crashAnywhere(h);
  });
});

describe("shopping cart", () => {
  const item = (sku: string) => ({ sku, quantity: 1 });
  const filled = async () => {
    const h = await Harness.start(example.shoppingCart);
    await h.update("addItem", item("AB-1"), "first");
    await h.update("addItem", item("CD-2"), "second");
    return h;
  };

  test("R4 M10 goes from collecting to charging to confirming to done", async () => {
    const h = await filled();
    await h.update("removeItem", "AB-1");
    expect(h.state).toEqual({ phase: "open", itemCount: 2 });
    expect(opened(await h.signal("checkout"))).toEqual(["payment.charge"]);
    expect(h.state).toEqual({ phase: "charging", itemCount: 1 });
    await h.resolve("payment.charge", 100);
    expect(h.executor.query("status", undefined)).toEqual({ phase: "confirming", total: 100 });
    await h.update("confirm", undefined, "yes");
    expect(h.updateResult("yes")).toEqual({ value: "ok" });
    await h.resolve("email.receipt");
    expect(ended(h)).toEqual(["completed", { total: 100 }]);
    await crashAnywhere(h);
  });

  test("M9 a validator turns an update away, and nothing of it enters history", async () => {
    const h = await filled();
    const before = h.turns.length;
    await h.update("addItem", item("no sku"), "bad");
    expect(h.updateResult("bad")).toEqual({ error: expect.any(UpdateRejectedError) });
    expect(h.turns).toHaveLength(before);
    await h.signal("checkout");
    expect(h.codec.decode((h.find("payment.charge") as { input: string }).input)).toEqual([item("CD-2"), item("AB-1")]);
  });

  test("M8 updates of another phase are rejected", async () => {
    const h = await filled();
    await h.update("confirm", undefined, "too early");
    await h.signal("checkout");
    await h.update("addItem", item("EF-3"), "between phases");
    await h.resolve("payment.charge", 200);
    await h.update("addItem", item("EF-3"), "too late");
    for (const id of ["too early", "between phases", "too late"]) {
      expect(h.updateResult(id)).toEqual({ error: expect.any(UpdateRejectedError) });
    }
    expect(h.status).toBe("sleeping");
    await crashAnywhere(h);
  });

  test("R4 a cancelled purchase is refunded", async () => {
    const h = await filled();
    await h.signal("checkout");
    await h.resolve("payment.charge", 200);
    await h.update("cancel", undefined, "no");
    expect(h.state).toEqual({ phase: "refunded" });
    expect(h.openLocations).toEqual(["payment.refund"]);
    await h.resolve("payment.refund");
    expect(ended(h)).toEqual(["completed", "cancelled"]);
    await crashAnywhere(h);
  });
});

describe("batch", () => {
  test("C1 C4 all items are looked up at once, in order", async () => {
    const h = await Harness.start(example.batch, { items: ["a", "bb", "ccc"] });
    expect(h.openLocations).toEqual(["parallel/~0/pricing.current", "parallel/~1/pricing.current", "parallel/~2/pricing.current"]);
    await drive(h, { activities: ACTIVITIES });
    expect(ended(h)).toEqual(["completed", { processed: 3 }]);
    await crashAnywhere(h);
  });

  test("C1 one failure keeps no other branch from its end; then the batch fails", async () => {
    const h = await Harness.start(example.batch, { items: ["a", "bb", "ccc"] });
    await h.fail("parallel/~1/pricing.current", new FatalError("no price"));
    expect(h.openLocations).toEqual(["parallel/~0/pricing.current", "parallel/~2/pricing.current"]);
    await drive(h, { activities: ACTIVITIES });
    expect([h.status, h.error?.message]).toEqual(["failed", "1 failed"]);
    await crashAnywhere(h);
  });
});

describe("inventory", () => {
  test("A1 A3 restocks run beside one another and never lose each other's changes", async () => {
    const h = await Harness.start(example.inventory);
    await h.update("restock", { sku: "x", quantity: 2 }, "one");
    await h.update("restock", { sku: "x", quantity: 3 }, "two");
    expect(h.openLocations).toEqual(["receive/~h0/~async/pricing.current", "receive/~h1/~async/pricing.current"]);
    await h.resolve("receive/~h1/~async/pricing.current", 50);
    expect(h.updateResult("one")).toBeUndefined();
    expect(h.updateResult("two")).toEqual({ value: { quantity: 3, price: 50 } });
    await h.resolve("receive/~h0/~async/pricing.current", 60);
    expect(h.updateResult("one")).toEqual({ value: { quantity: 5, price: 60 } });
    expect(h.executor.query("stock", undefined)).toEqual({ x: { quantity: 5, price: 60 } });
    await crashAnywhere(h);
  });

  test("R5 close lets restocks in flight finish, and the result holds what they wrote", async () => {
    const h = await Harness.start(example.inventory);
    await h.update("restock", { sku: "x", quantity: 2 }, "one");
    await h.signal("close");
    await h.update("restock", { sku: "y", quantity: 1 }, "late");
    expect([h.status, h.updateResult("late")]).toEqual(["sleeping", { error: expect.any(UpdateRejectedError) }]);
    await h.resolve("pricing.current", 70);
    expect(ended(h)).toEqual(["completed", { x: { quantity: 2, price: 70 } }]);
    await crashAnywhere(h);
  });

  test("A1 a restock whose lookup fails fails for its caller alone", async () => {
    const h = await Harness.start(example.inventory);
    await h.update("restock", { sku: "x", quantity: 2 }, "one");
    await h.fail("pricing.current", new FatalError("no such sku"));
    expect(h.updateResult("one")).toMatchObject({ error: { name: "ActivityFailedError" } });
    await h.signal("close");
    expect(ended(h)).toEqual(["completed", {}]);
    await crashAnywhere(h);
  });
});

describe("orders", () => {
  test("P6 P7 V1 the number is drawn once, a new run takes the new pricing, a removal that never was passes", async () => {
    const h = await Harness.start(example.orders, { customerId: "c" });
    expect(opened(h.commands)).toEqual(["sideEffect", "use-new-pricing", "price-v2"]);
    await h.recover();
    await h.resolve("price-v2", 2);
    const drawn = h.commands.find((one) => one.type === "sideEffect");
    const orderNumber = drawn?.type === "sideEffect" ? h.codec.decode(drawn.value ?? "") : undefined;
    expect(ended(h)).toEqual([
      "completed",
      { orderNumber, startedAt: new Date(h.options.startTime ?? Date.UTC(2026, 0, 1)), customer: "c" },
    ]);
    // From the first commit on: before it the number may be drawn again.
    for (const cut of [1, 2]) await crashAfter(h, cut);
  });

  test("V1 V3 a run from before the patch and with the old audit goes on under this code", async () => {
    const old = workflow("orders", async (ctx, input: { customerId: string }) => {
      const orderNumber = await ctx.sideEffect(() => 7);
      const startedAt = ctx.now();
      await ctx.step("price-v1", () => 1);
      await ctx.step("legacy-audit", () => {});
      return { orderNumber, startedAt, customer: input.customerId };
    });
    const h = await Harness.start(old, { customerId: "c" });
    await h.resolve("price-v1", 1);
    await h.recover(example.orders);
    await h.turn();
    expect([h.status, h.output]).toEqual(["completed", expect.objectContaining({ orderNumber: 7, customer: "c" })]);
    expect(opened(h.commands)).not.toContain("price-v2");
  });
});

describe("collector", () => {
  test("R8 P10 after a day the events are stored and the next generation starts", async () => {
    const h = await Harness.start(example.collector, { generation: 0 });
    await h.signal("event", "a");
    await h.signal("event", "b");
    expect(h.executor.query("count", undefined)).toBe(2);
    const began = h.time;
    await h.fire();
    expect(h.time - began).toBe(24 * HOUR);
    expect(h.codec.decode((h.find("events.insert") as { input: string }).input)).toEqual(["a", "b"]);
    await h.resolve("events.insert");
    expect(h.terminal).toMatchObject({ type: "continueAsNew", input: h.codec.encode({ generation: 1 }) });
    await crashAnywhere(h);
  });

  test("R1 R8 flush stops it sooner, and the timer is cancelled", async () => {
    const h = await Harness.start(example.collector, { generation: 0 });
    await h.signal("event", "a");
    await h.signal("flush");
    expect(h.timers.size).toBe(0);
    await h.resolve("events.insert");
    expect(h.status).toBe("continued");
  });

  test("P10 M2 what no code has consumed moves to the next execution", async () => {
    const h = await Harness.start(example.collector, { generation: 0 });
    await h.turn(h.signalJob("flush"), h.signalJob("event", "late"));
    await h.resolve("events.insert");
    expect(h.terminal).toMatchObject({ signals: [{ name: "event", payload: h.codec.encode("late") }] });
    await crashAnywhere(h);
  });

  test("P1 the last generation returns", async () => {
    const h = await Harness.start(example.collector, { generation: 11 });
    await h.fire();
    await h.resolve("events.insert");
    expect(ended(h)).toEqual(["completed", 11]);
  });
});

describe("checkout", () => {
  const approved = async () => {
    const h = await runWorkflow(example.checkout, { orderId: "o" }, { skipTime: false });
    await h.fire("wait-one-hour");
    return drive(h, { skipTime: false });
  };

  test("P2 C5 the two fetches start together", async () => {
    const h = await Harness.start(example.checkout, { orderId: "o" });
    expect(h.openLocations).toEqual(["fetch-user", "fetch-settings"]);
    await h.resolve("fetch-settings", { theme: "dark" });
    expect(opened(h.commands)).toEqual(["fetch-user", "fetch-settings"]);
  });

  test("P1 K8 C2 C3 L1 C6 goes through all of it to the end", async () => {
    const h = await approved();
    expect(h.executor.waitingFor).toEqual(["signal approve"]);
    await h.signal("approve");
    expect(ended(h)).toEqual([
      "completed",
      {
        user: { id: 1, email: "a@b.c" },
        settings: { theme: "dark" },
        both: { user: "u", posts: [1, 2, 3] },
        receipt: { id: "charge" },
      },
    ]);
    expect(opened(h.commands).filter((one) => one.startsWith("process-items/"))).toEqual([
      ...[0, 1, 2].flatMap((i) => [`process-items/~${i}/fetch`, `process-items/~${i}/process`]),
      "process-items/~3/fetch",
    ]);
    await crashAnywhere(h);
  });

  test("S1 M4 no one approves: the charge is rolled back, and nothing from before the checkpoint", async () => {
    const h = await approved();
    await h.fire("approve");
    expect(h.openLocations).toEqual(["~rollback/charge"]);
    await drive(h);
    expect([h.status, h.error]).toEqual(["failed", expect.any(RollbackError)]);
    expect(h.error?.message).toContain("nobody approved");
    await crashAnywhere(h);
  });
});

describe("what the types forbid", () => {
  test("N receive in a branch blocks the run", async () => {
    await expect(Harness.start(example.receiveInBranch)).rejects.toBeInstanceOf(IllegalCallError);
  });
  test("N A5 updateState in the root blocks the run", async () => {
    await expect(Harness.start(example.updateStateInRoot)).rejects.toBeInstanceOf(IllegalCallError);
  });
});
