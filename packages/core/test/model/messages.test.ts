// Job: prove how messages are declared and what types follow from a declaration.
// Owns: signal(), update() and the payload helpers; delivery is proved with the executor and the hosts.
// Invariants: M1, M13 (a schema can be asked), M11 (queries).
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import type { SignalInput, SignalPayload, SignalSpec, UpdateInput, UpdateOutput, UpdateSent, UpdateSpec } from "../../src/model/index.ts";
import { Receive, signal, update, workflow } from "../../src/model/index.ts";
import { issuesOf } from "./issuesOf.ts";

const Item = z.object({ sku: z.string(), quantity: z.coerce.number() });
type Item = { sku: string; quantity: number };

describe("signal and update", () => {
  it("M1 a spec says its kind and nothing else when there is no schema", () => {
    expect(signal()).toStrictEqual({ kind: "signal" });
    expect(update()).toStrictEqual({ kind: "update" });
  });

  it("M1 a spec keeps its schema for the sender and the receiver", () => {
    expect(signal(Item)).toStrictEqual({ kind: "signal", schema: Item });
    expect(update(Item)).toStrictEqual({ kind: "update", schema: Item });
  });

  it("M1 a spec can't be changed once made", () => {
    expect(Object.isFrozen(signal(Item))).toBe(true);
    expect(Object.isFrozen(update())).toBe(true);
  });

  it.each([
    ["null", null],
    ["a plain type description", { sku: "string" }],
    ["a marker without validate", { "~standard": { version: 1, vendor: "x" } }],
    ["a string", "string"],
  ])("M1 refuses %s as a schema", (_, schema) => {
    const refused = [expect.stringMatching(/^schema: must be a Standard Schema/)];
    // @ts-expect-error not a Standard Schema
    expect(issuesOf(() => signal(schema))).toEqual(refused);
    // @ts-expect-error not a Standard Schema
    expect(issuesOf(() => update(schema))).toEqual(refused);
  });

  it("M1 takes a schema that is a function, as ArkType's are", () => {
    const schema = Object.assign(() => {}, {
      "~standard": { version: 1 as const, vendor: "test", validate: (value: unknown) => ({ value }) },
    });
    expect(signal(schema).schema).toBe(schema);
  });

  it("M1 the payload is what the schema gives, and what is sent is what it takes, at compile time", () => {
    expectTypeOf(signal(Item)).toEqualTypeOf<SignalSpec<Item, z.input<typeof Item>>>();
    expectTypeOf<SignalInput<SignalSpec<Item, "sent">>>().toEqualTypeOf<"sent">();
    expectTypeOf<UpdateSent<UpdateSpec<Item, "ok", "sent">>>().toEqualTypeOf<"sent">();
    expectTypeOf<SignalPayload<SignalSpec<Item>>>().toEqualTypeOf<Item>();
    expectTypeOf<UpdateInput<UpdateSpec<Item, "ok">>>().toEqualTypeOf<Item>();
    expectTypeOf<UpdateOutput<UpdateSpec<Item, "ok">>>().toEqualTypeOf<"ok">();
  });

  it("M1 without a schema the payload is void or what the type argument says, at compile time", () => {
    expectTypeOf(signal()).toEqualTypeOf<SignalSpec<void>>();
    expectTypeOf(signal<string>()).toEqualTypeOf<SignalSpec<string>>();
    expectTypeOf(update<Item, "ok">()).toEqualTypeOf<UpdateSpec<Item, "ok">>();
    expectTypeOf(update()).toEqualTypeOf<UpdateSpec<void, void>>();
  });
});

describe("messages inside a workflow", () => {
  it("M4 M5 what waitForSignal and listen give follows from the declaration, at compile time", () => {
    workflow({ name: "typed", signals: { paid: signal<{ amount: number }>(), note: signal<string>(), go: signal() } }, async (ctx) => {
      expectTypeOf(await ctx.waitForSignal("paid")).toEqualTypeOf<{ amount: number }>();
      expectTypeOf(await ctx.waitForSignal("go")).toEqualTypeOf<void>();

      const timed = await ctx.waitForSignal("note", { timeout: "1h" });
      if (timed.timedOut) expectTypeOf(timed.payload).toEqualTypeOf<undefined>();
      else expectTypeOf(timed.payload).toEqualTypeOf<string>();

      const heard = await ctx.listen(["note"], { count: 3 });
      expectTypeOf(heard).toEqualTypeOf<{ name: "note"; payload: string }[]>();

      // @ts-expect-error not declared
      await ctx.waitForSignal("refunded");
      // @ts-expect-error not declared
      await ctx.listen(["note", "refunded"]);
    });
  });

  it("M2 a workflow that declares no messages accepts any signal, untyped, at compile time", () => {
    const open = workflow("open", async (ctx) => {
      expectTypeOf(await ctx.waitForSignal("anything")).toBeAny();
      expectTypeOf(await ctx.listen(["this", "that"])).items.toHaveProperty("payload");
      await ctx.receive(0, {
        signals: {
          whatever: (payload, state) => {
            expectTypeOf(payload).toBeAny();
            return Receive.noreply(state);
          },
        },
        updates: {
          whatever: (input, state) => {
            expectTypeOf(input).toBeAny();
            return Receive.reply("anything", state);
          },
        },
      });
    });
    expectTypeOf<keyof NonNullable<typeof open.options.signals>>().toEqualTypeOf<string>();
  });

  it("M11 query types are those of the functions, at compile time", () => {
    const counter = workflow(
      { name: "counter", queries: { atLeast: (n: number | undefined, args: { min: number }) => (n ?? 0) >= args.min } },
      async () => {},
    );
    type Declared = NonNullable<typeof counter.options.queries>;
    expectTypeOf<Parameters<Declared["atLeast"]>[1]>().toEqualTypeOf<{ min: number }>();
    expectTypeOf<ReturnType<Declared["atLeast"]>>().toEqualTypeOf<boolean>();
  });
});
