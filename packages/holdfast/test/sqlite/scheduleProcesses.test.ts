// Real processes with one schedule: they are started and killed around its ticks, and their clock is set back.

import { range } from "@holdfast/conformance/bench";
import type { Store } from "holdfast/store";
import { expect, test } from "vitest";
import { start } from "./processes/child.ts";
import { newPath, openStore } from "./support.ts";

const HOUR = 3_600_000;
/** The next tick of the schedule. */
async function tickOf(store: Store): Promise<number> {
  const [row] = (await store.readSchedules(["s"])).schedules;
  return row?.tick ?? 0;
}
const idOf = (tick: number): string => `s@${new Date(tick).toISOString().slice(0, 19)}Z`;

test("T1 T5 twenty processes that start and are killed across a missed tick start it once", async () => {
  const path = newPath();
  const first = await start("scheduler", path, "0");
  await first.printed("open");
  const store = await openStore(path);
  const tick = await tickOf(store);
  first.process.kill("SIGKILL");
  await first.ended;
  // No process was there at the tick; it is half an hour later now.
  const offset = String(tick + HOUR / 2 - Date.now());
  for (const round of range(5)) {
    const boots = await Promise.all(range(4).map(() => start("scheduler", path, offset)));
    // Each is killed at another moment: as it is open, about to tick, or some time after that.
    await Promise.all(
      boots.map(async ({ process: child, printed, ended }, i) => {
        await Promise.race([printed(i + round === 0 ? "tick" : "open"), ended]);
        child.kill("SIGKILL");
        await ended;
      }),
    );
  }
  const last = await start("scheduler", path, offset);
  await expect.poll(async () => (await store.get([idOf(tick)]))[0]?.status, { timeout: 20_000 }).toBe("completed");
  const { runs } = await store.list({ limit: 100 });
  expect(runs.map(({ id, execution }) => [id, execution])).toEqual([[idOf(tick), 1]]);
  const { schedules } = await store.readSchedules(["s"]);
  expect(schedules[0]).toMatchObject({ lastTick: tick, tick: tick + HOUR, missed: 0 });
  last.process.kill("SIGKILL");
  await last.ended;
}, 120_000);

test("T5 the clock is set back by 90 minutes between two processes: no tick repeats", async () => {
  const path = newPath();
  const before = await start("scheduler", path, "0");
  await before.printed("open");
  const store = await openStore(path);
  const tick = await tickOf(store);
  before.process.kill("SIGKILL");
  await before.ended;
  const later = await start("scheduler", path, String(tick + 2 * HOUR - Date.now()));
  await later.printed(`started ${idOf(tick + 2 * HOUR)}`);
  later.process.kill("SIGKILL");
  await later.ended;
  // At half past the second tick: it comes up to the third once more, and to the fourth for the first time.
  const back = await start("scheduler", path, String(tick + 2 * HOUR - 1.5 * HOUR - Date.now()));
  await back.printed("open");
  back.process.kill("SIGKILL");
  await back.ended;
  const again = await start("scheduler", path, String(tick + 2 * HOUR - 1_500 - Date.now()));
  await again.printed("open");
  const passed = tick + 2 * HOUR + 1_500 - (tick + 2 * HOUR - 1_500);
  const since = Date.now();
  await expect.poll(() => Date.now() - since, { timeout: 20_000 }).toBeGreaterThan(passed); // its clock has passed the tick by a second
  expect(again.lines.filter((line) => line.startsWith("tick"))).toEqual([]);
  again.process.kill("SIGKILL");
  await again.ended;
  const forward = await start("scheduler", path, String(tick + 3 * HOUR - Date.now()));
  await forward.printed(`started ${idOf(tick + 3 * HOUR)}`);
  const { runs } = await store.list({ limit: 100 });
  expect(runs.map(({ id }) => id).sort()).toEqual(range(4).map((n) => idOf(tick + n * HOUR)));
  forward.process.kill("SIGKILL");
  await forward.ended;
}, 120_000);
