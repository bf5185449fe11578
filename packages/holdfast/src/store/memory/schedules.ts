// The schedules of the memory store.
// Owns: every kept schedule, and which is due next.
// Invariants: T1 (a tick replaces the one that it names, or writes nothing), T2 (a look costs nothing while none is due), T6 (overlap).

import {
  type DueSchedules,
  MOST_QUEUED,
  type ScheduleChange,
  type ScheduleRow,
  type ScheduleState,
  type Tick,
  type TickResult,
} from "../schedulePort.ts";
import type { Runs } from "./runs.ts";
import { isOpen, type KeptRun } from "./state.ts";
import type { Writer } from "./writer.ts";

type Kept = { -readonly [K in keyof ScheduleRow]: ScheduleRow[K] };

export class Schedules {
  readonly #runs: Runs;
  readonly #writer: Writer;
  readonly #schedules = new Map<string, Kept>();
  /** None is due before this. */
  #nextDue = Number.POSITIVE_INFINITY;

  constructor(runs: Runs, writer: Writer) {
    this.#runs = runs;
    this.#writer = writer;
  }

  read(id: string): ScheduleRow | undefined {
    const kept = this.#schedules.get(id);
    return kept === undefined ? undefined : { ...kept };
  }
  list({ after, limit }: { readonly after: string | undefined; readonly limit: number }): ScheduleRow[] {
    const ids = [...this.#schedules.keys()].filter((id) => after === undefined || byCodePoint(id, after) > 0).sort(byCodePoint);
    return ids.slice(0, limit).flatMap((id) => this.read(id) ?? []);
  }
  change({ id, before, after }: ScheduleChange): boolean {
    const kept = this.#schedules.get(id);
    if (kept?.revision !== before?.revision || kept?.tick !== before?.tick) return false;
    this.#schedules.set(id, { lastTick: undefined, lastRunId: undefined, missed: 0, ...kept, ...stateOf(after), id });
    this.#nextDue = Math.min(this.#nextDue, after.dueAt ?? Number.POSITIVE_INFINITY);
    return true;
  }
  delete(id: string): void {
    this.#schedules.delete(id);
  }

  /** When the first is due. */
  get nextDue(): number | undefined {
    let next: number | undefined;
    for (const { dueAt } of this.#schedules.values()) if (dueAt !== undefined && !(dueAt >= (next ?? dueAt + 1))) next = dueAt;
    return next;
  }
  due(now: number, limit: number): DueSchedules {
    if (now < this.#nextDue) return { now, schedules: [] };
    const due: ScheduleRow[] = [];
    this.#nextDue = Number.POSITIVE_INFINITY;
    for (const kept of this.#schedules.values()) {
      if (kept.dueAt === undefined) continue;
      if (kept.dueAt <= now) due.push({ ...kept });
      this.#nextDue = Math.min(this.#nextDue, kept.dueAt);
    }
    due.sort((a, b) => (a.dueAt ?? 0) - (b.dueAt ?? 0));
    return { now, schedules: due.slice(0, limit) };
  }

  tick(tick: Tick, now: number): TickResult {
    const kept = this.#schedules.get(tick.schedule);
    if (kept === undefined || kept.revision !== tick.revision || kept.tick !== tick.replaces) return "lost";
    const result = this.#start(kept, tick, now);
    kept.missed += tick.missed + (result === "skipped" ? 1 : 0);
    kept.tick = tick.next;
    kept.dueAt = tick.nextDueAt;
    this.#nextDue = Math.min(this.#nextDue, tick.nextDueAt ?? Number.POSITIVE_INFINITY);
    return result;
  }
  #start(kept: Kept, { run, overlap, cancel }: Tick, now: number): TickResult {
    if (run === undefined) return "moved";
    const last = kept.lastRunId === undefined ? undefined : this.#runs.get(kept.lastRunId);
    const previous = last !== undefined && isOpen(last) && last.id !== run.id ? last : undefined;
    if (this.#runs.get(run.id) === undefined) {
      if (previous !== undefined && (overlap === "skip" || (overlap === "queue" && this.#queued(kept.id) >= MOST_QUEUED))) return "skipped";
      const after = previous === undefined || overlap === "allow" ? undefined : previous.id;
      this.#writer.create({ ...run, after }, now);
      // Q10: only then, so that this run waits for what that one waits for, if it has not begun.
      if (previous !== undefined && cancel !== undefined) this.#runs.send({ runId: previous.id, message: cancel }, now);
    }
    kept.lastTick = run.tick;
    kept.lastRunId = run.id;
    return "started";
  }
  /** How many runs of its ticks wait for another. */
  #queued(schedule: string): number {
    const isQueued = (run: KeptRun): boolean =>
      run.schedule === schedule && run.tick !== undefined && run.after !== undefined && isOpen(run);
    return [...this.#runs.all()].filter(isQueued).length;
  }
}

/** The order of UTF-8, in which databases compare texts. */
function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
function stateOf({ revision, spec, isPaused, tick, dueAt }: ScheduleState): ScheduleState {
  return { revision, spec, isPaused, tick, dueAt };
}
