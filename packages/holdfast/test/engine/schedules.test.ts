// Job: prove what schedules do, on every store.
// Owns: the workflows in it, and the times at which they start.
// Invariants: T1–T9.

import { type Codec, InvalidInputError, jsonCodec, ScheduleNotFoundError, signal, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { StoreRefusedError } from "../../src/store/errors.ts";
import { type Engines, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const report = workflow("report", async (ctx, input?: string) => ({ input, tick: ctx.run.tick, id: ctx.run.id }));
const waits = workflow({ name: "waits", signals: { go: signal<string>() } }, async (ctx) => ctx.waitForSignal("go"));

const iso = (time: number): string => `${new Date(time).toISOString().slice(0, 19)}Z`;
const idsOf = async (engine: Awaited<ReturnType<Engines["open"]>>, workflowName?: string): Promise<string[]> => {
  const { runs } = await engine.list({ limit: 1_000, ...(workflowName !== undefined && { workflow: workflowName }) });
  return runs.map(({ id }) => id).toSorted();
};

describe.each(STORES)("schedules on %s", (store) => {
  const engines = enginesOn(store);
  /** The next multiple of this length, by the clock of the stores. */
  const next = (every: number): number => (Math.floor(engines.now() / every) + 1) * every;
  /** It is this moment, or a little later. */
  const skipTo = (time: number): void => engines.skip(Math.max(0, time - engines.now()));

  test("T1 T2 a tick starts a run under its id, with schedule and tick, within a second and never early", async () => {
    const engine = await engines.open({ skips: true });
    await engine.worker({ workflows: [report] });
    await engine.schedules.set("daily", {
      workflow: report,
      input: "all",
      cron: "@hourly",
      start: { attributes: { by: "clock" }, priority: 3 },
    });
    const tick = next(HOUR);
    skipTo(tick - 1_500);
    const info = await until(async () => {
      const { runs } = await engine.list();
      return runs[0];
    }, "the tick");
    expect(info).toMatchObject({
      id: `daily@${iso(tick)}`,
      schedule: "daily",
      tick: new Date(tick),
      attributes: { by: "clock" },
      priority: 3,
    });
    expect(info.createdAt.getTime()).toBeGreaterThanOrEqual(tick);
    expect(info.createdAt.getTime()).toBeLessThan(tick + 1_000);
    expect(await engine.run(info.id).result()).toEqual({ input: "all", tick: new Date(tick), id: info.id });
    expect(await engine.schedules.get("daily")).toMatchObject({
      ...{
        id: "daily",
        workflow: "report",
        input: "all",
        cron: "@hourly",
        every: undefined,
        timezone: "UTC",
        overlap: "skip",
        paused: false,
      },
      ...{ lastRunId: info.id, lastTick: new Date(tick), missed: 0 },
      nextRuns: [1, 2, 3, 4, 5].map((n) => new Date(tick + n * HOUR)),
    });
  });
  test("T1 T2 any open engine ticks, also without a worker; of several one starts the run", async () => {
    const engine = await engines.open({ skips: true });
    const all = [engine, await engines.open({ skips: true }), await engines.open({ skips: true })];
    for (const one of all) await one.schedules.set("s", { workflow: "report", every: "1h", overlap: "allow" });
    const first = next(HOUR);
    skipTo(first + 3 * HOUR);
    const ids = [0, 1, 2, 3].map((n) => `s@${iso(first + n * HOUR)}`);
    await until(async () => (await idsOf(engine)).length === 4, "the ticks");
    expect(await idsOf(engine)).toEqual(ids);
    await engine.worker({ workflows: [report] });
    expect(await engine.run(ids[0] as string).result()).toMatchObject({ tick: new Date(first) });
  });
  test("T5 what came while no engine was open is caught up in order, within catchUp; older ticks are missed", async () => {
    const before = await engines.open({ skips: true });
    await before.schedules.set("s", { workflow: report, every: "1h", catchUp: "3h", overlap: "allow" });
    const first = next(HOUR);
    await before.close();
    skipTo(first + 9 * HOUR + 30 * MINUTE);
    const engine = await engines.open({ skips: true });
    await engine.worker({ workflows: [report] });
    await until(async () => (await engine.schedules.get("s")).missed > 0, "the catch-up");
    await until(async () => (await idsOf(engine)).length === 3);
    expect(await idsOf(engine)).toEqual([7, 8, 9].map((n) => `s@${iso(first + n * HOUR)}`));
    const { runs } = await engine.list();
    expect(runs.map(({ id }) => id)).toEqual([9, 8, 7].map((n) => `s@${iso(first + n * HOUR)}`)); // newest first
    expect(await engine.schedules.get("s")).toMatchObject({ missed: 7, lastTick: new Date(first + 9 * HOUR) });
    expect(engines.log.filter(({ level }) => level === "warn").map(({ message }) => message)).toContainEqual(
      expect.stringContaining('Schedule "s" missed 7 ticks'),
    );
  });
  test("T5 T6 overlap applies to what is caught up: with skip one of them starts", async () => {
    const before = await engines.open({ skips: true });
    await before.schedules.set("s", { workflow: waits, every: "1h" });
    const first = next(HOUR);
    await before.close();
    skipTo(first + 4 * HOUR);
    const engine = await engines.open({ skips: true });
    await until(async () => (await engine.schedules.get("s")).missed === 4, "the catch-up");
    expect(await idsOf(engine)).toEqual([`s@${iso(first)}`]);
    expect(await engine.schedules.get("s")).toMatchObject({ lastTick: new Date(first), lastRunId: `s@${iso(first)}` });
  });
  test("T5 the clock is set back by 90 minutes: no tick repeats, and none is lost", async () => {
    const engine = await engines.open({ skips: true });
    await engine.schedules.set("s", { workflow: report, every: "30m", overlap: "allow" });
    const first = next(30 * MINUTE);
    skipTo(first + HOUR);
    await until(async () => (await idsOf(engine)).length === 3, "three ticks");
    engines.skip(-90 * MINUTE);
    const other = await engines.open({ skips: true }); // one that has not seen the later time
    await engine.schedules.set("other", { workflow: report, every: "30m", overlap: "allow" });
    const tick = next(30 * MINUTE);
    skipTo(tick);
    await until(async () => (await idsOf(other)).length === 4, "the tick of the other schedule");
    expect((await idsOf(other)).filter((id) => id.startsWith("s@"))).toHaveLength(3);
    skipTo(first + 90 * MINUTE);
    await until(async () => (await idsOf(other)).includes(`s@${iso(first + 90 * MINUTE)}`), "the next tick");
    expect((await idsOf(other)).filter((id) => id.startsWith("s@"))).toHaveLength(4);
  });
  test("T6 cancel-previous: the run of the last tick is canceled", async () => {
    const engine = await engines.open({ skips: true });
    await engine.worker({ workflows: [waits] });
    await engine.schedules.set("s", { workflow: waits, every: "1h", overlap: "cancel-previous" });
    const first = next(HOUR);
    skipTo(first);
    await until(async () => (await engine.list({ status: "sleeping" })).runs.length === 1, "the first run");
    skipTo(first + HOUR);
    const error = await errorOf(engine.run(`s@${iso(first)}`).result());
    expect([error.name, error.message]).toEqual(["CanceledError", expect.stringContaining(`s@${iso(first + HOUR)}`)]);
    await until(async () => (await idsOf(engine)).length === 2);
    expect(await engine.schedules.get("s")).toMatchObject({ lastRunId: `s@${iso(first + HOUR)}`, missed: 0 });
  });

  test("T6 Q10 queue: a tick begins when the run of the last tick has ended", async () => {
    const engine = await engines.open({ skips: true });
    await engine.worker({ workflows: [waits] });
    await engine.schedules.set("s", { workflow: waits, every: "1h", overlap: "queue" });
    const first = next(HOUR);
    const id = (n: number): string => `s@${iso(first + n * HOUR)}`;
    skipTo(first + 2 * HOUR);
    await until(async () => (await idsOf(engine)).length === 3, "three ticks");
    await until(async () => (await engine.run(id(0)).describe()).status === "sleeping", "the first run");
    for (const n of [1, 2]) expect(await engine.run(id(n)).describe()).toMatchObject({ status: "pending", startedAt: undefined });
    for (const n of [0, 1, 2]) {
      await until(async () => (await engine.run(id(n)).describe()).status === "sleeping", `run ${n}`);
      if (n < 2) expect((await engine.run(id(n + 1)).describe()).status).toBe("pending");
      await engine.run(id(n), waits).signal("go", "on");
      expect(await engine.run(id(n)).result()).toBe("on");
    }
    expect(await engine.schedules.get("s")).toMatchObject({ missed: 0, lastRunId: id(2) });
  });
  test("T6 Q10 cancel-previous: this tick begins when the run before has cleaned up, also if ticks in between never began", async () => {
    const cleaned = new Gate();
    const cleans = workflow("cleans", async (ctx) => {
      try {
        await ctx.waitForSignal("never");
      } finally {
        await ctx.shield((shielded) => shielded.step("clean", () => cleaned.passed));
      }
    });
    const engine = await engines.open({ skips: true });
    await engine.worker({ workflows: [cleans] });
    await engine.schedules.set("s", { workflow: cleans, every: "1h", overlap: "cancel-previous" });
    const first = next(HOUR);
    const id = (n: number): string => `s@${iso(first + n * HOUR)}`;
    skipTo(first);
    await until(async () => (await engine.list({ status: "sleeping" })).runs.length === 1, "the first run");
    skipTo(first + 2 * HOUR);
    await until(async () => (await idsOf(engine)).length === 3, "three ticks");
    await until(async () => (await engine.run(id(1)).describe()).status === "canceled", "the end of the second, which never began");
    expect(await engine.run(id(2)).describe()).toMatchObject({ status: "pending", startedAt: undefined });
    cleaned.open();
    await until(async () => (await engine.run(id(2)).describe()).status === "sleeping", "the third run");
    expect((await engine.run(id(0)).describe()).status).toBe("canceled");
  });

  test("T7 an equal spec changes nothing: values are compared decoded, lengths of time by what they are", async () => {
    const wire = new Wire();
    let changes = 0;
    wire.intercept("changeSchedule", (pass, change) => {
      changes++;
      return pass(change);
    });
    let salt = 0;
    /** As one that encrypts: the same value is never encoded twice in the same way. */
    const codec: Codec = {
      encode: (value) => `${++salt}:${jsonCodec.encode(value)}`,
      decode: (data) => jsonCodec.decode(String(data).slice(String(data).indexOf(":") + 1)),
    };
    const engine = await engines.open({ wire, codec });
    const input = { at: new Date(5), list: [1, new Map([["a", 1n]])] };
    const spec = {
      workflow: "report",
      input,
      every: "1h",
      catchUp: "60m",
      start: { signals: [{ name: "go", payload: new Set([1]) }] },
    } as const;
    await engine.schedules.set("s", spec);
    const [before, count] = [await engine.schedules.get("s"), changes];
    await engine.schedules.set("s", {
      ...spec,
      every: 3_600_000,
      catchUp: "1h",
      timezone: "UTC",
      overlap: "skip",
      start: { ...spec.start, queue: "default" },
    });
    expect([await engine.schedules.get("s"), changes]).toEqual([before, count]);
    expect(before.input).toEqual(input);
    expect(before.start?.signals).toEqual(spec.start.signals);
    await engine.schedules.set("s", { ...spec, input: { ...input, list: [] } });
    expect(changes).toBe(count + 1);
    expect((await engine.schedules.get("s")).input).toEqual({ ...input, list: [] });
  });
  test("T7 a changed pattern counts from now; any other change holds from the next tick and loses no catch-up", async () => {
    const before = await engines.open({ skips: true });
    await before.schedules.set("s", { workflow: report, input: "old", every: "1h", overlap: "allow" });
    await before.schedules.set("t", { workflow: report, input: "old", every: "1h", overlap: "allow" });
    const first = next(HOUR);
    await before.close();
    skipTo(first + 2 * HOUR);
    const wire = new Wire();
    const gate = new Gate();
    wire.intercept("expire", async (pass) => {
      await gate.passed;
      return pass();
    });
    const engine = await engines.open({ skips: true, wire });
    await engine.worker({ workflows: [report] });
    await engine.schedules.set("s", { workflow: report, input: "new", every: "1h", overlap: "allow" });
    await engine.schedules.set("t", { workflow: report, input: "new", cron: "@hourly", overlap: "allow" });
    gate.open();
    await until(async () => (await idsOf(engine)).length === 3, "the catch-up");
    for (const n of [0, 1, 2]) expect(await engine.run(`s@${iso(first + n * HOUR)}`).result()).toMatchObject({ input: "new" });
    expect((await engine.schedules.get("t")).nextRuns[0]).toEqual(new Date(next(HOUR)));
    expect(await engine.schedules.get("t")).toMatchObject({ missed: 0, lastTick: undefined });
  });
  test("T7 ticks while a schedule is paused are gone; a set does not resume it", async () => {
    const engine = await engines.open({ skips: true });
    await engine.schedules.set("s", { workflow: report, every: "1h", overlap: "allow" });
    await engine.schedules.pause("s");
    await engine.schedules.pause("s");
    await engine.schedules.set("s", { workflow: report, input: "other", every: "1h", overlap: "allow" });
    expect(await engine.schedules.get("s")).toMatchObject({ paused: true, nextRuns: [], input: "other" });
    skipTo(next(HOUR) + 3 * HOUR);
    await engine.schedules.set("t", { workflow: report, every: "1h", overlap: "allow" });
    await engine.schedules.resume("s");
    await engine.schedules.resume("s");
    const tick = next(HOUR);
    skipTo(tick);
    await until(async () => (await idsOf(engine)).length === 2, "the tick");
    expect(await idsOf(engine)).toEqual([`s@${iso(tick)}`, `t@${iso(tick)}`]);
    expect(await engine.schedules.get("s")).toMatchObject({ paused: false, missed: 0 });
  });
  test("T7 trigger starts a run now, whatever pause and overlap say, and leaves the last tick alone", async () => {
    const engine = await engines.open({ skips: true });
    await engine.worker({ workflows: [waits] });
    await engine.schedules.set("s", { workflow: waits, every: "1h", start: { signals: [{ name: "go", payload: "now" }] } });
    await engine.schedules.pause("s");
    const ids = [await engine.schedules.trigger("s"), await engine.schedules.trigger("s")];
    for (const id of ids) expect(id).toMatch(/^s![0-9a-f-]{36}$/);
    expect(await engine.run(ids[0] as string).result()).toBe("now");
    expect(await engine.run(ids[1] as string).describe()).toMatchObject({ schedule: "s", tick: undefined });
    expect(await engine.schedules.get("s")).toMatchObject({ lastRunId: undefined, lastTick: undefined, missed: 0 });
  });
  test("T7 backfill starts the ticks of a span that have no run, none after now", async () => {
    const engine = await engines.open({ skips: true });
    await engine.worker({ workflows: [report] });
    await engine.schedules.set("s", { workflow: report, every: "1h", overlap: "allow" });
    const last = next(HOUR) - HOUR;
    const at = (n: number): Date => new Date(last - n * HOUR);
    const expected = (...ns: number[]): string[] => ns.map((n) => `s@${iso(last - n * HOUR)}`);
    expect(await engine.schedules.backfill("s", { from: at(2), to: at(2) })).toEqual(expected(2));
    expect(await engine.schedules.backfill("s", { from: at(3), to: new Date(last + 5 * HOUR) })).toEqual(expected(3, 1, 0));
    expect(await engine.schedules.backfill("s", { from: at(3), to: at(0) })).toEqual([]);
    expect(await engine.run(expected(1)[0] as string).result()).toMatchObject({ tick: at(1) });
    expect(await engine.schedules.get("s")).toMatchObject({ lastRunId: undefined, lastTick: undefined, missed: 0 });
    const error = await errorOf(engine.schedules.backfill("s", { from: at(10_000), to: at(0) }));
    expect([error.name, error.message]).toEqual(["InvalidInputError", expect.stringContaining("10,000")]);
    expect(await idsOf(engine)).toHaveLength(4);
    expect(await engine.schedules.backfill("s", { from: at(9_999 + 20), to: at(9_999 + 10) })).toHaveLength(11);
  });
  test("T7 Q10 without allow, each run of a backfill comes after the one before it that is open", async () => {
    const engine = await engines.open({ skips: true });
    const wire = new Wire();
    const other = await engines.open({ skips: true, wire });
    await engine.schedules.set("s", { workflow: waits, every: "1h", overlap: "queue" });
    const last = next(HOUR) - HOUR;
    const at = (n: number): Date => new Date(last - n * HOUR);
    const id = (n: number): string => `s@${iso(last - n * HOUR)}`;
    await engine.schedules.backfill("s", { from: at(4), to: at(4) });
    await engine.schedules.backfill("s", { from: at(2), to: at(2) });
    await engine.run(id(2)).terminate();
    const afters: (readonly [string, string | undefined])[] = [];
    wire.intercept("create", (pass, runs) => {
      afters.push(...runs.map(({ id: runId, after }) => [runId, after] as const));
      return pass(runs);
    });
    await other.schedules.backfill("s", { from: at(5), to: at(0) });
    expect(afters).toEqual([
      [id(5), undefined],
      [id(3), id(4)],
      [id(1), id(3)],
      [id(0), id(1)],
    ]);
  });
  test("T7 Q10 runs of a backfill go one after the other, also if a worker begins the first before it is created", async () => {
    const wire = new Wire();
    const engine = await engines.open({ skips: true, wire });
    await engine.worker({ workflows: [waits] });
    await engine.schedules.set("s", { workflow: waits, every: "1h", overlap: "skip" });
    const last = next(HOUR) - HOUR;
    // A run that is begun before it is created is created in a call of its own, and that call takes its time.
    const others = new Gate();
    wire.intercept("create", async (pass, runs) => {
      const isFirst = runs.some(({ after }) => after === undefined);
      if (isFirst && runs.length === 1) await others.passed;
      const results = await pass(runs);
      if (runs.length > 1 || !isFirst) others.open();
      return results;
    });
    const ids = await engine.schedules.backfill("s", { from: new Date(last - 3 * HOUR), to: new Date(last) });
    expect(ids).toHaveLength(4);
    for (const [n, id] of ids.entries()) {
      await until(async () => (await engine.run(id).describe()).status === "sleeping", id);
      for (const later of ids.slice(n + 1)) expect((await engine.run(later).describe()).startedAt).toBe(undefined);
      await engine.run(id, waits).signal("go", "on");
    }
    for (const id of ids) expect(await engine.run(id).result()).toBe("on");
  });
  test("T2 schedules that can't be started, more than a look finds, do not stop those behind them", async () => {
    const wire = new Wire();
    const engine = await engines.open({ skips: true, wire });
    wire.intercept("changeSchedule", (pass, change) =>
      pass(change.id.startsWith("bad") ? { ...change, after: { ...change.after, spec: "no settings" } } : change),
    );
    wire.intercept("tick", async (pass, ticks) => {
      if (ticks.some(({ schedule }) => schedule === "refused"))
        throw new StoreRefusedError({ where: "the store", reason: "it does not take this one" });
      return pass(ticks);
    });
    skipTo(next(HOUR) + 10 * MINUTE);
    const bad = Array.from({ length: store === "memory" ? 1_001 : 501 }, (_, i) => `bad ${i}`);
    await Promise.all(bad.map((id) => engine.schedules.set(id, { workflow: report, cron: "0 * * * *" })));
    for (const id of ["refused", "good"]) await engine.schedules.set(id, { workflow: report, cron: "1 * * * *" });
    const tick = next(HOUR) + MINUTE;
    skipTo(tick);
    await until(async () => (await idsOf(engine)).length === 1, "the tick");
    expect(await idsOf(engine)).toEqual([`good@${iso(tick)}`]);
    // They are tried again, and what failed for a passing reason starts then.
    wire.intercept("tick", undefined);
    skipTo(engines.now() + 2 * MINUTE);
    await until(async () => (await idsOf(engine)).includes(`refused@${iso(tick)}`), "the tick that was refused");
  });
  test("T2 D3 a tick that waits for a lock does not hold up other schedules", async () => {
    const wire = new Wire();
    wire.intercept("tick", async (pass, ticks) => {
      const free = ticks.filter(({ schedule }) => schedule !== "locked");
      const results = free.length === 0 ? [] : await pass(free);
      return ticks.map((tick) => (tick.schedule === "locked" ? "busy" : (results[free.indexOf(tick)] ?? "lost")));
    });
    const engine = await engines.open({ skips: true, wire });
    for (const id of ["locked", "other"]) await engine.schedules.set(id, { workflow: report, every: "1h", overlap: "allow" });
    const first = next(HOUR);
    for (const n of [0, 1, 2]) {
      skipTo(first + n * HOUR);
      await until(async () => (await idsOf(engine)).includes(`other@${iso(first + n * HOUR)}`), `tick ${n}`);
    }
    wire.intercept("tick", undefined);
    await until(async () => (await idsOf(engine)).length === 6, "the ticks that had to wait");
  });
  test("T7 delete leaves the runs alone; an unknown schedule is a ScheduleNotFoundError, except for delete", async () => {
    const engine = await engines.open();
    await engine.schedules.set("s", { workflow: report, every: "1h" });
    const id = await engine.schedules.trigger("s");
    await engine.schedules.delete("s");
    await engine.schedules.delete("s");
    expect(await engine.run(id).describe()).toMatchObject({ schedule: "s" });
    const span = { from: new Date(0), to: new Date(1) };
    const { schedules } = engine;
    const calls = [
      () => schedules.get("s"),
      () => schedules.pause("s"),
      () => schedules.resume("s"),
      () => schedules.trigger("s"),
      () => schedules.backfill("s", span),
    ];
    for (const call of calls) {
      const error = await errorOf(call());
      expect(error).toBeInstanceOf(ScheduleNotFoundError);
      expect(error).toMatchObject({ code: "HF_SCHEDULE_NOT_FOUND", message: expect.stringContaining('"s"') });
    }
  });
  test("T7 an engine that is closed refuses all calls, and starts no tick any more", async () => {
    const engine = await engines.open();
    await engine.schedules.set("s", { workflow: report, every: "1h" });
    await engine.close();
    const { schedules } = engine;
    const calls = [
      () => schedules.set("s", { workflow: report, every: "2h" }),
      () => schedules.get("s"),
      () => schedules.list(),
      () => schedules.pause("s"),
      () => schedules.trigger("s"),
      () => schedules.delete("s"),
      () => schedules.backfill("s", { from: new Date(0), to: new Date(1) }),
    ];
    for (const call of calls) expect(await errorOf(call())).toMatchObject({ code: "HF_ENGINE_CLOSED" });
  });
  test("T7 list is by id, page by page", async () => {
    const engine = await engines.open();
    for (const id of ["c", "a", "b"]) await engine.schedules.set(id, { workflow: report, cron: "0 0 1 1 *" });
    expect((await engine.schedules.list()).map(({ id }) => id)).toEqual(["a", "b", "c"]);
    expect((await engine.schedules.list({ after: "a", limit: 1 })).map(({ id }) => id)).toEqual(["b"]);
    await expect(engine.schedules.list({ limit: 1_001 })).rejects.toThrow(InvalidInputError);
  });

  test("T8 jitter delays the start by less than itself; the tick stays nominal, and a pause drops it", async () => {
    const engine = await engines.open({ skips: true });
    const ids = Array.from({ length: 8 }, (_, i) => `s${i}`);
    for (const id of ids) await engine.schedules.set(id, { workflow: report, every: "1d", jitter: "10h" });
    const tick = next(DAY);
    skipTo(tick + 1_000);
    // None of them has begun to count as missed, or was started at once.
    expect((await engine.schedules.get("s0")).nextRuns[0]).toEqual(new Date(tick));
    await engine.schedules.pause("s1");
    skipTo(tick + 10 * HOUR);
    await until(async () => (await idsOf(engine)).length === 7, "the runs");
    expect(await idsOf(engine)).toEqual(ids.filter((id) => id !== "s1").map((id) => `${id}@${iso(tick)}`));
    expect((await engine.list()).runs[0]).toMatchObject({ tick: new Date(tick) });
    expect(await engine.schedules.get("s1")).toMatchObject({ missed: 0, lastTick: undefined });
  });
  test("T8 each schedule has its own delay", async () => {
    const engine = await engines.open({ skips: true });
    for (let i = 0; i < 40; i++) await engine.schedules.set(`s${i}`, { workflow: report, every: "1d", jitter: "10h" });
    const tick = next(DAY);
    skipTo(tick + 5 * HOUR);
    const count = await until(async () => {
      const due = (await engine.schedules.list()).filter(({ nextRuns }) => nextRuns[0]?.getTime() === tick).length;
      const started = (await idsOf(engine)).length;
      return due + started === 40 && started > 0 && started;
    }, "about half of them");
    expect(count).toBeGreaterThan(8);
    expect(count).toBeLessThan(32);
  });

  test("T9 what is refused is refused with nothing written", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    wire.intercept("changeSchedule", () => Promise.reject(new Error("It was written.")));
    const cases: [string, object, string][] = [
      ["s", { cron: "* * * * *", every: "1h" }, "either cron or every"],
      ["s", {}, "either cron or every"],
      ["s", { cron: "0 0 31 2 *" }, "never comes"],
      ["s", { cron: "61 * * * *" }, "minute"],
      ["s", { every: "999ms" }, "at least 1 s"],
      ["s", { every: 999.5 }, "at least 1 s"],
      ["s", { every: "soon" }, "duration"],
      ["s", { every: "1h", timezone: "Europe/Berln" }, "Europe/Berlin"],
      ["s", { cron: "* * * * *", timezone: "Europe/Berln" }, "Europe/Berlin"],
      ["s@x", { every: "1h" }, '"@"'],
      ["s!x", { every: "1h" }, '"!"'],
      ["", { every: "1h" }, "id"],
      ["x".repeat(476), { every: "1h" }, "475"],
      ["s", { every: "1h", overlap: "sometimes" }, "overlap"],
      ["s", { every: "1h", catchup: "1h" }, "catchUp"],
      ["s", { every: "1h", start: { delay: "1h" } }, "delay"],
      ["s", { every: "1h", start: { deadline: new Date() } }, "deadline"],
      ["s", { every: "1h", workflow: undefined }, "workflow"],
      ["s", { every: "1h", input: () => 1 }, "function"],
    ];
    for (const [id, more, message] of cases) {
      const error = await errorOf(engine.schedules.set(id, { workflow: report, ...more } as never));
      expect([more, error.message], String(message)).toEqual([more, expect.stringContaining(message)]);
      expect(["InvalidInputError", "UnserializableValueError"]).toContain(error.name);
    }
    expect(await engine.schedules.list()).toEqual([]);
  });
  test("T7 P8 the input and the payloads of signals go through the schemas of the workflow", async () => {
    const strict = workflow(
      { name: "strict", input: z.object({ n: z.coerce.number() }), signals: { go: signal(z.string()) } },
      async (ctx, { n }) => {
        return [n, await ctx.waitForSignal("go")];
      },
    );
    const engine = await engines.open();
    await engine.worker({ workflows: [strict] });
    const set = (input: unknown, payload: unknown) =>
      engine.schedules.set("s", {
        workflow: strict,
        input: input as never,
        every: "1h",
        start: { signals: [{ name: "go", payload }] as never },
      });
    expect((await errorOf(set({ n: "x" }, "y"))).name).toBe("InvalidInputError");
    expect((await errorOf(set({ n: 1 }, 1))).name).toBe("InvalidInputError");
    await set({ n: "1" }, "y");
    expect(await engine.run(await engine.schedules.trigger("s")).result()).toEqual([1, "y"]);
  });
  test("T1 a process dies with a tick that was carried out, or was not: it is started once", async () => {
    for (const isCarriedOut of [false, true]) {
      const wire = new Wire();
      const doomed = await engines.open({ skips: true, wire });
      const id = isCarriedOut ? "done" : "lost";
      await doomed.schedules.set(id, { workflow: report, every: "1h" });
      const struck = new Gate();
      wire.intercept("tick", async (pass, ticks) => {
        if (isCarriedOut) await pass(ticks);
        wire.cut();
        struck.open();
        throw new Error("The process has died.");
      });
      const tick = next(HOUR);
      skipTo(tick);
      await struck.passed;
      await wire.answered();
      const engine = await engines.open({ skips: true });
      await until(async () => (await idsOf(engine)).filter((one) => one === `${id}@${iso(tick)}`).length === 1, "the tick");
      expect(await engine.schedules.get(id)).toMatchObject({ lastTick: new Date(tick), missed: 0 });
      await engine.close();
    }
  });
});
