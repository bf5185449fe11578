// Many seeds of one simulation, for tests: fails with the smallest trace of the first seed that fails.
// Owns: nothing between calls.
// Invariants: what it throws names the seed and the options that reproduce it.

import { shrink } from "./shrink.ts";
import { type SimulationOptions, type SimulationReport, simulate } from "./simulation.ts";

export interface Exploration extends Omit<SimulationOptions, "seed"> {
  /** How many seeds. */
  readonly seeds: number;
  /** The first of them. Default 1; a number that changes explores more. */
  readonly from?: number;
}

export class SimulationFailed extends Error {
  override readonly name = "SimulationFailed";
  /** What reproduces it: `simulate(options)`. */
  readonly options: SimulationOptions;
  readonly report: SimulationReport;

  constructor(options: SimulationOptions, report: SimulationReport) {
    const { scenes: _, ...given } = options;
    const reason = report.violation?.message ?? "nothing";
    super(`${reason}\nreproduce: simulate({ ...options, ...${JSON.stringify(given)} })\n${report.trace.join("\n")}`, {
      cause: report.violation,
    });
    this.options = options;
    this.report = report;
  }
}

/** Resolves to the number of events that happened in all of them. */
export async function explore({ seeds, from = 1, ...options }: Exploration): Promise<number> {
  let events = 0;
  for (let seed = from; seed < from + seeds; seed++) {
    const report = await simulate({ ...options, seed });
    events += report.events;
    if (report.violation === undefined) continue;
    const shrunk = await shrink({ ...options, seed }, report);
    throw new SimulationFailed(shrunk.options, shrunk.report);
  }
  return events;
}
