// What becomes due: deadlines of runs, limits of attempts, and messages that callers' transactions have left behind.
// Owns: how far the store's clock has been followed, and the order in which overdue rows are handled.
// Invariants: K7 (deadlines), D11 (limits of activities, by the store's clock), W3 (a clock that was set back ends no lease early); rows
// that another transaction has locked are left to the next call; a row that the server refuses stops no other.

import { DeadlineExceededError, serializeError } from "@holdfast/core";
import { type Expired, isolate, isRefusal, type Refused, type ScheduleRow } from "holdfast/store";
import { json, readText } from "./columns.ts";
import type { CallOptions } from "./connection/connections.ts";
import type { Context } from "./context.ts";
import { type LateTask, lateFields } from "./lateTasks.ts";
import { type ScheduleColumns, scheduleRow } from "./schedules.ts";

const LATE_AT_ONCE = 500;
/** Each is a subtransaction: more than 64 of those in one transaction make others slow. */
const MAIL_AT_ONCE = 60;

type LateRunColumns = readonly [runId: string, deadline: number];
interface LateRun {
  readonly r: string;
  readonly e: string;
  /** It ends now, although its deadline has not passed. */
  readonly n?: true;
}
interface OverdueAnswer {
  readonly now: number;
  readonly runs: readonly LateRunColumns[] | null;
  readonly tasks: readonly LateTask[] | null;
  readonly schedules: readonly ScheduleColumns[] | null;
  readonly mail: boolean;
  /** Closed runs whose retention is over. */
  readonly old: boolean;
  /** The clock was set back before this process began. */
  readonly back: boolean;
}
interface Settled {
  readonly taken: readonly number[];
  /** Another transaction has locked their run. */
  readonly busy: readonly number[] | null;
  /** Runs whose next attempt of an activity would come after their deadline. */
  readonly late: readonly LateRunColumns[] | null;
  readonly overdue: boolean;
}
interface Swept {
  readonly left: readonly LateTask[];
  readonly refused: readonly Refused<unknown>[];
}
/** How many, and which are left. */
interface Ended {
  readonly n: number;
  readonly b: readonly string[] | null;
}
/** How many, and whether some are left. */
interface Delivered {
  readonly n: number;
  readonly b: boolean;
}

/** Overdue attempts are ended periodically in any case: the call that found them does not fail with them. */
export const lateAgain = (): void => {};

export class Overdue {
  readonly #context: Context;
  readonly #retention: { isDue: boolean };
  /** The latest time at which deadlines were looked at. */
  #latest: number | undefined;
  /** Mail that is being delivered, and the delivery that begins once that is done, if one was asked for meanwhile. */
  #delivery: Promise<void> | undefined;
  #nextDelivery: Promise<void> | undefined;

  /** `retention`: is notified when runs are due. */
  constructor(context: Context, retention: { isDue: boolean }) {
    this.#context = context;
    this.#retention = retention;
  }

  async expire(): Promise<Expired> {
    const { functions, now: given } = this.#context;
    const refusals: unknown[] = [];
    const note = (refused: readonly Refused<unknown>[]): void => void refusals.push(...refused.map(({ error }) => error));
    let total = 0;
    let time = 0;
    let due: readonly ScheduleRow[] = [];
    const expireRuns = async (late: readonly LateRun[]): Promise<void> => {
      const count = await this.#expire(late);
      if (count > 0) this.#tell({ work: true, messages: true, results: true });
      total += count;
    };
    for (let isOver = false; !isOver; ) {
      const answer = await functions.ask("overdue_1", [given(), LATE_AT_ONCE, this.#latest === undefined]);
      const { now, runs, tasks, schedules, mail, old, back } = JSON.parse(answer) as OverdueAnswer;
      time = now;
      due = (schedules ?? []).map(scheduleRow);
      if (back || now < (this.#latest ?? now)) await functions.ask("cut_leases_1", [given()]);
      this.#latest = Math.max(now, this.#latest ?? now);
      this.#retention.isDue ||= old;
      if (mail) {
        await this.deliverMail().catch((error: unknown) => {
          if (!isRefusal(error)) throw error;
          refusals.push(error);
        });
      }
      if (tasks !== null) note(await this.#sweepAll(now, tasks));
      const before = total;
      const late = (runs ?? []).map(lateRun);
      note(await isolate(late, expireRuns));
      isOver = late.length < LATE_AT_ONCE || total === before;
    }
    if (refusals.length > 0) throw refusals[0];
    return { expired: total, now: time, schedules: due };
  }
  async #expire(runs: readonly LateRun[], wait = false): Promise<number> {
    const { functions, now } = this.#context;
    const { n, b } = JSON.parse(await functions.ask("expire_runs_1", [now(), JSON.stringify(runs), wait])) as Ended;
    if (b === null || wait) return n; // runs that stay locked are left to the next call
    return n + (await this.#expire(runs.filter(({ r }) => b.includes(r)), true)); // biome-ignore format: one line
  }
  /** Ends attempts whose time is up. `left`: another transaction has locked their run. */
  async #sweep(now: number, tasks: readonly LateTask[], wait = false): Promise<Swept> {
    const fields = tasks.flatMap((task, i) => lateFields(task, now, i) ?? []);
    const left: LateTask[] = [];
    const refused = await isolate(fields, async (late) => {
      const { taken, busy } = await this.settle(late, wait);
      if (taken.length > 0) this.#tell({ work: true, messages: true, tasks: true });
      left.push(...tasks.filter((_, i) => busy?.includes(i) === true));
    });
    return { left, refused };
  }
  /** Those that stay locked are left to the next call. */
  async #sweepAll(now: number, tasks: readonly LateTask[]): Promise<readonly Refused<unknown>[]> {
    const { left, refused } = await this.#sweep(now, tasks);
    return left.length === 0 ? refused : [...refused, ...(await this.#sweep(now, left, true)).refused];
  }
  /** Ends attempts, as `settle_tasks_1` reads them. */
  async settle(fields: readonly object[], wait: boolean, how: CallOptions = {}): Promise<Settled> {
    const { functions, now } = this.#context;
    const values = [now(), JSON.stringify(fields), wait];
    const settled = JSON.parse(await functions.call("settle_tasks_1", values, how)) as Settled;
    if (settled.late !== null) await this.#expireNow(settled.late.map(lateRun)).catch(lateAgain);
    return settled;
  }
  /** K7: they can't meet their deadline any more. If this fails, the deadline itself ends them. */
  async #expireNow(runs: readonly LateRun[]): Promise<void> {
    const count = await this.#expire(runs.map((run) => ({ ...run, n: true })));
    if (count > 0) this.#tell({ work: true, messages: true, results: true });
  }
  /** Of what a call of activities has found to be overdue. */
  async sweepFound(): Promise<void> {
    const { functions, now: given } = this.#context;
    const { now, tasks } = JSON.parse(await functions.ask("overdue_1", [given(), LATE_AT_ONCE, false])) as OverdueAnswer;
    if (tasks !== null) await this.#sweep(now, tasks);
  }
  /** One call at a time: calls of one process would wait for each other, each with a connection that others need. */
  deliverMail(): Promise<void> {
    if (this.#delivery !== undefined) {
      this.#nextDelivery ??= this.#delivery
        .catch(() => undefined)
        .then(() => {
          this.#nextDelivery = undefined;
          return this.deliverMail();
        });
      return this.#nextDelivery;
    }
    this.#delivery = this.#deliverMail().finally(() => {
      this.#delivery = undefined;
    });
    return this.#delivery;
  }
  async #deliverMail(): Promise<void> {
    const { functions, now } = this.#context;
    for (let wait = false; ; ) {
      const { n, b } = JSON.parse(await functions.ask("deliver_mail_1", [now(), MAIL_AT_ONCE, wait])) as Delivered;
      if (n > 0) this.#tell({ work: true, messages: true, results: true });
      if (n === MAIL_AT_ONCE) continue;
      if (wait || !b) return; // messages for a run that stays locked are left to the next call
      wait = true;
    }
  }
  #tell(...changes: Parameters<Context["notifications"]["tell"]>): void {
    this.#context.notifications.tell(...changes);
  }
}

function lateRun([runId, deadline]: LateRunColumns): LateRun {
  return { r: runId, e: json(serializeError(new DeadlineExceededError({ runId: readText(runId), deadline }))) };
}
