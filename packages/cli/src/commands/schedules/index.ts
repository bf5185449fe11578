// `holdfast schedules …`: names, arguments and options of its commands.
// Owns: these definitions; the bodies are in the files beside it.
// Invariants: as in docs/cli.md.

import { type Command, Option } from "commander";
import { type Bind, describe, repeated } from "../command.ts";

export function addSchedules(program: Command, bind: Bind): void {
  const schedules = describe(program.command("schedules"), "schedules: what starts when");
  describe(schedules.command("list"), "list schedules", ["holdfast schedules list"]).action(
    bind(async () => (await import("./read.ts")).listSchedules),
  );
  describe(schedules.command("show <id>"), "show a schedule and its next runs", ["holdfast schedules show nightly"]).action(
    bind(async () => (await import("./read.ts")).showSchedule),
  );
  describe(schedules.command("set <id>"), "create or replace a schedule", [
    'holdfast schedules set nightly --workflow report --cron "0 3 * * *" --timezone Europe/Berlin',
    `holdfast schedules set poll --workflow poll --every 5m --input '{"feed":"a"}' --overlap skip`,
  ])
    .requiredOption("--workflow <name>", "what it starts")
    .option("--cron <pattern>", 'when: "minute hour day month weekday"')
    .option("--every <duration>", "when: every so often")
    .option("--timezone <name>", "of the cron pattern, as in Europe/Berlin; default UTC")
    .option("--input <value>", "the input: JSON, @file or -")
    .addOption(
      new Option("--overlap <what>", "if the last run is still open; default skip").choices(["skip", "queue", "allow", "cancel-previous"]),
    )
    .option("--jitter <duration>", "spread the starts over this long")
    .option("--catch-up <duration>", "how late a tick may still start; default 1d")
    .option("--queue <name>", "the queue of its runs")
    .option("--key <key>", "the key of its runs")
    .option("--priority <n>", "the priority of its runs")
    .option("--version <version>", "the version of the workflow")
    .option("--deadline <duration>", "of its runs, from their start")
    .option("--attr <name=value>", "an attribute of its runs; may be given several times", repeated)
    .option("--tagged", "decode tagged values, such as dates, in the input")
    .action(bind(async () => (await import("./set.ts")).setSchedule));
  describe(schedules.command("pause <id>"), "start nothing until it is resumed", ["holdfast schedules pause nightly"]).action(
    bind(async () => (await import("./act.ts")).pauseSchedule),
  );
  describe(schedules.command("resume <id>"), "go on after a pause", ["holdfast schedules resume nightly"]).action(
    bind(async () => (await import("./act.ts")).resumeSchedule),
  );
  describe(schedules.command("trigger <id>"), "start a run now", ["holdfast schedules trigger nightly"]).action(
    bind(async () => (await import("./act.ts")).triggerSchedule),
  );
  describe(schedules.command("backfill <id>"), "start the ticks of a span of time that have no run", [
    "holdfast schedules backfill nightly --from 2026-05-01T00:00:00Z --to 2026-05-08T00:00:00Z",
  ])
    .requiredOption("--from <time>", "24h ago, or a time in ISO 8601")
    .option("--to <time>", "default: now")
    .action(bind(async () => (await import("./act.ts")).backfillSchedule));
  describe(schedules.command("delete <id>"), "delete a schedule; its runs stay", ["holdfast schedules delete nightly"]).action(
    bind(async () => (await import("./act.ts")).deleteSchedule),
  );
}
