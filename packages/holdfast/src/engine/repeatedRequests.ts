// Requests of a run to activity workers and other runs that are repeated when it is resumed, or made again by a fork.
// Owns: nothing; it reads the history.
// Invariants: D10 (the end of the run dropped the requests under way: a resume repeats them, and none that was answered), F1 (a fork makes
// the requests that its copied turns left open, with children under its own ids).

import { carriedOutBy, childRunId, formatLocation, type Job, type OpeningCommand, type Turn } from "@holdfast/core";
import type { AttemptRow } from "../store/port.ts";

export interface RepeatedRequest {
  readonly command: OpeningCommand;
  /** The number of attempts that the activity has had. */
  readonly attempts: number;
  /** For a child: the run knows that it exists. */
  readonly isStarted: boolean;
}

/** Operations that the run's worker does not carry out itself. */
const REQUESTED = carriedOutBy("activityWorker", "otherRun");

export interface ResumedRun {
  readonly turns: readonly Turn[];
  /** The jobs that the next turn begins with. */
  readonly jobs: readonly Job[];
  /** The numbers of the open operations. */
  readonly openOperations: Iterable<number>;
  /** Only these operations; undefined: all. */
  readonly only: readonly number[] | undefined;
  attempts(): Promise<readonly (AttemptRow & { readonly task?: boolean })[]>;
}

/** F1: the requests that the copied turns of a fork left open, as requests of the fork. `jobs`: of its first turn, which may answer some. */
export function forkedRequestsOf(run: Omit<ResumedRun, "only" | "attempts"> & { readonly runId: string }): RepeatedRequest[] {
  const open = new Set(run.openOperations);
  const answered = new Set<number>();
  const started = new Set<number>();
  const canceled = new Set<number>();
  const commands: OpeningCommand[] = [];
  const read = (job: Job): void => {
    if (job.type === "resolve") answered.add(job.seq);
    else if (job.type === "childStarted") started.add(job.seq);
    else if (job.type === "resume") for (const seq of job.voids) answered.delete(seq);
  };
  for (const turn of run.turns) {
    for (const job of turn.jobs) read(job);
    for (const command of turn.commands) {
      if ("n" in command && REQUESTED.has(command.type)) commands.push(command);
      else if (command.type === "cancel") canceled.add(command.seq);
    }
  }
  for (const job of run.jobs) read(job);
  const isOpen = ({ type, seq }: OpeningCommand): boolean =>
    !answered.has(seq) && (open.has(seq) || (type === "child" && started.has(seq) && !canceled.has(seq)));
  return commands
    .filter(isOpen)
    .map((command) => ({ command: asOwn(command, run.runId), attempts: 0, isStarted: started.has(command.seq) }));
}
function asOwn(command: OpeningCommand, runId: string): OpeningCommand {
  if (command.type !== "child") return command;
  return { ...command, id: childRunId(runId, 1, formatLocation(command.unit, command.name, command.n)) };
}

/** The requests without an answer. */
export async function repeatedRequestsOf(run: ResumedRun): Promise<RepeatedRequest[]> {
  const { turns, only } = run;
  const open = new Set(run.openOperations);
  const answered = new Set<number>();
  const started = new Set<number>();
  for (const job of turns.flatMap(({ jobs }) => jobs)) {
    if (job.type === "resolve") answered.add(job.seq);
    else if (job.type === "childStarted") started.add(job.seq);
    else if (job.type === "resume") for (const seq of job.voids) answered.delete(seq);
  }
  for (const job of run.jobs) if (job.type === "resume") for (const seq of job.voids) answered.delete(seq);
  const commands = turns
    .flatMap((turn) => turn.commands)
    .filter((command): command is OpeningCommand => "n" in command && REQUESTED.has(command.type))
    .filter(({ seq }) => only === undefined || only.includes(seq))
    .filter((command) => open.has(command.seq) || (command.type === "child" && started.has(command.seq) && !answered.has(command.seq)));
  const attempts = commands.some(({ type }) => type === "activity") ? await run.attempts() : [];
  return commands.map((command) => {
    const numbers = attempts.filter(({ seq, task }) => task === true && seq === command.seq).map(({ number }) => number);
    return { command, attempts: Math.max(0, ...numbers), isStarted: started.has(command.seq) };
  });
}
