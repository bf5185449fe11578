// `holdfast replay`: its arguments and options.
// Owns: their names and help.
// Invariants: as in docs/cli.md.

import type { Command } from "commander";
import { type Bind, describe } from "./command.ts";

export function addReplay(program: Command, bind: Bind): void {
  describe(
    program.command("replay"),
    "replay every open run, or files, against this code: says which would block, and where; exit code 6 if any would",
    [
      "holdfast replay",
      "holdfast replay --workflow order --sample 1000",
      "holdfast replay --min 1 --strict --junit replay.xml --github",
      "holdfast replay histories/*.json",
    ],
  )
    .argument("[files...]", "histories, as `holdfast runs show ID --history --json` prints them, or as tools of Temporal download them")
    .option("--workflow <name>", "only runs of this workflow")
    .option("--sample <n>", "at most this many runs, chosen evenly")
    .option("--min <n>", "exit code 6 if fewer runs were checked")
    .option("--strict", "exit code 6 also for runs without code; changed options of operations count as divergence")
    .option("--junit <file>", "write the results as JUnit XML")
    .option("--github", "print annotations for GitHub Actions")
    .action(bind(async () => (await import("./serving/replay.ts")).replayRuns));
}
