// The schedules of the embedded engine: callers change them, and every open engine starts what is due.
// Owns: the ticks that this engine is starting. Does not own: when ticks come (schedules/ticks.ts), what a tick writes (the store).
// Invariants: T1 (a tick is a compare-and-set in the store: engines need no leader), T5 (all times are the store's), T7.

import { type Codec, InvalidInputError, type Logger, uncheckedSeed } from "@holdfast/core";
import type { Environment } from "@holdfast/host";
import type { RunStart, StartAnswer } from "../backend/port.ts";
import { areEqual, isSameTiming, lengthOf, settingsFromText, settingsToText, timingOf } from "../backend/scheduleSettings.ts";
import type { BackendSchedules, ScheduleDescription, ScheduleSettings } from "../backend/schedules.ts";
import { dueTicks, runIdOf, startOf, ticksOf } from "../schedules/ticks.ts";
import { Batcher } from "../store/batcher.ts";
import { sizeOfRun } from "../store/batchSizes.ts";
import { faultOf } from "../store/errors.ts";
import type { Store } from "../store/port.ts";
import type { DueSchedules, ScheduleRow, ScheduleState, Tick, TickResult } from "../store/schedulePort.ts";

const NEXT_SHOWN = 5;
/** T7. */
const MOST_BACKFILLED = 10_000;
/** A chain of runs is created in order, this many per call. */
const BACKFILLED_AT_ONCE = 500;
/** Small enough that a store that takes two calls at once has two to carry out. */
const TICKS_PER_CALL = 250;
/** Of one look: the rest is due at the next one, too. */
const TICKS_AT_ONCE = 2_000;

/** How long a schedule that could not be started makes way for others: at first, and at most. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/** How long `close` waits for ticks that are being started. */
const CLOSING_MS = 2_000;

export interface SchedulesHost {
  readonly store: Store;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  /** Throws once the engine is closing. */
  assertOpen(): void;
  /** The store, unless the engine is closed. */
  readable(): Store;
  create(starts: readonly RunStart[]): Promise<StartAnswer[]>;
  /** A run that a caller may wait for is canceled by a tick. */
  canceled(runId: string): void;
  /** More may be due. */
  lookAgain(): void;
}

export class Schedules implements BackendSchedules {
  readonly #host: SchedulesHost;
  readonly #ticks: Batcher<Tick, TickResult>;
  /** By schedule: the ticks that are being started. */
  readonly #underWay = new Map<string, Promise<boolean>>();
  #isClosed = false;
  /** By schedule: the error of the last try, and how many tries in a row have failed. */
  readonly #failures = new Map<string, { readonly text: string; readonly times: number }>();

  constructor(host: SchedulesHost) {
    this.#host = host;
    const { store, environment } = host;
    this.#ticks = new Batcher(environment, (ticks, wait) => store.tick(ticks, wait), {
      limits: store.limits,
      calls: store.limits.calls,
      most: () => TICKS_PER_CALL,
      keyOf: ({ schedule }) => schedule,
      sizeOf: ({ run }) => (run === undefined ? 0 : sizeOfRun(run)),
    });
  }

  // ── changing ──

  set(id: string, settings: ScheduleSettings): Promise<void> {
    return this.#changed(id, (row, now) => {
      const before = row === undefined ? undefined : readable(row);
      if (before !== undefined && areEqual(before, settings, this.#host.codec)) return undefined;
      const isPaused = row?.isPaused ?? false;
      const isSame = before !== undefined && isSameTiming(before, settings);
      const tick = isSame ? row?.tick : isPaused ? undefined : ticksOf(timingOf(settings)).after(now);
      return { spec: settingsToText(settings), isPaused, ...dueOf(id, settings, tick) };
    }).then(() => undefined);
  }
  pause(id: string): Promise<boolean> {
    return this.#changed(id, (row) => {
      if (row === undefined || row.isPaused) return undefined;
      return { spec: row.spec, isPaused: true, tick: undefined, dueAt: undefined };
    });
  }
  /** T7: ticks while it was paused are gone. */
  resume(id: string): Promise<boolean> {
    return this.#changed(id, (row, now) => {
      if (row === undefined || !row.isPaused) return undefined;
      const settings = settingsFromText(row.spec);
      return { spec: row.spec, isPaused: false, ...dueOf(id, settings, ticksOf(timingOf(settings)).after(now)) };
    });
  }
  /** Writes what `change` makes of the schedule, unless that is nothing. False: there is none. */
  async #changed(
    id: string,
    change: (row: ScheduleRow | undefined, now: number) => Omit<ScheduleState, "revision"> | undefined,
  ): Promise<boolean> {
    const { store, environment } = this.#host;
    this.#host.assertOpen();
    for (;;) {
      const { now, schedules } = await store.readSchedules([id]);
      const [row] = schedules;
      const after = change(row, now);
      if (after === undefined) return row !== undefined;
      if (await store.changeSchedule({ id, before: row, after: { ...after, revision: environment.uuid() } })) return true;
    }
  }
  async delete(id: string): Promise<void> {
    this.#host.assertOpen();
    await this.#host.store.deleteSchedule(id);
  }

  // ── reading ──

  async get(id: string): Promise<ScheduleDescription | undefined> {
    const { now, schedules } = await this.#host.readable().readSchedules([id]);
    const [row] = schedules;
    return row === undefined ? undefined : describeSchedule(row, now);
  }
  async list(page: { readonly after: string | undefined; readonly limit: number }): Promise<ScheduleDescription[]> {
    const { now, schedules } = await this.#host.readable().listSchedules(page);
    return schedules.map((row) => describeSchedule(row, now));
  }

  // ── starting by hand ──

  async trigger(id: string): Promise<string | undefined> {
    this.#host.assertOpen();
    const [row] = (await this.#host.store.readSchedules([id])).schedules;
    if (row === undefined) return undefined;
    const runId = `${id}!${this.#host.environment.uuid()}`;
    await this.#created([{ ...this.#start(id, settingsFromText(row.spec), runId), tick: undefined }]);
    return runId;
  }
  async backfill(id: string, { from, to }: { readonly from: number; readonly to: number }): Promise<string[] | undefined> {
    this.#host.assertOpen();
    const { now, schedules } = await this.#host.store.readSchedules([id]);
    const [row] = schedules;
    if (row === undefined) return undefined;
    const settings = settingsFromText(row.spec);
    const found = ticksWithin(settings, from, Math.min(to, now));
    const started: string[] = [];
    let previous: string | undefined;
    for (let at = 0; at < found.length; at += BACKFILLED_AT_ONCE) {
      const some = found.slice(at, at + BACKFILLED_AT_ONCE);
      const rows = await this.#host.store.get(some.map((tick) => runIdOf(id, tick)));
      const starts: RunStart[] = [];
      for (const [i, tick] of some.entries()) {
        const existing = rows[i];
        if (existing === undefined) starts.push({ ...this.#start(id, settings, runIdOf(id, tick)), tick, after: previous });
        // A run that is over keeps nothing waiting; what is before it may be open.
        if (settings.overlap !== "allow" && existing?.finishedAt === undefined) previous = runIdOf(id, tick);
      }
      // In order, since no run of a schedule begins before it is created: each finds the one that it comes after.
      started.push(...(await this.#created(starts)));
    }
    return started;
  }
  /** The ids of those that were created: others have a run. */
  async #created(starts: readonly RunStart[]): Promise<string[]> {
    if (starts.length === 0) return [];
    const answers = await this.#host.create(starts);
    for (const answer of answers) if (answer.status === "failed") throw answer.error;
    return answers.flatMap((answer) => (answer.status === "created" ? [answer.id] : []));
  }
  #start(schedule: string, { run }: ScheduleSettings, id: string): RunStart {
    const { environment } = this.#host;
    const { signals, ...start } = run;
    const messages = signals.map(({ name, payload }) => ({ job: { type: "signal", id: environment.uuid(), name, payload } as const }));
    const seed = environment.uuid();
    return {
      ...start,
      id,
      isIdGenerated: false,
      onConflict: "reject",
      seed: run.isChecked ? seed : uncheckedSeed(seed),
      schedule,
      messages: messages.length === 0 ? undefined : messages,
    };
  }

  // ── ticking ──

  /** Starts what a look at the store has found to be due. A schedule whose ticks wait for a lock does not hold up others. */
  tick({ now, schedules }: DueSchedules): void {
    const writes: Promise<boolean>[] = [];
    let count = 0;
    for (const row of schedules) {
      if (this.#isClosed || this.#underWay.has(row.id)) continue;
      if (count >= TICKS_AT_ONCE || this.#underWay.size >= TICKS_AT_ONCE) break;
      const { ticks, error } = this.#planned(row, now);
      count += ticks.length;
      const write = error === undefined ? this.#write(row, ticks, now) : this.#putOff(row, error, now);
      this.#underWay.set(row.id, write);
      writes.push(write.finally(() => this.#underWay.delete(row.id)));
    }
    // If nothing was written, another look at once would find the same.
    if (writes.length > 0) void Promise.all(writes).then((written) => written.includes(true) && this.#host.lookAgain());
  }
  /** True while ticks are being started. */
  get busy(): boolean {
    return this.#underWay.size > 0;
  }
  /** Starts nothing more. A tick in progress gets a moment. If that is not enough, another engine starts it, or this one when it is opened again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#underWay.size === 0) return;
    await new Promise<void>((done) => {
      const patience = this.#host.environment.patience(CLOSING_MS, done);
      void Promise.all(this.#underWay.values()).then(() => {
        patience.cancel();
        done();
      });
    });
  }
  /** True: something was written. */
  async #write(row: ScheduleRow, ticks: readonly Tick[], now: number): Promise<boolean> {
    try {
      const results = await Promise.all(ticks.map((tick) => this.#ticks.add(tick)));
      this.#failures.delete(row.id);
      this.#report(row.id, ticks, results);
      return results.some((result) => result !== "lost");
    } catch (error) {
      if (faultOf(error) !== "unavailable") return this.#putOff(row, error, now);
      this.#failed(row.id, error);
      return false;
    }
  }
  #planned(row: ScheduleRow, now: number): { readonly ticks: readonly Tick[]; readonly error?: unknown } {
    try {
      return { ticks: this.#plan(row, now) };
    } catch (error) {
      return { ticks: [], error: error ?? new TypeError("The ticks could not be computed.") };
    }
  }
  /** A look finds only the first that are due: one that can't be started makes way for others, for longer each time. */
  async #putOff(row: ScheduleRow, error: unknown, now: number): Promise<boolean> {
    const times = this.#failed(row.id, error);
    if (this.#isClosed) return false;
    const { id, revision, spec, isPaused, tick } = row;
    const dueAt = now + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (times - 1));
    const after = { revision, spec, isPaused, tick, dueAt };
    return this.#host.store.changeSchedule({ id, before: row, after }).catch(() => false); // it is still due
  }
  /** Each replaces the one before it: whatever happens in between, the rest is due as before. */
  #plan(row: ScheduleRow, now: number): Tick[] {
    if (row.tick === undefined) return [];
    const { id, revision } = row;
    const settings = settingsFromText(row.spec);
    const jitter = lengthOf(settings.jitter);
    const all = ticksOf(timingOf(settings));
    const due = dueTicks(all, { id, tick: row.tick, catchUp: lengthOf(settings.catchUp), jitter }, now);
    const { overlap } = settings;
    const moves = due.ticks.length === 0 && due.missed > 0 ? [undefined] : due.ticks;
    let replaces = row.tick;
    return moves.map((tick, i): Tick => {
      const next = moves[i + 1] ?? due.next;
      const { tick: after, dueAt } = dueOf(id, settings, next);
      const item: Tick = {
        schedule: id,
        revision,
        replaces,
        missed: i === 0 ? due.missed : 0,
        run: tick === undefined ? undefined : { ...this.#start(id, settings, runIdOf(id, tick)), tick },
        overlap,
        cancel: overlap === "cancel-previous" && tick !== undefined ? cancelBy(id, tick) : undefined,
        next: after,
        nextDueAt: dueAt,
      };
      if (overlap === "cancel-previous" && row.lastRunId !== undefined) this.#host.canceled(row.lastRunId);
      replaces = next ?? replaces;
      return item;
    });
  }
  #report(schedule: string, ticks: readonly Tick[], results: readonly TickResult[]): void {
    const { logger } = this.#host;
    const missed = ticks.reduce((sum, tick, i) => sum + (results[i] === "lost" ? 0 : tick.missed), 0);
    if (missed > 0)
      logger.warn(`Schedule "${schedule}" missed ${missed} ${missed === 1 ? "tick" : "ticks"}: too late to be caught up.`, { schedule });
    for (const [i, { run }] of ticks.entries())
      if (results[i] === "skipped") logger.info(`Skipped ${run?.id}: the run of the last tick is open.`, { schedule });
  }
  /** Returns how often it has failed in a row. */
  #failed(schedule: string, error: unknown): number {
    const before = this.#failures.get(schedule);
    const failure = { text: String(error), times: (before?.times ?? 0) + 1 };
    if (this.#isClosed) return failure.times;
    this.#failures.set(schedule, failure);
    if (before?.text !== failure.text)
      this.#host.logger.error(`Schedule "${schedule}" is due and could not be started; trying again.`, { schedule, error });
    return failure.times;
  }
}

function dueOf(id: string, { jitter }: ScheduleSettings, tick: number | undefined): Pick<ScheduleState, "tick" | "dueAt"> {
  return { tick, dueAt: tick === undefined ? undefined : startOf(id, tick, lengthOf(jitter)) };
}
function cancelBy(schedule: string, tick: number): NonNullable<Tick["cancel"]> {
  const reason = `schedule ${schedule} has started ${runIdOf(schedule, tick)}`;
  return { job: { type: "cancel", reason } };
}
function readable(row: ScheduleRow): ScheduleSettings | undefined {
  try {
    return settingsFromText(row.spec);
  } catch {
    return undefined;
  }
}
/** A schedule as it is kept, with its next ticks. */
export function describeSchedule(
  { id, spec, isPaused, tick, dueAt, lastRunId, lastTick, missed }: ScheduleRow,
  now: number,
): ScheduleDescription {
  const settings = settingsFromText(spec);
  const ticks = ticksOf(timingOf(settings));
  const nextTicks: number[] = [];
  // What is overdue is about to be started or missed.
  let next = isPaused || tick === undefined ? undefined : (dueAt ?? tick) > now ? tick : ticks.after(now);
  for (; next !== undefined && nextTicks.length < NEXT_SHOWN; next = ticks.after(next)) nextTicks.push(next);
  return { ...settings, id, isPaused, nextTicks, lastRunId, lastTick, missed };
}
/** T7: from ≤ tick ≤ to. */
function ticksWithin(settings: ScheduleSettings, from: number, to: number): number[] {
  const ticks = ticksOf(timingOf(settings));
  const found: number[] = [];
  // There are no ticks before 1970.
  for (let tick = ticks.after(Math.max(from, 0) - 1); tick !== undefined && tick <= to; tick = ticks.after(tick)) {
    if (found.length === MOST_BACKFILLED) {
      const message = `The span has more than ${MOST_BACKFILLED.toLocaleString("en")} ticks. Pass a shorter one.`;
      throw new InvalidInputError({ what: "schedules.backfill", issues: [{ path: ["to"], message }] });
    }
    found.push(tick);
  }
  return found;
}
