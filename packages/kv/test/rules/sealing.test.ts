// Job: prove that with a codec of the user's nothing that an error or a reason says is stored as plain text.
// Owns: nothing.
// Invariants: E1; everything that was ever handed to a driver is looked at.

import { randomBytes } from "node:crypto";
import { activity, type Codec, FatalError, jsonCodec, Receive, replay, signal, update, workflow } from "@holdfast/core";
import type { KvWrite } from "@holdfast/kv";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { KvHost } from "../host.ts";

const SECRET = "s3cret";
const secret = (what: string) => `${SECRET}-${what}`;

/** Encrypts badly, but as encryption does: twice the same value is never twice the same bytes. */
const encrypting: Codec = {
  encode(value) {
    const nonce = randomBytes(8);
    const text = new TextEncoder().encode(jsonCodec.encode(value) as string);
    return new Uint8Array([...nonce, ...text.map((byte, i) => byte ^ (nonce[i % 8] ?? 0) ^ 0x5a)]);
  },
  decode(data) {
    const bytes = data as Uint8Array;
    return jsonCodec.decode(bytes.slice(8).map((byte, i) => byte ^ (bytes[i % 8] ?? 0) ^ 0x5a));
  },
};

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

function tapped(codec: Codec | undefined): { host: KvHost; stored: () => string } {
  const host = new KvHost({ activities: [charge], ...(codec !== undefined && { codec }) });
  const all: string[] = [];
  host.process.onBatch = (when, writes: readonly KvWrite[]) => {
    if (when === "before") for (const write of writes) if (write.type === "set") all.push(Buffer.from(write.value).toString("latin1"));
  };
  return { host, stored: () => all.join("\n") };
}

describe("errors under a codec of the user's", () => {
  test("E1 no message, stack, cause, data, reason, payload, state or heartbeat is stored as plain text, and all of it comes back", async () => {
    const { host, stored } = tapped(encrypting);
    host.teach(child);
    const run = await host.start(main, secret("input"), { id: "main" });
    await host.skip("1m");
    await run.signal("hurt", secret("payload"));
    await expect(run.update("charge", secret("update-input"))).rejects.toMatchObject({ cause: { message: secret("update") } });
    await expect(run.update("refuse", "")).rejects.toThrow(secret("validator"));
    // Its sender knows no schema: what the receiver's says of it is recorded.
    const unknowing = workflow({ name: "main", signals: { go: signal<unknown>() } }, async () => {});
    const sender = host.run(unknowing, "main");
    host.run(main, "main");
    await sender.signal("go", { word: secret("refused") });
    await run.signal("go", { word: "go" });
    const seen = (await run.result()) as string[];
    for (const what of ["input", "step", "step-cause", "activity", "child", "effect"]) expect(seen.join()).toContain(secret(what));

    const failed = await host.start(doomed, undefined, { id: "doomed" });
    await expect(failed.result()).rejects.toMatchObject({
      cause: { message: expect.stringContaining(secret("run")) },
    });

    const canceled = await host.start(patient, undefined, { id: "canceled" });
    await canceled.cancel(secret("cancel"));
    await expect(canceled.result()).rejects.toMatchObject({ reason: secret("cancel") });
    const terminated = await host.start(patient, undefined, { id: "terminated" });
    await terminated.terminate(secret("terminate"));
    await expect(terminated.result()).rejects.toThrow(secret("terminate"));

    const histories = await Promise.all([run, failed, canceled].map((one) => one.history()));
    expect(stored()).not.toContain(SECRET);
    expect(JSON.stringify(histories)).not.toContain(SECRET);
    expect(stored()).toContain("CARD_DECLINED"); // names and codes stay readable
    for (const [i, of] of [main, doomed, patient].entries()) await replay(of, histories[i] as never, { codec: encrypting });
    await host.crash(); // what another process reads is as it was
    await expect(failed.result()).rejects.toThrow(secret("run"));
  });

  test("E1 V4 why a run is blocked is sealed; a run whose errors can't be opened is blocked, and goes on when they can", async () => {
    let isLocked = false;
    const locking: Codec = {
      encode: (value) => encrypting.encode(value),
      decode(data) {
        if (isLocked) throw new Error("The key is not there.");
        return encrypting.decode(data);
      },
    };
    const { host, stored } = tapped(locking);
    const w = workflow({ name: "w", signals: { go: signal() } }, async (ctx) => {
      const said = await ctx.step("pay", () => fail("step"), { retry: { maxAttempts: 1 } }).catch((error: Error) => texts(error));
      await ctx.waitForSignal("go");
      return said;
    });
    const run = await host.start(w);
    await host.crash();
    isLocked = true;
    await host.handle("run").signal("go" as never);
    await host.settle();
    isLocked = false;
    expect(await run.status()).toBe("blocked");
    await host.skip("1m");
    expect(await run.result()).toContain(secret("step-cause"));
    expect(stored()).not.toContain(SECRET);
  });

  test("E1 with the default codec errors are stored as they are", async () => {
    const { host, stored } = tapped(undefined);
    const run = await host.start(doomed);
    await expect(run.result()).rejects.toThrow(secret("run"));
    expect(stored()).toContain(secret("run"));
    expect(stored()).not.toContain("sealed");
  });
});
