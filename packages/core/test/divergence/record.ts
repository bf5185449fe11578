// Job: histories of a program, recorded at many points of many courses, and what they hold.
// Owns: the host that answers a program, and `Recorded`, the reading of a history by location.
// Invariants: Y5 (histories are taken in their portable form), D1 (an operation is answered after it is recorded).
import type { Command, History, HostOperation, Job, OpeningCommand, Turn } from "@holdfast/core";
import { FatalError } from "@holdfast/core";
import { Harness } from "@holdfast/core/testing";
import { compile, type Op, type Program } from "./program.ts";

/** How the host of a course answers: what is open in which order, and whether signals are there from the start. */
interface Course {
  readonly name: string;
  readonly pick: (open: readonly HostOperation[]) => readonly HostOperation[];
  readonly eager?: true;
  /** The run is cancelled before this turn. */
  readonly cancelBefore?: number;
}

const COURSES: readonly Course[] = [
  { name: "all at once", pick: (open) => open },
  { name: "one by one", pick: (open) => open.slice(0, 1) },
  { name: "last first", pick: (open) => open.slice(-1) },
  { name: "signals with the start", pick: (open) => open, eager: true },
  { name: "all at once, backwards", pick: (open) => [...open].reverse() },
  { name: "cancelled early", pick: (open) => open.slice(0, 1), cancelBefore: 2 },
  { name: "cancelled late", pick: (open) => open.slice(0, 1), cancelBefore: 5 },
];

export interface Recording {
  readonly course: string;
  /** How many turns it has. */
  readonly turns: number;
  readonly history: History;
  readonly recorded: Recorded;
}

/** Histories of every course at up to `points` points, the last one included; each once, though courses may agree. */
export async function record(program: Program, points: number): Promise<Recording[]> {
  const recordings = new Map<string, Recording>();
  for (const course of COURSES) {
    const all: Recording[] = [];
    await follow(program, course, (harness) => {
      const history = harness.history();
      all.push({ course: course.name, turns: history.turns.length, history, recorded: new Recorded(history) });
    });
    const chosen = new Set<Recording | undefined>();
    if (points >= all.length) for (const one of all) chosen.add(one);
    else for (let i = 0; i < points; i++) chosen.add(all[Math.round((i * (all.length - 1)) / (points - 1))]);
    for (const one of chosen) if (one !== undefined) recordings.set(JSON.stringify(one.history), one);
  }
  return [...recordings.values()];
}

async function follow(program: Program, course: Course, seen: (harness: Harness) => void): Promise<void> {
  const harness = new Harness(compile(program));
  const failing = failingNames(program.body);
  const early = course.eager === true ? program.messages.filter((one) => one.message === "signal") : [];
  const late = program.messages.filter((one) => !early.includes(one));
  await harness.start(undefined, ...early.map((one) => harness.signalJob(one.name)));
  seen(harness);
  for (let turn = 1; harness.terminal === undefined; turn++) {
    if (turn > 500) throw new Error(`${program.name} (${course.name}) does not end.`);
    const ready = ([...harness.open.values()] as HostOperation[]).filter((operation) => operation.type !== "sleep");
    if (turn === course.cancelBefore) await harness.cancel();
    else if (ready.length > 0) await harness.turn(...course.pick(ready).flatMap((operation) => answer(harness, operation, failing)));
    else if (late.length > 0) {
      const next = late.shift();
      await harness.turn(next?.message === "update" ? harness.updateJob(next.name) : harness.signalJob(next?.name ?? ""));
    } else if (harness.timers.size > 0) await harness.fire();
    else break;
    seen(harness);
  }
}

function answer(harness: Harness, operation: HostOperation, failing: ReadonlySet<string>): Job[] {
  const { seq } = operation;
  const ended = failing.has(operation.name) ? harness.failed(seq, new FatalError("no")) : harness.resolved(seq, null);
  return operation.type === "child" && operation.detached === true ? [{ type: "childStarted", seq, runId: operation.id }, ended] : [ended];
}

function failingNames(body: readonly Op[]): Set<string> {
  const names = new Set<string>();
  JSON.stringify(body, (_key, value: unknown) => {
    if (typeof value === "object" && value !== null && "fails" in value && "name" in value) names.add(String(value.name));
    return value;
  });
  return names;
}

// ── reading ──

export function segment(name: string): string {
  return name.replace(/[%/#~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
export function locationOf(unit: string, name: string, n: number): string {
  const last = n === 0 ? segment(name) : `${segment(name)}#${n}`;
  return unit === "" ? last : `${unit}/${last}`;
}

const NEVER_PAUSING: ReadonlySet<string> = new Set(["sideEffect", "patch", "attributes", "rollbackCheckpoint"]);

/** A history by location: what was opened, how it ended, in which turn. */
export class Recorded {
  /** The kind of its end, if the run has ended. */
  readonly terminal: { readonly type: string; readonly turn: number } | undefined;
  readonly canceled: boolean;
  readonly #opened = new Map<string, { readonly seq: number; readonly turn: number }>();
  readonly #ended = new Map<number, { readonly well: boolean; readonly turn: number }>();
  readonly #dispatched = new Map<string, { readonly message: string; readonly name: string; readonly turn: number }>();
  readonly #accepted = new Map<number, { readonly name: string; readonly turn: number }[]>();
  readonly #winners = new Map<number, { readonly key: string; readonly turn: number }>();
  readonly #committed = new Map<string, number>();
  readonly #sleeps = new Set<number>();

  constructor(history: History) {
    const turns = history.turns as readonly Turn[];
    const messages = new Map<string, { message: string; name: string }>();
    let terminal: { type: string; turn: number } | undefined;
    for (const [turn, { jobs, commands }] of turns.entries()) {
      for (const job of jobs) {
        if (job.type === "resolve" && !this.#ended.has(job.seq))
          this.#ended.set(job.seq, { well: job.outcome.status === "completed", turn });
        else if (job.type === "childStarted") this.#ended.set(job.seq, { well: true, turn });
        else if (job.type === "fire" && this.#sleeps.has(job.seq)) this.#ended.set(job.seq, { well: true, turn });
        else if (job.type === "signal" || job.type === "update") messages.set(job.id, { message: job.type, name: job.name });
      }
      for (const command of commands) {
        this.#read(command, turn, messages);
        if (["complete", "fail", "canceled", "continueAsNew"].includes(command.type)) terminal = { type: command.type, turn };
      }
    }
    this.terminal = terminal;
    this.canceled = turns.some(({ jobs }) => jobs.some((job) => job.type === "cancel"));
  }
  #read(command: Command, turn: number, messages: ReadonlyMap<string, { message: string; name: string }>): void {
    if ("n" in command) this.#open(command, turn);
    else if (command.type === "settle") this.#ended.set(command.seq, { well: ["completed", "timedOut"].includes(command.status), turn });
    else if (command.type === "cancel") this.#ended.set(command.seq, { well: false, turn });
    else if (command.type === "dispatch") {
      const message = messages.get(command.message);
      if (message !== undefined) this.#dispatched.set(command.unit, { ...message, turn });
    } else if (command.type === "winner") this.#winners.set(command.seq, { key: command.key, turn });
    else if (command.type === "acceptUpdate") {
      const name = messages.get(command.id)?.name ?? "";
      this.#accepted.set(command.seq, [...(this.#accepted.get(command.seq) ?? []), { name, turn }]);
    } else if (command.type === "commit") {
      this.#committed.set(command.unit, command.count);
      this.#accepted.delete(command.seq);
    }
  }
  #open(command: OpeningCommand, turn: number): void {
    this.#opened.set(locationOf(command.unit, command.name, command.n), { seq: command.seq, turn });
    if (command.type === "sleep") this.#sleeps.add(command.seq);
    if (NEVER_PAUSING.has(command.type)) this.#ended.set(command.seq, { well: true, turn });
  }

  /** The turn that opened it; undefined if none did. */
  opened(location: string): number | undefined {
    return this.#opened.get(location)?.turn;
  }
  /** The turn in which it ended so that its unit went on after it. */
  endedWell(location: string): number | undefined {
    const ended = this.#ended.get(this.#opened.get(location)?.seq ?? -1);
    return ended?.well === true ? ended.turn : undefined;
  }
  /** Who won a race, and when. */
  won(race: string): { readonly key: string; readonly turn: number } | undefined {
    return this.#winners.get(this.#opened.get(race)?.seq ?? -1);
  }
  /** The updates that a receive has accepted, since its last commit. */
  accepted(receive: string): readonly { readonly name: string; readonly turn: number }[] {
    return this.#accepted.get(this.#opened.get(receive)?.seq ?? -1) ?? [];
  }
  /** Which message a receive handed to its k-th handler. */
  dispatched(receive: string, k: number): { readonly message: string; readonly name: string; readonly turn: number } | undefined {
    return this.#dispatched.get(`${receive}/~h${k}`);
  }
  /** Iterations or messages before this one are not replayed (L3, R11). */
  committed(scope: string): number {
    return this.#committed.get(scope) ?? 0;
  }
}
