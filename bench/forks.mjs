// node scripts/with-setup.mjs bench/forks.mjs [--store memory,sqlite,postgres] [--turns 1000] [--forks 25]
// Measures how long it takes to fork a run before its last step: until the fork exists, with all turns before that step.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startServer } from "@holdfast/postgres-server";
import { Holdfast, workflow } from "holdfast";

const { values } = parseArgs({
  options: {
    store: { type: "string", default: "memory,sqlite,postgres" },
    turns: { type: "string", default: "1000" },
    forks: { type: "string", default: "25" },
  },
});
const turns = Number(values.turns);
const forks = Number(values.forks);

const long = workflow("long", async (ctx) => {
  for (let i = 0; i < turns; i++) await ctx.step("step", () => i);
});

for (const name of values.store.split(",")) await measure(name);

async function measure(name) {
  const { url, close } = await place(name);
  const engine = await Holdfast.open(url);
  const worker = await engine.worker({ workflows: [long] });
  const run = await engine.start(long);
  await run.result();
  await worker.stop();
  const times = [];
  for (let i = 0; i < forks; i++) {
    const since = performance.now();
    await run.fork({ before: `step#${turns - 1}` });
    times.push(performance.now() - since);
  }
  times.sort((a, b) => a - b);
  const [least = 0, median = 0] = [times[0], times[forks >> 1]];
  console.log(`${name}: a fork of ${turns} turns takes ${median.toFixed(1)} ms (median of ${forks}), ${least.toFixed(1)} ms at least`);
  await engine.close();
  await close();
}

async function place(name) {
  if (name === "memory") return { url: "memory:", close: async () => {} };
  if (name === "postgres") {
    const server = await startServer();
    return { url: await server.createDatabase(), close: () => server.stop() };
  }
  const folder = mkdtempSync(join(tmpdir(), "holdfast-forks-"));
  return { url: `file:${join(folder, "forks.db")}`, close: async () => rmSync(folder, { recursive: true, force: true }) };
}
