// `holdfast queues …`: names, arguments and options of its commands.
// Owns: these definitions; the bodies are in the files beside it.
// Invariants: as in docs/cli.md.

import { type Command, Option } from "commander";
import { type Bind, describe, repeated } from "../command.ts";

export function addQueues(program: Command, bind: Bind): void {
  const queues = describe(program.command("queues"), "queues: limits, pauses and load");
  describe(queues.command("list"), "list queues with their load", ["holdfast queues list"]).action(
    bind(async () => (await import("./read.ts")).listQueues),
  );
  describe(queues.command("show <name>"), "show a queue", ["holdfast queues show mail"]).action(
    bind(async () => (await import("./read.ts")).showQueue),
  );
  describe(queues.command("set <name> [limits]"), "set the limits of a queue: by options, or all of them as JSON, @file or -", [
    "holdfast queues set mail --concurrency 20 --rate 100/1m",
    "holdfast queues set mail --per-key-concurrency 2 --limit acme=5 --counts open",
    `holdfast queues set mail '{"concurrency":20,"keys":{"acme":{"weight":3}}}'`,
  ])
    .option("--concurrency <n>", "at once, over all workers")
    .option("--rate <n/duration>", "starts in a span of time: 100/1m")
    .option("--per-key-concurrency <n>", "at once for each key")
    .option("--per-key-rate <n/duration>", "starts in a span of time for each key")
    .option("--limit <key=n>", "at once for one key; may be given several times", repeated)
    .addOption(new Option("--counts <what>", "when a run counts: while a worker has it, or until its end").choices(["running", "open"]))
    .action(bind(async () => (await import("./set.ts")).setQueue));
  describe(queues.command("pause <name>"), "start nothing from a queue until it is resumed", [
    "holdfast queues pause mail --for 10m",
    "holdfast queues pause mail --key acme",
  ])
    .option("--key <key>", "only work with this key")
    .option("--for <duration>", "resume by itself after this long")
    .action(bind(async () => (await import("./act.ts")).pauseQueue));
  describe(queues.command("resume <name>"), "go on after a pause", ["holdfast queues resume mail"])
    .option("--key <key>", "only work with this key")
    .action(bind(async () => (await import("./act.ts")).resumeQueue));
  describe(queues.command("delete <name>"), "delete the limits of a queue; the work in it stays", ["holdfast queues delete mail"]).action(
    bind(async () => (await import("./act.ts")).deleteQueue),
  );
}
