// A process that simulates a range of seeds and reports which of them failed.

import { load } from "./bundle.mjs";
import { add, optionsOf } from "./options.mjs";

// Stack traces are not printed here, and creating one takes longer than many a simulated event.
Error.stackTraceLimit = 0;

process.once(
  "message",
  async (
    /** @type {{ path: string, values: import("./options.mjs").Values, from: number, step: number, end: number, clean?: string }} */ job,
  ) => {
    const code = await load(job.path);
    const clean = job.clean === undefined ? undefined : await load(job.clean);
    let news = nothing();
    const tell = () => {
      process.send?.(news);
      news = nothing();
    };
    for (let seed = job.from; seed < job.end; seed += job.step) {
      const report = await code.simulate(optionsOf(code, job.values, seed));
      news.done++;
      news.events += report.events;
      add(news.faults, report.faults);
      for (const scenario of report.scenarios) add(news.scenarios, { [scenario.replace(/\d+$/, "")]: 1 });
      let { violation } = report;
      // A bug counts as found only if the engine without the bug passes the same seed.
      if (
        violation !== undefined &&
        clean !== undefined &&
        (await clean.simulate(optionsOf(clean, job.values, seed))).violation !== undefined
      )
        violation = undefined;
      if (violation !== undefined) {
        news.failed.push(seed);
        news.found.push({ seed, oracle: violation.oracle, rule: violation.rule, message: violation.message });
        if (clean !== undefined) break;
      }
      if (news.done >= 25 || violation !== undefined) tell();
    }
    tell();
    process.disconnect();
  },
);

function nothing() {
  return {
    done: 0,
    events: 0,
    failed: /** @type {number[]} */ ([]),
    found: /** @type {{ seed: number, oracle: string, rule: string, message: string }[]} */ ([]),
    faults: /** @type {import("./options.mjs").Counts} */ ({}),
    scenarios: /** @type {import("./options.mjs").Counts} */ ({}),
  };
}
