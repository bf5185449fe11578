// Job: prove that a receive can run for years: its state is committed, what it has handled is trimmed, replay starts there.
// Owns: the workflows in it.
// Invariants: R11, with M2, R6, R7 and R8 across a checkpoint.
import { type Command, type CommitCommand, Receive, replay, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const commits = (commands: readonly Command[]) => commands.filter((command): command is CommitCommand => command.type === "commit");
const records = (h: Harness) => h.turns.reduce((sum, turn) => sum + turn.jobs.length + turn.commands.length, 0);
const dispatches = (h: Harness) => h.commands.flatMap((command) => (command.type === "dispatch" ? [command.unit] : []));

/** Adds up; `slow` and `background` need a step; a checkpoint every two messages. */
function entity(seen: unknown[] = []) {
  return workflow("entity", async (ctx) => {
    const result = await ctx.receive(
      { sum: 0 },
      {
        signals: {
          add: (payload: number, state, handler) => {
            seen.push(state);
            handler.publishState({ sum: state.sum + payload });
            return Receive.noreply({ sum: state.sum + payload });
          },
          slow: async (payload: number, state, handler) => {
            await handler.step("work", () => 0);
            return Receive.noreply({ sum: state.sum + payload });
          },
          background: (payload: number, state) =>
            Receive.async(async (handler) => {
              await handler.step("background", () => 0);
              await handler.updateState((current) => [undefined, { sum: current.sum + payload }]);
            }, state),
          end: (_payload, state) => Receive.stop(state),
        },
        updates: { read: (_input, state) => Receive.reply(state.sum, state) },
        timeout: "1h",
        checkpointEvery: 2,
      },
    );
    return { ...result, notes: await ctx.listen(["note"], { count: 9, timeout: 1 }) };
  });
}

describe("R11 the checkpoint", () => {
  it("R11 commits the reducer state, with published state and dispatch count, once n messages were dispatched", async () => {
    const h = await Harness.start(entity());
    expect(commits(await h.signal("add", 1))).toEqual([]);
    expect(commits(await h.signal("add", 2))).toMatchObject([{ unit: "receive", count: 2, value: '{"sum":3}', state: '{"sum":3}' }]);
    expect(commits(await h.signal("add", 3))).toEqual([]);
    expect(commits(await h.signal("add", 4))).toMatchObject([{ count: 4, value: '{"sum":10}' }]);
    await crashAnywhere(h);
  });

  it("R11 updates count as messages", async () => {
    const h = await Harness.start(entity());
    await h.update("read");
    expect(commits(await h.update("read"))).toHaveLength(1);
    await crashAnywhere(h);
  });

  it("R11 trims the records of the handled messages: the history stays bounded", async () => {
    const h = await Harness.start(entity());
    const lengths: number[] = [];
    for (let i = 0; i < 40; i++) {
      if (i % 3 === 0) {
        await h.signal("slow", 1);
        await h.resolve("work");
      } else if (i % 3 === 1) await h.update("read");
      else await h.signal("add", 1);
      lengths.push(records(h));
    }
    expect(Math.max(...lengths.slice(20))).toBeLessThanOrEqual(Math.max(...lengths.slice(0, 20)));
    expect(records(h)).toBeLessThan(12);
    await h.signal("end");
    await h.fire();
    expect(h.output).toEqual({ state: { sum: 27 }, timedOut: false, notes: [] });
    await crashAnywhere(h);
  });

  it("R11 what is left can be replayed anywhere the code is", async () => {
    const wf = entity();
    const h = await Harness.start(wf);
    for (let i = 0; i < 5; i++) await h.signal("add", 1);
    await expect(replay(wf, JSON.parse(JSON.stringify(h.history())))).resolves.toBeUndefined();
  });

  it("R11 P8 goes on with the decoded state", async () => {
    const kept: { sum: number }[] = [];
    const wf = workflow("aliases", async (ctx) =>
      ctx.receive(
        { sum: 0 },
        {
          signals: {
            add: (_payload, state) => {
              const next = { sum: state.sum + 1 };
              kept.push(state, next);
              return Receive.noreply(next);
            },
          },
          checkpointEvery: 1,
        },
      ),
    );
    const h = await Harness.start(wf);
    await h.signal("add");
    await h.signal("add");
    expect(kept[2]).toEqual(kept[1]);
    expect(kept[2]).not.toBe(kept[1]);
  });

  it("R11 replay starts from the committed state: handlers before it do not run again", async () => {
    const seen: unknown[] = [];
    const h = await Harness.start(entity(seen));
    for (const n of [1, 2, 3]) await h.signal("add", n);
    seen.length = 0;
    await h.recover();
    expect(seen).toEqual([{ sum: 3 }]);
    expect(h.executor.state).toBe('{"sum":6}');
    await h.signal("end");
    await h.fire();
    expect(h.output).toMatchObject({ state: { sum: 6 } });
  });

  it("R11 the published state survives in the commit where the turn that published it is gone", async () => {
    const h = await Harness.start(entity());
    await h.signal("add", 1);
    await h.update("read");
    for (let i = 0; i < 4; i++) await h.update("read");
    await h.recover();
    expect(h.executor.state).toBe('{"sum":1}');
  });

  it("R11 handlers are numbered on after it, before a crash and after", async () => {
    const h = await Harness.start(entity());
    for (let i = 0; i < 3; i++) await h.signal("add", 1);
    await h.recover();
    await h.signal("add", 1);
    await h.recover();
    await h.signal("slow", 1);
    expect(dispatches(h)).toEqual([0, 1, 2, 3, 4].map((n) => `receive/~h${n}`));
    expect(h.openLocations).toEqual(["receive/~h4/work"]);
    await crashAnywhere(h);
  });

  it("R11 no operation after a checkpoint gets the number of one before it", async () => {
    const h = await Harness.start(entity());
    for (let i = 0; i < 6; i++) {
      await h.signal("slow", 1);
      await h.recover();
      await h.resolve("work");
      await h.recover();
    }
    const numbers = h.commands.flatMap((command) => ("n" in command ? [command.seq] : []));
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});

describe("R11 handlers in flight", () => {
  it("R11 it dispatches nothing until the handlers in flight have ended, then commits, then goes on", async () => {
    const h = await Harness.start(entity());
    await h.signal("background", 10);
    await h.signal("add", 1); // the second: a checkpoint is due
    await h.signal("add", 2);
    expect(dispatches(h)).toHaveLength(2);

    const commands = await h.resolve("background");

    expect(commits(commands)).toMatchObject([{ count: 2, value: '{"sum":11}', messages: [{ type: "signal", name: "add" }] }]);
    expect(dispatches(h)).toHaveLength(3);
    await h.signal("end");
    await h.fire();
    expect(h.output).toMatchObject({ state: { sum: 13 } });
    await crashAnywhere(h);
  });

  it("R11 R7 an update that arrives meanwhile is accepted, and dispatched after the commit", async () => {
    const h = await Harness.start(entity());
    await h.signal("background", 10);
    await h.signal("add", 1);
    expect(await h.update("read", undefined, "u")).toMatchObject([{ type: "acceptUpdate", id: "u" }]);
    const commands = await h.resolve("background");
    expect(commits(commands)).toMatchObject([{ messages: [{ type: "update", id: "u" }] }]);
    expect(h.updateResult("u")).toEqual({ value: 11 });
    await crashAnywhere(h);
  });

  it("R11 R8 a timeout that fires meanwhile keeps its place: what arrived before it goes first", async () => {
    const h = await Harness.start(entity());
    const seq = h.nextTimer as number;
    await h.signal("background", 10);
    await h.signal("add", 1);
    await h.signal("add", 2);
    await h.turn({ type: "fire", seq }, h.signalJob("add", 100));
    const commands = await h.resolve("background");
    expect(commits(commands)).toMatchObject([{ messages: [{ type: "signal" }, { type: "fire", seq }, { type: "signal" }] }]);
    await h.fire();
    expect(h.output).toMatchObject({ state: { sum: 13 }, timedOut: true });
    await crashAnywhere(h);
  });

  it("R11 R6 a receive that closes at the n-th message closes, and commits nothing", async () => {
    const h = await Harness.start(entity());
    await h.signal("add", 1);
    const commands = await h.signal("end");
    expect(commits(commands)).toEqual([]);
    await h.fire();
    expect(h.output).toMatchObject({ state: { sum: 1 }, timedOut: false });
    await crashAnywhere(h);
  });
});

describe("R11 what waits across a checkpoint", () => {
  /** Two messages are handled while others wait; then every kind of message is behind the commit. */
  async function loaded(): Promise<Harness> {
    const h = await Harness.start(entity());
    await h.signal("note", "first");
    await h.signal("add", 1);
    await h.signal("slow", 10);
    await h.turn(h.signalJob("note", "second"), h.signalJob("add", 100), h.updateJob("read", undefined, "u1"));
    await h.turn(h.updateJob("read", undefined, "u2"), h.signalJob("slow", 1_000), h.updateJob("read", undefined, "u3"));
    return h;
  }

  it("R11 M2 R7 buffered signals and accepted updates wait in their order, before a crash and after", async () => {
    for (const crash of [false, true]) {
      const h = await loaded();
      if (crash) await h.recover();
      const [commit] = commits(await h.resolve("work"));
      expect(commit?.messages?.map((message) => (message.type === "fire" ? "fire" : message.name))).toEqual([
        "note", "note", "add", "read", "read", "slow", "read",
      ]); // biome-ignore format: one line reads best
      if (crash) await h.recover();
      expect([h.updateResult("u1"), h.updateResult("u2")]).toEqual([{ value: 111 }, { value: 111 }]);
      expect(h.updateResult("u3")).toBeUndefined();
      await h.resolve("work");
      if (crash) await h.recover();
      expect(h.updateResult("u3")).toEqual({ value: 1_111 });
      await h.signal("end");
      expect(h.output).toEqual({
        state: { sum: 1_111 },
        timedOut: false,
        notes: ["first", "second"].map((payload) => ({ name: "note", payload })),
      });
      await crashAnywhere(h);
    }
  });

  it("R11 R6 an update that was accepted before the commit fails if the receive stops first after it", async () => {
    const h = await Harness.start(entity());
    await h.signal("add", 1);
    await h.signal("slow", 10);
    await h.turn(h.signalJob("end"), h.updateJob("read", undefined, "u"));
    await h.recover();
    await h.resolve("work");
    expect(h.updateResult("u")).toMatchObject({ error: { name: "ReceiveClosedError" } });
    await crashAnywhere(h);
  });

  it("R11 messages of the activation that commits keep their order among each other and behind the older ones", async () => {
    const h = await Harness.start(entity());
    await h.signal("background", 10);
    await h.signal("add", 1);
    await h.signal("add", 2);
    await h.turn(
      h.updateJob("read", undefined, "u1"),
      h.signalJob("add", 100),
      h.updateJob("unknown"),
      h.resolved("background"),
      h.updateJob("read", undefined, "u2"),
      h.signalJob("slow", 1_000),
      h.updateJob("read", undefined, "u3"),
    );
    await h.recover();
    await h.resolve("work");
    expect(["u1", "u2", "u3"].map((id) => h.updateResult(id))).toEqual([{ value: 13 }, { value: 113 }, { value: 1_113 }]);
    await crashAnywhere(h);
  });

  it("R11 R8 so does a timeout of that activation", async () => {
    const h = await Harness.start(entity());
    const seq = h.nextTimer as number;
    await h.signal("background", 10);
    await h.signal("add", 1);
    await h.turn(
      h.updateJob("read", undefined, "u1"),
      { type: "fire", seq },
      h.signalJob("note", 1),
      h.resolved("background"),
      h.updateJob("read", undefined, "u2"),
    );
    expect(h.updateResult("u1")).toEqual({ value: 11 });
    expect(h.updateResult("u2")).toMatchObject({ error: { name: "UpdateRejectedError" } });
    await h.recover();
    expect(h.output).toEqual({ state: { sum: 11 }, timedOut: true, notes: [{ name: "note", payload: 1 }] });
    await crashAnywhere(h);
  });

  it("R11 R8 a timeout that is pending at the commit still fires after a crash", async () => {
    const h = await Harness.start(entity());
    await h.signal("add", 1);
    await h.signal("add", 2);
    await h.recover();
    await h.fire();
    await h.fire();
    expect(h.output).toMatchObject({ state: { sum: 3 }, timedOut: true });
    await crashAnywhere(h);
  });

  it("R11 M2 signals buffered before the receive keep their place across many commits", async () => {
    const h = await Harness.start(entity());
    await h.signal("note", 0);
    for (let i = 1; i <= 9; i++) {
      await h.signal("add", 1);
      if (i % 4 === 0) await h.signal("note", i);
      if (i % 3 === 0) await h.recover();
    }
    await h.signal("end");
    expect(h.output).toMatchObject({ state: { sum: 9 }, notes: [{ payload: 0 }, { payload: 4 }, { payload: 8 }] });
    await crashAnywhere(h);
  });
});

describe("R11 where it can't", () => {
  function logged() {
    const warnings: string[] = [];
    const ignore = () => {};
    return { warnings, logger: { debug: ignore, info: ignore, error: ignore, warn: (message: string) => void warnings.push(message) } };
  }

  it("R11 L3 beside another operation of the root it runs on without a commit, and says so once", async () => {
    const { warnings, logger } = logged();
    const wf = workflow("beside", async (ctx) => {
      const other = ctx.step("other", () => 0);
      const { state } = await ctx.receive(0, {
        signals: { add: (payload: number, sum) => Receive.noreply(sum + payload), end: (_payload, sum) => Receive.stop(sum) },
        checkpointEvery: 1,
      });
      return [state, await other];
    });
    const h = await Harness.start(wf, undefined, { logger });
    for (let i = 0; i < 3; i++) await h.signal("add", 1);
    expect(commits(h.commands)).toEqual([]);
    expect(warnings).toHaveLength(1);
    await h.resolve("other", "done");
    await h.signal("end");
    expect(h.output).toEqual([3, "done"]);
    await crashAnywhere(h);
  });

  it("R11 L5 no commit passes a step whose rollback may still run", async () => {
    const wf = workflow("saga", async (ctx) =>
      ctx.receive(0, {
        signals: {
          book: async (_payload, n, handler) => {
            await handler.step("book", () => "seat", { rollback: () => {} });
            return Receive.noreply(n + 1);
          },
          settle: (_payload, n, handler) => {
            handler.rollbackCheckpoint("settled");
            return Receive.noreply(n);
          },
        },
        checkpointEvery: 1,
      }),
    );
    const h = await Harness.start(wf);
    await h.signal("book");
    expect(commits(await h.resolve("book", "seat"))).toEqual([]);
    expect(commits(await h.signal("settle"))).toHaveLength(1);
    await crashAnywhere(h);
  });
});

describe("R11 two receives", () => {
  it("R11 each commits for itself; the second starts from its own state after a crash", async () => {
    const wf = workflow("two", async (ctx) => {
      const phase = (name: string) =>
        ctx.receive([name], {
          signals: {
            add: (payload: string, all) => Receive.noreply([...all, payload]),
            next: (_payload, all) => Receive.stop(all),
          },
          checkpointEvery: 2,
        });
      const first = await phase("one");
      const between = await ctx.step("between", () => 0);
      const second = await phase("two");
      return [first.state, between, second.state];
    });
    const h = await Harness.start(wf);
    for (const payload of ["a", "b", "c"]) await h.signal("add", payload);
    await h.signal("next");
    await h.signal("add", "d");
    await h.resolve("between", "x");
    await h.recover();
    for (const payload of ["e", "f"]) await h.signal("add", payload);
    await h.recover();
    await h.signal("next");
    expect(h.output).toEqual([["one", "a", "b", "c"], "x", ["two", "d", "e", "f"]]);
    await crashAnywhere(h);
  });
});
