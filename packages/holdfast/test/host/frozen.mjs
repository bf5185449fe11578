// A process with a workflow whose turn takes 400 ms of the processor. It says "turn" when that begins, and how the run ended.

import { writeSync } from "node:fs";
import { Holdfast, workflow } from "holdfast";
import { spin } from "./spin.mjs";

const spins = workflow("spins", async (ctx) => {
  await ctx.step("before", () => 1);
  writeSync(1, "turn\n");
  spin(400);
});

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const engine = await Holdfast.open("memory:", { logger: silent });
await engine.worker({ workflows: [spins], turnTimeout: 1_500, determinism: "off" });
const run = await engine.start(spins, undefined, { id: "r1" });
const error = await run.result().catch((failure) => failure);
process.stdout.write(error?.cause?.name ?? "completed");
await engine.close();
