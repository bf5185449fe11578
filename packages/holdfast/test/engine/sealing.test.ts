// E1: with a codec of the user's, nothing that a user or an error says is stored as plain text.

import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { ask } from "@holdfast/postgres-server";
import {
  activity,
  type Codec,
  FatalError,
  jsonCodec,
  Loop,
  Receive,
  RunBlockedError,
  RunFailedError,
  type RunInfo,
  replay,
  signal,
  UpdateFailedError,
  UpdateRejectedError,
  update,
  workflow,
} from "holdfast";
import type { Store } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type Engines, enginesOn, errorOf, STORES, type StoreName, until, Wire } from "./engines.ts";

const SECRET = "s3cret";
const secret = (what: string) => `${SECRET}-${what}`;

/** Encrypts badly, but as encryption does: twice the same value is never twice the same bytes. */
const encrypting: Codec = {
  encode(value) {
    const nonce = randomBytes(8);
    const text = new TextEncoder().encode(jsonCodec.encode(value));
    return new Uint8Array([...nonce, ...text.map((byte, i) => byte ^ (nonce[i % 8] ?? 0) ^ 0x5a)]);
  },
  decode(data) {
    const bytes = data as Uint8Array;
    return jsonCodec.decode(bytes.slice(8).map((byte, i) => byte ^ (bytes[i % 8] ?? 0) ^ 0x5a));
  },
};

/** Everything that was handed to the store, and everything that a person who has the database can read. */
class Tap extends Wire {
  readonly heard: string[] = [];
  override on(store: Store): Store {
    const listen = (args: unknown[]) =>
      this.heard.push(JSON.stringify(args, (_, value) => (value instanceof Uint8Array ? "bytes" : value)));
    return super.on(
      new Proxy(store, {
        get(target, key): unknown {
          const value: unknown = Reflect.get(target, key, target);
          if (typeof value !== "function") return value;
          return (...args: unknown[]): unknown => {
            listen(args);
            return value.apply(target, args);
          };
        },
      }),
    );
  }
}
async function dump(name: StoreName, engines: Engines, tap: Tap): Promise<string> {
  if (name === "memory") return tap.heard.join("\n");
  if (name === "sqlite") {
    const files = ["", "-wal"].map((suffix) => engines.path + suffix).filter((path) => existsSync(path));
    return files.map((path) => readFileSync(path, "latin1")).join("\n");
  }
  const url = engines.url ?? "";
  const tables = await ask<{ name: string }>(
    url,
    "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = 'holdfast'",
  );
  const rows: string[] = [];
  for (const table of tables)
    rows.push(...(await ask<{ row: string }>(url, `SELECT t::text AS row FROM ${table.name} t`)).map(({ row }) => row));
  return rows.join("\n");
}

class CardError extends Error {
  readonly code = "CARD_DECLINED";
  readonly card = secret("card");
  constructor(what: string) {
    super(secret(what), { cause: new TypeError(secret(`${what}-cause`)) });
  }
}
const fail = (what: string): never => {
  throw new CardError(what);
};
/** The texts of an error and its causes. */
const texts = (error: unknown): string => {
  const said: string[] = [];
  for (let at = error; at instanceof Error; at = at.cause) said.push(at.message);
  return said.join(" | ");
};

const charge = activity("charge", (_card: string, { heartbeat }): string => {
  heartbeat({ at: secret("heartbeat") });
  return fail("activity");
});
const child = workflow("child", async (): Promise<string> => fail("child"));
const TWICE = { retry: { maxAttempts: 2, initialInterval: 1 } };
const main = workflow(
  {
    name: "main",
    signals: { go: signal(z.object({ word: z.string().startsWith("go", secret("schema")) })), hurt: signal<string>() },
    updates: { charge: update<string, string>(), refuse: update<string, string>() },
  },
  async (ctx, input: string) => {
    const seen: string[] = [input];
    const note = async (work: () => PromiseLike<unknown>): Promise<void> => {
      try {
        await work();
      } catch (error) {
        seen.push(texts(error));
      }
    };
    ctx.publishState({ state: secret("state") });
    await note(() => ctx.step("pay", () => fail("step"), TWICE));
    await note(() => ctx.activity(charge, secret("activity-input"), TWICE));
    await note(() => ctx.child(child, undefined));
    await note(() => ctx.sideEffect(() => fail("effect")));
    await ctx.loop({ name: "turns", state: secret("loop-state"), commitInterval: 1 }, async (_, state) =>
      state.endsWith("!!") ? Loop.break(state) : Loop.continue(`${state}!`),
    );
    await ctx.receive(secret("reducer-state"), {
      signals: {
        hurt: (_, state) => Receive.async(async () => fail("handler"), state),
        go: (_, state) => Receive.stop(state),
      },
      updates: {
        charge: () => fail("update"),
        refuse: { validate: () => fail("validator"), handle: (_, state) => Receive.reply("", state) },
      },
    });
    return seen;
  },
);
const doomed = workflow("doomed", async (ctx) => {
  await ctx.step("book", () => secret("output"), { rollback: () => fail("rollback"), retry: { maxAttempts: 1 } });
  throw new FatalError(secret("run"), { data: { token: secret("fatal-data") } });
});
const patient = workflow("patient", async (ctx) => {
  await ctx.waitForSignal("never");
});

describe.each(STORES)("errors under a codec of the user's on %s", (name) => {
  const engines = enginesOn(name);

  /** What is stored once the engine has closed. */
  async function expectSealed(engine: { close(): Promise<void> }, tap: Tap): Promise<string> {
    await engine.close();
    const stored = await dump(name, engines, tap);
    const at = stored.indexOf(SECRET);
    expect(at < 0 ? "" : stored.slice(Math.max(0, at - 300), at + 100)).toBe("");
    return stored;
  }

  test("E1 no message, stack, cause, data, reason, payload, state or heartbeat is stored as plain text, and all of it comes back", async () => {
    const tap = new Tap();
    const engine = await engines.open({ codec: encrypting, wire: tap });
    await engine.worker({ workflows: [main, child, doomed, patient], activities: [charge] });

    const run = await engine.start(main, secret("input"));
    const waits = (one: typeof run | typeof patientRun, what: string) =>
      until(async () => (await one.describe()).waitingFor.some((text) => text.includes(what)), what);
    const patientRun = await engine.start(patient, undefined);
    await waits(run, "receive");
    const failed = await errorOf(run.update("charge", secret("args")));
    const rejected = await errorOf(run.update("refuse", secret("args")));
    await engine.run(run.id).signal("go", { word: secret("refused-signal") });
    await run.signal("hurt", secret("payload"));
    await run.signal("go", { word: "go" });
    const seen = await run.result();
    const fatal = await engine.start(doomed, undefined);
    const fatalError = await errorOf(fatal.result());
    const [terminated, unborn] = [await engine.start(patient, undefined), await engine.start(patient, undefined, { delay: "1h" })];
    await waits(patientRun, "never");
    await waits(terminated, "never");
    await patientRun.cancel(secret("cancel-reason"));
    await unborn.cancel(secret("unborn-reason"));
    await terminated.terminate(secret("terminate-reason"));

    expect(seen).toHaveLength(5);
    for (const [i, what] of ["input", "step", "activity", "child", "effect"].entries()) expect(seen[i]).toContain(secret(what));
    for (const what of ["step", "activity", "child", "effect"]) expect(seen.join(" ")).toContain(secret(`${what}-cause`));
    expect(failed).toBeInstanceOf(UpdateFailedError);
    expect(failed.cause).toMatchObject({ message: secret("update"), code: "CARD_DECLINED", card: secret("card") });
    expect(rejected).toBeInstanceOf(UpdateRejectedError);
    expect(texts(rejected)).toContain(secret("validator"));
    expect(fatalError).toBeInstanceOf(RunFailedError);
    expect(texts(fatalError)).toContain(secret("run"));
    expect((await fatal.describe()).error?.message).toContain(secret("run"));
    expect(await errorOf(patientRun.result())).toMatchObject({ name: "CanceledError", reason: secret("cancel-reason") });
    expect(await errorOf(unborn.result())).toMatchObject({ name: "CanceledError", reason: secret("unborn-reason") });
    const end = await errorOf(terminated.result());
    expect(end).toMatchObject({ name: "RunTerminatedError", reason: secret("terminate-reason") });
    expect(end.message).toContain(secret("terminate-reason"));
    const operations = await run.operations();
    for (const [kind, what] of [
      ["step", "step"],
      ["activity", "activity"],
    ] as const) {
      const attempts = operations.find((operation) => operation.kind === kind)?.attempts;
      expect(attempts?.map(({ error }) => error?.message)).toEqual([secret(what), secret(what)]);
    }

    // Y5: what is exported tells as little, and replays with the codec.
    const history = JSON.stringify(await run.history());
    expect(history).not.toContain(SECRET);
    await replay(main, JSON.parse(history), { codec: encrypting });

    const stored = await expectSealed(engine, tap);
    for (const what of ["CARD_DECLINED", "CardError", "charge", "patient"]) expect(stored).toContain(what); // for operators
  });

  test("E1 V4 why a run is blocked is sealed too; a run whose errors can't be opened is blocked, and goes on when they can", async () => {
    const tap = new Tap();
    const first = await engines.open({ codec: encrypting, wire: tap });
    const remember = (input: string) =>
      workflow("remember", async (ctx) => {
        const said = await ctx.step("fail", () => fail("step"), { retry: { maxAttempts: 1 } }).catch(texts);
        await ctx.activity(charge, input, { retry: { maxAttempts: 1 } }).catch(() => {});
        await ctx.waitForSignal("go");
        return said;
      });
    const worker = await first.worker({ workflows: [remember(secret("before"))], activities: [charge] });
    const run = await first.start(remember(""), undefined);
    await until(async () => (await run.describe()).waitingFor.some((text) => text.includes("go")), "the wait");
    await worker.stop();
    await first.close();

    const changed = await engines.open({ codec: encrypting, wire: tap });
    const other = await changed.worker({ workflows: [remember(secret("after"))] });
    await changed.run(run.id).signal("go", undefined);
    const blocked = await errorOf(changed.run(run.id).result());
    expect(blocked).toBeInstanceOf(RunBlockedError);
    expect(texts(blocked)).toContain(secret("before"));
    await other.stop();
    await expectSealed(changed, tap);

    // Payloads can be read here, errors can't.
    const forgetful: Codec = {
      encode: encrypting.encode,
      decode(data) {
        const value = encrypting.decode(data);
        if (typeof value === "object" && value !== null && "stack" in value) throw new Error("no key");
        return value;
      },
    };
    const third = await engines.open({ codec: forgetful });
    const blind = await third.worker({ workflows: [remember(secret("before"))] });
    await third.run(run.id).resume();
    const isBlind = ({ status, error }: RunInfo) => status === "blocked" && error?.name === "InvalidInputError";
    await until(async () => isBlind(await third.run(run.id).describe()), "the run to be blocked for want of a key");
    expect(texts(await errorOf(third.run(run.id).result()))).toMatch(/can't be decoded: .*no key/);
    await blind.stop();

    const fourth = await engines.open({ codec: encrypting });
    await fourth.worker({ workflows: [remember(secret("before"))] });
    await fourth.run(run.id).resume();
    await until(async () => (await fourth.run(run.id).describe()).status === "completed", "its end");
    expect(await fourth.run(run.id, remember("")).result()).toContain(secret("step"));
  });

  test("E1 nor is what comes by rarer ways: attempts of runs, refused updates, continued runs, branches, children, transactions", async () => {
    const tap = new Tap();
    const engine = await engines.open({ codec: encrypting, wire: tap });
    const once = { retry: { maxAttempts: 1 } };
    const silent = activity("silent", (_: string, { heartbeat, signal }) => {
      heartbeat(secret("beat"));
      return new Promise<string>((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error(secret("abort")))));
    });
    const retried = workflow({ name: "retried", retry: { maxAttempts: 3, initialInterval: "1h" } }, async () => fail("attempt"));
    const thrower = workflow("thrower", async () => {
      throw secret("no-error");
    });
    const kid = workflow("kid", async (ctx, _word: string) => {
      await ctx.waitForSignal("never");
    });
    const odd = workflow(
      {
        name: "odd",
        signals: { first: signal<string>(), kept: signal<string>(), stop: signal<void>() },
        updates: { strict: update<string, string>(z.string().startsWith("ok", secret("update-schema"))), late: update<string, string>() },
      },
      async (ctx, { round }: { round: number; word: string }): Promise<unknown> => {
        if (round === 1) {
          await ctx.waitForSignal("first");
          return ctx.continueAsNew({ round: 2, word: secret("continued") });
        }
        const seen: string[] = [];
        const note = async (work: () => PromiseLike<unknown>) => {
          try {
            await work();
          } catch (error) {
            seen.push(texts(error));
          }
        };
        await note(() => ctx.join("both", { a: async () => fail("join-a"), b: (c) => c.step("b", () => fail("join-b"), once) }));
        await note(() => ctx.race("any", { a: async () => fail("race") }));
        await ctx.parallel([async () => fail("branch")]);
        await note(() => ctx.activity(silent, secret("silent"), { startToClose: 300, ...TWICE }));
        const handle = await ctx.startChild(kid, secret("kid-input"), { id: `kid of ${ctx.run.id}` });
        await ctx.signalRun(handle.id, "other", secret("signal-run"));
        if (name !== "memory") await note(() => ctx.transaction("tx", () => fail("transaction"), once));
        await ctx.receive(secret("state"), {
          signals: { stop: (_, state) => Receive.stop(state) },
          updates: { strict: (word, state) => Receive.reply(secret(word), state) },
        });
        await note(() => handle.result());
        return seen.join(" ");
      },
    );
    await engine.worker({ workflows: [odd, kid, retried, thrower], activities: [silent] });
    const run = await engine.start(odd, { round: 1, word: secret("first") });
    const waits = (what: string) => until(async () => (await run.describe()).waitingFor.some((text) => text.includes(what)), what);
    await waits("first");
    await run.signal("kept", secret("carried"));
    await run.signal("first", secret("first-signal"));
    await waits("receive");
    expect(await errorOf(run.update("late", secret("late-args"), { acceptWithin: 50 }))).toBeInstanceOf(UpdateRejectedError);
    const refused = engine.run(run.id).update("strict", secret("refused-args"), { idempotencyKey: "s" });
    expect(texts(await errorOf(refused))).toContain(secret("update-schema"));
    const again = await engine.start(retried, undefined);
    await until(async () => (await again.describe()).error?.message === secret("attempt"), "a failed attempt");
    await again.cancel(secret("retry-cancel"));
    expect(texts(await errorOf((await engine.start(thrower, undefined)).result()))).toContain(secret("no-error"));
    await engine.run(`kid of ${run.id}`).terminate(secret("kid-reason"));
    await run.signal("stop");
    const seen = await run.result();
    for (const what of ["join-a", "join-b", "race", "kid-reason"]) expect(seen).toContain(secret(what));
    await expectSealed(engine, tap);
  });

  test("E1 a codec that reads plain values too goes on with runs whose errors and reasons were recorded plain", async () => {
    const lenient: Codec = {
      encode: encrypting.encode,
      decode: (data) => (typeof data === "string" ? jsonCodec.decode(data) : encrypting.decode(data)),
    };
    const both = workflow("both", async (ctx) => {
      const said = await ctx.step("fail", () => fail("step"), { retry: { maxAttempts: 1 } }).catch(texts);
      await ctx.child(child, undefined).catch(() => {});
      await ctx.waitForSignal("go");
      return said;
    });
    const plain = await engines.open();
    const worker = await plain.worker({ workflows: [both, child, patient] });
    const run = await plain.start(both, undefined);
    const [canceled, terminated] = [await plain.start(patient, undefined), await plain.start(patient, undefined)];
    for (const one of [run, canceled, terminated])
      await until(async () => (await one.describe()).waitingFor.some((text) => text.includes("signal")), "the wait");
    const failed = await plain.start(child, undefined);
    await errorOf(failed.result());
    await terminated.terminate("enough");
    await worker.stop();
    await canceled.cancel("because");
    if (name !== "memory") await plain.close();

    const engine = await engines.open({ codec: lenient });
    await engine.worker({ workflows: [both, child, patient] });
    await engine.run(run.id).signal("go");
    expect(await engine.run(run.id).result()).toContain(secret("step"));
    expect(texts(await errorOf(engine.run(failed.id).result()))).toContain(secret("child"));
    expect(await errorOf(engine.run(canceled.id).result())).toMatchObject({ name: "CanceledError", reason: "because" });
    expect(await errorOf(engine.run(terminated.id).result())).toMatchObject({ reason: "enough" });
    expect((await engine.run(run.id).operations()).find(({ kind }) => kind === "step")?.attempts[0]?.error?.message).toBe(secret("step"));
  });

  test("E1 with the default codec errors are stored as they are", async () => {
    const tap = new Tap();
    const engine = await engines.open({ wire: tap });
    await engine.worker({ workflows: [child, patient] });
    const run = await engine.start(child, undefined);
    await errorOf(run.result());
    const unborn = await engine.start(patient, undefined, { delay: "1h" });
    await unborn.cancel("because");
    await engine.close();
    const stored = await dump(name, engines, tap);
    expect(stored).toContain(secret("child"));
    expect(stored).toContain("because");
    expect(stored).not.toContain("sealed");
  });
});
