// Job: forks on every store: what the new run has of its source, what it does anew, and what is refused (F1 to F5).
// Owns: nothing.
// Invariants: every source is compared with itself before and after.

import {
  type AnyWorkflow,
  activity,
  type Codec,
  FatalError,
  type History,
  InvalidInputError,
  jsonCodec,
  Loop,
  Receive,
  replay,
  signal,
  update,
  workflow,
} from "@holdfast/core";
import { type ForkOptions, type Holdfast, type Run, RunAlreadyExistsError, RunNotFoundError } from "holdfast";
import { describe, expect, test } from "vitest";
import { enginesOn, errorOf, Gate, STORES, until } from "./engines.ts";

/** Everything of a run that a fork could change. */
async function everythingOf(run: Run<unknown>): Promise<string> {
  const { availableAt: _, ...info } = await run.describe();
  return JSON.stringify([info, await run.history(), await run.operations(), await run.state()]);
}
/** Forks, and makes sure that nothing of the source has changed. */
async function forked<R extends Run<unknown>>(run: R, options: ForkOptions): Promise<R> {
  const before = await everythingOf(run);
  const fork = await run.fork(options);
  expect(await everythingOf(run)).toBe(before);
  return fork as R;
}
const jobsOf = (history: History, turn: number): { type: string }[] => (history.turns[turn] as { jobs: { type: string }[] }).jobs;
const sleeping = (run: Run<unknown>): Promise<unknown> =>
  until(async () => (await run.describe()).status === "sleeping", "the run to wait");

describe.each(STORES)("forks on %s", (store) => {
  const engines = enginesOn(store);

  async function running(...workflows: AnyWorkflow[]): Promise<Holdfast> {
    const engine = await engines.open();
    await engine.worker({ workflows });
    return engine;
  }

  test("F1 F2 a fork keeps what was settled before the operation, and does the rest anew as itself", async () => {
    const calls: string[] = [];
    const order = workflow("order", async (ctx) => {
      const seen = [ctx.run.id];
      const early = ctx.uuid();
      await ctx.step("reserve", ({ idempotencyKey }) => void calls.push(idempotencyKey));
      seen.push(ctx.run.id);
      const late = ctx.uuid();
      await ctx.step("charge", ({ idempotencyKey }) => void calls.push(idempotencyKey));
      return { seen, early, late, attempt: ctx.run.attempt };
    });
    const engine = await running(order);
    const source = await engine.start(order, undefined, { id: "order-1", attributes: { plan: "pro" }, priority: 3 });
    const result = await source.result();
    const fork = await forked(source, { before: "charge", id: "order-2" });
    const again = await fork.result();
    expect(again).toEqual({ seen: ["order-1", "order-2"], early: result.early, late: expect.any(String), attempt: 1 });
    expect(again.late).not.toBe(result.late);
    const [reserve, charge, anew, ...more] = calls;
    expect(more).toEqual([]);
    expect([reserve?.includes("order-1"), charge?.includes("order-1"), anew?.includes("order-2")]).toEqual([true, true, true]);
    const info = await fork.describe();
    expect(info).toMatchObject({
      forkedFrom: "order-1",
      attributes: { plan: "pro" },
      priority: 3,
      parentId: undefined,
      status: "completed",
    });
    expect((await source.describe()).forkedFrom).toBeUndefined();
    const history = await fork.history();
    expect(jobsOf(history, 1).map(({ type }) => type)).toEqual(["fork", "resolve"]);
    expect(history.run).toMatchObject({ id: "order-2", workflow: "order" });
    await replay(order, history);
    expect((await fork.operations()).map(({ location, status }) => [location, status])).toEqual([
      ["reserve", "completed"],
      ["charge", "completed"],
    ]);
  });

  test("F1 F2 a fork before the first operation, and of a run without a first turn, is a fresh start", async () => {
    const draw = workflow("draw", async (ctx, from: number) => {
      const drawn = ctx.uuid();
      await ctx.step("first", () => from);
      return { id: ctx.run.id, drawn, from };
    });
    const engine = await engines.open();
    const source = await engine.start(draw, 7, { id: "draw-1" });
    const fresh = await forked(source, { before: "anywhere", id: "draw-2" });
    await engine.worker({ workflows: [draw] });
    const results = [await source.result(), await fresh.result()];
    const again = await forked(source, { before: "first", id: "draw-3" });
    results.push(await again.result());
    expect(results.map(({ id, from }) => [id, from])).toEqual([["draw-1", 7], ["draw-2", 7], ["draw-3", 7]]); // biome-ignore format: a list
    expect(new Set(results.map(({ drawn }) => drawn)).size).toBe(3);
    expect(jobsOf(await again.history(), 0)).toMatchObject([{ type: "start", runId: "draw-3" }]);
    await replay(draw, await again.history());
  });

  test("F1 D12 a step that the copied turns left open begins with attempt 1, and one that they settled does not run again", async () => {
    const gate = new Gate();
    const attempts: string[] = [];
    const both = workflow("both", async (ctx) => {
      const slow = ctx.step("slow", async ({ attempt, idempotencyKey }) => {
        attempts.push(`${idempotencyKey.includes("both-1") ? "source" : "fork"} ${attempt}`);
        if (idempotencyKey.includes("both-1")) await gate.passed;
      });
      await ctx.step("quick", () => void attempts.push("quick"));
      await ctx.step("then", () => void attempts.push("then"));
      await slow;
      return "done";
    });
    const engine = await running(both);
    const source = await engine.start(both, undefined, { id: "both-1" });
    await until(() => attempts.includes("then"));
    const fork = await engine.run("both-1").fork({ before: "then", id: "both-2" });
    expect(await fork.result()).toBe("done");
    expect(attempts.filter((one) => one.startsWith("fork"))).toEqual(["fork 1"]);
    expect(attempts.filter((one) => one === "quick")).toEqual(["quick"]);
    const slow = (await fork.operations()).find(({ location }) => location === "slow");
    expect(slow).toMatchObject({ status: "completed", attempts: [{ number: 1, status: "completed" }] });
    gate.open();
    expect(await source.result()).toBe("done");
  });

  test("F1 open activities are queued again, and timers end at their time", async () => {
    const done: string[] = [];
    const pack = activity("pack", async (what: string, { idempotencyKey }) => {
      done.push(idempotencyKey);
      return `${what} packed`;
    });
    const parcel = workflow({ name: "parcel", signals: { go: signal<string>() } }, async (ctx) => {
      const packed = ctx.activity(pack, "lamp");
      const slept = ctx.sleep("10ms");
      await ctx.waitForSignal("go");
      await ctx.step("label", () => "label");
      await slept;
      return await packed;
    });
    const engine = await engines.open();
    const worker = await engine.worker({ workflows: [parcel] });
    const source = await engine.start(parcel, undefined, { id: "parcel-1" });
    await source.signal("go", "now");
    await until(async () => (await source.operations()).some(({ location }) => location === "label"));
    const fork = await source.fork({ before: "label", id: "parcel-2" });
    await worker.stop();
    await engine.worker({ workflows: [parcel], activities: [pack] });
    expect([await source.result(), await fork.result()]).toEqual(["lamp packed", "lamp packed"]);
    expect(done.map((key) => key.includes("parcel-1") || key.includes("parcel-2"))).toEqual([true, true]);
    expect(new Set(done).size).toBe(2);
    await replay(parcel, await fork.history());
  });

  test("F1 open children run under ids of the fork, also where code has used the id before, and nothing reaches those of the source", async () => {
    const ship = workflow(
      { name: "ship", signals: { leave: signal<string>() } },
      async (ctx) => `left by ${await ctx.waitForSignal("leave")}`,
    );
    const note = activity("note", async (id: string) => `noted ${id}`);
    const port = workflow({ name: "port", signals: { go: signal<string>() } }, async (ctx) => {
      const joined = ctx.child(ship, undefined);
      const started = await ctx.startChild(ship, undefined);
      await ctx.activity(note, started.id);
      await started.signal("leave", "nobody");
      await ctx.waitForSignal("go");
      await ctx.step("flag", () => "flag");
      await ctx.signalRun(`${ctx.run.id}/ship`, "leave", ctx.run.id);
      return [started.id, await started.result(), await joined];
    });
    const engine = await engines.open();
    await engine.worker({ workflows: [port], activities: [note] });
    const source = await engine.start(port, undefined, { id: "port-1" });
    await until(async () => (await source.describe()).waitingFor.some((one) => one.includes("signal go")));
    await source.signal("go", "now");
    await until(async () => (await source.operations()).some(({ location }) => location === "flag"));
    const fork = await source.fork({ before: "flag", id: "port-2" });
    await until(async () => (await engine.list({ parentId: "port-2" })).runs.length === 2);
    expect((await engine.list({ parentId: "port-2" })).runs.map(({ id }) => id).toSorted()).toEqual(["port-2/ship", "port-2/ship#1"]);
    const copied = (await fork.operations()).filter(({ kind }) => kind === "child");
    expect(copied.map(({ childId }) => childId)).toEqual(["port-2/ship", "port-2/ship#1"]);
    await engine.worker({ workflows: [ship] });
    expect(await source.result()).toEqual(["port-1/ship#1", "left by nobody", "left by port-1"]);
    // The signal to the first child of the fork was sent by a copied turn, to the child of the source.
    await engine.run("port-2/ship#1").signal("leave", "the test");
    expect(await fork.result()).toEqual(["port-2/ship#1", "left by the test", "left by port-2"]);
    await replay(port, await fork.history());
  });

  test("F1 a fork of a fork, resumed and continued as new, replays", async () => {
    let isBroken = true;
    const chain = workflow("chain", async (ctx, input: { round: number; draws: string[] }) => {
      const draws = [...input.draws, ctx.uuid()];
      await ctx.step("a", () => "a");
      draws.push(ctx.uuid());
      await ctx.step("b", () => {
        if (isBroken && ctx.run.id !== "chain-1") throw new FatalError("broken");
      });
      draws.push(ctx.uuid());
      await ctx.step("c", () => "c");
      return input.round === 0 ? { id: ctx.run.id, draws } : ctx.continueAsNew({ round: input.round - 1, draws });
    });
    const engine = await running(chain);
    const source = await engine.start(chain, { round: 0, draws: [] }, { id: "chain-1" });
    const original = await source.result();
    const second = await forked(source, { before: "b", id: "chain-2" });
    await errorOf(second.result());
    isBroken = false;
    await second.resume();
    const resumed = await second.result();
    expect(resumed.draws[0]).toBe(original.draws[0]);
    expect(resumed.draws.slice(1)).not.toContain(original.draws[1]);
    await replay(chain, await second.history());
    const third = await forked(second, { before: "c", id: "chain-3" });
    const again = await third.result();
    expect(again).toEqual({ id: "chain-3", draws: [original.draws[0], resumed.draws[1], expect.any(String)] });
    expect(again.draws[2]).not.toBe(resumed.draws[2]);
    await replay(chain, await third.history());
    const long = await engine.start(chain, { round: 1, draws: [] }, { id: "chain-4" });
    const both = await long.result();
    const newest = await forked(long, { before: "a", id: "chain-5" });
    const newer = await newest.result();
    expect([newer.id, newer.draws.slice(0, 3)]).toEqual(["chain-5", both.draws.slice(0, 3)]);
    expect(newer.draws.slice(3)).not.toContain(both.draws[3]);
  });

  test("F1 a run that was resumed is forked in the turn of its resume", async () => {
    let isBroken = true;
    const ran: string[] = [];
    const flaky = workflow("flaky", async (ctx) => {
      await ctx.step("a", () => void ran.push(`a of ${ctx.run.id}`));
      await ctx.step("b", () => {
        if (isBroken) throw new FatalError("broken");
      });
      await ctx.step("c", () => void ran.push(`c of ${ctx.run.id}`));
      return ctx.run.id;
    });
    const engine = await running(flaky);
    const source = await engine.start(flaky, undefined, { id: "flaky-1" });
    await errorOf(source.result());
    isBroken = false;
    await source.resume();
    expect(await source.result()).toBe("flaky-1");
    for (const before of ["b", "c"]) {
      const fork = await forked(source, { before, id: `flaky-${before}` });
      expect(await fork.result()).toBe(`flaky-${before}`);
      await replay(flaky, await fork.history());
    }
    expect(ran.filter((one) => one.startsWith("a"))).toEqual(["a of flaky-1"]);
  });

  test("F1 V4 a blocked run is forked like any other, with code that fits", async () => {
    const first = workflow({ name: "changing", version: "1", signals: { go: signal<string>() } }, async (ctx) => {
      await ctx.step("a", () => 1);
      await ctx.waitForSignal("go");
      await ctx.step("b", () => 2);
      return "old";
    });
    const broken = workflow({ name: "changing", version: "1" }, async (ctx) => {
      await ctx.step("z", () => 1);
      return "broken";
    });
    const fixed = workflow({ name: "changing", version: "2" }, async (ctx) => {
      await ctx.step("a", () => 1);
      await ctx.step("other", () => 3);
      return `new ${ctx.version}`;
    });
    const engine = await engines.open();
    const worker = await engine.worker({ workflows: [first] });
    const source = await engine.start(first, undefined, { id: "changing-1" });
    await until(async () => (await source.operations()).length > 1);
    await worker.stop();
    await engine.worker({ workflows: [broken] });
    await source.signal("go", "now");
    await until(async () => (await source.describe()).status === "blocked");
    await engine.worker({ workflows: [fixed] });
    const fork = await forked(source, { before: "go", id: "changing-2", version: "2" });
    expect(await fork.result()).toBe("new 2");
    expect((await fork.describe()).version).toBe("2");
  });

  const inbox = workflow(
    { name: "inbox", signals: { word: signal<string>() }, updates: { add: update<string, number>() } },
    async (ctx) => {
      const words: string[] = [];
      ctx.publishState("empty");
      words.push(await ctx.waitForSignal("word"));
      ctx.publishState(words.join(" "));
      await ctx.step("between", () => 0);
      for (const _ of [1, 2]) words.push(await ctx.waitForSignal("word"));
      ctx.publishState(words.join(" "));
      const { state } = await ctx.receive(0, { updates: { add: (text, n) => Receive.stop(n + text.length, n + 1) } });
      return { words, state };
    },
  );

  test("F3 signals that the source got later follow in order, and updates never", async () => {
    const engine = await running(inbox);
    const source = await engine.start(inbox, undefined, { id: "inbox-1" });
    for (const word of ["one", "two", "three", "four"]) await source.signal("word", word, { idempotencyKey: `key of ${word}` });
    expect(await source.update("add", "x", { acceptWithin: "10s" })).toBe(1);
    expect(await source.result()).toEqual({ words: ["one", "two", "three"], state: 1 });
    const fork = await forked(source, { before: "between", id: "inbox-2" });
    await until(async () => (await fork.state()) === "one two three");
    await sleeping(fork);
    expect(await fork.update("add", "xyz")).toBe(3);
    expect(await fork.result()).toEqual({ words: ["one", "two", "three"], state: 1 });
    await replay(inbox, await fork.history());
    const earliest = await forked(source, { before: "signal", id: "inbox-3" }).catch((error: Error) => error.message);
    expect(earliest).toMatch(/no operation at "signal"/);
  });

  test("F3 M3 without the later signals the state is that at the cut, and keys that were used stay used", async () => {
    const engine = await running(inbox);
    const source = await engine.start(inbox, undefined, { id: "inbox-1" });
    await source.signal("word", "one", { idempotencyKey: "key of one" });
    await until(async () => (await source.describe()).waitingFor.some((one) => one.includes("word#1")));
    for (const word of ["two", "three"]) await source.signal("word", word);
    await until(async () => (await source.state()) === "one two three");
    const fork = await source.fork({ before: "word#1", id: "inbox-2", signals: "drop" });
    await sleeping(fork);
    expect(await fork.state()).toBe("one");
    await fork.signal("word", "again", { idempotencyKey: "key of one" });
    for (const word of ["four", "five"]) await fork.signal("word", word, { idempotencyKey: `key of ${word}` });
    await until(async () => (await fork.state()) === "one four five");
  });

  test("F3 a deadline is as long as that of the source, from now, and parent, schedule and idempotency key stay with the source", async () => {
    const leaf = workflow({ name: "leaf", signals: { end: signal<string>() } }, async (ctx) => {
      await ctx.step("grow", () => 0);
      await ctx.waitForSignal("end");
      return ctx.run.parentId;
    });
    const tree = workflow("tree", async (ctx) => ctx.child(leaf, undefined, { deadline: "1h" }));
    const engine = await running(leaf, tree);
    const run = await engine.start(tree, undefined, { id: "tree", idempotencyKey: "once" });
    const source = await until(async () => {
      const child = engine.run("tree/leaf", leaf);
      return (await child.operations().catch(() => [])).length > 1 ? child : undefined;
    });
    const fork = await forked(source, { before: "end", id: "cutting" });
    const info = await fork.describe();
    expect(info.parentId).toBeUndefined();
    expect((info.deadlineAt?.getTime() ?? 0) - info.createdAt.getTime()).toBe(3_600_000);
    await fork.signal("end", "now");
    expect(await fork.result()).toBeUndefined();
    await source.signal("end", "now");
    expect(await run.result()).toBe("tree");
    expect((await engine.start(tree, undefined, { idempotencyKey: "once" })).id).toBe("tree");
  });

  test("F3 E1 queue, key and priority are those of the source, and values that only a codec can read are copied", async () => {
    const codec: Codec = {
      encode: (value) => Buffer.from(`x${String(jsonCodec.encode(value))}`),
      decode: (payload) =>
        jsonCodec.decode(
          Buffer.from(payload as Uint8Array)
            .toString()
            .slice(1),
        ),
    };
    const flow = workflow({ name: "flow", signals: { go: signal<string>() } }, async (ctx) => {
      await ctx.step("a", () => "a");
      const cause = await ctx
        .step("b", () => {
          throw new FatalError("secret");
        })
        .catch((error: Error) => String((error.cause as Error).message));
      await ctx.step("c", () => cause);
      return [ctx.run.id, ctx.run.key, cause, await ctx.waitForSignal("go")];
    });
    const engine = await engines.open({ codec });
    await engine.worker({ workflows: [flow], queue: "press" });
    const source = await engine.start(flow, undefined, { id: "flow-1", key: "acme", queue: "press", priority: 2 });
    await source.signal("go", "now");
    expect(await source.result()).toEqual(["flow-1", "acme", "secret", "now"]);
    for (const before of ["a", "b", "c", "go"]) {
      const fork = await forked(source, { before, id: `flow-${before}` });
      expect(await fork.result()).toEqual([`flow-${before}`, "acme", "secret", "now"]);
      expect(await fork.describe()).toMatchObject({ key: "acme", queue: "press", priority: 2, forkedFrom: "flow-1" });
      await replay(flow, await fork.history(), { codec });
    }
  });

  const saga = workflow({ name: "saga", signals: { go: signal<boolean>() } }, async (ctx) => {
    await ctx.step("reserve", () => "seat", { rollback: () => void undone.push(`reserve by ${ctx.run.id}`) });
    const fails = await ctx.waitForSignal("go");
    await ctx.step("charge", () => "paid", { rollback: () => void undone.push(`charge by ${ctx.run.id}`) });
    if (fails) throw new FatalError("no");
    return ctx.run.id;
  });
  const undone: string[] = [];

  test("F4 rollbacks of copied steps are those of the fork only if the source is closed and did not roll back", async () => {
    undone.length = 0;
    const engine = await running(saga);
    const source = await engine.start(saga, undefined, { id: "saga-1" });
    await until(async () => (await source.operations()).some(({ location }) => location === "go"));
    const ofOpen = await source.fork({ before: "go", id: "of-open" });
    await ofOpen.signal("go", true);
    await errorOf(ofOpen.result());
    expect(undone).toEqual(["charge by of-open"]);
    await replay(saga, await ofOpen.history());
    await source.signal("go", false);
    expect(await source.result()).toBe("saga-1");
    const ofClosed = await forked(source, { before: "go", id: "of-closed", signals: "drop" });
    await ofClosed.signal("go", true);
    await errorOf(ofClosed.result());
    expect(undone.splice(0)).toEqual(["charge by of-open", "charge by of-closed", "reserve by of-closed"]);
    await replay(saga, await ofClosed.history());
    const ofUndone = await forked(ofClosed, { before: "go", id: "of-undone", signals: "drop" });
    await ofUndone.signal("go", true);
    await errorOf(ofUndone.result());
    expect(undone).toEqual(["charge by of-undone"]);
    const after = await forked(ofClosed, { before: "~rollback/reserve", id: "amid" });
    await errorOf(after.result());
    expect(undone).toEqual(["charge by of-undone"]);
  });

  test("F5 a location that is unknown, a taken id and an unknown run are refused, and nothing is written", async () => {
    const steps = workflow("steps", async (ctx) => {
      await ctx.step("charge", () => 1);
      await ctx.step("refund", () => 2);
    });
    const engine = await running(steps);
    const source = await engine.start(steps, undefined, { id: "steps-1" });
    await source.result();
    const refused = await errorOf(forked(source, { before: "chrage", id: "steps-2" }));
    expect(refused).toBeInstanceOf(InvalidInputError);
    expect(refused.message).toMatch(/before: .*no operation at "chrage".*nearest is "charge"/s);
    expect(await errorOf(forked(source, { before: "refund", id: "steps-1" }))).toBeInstanceOf(RunAlreadyExistsError);
    expect(await errorOf(engine.run("missing").fork({ before: "x" }))).toBeInstanceOf(RunNotFoundError);
    for (const options of [
      { before: "" },
      { before: 7 },
      { before: "refund", signals: "some" },
      { before: "refund", ID: "x" },
      undefined,
    ]) {
      expect(await errorOf(source.fork(options as never))).toBeInstanceOf(InvalidInputError);
    }
    expect((await engine.list()).runs.map(({ id }) => id)).toEqual(["steps-1"]);
  });

  test("F5 an open child with an id that the code gave is refused", async () => {
    const leaf = workflow({ name: "leaf", signals: { end: signal<string>() } }, async (ctx) => ctx.waitForSignal("end"));
    const tree = workflow("tree", async (ctx) => {
      await ctx.startChild(leaf, undefined, { id: "one-leaf" });
      await ctx.step("water", () => 0);
    });
    const engine = await running(tree, leaf);
    const source = await engine.start(tree, undefined, { id: "tree-1" });
    await source.result();
    const refused = await errorOf(forked(source, { before: "water", id: "tree-2" }));
    expect(refused).toBeInstanceOf(InvalidInputError);
    expect(refused.message).toMatch(/child at "leaf" .* id "one-leaf"/);
    expect((await errorOf(engine.run("tree-2").describe())).name).toBe("RunNotFoundError");
  });

  test("F5 L4 what can't be replayed up to because records were trimmed is refused, also kept iterations, and the nearest is named", async () => {
    const count = workflow("count", async (ctx) => {
      await ctx.step("before", () => 0);
      const options = { name: "rounds", state: 0, commitInterval: 5, historyEvery: 5, historyKeep: 3 };
      const sum = await ctx.loop(options, async (iteration, n) => {
        await iteration.step("add", () => n);
        return n === 22 ? Loop.break(n) : Loop.continue(n + 1);
      });
      await ctx.step("after", () => sum);
      return `${ctx.run.id} ${sum}`;
    });
    const engine = await running(count);
    const source = await engine.start(count, undefined, { id: "count-1" });
    await source.result();
    const kept = (await source.operations()).map(({ location }) => location).filter((location) => location.includes("add"));
    expect(kept).toEqual([17, 18, 19, 20, 21, 22].map((i) => `rounds/~${i}/add`));
    const refused = await errorOf(forked(source, { before: "rounds/~18/add" }));
    expect(refused.message).toMatch(/Records before "rounds\/~18\/add" were trimmed.*nearest is "rounds\/~21\/add"/s);
    const unknown = await errorOf(forked(source, { before: "rounds/~2/add" }));
    expect(unknown.message).toMatch(/no operation at "rounds\/~2\/add".*nearest is "rounds\/~2[12]\/add"/s);
    for (const before of ["before", "rounds", "rounds/~0/add", "rounds/~21/add", "rounds/~22/add", "after"]) {
      const fork = await forked(source, { before, id: `fork ${before}` }).catch((error: Error) => error);
      if (fork instanceof Error) expect([before, fork.message]).toEqual(["rounds/~0/add", expect.stringMatching(/no operation at/)]);
      else expect(await fork.result()).toBe(`fork ${before} 22`);
    }
  });
});
