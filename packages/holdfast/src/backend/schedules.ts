// Schedules, as `Holdfast` hands them to a backend.
// Owns: the shape of a schedule whose options are checked and whose values are encoded.
// Invariants: T3 T7 T9 (what reaches a backend is valid: a pattern that comes, a known zone, an id without "@" and "!").

import type { Duration, Payload } from "@holdfast/core";
import type { RunStart } from "./port.ts";

/** What each run of a schedule is started with. */
export interface ScheduledRun
  extends Pick<
    RunStart,
    "workflow" | "version" | "input" | "isChecked" | "queue" | "key" | "priority" | "deadline" | "retry" | "attributes"
  > {
  /** How long its closed runs are kept. */
  readonly retention?: RunStart["retention"];
  /** Signals that are delivered with each start: the `name` and `payload` of each. */
  readonly signals: readonly {
    /** The name of the signal. */
    readonly name: string;
    /** The payload, encoded. */
    readonly payload: Payload;
  }[];
}
/** A schedule, as the caller of the port has checked it. */
export interface ScheduleSettings {
  /** Either a pattern … */
  readonly cron: string | undefined;
  /** … or a length of time of at least a second. */
  readonly every: Duration | undefined;
  /** An IANA name. */
  readonly timezone: string;
  /** What a tick does if the run of the last one is still open. */
  readonly overlap: "skip" | "queue" | "allow" | "cancel-previous";
  /** How late a tick may still start. */
  readonly catchUp: Duration;
  /** The starts of different schedules are spread over this long after their tick. */
  readonly jitter: Duration | undefined;
  /** The run that each tick starts. */
  readonly run: ScheduledRun;
}
/** A schedule and its state. */
export interface ScheduleDescription extends ScheduleSettings {
  /** The id of the schedule. */
  readonly id: string;
  /** Whether it is paused. */
  readonly isPaused: boolean;
  /** The next five ticks; none while it is paused. */
  readonly nextTicks: readonly number[];
  /** The run of the last tick that was not skipped. */
  readonly lastRunId: string | undefined;
  /** The nominal time of that tick. */
  readonly lastTick: number | undefined;
  /** How many ticks were skipped, because of overlap or because they were too late. */
  readonly missed: number;
}

/** The schedules of a backend. An answer of undefined or false means that there is no schedule of this id. */
export interface BackendSchedules {
  /**
   * Creates or replaces it (T7). With equal settings (values compared decoded) it changes nothing. A changed pattern, length or zone counts
   * from now; any other change holds from the next tick.
   */
  set(id: string, settings: ScheduleSettings): Promise<void>;
  /** The schedule of that id. Undefined if there is none. */
  get(id: string): Promise<ScheduleDescription | undefined>;
  /** In the order of their ids, those behind `after`, at most `limit`. */
  list(page: { readonly after: string | undefined; readonly limit: number }): Promise<readonly ScheduleDescription[]>;
  /** Stops ticks. False: there is no such schedule. */
  pause(id: string): Promise<boolean>;
  /** Lets it tick again from now on: ticks of the pause are gone. False: there is no such schedule. */
  resume(id: string): Promise<boolean>;
  /** Starts a run now, whatever pause and overlap say. Returns its id. */
  trigger(id: string): Promise<string | undefined>;
  /** Removes it. No error if there is none. */
  delete(id: string): Promise<void>;
  /**
   * Starts the ticks from `from` to `to` that have no run, none after now. Returns their ids. Undefined: there is no such schedule.
   * @throws `InvalidInputError` for more than 10,000 ticks.
   */
  backfill(id: string, span: { readonly from: number; readonly to: number }): Promise<readonly string[] | undefined>;
}
