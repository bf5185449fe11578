// Schedules on their way to the server and back, and their ticks.
// Owns: what they are handed over as.
// Invariants: T1 T6, as in `sql/001/schedules.sql`.

import { type Answer, MOST_QUEUED, type ScheduleChange, type ScheduleRow, type Tick, type TickResult } from "holdfast/store";
import { optionalText, readNumber, readOptionalNumber, readOptionalText, readText, text, time, type Value } from "./columns.ts";
import type { Context } from "./context.ts";
import type { NameIds } from "./nameIds.ts";
import { newRunFields } from "./runs/rowFields.ts";
import { messageFields } from "./runs/runRow.ts";

export type ScheduleColumns = Readonly<Record<string, Value>>;
interface Read {
  readonly now: number;
  readonly schedules: readonly ScheduleColumns[] | null;
}

export function scheduleRow(row: ScheduleColumns): ScheduleRow {
  return {
    id: readText(row["id"]),
    revision: readText(row["revision"]),
    spec: readText(row["spec"]),
    isPaused: row["paused"] === true,
    tick: readOptionalNumber(row["tick"]),
    dueAt: readOptionalNumber(row["due_at"]),
    lastTick: readOptionalNumber(row["last_tick"]),
    lastRunId: readOptionalText(row["last_run"]),
    missed: readNumber(row["missed"]),
  };
}

export class Schedules {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }
  async read(ids: readonly string[]): Promise<{ now: number; schedules: (ScheduleRow | undefined)[] }> {
    const { functions, now: given } = this.#context;
    const answer = await functions.ask("read_schedules_1", [given(), JSON.stringify(ids.map(text))]);
    const { now, schedules } = JSON.parse(answer) as Read;
    const found = new Map((schedules ?? []).map(scheduleRow).map((row) => [row.id, row]));
    return { now, schedules: ids.map((id) => found.get(id)) };
  }
  async list({
    after,
    limit,
  }: {
    readonly after: string | undefined;
    readonly limit: number;
  }): Promise<{ now: number; schedules: ScheduleRow[] }> {
    const { functions, now: given } = this.#context;
    const answer = await functions.ask("list_schedules_1", [given(), optionalText(after) ?? null, limit]);
    const { now, schedules } = JSON.parse(answer) as Read;
    return { now, schedules: (schedules ?? []).map(scheduleRow) };
  }
  async change({ id, before, after }: ScheduleChange): Promise<boolean> {
    const { revision, spec, isPaused, tick, dueAt } = after;
    const fields = { revision: text(revision), spec: text(spec), paused: isPaused, tick: time(tick), dueAt: time(dueAt) };
    const values = [text(id), optionalText(before?.revision) ?? null, before?.tick ?? null, JSON.stringify(fields)];
    return (await this.#context.functions.call("change_schedule_1", values)) === "changed";
  }
  async delete(id: string): Promise<void> {
    await this.#context.functions.ask("delete_schedule_1", [text(id)]);
  }
  /** `names` knows those of the runs. */
  async tick(ticks: readonly Tick[], wait: boolean, names: NameIds): Promise<Answer<TickResult>[]> {
    const { functions, now, notifications } = this.#context;
    const values = [now(), JSON.stringify(ticks.map((tick) => tickFields(tick, names))), wait];
    const answer = await functions.call("tick_schedules_1", values, { isBatch: true });
    const results = (JSON.parse(answer) as (TickResult | null)[]).map((result) => result ?? "busy");
    const isCanceling = ticks.some(({ overlap }) => overlap === "cancel-previous");
    if (results.includes("started")) notifications.tell({ work: true, ...(isCanceling && { messages: true, results: true }) });
    return results;
  }
}

function tickFields({ schedule, revision, replaces, missed, run, overlap, cancel, next, nextDueAt }: Tick, names: NameIds): object {
  return {
    i: text(schedule),
    v: text(revision),
    f: replaces,
    m: missed,
    o: overlap,
    n: time(next),
    d: time(nextDueAt),
    r: run === undefined ? undefined : newRunFields(run, names, { touched: [], ending: [] }),
    c: cancel === undefined ? undefined : messageFields(cancel),
    q: MOST_QUEUED,
  };
}
