// Together with Temporal's TypeScript SDK: its workers, its workflows, its client, its payload codecs.
// Owns: one process with a worker of that SDK.
// Invariants: what is plain JSON is plain to others; failures keep their names and causes; what others send is understood.

import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { jsonCodec } from "@holdfast/core";
import { Client, Connection, WithStartWorkflowOperation, type WorkflowFailedError } from "@temporalio/client";
import { activity, type Codec, Receive, type Run, signal, update, workflow } from "holdfast";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { PayloadCodec } from "../../src/payloadCodecs.ts";
import type { TemporalPayload } from "../../src/payloads.ts";
import { encodingOf } from "../../src/payloads.ts";
import { engines, LONG, newQueue } from "./engines.ts";

const SOON = { timeout: 60_000, interval: 50 };
const theirs = newQueue();
const elsewhere = { queue: theirs, startToClose: "1m" } as const;
const greet = activity<{ name: string; times?: number }, { text: string; times: number }>("greet", () => ({ text: "", times: 0 }));
const bytes = activity<Uint8Array, Uint8Array>("bytes", (data) => data);
const nothing = activity<void, unknown>("nothing", () => {});
const breaks = activity("breaks", () => {});
/** Ours, for their workflows. */
const shout = activity("shout", (text: string, { attempt }) => {
  if (attempt < 3) throw new Error("not yet");
  return `${text.toUpperCase()} at attempt ${attempt}`;
});

const caller = workflow("caller", async (ctx) => {
  const greeting = await ctx.activity(greet, { name: "Ada", times: 2 }, elsewhere);
  const changed = await ctx.activity(bytes, Uint8Array.of(1, 2, 3), elsewhere);
  const none = await ctx.activity(nothing, undefined, elsewhere);
  const broken = await ctx.try("broken", (unit) => unit.activity(breaks, undefined, elsewhere));
  if (broken.ok) throw new Error("It should have failed.");
  const { name, cause } = broken.error;
  const inner = cause as Error & { readonly data?: unknown };
  return { greeting, changed, none, error: { name, cause: inner.name, message: inner.message, inner: (inner.cause as Error).message } };
});
class CardError extends Error {
  override readonly name = "CardError";
  readonly card = 4711;
}
const charges = workflow<{ amount: number }, { paid: number }>("charges", async (ctx, { amount }) => {
  if (amount < 0)
    await ctx.step("charge", () => Promise.reject(new CardError("declined", { cause: new RangeError("negative") })), {
      retry: { maxAttempts: 1 },
    });
  return { paid: await ctx.step("charge", () => amount) };
});
const counter = workflow(
  {
    name: "counter",
    signals: { add: signal<number>(), end: signal() },
    updates: { times: update<number, number>(), fails: update<number, number>() },
    queries: { total: (sum: number) => ({ total: sum }), plus: (sum: number, n: number) => sum + n },
  },
  async (ctx, first: number) => {
    ctx.publishState(first);
    const { state } = await ctx.receive(first ?? 0, {
      signals: {
        add: (n, sum, handler) => {
          handler.publishState(sum + n);
          return Receive.noreply(sum + n);
        },
        end: (_, sum) => Receive.stop(sum),
      },
      updates: {
        times: {
          validate: (n) => {
            if (n === 0) throw new RangeError("zero");
          },
          handle: async (n, sum, handler) => {
            const product = await handler.step("times", () => n * sum);
            handler.publishState(product);
            return Receive.reply(product, product);
          },
        },
        fails: () => {
          throw new CardError("declined");
        },
      },
    });
    ctx.setAttributes({ team: "blue" });
    return { state };
  },
);

describe("with Temporal's TypeScript SDK", () => {
  const on = engines({ searchAttributes: { team: "Keyword", size: "Int" } });
  const queue = newQueue();
  let official: ChildProcess | undefined;
  let connection: Connection | undefined;
  let client: Client | undefined;
  const theirClient = (): Client => {
    if (client === undefined) throw new Error("The client is not connected.");
    return client;
  };
  beforeAll(async () => {
    const { address, namespace } = on.server;
    official = fork(join(import.meta.dirname, "processes/official.mjs"), [address, namespace, theirs], { execArgv: [] });
    const ready = once(official, "message");
    connection = await Connection.connect({ address });
    client = new Client({ connection, namespace });
    const holdfast = await on.open(queue);
    await holdfast.worker({ workflows: [caller, charges, counter], activities: [shout] });
    await ready;
  }, LONG);
  afterAll(async () => {
    if (official?.connected === true) {
      const gone = once(official, "exit");
      official.send("stop");
      await gone;
    }
    await connection?.close();
  }, LONG);
  const id = () => `interop-${randomUUID()}`;
  const theirStart = (type: string, taskQueue: string, arg?: unknown, workflowId = id()) =>
    theirClient().workflow.start(type, { taskQueue, workflowId, args: arg === undefined ? [] : [arg] });

  test(
    "our workflow calls activities of their worker: values and failures",
    async () => {
      const holdfast = await on.open(queue);
      const run = await holdfast.start(caller);
      expect(await run.result()).toEqual({
        greeting: { text: "Hello, Ada", times: 2 },
        changed: Uint8Array.of(2, 3, 4),
        none: undefined,
        error: { name: "ActivityFailedError", cause: "Broken", message: "it broke", inner: "too far" },
      });
      const scheduled = (await on.events(run.id)).flatMap(({ activityTaskScheduledEventAttributes: one }) => one ?? []);
      expect(scheduled.map(({ input }) => encodingOf(input?.payloads?.[0] ?? {}))).toEqual([
        "json/plain",
        "binary/plain",
        "binary/null",
        "binary/null",
      ]);
      expect(Buffer.from(scheduled[0]?.input?.payloads?.[0]?.data ?? []).toString()).toBe('{"name":"Ada","times":2}');
    },
    LONG,
  );

  test(
    "their workflow starts ours as a child: result, and the failure with its causes",
    async () => {
      const good = await theirStart("parent", theirs, { type: "charges", taskQueue: queue, workflowId: id(), input: { amount: 7 } });
      expect(await good.result()).toEqual({ result: { paid: 7 } });
      const bad = await theirStart("parent", theirs, { type: "charges", taskQueue: queue, workflowId: id(), input: { amount: -1 } });
      const { chain } = (await bad.result()) as { chain: { name: string; type?: string; message: string; details?: unknown[] }[] };
      expect(chain.map(({ name, type }) => type ?? name)).toEqual(["ChildWorkflowFailure", "StepFailedError", "CardError", "RangeError"]);
      expect(chain[2]).toMatchObject({ message: "declined", details: [{ card: 4711 }] });
      expect(chain[3]).toMatchObject({ message: "negative" });
    },
    LONG,
  );

  test(
    "their workflow signals ours, and calls activities of ours",
    async () => {
      const run = await theirStart("signaling", theirs, { type: "counter", taskQueue: queue, workflowId: id() });
      expect(await run.result()).toEqual({ state: 11 });
      const call = await theirStart("calling", theirs, { taskQueue: queue, input: "hey" });
      expect(await call.result()).toBe("HEY at attempt 3");
    },
    LONG,
  );

  test(
    "their client starts, signals, updates and queries our workflow, and reads its end",
    async () => {
      const handle = await theirStart("counter", queue, 2);
      await handle.signal("add", 3);
      expect(await handle.executeUpdate("times", { args: [4] })).toBe(20);
      await expect(handle.executeUpdate("times", { args: [0] })).rejects.toMatchObject({
        name: "WorkflowUpdateFailedError",
        cause: { type: "UpdateRejectedError", message: expect.stringContaining("zero") },
      });
      await expect(handle.executeUpdate("fails", { args: [1] })).rejects.toMatchObject({
        cause: { type: "CardError", message: "declined" },
      });
      expect(await handle.query("total")).toEqual({ total: 20 });
      expect(await handle.query("plus", 2)).toBe(22);
      await expect(handle.query("unknown")).rejects.toThrow(/unknown/);
      expect(await handle.query<string>("__stack_trace")).toContain("receive");
      const metadata = await handle.query<{ definition: { type: string; signalDefinitions: { name: string }[] } }>(
        "__temporal_workflow_metadata",
      );
      expect(metadata.definition).toMatchObject({ type: "counter", signalDefinitions: [{ name: "add" }, { name: "end" }] });
      await handle.signal("end");
      expect(await handle.result()).toEqual({ state: 20 });
      expect(await handle.query("total")).toEqual({ total: 20 });
      const completed = (await on.events(handle.workflowId)).at(-1)?.workflowExecutionCompletedEventAttributes;
      expect(encodingOf(completed?.result?.payloads?.[0] ?? {})).toBe("json/plain");

      const failed = await theirStart("charges", queue, { amount: -1 });
      const error = (await failed.result().catch((caught: unknown) => caught)) as WorkflowFailedError;
      expect(error.cause).toMatchObject({
        type: "StepFailedError",
        cause: { type: "CardError", details: [{ card: 4711 }], cause: { message: "negative" } },
      });
    },
    LONG,
  );

  test(
    "their client starts with a signal, and with an update; it cancels and terminates",
    async () => {
      const { workflow: workflows } = theirClient();
      const started = await workflows.signalWithStart("counter", {
        taskQueue: queue,
        workflowId: id(),
        args: [1],
        signal: "add",
        signalArgs: [9],
      });
      expect(await started.executeUpdate("times", { args: [2] })).toBe(20);
      const withStart = new WithStartWorkflowOperation("counter", {
        taskQueue: queue,
        workflowId: id(),
        args: [5],
        workflowIdConflictPolicy: "FAIL",
      });
      expect(await workflows.executeUpdateWithStart("times", { args: [3], startWorkflowOperation: withStart })).toBe(15);
      await started.cancel();
      await expect(started.result()).rejects.toMatchObject({ cause: { name: "CancelledFailure" } });
      const holdfast = await on.open(queue);
      expect(await holdfast.run(started.workflowId).describe()).toMatchObject({ status: "canceled" });
      const second = await withStart.workflowHandle();
      await second.terminate("enough");
      await expect(holdfast.run(second.workflowId).result()).rejects.toMatchObject({ code: "HF_RUN_TERMINATED" });
    },
    LONG,
  );

  test(
    "search attributes, memo and summaries are there for their tools",
    async () => {
      const holdfast = await on.open(queue);
      const run = await holdfast.start(counter, 3, { id: id(), attributes: { team: "red", size: 4, note: "not registered" } });
      const handle = theirClient().workflow.getHandle(run.id);
      await vi.waitFor(async () => expect((await handle.describe()).memo).toMatchObject({ "holdfast.state": 3 }), SOON);
      const described = await handle.describe();
      expect(described.memo).toMatchObject({ "holdfast.attributes": { team: "red", size: 4, note: "not registered" } });
      expect(described.searchAttributes).toMatchObject({ team: ["red"], size: [4] });
      await run.signal("end");
      await run.result();
      expect((await handle.describe()).searchAttributes).toMatchObject({ team: ["blue"] });
      await vi.waitFor(async () => {
        const found: string[] = [];
        for await (const info of theirClient().workflow.list({ query: `team = "blue" AND size = 4` })) found.push(info.workflowId);
        expect(found).toContain(run.id);
        expect((await holdfast.list({ attributes: { team: "blue" }, workflow: "counter" })).runs.map((one) => one.id)).toContain(run.id);
      }, SOON);
    },
    LONG,
  );

  // ── payload codecs ──

  const SECRET = "the secret of the sphinx";
  const hidden: PayloadCodec = {
    encode: async (payloads) => payloads.map((payload) => ({ metadata: { encoding: Buffer.from("binary/hidden") }, data: hide(payload) })),
    decode: async (payloads) => payloads.map((payload) => (encodingOf(payload) === "binary/hidden" ? show(payload) : payload)),
  };
  function hide(payload: TemporalPayload): Uint8Array {
    const text = JSON.stringify([
      Buffer.from(payload.metadata?.["encoding"] ?? []).toString("base64"),
      Buffer.from(payload.data ?? []).toString("base64"),
    ]);
    return Buffer.from(text).map((byte) => byte ^ 0x5a);
  }
  function show({ data }: TemporalPayload): TemporalPayload {
    const [encoding, value] = JSON.parse(
      Buffer.from(data ?? [])
        .map((byte) => byte ^ 0x5a)
        .toString(),
    ) as [string, string];
    return { metadata: { encoding: Buffer.from(encoding, "base64") }, data: Buffer.from(value, "base64") };
  }

  test(
    "a payload codec of theirs: both read what the other has written, and the server sees nothing of it",
    async () => {
      const coded = newQueue();
      const keeper = workflow(
        {
          name: "keeper",
          signals: { tell: signal<string>(), end: signal() },
          updates: { ask: update<string, string>() },
          queries: { last: (told: string[]) => told.at(-1) },
        },
        async (ctx, told: string[]) => {
          const { state } = await ctx.receive(told, {
            signals: {
              tell: (text, all, handler) => {
                handler.publishState([...all, text]);
                return Receive.noreply([...all, text]);
              },
              end: (_, all) => Receive.stop(all),
            },
            updates: {
              ask: async (text, all, handler) => Receive.reply(await handler.step("ask", () => `${text}?`), [...all, text]),
            },
          });
          if (state.length < 6) return ctx.continueAsNew([...state, await ctx.sideEffect(() => SECRET)]);
          const failed = await ctx.try("failed", (unit) =>
            unit.step("fails", () => Promise.reject(Object.assign(new Error("no"), { text: SECRET })), { retry: { maxAttempts: 1 } }),
          );
          return failed.ok ? [] : state;
        },
      );
      const holdfast = await on.open(coded, { temporal: { payloadCodecs: [hidden] } });
      await holdfast.worker({ workflows: [keeper] });
      const run = await holdfast.start(keeper, [SECRET], { id: id(), signals: [{ name: "tell", payload: SECRET }] });
      const { address, namespace } = on.server;
      if (connection === undefined) throw new Error(`There is no connection to ${address}.`);
      const codedClient = new Client({ connection, namespace, dataConverter: { payloadCodecs: [hidden as never] } });
      const handle = codedClient.workflow.getHandle(run.id);
      expect(await handle.executeUpdate("ask", { args: [SECRET] })).toBe(`${SECRET}?`);
      await handle.signal("tell", SECRET);
      expect(await handle.query("last")).toBe(SECRET);
      expect(await holdfast.run(run.id, keeper).query("last")).toBe(SECRET);
      const first = await on.events(run.id);
      await run.signal("end");
      await vi.waitFor(async () => expect((await run.describe()).execution).toBe(2), SOON);
      await run.signal("tell", SECRET);
      await run.signal("end");
      expect(await handle.result()).toEqual(Array.from({ length: 6 }, () => SECRET));
      expect(await run.result()).toEqual(Array.from({ length: 6 }, () => SECRET));
      const described = await on.raw.service.describeWorkflowExecution({ namespace, execution: { workflowId: run.id } });
      for (const seen of [first, await on.events(run.id), described]) expect(plainText(seen)).not.toContain(SECRET);
      await replayed(run);
    },
    LONG,
  );
  test(
    "E1 a codec of the engine: the server sees nothing of values and errors, also of those that move to the next execution",
    async () => {
      const codec: Codec = {
        encode: (value) => Buffer.from(jsonCodec.encode(value)).map((byte) => byte ^ 0x5a),
        decode: (data) =>
          jsonCodec.decode(
            Buffer.from(data as Uint8Array)
              .map((byte) => byte ^ 0x5a)
              .toString(),
          ),
      };
      const vault = workflow(
        {
          name: "vault",
          signals: { later: signal<string>(), end: signal() },
          updates: { fails: update<string, string>(), keeps: update<string, string>() },
        },
        async (ctx, n: number) => {
          await ctx.receive(0, {
            signals: { end: () => Receive.stop(0) },
            updates: {
              fails: (text) => {
                throw new Error(`${text} was refused`);
              },
              keeps: (text) => Receive.reply(text, 0),
            },
          });
          return n === 0 ? ctx.continueAsNew(1) : ctx.waitForSignal("later");
        },
      );
      const holdfast = await on.open(newQueue(), { codec });
      await holdfast.worker({ workflows: [vault] });
      const run = await holdfast.start(vault, 0, { id: id(), signals: [{ name: "later", payload: SECRET }] });
      const ask = async (): Promise<void> => {
        expect(await run.update("keeps", SECRET, { idempotencyKey: "keeps" })).toBe(SECRET);
        await expect(run.update("fails", SECRET, { idempotencyKey: "fails" })).rejects.toThrow(`${SECRET} was refused`);
      };
      await ask();
      const first = await on.events(run.id);
      await run.signal("end");
      await vi.waitFor(async () => expect(await run.describe()).toMatchObject({ execution: 2, status: "sleeping" }), SOON);
      await ask();
      await run.signal("end");
      expect(await run.result()).toBe(SECRET);
      for (const seen of [first, await on.events(run.id)]) expect(plainText(seen)).not.toContain(SECRET);
    },
    LONG,
  );
  /** Every byte that the server has, as text. */
  const plainText = (value: unknown): string => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString();
    if (typeof value !== "object" || value === null) return String(value);
    return Object.values(value).map(plainText).join("\n");
  };
  const replayed = async (run: Run<unknown>) => expect((await run.history()).format).toBe("temporal-history/1");
});
