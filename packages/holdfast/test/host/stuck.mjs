// A process with a workflow that keeps the thread: for as many milliseconds as the first argument says, in the unit "spin".

import { Holdfast, workflow } from "holdfast";
import { realEnvironment } from "../../dist/host/environment.js";
import { MemoryStore } from "../../dist/store/memory/store.js";

const spin = workflow("spins", async (ctx, ms) => {
  await ctx.step("before", () => 1);
  await ctx.try("spin", async () => {
    const end = process.hrtime.bigint() + BigInt(ms) * 1_000_000n;
    while (process.hrtime.bigint() < end);
  });
});

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const engine = await Holdfast.with({ store: new MemoryStore(), environment: realEnvironment, watchdogAfter: 150 }, { logger: silent });
await engine.worker({ workflows: [spin], turnTimeout: 50 });
const run = await engine.start(spin, Number(process.argv[2]), { id: "r1" });
const error = await run.result().catch((failure) => failure);
process.stdout.write(error?.cause?.name ?? "completed");
await engine.close();
