// A process with a workflow that keeps the thread: for as many milliseconds of the processor as the first argument says, in the unit "spin", and, if the
// second names a file, until that exists: however slow the machine is, the watchdog has had the time to say so.

import { existsSync } from "node:fs";
import { realEnvironment } from "@holdfast/host";
import { Holdfast, workflow } from "holdfast";
import { MemoryStore } from "../../dist/store/memory/store.js";
import { spin } from "./spin.mjs";

const [, , time, release] = process.argv;
const spins = workflow("spins", async (ctx, ms) => {
  await ctx.step("before", () => 1);
  await ctx.try("spin", async () => {
    spin(ms);
    while (release !== undefined && !existsSync(release));
  });
});

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const engine = await Holdfast.with({ store: new MemoryStore(), environment: realEnvironment, watchdogAfter: 150 }, { logger: silent });
await engine.worker({ workflows: [spins], turnTimeout: 500, determinism: "warn" });
const run = await engine.start(spins, Number(time), { id: "r1" });
const error = await run.result().catch((failure) => failure);
process.stdout.write(error?.cause?.name ?? "completed");
await engine.close();
