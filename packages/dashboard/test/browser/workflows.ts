// Workflows for the tests in a browser. What they wait for is in the hands of the test.

import { FatalError, Loop, signal, update, workflow } from "holdfast";

/** Three attempts, of which two fail; a branch that fails; a wait for a signal. */
export const order = workflow(
  {
    name: "order",
    signals: { approve: signal<{ by: string }>() },
    updates: { rename: update<{ to: string }, string>() },
    queries: { status: (state: { stage: string } | undefined) => state?.stage ?? "new" },
  },
  async (ctx, input: { id: string }) => {
    ctx.publishState({ stage: "charging", id: input.id });
    await ctx.step(
      "charge",
      ({ attempt }) => {
        if (attempt < 3) throw new Error(`card declined ${attempt}`);
        return { receipt: `r-${input.id}` };
      },
      { retry: { initialInterval: "20ms", jitter: 0 } },
    );
    ctx.publishState({ stage: "waiting", id: input.id, paid: true });
    const { by } = await ctx.waitForSignal("approve");
    await ctx.join("ship", {
      books: (branch) => branch.step("parcel", () => "books sent"),
      lamp: (branch) => branch.step("parcel", () => "lamp sent"),
    });
    ctx.publishState({ stage: "done", id: input.id, paid: true, by });
    return { by, secret: "the-output" };
  },
);

/** A schema as libraries make them: it checks, and says what it checks as JSON Schema. */
function schema<T>(json: Record<string, unknown>, problemOf: (value: T) => string | undefined) {
  const validate = (value: unknown) => {
    const message = problemOf(value as T);
    return message === undefined ? { value: value as T } : { issues: [{ message, path: ["plan"] }] };
  };
  return { "~standard": { version: 1 as const, vendor: "test", validate, jsonSchema: { input: () => json, output: () => json } } };
}
interface Subscription {
  readonly plan: string;
  readonly seats?: number;
  readonly trial?: boolean;
}
/** A form can be made for its input and for its signal. */
export const subscription = workflow(
  {
    name: "subscription",
    input: schema<Subscription>(
      {
        type: "object",
        required: ["plan"],
        properties: {
          plan: { type: "string", enum: ["small", "large"], title: "Plan" },
          seats: { type: "integer", title: "Number of seats" },
          trial: { type: "boolean" },
        },
      },
      ({ plan, seats = 1 }) => (plan === "small" && seats > 5 ? "small has at most 5 seats" : undefined),
    ),
    signals: { note: signal(schema<{ text: string }>({ type: "object", properties: { text: { type: "string" } } }, () => undefined)) },
  },
  async (ctx, input) => ({ input, note: await ctx.waitForSignal("note") }),
);

/** Fails with the step `charge`. */
export const failing = workflow("failing", async (ctx) => {
  await ctx.step("prepare", () => "ready");
  await ctx.step("charge", () => {
    throw new FatalError("no such card", { data: { card: "4242" } });
  });
});

/** Open until it gets a signal. */
export const waiting = workflow("waiting", async (ctx, _input?: unknown) => {
  return ctx.waitForSignal("go");
});

/** Starts another run and waits for it. */
export const parent = workflow("parent", async (ctx) => {
  await ctx.child(waiting, undefined);
});

/** A loop with the given number of iterations. */
export const poll = workflow("poll", async (ctx, rounds: number) => {
  await ctx.loop({ name: "poll", state: 0 }, async (loop, n) => {
    await loop.step("look", () => n);
    return n + 1 < rounds ? Loop.continue(n + 1) : Loop.break(n);
  });
});

/** The same name, before and after a change that old runs don't fit. */
export const shipBefore = workflow("ship", async (ctx) => {
  await ctx.step("charge", () => 1);
  await ctx.waitForSignal("go");
});
export const shipAfter = workflow("ship", async (ctx) => {
  await ctx.step("check-stock", () => 1);
  await ctx.waitForSignal("go");
});

/** An entity that answers updates. */
export const account = workflow({ name: "account", updates: { rename: update<{ to: string }, string>() } }, async (ctx) => {
  const { state } = await ctx.receive(
    { name: "none" },
    { updates: { rename: ({ to }) => ({ result: "stopWith", value: `hello ${to}`, state: { name: to } }) } },
  );
  return state;
});
