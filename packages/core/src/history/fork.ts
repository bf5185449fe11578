// The copy of a history that a fork begins with.
// Owns: where a history can be cut, and what of it becomes the fork's; the source's turns are not modified.
// Invariants: F1 (the turns before the one that emitted the operation; its jobs are the fork's first activation; open children get ids of the
// fork), F3 (signals that came later, the state at the cut), F5 (a location that is unknown or can't be replayed up to is refused, and so
// is an open child with an id of its own).

import { preview } from "../base/text.ts";
import { InvalidInputError } from "../errors/index.ts";
import {
  type ChildCommand,
  type ChildStartedJob,
  type Command,
  carriedOutBy,
  childRunId,
  formatLocation,
  type Job,
  type OpeningCommand,
  type Payload,
  type SignalJob,
  type Turn,
} from "../protocol/index.ts";
import { sharedLength } from "../protocol/location.ts";
import { edits } from "../values/options.ts";
import { recordCount } from "./recording.ts";
import { replayView } from "./replayView.ts";

/** The part of a history that a fork shares with its source. */
export interface ForkedHistory {
  /** The copied turns. A fork before the first operation of its source has none: it starts from the beginning. */
  readonly turns: readonly Turn[];
  /** The index of the fork's first own turn. */
  readonly index: number;
  /** The jobs of that turn, besides the start and the fork itself. */
  readonly jobs: readonly Job[];
  /** Signals that came after it, in order. */
  readonly later: readonly SignalJob[];
  /** The numbers of the steps that the copied turns left open. */
  readonly openSteps: ReadonlySet<number>;
  /** The numbers of the operations that the copied turns and these jobs have settled. */
  readonly settled: ReadonlySet<number>;
  /** The number of completed steps with a rollback, at most. */
  readonly rollbacks: number;
  /** The attempt of the run as a whole. */
  readonly attempt: number;
  /** The state that the copied turns published last. */
  readonly state: Payload | undefined;
  /** The rollbacks of copied steps belong to a run that this history was itself copied from (F4). */
  readonly dropsRollbacks: boolean;
}

const STEPS = carriedOutBy("worker");

/**
 * Cuts a history before an operation. `id`: that of the fork.
 * @throws `InvalidInputError` if the history can't be cut there (F5).
 */
export function forkHistory(turns: readonly Turn[], before: string, id: string): ForkedHistory {
  const at = cutOf(turns, before);
  const copied = turns.slice(0, at);
  const cut = turns[at] as Turn;
  const jobs = firstJobs(cut.jobs);
  const open = new OpenWork(copied, jobs);
  const renamed = new Map(open.children.map((child) => [child.seq, ownId(child, turns, id)]));
  const rename = (job: Job): Job => (job.type === "childStarted" ? renamedStart(job, renamed) : job);
  return {
    turns: copied.map((turn) => (turn.jobs.some(isRenamed(renamed)) ? { ...turn, jobs: turn.jobs.map(rename) } : turn)),
    index: cut.index,
    jobs: jobs.map(rename),
    later: turns.slice(at + 1).flatMap((turn) => turn.jobs.flatMap(laterSignal)),
    openSteps: open.steps,
    settled: open.settled,
    rollbacks: open.rollbacks,
    attempt: attemptOf([...copied.flatMap((turn) => turn.jobs), ...cut.jobs]),
    state: stateAfter(copied),
    dropsRollbacks: cut.jobs.some((job) => job.type === "fork" && job.dropsRollbacks === true),
  };
}

/** A fork starts where its source did, has its own deadline, and follows its own fork job. */
const NOT_REPEATED: ReadonlySet<string> = new Set(["start", "fork", "expire"]);

/** An update has been accepted in time: it is not rejected now because that time is over. */
function firstJobs(jobs: readonly Job[]): Job[] {
  return jobs.flatMap((job): Job[] => {
    if (NOT_REPEATED.has(job.type)) return [];
    if (job.type !== "update") return [job];
    const { acceptUntil: _, ...update } = job;
    return [update];
  });
}
/** The schema has transformed it already. One that the schema refused is offered to it again. */
function laterSignal(job: Job): SignalJob[] {
  if (job.type !== "signal") return [];
  const { refused, checked: _, ...signal } = job;
  return [refused === undefined ? { ...signal, checked: true } : signal];
}

function attemptOf(jobs: readonly Job[]): number {
  let attempt = 1;
  for (const job of jobs) if (job.type === "start" || job.type === "resume") attempt = job.attempt ?? attempt;
  return attempt;
}
/** A commit has the state that trimmed turns had published (L3). */
function stateAfter(turns: readonly Turn[]): Payload | undefined {
  let state: Payload | undefined;
  for (const turn of turns) {
    for (const command of turn.commands) if (command.type === "commit") state = command.state ?? state;
    state = turn.state ?? state;
  }
  return state;
}

// ── the cut ──

interface Place {
  readonly location: string;
  /** The position of the turn that emitted the operation, and its index, which counts trimmed turns too. */
  readonly at: number;
  readonly index: number;
  readonly isReplayable: boolean;
}

/** The position of the turn that emitted the operation. After a resume an operation may have been emitted twice: the last one counts. */
function cutOf(turns: readonly Turn[], before: string): number {
  const places = placesIn(turns);
  const place = places.findLast(({ location }) => location === before);
  if (place?.isReplayable === true) return place.at;
  const known = places.filter(({ isReplayable }) => isReplayable);
  const near = place === undefined ? mostSimilar(before, known) : nearestTo(place, known);
  const help = near === undefined ? "There is no operation that this run can be forked before." : `The nearest is ${preview(near)}.`;
  throw refused(
    place === undefined
      ? `The history has no operation at ${preview(before)}. ${help}`
      : `Records before ${preview(before)} were trimmed, so the run can't be replayed up to it. ${help}`,
  );
}

/** Every operation of the history. Trimming only deletes: a turn can be replayed up to if all records that came before it are still there. */
function placesIn(turns: readonly Turn[]): Place[] {
  let records = 0;
  return turns.flatMap((turn, at) => {
    const isReplayable = records === turn.historyLength;
    records += recordCount(turn);
    return turn.commands.flatMap((command) =>
      "n" in command ? { location: locationOf(command), at, index: turn.index, isReplayable } : [],
    );
  });
}
function nearestTo({ index }: Place, places: readonly Place[]): string | undefined {
  return best(places, (place) => Math.abs(place.index - index));
}
/** By the path that they share, then by spelling. */
function mostSimilar(location: string, places: readonly Place[]): string | undefined {
  const share = Math.max(...places.map((place) => sharedLength(location, place.location)));
  const close = places.filter((place) => sharedLength(location, place.location) === share);
  return best(close, (place) => edits(location.slice(share), place.location.slice(share)));
}
function best(places: readonly Place[], distance: (place: Place) => number): string | undefined {
  let found: { readonly place: Place; readonly distance: number } | undefined;
  for (const place of places) {
    const far = distance(place);
    if (found === undefined || far < found.distance) found = { place, distance: far };
  }
  return found?.place.location;
}
function refused(message: string): InvalidInputError {
  return new InvalidInputError({ what: "fork", issues: [{ message, path: ["before"] }] });
}

// ── what the copied turns left open ──

class OpenWork {
  readonly steps: ReadonlySet<number>;
  readonly children: readonly ChildCommand[];
  readonly settled: ReadonlySet<number>;
  readonly rollbacks: number;

  /** `jobs`: of the turn after these, which may settle more, or resume the run (D10). */
  constructor(turns: readonly Turn[], jobs: readonly Job[]) {
    const next: Turn = { index: (turns.at(-1)?.index ?? -1) + 1, time: 0, historyLength: 0, jobs, commands: [] };
    const raw = new Openings([...turns, next]);
    // Where a failure is voided, and inside committed scopes, the view is right about steps. Children outlive their scopes.
    const view = new Openings(replayView([...turns, next]));
    const isOpen = (openings: Openings, seq: number): boolean => !openings.resolved.has(seq) && !openings.canceled.has(seq);
    this.steps = new Set(view.all.flatMap(({ type, seq }) => (STEPS.has(type) && isOpen(view, seq) ? seq : [])));
    this.children = raw.all.filter((command): command is ChildCommand => command.type === "child" && isOpen(raw, command.seq));
    this.settled = new Set(raw.all.flatMap(({ seq }) => (isOpen(raw, seq) || isOpen(view, seq) ? [] : seq)));
    this.rollbacks = raw.all.filter(
      (command) => "rollback" in command && command.rollback === true && raw.completed.has(command.seq),
    ).length;
  }
}

class Openings {
  readonly all: OpeningCommand[] = [];
  readonly resolved = new Set<number>();
  readonly completed = new Set<number>();
  readonly canceled = new Set<number>();

  constructor(turns: readonly Turn[]) {
    for (const { jobs, commands } of turns) {
      for (const job of jobs) this.#job(job);
      for (const command of commands) this.#command(command);
    }
  }
  #job(job: Job): void {
    if (job.type === "resume") for (const seq of job.voids) this.resolved.delete(seq);
    else if (job.type === "resolve") {
      this.resolved.add(job.seq);
      if (job.outcome.status === "completed") this.completed.add(job.seq);
    }
  }
  #command(command: Command): void {
    if ("n" in command && command.type !== "reuse") this.all.push(command);
    else if (command.type === "cancel" && command.join !== true) this.canceled.add(command.seq);
  }
}

// ── children ──

/** The id of a child that the fork starts again. A child with an id that the code chose would conflict with itself. */
function ownId(child: ChildCommand, turns: readonly Turn[], fork: string): string {
  const location = locationOf(child);
  const { runId, execution } = parentOf(child, turns);
  if (child.id === childRunId(runId, execution, location)) return childRunId(fork, 1, location);
  throw refused(
    `The child at ${preview(location)} is open there, and its code gives it the id ${preview(child.id)}, which the fork can't use a second time. Fork before the child was started, or after it ended.`,
  );
}
/** The run as which the code started the child: a history may itself consist of copies. */
function parentOf(child: ChildCommand, turns: readonly Turn[]): { readonly runId: string; readonly execution: number } {
  let parent = { runId: "", execution: 1 };
  for (const { jobs, commands } of turns) {
    for (const job of jobs) {
      if (job.type === "start") parent = { runId: job.runId, execution: job.execution ?? 1 };
      else if (job.type === "fork") parent = { runId: job.runId, execution: 1 };
    }
    if (commands.includes(child)) break;
  }
  return parent;
}
function isRenamed(renamed: ReadonlyMap<number, string>): (job: Job) => boolean {
  return (job) => job.type === "childStarted" && renamed.has(job.seq);
}
function renamedStart(job: ChildStartedJob, renamed: ReadonlyMap<number, string>): Job {
  const runId = renamed.get(job.seq);
  return runId === undefined ? job : { ...job, runId, standsFor: [...(job.standsFor ?? []), job.runId] };
}
function locationOf({ unit, name, n }: OpeningCommand): string {
  return formatLocation(unit, name, n);
}
