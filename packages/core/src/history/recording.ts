// Turns a live turn into its record, and trims the records that a commit makes obsolete.
// Owns: which parts of an activation enter history, and which records a commit deletes.
// Invariants: M8 M9 (rejected updates and queries leave no trace), L4 R11 (records are trimmed in the commit that stores their state).

import type { Activation, Command, CommitCommand, Completion, Job, Turn } from "../protocol/index.ts";
import { isWithin } from "../protocol/location.ts";
import { recordedJobs } from "../protocol/recordedJobs.ts";

/** The turn as it is recorded; undefined if nothing of it enters history (only queries, evictions or rejected updates). */
export function recordTurn(index: number, historyLength: number, activation: Activation, completion: Completion): Turn | undefined {
  if (completion.status === "failed") return undefined;
  const jobs = recordedJobs(activation.jobs, completion.replies);
  const { commands, state } = completion;
  if (jobs.length === 0 && commands.length === 0) return undefined;
  const turn = {
    index,
    time: completion.time ?? activation.time,
    historyLength: activation.historyLength ?? historyLength,
    jobs,
    commands,
  };
  return state === undefined ? turn : { ...turn, state };
}

/** The number of records in a turn. */
export function recordCount(turn: Turn): number {
  return turn.jobs.length + turn.commands.length;
}

/** The turns that remain after the trims of the last turn (L4). Hosts that store rows delete the same records by prefix. */
export function trimmed(turns: readonly Turn[]): Turn[] {
  // If one turn trims a scope several times, the last trim includes the others.
  const trims = new Map<number, CommitCommand>();
  for (const command of turns.at(-1)?.commands ?? []) {
    if (command.type === "commit" && command.trim !== undefined) trims.set(command.seq, command);
  }
  let result = [...turns];
  for (const commit of trims.values()) result = trimTo(result, commit, commit.trim ?? 0);
  return result;
}

function trimTo(turns: readonly Turn[], commit: CommitCommand, keepFrom: number): Turn[] {
  return forget(turns, commit, (unit) => {
    const iteration = iterationOf(unit, commit.unit);
    return iteration !== undefined && iteration < keepFrom;
  });
}

/** The number of the iteration or dispatch of `scope` that `unit` belongs to. */
function iterationOf(unit: string, scope: string): number | undefined {
  if (!isWithin(unit, scope) || unit.length === scope.length) return undefined;
  const part = /^~h?(\d+)/.exec(unit.slice(scope.length + 1));
  return part === null ? undefined : Number(part[1]);
}

/**
 * Drops the records before a commit that are beneath its scope and in a unit for which `isPast` is true, together with the jobs that
 * resolved them and the messages that they consumed (`consumed` may name more). Empty turns are dropped too. Records older than the scope
 * stay, even at the same locations: a failure that was voided may have got that far before (D10).
 */
export function forget(
  turns: readonly Turn[],
  commit: CommitCommand,
  isPast: (unit: string) => boolean,
  consumed: Set<string> = new Set(),
  timers: ReadonlySet<number> = new Set(),
): Turn[] {
  const gone = new Set<number>();
  const opened = new Set<number>();
  const past = new Set<Command>();
  let begun = false;
  for (const command of commandsBefore(turns, commit)) {
    if ("n" in command) opened.add(command.seq);
    if ("n" in command && command.seq === commit.seq) begun = true;
    else if (!begun) continue;
    else if ("n" in command && isPast(command.unit)) gone.add(command.seq);
    else if ((command.type === "dispatch" || command.type === "handlerFailed") && isPast(command.unit)) {
      past.add(command);
      if (command.type === "dispatch") consumed.add(command.message);
    } else if (command.type === "settle" && gone.has(command.seq)) for (const id of command.messages ?? []) consumed.add(id);
  }
  const isGone = (command: Command): boolean => {
    if ("n" in command) return gone.has(command.seq);
    switch (command.type) {
      case "commit":
        return gone.has(command.seq) || command.seq === commit.seq;
      case "dispatch":
      case "handlerFailed":
        return past.has(command);
      case "acceptUpdate":
      case "completeUpdate":
        return gone.has(command.seq) || consumed.has(command.id);
      default:
        return "seq" in command && gone.has(command.seq);
    }
  };
  // For an operation beneath the scope whose record an earlier trim removed: for example the end of a child that outlived its iteration.
  const isLate = (seq: number): boolean => seq > commit.seq && !opened.has(seq);
  const isAnswer = (job: Job): boolean => {
    if (job.type === "fire") return gone.has(job.seq) || timers.has(job.seq) || isLate(job.seq);
    if (job.type === "resolve" || job.type === "childStarted") return gone.has(job.seq) || isLate(job.seq);
    return (job.type === "signal" || job.type === "update") && consumed.has(job.id);
  };
  const kept: Turn[] = [];
  let passed = false;
  for (const turn of turns) {
    const jobs = passed ? turn.jobs : turn.jobs.filter((job) => !isAnswer(job));
    const commands = turn.commands.filter((command) => {
      passed ||= command === commit;
      return passed || !isGone(command);
    });
    if (jobs.length > 0 || commands.length > 0) kept.push({ ...turn, jobs, commands });
  }
  return kept;
}

function commandsBefore(turns: readonly Turn[], commit: CommitCommand): Command[] {
  const before: Command[] = [];
  for (const turn of turns) {
    for (const command of turn.commands) {
      if (command === commit) return before;
      before.push(command);
    }
  }
  return before;
}
