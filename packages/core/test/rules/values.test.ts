// Job: prove how values cross durable boundaries: what comes back, what is stored, and what a value that can't cross does.
// Owns: the workflows in it. The codec by itself is proved in ../codec.
// Invariants: P8.
import { activity, Loop, Receive, replay, workflow } from "@holdfast/core";
import { crashAnywhere, Harness, runWorkflow } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const cyclic: { self?: unknown; list: unknown[] } = { list: [] };
cyclic.self = cyclic;
cyclic.list.push(cyclic.list);

const VALUES: [name: string, value: unknown][] = [
  ["undefined", undefined],
  ["null", null],
  ["a nested undefined", { a: undefined, b: [undefined, 1] }],
  ["a Date", new Date(0)],
  [
    "a Map",
    new Map<unknown, unknown>([
      ["a", new Date(1)],
      [{ key: 1 }, new Set([1])],
    ]),
  ],
  ["a Set", new Set([1, "two"])],
  ["a BigInt", 12n ** 30n],
  ["bytes", new Uint8Array([0, 255])],
  ["a typed array", new Float64Array([0.5, Number.NaN])],
  ["a URL", new URL("https://example.com/a?b=c")],
  ["a RegExp", /a+b/giu],
  ["NaN", Number.NaN],
  ["minus zero", -0],
  ["an Error with a cause", new TypeError("outer", { cause: new Error("inner") })],
  ["a cyclic value", cyclic],
  ["plain JSON", { a: [1, "two", { three: null }] }],
];
const isObject = (value: unknown) => typeof value === "object" && value !== null;

describe("P8 what a live call returns is what replay returns", () => {
  const mail = activity("mail", async (args: unknown) => args);
  const kid = workflow("kid", async (_ctx, input: unknown) => input);

  it.each(VALUES)("P8 %s survives every way into a workflow, live and in replay alike", async (_name, value) => {
    const passes: Record<string, unknown>[] = [];
    const wf = workflow("boundaries", async (ctx, input: unknown) => {
      const seen: Record<string, unknown> = { input };
      passes.push(seen);
      seen["step"] = await ctx.step("step", () => value);
      seen["activity"] = await ctx.activity(mail, value);
      seen["child"] = await ctx.child(kid, value);
      seen["signal"] = await ctx.waitForSignal("signal");
      seen["timed signal"] = (await ctx.waitForSignal("signal", { timeout: "1h" })).payload;
      seen["listened"] = (await ctx.listen(["signal"]))[0]?.payload;
      seen["side effect"] = await ctx.sideEffect(() => value);
      await ctx.receive(0, {
        signals: {
          message: (payload, state) => {
            seen["message"] = payload;
            return Receive.noreply(state);
          },
        },
        updates: {
          change: (payload, state) => {
            seen["update"] = payload;
            return Receive.stop(payload, state);
          },
        },
      });
      await ctx.step("the end", () => 0);
    });
    const h = await Harness.start(wf, value);
    await h.resolve("step", value);
    expect(h.codec.decode((h.find("mail") as { input: string }).input)).toEqual(value);
    await h.resolve("mail", value);
    expect(h.codec.decode((h.find("kid") as { input: string }).input)).toEqual(value);
    await h.resolve("kid", value);
    for (let i = 0; i < 3; i++) await h.signal("signal", value);
    await h.signal("message", value);
    await h.update("change", value, "u");

    await h.recover();

    const [live, replayed] = passes as [Record<string, unknown>, Record<string, unknown>];
    expect(Object.keys(live)).toHaveLength(10);
    for (const [way, arrived] of Object.entries(live)) {
      expect(arrived, way).toEqual(value);
      if (isObject(value)) expect(arrived, `${way}: never the original object`).not.toBe(value);
    }
    expect(replayed).toEqual(live);
    expect(h.updateResult("u")).toEqual({ value });
  });

  it.each(VALUES)("P8 %s survives every way out of a workflow", async (_name, value) => {
    const wf = workflow("outputs", async (ctx) => {
      ctx.publishState(value);
      return value;
    });
    const h = await Harness.start(wf);
    expect(h.output).toEqual(value);
    expect(h.state).toEqual(value);
  });

  it("P8 X1 the error for a value that can't be stored says which value it is, in the same words in replay", async () => {
    const wf = workflow("refused", async (ctx) => {
      const texts: string[] = [];
      const refused = async (call: () => unknown) => {
        try {
          await call();
        } catch (error) {
          texts.push((error as Error).message.split("\n")[0] ?? "");
        }
      };
      const value = { callback: () => {} };
      await refused(() => ctx.activity(mail, value));
      await refused(() => ctx.child(kid, value));
      await refused(() => ctx.signalRun("other", "go", value));
      await refused(() => ctx.sideEffect(() => value));
      await refused(() => ctx.publishState(value));
      return ctx.step("read", () => 0).then(() => texts);
    });
    const h = await Harness.start(wf);
    await h.resolve("read", 0);
    const texts = h.output as string[];
    expect(texts).toHaveLength(5);
    for (const text of texts) expect(text).toMatch(/^value\.callback in .+ can't be stored: it is a function/);
    await crashAnywhere(h);
  });

  it("P8 what a step's body keeps of its result is not what the workflow gets", async () => {
    const original = { items: [1] };
    const wf = workflow("aliasing", async (ctx) => {
      const got = await ctx.step("load", () => original);
      got.items.push(2);
      return got === original;
    });
    const h = await runWorkflow(wf);
    expect(h.output).toBe(false);
    expect(original).toEqual({ items: [1] });
  });

  it("P8 a class instance comes back live as the plain object that replay would give", async () => {
    class Money {
      readonly amount = 3;
    }
    const wf = workflow("classes", async (ctx) => {
      const money = await ctx.sideEffect(() => new Money());
      return [money instanceof Money, money.amount];
    });
    const h = await Harness.start(wf);
    expect(h.output).toEqual([false, 3]);
    await crashAnywhere(h);
  });

  it("P8 R9 a loop begins with the decoded state, and goes on with it after each commit", async () => {
    const first = { n: 0 };
    const same: boolean[] = [];
    const wf = workflow("loops", async (ctx) =>
      ctx.loop({ name: "l", state: first, commitInterval: 1 }, async (_body, state) => {
        same.push(state === first);
        return state.n === 2 ? Loop.break() : Loop.continue(Object.assign(first, { n: state.n + 1 }));
      }),
    );
    await Harness.start(wf);
    expect(same).toEqual([false, false, false]);
  });

  it("P8 a failure comes back with name, message and cause, live and in replay alike", async () => {
    const passes: unknown[] = [];
    const wf = workflow("failures", async (ctx) => {
      const caught = await ctx.step("charge", () => 0).catch((error: Error) => error);
      const { cause } = caught as Error;
      passes.push([cause instanceof RangeError, (cause as Error).message, ((cause as Error).cause as Error).message]);
      await ctx.step("the end", () => 0);
    });
    const h = await Harness.start(wf);
    await h.fail("charge", new RangeError("too much", { cause: new Error("limit 5") }));
    await h.recover();
    expect(passes[0]).toEqual([true, "too much", "limit 5"]);
    expect(passes[1]).toEqual(passes[0]);
  });
});

describe("P8 plain JSON values are stored as plain JSON", () => {
  const value = { id: 7, tags: ["a", null], nested: { ok: true } };
  const mail = activity("mail", async (args: unknown) => args);
  const wf = workflow("plain", async (ctx, input: unknown) => {
    ctx.publishState(value);
    await ctx.activity(mail, value);
    await ctx.sideEffect(() => value);
    return input;
  });

  it("P8 payloads of plain values are exactly their JSON", async () => {
    const h = await Harness.start(wf, value);
    await h.resolve("mail", value);
    const text = JSON.stringify(value);
    expect(h.turns[0]).toMatchObject({
      jobs: [{ type: "start", input: text }],
      commands: [{ type: "activity", input: text }],
      state: text,
    });
    expect(h.turns[1]).toMatchObject({
      jobs: [{ outcome: { value: text } }],
      commands: [
        { type: "sideEffect", value: text },
        { type: "complete", value: text },
      ],
    });
  });

  it("P8 in a portable history they are JSON that a person can read, and it can still be replayed", async () => {
    const h = await Harness.start(wf, value);
    await h.resolve("mail", value);
    const history = JSON.parse(JSON.stringify(h.history()));
    expect(history.run.input).toEqual(value);
    expect(history.turns[0].commands[0].input).toEqual(value);
    await expect(replay(wf, history)).resolves.toBeUndefined();
  });
});

describe("P8 a value that can't be encoded", () => {
  const bad = { order: { items: [{ callback: () => 1 }] } };
  const mail = activity("mail", async (_args: unknown) => 0);
  const kid = workflow("kid", async (_ctx, _input: unknown) => 0);

  it.each([
    ["the arguments of an activity", "activity"],
    ["the input of a child", "child"],
    ["the input of a child to be started", "startChild"],
    ["the payload of a signal to another run", "signalRun"],
    ["the value of a side effect", "sideEffect"],
    ["the published state", "publishState"],
    ["the state of a loop that commits", "loop"],
  ] as const)("P8 %s fails the operation with an error that names the path, and can be caught", async (_what, call) => {
    const wf = workflow("unencodable", async (ctx) => {
      const calls = {
        activity: () => ctx.activity(mail, bad),
        child: () => ctx.child(kid, bad),
        startChild: () => ctx.startChild(kid, bad),
        signalRun: () => ctx.signalRun("other", "hello", bad),
        sideEffect: () => ctx.sideEffect(() => bad),
        publishState: async () => ctx.publishState(bad),
        loop: () => ctx.loop({ name: "l", state: bad, commitInterval: 1 }, async () => Loop.continue(bad)),
      };
      try {
        await calls[call]();
      } catch (error) {
        await ctx.step("go another way", () => 0);
        return error;
      }
      return "no error";
    });
    const h = await Harness.start(wf);
    expect(h.openLocations).toEqual(["go another way"]);

    await h.recover(); // Y4: replay takes the branch that the live run took
    await h.resolve("go another way");

    expect(h.output).toMatchObject({ name: "UnserializableValueError", path: expect.stringMatching(/order\.items\[0\]\.callback$/) });
    expect((h.output as Error).message).toContain("function");
    await crashAnywhere(h);
  });

  it("P8 nothing of it reaches the host, and the occurrence of its name is used up", async () => {
    const wf = workflow("unencodable", async (ctx) => {
      await ctx.activity(mail, bad).catch(() => 0);
      await ctx.activity(mail, "fine");
    });
    const h = await Harness.start(wf);
    expect(h.openLocations).toEqual(["mail#1"]);
    await h.recover();
    await h.resolve("mail#1");
    expect(h.status).toBe("completed");
  });

  it("P8 as the output of the workflow it fails the run", async () => {
    const wf = workflow("unencodable", async () => bad);
    const h = await Harness.start(wf);
    expect(h.status).toBe("failed");
    expect(h.error).toMatchObject({ name: "UnserializableValueError", path: expect.stringContaining("callback") });
    await crashAnywhere(h);
  });

  it("P8 as the reply to an update it fails the update, and the run goes on with its state unchanged", async () => {
    const wf = workflow("unencodable", async (ctx) =>
      ctx.receive("before", {
        updates: {
          bad: () => Receive.reply(bad, "after"),
          async: (_input, state) => Receive.async(async () => bad, state),
          get: (_input, state) => Receive.reply(state, state),
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.update("bad", undefined, "u1");
    await h.update("async", undefined, "u2");
    await h.update("get", undefined, "u3");
    expect(h.updateResult("u1")).toMatchObject({ error: { name: "UnserializableValueError" } });
    expect(h.updateResult("u2")).toMatchObject({ error: { name: "UnserializableValueError" } });
    expect(h.updateResult("u3")).toEqual({ value: "before" });
    await crashAnywhere(h);
  });

  it("P8 as the state of a receive that checkpoints it is thrown from the receive", async () => {
    const wf = workflow("unencodable", async (ctx) => {
      try {
        await ctx.receive<unknown>(0, { signals: { go: () => Receive.noreply(bad) }, checkpointEvery: 1 });
      } catch (error) {
        return (error as Error).name;
      }
      return "no error";
    });
    const h = await Harness.start(wf);
    await h.signal("go");
    expect(h.output).toBe("UnserializableValueError");
    await crashAnywhere(h);
  });

  it("P8 a later state of a receive that crosses no boundary need not be encodable", async () => {
    const wf = workflow("live state", async (ctx) => {
      const { state } = await ctx.receive<(() => string) | undefined>(undefined, {
        signals: { go: () => Receive.stop(() => "called") },
      });
      return state?.();
    });
    const h = await Harness.start(wf);
    await h.signal("go");
    expect(h.output).toBe("called");
  });

  it("P8 a step whose result can't be encoded has run: it fails without retry", async () => {
    let runs = 0;
    const wf = workflow("unencodable", async (ctx) =>
      ctx.step("load", () => {
        runs++;
        return bad;
      }),
    );
    const h = await runWorkflow(wf);
    expect(runs).toBe(1);
    expect(h.error).toMatchObject({ name: "StepFailedError", cause: { name: "UnserializableValueError" } });
  });
});
