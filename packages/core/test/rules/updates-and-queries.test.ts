// Job: prove what happens to updates and queries: accepted or rejected, ended, answered.
// Owns: the workflows in it. What a receive does with updates is in receive.test.ts.
// Invariants: M8 to M11, as far as the executor goes; durability and callers are the host's.
import { type Command, evaluateQuery, type Job, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const types = (commands: readonly Command[]) => commands.map((command) => command.type);

describe("M8 updates that no code accepts", () => {
  const worker = workflow("worker", async (ctx) => {
    await ctx.step("work", () => 0);
    return ctx.random();
  });

  it("M8 an update that no receive accepts by the end of the activation is rejected, and nothing enters history", async () => {
    const h = await Harness.start(worker);
    const before = h.turns.length;
    expect(await h.update("change", 1, "u")).toEqual([]);
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError", update: "change" } });
    expect(h.turns).toHaveLength(before);
    await h.resolve("work");
    await crashAnywhere(h);
  });

  it("M8 rejected beside other jobs, it leaves no trace among them", async () => {
    const h = await Harness.start(worker);
    await h.turn(h.updateJob("change", 1, "u"), h.resolved("work"));
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError" } });
    expect(h.turns.flatMap((turn) => turn.jobs).map((job) => job.type)).toEqual(["start", "resolve"]);
    await crashAnywhere(h);
  });

  it("M1 M8 one that the receiver's schema refused is rejected with the reason, and no handler sees it", async () => {
    const seen: unknown[] = [];
    const wf = workflow("entity", async (ctx) =>
      ctx.receive(0, {
        updates: {
          change: (input: unknown) => {
            seen.push(input);
            return Receive.stop("changed", 1);
          },
        },
      }),
    );
    const h = await Harness.start(wf);
    const before = h.turns.length;
    const refused = { ...h.updateJob("change", { bad: 1 }, "u"), refused: "expected text" } as Job;
    expect(await h.turn(refused)).toEqual([]);
    expect(h.updateResult("u")).toMatchObject({
      error: { name: "UpdateRejectedError", message: expect.stringContaining("expected text") },
    });
    expect([h.turns.length, seen]).toEqual([before, []]);
    await h.turn(refused, h.updateJob("change", "good", "v"));
    expect(h.updateResult("v")).toEqual({ value: "changed" });
    expect(seen).toEqual(["good"]);
    await crashAnywhere(h);
  });

  it("M8 a receive that does not handle its name rejects it", async () => {
    const wf = workflow("other", async (ctx) => ctx.receive(0, { updates: { known: (_input, state) => Receive.reply(1, state) } }));
    const h = await Harness.start(wf);
    await h.update("unknown", 1, "u");
    await h.update("toString", 1, "v");
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError" } });
    expect(h.updateResult("v")).toMatchObject({ error: { name: "UpdateRejectedError" } });
  });

  it("M8 one that may wait is given back until a receive takes it up, and only then is in history", async () => {
    const wf = workflow("later", async (ctx) => {
      await ctx.step("work", () => 0);
      await ctx.step("more", () => 0);
      const draw = ctx.random();
      await ctx.receive(0, { updates: { change: (input: unknown) => Receive.stop(input, 1) } });
      return draw;
    });
    const h = await Harness.start(wf);
    const patient = { ...h.updateJob("change", "kept", "u"), acceptUntil: h.time + 60_000 } as Job;
    const turns = h.turns.length;
    expect(await h.turn(patient)).toEqual([]);
    expect(h.answers.at(-1)).toEqual({ type: "keepUpdate", id: "u" });
    expect(h.turns).toHaveLength(turns); // nothing enters history
    await h.turn(patient, h.resolved("work"));
    expect(h.answers.at(-1)).toEqual({ type: "keepUpdate", id: "u" });
    expect(h.turns.at(-1)?.jobs.map(({ type }) => type)).toEqual(["resolve"]);
    await h.turn(patient, h.resolved("more"));
    expect(h.updateResult("u")).toEqual({ value: "kept" });
    expect(h.turns.at(-1)?.jobs.map(({ type }) => type)).toEqual(["update", "resolve"]);
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("M8 M9 the refusal of a validator is final, however long an update may wait", async () => {
    const refuse = (): void => {
      throw new Error("no");
    };
    const wf = workflow("picky", async (ctx) =>
      ctx.receive(0, { updates: { change: { validate: refuse, handle: () => Receive.stop(1, 1) } } }),
    );
    const h = await Harness.start(wf);
    await h.turn({ ...h.updateJob("change", 1, "u"), acceptUntil: h.time + 60_000 } as Job);
    expect(h.updateResult("u")).toMatchObject({ error: { message: expect.stringContaining("no") } });
    expect(h.answers.filter(({ type }) => type === "keepUpdate")).toEqual([]);
  });

  it("M8 once its time is over the next activation rejects it, though a receive would take it", async () => {
    const wf = workflow("open", async (ctx) => ctx.receive(0, { updates: { change: () => Receive.stop(1, 1) } }));
    const h = await Harness.start(wf);
    const late = { ...h.updateJob("change", 1, "u"), acceptUntil: h.time } as Job;
    const turns = h.turns.length;
    await h.turn(late);
    expect(h.updateResult("u")).toMatchObject({
      error: { name: "UpdateRejectedError", message: expect.stringContaining("within the time") },
    });
    expect(h.turns).toHaveLength(turns);
    expect(h.status).toBe("sleeping");
  });

  it("M8 it is not kept for a receive of a later activation", async () => {
    const wf = workflow("later", async (ctx) => {
      await ctx.step("work", () => 0);
      await ctx.receive(0, { updates: { change: () => Receive.stop("changed", 1) } });
    });
    const h = await Harness.start(wf);
    await h.update("change", 1, "early");
    await h.resolve("work");
    expect(h.status).toBe("sleeping");
    await h.update("change", 1, "late");
    expect(h.updateResult("late")).toEqual({ value: "changed" });
    expect(h.status).toBe("completed");
  });

  const opens = workflow("opens", async (ctx) => {
    await ctx.step("work", () => 0);
    const { state } = await ctx.receive(0, { updates: { change: (input: number) => Receive.stop(`got ${input}`, input) } });
    return state;
  });

  it("M8 a receive that opens later in the same activation accepts it", async () => {
    const h = await Harness.start(opens);
    await h.turn(h.updateJob("change", 7, "u"), h.resolved("work"));
    expect(h.updateResult("u")).toEqual({ value: "got 7" });
    expect(h.output).toBe(7);
    await crashAnywhere(h);
  });

  it("M8 updates sent with start are delivered in the first activation", async () => {
    const wf = workflow(
      "eager",
      async (ctx) => (await ctx.receive(0, { updates: { change: (input: number) => Receive.stop("ok", input) } })).state,
    );
    const h = new Harness(wf);
    await h.start(undefined, h.updateJob("change", 7, "u"));
    expect(h.updateResult("u")).toEqual({ value: "ok" });
    expect(h.output).toBe(7);
    await crashAnywhere(h);
  });

  it("M8 an update that comes with the end of the run is rejected", async () => {
    const h = await Harness.start(worker);
    await h.turn(h.resolved("work"), h.updateJob("change", 1, "u"));
    expect(h.status).toBe("completed");
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError" } });
  });
});

describe("M9 validators", () => {
  /** Refuses what is negative; keeps a sum; says what the validator saw. */
  function adder() {
    const validated: [input: number, state: number][] = [];
    const wf = workflow("adder", async (ctx) => {
      const { state } = await ctx.receive(0, {
        updates: {
          add: {
            validate: (input: number, state: number) => {
              validated.push([input, state]);
              if (input < 0) throw new RangeError("must not be negative");
            },
            handle: async (input: number, state: number, handler) => {
              const fee = await handler.step("fee", () => 1);
              return Receive.reply(handler.uuid(), state + input + fee);
            },
          },
        },
        signals: { stop: (_payload, state) => Receive.stop(state) },
      });
      return [state, ctx.uuid()];
    });
    return { wf, validated };
  }

  it("M9 a validator that throws rejects the update with its reason; its handler does not run", async () => {
    const { wf } = adder();
    const h = await Harness.start(wf);
    expect(await h.update("add", -1, "u")).toEqual([]);
    const result = h.updateResult("u") as { error: Error };
    expect(result.error).toMatchObject({ name: "UpdateRejectedError", cause: { name: "RangeError" } });
    expect(result.error.message).toContain("must not be negative");
    await h.signal("stop");
    expect(h.output).toMatchObject([0, expect.any(String)]);
  });

  it("M9 a rejection leaves no trace: the run goes on as if the update had never been sent", async () => {
    const transcripts: unknown[] = [];
    for (const disturbed of [false, true]) {
      const { wf } = adder();
      const h = await Harness.start(wf);
      if (disturbed) await h.update("add", -1, "bad1");
      const jobs: Job[] = [h.updateJob("add", 1, "good")];
      await h.turn(...(disturbed ? [h.updateJob("add", -2, "bad2"), ...jobs, h.updateJob("add", -3, "bad3")] : jobs));
      if (disturbed) await h.update("add", -4, "bad4"); // while the handler is running
      await h.resolve("fee", 1);
      await h.signal("stop", undefined, { id: "stop" });
      transcripts.push(h.turns.map(({ historyLength: _, ...turn }) => turn));
      await crashAnywhere(h);
    }
    expect(transcripts[1]).toEqual(transcripts[0]);
  });

  it("M9 an update that passes runs its validator once, before acceptance, with the committed state", async () => {
    const { wf, validated } = adder();
    const h = await Harness.start(wf);
    await h.update("add", 5);
    await h.update("add", 6); // the handler of the first is running: its change has not ended
    await h.resolve("fee", 1);
    await h.resolve("receive/~h1/fee", 1);
    await h.update("add", 7);
    expect(validated).toEqual([
      [5, 0],
      [6, 0],
      [7, 13],
    ]);
  });

  it("M9 the committed state includes what an async handler has written", async () => {
    const seen: unknown[] = [];
    const wf = workflow("async", async (ctx) =>
      ctx.receive(0, {
        updates: {
          write: (_input, state) =>
            Receive.async(async (handler) => {
              await handler.updateState((current) => [0, current + 10]);
              await handler.step("slow", () => 0);
            }, state),
          check: { validate: (_input, state) => void seen.push(state), handle: (_input, state) => Receive.reply(state, state) },
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.update("write");
    await h.update("check");
    expect(seen).toEqual([10]);
  });

  it("M9 replay runs no validator", async () => {
    const { wf, validated } = adder();
    const h = await Harness.start(wf);
    await h.update("add", 1);
    await h.update("add", -1);
    await h.recover();
    expect(validated).toHaveLength(2);
    expect(h.executor.openOperations.length).toBeGreaterThan(0);
  });

  it("M9 an update that was accepted stays accepted where the validator has become stricter", async () => {
    const h = await Harness.start(adder().wf);
    await h.update("add", 1, "u");
    const strict = workflow("adder", async (ctx) => {
      const { state } = await ctx.receive(0, {
        updates: {
          add: {
            validate: () => {
              throw new Error("no more");
            },
            handle: async (input: number, state: number, handler) =>
              Receive.reply("old", state + input + (await handler.step("fee", () => 1))),
          },
        },
        signals: { stop: (_payload, state) => Receive.stop(state) },
      });
      return state;
    });
    await h.recover(strict);
    await h.resolve("fee", 1);
    expect(h.updateResult("u")).toEqual({ value: "old" });
  });

  it("M9 a host that knows of the acceptance may say so: then no validator runs", async () => {
    const { wf, validated } = adder();
    const h = await Harness.start(wf);
    await h.turn({ type: "update", id: "u", name: "add", input: "-5", validate: false });
    expect(validated).toEqual([]);
    expect(h.openLocations).toEqual(["receive/~h0/fee"]);
  });

  it("M9 a validator is synchronous: one that returns a promise breaks the rules", async () => {
    const wf = workflow("async validator", async (ctx) =>
      ctx.receive(0, { updates: { add: { validate: (async () => {}) as () => void, handle: () => Receive.reply(0, 0) } } }),
    );
    const h = await Harness.start(wf);
    await expect(h.update("add")).rejects.toMatchObject({ name: "IllegalReturnError" });
  });

  it("M9 a validator may not use a ctx", async () => {
    const wf = workflow("draws", async (ctx) =>
      ctx.receive(0, { updates: { add: { validate: () => void ctx.random(), handle: () => Receive.reply(0, 0) } } }),
    );
    const h = await Harness.start(wf);
    await expect(h.update("add")).rejects.toMatchObject({ name: "IllegalCallError", call: "random" });
  });
});

describe("M10 outcomes of updates", () => {
  const wf = workflow("saves", async (ctx) =>
    ctx.receive(0, {
      updates: {
        save: async (input: number, state: number, handler) => {
          const saved = await handler.step("save", () => input);
          return Receive.reply(saved, state + 1);
        },
      },
    }),
  );

  it("M10 an update is accepted in history before its handler runs", async () => {
    const h = await Harness.start(wf);
    const commands = await h.update("save", 1, "u");
    expect(types(commands)).toEqual(["acceptUpdate", "dispatch", "step"]);
    expect(h.updateResult("u")).toBeUndefined();
  });

  it("M10 its outcome is recorded with the turn that ends the handler", async () => {
    const h = await Harness.start(wf);
    await h.update("save", 1, "u");
    await h.recover();
    const commands = await h.resolve("save", "saved");
    expect(commands).toMatchObject([{ type: "completeUpdate", id: "u", status: "completed", value: '"saved"' }]);
    await crashAnywhere(h);
  });

  it("M10 a failure is an outcome too, and replay gives the same", async () => {
    const h = await Harness.start(wf);
    await h.update("save", 1, "u");
    const commands = await h.fail("save", new Error("disk full"));
    expect(commands).toMatchObject([{ type: "completeUpdate", id: "u", status: "failed", error: { name: "StepFailedError" } }]);
    await h.recover();
    await crashAnywhere(h);
  });
});

describe("M11 queries", () => {
  const account = workflow(
    {
      name: "account",
      queries: {
        balance: (state: { balance: number } | undefined) => state?.balance,
        above: (state: { balance: number }, args: { limit: number }) => state.balance > args.limit,
        broken: () => {
          throw new TypeError("no such thing");
        },
        mutates: (state: { balance: number }) => ++state.balance,
        unencodable: () => () => 1,
      },
    },
    async (ctx) => {
      let hidden = 1;
      ctx.publishState({ balance: 10 });
      await ctx.step("work", () => 0);
      hidden++;
      ctx.publishState({ balance: 20 + hidden });
    },
  );
  const answer = (h: Harness, id: string) => {
    const found = h.answers.find((one) => one.id === id);
    return found?.type === "answerQuery" ? { value: h.codec.decode(found.value) } : found;
  };

  it("M11 a query sees the published state, and its arguments", async () => {
    const h = await Harness.start(account);
    await h.turn(h.queryJob("balance", undefined, "q1"), h.queryJob("above", { limit: 5 }, "q2"));
    expect(answer(h, "q1")).toEqual({ value: 10 });
    expect(answer(h, "q2")).toEqual({ value: true });
  });

  it("M11 a query never writes and never advances a unit: no command, no record", async () => {
    const h = await Harness.start(account);
    const turns = h.turns.length;
    const commands = await h.turn(h.queryJob("balance"), h.queryJob("mutates"), h.queryJob("broken"));
    expect(commands).toEqual([]);
    expect(h.turns).toHaveLength(turns);
    await h.turn(h.queryJob("balance", undefined, "q"));
    expect(answer(h, "q")).toEqual({ value: 10 });
    await h.resolve("work");
    await crashAnywhere(h);
  });

  it("M11 a condition that would hold by now is not read for a query", async () => {
    let ready = false;
    const wf = workflow({ name: "waits", queries: { ping: () => "pong" } }, async (ctx) => ctx.condition(() => ready));
    const h = await Harness.start(wf);
    ready = true;
    expect(await h.turn(h.queryJob("ping"))).toEqual([]);
    expect(h.status).toBe("sleeping");
  });

  it("M11 X6 a query that comes with other jobs is answered after them, with what they published", async () => {
    const h = await Harness.start(account);
    await h.turn(h.queryJob("balance", undefined, "q"), h.resolved("work"));
    expect(answer(h, "q")).toEqual({ value: 22 });
    expect(h.turns.flatMap((turn) => turn.jobs).map((job) => job.type)).toEqual(["start", "resolve"]);
    await crashAnywhere(h);
  });

  it("M11 the asking process evaluates it with its own definition, for open and for closed runs", async () => {
    const h = await Harness.start(account);
    expect(evaluateQuery(account, "balance", h.published, undefined)).toBe(10);
    await h.resolve("work");
    expect(h.status).toBe("completed");
    expect(evaluateQuery(account, "balance", h.published, undefined)).toBe(22);
    await h.turn(h.queryJob("balance", undefined, "q"));
    expect(answer(h, "q")).toEqual({ value: 22 });
    const newer = workflow({ name: "account", queries: { doubled: (state: { balance: number }) => state.balance * 2 } }, async () => 0);
    expect(evaluateQuery(newer, "doubled", h.published, undefined)).toBe(44);
  });

  it("M11 before anything was published a query gets undefined", async () => {
    expect(evaluateQuery(account, "balance", undefined, undefined)).toBeUndefined();
  });

  it("M11 each query gets its own state: what one does to it no other sees", async () => {
    const h = await Harness.start(account);
    expect(evaluateQuery(account, "mutates", h.published, undefined)).toBe(11);
    expect(evaluateQuery(account, "mutates", h.published, undefined)).toBe(11);
  });

  it.each(["unknown", "toString", "broken"])("M11 a query that is unknown or throws is a QueryFailedError: %s", async (name) => {
    const h = await Harness.start(account);
    await h.turn(h.queryJob(name, undefined, "q"));
    expect(answer(h, "q")).toMatchObject({ type: "failQuery", error: { name: "QueryFailedError" } });
    expect(() => evaluateQuery(account, name, h.published, undefined)).toThrow(
      expect.objectContaining({ name: "QueryFailedError", query: name }),
    );
    await h.resolve("work");
    expect(h.status).toBe("completed");
  });

  it("M11 P8 an answer that can't be encoded fails the query, not the run", async () => {
    const h = await Harness.start(account);
    await h.turn(h.queryJob("unencodable", undefined, "q"));
    expect(answer(h, "q")).toMatchObject({ type: "failQuery" });
    await h.resolve("work");
    expect(h.status).toBe("completed");
  });

  it("M11 a query after recovery sees the same state", async () => {
    const h = await Harness.start(account);
    await h.recover();
    expect(h.executor.query("balance", undefined)).toBe(10);
  });
});
