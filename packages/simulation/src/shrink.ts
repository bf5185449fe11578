// Reduces a failing simulation to a smaller one that fails in the same way.
// Owns: what it tries to remove: scenarios, workers, kinds of faults, disasters, time.
// Invariants: the smaller simulation breaks the same rule; the returned options reproduce it exactly.

import { FAULT_KINDS } from "./faults.ts";
import { type SimulationOptions, type SimulationReport, simulate } from "./simulation.ts";

/** The smallest world found in which the rule is still broken. */
export interface Shrunk {
  /** How to run it. */
  readonly options: SimulationOptions;
  /** What happened in it. */
  readonly report: SimulationReport;
  /** How many simulations were run. */
  readonly tried: number;
}

/** `failed` is the report of a simulation with the options `given`; `most` limits the number of simulations. */
export async function shrink(given: SimulationOptions, failed: SimulationReport, most = 150): Promise<Shrunk> {
  const rule = failed.violation?.rule;
  let options = given;
  let report = failed;
  let tried = 0;
  const attempt = async (change: Partial<SimulationOptions>): Promise<boolean> => {
    if (tried >= most) return false;
    tried++;
    const smaller = { ...options, ...change };
    const found = await simulate(smaller);
    if (found.violation === undefined || found.violation.rule !== rule || found.trace.length > report.trace.length) return false;
    options = smaller;
    report = found;
    return true;
  };
  // Repeats until nothing more can be removed: each removal may make another one possible.
  for (let before: SimulationOptions | undefined; options !== before && tried < most; ) {
    before = options;
    const places = options.only ?? report.scenarios.map((_, i) => i);
    for (const place of places) {
      const only = (options.only ?? places).filter((one) => one !== place);
      if (only.length > 0) await attempt({ only });
    }
    for (const workers of [1, 2]) if (workers < (options.workers ?? 3) && (await attempt({ workers }))) break;
    for (const disasters of [0, 1, 2, 4, 8]) if (disasters < (options.disasters ?? 15) && (await attempt({ disasters }))) break;
    for (const share of [0.25, 0.5, 0.75]) {
      const storm = Math.floor(share * Math.min(options.storm ?? 12_000, report.length));
      if (storm < (options.storm ?? 12_000) && (await attempt({ storm }))) break;
    }
    for (const kind of FAULT_KINDS) {
      if (options.without?.includes(kind) !== true) await attempt({ without: [...(options.without ?? []), kind] });
    }
  }
  return { options, report, tried };
}
