// Schedules on a real server: its own scheduler starts the runs.

import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { Holdfast, InvalidInputError, Receive, ScheduleNotFoundError, signal, UnsupportedError, update, workflow } from "holdfast";
import { expect, test } from "vitest";
import { engines, LONG } from "./engines.ts";

const server = engines();
const { open } = server;
const DAY = 86_400_000;

const report = workflow("report", async (ctx, input?: string) => ({ input, tick: ctx.run.tick, id: ctx.run.id }));
const waits = workflow({ name: "waits", signals: { go: signal<string>() } }, async (ctx) => ctx.waitForSignal("go"));

const newId = (): string => `s-${randomUUID()}`;
const idAt = (schedule: string, tick: number): string => `${schedule}-${new Date(tick).toISOString().slice(0, 19)}Z`;

/** The first value that is not undefined. The server decides when: there is nothing to wait on. */
async function until<T>(look: () => Promise<T | undefined>, what: string): Promise<T> {
  for (const end = Date.now() + LONG - 20_000; Date.now() < end; ) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`Not seen: ${what}.`);
}
const firstRunOf = (engine: Holdfast, schedule: string): Promise<string> =>
  until(async () => (await engine.schedules.get(schedule)).lastRunId, `a run of ${schedule}`);

test("T1 T2 T3 a tick starts a run of our worker, with schedule, tick, attributes and priority, never early", {
  timeout: LONG,
}, async () => {
  const engine = await open();
  await engine.worker({ workflows: [report] });
  const id = newId();
  const begun = Date.now();
  await engine.schedules.set(id, {
    workflow: report,
    input: "all",
    every: "2s",
    overlap: "allow",
    start: { attributes: { by: "clock" }, priority: 2 },
  });
  const runId = await firstRunOf(engine, id);
  const result = await engine.run(runId, report).result();
  const { tick } = result;
  expect(result).toEqual({ input: "all", tick: expect.any(Date), id: runId });
  const time = (tick as Date).getTime();
  expect(runId).toBe(idAt(id, time));
  expect(time % 2_000).toBe(0);
  expect(time).toBeGreaterThan(begun);
  const info = await engine.run(runId).describe();
  expect(info).toMatchObject({ schedule: id, tick, workflow: "report", attributes: { by: "clock" }, priority: 2, version: undefined });
  expect(info.createdAt.getTime()).toBeGreaterThanOrEqual(time);
  const schedule = await engine.schedules.get(id);
  expect(schedule).toMatchObject({
    ...{ id, workflow: "report", input: "all", cron: undefined, every: "2s", timezone: "UTC", overlap: "allow", catchUp: "1d" },
    ...{ paused: false, missed: 0, start: { queue: "default", priority: 2, attributes: { by: "clock" } } },
  });
  expect(schedule.nextRuns).toHaveLength(5);
  expect(schedule.lastTick?.getTime()).toBeGreaterThanOrEqual(time);
  await engine.schedules.delete(id);
  await expect(engine.schedules.get(id)).rejects.toBeInstanceOf(ScheduleNotFoundError);
  expect(await engine.run(runId).result()).toEqual(result);
});

test("T3 the server's ticks are ours: lists, ranges, steps, names, seconds, day or weekday", { timeout: LONG }, async () => {
  const engine = await open();
  await using memory = await Holdfast.open("memory:");
  const patterns = [
    "*/7 * * * *",
    "30 2,14 * * mon-fri",
    "0 9-17/2 * jan-mar/2 *",
    "15 30 10 1,15 * *",
    "0 0 13 * 5",
    "0 0 */10 * sun",
    "0 12 29 2 *",
    "@weekly",
    "@monthly",
    "20-40/10 59 23 31 12 ?",
    "0 0 * * 7",
  ];
  for (const cron of patterns) {
    const id = newId();
    for (const { schedules } of [engine, memory]) await schedules.set(id, { workflow: "none", cron });
    const ours = async () => (await memory.schedules.get(id)).nextRuns;
    // A tick may pass while both are asked.
    const [server, own] = await until(async () => {
      const before = await ours();
      const { nextRuns } = await engine.schedules.get(id);
      return isDeepStrictEqual(before, await ours()) ? ([nextRuns, before] as const) : undefined;
    }, cron);
    expect(own, cron).toHaveLength(5);
    expect(server, cron).toEqual(own);
    await engine.schedules.delete(id);
  }
});

test("T3 a time zone is the server's", { timeout: LONG }, async () => {
  const engine = await open();
  const id = newId();
  await engine.schedules.set(id, { workflow: "none", cron: "30 9 * * *", timezone: "Asia/Kolkata" });
  const { nextRuns } = await engine.schedules.get(id);
  expect(nextRuns.map((time) => time.toISOString().slice(11, 19))).toEqual(Array.from({ length: 5 }, () => "04:00:00"));
  await engine.schedules.delete(id);
});

test("T7 an equal spec changes nothing; another one does, and a pause stays", { timeout: LONG }, async () => {
  const engine = await open();
  const id = newId();
  const spec = {
    workflow: "none",
    input: { at: new Date(0) },
    cron: "0 3 * * *",
    start: { deadline: "1h" as const, signals: [{ name: "go", payload: 1n }] },
  };
  const updates = async () => {
    const { info } = await server.raw.service.describeSchedule({ namespace: server.raw.namespace, scheduleId: id });
    return info?.updateTime ?? undefined;
  };
  await engine.schedules.set(id, spec);
  await engine.schedules.set(id, { ...spec, catchUp: "24h", input: { at: new Date(0) } });
  expect(await updates()).toBeUndefined();
  await engine.schedules.pause(id);
  expect(await engine.schedules.get(id)).toMatchObject({ paused: true, nextRuns: [] });
  await engine.schedules.set(id, { ...spec, cron: "0 4 * * *" });
  expect(await updates()).toBeDefined();
  const changed = await engine.schedules.get(id);
  expect(changed).toMatchObject({ paused: true, cron: "0 4 * * *", input: { at: new Date(0) } });
  expect(changed.start).toEqual({
    queue: "default",
    priority: 0,
    attributes: {},
    deadline: 3_600_000,
    signals: [{ name: "go", payload: 1n }],
  });
  await engine.schedules.resume(id);
  const { nextRuns, paused } = await engine.schedules.get(id);
  expect(paused).toBe(false);
  expect(nextRuns.map((time) => time.getUTCHours())).toEqual([4, 4, 4, 4, 4]);
  await engine.schedules.delete(id);
});

test("T7 a triggered run starts at once, also of a paused schedule: with the schedule, its signals, and no tick", {
  timeout: LONG,
}, async () => {
  const engine = await open();
  await engine.worker({ workflows: [waits] });
  const id = newId();
  await engine.schedules.set(id, { workflow: waits, cron: "0 0 1 1 *", start: { signals: [{ name: "go", payload: "now" }] } });
  await engine.schedules.pause(id);
  const [runId, other] = [await engine.schedules.trigger(id), await engine.schedules.trigger(id)];
  expect(runId).toMatch(new RegExp(`^${id}![0-9a-f-]{36}$`));
  expect(await engine.run(runId).result()).toBe("now");
  expect(await engine.run(other).result()).toBe("now");
  expect(await engine.run(runId).describe()).toMatchObject({ schedule: id, tick: undefined });
  expect(await engine.schedules.get(id)).toMatchObject({ lastRunId: undefined, lastTick: undefined });
  await until(async () => ((await engine.list({ schedule: id })).runs.length === 2 ? true : undefined), "both in a list");
  await engine.schedules.delete(id);
});

test("T7 a backfill starts the ticks of a span that have no run, both ends included", { timeout: LONG }, async () => {
  const engine = await open();
  await engine.worker({ workflows: [report] });
  const id = newId();
  await engine.schedules.set(id, { workflow: report, cron: "0 0 * * *", overlap: "allow" });
  const [from, to] = [Date.UTC(2024, 1, 28), Date.UTC(2024, 2, 1)];
  const ids = [from, from + DAY, to].map((tick) => idAt(id, tick));
  expect(await engine.schedules.backfill(id, { from: new Date(from), to: new Date(to) })).toEqual(ids);
  for (const [i, runId] of ids.entries()) {
    await until(
      async () =>
        engine
          .run(runId)
          .describe()
          .catch(() => undefined),
      runId,
    );
    expect(await engine.run(runId).result()).toEqual({ input: undefined, tick: new Date(from + i * DAY), id: runId });
  }
  const listed = await until(async () => {
    const { runs } = await engine.list({ schedule: id });
    return runs.length === 3 ? runs : undefined;
  }, "the runs in a list");
  expect(listed.map((run) => run.id).toSorted()).toEqual(ids);
  // Those that have a run stay as they are.
  const later = idAt(id, to + DAY);
  expect(await engine.schedules.backfill(id, { from: new Date(from), to: new Date(to + DAY) })).toEqual([later]);
  await until(
    async () =>
      engine
        .run(later)
        .describe()
        .catch(() => undefined),
    later,
  );
  expect(await engine.run(ids[0] ?? "").describe()).toMatchObject({ execution: 1, status: "completed" });
  expect(await engine.schedules.backfill(id, { from: new Date(from), to: new Date(to) })).toEqual([]);
  await engine.schedules.delete(id);
});

test("T7 a backfill without allow starts each after the one before; more than 10,000 ticks are refused", { timeout: LONG }, async () => {
  const engine = await open();
  await engine.worker({ workflows: [waits] });
  const id = newId();
  await engine.schedules.set(id, { workflow: waits, cron: "0 0 * * *" });
  const from = Date.UTC(2024, 0, 1);
  const [first = "", second = ""] = await engine.schedules.backfill(id, { from: new Date(from), to: new Date(from + DAY) });
  await until(
    async () =>
      engine
        .run(first)
        .describe()
        .catch(() => undefined),
    first,
  );
  await until(async () => ((await bufferOf(id)) === 1 ? true : undefined), "the second one in the buffer");
  await expect(engine.run(second).describe()).rejects.toMatchObject({ code: "HF_RUN_NOT_FOUND" });
  await engine.run(first).signal("go", "x");
  await until(
    async () =>
      engine
        .run(second)
        .describe()
        .catch(() => undefined),
    second,
  );
  await engine.run(second).signal("go", "x");
  const all = { from: new Date(0), to: new Date(30 * 366 * DAY) };
  await expect(engine.schedules.backfill(id, all)).rejects.toBeInstanceOf(InvalidInputError);
  await engine.schedules.delete(id);
});
async function bufferOf(id: string): Promise<number> {
  const { info } = await server.raw.service.describeSchedule({ namespace: server.raw.namespace, scheduleId: id });
  return Number(info?.bufferSize ?? 0);
}

test("T6 skip counts what it skips; cancel-previous cancels the run of the last tick and starts after it", { timeout: LONG }, async () => {
  const engine = await open();
  await engine.worker({ workflows: [waits] });
  const [skipping, canceling] = [newId(), newId()];
  await engine.schedules.set(skipping, { workflow: waits, every: "1s" });
  await engine.schedules.set(canceling, { workflow: waits, every: "3s", overlap: "cancel-previous" });
  const kept = await firstRunOf(engine, skipping);
  const first = await firstRunOf(engine, canceling);
  await until(async () => ((await engine.schedules.get(skipping)).missed > 0 ? true : undefined), "a tick that was skipped");
  expect(await engine.schedules.get(skipping)).toMatchObject({ lastRunId: kept });
  await until(async () => {
    const { lastRunId } = await engine.schedules.get(canceling);
    return lastRunId === first ? undefined : lastRunId;
  }, "the next run");
  await engine.schedules.delete(canceling);
  await engine.schedules.delete(skipping);
  expect(await engine.run(first).describe()).toMatchObject({ status: "canceled" });
  await engine.run(kept).signal("go", "x");
  expect(await engine.run(kept).result()).toBe("x");
});

test("T7 schedules are listed by id, in pages; those of other tools are left alone", { timeout: LONG }, async () => {
  const engine = await open();
  const prefix = newId();
  const ids = ["a", "b", "c"].map((name) => `${prefix}-${name}`);
  for (const id of ids) await engine.schedules.set(id, { workflow: "none", cron: "0 0 1 1 *" });
  const foreign = `${prefix}-d`;
  const { service, namespace } = server.raw;
  const startWorkflow = { workflowId: foreign, workflowType: { name: "none" }, taskQueue: { name: "none" } };
  const schedule = { spec: { cronString: ["0 0 1 1 *"] }, action: { startWorkflow } };
  await service.createSchedule({ namespace, scheduleId: foreign, requestId: randomUUID(), schedule });
  const listed = async (page: { after?: string; limit?: number }) => (await engine.schedules.list(page)).map(({ id }) => id);
  await until(
    async () => ((await listed({ after: prefix })).filter((id) => id.startsWith(prefix)).length === 3 ? true : undefined),
    "all three",
  );
  expect(await listed({ after: prefix, limit: 2 })).toEqual(ids.slice(0, 2));
  expect((await listed({ after: ids[1] ?? "" })).slice(0, 1)).toEqual(ids.slice(2));
  expect(await listed({ after: prefix })).not.toContain(foreign);
  for (const call of [
    () => engine.schedules.get(foreign),
    () => engine.schedules.delete(foreign),
    () => engine.schedules.set(foreign, { workflow: "x", every: "1h" }),
  ])
    await expect(call()).rejects.toBeInstanceOf(UnsupportedError);
  await service.deleteSchedule({ namespace, scheduleId: foreign });
  for (const id of ids) await engine.schedules.delete(id);
});

test("T7 an unknown schedule is a ScheduleNotFoundError, except for delete", { timeout: LONG }, async () => {
  const { schedules } = await open();
  const id = newId();
  const span = { from: new Date(0), to: new Date(1) };
  for (const call of [
    () => schedules.get(id),
    () => schedules.pause(id),
    () => schedules.resume(id),
    () => schedules.trigger(id),
    () => schedules.backfill(id, span),
  ])
    await expect(call()).rejects.toBeInstanceOf(ScheduleNotFoundError);
  await schedules.delete(id);
});

test("what Temporal's schedules can't express is refused, and nothing is written", { timeout: LONG }, async () => {
  const { schedules } = await open();
  const id = newId();
  const deadlined = { workflow: "none", every: "1h" as const, start: { deadline: "1m" as const, retry: { maxAttempts: 3 } } };
  for (const spec of [
    { workflow: "none", cron: "0 0 L * *" },
    { workflow: "none", cron: "0 0 15W * *" },
    { workflow: "none", cron: "0 0 * * 1#2" },
    { workflow: "none", cron: "0 0 * * 5L" },
    { workflow: "none", every: "1500ms" as const },
    deadlined,
  ])
    await expect(schedules.set(id, spec as never), JSON.stringify(spec)).rejects.toBeInstanceOf(UnsupportedError);
  await expect(schedules.get(id)).rejects.toBeInstanceOf(ScheduleNotFoundError);
  await schedules.set(id, { workflow: "none", cron: "0 0 * * *", jitter: "5m" });
  await expect(schedules.backfill(id, { from: new Date(0), to: new Date(1) })).rejects.toBeInstanceOf(UnsupportedError);
  await schedules.delete(id);
});

test("T8 jitter delays the start, and the tick stays nominal", { timeout: LONG }, async () => {
  const engine = await open();
  await engine.worker({ workflows: [report] });
  const id = newId();
  await engine.schedules.set(id, { workflow: report, every: "2s", jitter: "2s" });
  const runId = await firstRunOf(engine, id);
  const { tick } = await engine.run(runId, report).result();
  expect((tick as Date).getTime() % 2_000).toBe(0);
  await engine.schedules.delete(id);
});

test("P10 a run of a tick that continues as new keeps schedule and tick", { timeout: LONG }, async () => {
  const twice = workflow({ name: "twice", updates: { stop: update<undefined, undefined>() } }, async (ctx, again?: boolean) => {
    if (again !== true) return ctx.continueAsNew(true);
    await ctx.receive(0, { updates: { stop: (_, sum) => Receive.stop(undefined, sum) } });
    return { tick: ctx.run.tick };
  });
  const engine = await open();
  await engine.worker({ workflows: [twice] });
  const id = newId();
  await engine.schedules.set(id, { workflow: twice, cron: "0 0 * * *", overlap: "allow", start: { priority: 1, attributes: { a: 1 } } });
  const tick = new Date(Date.UTC(2025, 5, 1));
  const [runId = ""] = await engine.schedules.backfill(id, { from: tick, to: tick });
  const run = engine.run(runId, twice);
  await until(
    async () =>
      run.describe().then(
        ({ execution }) => (execution === 2 ? true : undefined),
        () => undefined,
      ),
    "the second execution",
  );
  expect(await run.describe()).toMatchObject({ schedule: id, tick, priority: 1, attributes: { a: 1 } });
  await run.update("stop", undefined);
  expect(await run.result()).toEqual({ tick });
  await engine.schedules.delete(id);
});

test("a closed engine refuses schedules", { timeout: LONG }, async () => {
  const engine = await open();
  await engine.close();
  for (const call of [() => engine.schedules.get("x"), () => engine.schedules.pause("x"), () => engine.schedules.list()])
    await expect(call()).rejects.toMatchObject({ code: "HF_ENGINE_CLOSED" });
});

test("P8 payload codecs apply to schedules: an equal spec is recognized, and runs get their input", {
  timeout: LONG,
}, async () => {
  const flip = (data: Uint8Array): Uint8Array => data.map((byte) => byte ^ 0x5a);
  type Coded = { metadata: Record<string, Uint8Array>; data: Uint8Array };
  const coded = (payloads: Coded[]) => Promise.resolve(payloads.map((one) => ({ ...one, data: flip(one.data) })));
  const engine = await open(undefined, { temporal: { payloadCodecs: [{ encode: coded, decode: coded }] } });
  await engine.worker({ workflows: [report] });
  const id = newId();
  const spec = { workflow: report, input: "secret", cron: "0 0 1 1 *" };
  await engine.schedules.set(id, spec);
  await engine.schedules.set(id, spec);
  const { info, schedule } = await server.raw.service.describeSchedule({ namespace: server.raw.namespace, scheduleId: id });
  expect(info?.updateTime ?? undefined).toBeUndefined();
  const [input] = schedule?.action?.startWorkflow?.input?.payloads ?? [];
  expect(Buffer.from(flip(input?.data ?? new Uint8Array())).toString()).toBe('"secret"');
  expect(await engine.schedules.get(id)).toMatchObject({ input: "secret", cron: "0 0 1 1 *" });
  await until(async () => (await engine.schedules.list({ limit: 1_000 })).find((one) => one.id === id), "it in the list");
  expect(await engine.run(await engine.schedules.trigger(id)).result()).toMatchObject({ input: "secret" });
  await engine.schedules.delete(id);
});
