// `holdfast dev`: its options.
// Owns: their names and help.
// Invariants: as in docs/cli.md.

import type { Command } from "commander";
import { type Bind, describe } from "./command.ts";

export function addDev(program: Command, bind: Bind): void {
  describe(program.command("dev"), "a worker and the dashboard, with reload on save", [
    "holdfast dev",
    "holdfast dev --open",
    "holdfast dev --fresh --port 5000 -o jsonl",
  ])
    .option("--port <port>", "default: the next free one from 4747")
    .option("--open", "open the page in a browser")
    .option("--fresh", "delete the SQLite file first")
    .option("--migrate", "bring the schema of a PostgreSQL store up to date first")
    .action(bind(async () => (await import("./serving/dev.ts")).serveDev, { service: true }));
}
