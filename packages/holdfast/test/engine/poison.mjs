// A process with a worker whose workflows do what they can to end it. It says how each ended, and that it lives.

import { activity, Holdfast, jsonCodec, RollbackError, signal, workflow } from "holdfast";

const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};
const thrower = () => {
  throw new Error("of a getter");
};
/** What code may throw. */
const POISON = {
  revoked,
  getters: () => Object.create(Error.prototype, Object.fromEntries(["name", "message", "stack", "cause", "code"].map((key) => [key, { get: thrower }]))), // biome-ignore format: one line
  toString: () => ({ toString: thrower, [Symbol.toPrimitive]: thrower, toJSON: thrower }),
  proxied: () => new Proxy(new Error("x"), { get: thrower, getPrototypeOf: thrower, ownKeys: thrower, has: thrower }),
  cyclic: () => {
    const error = new Error("x");
    error.cause = error;
    return error;
  },
  nothing: () => undefined,
  symbol: () => Symbol("x"),
};
const twice = { retry: { maxAttempts: 2, initialInterval: 1 } };
const throws = (poison) => () => {
  throw POISON[poison]();
};
const hostile = (signal) => {
  signal.addEventListener("abort", thrower);
  signal.addEventListener("abort", () => Promise.reject(new Error("of a listener")));
  signal.onabort = throws("revoked");
  const following = AbortSignal.any([signal]);
  following.addEventListener("abort", thrower);
  following.onabort = throws("revoked");
};
const work = activity("work", (poison) => throws(poison)(), twice);
const listening = activity("listening", (_, { signal: aborted }) => {
  hostile(aborted);
  return new Promise((resolve) => aborted.addEventListener("abort", resolve));
});
const schema = (validate) => ({ "~standard": { version: 1, vendor: "test", validate } });

const inRollback = (poison) => async (ctx) => {
  await ctx.step("book", () => 1, { ...twice, rollback: throws(poison) });
  throw new RollbackError("undo");
};
const workflows = [
  ...Object.keys(POISON).flatMap((poison) => [
    workflow(`step ${poison}`, (ctx) => ctx.step("x", throws(poison), twice)),
    workflow(`activity ${poison}`, (ctx) => ctx.activity(work, poison)),
    workflow(`transaction ${poison}`, (ctx) => ctx.transaction("x", throws(poison), twice)),
    workflow(`rollback ${poison}`, inRollback(poison)),
    workflow(`code ${poison}`, async (ctx) => {
      await ctx.step("x", () => 1);
      throws(poison)();
    }),
    workflow(`floating ${poison}`, async (ctx) => {
      void Promise.reject(POISON[poison]());
      await ctx.sleep(1);
    }),
    workflow(`returns ${poison}`, (ctx) => ctx.step("x", () => [POISON[poison]()], twice)),
  ]),
  ...[["rejects", async () => Promise.reject(new Error("of the policy"))], ["throws", thrower], ["revoked", revoked]].map(([name, nonRetryable]) =>
    workflow(`policy ${name}`, (ctx) => ctx.step("x", () => Promise.reject(new Error("no")), { retry: { ...twice.retry, nonRetryable } })),
  ),
  workflow("timeout", (ctx) =>
    ctx.step("x", ({ signal: aborted }) => {
      hostile(aborted);
      return new Promise(() => {});
    }, { timeout: 5, retry: { maxAttempts: 1 } }),
  ),
  workflow("canceled", async (ctx) => {
    hostile(ctx.signal);
    await Promise.all([
      ctx.step("x", ({ signal: aborted }) => {
        hostile(aborted);
        return new Promise(() => {});
      }),
      ctx.activity(listening, 1),
    ]);
  }),
  workflow(
    { name: "schema", signals: { bad: signal(schema(throws("revoked"))), good: signal() } },
    async (ctx) => {
      const [first] = (await ctx.listen(["good", "bad"])) ?? [];
      return first?.name;
    },
  ),
]; // biome-ignore format: a list

const poisoned = activity("poisoned", () => Promise.reject(new Error("poison")), twice);
const ofCodec = [
  workflow("codec step", (ctx) => ctx.step("x", () => Promise.reject(new Error("poison")), twice)),
  workflow("codec returns", (ctx) => ctx.step("x", () => "poison", twice)),
  workflow("codec code", async (ctx) => {
    await ctx.sleep(1);
    throw new Error("poison");
  }),
  workflow("codec output", async () => "poison"),
  workflow("codec activity", (ctx) => ctx.activity(poisoned, 1)),
  workflow("codec state", async (ctx) => ctx.publishState("poison")),
];
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const [, , url = "memory:", kind = "all"] = process.argv;
/** It can't encode what is about poison, errors included. */
const squeamish = {
  encode(value) {
    const payload = jsonCodec.encode(value);
    if (String(payload).includes("poison")) throw new Error("Not this.");
    return payload;
  },
  decode: jsonCodec.decode,
};
const engine = await Holdfast.open(url, { logger: silent, ...(kind === "codec" && { codec: squeamish }) });
const sound = workflow("sound", async (ctx) => {
  await ctx.sleep(5);
  return ctx.step("x", () => "sound");
});
const tried = kind === "codec" ? ofCodec : workflows;
await engine.worker({ workflows: [...tried, sound], activities: [work, listening, poisoned] });
const ended = {};
await Promise.all(
  tried.map(async (one) => {
    const run = await engine.start(one, undefined);
    if (one.name === "canceled") {
      while ((await run.operations()).every(({ status }) => status !== "running")) await new Promise((resolve) => setTimeout(resolve, 5));
      await run.cancel();
    }
    if (one.name === "schema") {
      const untyped = engine.run(run.id); // whose sender has no schema
      await untyped.signal("bad", 1);
      await untyped.signal("good", 1);
    }
    await run.result({ timeout: "20s" }).then(
      (output) => (ended[one.name] = `completed ${output}`),
      (error) => (ended[one.name] = error.name),
    );
  }),
);
ended.sound = await (await engine.start(sound, undefined)).result({ timeout: "20s" });
process.stdout.write(JSON.stringify(ended));
await engine.close();
