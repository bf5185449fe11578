// Job: play the host of a random program: what arrives, in which order, grouped into which activations.
// Owns: the arbitrary of schedules, and how one is carried out against whatever the run has open at the time.
// Invariants: X6 (jobs in order), K8 (timers in due order, once, never early; time never goes back), C7 (late results may arrive),
// M8 (updates that no handler takes are sent too).

import type { HostOperation, Job, Outcome } from "@holdfast/core";
import { DeadlineExceededError, jsonCodec, serializeError } from "@holdfast/core";
import type { Harness } from "@holdfast/core/testing";
import fc from "fast-check";
import { SIGNALS, type SignalName, UPDATES } from "./program.ts";

/** One thing that happens to a run. What can't happen when its turn comes (nothing open, no timer due) is passed over. */
export type Arrival =
  /** The host has carried out one of the open operations. */
  | { readonly arrive: "answer"; readonly pick: number; readonly how: "completed" | "failed" | "canceled"; readonly value: number }
  /** A result comes for an operation that was abandoned or answered before. */
  | { readonly arrive: "late"; readonly pick: number }
  | { readonly arrive: "signal"; readonly name: SignalName; readonly payload: number }
  | { readonly arrive: "update"; readonly name: string; readonly input: number }
  /** The next timer is due. */
  | { readonly arrive: "fire" }
  /** Time passes; timers may be late. */
  | { readonly arrive: "tick"; readonly ms: number }
  | { readonly arrive: "cancel" }
  /** The deadline strikes (K7). */
  | { readonly arrive: "expire" }
  | { readonly arrive: "query" };

export interface Schedule {
  /** Come with the start. */
  readonly first: readonly Arrival[];
  /** One activation each. */
  readonly turns: readonly (readonly Arrival[])[];
  /** Afterwards everything open is answered and timers fire, until the run is over or only messages could move it … */
  readonly afterwards: "quiet" | "messages" | "cancel";
}

const arrival: fc.Arbitrary<Arrival> = fc.oneof(
  {
    weight: 36,
    arbitrary: fc.record({
      arrive: fc.constant("answer" as const),
      pick: fc.nat({ max: 7 }),
      how: fc.constantFrom("completed", "completed", "completed", "completed", "failed", "canceled"),
      value: fc.nat({ max: 9 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ arrive: fc.constant("late" as const), pick: fc.nat({ max: 7 }) }) },
  {
    weight: 15,
    arbitrary: fc.record({ arrive: fc.constant("signal" as const), name: fc.constantFrom(...SIGNALS), payload: fc.nat({ max: 9 }) }),
  },
  {
    weight: 9,
    arbitrary: fc.record({ arrive: fc.constant("update" as const), name: fc.constantFrom(...UPDATES, "w"), input: fc.nat({ max: 9 }) }),
  },
  { weight: 12, arbitrary: fc.constant({ arrive: "fire" as const }) },
  { weight: 3, arbitrary: fc.record({ arrive: fc.constant("tick" as const), ms: fc.constantFrom(1, 7, 20) }) },
  { weight: 1, arbitrary: fc.constant({ arrive: "cancel" as const }) },
  { weight: 1, arbitrary: fc.constantFrom({ arrive: "query" as const }, { arrive: "query" as const }, { arrive: "expire" as const }) },
) as fc.Arbitrary<Arrival>;

export const schedules: fc.Arbitrary<Schedule> = fc.record({
  first: fc.array(arrival, { maxLength: 2 }),
  turns: fc.array(fc.array(arrival, { minLength: 1, maxLength: 4 }), { maxLength: 10, size: "max" }),
  afterwards: fc.constantFrom("quiet", "messages", "messages", "cancel"),
});

/** Activations after the scheduled ones, at most; a run that has not ended by then is left as it is. */
const MAX_MORE = 60;
const MAX_MESSAGES = 8;

/** Starts the program of a harness that has not started, and drives it by the schedule. Throws what fails a turn. */
export async function play(harness: Harness, schedule: Schedule): Promise<void> {
  const host = new Host(harness);
  await harness.start(null, ...host.jobs(schedule.first));
  for (const arrivals of schedule.turns) {
    if (harness.terminal !== undefined) return;
    const jobs = host.jobs(arrivals);
    if (jobs.length > 0) await harness.turn(...jobs);
  }
  let messages = 0;
  for (let turn = 0; turn < MAX_MORE && harness.terminal === undefined; turn++) {
    let jobs = host.more(turn);
    if (jobs.length > 0) {
      await harness.turn(...jobs);
      continue;
    }
    if (schedule.afterwards === "quiet") return;
    if (schedule.afterwards === "cancel" || messages >= MAX_MESSAGES) jobs = host.jobs([{ arrive: "cancel" }]);
    else if (messages++ % 2 === 0) jobs = host.jobs(SIGNALS.map((name) => ({ arrive: "signal", name, payload: messages })));
    else jobs = host.jobs(UPDATES.map((name) => ({ arrive: "update", name, input: messages })));
    if (jobs.length === 0) return;
    await harness.turn(...jobs);
  }
}

class Host {
  readonly #harness: Harness;
  /** Children that have been reported as started. */
  readonly #started = new Set<number>();
  #canceled = false;

  constructor(harness: Harness) {
    this.#harness = harness;
  }

  /** What arrives in one activation. */
  jobs(arrivals: readonly Arrival[]): Job[] {
    const harness = this.#harness;
    const jobs: Job[] = [];
    const gone = new Set<number>();
    for (const one of arrivals) {
      switch (one.arrive) {
        case "answer": {
          const open = this.#answerable(gone);
          const operation = open[one.pick % Math.max(open.length, 1)];
          if (operation !== undefined) jobs.push(this.#answer(operation, one.how, one.value, gone));
          break;
        }
        case "late": {
          const late = this.#late();
          const seq = late[one.pick % Math.max(late.length, 1)];
          if (seq !== undefined) jobs.push({ type: "resolve", seq, outcome: completed(99) });
          break;
        }
        case "signal":
          jobs.push(harness.signalJob(one.name, one.payload));
          break;
        case "update":
          jobs.push(harness.updateJob(one.name, one.input));
          break;
        case "fire": {
          const timer = this.#nextTimer(gone);
          if (timer === undefined) break;
          gone.add(timer.seq);
          harness.time = Math.max(harness.time, timer.due);
          jobs.push({ type: "fire", seq: timer.seq });
          break;
        }
        case "tick":
          harness.time += one.ms;
          break;
        case "cancel":
          if (!this.#canceled) jobs.push({ type: "cancel", reason: "enough" });
          this.#canceled = true;
          break;
        case "expire":
          jobs.push({
            type: "expire",
            error: serializeError(new DeadlineExceededError({ runId: "run-1", deadline: harness.time })),
          });
          break;
        case "query":
          jobs.push(harness.queryJob("nothing"));
          break;
      }
    }
    return jobs;
  }

  /** Whatever can go on by itself: one operation, all of them, or the next timer. */
  more(turn: number): Job[] {
    const gone = new Set<number>();
    const open = this.#answerable(gone);
    const answered = turn % 2 === 0 ? open.slice(-1) : open;
    if (answered.length > 0) return answered.map((operation) => this.#answer(operation, "completed", turn, gone));
    return this.jobs([{ arrive: "fire" }]);
  }

  #answerable(gone: ReadonlySet<number>): HostOperation[] {
    return ([...this.#harness.open.values()] as HostOperation[]).filter((one) => one.type !== "sleep" && !gone.has(one.seq));
  }
  #answer(operation: HostOperation, how: "completed" | "failed" | "canceled", value: number, gone: Set<number>): Job {
    const { seq } = operation;
    if (operation.type === "child" && operation.detached === true && !this.#started.has(seq) && how !== "failed") {
      this.#started.add(seq);
      return { type: "childStarted", seq, runId: operation.id };
    }
    gone.add(seq);
    return { type: "resolve", seq, outcome: outcomeOf(operation, how, value) };
  }
  /** Steps and activities that were abandoned. */
  #late(): number[] {
    const { open, commands } = this.#harness;
    const hosts = new Set(commands.flatMap((one) => (one.type === "step" || one.type === "activity" ? [one.seq] : [])));
    return commands.flatMap((one) => (one.type === "cancel" && hosts.has(one.seq) && !open.has(one.seq) ? [one.seq] : []));
  }
  #nextTimer(gone: ReadonlySet<number>): { seq: number; due: number } | undefined {
    let next: { seq: number; due: number } | undefined;
    for (const [seq, due] of this.#harness.timers) {
      if (!gone.has(seq) && (next === undefined || due < next.due)) next = { seq, due };
    }
    return next;
  }
}

function completed(value: unknown): Outcome {
  return { status: "completed", value: jsonCodec.encode(value) };
}
function outcomeOf(operation: HostOperation, how: "completed" | "failed" | "canceled", value: number): Outcome {
  if (how === "canceled" && operation.type === "child") return { status: "canceled" };
  if (how !== "completed") return { status: "failed", error: serializeError(new Error(`e${value}`)), attempts: 1 };
  const nothing = operation.type === "signalRun" || operation.type === "cancelRun" || operation.type === "rollback";
  return completed(nothing ? undefined : value);
}
