// From a simulation that fails to the smallest one that still does.
// Owns: what is tried to be left out: scenarios, workers, kinds of faults, disasters, time.
// Invariants: what is left breaks the same rule; the options it returns reproduce it exactly.

import { FAULT_KINDS } from "./faults.ts";
import { type SimulationOptions, type SimulationReport, simulate } from "./simulation.ts";

export interface Shrunk {
  readonly options: SimulationOptions;
  readonly report: SimulationReport;
  /** Simulations it took. */
  readonly tried: number;
}

/** `report` is of a failed simulation with these options. */
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
  // As long as something could be left out: the next thing may be no part of it any more, though the trace is no shorter.
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
