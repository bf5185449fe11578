// Loops of an execution, folded: how many iterations there were, how many of them are kept, how many of these failed.
// Owns: nothing.
// Invariants: L4 R11 (iterations that were trimmed are only counted, by the last commit).

import type { CommitCommand, Turn } from "@holdfast/core";
import type { RecordedOperation } from "@holdfast/host";
import type { TimelineLoop } from "../types.ts";

interface Fold {
  readonly location: string;
  readonly kept: Set<number>;
  readonly failed: Set<number>;
  iterations: number;
  committedAt: number | null;
}

export function loopsOf(turns: readonly Turn[], operations: readonly RecordedOperation[]): TimelineLoop[] {
  const folds = new Map<string, Fold>();
  for (const { command, info } of operations) {
    const isFolded = command.type === "loop" || (command.type === "receive" && command.checkpointEvery !== undefined);
    if (isFolded)
      folds.set(info.location, { location: info.location, kept: new Set(), failed: new Set(), iterations: 0, committedAt: null });
  }
  if (folds.size === 0) return [];
  for (const { commands, time } of turns) {
    for (const command of commands) {
      if (command.type === "commit") committed(folds.get(command.unit), command, time);
      else if (command.type === "dispatch") begun(folds, command.unit);
    }
  }
  for (const { info } of operations) {
    const iterations = begun(folds, info.unit);
    if (info.status === "failed") for (const { fold, index } of iterations) fold.failed.add(index);
  }
  return [...folds.values()].map(({ location, iterations, failed, kept, committedAt }) => {
    return { location, iterations, failed: failed.size, kept: kept.size, committedAt };
  });
}

function committed(fold: Fold | undefined, { count }: CommitCommand, time: number): void {
  if (fold === undefined) return;
  fold.iterations = Math.max(fold.iterations, count);
  fold.committedAt = time;
}

interface Iteration {
  readonly fold: Fold;
  readonly index: number;
}
/** Notes the iterations that a unit is part of: of the loop around it, and of those around that. */
function begun(folds: ReadonlyMap<string, Fold>, unit: string): Iteration[] {
  const found: Iteration[] = [];
  for (let end = unit.indexOf("/~"); end >= 0; end = unit.indexOf("/~", end + 1)) {
    const fold = folds.get(unit.slice(0, end));
    const [, number] = /^~h?(\d+)/.exec(unit.slice(end + 1)) ?? [];
    if (fold === undefined || number === undefined) continue;
    const index = Number(number);
    fold.kept.add(index);
    fold.iterations = Math.max(fold.iterations, index + 1);
    found.push({ fold, index });
  }
  return found;
}
