// Job: prove how an execution hands over to the next: its input, its version, the signals that no code consumed.
// Owns: the workflows in it. Seeds and histories of executions are the host's.
// Invariants: P10.
import { type Command, IllegalReturnError, Loop, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";

const types = (commands: readonly Command[]) => commands.map((command) => command.type);

describe("P10 continueAsNew", () => {
  it("P10 continueAsNew ends the execution as continued, with the input of the next", async () => {
    const wf = workflow("counter", async (ctx, input: { n: number }) => {
      await ctx.step("work", () => 0);
      return ctx.continueAsNew({ n: input.n + 1 });
    });
    const h = await Harness.start(wf, { n: 1 });
    const commands = await h.resolve("work");
    expect(h.status).toBe("continued");
    expect(commands).toEqual([{ type: "continueAsNew", input: '{"n":2}' }]);
    await crashAnywhere(h);
  });

  it("P10 what the workflow itself hands on is not held against the schema again: that may turn it into something else", async () => {
    const hundredfold = z.number().transform((n) => n * 100);
    const wf = workflow({ name: "counter", input: hundredfold }, async (ctx, n) => ctx.continueAsNew(n));
    const h = await Harness.start(wf, 5);
    expect(h.terminal).toEqual({ type: "continueAsNew", input: "5" });
    await crashAnywhere(h);
  });

  it("P1 an output of nothing is held against the schema too", async () => {
    const wf = workflow({ name: "w", output: z.object({ total: z.number() }) }, async () => undefined as never);
    const h = await Harness.start(wf);
    expect(h.error).toMatchObject({ name: "InvalidInputError" });
  });

  it("P10 it may name the version of the next execution", async () => {
    const wf = workflow("versioned", async (ctx) => ctx.continueAsNew(undefined, { version: "2" }));
    const h = await Harness.start(wf);
    expect(h.terminal).toMatchObject({ type: "continueAsNew", version: "2" });
    await crashAnywhere(h);
  });

  it("P10 unconsumed signals move on, in arrival order, those of the last activation included", async () => {
    const wf = workflow("mover", async (ctx) => {
      await ctx.waitForSignal("go");
      return ctx.continueAsNew(undefined);
    });
    const h = await Harness.start(wf);
    await h.signal("b", 1);
    await h.signal("a", 2);
    await h.turn(h.signalJob("b", 3), h.signalJob("go", "taken"), h.signalJob("a", 4));
    expect(h.terminal).toMatchObject({
      signals: [
        { id: "s1", name: "b", payload: "1" },
        { id: "s2", name: "a", payload: "2" },
        { id: "s3", name: "b", payload: "3" },
        { id: "s5", name: "a", payload: "4" },
      ],
    });
    await crashAnywhere(h);
  });

  it("P10 signals that came with the start of the next execution are delivered there, in their order", async () => {
    const wf = workflow("mover", async (ctx, round: number) => {
      if (round === 1) return ctx.continueAsNew(2);
      const heard = await ctx.listen(["a", "b"], { count: 10 });
      return heard.map(({ name, payload }) => `${name}${payload}`).join(" ");
    });
    const first = new Harness(wf);
    await first.start(1, first.signalJob("b", 1), first.signalJob("a", 2));
    const signals = first.terminal?.type === "continueAsNew" ? (first.terminal.signals ?? []) : [];
    const next = new Harness(wf, { execution: 2, seed: "another" });
    await next.start(2, ...signals.map((signal) => ({ type: "signal", ...signal }) as const));
    expect(next.output).toBe("b1 a2");
  });

  it("P10 accepted updates end first", async () => {
    const wf = workflow("entity", async (ctx) => {
      await ctx.receive(0, {
        updates: { save: (_input, state) => Receive.async(async (handler) => handler.step("save", () => "saved"), state) },
        signals: { rotate: (_payload, state) => Receive.stop(state) },
      });
      return ctx.continueAsNew(undefined);
    });
    const h = await Harness.start(wf);
    await h.update("save", undefined, "u-1");
    await h.signal("rotate");
    expect(h.status).toBe("sleeping");

    const commands = await h.resolve("save", "saved");

    expect(types(commands)).toEqual(["completeUpdate", "settle", "continueAsNew"]);
    expect(h.updateResult("u-1")).toEqual({ value: "saved" });
    await crashAnywhere(h);
  });

  it("P10 continueAsNew called and not returned is an IllegalReturnError, and nothing of the turn is recorded", async () => {
    const wf = workflow("forgetful", async (ctx) => {
      await ctx.step("work", () => 0);
      ctx.continueAsNew(undefined);
      return "done";
    });
    const h = await Harness.start(wf);
    const before = h.turns.length;
    await expect(h.resolve("work")).rejects.toBeInstanceOf(IllegalReturnError);
    expect(h.status).toBe("sleeping");
    expect(h.turns).toHaveLength(before);
  });

  it("P10 a continueAsNew that a body made counts when the root returns it", async () => {
    const wf = workflow("looping", async (ctx, n: number) => ctx.loop("rounds", async (body) => Loop.break(body.continueAsNew(n + 1))));
    const h = await Harness.start(wf, 1);
    expect(h.terminal).toMatchObject({ type: "continueAsNew", input: "2" });
    await crashAnywhere(h);
  });

  it("P10 an input of the next execution that can't be encoded fails the execution", async () => {
    const wf = workflow("bad", async (ctx, _input: unknown) => ctx.continueAsNew({ callback: () => 1 }));
    const h = await Harness.start(wf);
    expect(h.status).toBe("failed");
    expect(h.error).toMatchObject({ name: "UnserializableValueError", path: expect.stringContaining("callback") });
  });
});
