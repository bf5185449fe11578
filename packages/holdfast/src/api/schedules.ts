// `engine.schedules`: runs that start by the clock.
// Owns: checking what users pass, and turning the backend's answers into errors.
// Invariants: T9 (what is refused is refused before anything is written), T7 (an unknown schedule is a ScheduleNotFoundError, except for delete).

import {
  type AnyWorkflow,
  type Codec,
  checkedId,
  checkOptionNames,
  exactDuration,
  type OptionNames,
  parseDuration,
  ScheduleNotFoundError,
} from "@holdfast/core";
import { featureOf } from "../backend/features.ts";
import type { RunStart } from "../backend/port.ts";
import { timingOf } from "../backend/scheduleSettings.ts";
import type { BackendSchedules, ScheduleDescription, ScheduleSettings } from "../backend/schedules.ts";
import { firstTick } from "../schedules/ticks.ts";
import type { Client } from "./client.ts";
import { checkedOptions, invalid, moment } from "./options.ts";
import type { ScheduleInfo, ScheduleSpec, Schedules } from "./scheduleTypes.ts";
import type { StartOptions } from "./types.ts";

/** The id of a run is that of its schedule with a time or a UUID behind it, and must fit, too. */
const LONGEST_ID = 475;
const MOST_LISTED = 1_000;
const OVERLAPS = ["skip", "queue", "allow", "cancel-previous"] as const;

const SPEC: OptionNames<ScheduleSpec> = {
  workflow: true,
  input: true,
  cron: true,
  every: true,
  timezone: true,
  overlap: true,
  catchUp: true,
  jitter: true,
  start: true,
};
const START: OptionNames<NonNullable<ScheduleSpec["start"]>> = {
  queue: true,
  key: true,
  priority: true,
  version: true,
  retry: true,
  signals: true,
  attributes: true,
  deadline: true,
};

/** Checks and encodes a start, as `engine.start` does. */
export type NewStart = (workflow: AnyWorkflow | string, input: unknown, options: StartOptions) => Promise<RunStart>;

export class SchedulesHandle implements Schedules {
  readonly #client: Client;
  readonly #newStart: NewStart;

  constructor(client: Client, newStart: NewStart) {
    this.#client = client;
    this.#newStart = newStart;
  }
  get #backend(): BackendSchedules {
    return featureOf(this.#client.backend, "schedules");
  }

  async set<In = unknown>(id: string, schedule: ScheduleSpec<In>): Promise<void> {
    const backend = this.#backend;
    const settings = await this.#settings(checkedScheduleId(id), checkedSpec(schedule));
    await backend.set(id, settings);
  }
  async #settings(id: string, spec: ScheduleSpec): Promise<ScheduleSettings> {
    const { workflow, input, cron, every, timezone = "UTC", overlap = "skip", catchUp = "1d", jitter, start = {} } = spec;
    if ((cron === undefined) === (every === undefined)) throw invalid("schedule", "Pass either cron or every.", "cron");
    if (every !== undefined && exactDuration(every, "every") < 1_000) throw invalid("schedule", "every must be at least 1 s.", "every");
    if (!OVERLAPS.includes(overlap)) throw invalid("schedule", `overlap must be one of ${OVERLAPS.join(", ")}.`, "overlap");
    for (const [option, length] of Object.entries({ catchUp, jitter })) if (length !== undefined) parseDuration(length, option);
    checkOptionNames("schedule.start", checkedOptions("schedule.start", start), START);
    if ((start as { deadline?: unknown }).deadline instanceof Date)
      throw invalid("schedule.start", "deadline must be a length of time from the start of each run, not a Date.", "deadline");
    const timing = { cron, every, timezone };
    firstTick(timingOf({ ...timing } as ScheduleSettings), this.#client.environment.now());
    const { messages = [], ...run } = await this.#newStart(workflow, input, { ...start, id } as StartOptions);
    const signals = messages.flatMap(({ job }) => (job.type === "signal" ? [{ name: job.name, payload: job.payload }] : []));
    return { ...timing, overlap, catchUp, jitter, run: { ...scheduledRun(run), signals } };
  }
  async get(id: string): Promise<ScheduleInfo> {
    return scheduleInfo(found(id, await this.#backend.get(checkedText(id))), this.#client.codec);
  }
  async list(given?: { after?: string; limit?: number }): Promise<ScheduleInfo[]> {
    const { after, limit = MOST_LISTED } = checkedOptions("schedules.list", given, { after: true, limit: true });
    if (!Number.isInteger(limit) || limit < 1 || limit > MOST_LISTED)
      throw invalid("schedules.list", "limit must be a whole number from 1 to 1,000.", "limit");
    if (after !== undefined && typeof after !== "string") throw invalid("schedules.list", "after must be the id of a schedule.", "after");
    return (await this.#backend.list({ after, limit })).map((one) => scheduleInfo(one, this.#client.codec));
  }
  async pause(id: string): Promise<void> {
    found(id, (await this.#backend.pause(checkedText(id))) || undefined);
  }
  async resume(id: string): Promise<void> {
    found(id, (await this.#backend.resume(checkedText(id))) || undefined);
  }
  async trigger(id: string): Promise<string> {
    return found(id, await this.#backend.trigger(checkedText(id)));
  }
  async delete(id: string): Promise<void> {
    await this.#backend.delete(checkedText(id));
  }
  async backfill(id: string, span: { from: Date; to: Date }): Promise<string[]> {
    const { from, to } = checkedOptions("schedules.backfill", span, { from: true, to: true });
    const between = { from: moment("schedules.backfill", "from", from), to: moment("schedules.backfill", "to", to) };
    if (between.from > between.to) throw invalid("schedules.backfill", "from must not be after to.", "from");
    return [...found(id, await this.#backend.backfill(checkedText(id), between))];
  }
}

export function scheduleInfo({ run, isPaused, nextTicks, lastTick, ...schedule }: ScheduleDescription, codec: Codec): ScheduleInfo {
  const { workflow, input, signals, queue, key, priority, version, retry, attributes, deadline } = run;
  const { id, cron, every, timezone, overlap, catchUp, jitter, lastRunId, missed } = schedule;
  return {
    id,
    workflow,
    input: codec.decode(input),
    cron,
    every,
    timezone,
    overlap,
    catchUp,
    ...(jitter !== undefined && { jitter }),
    start: {
      queue,
      ...(key !== undefined && { key }),
      priority,
      ...(version !== undefined && { version }),
      ...(retry !== undefined && { retry }),
      ...(signals.length > 0 && { signals: signals.map(({ name, payload }) => ({ name, payload: codec.decode(payload) })) }),
      attributes: { ...attributes },
      ...(deadline !== undefined && { deadline }),
    },
    paused: isPaused,
    nextRuns: nextTicks.map((tick) => new Date(tick)),
    lastRunId,
    lastTick: lastTick === undefined ? undefined : new Date(lastTick),
    missed,
  };
}

function checkedSpec(spec: ScheduleSpec): ScheduleSpec {
  if (typeof spec !== "object" || spec === null || Array.isArray(spec))
    throw invalid("schedule", "Expected a schedule, { workflow, cron } or { workflow, every }.");
  checkOptionNames("schedule", spec, SPEC);
  return spec;
}
function checkedScheduleId(id: string): string {
  checkedId("schedule", id);
  if (typeof id !== "string") throw invalid("schedule", "The id of a schedule must be text.", "id");
  if (/[@!]/.test(id)) throw invalid("schedule", 'The id of a schedule must not contain "@" or "!".', "id");
  if (id.length > LONGEST_ID) throw invalid("schedule", `The id of a schedule must have at most ${LONGEST_ID} characters.`, "id");
  return id;
}
/** Of a schedule that exists, or does not. */
function checkedText(id: string): string {
  if (typeof id === "string") return id;
  throw invalid("schedules", "The id of a schedule must be text.", "id");
}
function found<T>(id: string, value: T | undefined): T {
  if (value === undefined) throw new ScheduleNotFoundError({ schedule: id });
  return value;
}
function scheduledRun(start: Omit<RunStart, "messages">): Omit<ScheduleSettings["run"], "signals"> {
  const { workflow, version, input, isChecked, queue, key, priority, deadline, retry, attributes, retention } = start;
  return { workflow, version, input, isChecked, queue, key, priority, deadline, retry, attributes, retention };
}
