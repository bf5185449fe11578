// Job: prove the port behind the surface: `Holdfast`, `Run` and `Worker` on a backend that shares nothing with the embedded engine.
// Owns: nothing.
// Invariants: what users see does not depend on the backend; values cross the port encoded.

import {
  activity,
  CanceledError,
  type Codec,
  Holdfast,
  HoldfastError,
  InvalidInputError,
  jsonCodec,
  QueryFailedError,
  Receive,
  RunAlreadyExistsError,
  RunBlockedError,
  RunClosedError,
  RunFailedError,
  RunNotFoundError,
  RunTerminatedError,
  replay,
  signal,
  UnsupportedError,
  UpdateFailedError,
  UpdateRejectedError,
  update,
  workflow,
} from "holdfast";
import { featureOf } from "holdfast/backend";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { HarnessBackend } from "./harnessBackend.ts";

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
/** Every value is text that does not show what it is. */
const veiled: Codec = {
  encode: (value) => `~${Buffer.from(jsonCodec.encode(value)).toString("base64")}`,
  decode: (data) => jsonCodec.decode(Buffer.from(String(data).slice(1), "base64").toString()),
};

const double = activity("double", (n: number) => 2 * n);
const order = workflow({ name: "order", input: z.object({ amount: z.coerce.number() }) }, async (ctx, { amount }) => {
  const charged = await ctx.step("charge", () => amount + 1);
  return ctx.activity(double, charged);
});
const fails = workflow("fails", async (ctx) =>
  ctx.step("try", () => Promise.reject(new TypeError("no card")), { retry: { maxAttempts: 1 } }),
);
const cart = workflow(
  {
    name: "cart",
    signals: { add: signal<string>() },
    updates: { remove: update<string, number>(), pay: update<void, string>() },
    queries: { size: (items: readonly string[] = []) => items.length },
  },
  async (ctx) => {
    ctx.publishState([]);
    const { state } = await ctx.receive([] as string[], {
      signals: {
        add(item, items, handler) {
          handler.publishState([...items, item]);
          return Receive.noreply([...items, item]);
        },
      },
      updates: {
        remove: {
          validate(item, items) {
            if (!items.includes(item)) throw new Error(`no ${item} in the cart`);
          },
          handle(item, items) {
            const left = items.filter((one) => one !== item);
            return Receive.reply(left.length, left);
          },
        },
        pay(_, items) {
          if (items.length === 0) throw new RangeError("an empty cart");
          return Receive.stop("paid", items);
        },
      },
    });
    return state;
  },
);

async function opened(codec: Codec = veiled) {
  const backend = new HarnessBackend(codec);
  const holdfast = await Holdfast.with({ backend }, { codec, logger: quiet });
  onTestFinished(() => holdfast.close());
  return { backend, holdfast };
}
async function working() {
  const { backend, holdfast } = await opened();
  const worker = await holdfast.worker({ workflows: [order, fails, cart], activities: [double] });
  return { backend, holdfast, worker };
}
const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    (value) => new Error(`resolved with ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );

test("a run is started, worked on and read through the port", async () => {
  const { holdfast } = await working();
  const run = await holdfast.start(order, { amount: "20" as unknown as number }, { id: "o1", attributes: { shop: "berlin" } });
  expect(await run.result()).toBe(42);
  const info = await run.describe();
  expect(info).toMatchObject({ id: "o1", workflow: "order", status: "completed", input: { amount: 20 }, output: 42 });
  expect(info.attributes).toEqual({ shop: "berlin" });
  expect((await run.operations()).map(({ name }) => name)).toEqual(["charge"]);
  await replay(order, await run.history(), { codec: veiled });
  expect((await holdfast.list({ workflow: "order" })).runs.map(({ id, output }) => [id, output])).toEqual([["o1", 42]]);
  expect(await holdfast.count()).toMatchObject({ completed: 1, failed: 0 });
});

test("P8 no value of the user crosses the port in plain form, and schemas are applied above it", async () => {
  const { backend, holdfast } = await working();
  const run = await holdfast.start(cart, undefined, { id: "c1", signals: [{ name: "add", payload: "sw0rdfish" }] });
  await run.signal("add", "sw0rdfish");
  expect(await run.update("remove", "sw0rdfish")).toBe(0);
  const refused = await errorOf(holdfast.start(order, { amount: "many" as unknown as number }));
  expect(refused).toBeInstanceOf(InvalidInputError);
  expect(backend.crossed.map(({ call }) => call)).toEqual(["startWorker", "create", "send", "update"]);
  expect(JSON.stringify(backend.crossed)).not.toContain("sw0rdfish");
});

test("answers to a start become runs or typed errors, one by one", async () => {
  const { holdfast } = await working();
  await holdfast.start(order, { amount: 1 }, { id: "a" });
  const taken = await errorOf(holdfast.start(order, { amount: 1 }, { id: "a" }));
  expect(taken).toMatchObject({ name: "RunAlreadyExistsError", runIds: ["a"] });
  expect(taken).not.toHaveProperty("workflow");
  expect(await errorOf(holdfast.start(cart, undefined, { id: "a", onConflict: "use-existing" }))).toMatchObject({ workflow: "order" });
  const found = await holdfast.start(order, { amount: 9 }, { id: "a", onConflict: "use-existing" });
  expect(await found.result()).toBe(4);
  const some = [
    { input: { amount: 1 }, id: "b" },
    { input: { amount: 2 }, id: "a" },
    { input: { amount: 3 }, id: "c" },
  ];
  expect(await errorOf(holdfast.startMany(order, some))).toMatchObject({ name: "RunAlreadyExistsError", runIds: ["a"] });
  expect(await holdfast.run("c", order).result()).toBe(8);
  const runs = await holdfast.startMany(order, [{ input: { amount: 4 } }, { input: { amount: 5 } }]);
  expect(await Promise.all(runs.map((run) => run.result()))).toEqual([10, 12]);
});

test("a backend without transactions says so, and nothing is started", async () => {
  const { backend, holdfast } = await working();
  const error = await errorOf(holdfast.start(order, { amount: 1 }, { id: "t", tx: {} }));
  expect(error).toBeInstanceOf(UnsupportedError);
  expect(error).toMatchObject({ code: "HF_UNSUPPORTED", feature: "tx", host: "the harness" });
  expect((error as Error).message).toContain("after your commit");
  expect(await backend.get(["t"])).toEqual([undefined]);
});

test("signals, updates, queries and state", async () => {
  const { holdfast } = await working();
  const run = await holdfast.start(cart, undefined, { id: "c" });
  await run.signal("add", "tea", { idempotencyKey: "once" });
  await run.signal("add", "tea", { idempotencyKey: "once" });
  await run.signal("add", "milk");
  await expect.poll(() => run.query("size")).toBe(2);
  expect(await run.state()).toEqual(["tea", "milk"]);
  expect(await errorOf(run.query("none" as "size"))).toBeInstanceOf(QueryFailedError);
  expect(await run.update("remove", "tea", { idempotencyKey: "u1" })).toBe(1);
  expect(await run.update("remove", "tea", { idempotencyKey: "u1" })).toBe(1);
  expect(await errorOf(run.update("remove", "gold"))).toBeInstanceOf(UpdateRejectedError);
  expect(await run.update("pay")).toBe("paid");
  expect(await run.result()).toEqual(["milk"]);
  expect(await run.update("remove", "tea", { idempotencyKey: "u1" })).toBe(1); // M10: it ended before its run did
  expect(await errorOf(run.update("remove", "milk"))).toBeInstanceOf(RunClosedError);
  expect(await errorOf(run.signal("add", "late"))).toMatchObject({ name: "RunClosedError", status: "completed" });
});

test("an update whose handler fails, and one that is sent with the start", async () => {
  const { holdfast } = await working();
  const failed = await errorOf(holdfast.updateWithStart(cart, undefined, { name: "pay", input: undefined }, { id: "empty" }));
  expect(failed).toBeInstanceOf(UpdateFailedError);
  const signals = [{ name: "add" as const, payload: "tea" }];
  const { run, result } = await holdfast.updateWithStart(cart, undefined, { name: "pay", input: undefined }, { id: "full", signals });
  expect([result, await run.result()]).toEqual(["paid", ["tea"]]);
});

test("M3 M12 runs of another workflow, unknown runs, and runs that ended badly", async () => {
  const { holdfast } = await working();
  const run = await holdfast.start(fails, undefined, { id: "f" });
  const failure = await errorOf(run.result());
  expect(failure).toBeInstanceOf(RunFailedError);
  expect((failure as Error).cause).toMatchObject({ name: "StepFailedError" });
  for (const call of ["result", "describe", "resume", "terminate", "cancel", "history", "operations"] as const) {
    expect([call, await errorOf(holdfast.run("f", order)[call]())]).toEqual([call, expect.any(RunAlreadyExistsError)]);
    expect([call, await errorOf(holdfast.run("none")[call]())]).toEqual([call, expect.any(RunNotFoundError)]);
  }
  expect(await errorOf(holdfast.run("f", cart).update("pay"))).toMatchObject({ name: "RunAlreadyExistsError", workflow: "fails" });
  expect(await errorOf(holdfast.run("none", cart).update("pay"))).toBeInstanceOf(RunNotFoundError);
  const open = await holdfast.start(cart, undefined, { id: "open" });
  await open.terminate("enough");
  expect(await errorOf(open.result())).toBeInstanceOf(RunTerminatedError);
  expect(await errorOf(open.terminate())).toBeInstanceOf(RunClosedError);
  expect(await errorOf(open.resume())).toMatchObject({ code: "HF_NOT_RESUMABLE" });
  const canceled = await holdfast.start(cart, undefined, { id: "canceled" });
  await canceled.cancel();
  expect(await errorOf(canceled.result())).toBeInstanceOf(CanceledError);
  await canceled.cancel();
});

test("D10 a failed run is resumed", async () => {
  const { holdfast } = await opened();
  let isUp = false;
  const flaky = workflow("flaky", async (ctx) =>
    ctx.step("call", () => (isUp ? "done" : Promise.reject<string>(new Error("down"))), { retry: { maxAttempts: 1 } }),
  );
  await holdfast.worker({ workflows: [flaky] });
  const run = await holdfast.start(flaky, undefined);
  await errorOf(run.result());
  isUp = true;
  await run.resume();
  expect(await run.result()).toBe("done");
  expect(await run.describe()).toMatchObject({ attempt: 2 });
});

test("V4 a run that no code can advance is RunBlockedError for a result and for an update", async () => {
  const { holdfast } = await opened();
  const foreign = workflow({ name: "foreign", updates: { poke: update() } }, () => new Promise<void>((done) => setTimeout(done, 1)));
  await holdfast.worker({ workflows: [foreign] });
  const run = await holdfast.start(foreign, undefined);
  expect(await errorOf(run.result())).toBeInstanceOf(RunBlockedError);
  expect(await errorOf(run.update("poke"))).toBeInstanceOf(RunBlockedError);
});

test("a process without a worker starts by name and waits; a worker anywhere takes the run up", async () => {
  const { holdfast } = await opened();
  const run = await holdfast.start("order", { amount: 2 }, { id: "named" });
  const late = await errorOf(run.result({ timeout: 20 }));
  expect(late).toMatchObject({ code: "HF_WAIT_TIMEOUT", retryable: true });
  expect((late as Error).message).toContain("The run is pending and waits for: a worker.");
  const waiting = run.result();
  const aborted = errorOf(run.result({ signal: AbortSignal.abort(new Error("enough")) }));
  expect(await aborted).toMatchObject({ message: "enough" });
  await using worker = await holdfast.worker({ workflows: [order], activities: [double] });
  expect(worker.id).toMatch(/^worker-/);
  expect(await waiting).toBe(6);
  expect(worker.active).toBe(0);
});

test("a query uses the definition of a worker, or of a start, where the caller gives none", async () => {
  const { backend, holdfast } = await working();
  await holdfast.start(cart, undefined, { id: "c" });
  await expect.poll(() => holdfast.run("c").state()).toBeDefined();
  expect(await (holdfast.run("c") as ReturnType<typeof holdfast.run<unknown, never, never, { size: () => number }>>).query("size")).toBe(0);
  const elsewhere = await Holdfast.with({ backend }, { codec: veiled, logger: quiet });
  const unknown = elsewhere.run("c") as unknown as { query(name: string): Promise<unknown> };
  expect(await errorOf(unknown.query("size"))).toBeInstanceOf(QueryFailedError);
  await elsewhere.start(cart, undefined, { id: "c", onConflict: "use-existing" });
  expect(await unknown.query("size")).toBe(0);
});

test("W4 close stops the workers, ends what waits, and refuses what comes later", async () => {
  const { holdfast, worker } = await working();
  const run = await holdfast.start(cart, undefined, { id: "c" });
  const waiting = errorOf(run.result());
  await holdfast.close();
  await worker.stop();
  expect(await waiting).toMatchObject({ code: "HF_ENGINE_CLOSED" });
  expect(await errorOf(holdfast.start(cart, undefined))).toMatchObject({ code: "HF_ENGINE_CLOSED" });
  expect(await errorOf(run.signal("add", "x"))).toMatchObject({ code: "HF_ENGINE_CLOSED" });
  expect(await errorOf(holdfast.worker({ workflows: [cart] }))).toMatchObject({ code: "HF_ENGINE_CLOSED" });
});

test("an optional feature that a backend lacks is an error that names it, the backend and the way out", async () => {
  const { backend } = await opened();
  expect(() => featureOf(backend, "fork")).toThrow(UnsupportedError);
  expect(() => featureOf(backend, "schedules")).toThrow(UnsupportedError);
  expect(() => featureOf(backend, "queues")).toThrow(UnsupportedError);
  expect(() => featureOf(backend, "why")).toThrow(/^why is not supported on the harness\nrun\.describe\(\)/);
  const removed: string[] = [];
  const able = Object.assign(backend, {
    async delete(this: HarnessBackend, runId: string) {
      removed.push(`${this.name}: ${runId}`);
      return "deleted" as const;
    },
  });
  expect(await featureOf(able, "delete")("r1")).toBe("deleted");
  expect(removed).toEqual(["the harness: r1"]);
  expect(new UnsupportedError({ feature: "fork", host: "x" })).toBeInstanceOf(HoldfastError);
});
