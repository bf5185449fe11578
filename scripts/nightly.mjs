// npm run nightly: the checks that take too long for `npm test`: all tests with more and fresh seeds, fresh simulated worlds, every
// planted bug, long soaks. CONTRIBUTING.md says what each proves.
// The last line is "nightly: ok" or "nightly: FAILED: …"; every part runs, even if earlier ones failed.

import { join } from "node:path";
import { build, install, programOf, root, run } from "./setup.mjs";
import { provideServer } from "./temporal.mjs";

Object.assign(process.env, { HOLDFAST_NIGHTLY: "1", PROPERTY_RUNS: "20" });

/** @param {string} script @param {string[]} args @returns {() => Promise<{ ok: boolean, output: string }>} */
const program =
  (script, ...args) =>
  () =>
    run(process.execPath, [join(root, script), ...args], { stdio: "inherit" });

/** @type {[name: string, work: () => Promise<{ ok: boolean, output: string }>][]} */
const parts = [
  ["install", install],
  ["build", build],
  ["Temporal server", provideServer],
  ["tests", () => run(process.execPath, [programOf("vitest", "vitest"), "run"], { stdio: "inherit" })],
  ["tutorial", program("scripts/tutorial.mjs")],
  ["worlds", program("simulation/run.mjs", "--fresh", "--seeds", "20000")],
  ["worlds on SQLite", program("simulation/run.mjs", "--fresh", "--seeds", "2000", "--store", "sqlite")],
  ["planted bugs", program("simulation/run.mjs", "--planted")],
  ["soak", program("soak/run.mjs", "--minutes", "15")],
  ["soak on Postgres", program("soak/run.mjs", "--minutes", "15", "--store", "postgres")],
  ["soak on Temporal", program("soak/run.mjs", "--minutes", "20", "--store", "temporal")],
];

const failed = [];
for (const [name, work] of parts) {
  const start = performance.now();
  const { ok, output } = await work();
  if (!ok) {
    process.stdout.write(output);
    failed.push(name);
  }
  console.log(`${ok ? "ok  " : "FAIL"} ${name.padEnd(20)} ${((performance.now() - start) / 60_000).toFixed(1).padStart(6)} min`);
}
console.log(failed.length === 0 ? "nightly: ok" : `nightly: FAILED: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
