// What a run has asked of activity workers and other runs, and asks for again when it is resumed.
// Owns: nothing; a reading of its history.
// Invariants: D10 (the end of the run has dropped what was under way: a resume asks for it again, and for nothing that was answered).

import { carriedOutBy, type Job, type OpeningCommand, type Turn } from "@holdfast/core";
import type { AttemptRow } from "../store/port.ts";

export interface RepeatedRequest {
  readonly command: OpeningCommand;
  /** That an activity has had. */
  readonly attempts: number;
  /** Of a child: the run knows that it exists. */
  readonly isStarted: boolean;
}

/** Operations that others carry out. */
const REQUESTED = carriedOutBy("activityWorker", "otherRun");

export interface ResumedRun {
  readonly turns: readonly Turn[];
  /** That the next turn begins with. */
  readonly jobs: readonly Job[];
  /** By their numbers. */
  readonly openOperations: Iterable<number>;
  /** Of these operations alone; undefined: of all. */
  readonly only: readonly number[] | undefined;
  attempts(): Promise<readonly (AttemptRow & { readonly task?: boolean })[]>;
}

/** Requests that have no answer. */
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
