// Reads histories while they are being written.
// Owns: the last sample of each run.
// Invariants: each sample must begin with the previous one (D2), and must replay (Y5).

import { checkGrowth, checkReplay, executionOf, keyOf } from "./checks.mjs";
import { note } from "./effects.mjs";
import { kindOf } from "./mix.mjs";

const OPERATIONS = new Set(["step", "transaction", "activity"]);

export class Observer {
  /** @type {Map<string, any>} */
  #samples = new Map();
  samples = 0;

  /** @param {import("holdfast").Holdfast} engine @param {import("./checks.mjs").Report} report */
  constructor(engine, report) {
    this.engine = engine;
    this.report = report;
  }
  /** @param {string} runId */
  async look(runId) {
    const run = this.engine.run(runId);
    const [before, operations, history] = [await run.history(), await run.operations(), await run.history()];
    if (history.turns.length === 0) return;
    this.samples++;
    // The run may have continued as its next execution between the calls.
    const execution = executionOf(before);
    if (execution === executionOf(history)) {
      const completed = operations.filter(({ kind, status }) => OPERATIONS.has(kind) && status === "completed");
      note({ e: "seen", keys: completed.map(({ location }) => keyOf(runId, execution, location)) });
    }
    this.compare(runId, before);
    this.compare(runId, history);
    await checkReplay(history, this.report);
  }
  /** @param {string} runId @param {any} history */
  compare(runId, history) {
    const sample = this.#samples.get(runId);
    this.#samples.set(runId, history);
    const trims = kindOf.get(history.run.workflow)?.trims === true;
    if (sample !== undefined) checkGrowth(sample, history, trims, this.report);
  }
}
