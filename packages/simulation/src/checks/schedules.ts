// Checks every tick of a schedule: the oracle "ticks".
// Owns: a second opinion on when schedules tick, which walks the clock of the zone second by second.
// Invariants: T1 (a tick replaces the one that the schedule has, or writes nothing), T2 (never early), T3 T4 (ticks equal a walk over the
// zone), T5 (missed are only those that are too late).

import type { NewRun, ScheduleRow, Tick, TickResult } from "holdfast/store";
import type { FreeStore } from "../stores.ts";
import type { World } from "../world.ts";

/** What a check reads of the settings of a schedule, as a scenario writes them. */
interface Settings {
  readonly cron?: string;
  readonly every?: number;
  readonly timezone: string;
  readonly catchUp: number;
}

export class ScheduleChecks {
  readonly #world: World;
  readonly #inner: FreeStore;

  constructor(world: World, inner: FreeStore) {
    this.#world = world;
    this.#inner = inner;
  }
  /** `born` is called for each run that was created. */
  async tick(ticks: readonly Tick[], born: (run: NewRun) => void): Promise<TickResult[]> {
    const ids = [...new Set(ticks.map(({ schedule }) => schedule))];
    const rows = new Map(ids.map((id, i) => [id, i]));
    const before = (await this.#inner.readSchedules(ids)).schedules;
    const states = [...before];
    const runIds = ticks.flatMap(({ run }) => run?.id ?? []);
    const known = new Set((await this.#inner.get(runIds)).flatMap((run) => run?.id ?? []));
    const results = await this.#inner.tick(ticks);
    const there = new Set((await this.#inner.get(runIds)).flatMap((run) => run?.id ?? []));
    for (const [i, tick] of ticks.entries()) {
      const place = rows.get(tick.schedule) as number;
      const result = results[i] as TickResult;
      this.#world.note("db", `tick ${tick.schedule} ${shown(tick.replaces)}, run ${shown(tick.run?.tick)}: ${result}`);
      states[place] = this.#check(states[place], tick, result);
      if (result !== "started" || tick.run === undefined) continue;
      if (!there.has(tick.run.id)) this.#broken("T1", `${tick.run.id} was started, and does not exist`);
      else if (!known.has(tick.run.id)) born(tick.run);
    }
    const after = (await this.#inner.readSchedules(ids)).schedules;
    for (const [i, row] of after.entries())
      if (row?.tick !== states[i]?.tick)
        this.#broken("T1", `${ids[i]} has the tick ${shown(row?.tick)} instead of ${shown(states[i]?.tick)}`);
    return results;
  }
  /** The schedule after the tick, as it should be. */
  #check(row: ScheduleRow | undefined, tick: Tick, result: TickResult): ScheduleRow | undefined {
    const isTaken = row !== undefined && row.revision === tick.revision && row.tick === tick.replaces;
    if (isTaken === (result === "lost"))
      this.#broken("T1", `${tick.schedule} has the tick ${shown(row?.tick)}; one that replaces ${shown(tick.replaces)} was ${result}`);
    if (row === undefined || result === "lost") return row;
    const { now } = this.#world;
    const settings = JSON.parse(row.spec) as Settings;
    const expected = ticksBetween(settings, tick.replaces, tick.next ?? now);
    const count = tick.missed + (tick.run === undefined ? 0 : 1);
    if (expected.length !== count || expected[0] !== tick.replaces || (tick.run !== undefined && expected.at(-1) !== tick.run.tick)) {
      const took = `${tick.missed} missed, and ${shown(tick.run?.tick)}`;
      this.#broken("T4", `${tick.schedule} should have ticked at ${expected.map(shown).join(", ")}; it took ${took}`);
    }
    if (tick.next !== undefined && ticksBetween(settings, tick.next, tick.next + 1).length === 0)
      this.#broken("T4", `${tick.schedule} is to tick at ${shown(tick.next)}, when its pattern does not`);
    if ((tick.run?.tick ?? 0) > now || (row.dueAt ?? 0) > now)
      this.#broken("T2", `${tick.schedule} ticked early, for ${shown(tick.run?.tick)}`);
    const late = expected.slice(0, tick.missed).filter((one) => one >= now - Math.max(settings.catchUp, 1_000));
    if (late.length > 0) this.#broken("T5", `${tick.schedule} missed ${late.map(shown).join(", ")}, which was in time`);
    return { ...row, tick: tick.next, dueAt: tick.nextDueAt };
  }
  #broken(rule: string, message: string): void {
    this.#world.violate("ticks", rule, message);
  }
}

/** Every tick from the first moment on and before the second. */
export function ticksBetween({ cron, every, timezone }: Settings, from: number, to: number): number[] {
  const ticks: number[] = [];
  for (let time = Math.ceil(from / 1_000) * 1_000; time < to; time += 1_000)
    if (cron === undefined ? time % (every as number) === 0 : matches(cron, timezone, time)) ticks.push(time);
  return ticks;
}
const formats = new Map<string, Intl.DateTimeFormat>();
/** Patterns with seconds, on every day: those of the scenarios. */
function matches(cron: string, timezone: string, time: number): boolean {
  let format = formats.get(timezone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: timezone,
      hourCycle: "h23",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    formats.set(timezone, format);
  }
  const [hour, minute, second] = format.format(time).split(":").map(Number);
  const fields = cron.split(" ");
  return [second, minute, hour].every((value, i) => (fields[i] ?? "").split(",").some((part) => isIn(part, value ?? -1)));
}
function isIn(part: string, value: number): boolean {
  const [range = "", step = "1"] = part.split("/");
  const [from = "0", to = part.includes("/") ? "59" : from] = range === "*" ? ["0", "59"] : range.split("-");
  return value >= Number(from) && value <= Number(to) && (value - Number(from)) % Number(step) === 0;
}
function shown(time: number | undefined): string {
  return time === undefined ? "none" : new Date(time).toISOString().slice(11, 19);
}
