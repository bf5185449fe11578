// A process that freezes itself in the middle of a turn. It says "turn" before, and afterwards how the run ended.

import { writeSync } from "node:fs";
import { Holdfast, workflow } from "holdfast";
import { spin } from "./spin.mjs";

const spins = workflow("spins", async (ctx) => {
  await ctx.step("before", () => 1);
  writeSync(1, "turn\n");
  process.kill(process.pid, "SIGSTOP");
  spin(20);
});

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const engine = await Holdfast.open("memory:", { logger: silent });
await engine.worker({ workflows: [spins], turnTimeout: 1_500, determinism: "off" });
const run = await engine.start(spins, undefined, { id: "r1" });
const error = await run.result().catch((failure) => failure);
process.stdout.write(error?.cause?.name ?? "completed");
await engine.close();
