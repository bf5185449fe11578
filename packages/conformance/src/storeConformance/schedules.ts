// Conformance: schedules, and the ticks that start their runs.
// Owns: tests of `tick`, of what `expire` finds to be due, and of changing schedules.
// Invariants tested: T1, T2, T5, T6, T7, T8.

import assert from "node:assert/strict";
import { MOST_QUEUED, type Overlap, type ScheduleRow, type ScheduleState, type Tick, type TickResult } from "holdfast/store";
import { type Bench, CANCEL, jobsOf, range, START, same } from "./bench.ts";
import type { Suite } from "./suite.ts";

const EVERY = 1_000;

async function read(bench: Bench, id = "s"): Promise<ScheduleRow> {
  const { now, schedules } = await bench.store.readSchedules([id]);
  assert.equal(now, bench.time);
  assert.ok(schedules[0] !== undefined, `there is no schedule ${id}`);
  return schedules[0];
}
function state(tick: number | undefined, more: Partial<ScheduleState> = {}): ScheduleState {
  return { revision: "one", spec: '{"what":"text"}', isPaused: false, tick, dueAt: tick, ...more };
}
async function set(bench: Bench, id = "s", tick = START + EVERY): Promise<void> {
  assert.equal(await bench.store.changeSchedule({ id, before: undefined, after: state(tick) }), true);
}
/** The tick that the schedule has, started as `<id>@<tick>`. */
function tickOf(bench: Bench, { id, revision, tick = 0 }: ScheduleRow, more: Partial<Tick> = {}): Tick {
  const run = { ...bench.newRun(`${id}@${tick}`, { queue: "default", schedule: id }), tick };
  return { schedule: id, revision, replaces: tick, missed: 0, run, overlap: "skip", next: tick + EVERY, nextDueAt: tick + EVERY, ...more };
}
async function tick(bench: Bench, more: Partial<Tick> = {}, id = "s"): Promise<TickResult> {
  const [result] = await bench.store.tick([tickOf(bench, await read(bench, id), more)]);
  return result as TickResult;
}
const due = async (bench: Bench): Promise<string[]> => (await bench.store.expire()).schedules.map(({ id }) => id);

export function schedules({ test, crashes, shares }: Suite): void {
  test("T7 a schedule is read as it was written, and is gone when it is deleted", async (bench) => {
    const after = state(START + 5, { dueAt: START + 9, spec: '{"text":"\\u0000 ü 𝄞"}' });
    await bench.store.changeSchedule({ id: "ü/𝄞 x", before: undefined, after });
    same(await read(bench, "ü/𝄞 x"), { id: "ü/𝄞 x", ...after, lastTick: undefined, lastRunId: undefined, missed: 0 });
    await bench.store.deleteSchedule("ü/𝄞 x");
    await bench.store.deleteSchedule("ü/𝄞 x");
    same((await bench.store.readSchedules(["ü/𝄞 x"])).schedules, [undefined]);
  });
  test("T7 schedules are listed by id, page by page", async (bench) => {
    for (const id of ["b", "a", "ä", "B", "a1", "𝄞", "ﬀ"]) await set(bench, id);
    const page = async (after: string | undefined, limit: number): Promise<string[]> =>
      (await bench.store.listSchedules({ after, limit })).schedules.map(({ id }) => id);
    same(await page(undefined, 4), ["B", "a", "a1", "b"]);
    same(await page("b", 4), ["ä", "ﬀ", "𝄞"]);
    same(await page("𝄞", 4), []);
  });
  test("T1 T7 a change of a schedule that was changed, deleted or ticked since it was read is refused", async (bench) => {
    await set(bench);
    const before = await read(bench);
    const change = (from: Pick<ScheduleState, "revision" | "tick"> | undefined, revision: string): Promise<boolean> =>
      bench.store.changeSchedule({ id: "s", before: from, after: state(START + 7, { revision }) });
    assert.equal(await change(undefined, "two"), false);
    assert.equal(await change({ ...before, revision: "other" }, "two"), false);
    assert.equal(await change({ ...before, tick: 5 }, "two"), false);
    assert.equal(await change({ ...before, tick: undefined }, "two"), false);
    same(await read(bench), before);
    assert.equal(await change(before, "two"), true);
    assert.equal(await change(before, "three"), false);
    same((await read(bench)).revision, "two");
    await bench.store.deleteSchedule("s");
    assert.equal(await change({ revision: "two", tick: START + 7 }, "three"), false);
  });
  test("T7 a change keeps the last tick, its run, and what was missed", async (bench) => {
    await set(bench);
    await tick(bench, { missed: 3 });
    const before = await read(bench);
    await bench.store.changeSchedule({ id: "s", before, after: state(undefined, { revision: "two", isPaused: true }) });
    const { lastTick, lastRunId, missed, isPaused, tick: next, dueAt } = await read(bench);
    same([lastTick, lastRunId, missed, isPaused, next, dueAt], [START + EVERY, `s@${START + EVERY}`, 3, true, undefined, undefined]);
  });

  test("T2 what is due is found by the look at deadlines, the longest overdue first, and never early", async (bench) => {
    await set(bench, "late", START + 100);
    await set(bench, "later", START + 200);
    await bench.store.changeSchedule({ id: "paused", before: undefined, after: state(undefined, { isPaused: true }) });
    await bench.created("r", { deadline: 100 });
    bench.time = START + 99;
    same(await due(bench), []);
    bench.time = START + 100;
    const found = await bench.store.expire();
    same([found.expired, found.now, found.schedules.map(({ id }) => id)], [1, START + 100, ["late"]]);
    same(found.schedules[0], await read(bench, "late"));
    bench.time = START + 10_000;
    same(await due(bench), ["late", "later"]);
  });
  test("T8 a schedule is due when its tick is to be started, not before", async (bench) => {
    await bench.store.changeSchedule({ id: "s", before: undefined, after: state(START + 100, { dueAt: START + 150 }) });
    bench.time = START + 149;
    same(await due(bench), []);
    bench.time = START + 150;
    same(await due(bench), ["s"]);
  });
  test("T5 the clock is set back: what was ticked is not due again", async (bench) => {
    await set(bench);
    bench.time = START + EVERY;
    assert.equal(await tick(bench), "started");
    bench.time = START - 90 * 60_000;
    same(await due(bench), []);
    bench.time = START + EVERY;
    same(await due(bench), []);
    bench.time = START + 2 * EVERY;
    same(await due(bench), ["s"]);
  });

  test("T1 a tick starts its run, and sets the next", async (bench) => {
    await set(bench);
    bench.time = START + EVERY;
    assert.equal(await tick(bench), "started");
    const id = `s@${START + EVERY}`;
    const { lastTick, lastRunId, tick: next, dueAt, missed } = await read(bench);
    same([lastTick, lastRunId, next, dueAt, missed], [START + EVERY, id, START + 2 * EVERY, START + 2 * EVERY, 0]);
    const { schedule, tick: nominal, status, createdAt } = await bench.row(id);
    same([schedule, nominal, status, createdAt], ["s", START + EVERY, "pending", bench.time]);
    const { run } = await bench.claimRun(id);
    same([run.schedule, run.tick], ["s", START + EVERY]);
  });
  test("T1 of two that start the same tick one wins, and the other writes nothing", async (bench) => {
    await set(bench);
    const row = await read(bench);
    const one = tickOf(bench, row);
    const other = tickOf(bench, row, { run: { ...bench.newRun("other"), tick: 1 }, next: 5, missed: 9 });
    same(await bench.store.tick([one]), ["started"]);
    same(await bench.store.tick([other]), ["lost"]);
    same(await bench.store.tick([one]), ["lost"]);
    const { tick: next, missed } = await read(bench);
    same([next, missed, await bench.exists("other")], [START + 2 * EVERY, 0, false]);
  });
  test("T1 T7 a tick of a schedule that was changed or deleted writes nothing", async (bench) => {
    await set(bench);
    const before = await read(bench);
    await bench.store.changeSchedule({ id: "s", before, after: state(before.tick, { revision: "two" }) });
    same(await bench.store.tick([tickOf(bench, before)]), ["lost"]);
    await bench.store.deleteSchedule("s");
    same(await bench.store.tick([tickOf(bench, before)]), ["lost"]);
    assert.equal(await bench.exists(`s@${START + EVERY}`), false);
    await set(bench); // the same id and tick, another revision
    await bench.store.changeSchedule({ id: "s", before: await read(bench), after: state(before.tick, { revision: "three" }) });
    same(await bench.store.tick([tickOf(bench, before)]), ["lost"]);
  });
  test("T1 T5 ticks of one call go in order, each on the one before; those that are too late are counted", async (bench) => {
    await set(bench);
    const row = await read(bench);
    const at = (n: number): Tick => {
      const nominal = START + n * EVERY;
      const run = { ...bench.newRun(`s@${nominal}`, { queue: "default", schedule: "s" }), tick: nominal };
      return {
        ...tickOf(bench, { ...row, tick: n === 4 ? START + EVERY : nominal }),
        run,
        missed: n === 4 ? 3 : 0,
        overlap: "allow",
        next: nominal + EVERY,
      };
    };
    same(await bench.store.tick([at(4), at(5), at(7), at(6)]), ["started", "started", "lost", "started"]);
    const { missed, lastTick, tick: next } = await read(bench);
    same([missed, lastTick, next], [3, START + 6 * EVERY, START + 7 * EVERY]);
  });
  test("T5 ticks that are all too late move the schedule on, and start nothing", async (bench) => {
    await set(bench);
    assert.equal(await tick(bench, { run: undefined, missed: 12, next: START + 50 * EVERY }), "moved");
    const { missed, tick: next, lastTick, lastRunId } = await read(bench);
    same([missed, next, lastTick, lastRunId], [12, START + 50 * EVERY, undefined, undefined]);
  });
  test("T1 a schedule without a next tick is due no more", async (bench) => {
    await set(bench);
    await tick(bench, { next: undefined, nextDueAt: undefined });
    bench.time += 1e9;
    same(await due(bench), []);
    same((await read(bench)).tick, undefined);
  });
  test("T1 a run of that id is the run of the tick, also if a caller started it", async (bench) => {
    await set(bench);
    await bench.created(`s@${START + EVERY}`, { attributes: { by: "hand" } });
    assert.equal(
      await tick(bench, { run: { ...bench.newRun(`s@${START + EVERY}`, { messages: [{ job: CANCEL }] }), tick: START + EVERY } }),
      "started",
    );
    same((await bench.row(`s@${START + EVERY}`)).attributes, { by: "hand" });
    same((await read(bench)).lastRunId, `s@${START + EVERY}`);
  });

  const previous = `s@${START + EVERY}`;
  const second = `s@${START + 2 * EVERY}`;
  test("T6 skip: while the run of the last tick is open, ticks are missed and do not move lastTick", async (bench) => {
    await set(bench);
    await tick(bench);
    assert.equal(await tick(bench), "skipped");
    assert.equal(await tick(bench), "skipped");
    const { missed, lastTick, tick: next } = await read(bench);
    same([missed, lastTick, next, await bench.exists(second)], [2, START + EVERY, START + 4 * EVERY, false]);
    await bench.store.terminate([{ runId: previous, reason: undefined }]);
    assert.equal(await tick(bench), "started");
    same([(await read(bench)).missed, (await read(bench)).lastTick], [2, START + 4 * EVERY]);
  });
  test("T6 skip: a run that has continued as new is open", async (bench) => {
    await set(bench);
    await tick(bench);
    const held = await bench.hold(previous);
    await bench.close(held, { status: "continued", next: { input: bench.newRun("x").input, version: undefined, seed: "2", carried: [] } });
    assert.equal(await tick(bench), "skipped");
  });
  test("T6 allow: a tick starts its run beside open ones", async (bench) => {
    await set(bench);
    await tick(bench);
    assert.equal(await tick(bench, { overlap: "allow" }), "started");
    same([(await bench.row(second)).status, (await bench.row(second)).after], ["pending", undefined]);
  });
  test("T6 Q10 queue: a tick waits for the run of the last tick", async (bench) => {
    await set(bench);
    await tick(bench);
    const held = await bench.hold(previous);
    assert.equal(await tick(bench, { overlap: "queue" }), "started");
    same([(await bench.row(second)).after, (await read(bench)).lastRunId], [previous, second]);
    await bench.close(held);
    assert.equal(await tick(bench, { overlap: "queue" }), "started");
    same((await bench.row(`s@${START + 3 * EVERY}`)).after, second);
  });
  test("T6 queue: a tick starts at once if the run of the last tick is over", async (bench) => {
    await set(bench);
    await tick(bench);
    await bench.store.terminate([{ runId: previous, reason: undefined }]);
    assert.equal(await tick(bench, { overlap: "queue" }), "started");
    same((await bench.row(second)).after, undefined);
  });
  test("T6 queue: with 100 waiting, ticks are skipped", async (bench) => {
    await set(bench);
    const row = await read(bench);
    const all = range(MOST_QUEUED + 3).map((i): Tick => tickOf(bench, { ...row, tick: START + (i + 1) * EVERY }, { overlap: "queue" }));
    const results = await bench.store.tick(all);
    same(
      results,
      range(MOST_QUEUED + 3).map((i) => (i <= MOST_QUEUED ? "started" : "skipped")),
    ); // the first does not wait
    same((await read(bench)).missed, 2);
  });
  test("T6 cancel-previous: the run of the last tick is canceled, and this one waits for its end", async (bench) => {
    await set(bench);
    await tick(bench);
    const held = await bench.hold(previous);
    await bench.commit(held, { turn: bench.turn(held) });
    assert.equal(await tick(bench, { overlap: "cancel-previous", cancel: { job: CANCEL } }), "started");
    same(jobsOf(await bench.inbox(held)), [CANCEL]);
    same([(await bench.row(second)).after, (await bench.row(second)).status], [previous, "pending"]);
  });
  test("T6 cancel-previous: the run of the last tick has not begun: it is canceled at once", async (bench) => {
    await set(bench);
    await tick(bench);
    assert.equal(await tick(bench, { overlap: "cancel-previous", cancel: { job: CANCEL } }), "started");
    same((await bench.row(previous)).status, "canceled");
    assert.ok(await bench.exists(second));
  });
  test("T6 overlap looks at the run of the last tick, not at other runs of the schedule", async (bench) => {
    await set(bench);
    await bench.created("s!by hand", { schedule: "s" });
    for (const overlap of ["skip", "queue", "cancel-previous"] satisfies Overlap[]) {
      const { tick: nominal } = await read(bench);
      assert.equal(await tick(bench, { overlap, cancel: { job: CANCEL } }), "started");
      same([(await bench.row(`s@${nominal}`)).after, (await bench.row("s!by hand")).status], [undefined, "pending"]);
      await bench.store.terminate([{ runId: `s@${nominal}`, reason: undefined }]);
    }
  });

  if (crashes)
    test("T1 D2 ticks, schedules and what they missed outlast the process", async (bench) => {
      await set(bench);
      await tick(bench, { missed: 2 });
      const before = await read(bench);
      await bench.crash();
      same(await read(bench), before);
      assert.equal(await tick(bench), "skipped");
    });
  if (shares)
    test("T1 T2 processes tick side by side: each tick is started once", async (bench) => {
      const other = await bench.beside();
      const ids = range(20).map((i) => `s${i}`);
      for (const id of ids) await set(bench, id);
      bench.time += EVERY;
      const both = await Promise.all(
        [bench, other].map(async (one) => {
          const found = await one.store.expire();
          return one.store.tick(found.schedules.map((row) => tickOf(one, row)));
        }),
      );
      const started = both.flat().filter((result) => result === "started");
      assert.equal(started.length, ids.length);
      for (const id of ids) assert.ok(await bench.exists(`${id}@${START + EVERY}`));
      same(await due(bench), []);
      await other.store.close();
    });
}
