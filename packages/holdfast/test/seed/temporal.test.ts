// The same programs on a Temporal cluster, except those that wait for hours.

import { randomUUID } from "node:crypto";
import { needTemporalServer } from "@holdfast/temporal-server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Holdfast } from "../../src/index.ts";
import * as activities from "./activities.ts";
import { batch, counter, inventory, onboarding, shoppingCart } from "./seed-examples.ts";

const LONG = 110_000;

describe("the seed examples on Temporal", { timeout: LONG }, () => {
  let engine: Holdfast;
  let stop: () => Promise<void>;
  beforeAll(async () => {
    const server = await needTemporalServer();
    stop = () => server.stop();
    engine = await Holdfast.open(server.url(`seed-${randomUUID()}`));
    await engine.worker({ workflows: [batch, counter, inventory, onboarding, shoppingCart], activities: Object.values(activities) });
  }, LONG);
  afterAll(async () => {
    await engine.close();
    await stop();
  }, LONG);

  test("P1 P5 M11 a sequence of activities publishes where it is", async () => {
    const run = await engine.start(onboarding, { userId: "u1" });
    expect(await run.result()).toEqual({ accountId: "acct-u1" });
    expect(await run.query("status")).toBe("done");
  });

  test("R1 R4 an entity counts its signals", async () => {
    const run = await engine.start(counter, undefined);
    for (const name of ["increment", "increment", "decrement", "increment", "done"] as const) await run.signal(name);
    expect(await run.result()).toBe(2);
    expect(await run.query("value")).toBe(2);
  });

  test("M9 M10 R3 a cart goes through its phases", async () => {
    const run = await engine.start(shoppingCart, undefined);
    await run.update("addItem", { sku: "AB-1", quantity: 1 });
    await expect(run.update("addItem", { sku: "bad", quantity: 1 })).rejects.toMatchObject({ name: "UpdateRejectedError" });
    await run.signal("checkout");
    await expect.poll(() => run.query("status")).toEqual({ phase: "confirming", total: 100 });
    expect(await run.update("confirm")).toBe("ok");
    expect(await run.result()).toEqual({ total: 100 });
  });

  test("C1 a fan-out returns every result", async () => {
    expect(await (await engine.start(batch, { items: ["a", "bb", "ccc"] })).result()).toEqual({ processed: 3 });
  });

  test("A1 A3 async update handlers share one state", async () => {
    const run = await engine.start(inventory, undefined);
    const [first, second] = await Promise.all([
      run.update("restock", { sku: "ab", quantity: 2 }),
      run.update("restock", { sku: "ab", quantity: 3 }),
    ]);
    expect([
      [2, 5],
      [5, 3], // the server takes calls that are under way together in either order
    ]).toContainEqual([first.quantity, second.quantity]);
    await run.signal("close");
    expect(await run.result()).toEqual({ ab: { quantity: 5, price: 200 } });
  });
});
