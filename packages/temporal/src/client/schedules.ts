// Schedules, kept and run by Temporal's own scheduler.
// Owns: how a schedule of Holdfast is one of Temporal's, and how it is read back.
// Invariants: T7 (equal settings change nothing; an unknown schedule is an answer), T9; a schedule that another tool has created is left alone.

import { randomUUID } from "node:crypto";
import { HoldfastError, InvalidInputError, UnsupportedError } from "@holdfast/core";
import {
  areEqual,
  type BackendSchedules,
  lengthOf,
  type RunStart,
  type ScheduleDescription,
  type ScheduleSettings,
} from "holdfast/backend";
import { startHeader } from "../headers.ts";
import { readMemo } from "../memo.ts";
import { isImpossible, queueOf } from "../names.ts";
import { jsonPayload } from "../payloads.ts";
import { api, durationOf, msIfSet, msOf, type temporal, timestampOf } from "../proto.ts";
import { specOf } from "./calendar.ts";
import type { Executions } from "./executions.ts";
import { inParallel } from "./parallel.ts";
import { absenceOf, called, isAlreadyStarted } from "./serviceErrors.ts";
import { type ClientSettings, HOST } from "./settings.ts";
import type { Starts } from "./starts.ts";

type Schedule = temporal.api.schedule.v1.ISchedule;
type Patch = temporal.api.schedule.v1.ISchedulePatch;
type Answer = temporal.api.workflowservice.v1.IDescribeScheduleResponse;

const { ScheduleOverlapPolicy: Overlap } = api.api.enums.v1;
const OVERLAPS = {
  skip: Overlap.SCHEDULE_OVERLAP_POLICY_SKIP,
  queue: Overlap.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
  allow: Overlap.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
  "cancel-previous": Overlap.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER,
} as const satisfies Record<ScheduleSettings["overlap"], number>;

/** In the memo of every schedule that this package has created: lists show it. */
const MARK = "holdfast.schedule";
const NEXT_SHOWN = 5;
/** T7. */
const MOST_BACKFILLED = 10_000;
const READ_AT_ONCE = 20;
const LISTED_AT_ONCE = 1_000;
/** How often a change is repeated that those of other clients overtake. */
const MOST_TRIES = 20;

/** A schedule as it was read. */
interface Found {
  readonly answer: Answer;
  readonly settings: ScheduleSettings;
}
export interface SchedulesHost {
  readonly settings: ClientSettings;
  readonly starts: Starts;
  readonly executions: Executions;
  /** They throw if the client closes, or has closed. */
  assertOpen(): void;
  assertReadable(): void;
}

export class Schedules implements BackendSchedules {
  readonly #host: SchedulesHost;
  readonly #settings: ClientSettings;

  constructor(host: SchedulesHost) {
    this.#host = host;
    this.#settings = host.settings;
  }

  // ── changing ──

  async set(id: string, given: ScheduleSettings): Promise<void> {
    this.#host.assertOpen();
    refuseUnsupported(given);
    const schedule = await this.#scheduleOf(id, given);
    for (let tries = 1; tries <= MOST_TRIES; tries++) {
      const found = await this.#find(id);
      if (found !== undefined && areEqual(found.settings, given, this.#settings.codec)) return;
      if (found !== undefined) await this.#update(id, schedule, found);
      else if (await this.#create(id, schedule)) return;
      // The server drops a change that another one has overtaken, and does not say so: the next look tells.
    }
    throw new HoldfastError(`Schedule "${id}" was changed by others again and again.`, {
      code: "HF_TEMPORAL_UNAVAILABLE",
      retryable: true,
    });
  }
  /** False if it exists. */
  async #create(id: string, schedule: Schedule): Promise<boolean> {
    const { connection, identity } = this.#settings;
    const { service, namespace } = connection;
    const memo = { fields: { [MARK]: jsonPayload(1) } };
    const request = { namespace, scheduleId: id, schedule, identity, requestId: randomUUID(), memo };
    try {
      await called("schedules.set", service.createSchedule(request));
      return true;
    } catch (error) {
      if (isAlreadyStarted(error)) return false;
      throw error;
    }
  }
  async #update(id: string, schedule: Schedule, { answer }: Found): Promise<void> {
    const { connection, identity } = this.#settings;
    const { service, namespace } = connection;
    const { conflictToken, schedule: before } = answer;
    const request = {
      namespace,
      scheduleId: id,
      schedule: { ...schedule, ...(before?.state && { state: before.state }) },
      identity,
      requestId: randomUUID(),
      ...(conflictToken && { conflictToken }),
    };
    await unlessAbsent(called("schedules.set", service.updateSchedule(request)));
  }
  pause(id: string): Promise<boolean> {
    return this.#patch(id, { pause: "Paused by Holdfast." });
  }
  resume(id: string): Promise<boolean> {
    return this.#patch(id, { unpause: "Resumed by Holdfast." });
  }
  /** False: there is none. */
  async #patch(id: string, patch: Patch): Promise<boolean> {
    this.#host.assertOpen();
    if ((await this.#find(id)) === undefined) return false;
    const { connection, identity } = this.#settings;
    const request = { namespace: connection.namespace, scheduleId: id, patch, identity, requestId: randomUUID() };
    return (await unlessAbsent(called("schedules", connection.service.patchSchedule(request)))) !== undefined;
  }
  async delete(id: string): Promise<void> {
    this.#host.assertOpen();
    if ((await this.#find(id)) === undefined) return;
    const { connection, identity } = this.#settings;
    const request = { namespace: connection.namespace, scheduleId: id, identity };
    await unlessAbsent(called("schedules.delete", connection.service.deleteSchedule(request)));
  }

  // ── starting by hand ──

  /** Started by this client: the server would count it as a run that ticks must not overlap. */
  async trigger(id: string): Promise<string | undefined> {
    this.#host.assertOpen();
    const found = await this.#find(id);
    if (found === undefined) return undefined;
    const runId = `${id}!${randomUUID()}`;
    const [answer] = await this.#host.starts.create([{ ...startOf(id, found.settings), id: runId }]);
    if (answer?.status === "failed") throw answer.error;
    return runId;
  }
  /** The server starts them in the background. */
  async backfill(id: string, { from, to }: { readonly from: number; readonly to: number }): Promise<readonly string[] | undefined> {
    this.#host.assertOpen();
    const found = await this.#find(id);
    if (found === undefined) return undefined;
    const { jitter, overlap } = found.settings;
    if (jitter !== undefined && lengthOf(jitter) > 0) {
      const instead = "Temporal does not tell which ticks a span has then. Set the schedule without jitter, backfill it, and set it again.";
      throw new UnsupportedError({ feature: "backfill of a schedule with jitter", host: HOST, instead });
    }
    const until = Math.min(to, Date.now());
    const runIds = (await this.#ticksWithin(id, from, until)).map((tick) => runIdOf(id, tick));
    const described = await inParallel(runIds, READ_AT_ONCE, (runId) => this.#host.executions.describe(runId));
    const missing = runIds.filter((_, i) => described[i] === undefined);
    if (missing.length === 0) return [];
    // T7: with "allow" at once, otherwise each after the one before.
    const overlapPolicy = overlap === "allow" ? OVERLAPS.allow : OVERLAPS.queue;
    const span = { startTime: timestampOf(from - 1), endTime: timestampOf(until), overlapPolicy };
    return (await this.#patch(id, { backfillRequest: [span] })) ? missing : undefined;
  }
  /** From the first moment on, up to the second. */
  async #ticksWithin(id: string, from: number, to: number): Promise<number[]> {
    const { service, namespace } = this.#settings.connection;
    const ticks: number[] = [];
    for (let after = from - 1; after < to; ) {
      const request = { namespace, scheduleId: id, startTime: timestampOf(after), endTime: timestampOf(to) };
      const { startTime } = await called("schedules.backfill", service.listScheduleMatchingTimes(request));
      // It answers with some, the server decides how many, and does not say whether there are more.
      const more = (startTime ?? []).map(msOf).filter((tick) => tick > after);
      ticks.push(...more);
      if (ticks.length > MOST_BACKFILLED) {
        const message = `The span has more than ${MOST_BACKFILLED.toLocaleString("en")} ticks. Pass a shorter one.`;
        throw new InvalidInputError({ what: "schedules.backfill", issues: [{ path: ["to"], message }] });
      }
      after = more.at(-1) ?? to;
    }
    return ticks;
  }

  // ── reading ──

  async get(id: string): Promise<ScheduleDescription | undefined> {
    this.#host.assertReadable();
    const found = await this.#find(id);
    return found === undefined ? undefined : describe(id, found);
  }
  async list({ after, limit }: { readonly after: string | undefined; readonly limit: number }): Promise<ScheduleDescription[]> {
    this.#host.assertReadable();
    const ids = (await this.#ids()).filter((id) => after === undefined || id > after).toSorted();
    // One that is listed may be gone.
    const listed = await inParallel(ids.slice(0, limit), READ_AT_ONCE, async (id) => ({ id, found: await this.#find(id) }));
    return listed.flatMap(({ id, found }) => (found === undefined ? [] : [describe(id, found)]));
  }
  /** Of all schedules that this package has created, in the server's order. */
  async #ids(): Promise<string[]> {
    const { service, namespace } = this.#settings.connection;
    const ids: string[] = [];
    let nextPageToken: Uint8Array | null | undefined;
    do {
      const request = { namespace, maximumPageSize: LISTED_AT_ONCE, ...(nextPageToken && { nextPageToken }) };
      const answer = await called("schedules.list", service.listSchedules(request));
      for (const { scheduleId, memo } of answer.schedules ?? []) if (memo?.fields?.[MARK] !== undefined) ids.push(scheduleId ?? "");
      ({ nextPageToken } = answer);
    } while (nextPageToken !== null && nextPageToken !== undefined && nextPageToken.length > 0);
    return ids;
  }
  /** Undefined: there is none. */
  async #find(id: string): Promise<Found | undefined> {
    if (isImpossible(id)) return undefined;
    const { service, namespace } = this.#settings.connection;
    const answer = await unlessAbsent(called("schedules", service.describeSchedule({ namespace, scheduleId: id })));
    return answer === undefined ? undefined : { answer, settings: this.#settingsIn(id, answer) };
  }

  // ── conversion ──

  async #scheduleOf(id: string, { run, ...given }: ScheduleSettings): Promise<Schedule> {
    const { retry, retention } = run;
    return {
      spec: specOf(given),
      action: await this.#host.starts.actionOf(startOf(id, { run, ...given }), { ...given, retry, retention }),
      policies: { overlapPolicy: OVERLAPS[given.overlap], catchupWindow: durationOf(lengthOf(given.catchUp)) },
      state: {},
    };
  }
  #settingsIn(id: string, { schedule }: Answer): ScheduleSettings {
    const action = schedule?.action?.startWorkflow;
    const { settings, version, isUnchecked, workKey, priority = 0, deadline, signals = [] } = startHeader(action?.header?.fields);
    if (settings === undefined) throw foreign(id);
    const { cron, every, timezone, overlap, catchUp, jitter, retry, retention } = settings;
    return {
      cron,
      every,
      timezone,
      overlap,
      catchUp,
      jitter,
      run: {
        workflow: action?.workflowType?.name ?? "",
        version,
        input: this.#settings.payloads.first(action?.input?.payloads),
        isChecked: isUnchecked !== true,
        queue: queueOf(action?.taskQueue?.name ?? "", this.#settings.queue),
        key: workKey,
        priority,
        deadline,
        retry,
        retention,
        attributes: readMemo(action?.memo?.fields).attributes ?? {},
        signals: signals.map(({ name, payload }) => ({ name, payload })),
      },
    };
  }
}

function startOf(id: string, { run }: ScheduleSettings): RunStart {
  const { signals, ...start } = run;
  return {
    ...start,
    id,
    schedule: id,
    onConflict: "reject",
    seed: "",
    messages: signals.map(({ name, payload }) => ({ job: { type: "signal", id: randomUUID(), name, payload } })),
  };
}
function describe(id: string, { answer, settings }: Found): ScheduleDescription {
  const { schedule, info } = answer;
  const isPaused = schedule?.state?.paused === true;
  const lastRunId = info?.recentActions?.at(-1)?.startWorkflowResult?.workflowId ?? undefined;
  const future = (info?.futureActionTimes ?? []).flatMap((time) => msIfSet(time) ?? []);
  return {
    ...settings,
    id,
    isPaused,
    nextTicks: isPaused ? [] : future.slice(0, NEXT_SHOWN),
    lastRunId,
    lastTick: lastRunId === undefined ? undefined : tickIn(id, lastRunId),
    missed: Number(info?.missedCatchupWindow ?? 0) + Number(info?.overlapSkipped ?? 0) + Number(info?.bufferDropped ?? 0),
  };
}

/** The id that the server gives to the run of a tick. */
function runIdOf(id: string, tick: number): string {
  return `${id}-${new Date(tick).toISOString().slice(0, 19)}Z`;
}
/** The inverse. */
function tickIn(id: string, runId: string): number | undefined {
  const tick = Date.parse(runId.slice(id.length + 1));
  return Number.isNaN(tick) ? undefined : tick;
}

function refuseUnsupported({ run }: ScheduleSettings): void {
  if (run.deadline === undefined || run.retry === undefined) return;
  const instead = "Every attempt has the deadline then. Leave one of them out, or start the work as a child that has a retry.";
  throw new UnsupportedError({ feature: "a schedule with both a deadline and a retry", host: HOST, instead });
}
function foreign(id: string): UnsupportedError {
  const instead = `Use what created it, or Temporal's command line: temporal schedule describe --schedule-id ${JSON.stringify(id)}.`;
  return new UnsupportedError({ feature: `the schedule "${id}", which Holdfast has not created`, host: HOST, instead });
}
async function unlessAbsent<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (absenceOf(error) === undefined) throw error;
    return undefined;
  }
}
