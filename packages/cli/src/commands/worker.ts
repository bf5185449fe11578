// `holdfast worker`: its options.
// Owns: their names and help.
// Invariants: as in docs/cli.md.

import type { Command } from "commander";
import { type Bind, describe } from "./command.ts";

export function addWorker(program: Command, bind: Bind): void {
  describe(program.command("worker"), "run a worker with the workflows of this project, until SIGTERM", [
    "holdfast worker",
    "holdfast worker --queue mail --concurrency 20 --health-port 8080",
  ])
    .option("--queue <name>", "only this queue; default: the workers of the config, or the queue default")
    .option("--concurrency <n>", "runs in progress at once; default 100")
    .option("--health-port <port>", "answer GET / with 200 while the worker claims runs, else 503")
    .action(bind(async () => (await import("./serving/worker.ts")).runWorker, { service: true }));
}
