// The view of a history that replay consumes: each loop and receive starts at its last commit, and voided failures are removed.
// Owns: deriving that view from the recorded turns, which are not modified.
// Invariants: L3 R11 (replay starts at the commit), D10 (a resume removes the terminal outcome and the failures that caused it).

import { type Command, type CommitCommand, isCommitting, type Job, type ReplayTurn, type ResumeJob, type Turn } from "../protocol/index.ts";
import { isWithin } from "../protocol/location.ts";
import { forget } from "./recording.ts";

/** The turns as replay reads them: from the last commit, and without what a resume has voided. */
export function replayView(turns: readonly Turn[]): ReplayTurn[] {
  return fromCommits(withoutVoided(turns));
}

// ── D10 ──

function withoutVoided(turns: readonly Turn[]): ReplayTurn[] {
  let result: ReplayTurn[] = [...turns];
  for (let i = 0; i < turns.length; i++) {
    for (const job of turns[i]?.jobs ?? []) {
      if (job.type === "resume") result = applyVoid(result, i, job);
    }
  }
  return result;
}

function applyVoid(turns: readonly ReplayTurn[], resume: number, { voids, attempt }: ResumeJob): ReplayTurn[] {
  const result = [...turns];
  const end = result.findLastIndex((turn, i) => i < resume && turn.commands.some((command) => command.type === "fail"));
  if (end < 0) return result;
  let first = end;
  for (const seq of voids) {
    const isFailure = (job: Job) => job.type === "resolve" && job.seq === seq && job.outcome.status !== "completed";
    const at = result.findLastIndex((turn, i) => i <= end && turn.jobs.some(isFailure));
    const turn = result[at];
    if (turn === undefined) continue;
    result[at] = { ...turn, jobs: turn.jobs.filter((job) => !isFailure(job)) };
    first = Math.min(first, at);
  }
  // The run failed again in the turn of a resume: the code that failed belongs to the turns that this resume had voided.
  if (voids.length === 0 && result[end]?.jobs.some((job) => job.type === "resume")) {
    while (result[first - 1]?.voided !== undefined) first--;
  }
  for (let i = first; i <= end; i++) {
    const turn = result[i] as ReplayTurn;
    const commands = i === end ? turn.commands.filter((command) => command.type !== "fail") : turn.commands;
    const { voided } = turn;
    const seqs = voided === undefined ? voids : [...voided.seqs, ...voids];
    result[i] = { ...turn, commands, voided: { seqs, free: voids.length === 0 || voided?.free === true, attempt } };
  }
  return result;
}

// ── L3, R11 ──

function fromCommits(turns: readonly ReplayTurn[]): ReplayTurn[] {
  const last = new Map<number, CommitCommand>();
  for (const turn of turns) {
    for (const command of turn.commands) if (command.type === "commit") last.set(command.seq, command);
  }
  let result: ReplayTurn[] = [...turns];
  for (const commit of last.values()) {
    if (!result.some((turn) => turn.commands.includes(commit))) continue; // it was beneath an outer scope that has committed since
    // Messages and timeouts that the commit carries are delivered by the commit, not by the earlier turns in which they arrived.
    const ids = new Set<string>();
    const timers = new Set<number>();
    const jobs = result.find((turn) => turn.commands.includes(commit))?.jobs ?? [];
    for (const message of commit.messages ?? []) {
      if (message.type !== "fire" && !jobs.some((job) => job.type === message.type && job.id === message.id)) ids.add(message.id);
      else if (message.type === "fire" && !jobs.some((job) => job.type === "fire" && job.seq === message.seq)) timers.add(message.seq);
    }
    result = forget(withMark(result, commit), commit, (unit) => isWithin(unit, commit.unit), ids, timers) as ReplayTurn[];
  }
  return result;
}

/** Marks the opening record of the scope as committed: nothing inside it runs before its commit is reached. */
function withMark(turns: readonly ReplayTurn[], commit: CommitCommand): ReplayTurn[] {
  const mark = (command: Command): Command =>
    isCommitting(command) && command.seq === commit.seq ? { ...command, committed: true } : command;
  return turns.map((turn) =>
    turn.commands.some((one) => "seq" in one && one.seq === commit.seq) ? { ...turn, commands: turn.commands.map(mark) } : turn,
  );
}
