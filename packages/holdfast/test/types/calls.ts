// Job: what compiles and what does not, call by call. Nothing here runs: types.test.ts compiles it with every compiler that is supported,
// against the packages as they are packed and against the public surface as it was designed.
// Owns: nothing.
// Invariants: what a caller gives is the input type of a schema, what a workflow gets is its output type; a line under @ts-expect-error
// does not compile.

import type { StandardSchemaV1 } from "@standard-schema/spec";
import {
  type AnyWorkflow,
  activity,
  type ContinueAsNew,
  Holdfast,
  Loop,
  type OperationKind,
  Receive,
  type Run,
  type RunInfo,
  type StartOptions,
  signal,
  update,
  workflow,
} from "holdfast";
import * as v from "valibot";
import { z } from "zod";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
/** Fails to compile unless the two types are the same. */
function same<A, B>(_proof: Equal<A, B>): void {}

declare const engine: Holdfast;

// ── literal unions and tuples ──

interface Payment {
  currency: "eur" | "usd";
  range: [from: number, to: number];
  mode?: "fast" | "slow";
}
const pay = workflow("pay", async (_ctx, input: Payment) => input.currency);

export async function literals(): Promise<void> {
  const run = await engine.start(pay, { currency: "eur", range: [1, 2] });
  same<typeof run, Run<"eur" | "usd">>(true);
  same<Awaited<ReturnType<typeof run.result>>, "eur" | "usd">(true);
  await engine.start(pay, { currency: "usd", range: [1, 2], mode: "fast" }, { id: "p1" });
  await engine.startMany(pay, [{ input: { currency: "eur", range: [1, 2] } }, { input: { currency: "usd", range: [1, 2] }, id: "p2" }]);
  await engine.startMany(
    pay,
    [1, 2].map((n) => ({ input: { currency: "eur" as const, range: [n, n] as [number, number] } })),
  );
  // @ts-expect-error not a currency
  await engine.start(pay, { currency: "gbp", range: [1, 2] });
  // @ts-expect-error one number short
  await engine.start(pay, { currency: "eur", range: [1] });
  // @ts-expect-error not a currency
  await engine.startMany(pay, [{ input: { currency: "gbp", range: [1, 2] } }]);
  // @ts-expect-error the input is missing
  await engine.startMany(pay, [{ id: "p3" }]);
  // @ts-expect-error the input is missing
  await engine.start(pay);
}

const convert = activity("convert", async (args: Payment) => args.currency);
const refresh = activity("refresh", async () => 1);
export const parent = workflow("parent", async (ctx) => {
  const currency = await ctx.child(pay, { currency: "eur", range: [1, 2] });
  same<typeof currency, "eur" | "usd">(true);
  const handle = await ctx.startChild(pay, { currency: "usd", range: [1, 2] }, { id: "c" });
  same<Awaited<ReturnType<typeof handle.result>>, "eur" | "usd">(true);
  await ctx.activity(convert, { currency: "eur", range: [1, 2] }, { queue: "fast" });
  await ctx.activity(refresh);
  await ctx.activity(refresh, undefined, { queue: "fast" });
  await ctx.child(nothing);
  await ctx.child(nothing, undefined, { id: "n" });
  await ctx.startChild(nothing);
  // @ts-expect-error not a currency
  await ctx.child(pay, { currency: "gbp", range: [1, 2] });
  // @ts-expect-error not a currency
  await ctx.startChild(pay, { currency: "gbp", range: [1, 2] });
  // @ts-expect-error not a currency
  await ctx.activity(convert, { currency: "gbp", range: [1, 2] });
  // @ts-expect-error the arguments are missing
  await ctx.activity(convert);
  // @ts-expect-error the input is missing
  await ctx.child(pay);
  // @ts-expect-error no such option
  await ctx.child(pay, { currency: "eur", range: [1, 2] }, { name: "c" });
});

// ── inputs that may be left out ──

const nothing = workflow("nothing", async () => 1);
const optional = workflow("optional", async (_ctx, input: { limit: number } | undefined) => input?.limit);
// biome-ignore lint/suspicious/noExplicitAny: what users write
const anything = workflow("anything", async (_ctx, input: any) => String(input));

export async function leftOut(other: AnyWorkflow): Promise<void> {
  await engine.start(nothing);
  await engine.start(nothing, undefined, { id: "n1" });
  await engine.startMany(nothing, [{}, { id: "n2" }, { input: undefined }]);
  await engine.start(optional);
  await engine.start(optional, { limit: 1 });
  await engine.start(optional, undefined, { queue: "slow" });
  await engine.startMany(optional, [{ input: { limit: 1 } }, { id: "o2" }]);
  await engine.start(anything);
  await engine.start(anything, { a: [1] }, { id: "a1" });
  await engine.start(other, { a: [1] }, { id: "a2" });
  await engine.start("by-name");
  const named = await engine.start("by-name", { whatever: true }, { id: "b1", signals: [{ name: "go", payload: 1 }, { name: "stop" }] });
  same<typeof named, Run<unknown>>(true);
  // @ts-expect-error it takes no input
  await engine.start(nothing, { a: 1 });
  // @ts-expect-error not what it takes
  await engine.start(optional, { limit: "1" });
  // @ts-expect-error no such option
  await engine.start(nothing, undefined, { identity: "n1" });
}

// ── schemas ──

/** Takes text, gives a number: a schema by hand. */
declare const numeric: StandardSchemaV1<string, number>;

const Order = z.object({ currency: z.enum(["eur", "usd"]), amount: z.coerce.number<string>(), note: z.string().default("") });
const Ticket = v.object({ kind: v.picklist(["bug", "wish"]), votes: v.optional(v.number(), 0) });
const Page = z.object({ size: z.number().default(10) }).optional();

const orders = workflow(
  {
    name: "orders",
    input: Order,
    output: z.object({ total: z.number() }),
    signals: { price: signal(numeric), note: signal(z.string().default("none")), close: signal() },
    updates: {
      raise: update<number, "ok" | "no", string>(numeric),
      add: update<z.output<typeof Order>, number, z.input<typeof Order>>(Order),
      ping: update<void, string>(),
    },
    queries: {
      total: (state: { total: number } | undefined) => state?.total,
      above: (state: { total: number } | undefined, limit: number) => (state?.total ?? 0) > limit,
      near: (state: { total: number } | undefined, limit?: number) => (state?.total ?? 0) > (limit ?? 0),
    },
  },
  async (ctx, input) => {
    same<typeof input, { currency: "eur" | "usd"; amount: number; note: string }>(true);
    const price = await ctx.waitForSignal("price");
    same<typeof price, number>(true);
    const note = await ctx.waitForSignal("note", { timeout: "1m" });
    if (!note.timedOut) same<typeof note.payload, string>(true);
    const heard = await ctx.listen(["price", "note"]);
    same<(typeof heard)[number], { name: "price" | "note"; payload: string | number }>(true);
    await ctx.receive(0, {
      signals: {
        price: (payload, state) => {
          same<typeof payload, number>(true);
          return Receive.noreply(state + payload);
        },
      },
      updates: {
        raise: (by, state) => {
          same<typeof by, number>(true);
          return Receive.reply("ok", state + by);
        },
        add: { validate: (item) => same<typeof item.amount, number>(true), handle: (item, state) => Receive.stop(item.amount, state) },
        ping: (_nothing, state) => Receive.reply("pong", state),
      },
    });
    // @ts-expect-error no such signal
    await ctx.waitForSignal("prices");
    // @ts-expect-error no such signal
    await ctx.listen(["price", "prices"]);
    // @ts-expect-error the reply is "ok" or "no"
    await ctx.receive(0, { updates: { raise: (_by, state) => Receive.reply("yes", state) } });
    // @ts-expect-error what continues is what the workflow gets
    if (note.timedOut) return ctx.continueAsNew({ currency: "eur", amount: "1" });
    if (price > 1) return ctx.continueAsNew({ ...input, note: "again" });
    return { total: 1 };
  },
);

const tickets = workflow({ name: "tickets", input: Ticket }, async (_ctx, input) => {
  same<typeof input, { kind: "bug" | "wish"; votes: number }>(true);
  return input.votes;
});
const pages = workflow({ name: "pages", input: Page }, async (_ctx, input) => input?.size);
const texts = workflow({ name: "texts", input: numeric }, async (_ctx, input) => {
  same<typeof input, number>(true);
  return input;
});
const listed = workflow({ name: "listed", input: z.tuple([z.enum(["a", "b"]), z.number()]) }, async (_ctx, [letter]) => letter);

export async function schemas(): Promise<void> {
  const run = await engine.start(orders, { currency: "eur", amount: "12" });
  same<Awaited<ReturnType<typeof run.result>>, { total: number }>(true);
  await engine.start(tickets, { kind: "bug" });
  await engine.start(tickets, { kind: "wish", votes: 3 });
  await engine.startMany(tickets, [{ input: { kind: "bug" } }]);
  await engine.start(pages);
  await engine.start(pages, {});
  await engine.start(texts, "12");
  await engine.start(listed, ["a", 1]);
  // @ts-expect-error the schema takes text
  await engine.start(orders, { currency: "eur", amount: 12 });
  // @ts-expect-error not a kind
  await engine.start(tickets, { kind: "question" });
  // @ts-expect-error the schema takes text
  await engine.start(texts, 12);
  // @ts-expect-error not a letter
  await engine.start(listed, ["c", 1]);
}
export const schemasOfChildren = workflow("schemas-of-children", async (ctx) => {
  await ctx.child(orders, { currency: "eur", amount: "12" });
  await ctx.startChild(texts, "12");
  await ctx.child(pages);
  // @ts-expect-error the schema takes text
  await ctx.child(texts, 12);
});

// ── messages ──

export async function messages(): Promise<void> {
  const run = engine.run("o1", orders);
  await run.signal("price", "12");
  await run.signal("note");
  await run.signal("note", "hello", { idempotencyKey: "k" });
  await run.signal("close");
  await run.signal("close", undefined, { idempotencyKey: "k" });
  same<Awaited<ReturnType<typeof run.update<"raise">>>, "ok" | "no">(true);
  await run.update("raise", "12", { timeout: "1s", idempotencyKey: "k" });
  await run.update("add", { currency: "usd", amount: "1" });
  const pong = await run.update("ping");
  same<typeof pong, string>(true);
  // @ts-expect-error no such signal
  await run.signal("prices", "12");
  // @ts-expect-error the schema takes text
  await run.signal("price", 12);
  // @ts-expect-error the payload is missing
  await run.signal("price");
  // @ts-expect-error it takes no payload
  await run.signal("close", 1);
  // @ts-expect-error no such update
  await run.update("rise", "12");
  // @ts-expect-error the schema takes text
  await run.update("raise", 12);
  // @ts-expect-error an update can't be sent in a transaction
  await run.update("raise", "12", { tx: {} });
}

/** A workflow that declares none accepts any; a handle without a workflow too. */
export async function undeclared(): Promise<void> {
  const run = await engine.start(nothing);
  await run.signal("go");
  await run.signal("go", { any: "thing" });
  await run.update("do", 1);
  await run.query("what", { any: "thing" });
  const found = engine.run("r1");
  same<typeof found, Run<unknown>>(true);
  await found.signal("go", 1);
  await found.update("do");
  await found.query("what");
}

export async function queries(): Promise<void> {
  const run = engine.run("o1", orders);
  const total = await run.query("total");
  same<typeof total, number | undefined>(true);
  const above = await run.query("above", 10);
  same<typeof above, boolean>(true);
  await run.query("near");
  await run.query("near", 10);
  // @ts-expect-error it needs its argument
  await run.query("above");
  // @ts-expect-error not a number
  await run.query("above", "10");
  // @ts-expect-error it takes none
  await run.query("total", 1);
  // @ts-expect-error no such query
  await run.query("totals");
}

export async function startSignals(): Promise<void> {
  const input = { currency: "eur", amount: "1" } as const;
  await engine.start(orders, input, { signals: [{ name: "price", payload: "1" }, { name: "note" }, { name: "close" }] });
  await engine.startMany(orders, [{ input, signals: [{ name: "price", payload: "1" }] }]);
  await engine.updateWithStart(orders, input, { name: "raise", input: "1" }, { signals: [{ name: "close" }], id: "o1" });
  const options: StartOptions = { signals: [{ name: "whatever", payload: 1 }] };
  await engine.start("orders", input, options);
  // @ts-expect-error no such signal
  await engine.start(orders, input, { signals: [{ name: "prices", payload: "1" }] });
  // @ts-expect-error the schema takes text
  await engine.start(orders, input, { signals: [{ name: "price", payload: 1 }] });
  // @ts-expect-error the payload is missing
  await engine.start(orders, input, { signals: [{ name: "price" }] });
  // @ts-expect-error no such signal
  await engine.startMany(orders, [{ input, signals: [{ name: "prices", payload: "1" }] }]);
}

export async function updateWithStart(): Promise<void> {
  const literal = workflow(
    { name: "literal", updates: { set: update<"on" | "off", "done">(), ping: update<void, string>() } },
    async (ctx, _input: { color: "red" | "blue" }) => void (await ctx.receive(0, {})),
  );
  const { run, result } = await engine.updateWithStart(literal, { color: "red" }, { name: "set", input: "on", timeout: "5s" });
  same<typeof result, "done">(true);
  await run.update("set", "off");
  await engine.updateWithStart(orders, { currency: "eur", amount: "1" }, { name: "add", input: { currency: "usd", amount: "2" } });
  await engine.updateWithStart(literal, { color: "red" }, { name: "ping", input: undefined });
  // @ts-expect-error not a color
  await engine.updateWithStart(literal, { color: "green" }, { name: "set", input: "on" });
  // @ts-expect-error neither on nor off
  await engine.updateWithStart(literal, { color: "red" }, { name: "set", input: "up" });
  // @ts-expect-error no such update
  await engine.updateWithStart(literal, { color: "red" }, { name: "sett", input: "on" });
  // @ts-expect-error an update can't be sent in a transaction
  await engine.updateWithStart(literal, { color: "red" }, { name: "set", input: "on" }, { tx: {} });
}

// ── inside a workflow ──

export const loops = workflow("loops", async (ctx, input: { many: boolean }) => {
  const either = await ctx.loop({ name: "either", state: { n: 0 } }, async (own, { n }) => {
    if (n > 10) return Loop.break({ found: n });
    if (own.random() > 0.5) return Loop.break("gave up" as const);
    return Loop.continue({ n: n + 1 });
  });
  same<typeof either, { found: number } | "gave up">(true);
  const one = await ctx.loop("one", async (own) => {
    await own.sleep("1s");
    if (input.many) return Loop.break(1);
    return Loop.continue();
  });
  same<typeof one, number>(true);
  const bare = await ctx.loop("bare", async (own) => {
    await own.sleep("1s");
    return input.many ? Loop.break() : undefined;
  });
  same<typeof bare, void>(true);
  const never = await ctx.loop("never", async (own) => void (await own.sleep("1s")));
  same<typeof never, never>(true);
  // @ts-expect-error the state is a number
  await ctx.loop({ name: "wrong", state: 1 }, async () => Loop.continue("one"));
  // @ts-expect-error neither continue nor break
  await ctx.loop({ name: "wrong", state: 1 }, async () => 1);
});

export const kinds: OperationKind[] = [
  ...(["step", "transaction", "activity", "child", "signalRun", "cancelRun", "sleep", "signal", "condition", "ivar", "parallel"] as const),
  ...(["join", "race", "loop", "try", "shield", "receive", "sideEffect", "patch", "rollbackCheckpoint", "attributes"] as const),
];
export const changes = workflow("changes", async (ctx) => {
  ctx.removed("ready", "condition");
  ctx.removed("notify", "signalRun");
  // @ts-expect-error no such kind
  ctx.removed("ready", "wait");
  const outcome = await ctx.try("risky", async () => 1);
  if (outcome.ok) same<typeof outcome.value, number>(true);
  const race = await ctx.race("first", { a: async () => 1, b: async () => "two" });
  same<typeof race, { winner: "a"; value: number } | { winner: "b"; value: string }>(true);
});

export const continued = workflow("continued", async (ctx, input: { n: number }) => {
  if (input.n > 0) return ctx.continueAsNew({ n: input.n - 1 });
  return "done" as const;
});
export async function ends(): Promise<void> {
  same<Awaited<ReturnType<Run<"done">["result"]>>, "done">(true);
  const result = await (await engine.start(continued, { n: 3 })).result({ timeout: "1s" });
  same<typeof result, "done">(true);
  same<Extract<typeof result, ContinueAsNew>, never>(true);
  const info: RunInfo = await engine.run("r").describe();
  const operations = await engine.run("r").operations();
  const child: string | undefined = operations[0]?.childId;
  for (const text of [...info.waitingFor, child ?? ""]) await engine.run(text).cancel();
}

// ── helpers that users write ──

/** Starts any workflow whose input is what is given. */
export async function startAll<In, O>(it: ReturnType<typeof workflow<In, O>>, inputs: readonly In[]): Promise<void> {
  for (const input of inputs) await engine.start(it as AnyWorkflow, input);
}
export async function open(): Promise<void> {
  await using one: AsyncDisposable = await Holdfast.open("memory:");
  await using _worker: AsyncDisposable = await engine.worker({
    workflows: [orders, tickets, pay, nothing],
    activities: [convert, refresh],
  });
  void one;
}
