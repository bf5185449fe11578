// Many seeds of one simulation, for tests: fails with the smallest trace of the first seed that fails.
// Owns: nothing between calls.
// Invariants: what it throws names the seed and the options that reproduce it.

import { InvalidInputError } from "@holdfast/core";
import { checkExploration } from "./options.ts";
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
    const { scenarios: _, ...given } = options;
    const reason = report.violation?.message ?? "nothing";
    super(`${reason}\nreproduce: simulate({ ...options, ...${JSON.stringify(given)} })\n${report.trace.join("\n")}`, {
      cause: report.violation,
    });
    this.options = options;
    this.report = report;
  }
}

/** Resolves to the number of events that happened in all of them. */
export async function explore(exploration: Exploration): Promise<number> {
  checkExploration(exploration);
  const { seeds, from = 1, ...options } = exploration;
  let events = 0;
  for (let seed = from; seed < from + seeds; seed++) {
    const report = await simulate({ ...options, seed });
    events += report.events;
    if (report.violation === undefined) {
      if (seed === from) await repeat({ ...options, seed }, report);
      continue;
    }
    const shrunk = await shrink({ ...options, seed }, report);
    throw new SimulationFailed(shrunk.options, shrunk.report);
  }
  return events;
}

/** X1: what can't be repeated can't be found again. Holds the first seed against itself. */
async function repeat(options: SimulationOptions, { trace }: SimulationReport): Promise<void> {
  const again = (await simulate(options)).trace;
  const at = trace.findIndex((line, i) => line !== again[i]);
  if (at < 0 && again.length === trace.length) return;
  const place = at < 0 ? trace.length : at;
  const lines = [trace, again].map((one) => one[place] ?? "(the end)");
  const message = `seed ${options.seed} gave two traces, which part at line ${place + 1}:\n${lines.join("\n")}\nSomething in them waits for real time or I/O, draws from a chance of its own, or keeps what changes from one simulation to the next. Give such a step a stand-in (\`replace\`), draw from \`clients.random\`, and make scenarios anew in \`scenarios\`.`;
  throw new InvalidInputError({ what: "scenarios", issues: [{ message, path: [] }] });
}
