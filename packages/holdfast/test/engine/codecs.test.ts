// P8, V4: codecs of users that fail, on either side.

import {
  activity,
  type Codec,
  Holdfast,
  HoldfastError,
  InvalidInputError,
  jsonCodec,
  LimitExceededError,
  Receive,
  RunBlockedError,
  signal,
  UnserializableValueError,
  UpdateRejectedError,
  update,
  workflow,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { enginesOn, errorOf, until } from "./engines.ts";

/** Text with a key before it; what was written under another can't be read. It takes no "secret". */
class KeyedCodec implements Codec {
  readonly #key: string;
  constructor(key: string) {
    this.#key = key;
  }
  encode(value: unknown): string {
    const text = jsonCodec.encode(value);
    if (text.includes("secret")) throw new Error("no secrets");
    return `${this.#key}:${text}`;
  }
  decode(data: string | Uint8Array): unknown {
    if (!String(data).startsWith(`${this.#key}:`)) throw new Error("wrong key");
    return jsonCodec.decode(String(data).slice(this.#key.length + 1));
  }
}

const echo = workflow("echo", async (_ctx, input: unknown) => input);

describe.each(["memory", "sqlite"] as const)("codecs on %s", (store) => {
  const engines = enginesOn(store);
  const a = () => engines.open({ codec: new KeyedCodec("a") });
  const b = () => engines.open({ codec: new KeyedCodec("b") });

  test("P8 a value that the codec throws at is refused with a typed error that names the codec, and nothing is written", async () => {
    const engine = await a();
    const run = await engine.start(echo, 1);
    const attempts = [
      engine.start(echo, "secret"),
      run.signal("go", "secret"),
      run.update("go", "secret"),
      engine.start(echo, 1, { signals: [{ name: "go", payload: "secret" }] }),
    ];
    for (const attempt of attempts) {
      const error = await errorOf(attempt);
      expect(error).toBeInstanceOf(UnserializableValueError);
      expect(error.message).toMatch(/codec KeyedCodec .*no secrets/);
      expect(error.cause).toMatchObject({ message: "no secrets" });
    }
    expect((await engine.list()).runs).toHaveLength(1);
  });

  test("P8 results that the codec throws at fail steps and activities at once; published state fails its call", async () => {
    const engine = await a();
    let calls = 0;
    const work = activity("work", () => {
      calls++;
      return "secret";
    });
    const run = workflow("run", async (ctx) => {
      const errors: Error[] = [];
      const note = (error: Error) => void errors.push(error);
      const hide = () => {
        calls++;
        return "secret";
      };
      await ctx.step("hide", hide).catch(note);
      await ctx.activity(work, undefined).catch(note);
      try {
        ctx.publishState("secret");
      } catch (error) {
        note(error as Error);
      }
      return errors.map((error) => (error.cause instanceof HoldfastError ? error.cause : error).name);
    });
    await engine.worker({ workflows: [run], activities: [work] });
    expect(await (await engine.start(run, undefined)).result()).toEqual(Array(3).fill("UnserializableValueError"));
    expect(calls).toBe(2);
  });

  test("P8 runs that can't be read are listed with what can be", async () => {
    const one = await a();
    await one.worker({ workflows: [echo] });
    const run = await one.start(echo, "mine", { id: "mine" });
    await run.result();
    const other = await b();
    await other.start(echo, "yours", { id: "yours", queue: "none" });
    const { runs } = await other.list();
    const [mine, yours] = ["mine", "yours"].map((id) => runs.find((info) => info.id === id));
    expect(yours).toMatchObject({ input: "yours", error: undefined });
    expect(mine).toMatchObject({ status: "completed", input: undefined, output: undefined });
    expect(mine?.error?.message).toMatch(/codec KeyedCodec can't decode it: Error: wrong key/);
    expect(await other.run("mine").describe()).toMatchObject({ id: "mine", input: undefined });
    const error = await errorOf(other.run("mine").result());
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error.message).toMatch(/wrong key/);
  });

  test("D12 operations whose outputs can't be read are listed with what can be", async () => {
    const one = await a();
    const work = workflow("work", async (ctx) => {
      await ctx.sideEffect(() => 1);
      return ctx.step("count", () => 2);
    });
    await one.worker({ workflows: [work] });
    await (await one.start(work, undefined, { id: "x" })).result();
    const operations = await (await b()).run("x").operations();
    expect(operations.map(({ kind, status, output }) => [kind, status, output])).toEqual([
      ["sideEffect", "completed", undefined],
      ["step", "completed", undefined],
    ]);
    expect(operations.map(({ error }) => error?.name)).toEqual(["InvalidInputError", "InvalidInputError"]);
  });

  test.each([
    ["a schema", { signals: { go: signal(z.string()) } }],
    ["no schema", {}],
  ])("V4 a signal that can't be decoded blocks the run, with %s, until a worker can", async (_, options) => {
    const receiver = await a();
    const wait = workflow({ name: "wait", ...options }, async (ctx) => ctx.waitForSignal("go" as never));
    const worker = await receiver.worker({ workflows: [wait] });
    const run = await receiver.start(wait, undefined, { id: "x" });
    const sender = await b();
    await sender.run("x").signal("go", "on");
    const error = await errorOf(run.result());
    expect(error).toBeInstanceOf(RunBlockedError);
    expect(error.message).toMatch(/wrong key/);
    await worker.stop();
    // One that reads both.
    const both: Codec = {
      encode: (value) => new KeyedCodec("a").encode(value),
      decode: (data) => new KeyedCodec(String(data).slice(0, 1)).decode(data),
    };
    const repaired = await engines.open({ codec: both });
    await repaired.worker({ workflows: [wait] });
    await repaired.run("x").resume();
    await until(async () => (await repaired.run("x").describe()).status === "completed");
    expect(await repaired.run("x").result()).toBe("on");
  });

  test("V4 an input that can't be decoded blocks the run", async () => {
    const sender = await b();
    const receiver = await a();
    await receiver.worker({ workflows: [echo] });
    await sender.start(echo, 1, { id: "x" });
    const error = await errorOf(receiver.run("x").result());
    expect(error).toBeInstanceOf(RunBlockedError);
    expect(error.message).toMatch(/wrong key/);
  });

  test.each([
    ["a schema", { updates: { add: update<number, number>(z.number()) } }],
    ["no schema", {}],
  ])("M8 an update that can't be decoded is rejected, with %s, and the run goes on", async (_, options) => {
    const receiver = await a();
    const sum = workflow({ name: "sum", ...options }, async (ctx) => {
      const { state } = await ctx.receive(0, {
        signals: { stop: (_payload: unknown, total: number) => Receive.stop(total) } as never,
        updates: { add: (n: number, total: number) => Receive.reply(total + n, total + n) } as never,
      });
      return state;
    });
    await receiver.worker({ workflows: [sum] });
    const run = await receiver.start(sum, undefined, { id: "x" });
    const error = await errorOf((await b()).run("x").update("add", 5));
    expect(error).toBeInstanceOf(UpdateRejectedError);
    expect(error.message).toMatch(/wrong key/);
    expect(await receiver.run("x").update("add", 5)).toBe(5);
    expect((await run.describe()).status).not.toBe("blocked");
  });

  test("P8 a codec that decodes to a promise is refused", async () => {
    const engine = await engines.open({ codec: { encode: jsonCodec.encode, decode: async () => 1 } });
    const run = await engine.start(echo, 1);
    expect((await run.describe()).error?.message).toMatch(/the codec: decode must return the value synchronously, not a promise/);
  });
});

test("P8 P9 what can't be read, a thenable and what is far too large are refused by type, wherever they are handed over", async () => {
  const engine = await Holdfast.open("memory:");
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  let called = 0;
  // biome-ignore lint/suspicious/noThenProperty: this is what is tested
  const thenable = Object.fromEntries([["then", () => called++]]);
  const run = await engine.start(echo, 1, { delay: "1h" });
  const cases = [
    [proxy, UnserializableValueError],
    [thenable, UnserializableValueError],
    [new Array(20_000_000), LimitExceededError],
  ] as const;
  for (const [value, type] of cases) {
    const calls = [
      engine.start(echo, value),
      engine.startMany(echo, [{ input: value }]),
      run.signal("go", value),
      run.update("go", value),
      engine.start(echo, 1, { signals: [{ name: "go", payload: value }] }),
    ];
    for (const call of calls) expect(await errorOf(call)).toBeInstanceOf(type);
  }
  expect(called).toBe(0);
  expect((await engine.list()).runs).toHaveLength(1);
  await engine.close();
});
