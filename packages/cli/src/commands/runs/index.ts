// `holdfast runs …`: names, arguments and options of its commands.
// Owns: these definitions; the bodies are in the files beside it.
// Invariants: as in docs/cli.md.

import { type Command, Option } from "commander";
import { type Bind, describe, repeated } from "../command.ts";

export function addRuns(program: Command, bind: Bind): void {
  const runs = describe(program.command("runs"), "runs: list, start, look into, act on");
  addReading(runs, bind);
  addStart(runs, bind);
  addMessages(runs, bind);
  addActions(runs, bind);
}

/** The options that choose runs. */
function addFilters(command: Command): Command {
  return command
    .option("--status <statuses>", "one or more, with commas: failed,blocked")
    .option("--open", "runs that have not ended")
    .option("--closed", "runs that have ended")
    .option("--workflow <name>", "of this workflow; may be given several times", repeated)
    .option("--version <version>", "of this version")
    .option("--queue <name>", "in this queue")
    .option("--key <key>", "with this key")
    .option("--schedule <id>", "started by this schedule")
    .option("--parent <id>", "children of this run")
    .option("--attr <name=value>", "with this attribute; may be given several times", repeated)
    .option("--since <time>", "created since: 24h, or a time in ISO 8601")
    .option("--until <time>", "created before")
    .option("--finished-since <time>", "ended since")
    .option("--finished-until <time>", "ended before")
    .option("--id-prefix <text>", "whose id begins so");
}

function addReading(runs: Command, bind: Bind): void {
  addFilters(
    describe(runs.command("list"), "list runs, newest first", [
      "holdfast runs list --status failed,blocked --since 24h",
      "holdfast runs list --workflow order --attr tenant=42 --json",
      "holdfast runs list --open --count",
    ]),
  )
    .option("--limit <n>", "at most so many; default 50")
    .option("--cursor <cursor>", "go on where another list ended")
    .option("--values", "with inputs and outputs")
    .option("--count", "how many there are of each status, instead of a list")
    .action(bind(async () => (await import("./list.ts")).listRuns));
  describe(runs.command("show <id>"), "show a run and its operations", [
    "holdfast runs show order-7",
    "holdfast runs show order-7 --timeline",
    "holdfast runs show order-7 --history --json > order-7.json",
  ])
    .option("--timeline", "draw what happened when")
    .option("--history", "print the history: with --json, a file for `holdfast replay`")
    .option("--execution <n>", "of this execution; default: the newest")
    .action(bind(async () => (await import("./show.ts")).showRun));
  describe(runs.command("why <id>"), "say why a run does not advance", ["holdfast runs why order-7"]).action(
    bind(async () => (await import("./why.ts")).explainRun),
  );
  describe(runs.command("state <id>"), "print the published state of a run", ["holdfast runs state order-7"]).action(
    bind(async () => (await import("./values.ts")).printState),
  );
  describe(runs.command("result <id>"), "wait for the end of a run, and print its output", [
    "holdfast runs result order-7 --timeout 5m",
  ]).action(bind(async () => (await import("./result.ts")).printResult));
  describe(runs.command("watch <id>"), "print every change of a run until it ends", ["holdfast runs watch order-7 -o jsonl"]).action(
    bind(async () => (await import("./watch.ts")).watchRun),
  );
}

const TAGGED = ["--tagged", "decode tagged values, such as dates, in the argument"] as const;

function addStart(runs: Command, bind: Bind): void {
  describe(runs.command("start [workflow] [input]"), "start a run; the input is JSON, @file or - for standard input", [
    `holdfast runs start order '{"amount":30}' --id order-7`,
    "holdfast runs start order @order.json --attr tenant=42 --wait",
    "holdfast runs start --like order-7",
  ])
    .option("--id <id>", "the id of the run")
    .option("--queue <name>", "the queue")
    .option("--key <key>", "whose work it is: limits and fairness of the queue go by it")
    .option("--priority <n>", "higher goes first")
    .option("--after <id>", "begin once this run has closed")
    .option("--delay <duration>", "begin later")
    .option("--max-delay <duration>", "with --on-conflict debounce: the longest that later starts may put it off")
    .option("--at <time>", "begin at this time, in ISO 8601")
    .option("--deadline <time>", "end by then: a duration from the start, or a time in ISO 8601")
    .option("--attr <name=value>", "an attribute; may be given several times", repeated)
    .option("--version <version>", "the version of the workflow")
    .option("--idempotency-key <key>", "start once for this key")
    .addOption(
      new Option("--on-conflict <what>", "if a run of this id exists").choices([
        "reject",
        "use-existing",
        "restart-if-closed",
        "replace",
        "debounce",
      ]),
    )
    .option("--signal <name=json>", "deliver this signal with the start; may be given several times", repeated)
    .option("--like <id>", "take workflow, input, queue, key, priority, version and attributes from this run, where they are not given")
    .option("--wait", "wait for the end; prints status, output and error too")
    .option(...TAGGED)
    .action(bind(async () => (await import("./start.ts")).startRun));
}

function addMessages(runs: Command, bind: Bind): void {
  describe(runs.command("signal <id> <name> [value]"), "send a signal; the value is JSON, @file or -", [
    `holdfast runs signal order-7 approve '{"by":"ann"}'`,
  ])
    .option("--idempotency-key <key>", "deliver once for this key")
    .option(...TAGGED)
    .action(bind(async () => (await import("./messages.ts")).sendSignal));
  describe(runs.command("update <id> <name> [value]"), "send an update, and print its answer", [
    `holdfast runs update cart-7 add '{"sku":"a-1"}'`,
  ])
    .option("--idempotency-key <key>", "deliver once for this key")
    .option("--accept-within <duration>", "offer it again for so long if the run does not accept it at once")
    .option(...TAGGED)
    .action(bind(async () => (await import("./messages.ts")).sendUpdate));
  describe(runs.command("query <id> <name> [value]"), "run a query of the workflow on the published state, and print its answer", [
    "holdfast runs query cart-7 total",
  ])
    .option(...TAGGED)
    .action(bind(async () => (await import("./messages.ts")).runQuery));
}

const ACTIONS = {
  cancel: ["ask runs to end, with their cleanup", "holdfast runs cancel order-7 order-8", "holdfast runs cancel --workflow order --open"],
  terminate: ["end runs at once, without cleanup", 'holdfast runs terminate order-7 --reason "wrong tenant" --yes'],
  resume: ["continue failed and blocked runs from where they stopped", "holdfast runs resume --status blocked --workflow order --yes"],
  delete: ["delete closed runs with all that belongs to them", "holdfast runs delete --status completed --finished-until 30d --dry-run"],
} as const;

function addActions(runs: Command, bind: Bind): void {
  for (const [name, [summary, ...examples]] of Object.entries(ACTIONS)) {
    addFilters(describe(runs.command(`${name} [ids...]`), `${summary}; by id, or by filter`, examples))
      .option("--reason <text>", "why; it is recorded")
      .option("--dry-run", "print what would be done, and do nothing")
      .action(bind(async () => (await import("./bulk.ts")).bulkBody(name as keyof typeof ACTIONS)));
  }
  describe(runs.command("fork <id>"), "start a new run that shares the history of this one up to an operation", [
    "holdfast runs fork order-7 --from-failure",
    "holdfast runs fork order-7 --before charge#1 --id order-7-again",
  ])
    .option("--before <location>", "the operation that is done anew, and all after it")
    .option("--from-failure", "that of the last failed operation")
    .option("--id <id>", "the id of the new run")
    .option("--version <version>", "the version of the workflow")
    .addOption(new Option("--signals <what>", "what the run got after that operation").choices(["keep", "drop"]))
    .action(bind(async () => (await import("./fork.ts")).forkRun));
}
