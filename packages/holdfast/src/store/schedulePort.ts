// The part of the port that keeps schedules and starts their ticks.
// Owns: the words of storage for schedules.
// Invariants: T1 (a tick is one transaction, a compare-and-set on the tick that it replaces), T2 (due schedules come with the look at
// deadlines), T6 (overlap is decided in that transaction, by the row of the run of the last tick).
//
// A store knows when a schedule is due, not why: it keeps the spec as text that only the engine reads, and the engine computes the ticks.

import type { Answer } from "./batch.ts";
import type { NewMessage, NewRun } from "./port.ts";

/** What a tick does if the run of the last one is still open. */
export type Overlap = "skip" | "queue" | "allow" | "cancel-previous";

/** T6: the most runs of a schedule that wait for the run before them; further ticks are skipped. */
export const MOST_QUEUED = 100;

/** What callers decide about a schedule. */
export interface ScheduleState {
  /** Changes with every change of these fields. Ticks don't change it. */
  readonly revision: string;
  /** The schedule as JSON, as users have set it. */
  readonly spec: string;
  /** Whether it is paused. */
  readonly isPaused: boolean;
  /** The next tick that is neither started nor missed. Undefined: none comes, or it is paused. */
  readonly tick: number | undefined;
  /** When that tick is to be started (T8). */
  readonly dueAt: number | undefined;
}
/** A schedule and its state. */
export interface ScheduleRow extends ScheduleState {
  /** The id of the schedule. */
  readonly id: string;
  /** The nominal time of the last tick that was not skipped, in milliseconds since 1970. */
  readonly lastTick: number | undefined;
  /** The run of that tick. */
  readonly lastRunId: string | undefined;
  /** How many ticks were skipped, because of overlap or because they were too late. */
  readonly missed: number;
}
/** Schedules that are due. */
export interface DueSchedules {
  /** The time of the store, in milliseconds since 1970. */
  readonly now: number;
  /** Those that are due, the longest overdue first. There may be more. */
  readonly schedules: readonly ScheduleRow[];
}

/** A change of a schedule, if it is still as the caller has read it. */
export interface ScheduleChange {
  /** The id of the schedule. */
  readonly id: string;
  /** Undefined: there is none of this id. */
  readonly before: Pick<ScheduleState, "revision" | "tick"> | undefined;
  /** What the schedule is then. Last tick, last run and the number of missed ticks stay. */
  readonly after: ScheduleState;
}

/** One tick of a schedule. */
export interface Tick {
  /** The id of the schedule. */
  readonly schedule: string;
  /** T1: nothing is written unless the schedule has this revision, and this is its tick. */
  readonly revision: string;
  /** The tick that the schedule must have for this one to be valid (T1). */
  readonly replaces: number;
  /** Ticks from that one on that are too late. */
  readonly missed: number;
  /** The run to be started, with its tick. Undefined: all of them are too late. */
  readonly run:
    | (NewRun & {
        /** The nominal time, in milliseconds since 1970. */
        readonly tick: number;
      })
    | undefined;
  /** What to do if the run of the last tick is still open. */
  readonly overlap: Overlap;
  /** What the run of the last tick is sent with "cancel-previous". */
  readonly cancel?: NewMessage | undefined;
  /** The tick after that, in milliseconds since 1970. Undefined: none comes. */
  readonly next: number | undefined;
  /** When that tick is to be started, which is later with a jitter (T8). */
  readonly nextDueAt: number | undefined;
}
/** The result of a tick. */
export type TickResult =
  /** "started": also if a run with that id exists, which then is the run of this tick. "skipped": by overlap. "moved": there was no run to start. */
  | "started"
  | "skipped"
  | "moved"
  /** Another process was first, or the schedule was changed: nothing was written. */
  | "lost";

/** What schedules need. */
export interface ScheduleStore {
  /** The `schedules` with these ids, in order; undefined for those that do not exist. `now`: the time of the store. */
  readSchedules(ids: readonly string[]): Promise<{ readonly now: number; readonly schedules: readonly (ScheduleRow | undefined)[] }>;
  /** Schedules in the order of their ids by code point, those behind `after`, at most `limit`, due or not. */
  listSchedules(page: { readonly after: string | undefined; readonly limit: number }): Promise<DueSchedules>;
  /** Creates or changes a schedule. False: it is no longer as `before` says, and nothing was written. */
  changeSchedule(change: ScheduleChange): Promise<boolean>;
  /** Removes a schedule. Its runs stay. No error if there is none. */
  deleteSchedule(id: string): Promise<void>;
  /** Carries out ticks, in order, by the batch contract; the key is the schedule. `wait` as for `Store.send`. */
  tick(ticks: readonly Tick[], wait?: boolean): Promise<Answer<TickResult>[]>;
}
