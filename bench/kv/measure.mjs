// node measure.mjs <contender> <workload> <size> <options as JSON>: warms up, measures once, prints the result as JSON.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [contender = "", workload = "", size = "", json = "{}"] = process.argv.slice(2);
const options = JSON.parse(json);
const suite = await import(`./contenders/${contender}.mjs`);

async function once(count) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-kv-"));
  try {
    return await suite[workload](count, { ...options, folder: join(folder, "db") });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

// The same code until the compiler has done with it, for three seconds at most: what is measured is the engine.
const warmedUp = performance.now() + 3_000;
for (let i = 0; i < 20 && performance.now() < warmedUp; i++) await once(Math.max(10, Math.round(Number(size) / 2)));
globalThis.gc?.();
console.log(JSON.stringify(await once(Number(size))));
process.exit(0); // timers of a contender don't hold it
