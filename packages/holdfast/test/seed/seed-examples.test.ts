// The programs that the design fixes: they type-check against the packages as they are (this project's tsc), and run.
import { describe, expect, test } from "vitest";
import { testEngine } from "../../src/testing/testEngine.ts";
import * as activities from "./activities.ts";
import { batch, checkout, collector, counter, inventory, onboarding, orders, shoppingCart } from "./seed-examples.ts";

describe("the seed examples", () => {
  const open = () =>
    testEngine({
      workflows: [batch, checkout, collector, counter, inventory, onboarding, orders, shoppingCart],
      activities: Object.values(activities),
    });

  test("P1 P5 M11 a sequence of activities publishes where it is", async () => {
    await using engine = await open();
    const run = await engine.start(onboarding, { userId: "u1" });
    expect(await run.result()).toEqual({ accountId: "acct-u1" });
    expect(await run.query("status")).toBe("done");
  });

  test("R1 R4 an entity counts its signals", async () => {
    await using engine = await open();
    const run = await engine.start(counter, undefined);
    for (const name of ["increment", "increment", "decrement", "increment", "done"] as const) await run.signal(name);
    expect(await run.result()).toBe(2);
    expect(await run.query("value")).toBe(2);
  });

  test("M9 M10 R3 a cart goes through its phases", async () => {
    await using engine = await open();
    const run = await engine.start(shoppingCart, undefined, { id: "cart-7" });
    await run.update("addItem", { sku: "AB-1", quantity: 1 });
    await expect(run.update("addItem", { sku: "bad", quantity: 1 })).rejects.toMatchObject({ name: "UpdateRejectedError" });
    await run.signal("checkout");
    await engine.advance("1s");
    expect(await run.query("status")).toEqual({ phase: "confirming", total: 100 });
    expect(await run.update("confirm")).toBe("ok");
    expect(await run.result()).toEqual({ total: 100 });
  });

  test("C1 a fan-out returns every result", async () => {
    await using engine = await open();
    expect(await (await engine.start(batch, { items: ["a", "bb", "ccc"] })).result()).toEqual({ processed: 3 });
  });

  test("A1 A3 async update handlers share one state", async () => {
    await using engine = await open();
    const run = await engine.start(inventory, undefined);
    const [first, second] = await Promise.all([
      run.update("restock", { sku: "ab", quantity: 2 }),
      run.update("restock", { sku: "ab", quantity: 3 }),
    ]);
    expect([first.quantity, second.quantity].sort()).toEqual([2, 5]);
    await run.signal("close");
    expect(await run.result()).toEqual({ ab: { quantity: 5, price: 200 } });
  });

  test("P6 V1 V3 side effects and versions", async () => {
    await using engine = await open();
    const run = await engine.start(orders, { customerId: "c" });
    expect(await run.result()).toMatchObject({ customer: "c" });
    expect((await run.operations()).map(({ name }) => name)).toEqual(["sideEffect", "use-new-pricing", "price-v2"]);
  });

  test("P10 R8 a collector continues as new until its generations are over", async () => {
    await using engine = await open();
    const run = await engine.start(collector, { generation: 8 });
    await run.signal("event", "e1");
    expect(await run.result()).toBe(11);
    expect((await run.describe()).execution).toBe(4);
  });

  test("S1 M4 K8 L1 C3 a checkout waits, loops, races, and takes back its charge when no one approves", async () => {
    await using engine = await open();
    const approved = await engine.start(checkout, { orderId: "o-1" });
    await approved.signal("approve");
    expect(await approved.result()).toMatchObject({ user: { id: 1 }, both: { user: "u", posts: [1, 2, 3] } });
    const refused = await engine.start(checkout, { orderId: "o-2" });
    await expect(refused.result()).rejects.toMatchObject({ name: "RunFailedError" });
    expect((await refused.describe()).error).toMatchObject({ name: "RollbackError" });
  });
});
