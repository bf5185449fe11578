// The public types of schedules.
// Owns: types only.
// Invariants: names and shapes are fixed.

import type { Duration, Workflow } from "@holdfast/core";
import type { StartOptions } from "./types.ts";

/** Runs that start by the clock. */
export interface Schedules {
  /**
   * Creates or replaces the schedule. An equal spec changes nothing, so that every process may call it when it starts. A changed `cron`,
   * `every` or `timezone` counts from now; any other change holds from the next tick.
   * @throws `InvalidInputError` for a pattern that is invalid or never comes, an unknown time zone, an id with "@" or "!", and an input or
   * option that is invalid.
   * @example
   * ```ts
   * const report = workflow("report", async (ctx) => ctx.run.tick?.toISOString());
   * const engine = await testEngine({ workflows: [report] });
   * await engine.schedules.set("daily", { workflow: report, cron: "0 9 * * *", timezone: "Europe/Berlin" });
   * await engine.advance("1d");
   * console.log((await engine.list({ schedule: "daily" })).runs.map((run) => run.id)); // ["daily@2026-01-01T08:00:00Z"]
   * await engine.close();
   * ```
   */
  set<In = unknown>(id: string, schedule: ScheduleSpec<In>): Promise<void>;
  /**
   * The schedule of that id.
   * @throws `ScheduleNotFoundError` if there is no such schedule.
   * @example
   * ```ts
   * const engine = await testEngine({ workflows: [] });
   * await engine.schedules.set("hourly", { workflow: "report", every: "1h" });
   * console.log((await engine.schedules.get("hourly")).nextRuns[0]); // new Date("2026-01-01T01:00:00Z")
   * await engine.close();
   * ```
   */
  get(id: string): Promise<ScheduleInfo>;
  /**
   * Schedules in the order of their ids: those behind the id `after`, and at most `limit` of them (1 to 1,000; without it: 1,000).
   * @throws `InvalidInputError` if `limit` is out of range.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.schedules.set("hourly", { workflow: "report", every: "1h" });
   * console.log((await engine.schedules.list()).map((schedule) => schedule.id)); // ["hourly"]
   * await engine.close();
   * ```
   */
  list(page?: { after?: string; limit?: number }): Promise<ScheduleInfo[]>;
  /**
   * Stops ticks until `resume`. What would have come in between does not come later.
   * @throws `ScheduleNotFoundError` if there is no such schedule.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.schedules.set("hourly", { workflow: "report", every: "1h" });
   * await engine.schedules.pause("hourly");
   * console.log((await engine.schedules.get("hourly")).paused); // true
   * await engine.close();
   * ```
   */
  pause(id: string): Promise<void>;
  /**
   * Lets a paused schedule tick again, from now on.
   * @throws `ScheduleNotFoundError` if there is no such schedule.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.schedules.set("hourly", { workflow: "report", every: "1h" });
   * await engine.schedules.pause("hourly");
   * await engine.schedules.resume("hourly");
   * console.log((await engine.schedules.get("hourly")).paused); // false
   * await engine.close();
   * ```
   */
  resume(id: string): Promise<void>;
  /**
   * Starts a run now, whether or not the schedule is paused or a run of it is open. Returns the id of the run.
   * @throws `ScheduleNotFoundError` if there is no such schedule.
   * @example
   * ```ts
   * const report = workflow("report", async () => "sent");
   * const engine = await testEngine({ workflows: [report] });
   * await engine.schedules.set("hourly", { workflow: report, every: "1h" });
   * const run = engine.run(await engine.schedules.trigger("hourly"), report);
   * console.log(await run.result()); // "sent"
   * await engine.close();
   * ```
   */
  trigger(id: string): Promise<string>;
  /**
   * Removes the schedule. Its runs stay. No error if there is none.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.schedules.set("hourly", { workflow: "report", every: "1h" });
   * await engine.schedules.delete("hourly");
   * console.log(await engine.schedules.list()); // []
   * await engine.close();
   * ```
   */
  delete(id: string): Promise<void>;
  /**
   * Starts the ticks from `from` to `to`, both included, that have no run; none after now. With overlap "allow" all at once, otherwise each
   * after the one before. Returns the ids of the runs that it started.
   * @throws `ScheduleNotFoundError` if there is no such schedule.
   * @throws `InvalidInputError` if `from` is after `to`, or if the span has more than 10,000 ticks.
   * @example
   * ```ts
   * const engine = await testEngine({ workflows: [workflow("report", async () => {})] });
   * await engine.schedules.set("daily", { workflow: "report", every: "1d" });
   * const span = { from: new Date("2025-12-30"), to: new Date("2025-12-31") };
   * console.log(await engine.schedules.backfill("daily", span)); // ["daily@2025-12-30T00:00:00Z", "daily@2025-12-31T00:00:00Z"]
   * await engine.close();
   * ```
   */
  backfill(id: string, span: { from: Date; to: Date }): Promise<string[]>;
}
// biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; the input follows the workflow
/** What a schedule starts, and how it treats late and overlapping ticks. */
export interface ScheduleOptions<In = any> {
  /** The workflow to start, or its name. */
  workflow: Workflow<any, any, any, any, any, In> | string;
  /**
   * The input of each run. It is checked by the schema of the workflow when the schedule is set.
   * @defaultValue `undefined`
   */
  input?: NoInfer<In>;
  /**
   * An IANA name such as "Europe/Berlin".
   * @defaultValue `"UTC"`
   */
  timezone?: string;
  /**
   * If the run of the last tick is still open: "skip" this one, "queue" it after that one (100 at most), "allow" both, or "cancel-previous"
   * and start this one when that one has ended.
   * @defaultValue `"skip"`
   */
  overlap?: "skip" | "queue" | "allow" | "cancel-previous";
  /**
   * How late a tick may still start, if no engine was open at its time.
   * @defaultValue `"1d"`
   */
  catchUp?: Duration;
  /**
   * Spreads the starts of different schedules over this long after their tick.
   * @defaultValue none
   */
  jitter?: Duration;
  /**
   * Options for each run.
   * @defaultValue those of any start
   */
  start?: Pick<StartOptions, "queue" | "key" | "priority" | "version" | "retry" | "signals" | "attributes"> & {
    /**
     * Longest duration of each run.
     * @defaultValue the deadline of the workflow
     */
    deadline?: Duration;
  };
}
/**
 * A schedule: what it starts, and when it ticks, by a cron pattern in its time zone, or at the multiples of a length of time since 1970.
 */
export type ScheduleSpec<In = any> = ScheduleOptions<In> &
  (
    | {
        /** A pattern of 5 fields, or 6 with seconds first: "0 9 * * MON-FRI". `@daily` and similar names work too. */
        cron: string;
        /** Not together with `cron`. */
        every?: undefined;
      }
    | {
        /** A length of time, at least 1 s. Ticks are its multiples since 1970, in UTC. */
        every: Duration;
        /** Not together with `every`. */
        cron?: undefined;
      }
  );
// biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers
/** A schedule and its state. */
export interface ScheduleInfo extends Omit<ScheduleOptions, "workflow"> {
  /** The id of the schedule. */
  id: string;
  /** The name of the workflow that it starts. */
  workflow: string;
  /** Its pattern, if it has one. */
  cron: string | undefined;
  /** Its interval, if it has one. */
  every: Duration | undefined;
  /** Whether it is paused. */
  paused: boolean;
  /** The next five ticks; none while it is paused. */
  nextRuns: Date[];
  /** The run of the last tick that was not skipped. */
  lastRunId: string | undefined;
  /** The nominal time of the last tick that was not skipped. */
  lastTick: Date | undefined;
  /** Number of ticks that were skipped, because of overlap or because they were too late. */
  missed: number;
}
