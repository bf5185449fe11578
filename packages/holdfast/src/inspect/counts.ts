// Counts of runs as an inspection gives them.
// Owns: nothing.
// Invariants: B2: each count says whether it is capped.

import type { RunStatus } from "@holdfast/core";
import type { RunCounts } from "../store/searchPort.ts";
import type { InspectedCount } from "./types.ts";

export function countsOf({ capped, ...counts }: RunCounts): Record<RunStatus, InspectedCount> {
  const entries = Object.entries(counts) as [RunStatus, number][];
  return Object.fromEntries(entries.map(([status, n]) => [status, { n, capped: capped.includes(status) }])) as Record<
    RunStatus,
    InspectedCount
  >;
}
