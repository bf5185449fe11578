// An inspection of a backend that is not the embedded engine: what it can tell, and errors for the rest.

import { activity, type Codec, Holdfast, jsonCodec, UnsupportedError, workflow } from "holdfast";
import { inspect } from "holdfast/inspect";
import { expect, test } from "vitest";
import { HarnessBackend } from "../backend/harnessBackend.ts";

/** Every value is text that does not show what it is. */
const veiled: Codec = {
  encode: (value) => `~${Buffer.from(jsonCodec.encode(value)).toString("base64")}`,
  decode: (data) => jsonCodec.decode(Buffer.from(String(data).slice(1), "base64").toString()),
};
const double = activity("double", (n: number) => 2 * n);
const order = workflow("order", async (ctx, amount: number) => ctx.activity(double, await ctx.step("charge", () => amount + 1)));

async function opened() {
  const backend = new HarnessBackend(veiled);
  const engine = await Holdfast.with({ backend }, { codec: veiled });
  const inspection = inspect(engine);
  await engine.worker({ workflows: [order], activities: [double] });
  const run = await engine.start(order, 20, { id: "r", attributes: { tenant: 1 } });
  expect(await run.result()).toBe(42);
  return { engine, inspection, run };
}

test("P8 runs, operations and histories, with values that are decoded when they are read", async () => {
  const { engine, inspection, run } = await opened();
  expect(await inspection.store()).toEqual({ host: inspection.host, exists: true, schema: undefined, now: undefined });
  const found = await inspection.get("r");
  expect(found).toMatchObject({ id: "r", workflow: "order", status: "completed", attributes: { tenant: 1 } });
  expect(found?.input?.read()).toEqual({ value: 20 });
  expect(found?.output?.read()).toEqual({ value: 42 });
  expect(found?.output?.bytes).toBeGreaterThan(2);
  expect((await inspection.list()).runs).toMatchObject([{ id: "r", input: undefined, output: undefined }]);
  expect((await inspection.list({}, { values: true })).runs[0]?.output?.read()).toEqual({ value: 42 });
  expect((await inspection.counts()).completed).toEqual({ n: 1, capped: false });
  expect(await inspection.get("unknown")).toBeUndefined();
  // The backend of this test lists steps, and does not keep their values.
  expect(await inspection.operations("r")).toMatchObject([{ location: "charge", kind: "step", status: "completed", output: undefined }]);
  expect(await inspection.operations("unknown")).toEqual([]);
  expect(await inspection.history("r")).toEqual(await run.history());
  expect(await inspection.history("unknown")).toBeUndefined();
  await inspection.close();
  await engine.close();
});

test("what the backend does not tell is an UnsupportedError", async () => {
  const { engine, inspection } = await opened();
  const asked = [
    inspection.turns("r"),
    inspection.attempts("r"),
    inspection.turnWorkers("r"),
    inspection.timeline("r"),
    inspection.inbox("r"),
    inspection.executions("r"),
    inspection.workflows(),
    inspection.queueStats(),
    inspection.workers(),
    inspection.schedules(),
    inspection.why("r"),
  ];
  for (const one of asked) await expect(one).rejects.toThrow(UnsupportedError);
  expect(inspection.features).toEqual({ queues: false, schedules: false, workers: false });
  await inspection.close();
  await engine.close();
});
