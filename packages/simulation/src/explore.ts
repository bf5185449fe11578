// Simulates many seeds, for tests. The first seed that fails is shrunk and thrown.
// Owns: nothing between calls.
// Invariants: the error names the seed and the options that reproduce the failure.

import { InvalidInputError } from "@holdfast/core";
import { checkExploration } from "./options.ts";
import { shrink } from "./shrink.ts";
import { type SimulationOptions, type SimulationReport, simulate } from "./simulation.ts";

/** Options of `explore`: which worlds to run. */
export interface Exploration extends Omit<SimulationOptions, "seed"> {
  /** How many seeds to simulate. */
  readonly seeds: number;
  /**
   * The first seed. Pass a different number each time to explore new worlds.
   * @defaultValue `1`
   */
  readonly from?: number;
}

/** A rule was broken in a simulated world. The message says how to run that world again. */
export class SimulationFailed extends Error {
  override readonly name = "SimulationFailed";
  /** `simulate(options)` reproduces the failure. */
  readonly options: SimulationOptions;
  /** What happened in that world. */
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

/** Resolves to the total number of simulated events. */
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

/** X1: a failure that can't be reproduced is useless. Simulates the first seed a second time and compares the traces. */
async function repeat(options: SimulationOptions, { trace }: SimulationReport): Promise<void> {
  const again = (await simulate(options)).trace;
  const at = trace.findIndex((line, i) => line !== again[i]);
  if (at < 0 && again.length === trace.length) return;
  const place = at < 0 ? trace.length : at;
  const lines = [trace, again].map((one) => one[place] ?? "(the end)");
  const message = `seed ${options.seed} gave two traces, which diverge at line ${place + 1}:\n${lines.join("\n")}\nA scenario or workflow waits for real time or I/O, uses its own randomness, or keeps state from one simulation to the next. Give such a step a stand-in (\`replace\`), draw from \`clients.random\`, and create new scenarios in each call of \`scenarios\`.`;
  throw new InvalidInputError({ what: "scenarios", issues: [{ message, path: [] }] });
}
