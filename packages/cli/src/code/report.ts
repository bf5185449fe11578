// What a replay of many histories found.
// Owns: the counts, the groups and the results.
// Invariants: checked = passed + diverged + skipped + failed; runs that diverge at the same place in the same way are one group.

import type { Divergence, ReplayOutcome } from "./protocol.ts";

export interface ReplayGroup extends Divergence {
  readonly workflow: string;
  readonly count: number;
  /** The id of one run. */
  readonly example: string;
}
export interface ReplayReport {
  readonly checked: number;
  readonly passed: number;
  readonly diverged: number;
  readonly skipped: number;
  readonly failed: number;
  readonly groups: readonly ReplayGroup[];
  readonly results: readonly { readonly runId: string; readonly status: "passed" | "diverged" | "skipped" | "failed" }[];
}

export function reportOf(outcomes: readonly ReplayOutcome[]): ReplayReport {
  const results = outcomes.flatMap(({ runId, status }) => (status === "gone" ? [] : [{ runId, status }]));
  const count = (status: ReplayOutcome["status"]) => results.filter((result) => result.status === status).length;
  return {
    checked: results.length,
    passed: count("passed"),
    diverged: count("diverged"),
    skipped: count("skipped"),
    failed: count("failed"),
    groups: groupsOf(outcomes),
    results,
  };
}

/** The largest group first. */
export function groupsOf(outcomes: readonly ReplayOutcome[]): ReplayGroup[] {
  const groups = new Map<string, ReplayGroup>();
  for (const { runId, workflow, divergence } of outcomes) {
    if (divergence === undefined) continue;
    const key = keyOf(workflow, divergence);
    const known = groups.get(key);
    const { location, field, expected, actual, source, advice } = divergence;
    groups.set(
      key,
      known === undefined
        ? { workflow, location, field, expected, actual, source, count: 1, example: runId, advice }
        : { ...known, count: known.count + 1 },
    );
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

/** Fields whose two sides describe whole operations. Others hold values of the user, which differ from run to run. */
const DESCRIBED: ReadonlySet<string> = new Set(["operation", "kind", "name", "unit", "occurrence", "order"]);

function keyOf(workflow: string, { location, field, expected, actual, source }: Divergence): string {
  const sides = DESCRIBED.has(field) ? [expected, actual] : [];
  // Iterations, repetitions and messages are numbered: "poll/~3/fetch#2".
  const place = location.replace(/([~#])[^/#]+/g, "$1");
  return JSON.stringify([workflow, place, field, source?.file, source?.line, source?.column, ...sides]);
}
