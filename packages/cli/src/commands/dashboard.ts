// `holdfast dashboard`: its options.
// Owns: their names and help.
// Invariants: as in docs/cli.md.

import type { Command } from "commander";
import { type Bind, describe } from "./command.ts";

export function addDashboard(program: Command, bind: Bind): void {
  describe(program.command("dashboard"), "serve the dashboard and the HTTP API, without a worker", [
    "holdfast dashboard",
    "holdfast dashboard --port 8080 --host 0.0.0.0 --read-only",
  ])
    .option("--port <port>", "default: the next free one from 4747")
    .option("--host <host>", "default: 127.0.0.1; another one needs server.tokens in the config")
    .option("--read-only", "nothing can be changed")
    .option("--open", "open the page in a browser")
    .action(bind(async () => (await import("./serving/dashboard.ts")).serveDashboard, { service: true }));
}
