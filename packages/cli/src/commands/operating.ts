// The other commands: workers, token, init, doctor, migrate, completion.
// Owns: their names, arguments and options; the bodies are in the files beside it.
// Invariants: as in docs/cli.md.

import { type Command, Option } from "commander";
import { type Bind, describe } from "./command.ts";

export function addOperating(program: Command, bind: Bind): void {
  describe(program.command("workers"), "list the workers that are alive", ["holdfast workers"]).action(
    bind(async () => (await import("./workers.ts")).listWorkers),
  );
  describe(program.command("token"), "make a token for a console: the hash goes into server.tokens of the config", [
    "holdfast token --role read --values",
  ])
    .addOption(new Option("--role <role>", "what it allows").choices(["read", "operate", "admin"]).makeOptionMandatory())
    .option("--values", "it may see inputs, outputs and other values")
    .action(bind(async () => (await import("./token.ts")).makeToken, { placeless: true }));
  describe(program.command("doctor"), "check this project, its store and its workers; exit code 6 if a check fails", [
    "holdfast doctor",
    "holdfast doctor --json",
  ]).action(bind(async () => (await import("./doctor.ts")).examine));
  describe(program.command("migrate"), "bring the schema of the store up to date", [
    "holdfast migrate",
    "holdfast migrate --check",
    "holdfast migrate --print > holdfast.sql",
  ])
    .addOption(new Option("--check", "only say whether it is; exit code 6 if not").conflicts("print"))
    .option("--print", "only print the SQL")
    .action(bind(async () => (await import("./migrate.ts")).migrateStore));
  describe(program.command("completion"), "print a script that completes commands, options and workflow names", [
    "holdfast completion bash >> ~/.bashrc",
    "holdfast completion zsh > ~/.zfunc/_holdfast",
    "holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
  ])
    .argument("<shell>", "bash, zsh or fish")
    .action(bind(async () => (await import("./completion/script.ts")).printScript, { placeless: true }));
}

export function addInit(program: Command, bind: Bind): void {
  describe(program.command("init"), "write a config, a first workflow and npm scripts into this folder; overwrites nothing", [
    "holdfast init",
  ])
    .option("--force", "overwrite files that exist")
    .action(bind(async () => (await import("./init.ts")).initProject, { placeless: true }));
}
