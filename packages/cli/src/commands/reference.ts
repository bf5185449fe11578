// The page docs/cli.md, from the definitions of the commands: `holdfast __reference`.
// Owns: its text around them.
// Invariants: every command that help shows is in it, with its arguments, options and examples.

import type { Command } from "commander";
import type { Io } from "../terminal/io.ts";
import { examplesFor } from "./command.ts";
import { buildProgram } from "./program.ts";

const INTRO = `# Command line

\`npm run docs\` generates this page from the commands themselves.

The package \`@holdfast/cli\` has the command \`holdfast\`. It works on a store (SQLite, PostgreSQL, Temporal) and on a console that runs elsewhere, with the same commands: \`--url\` says which. [Getting started](getting-started.md) installs it and shows it in use.

\`\`\`sh
npx holdfast init
npx holdfast dev
\`\`\`

## Which store

The url is, in this order: \`--url\`, the environment variable \`HOLDFAST_URL\`, \`url\` of the config file, \`file:.holdfast/holdfast.db\`. A relative file counts from the folder of the config file; from the working directory if it was given by flag or environment. An address that begins with \`http://\` or \`https://\` is that of a console: the page that \`holdfast dev\` and \`holdfast dashboard\` print. It needs a token (\`--token\`, \`HOLDFAST_TOKEN\`).

Commands that only read open the store read-only: nothing is created or migrated, and a file that does not exist reads as an empty store.

The config file is the nearest \`holdfast.config.ts\` (or \`.mts\`, \`.js\`, \`.mjs\`) between the working directory and the root of the repository, or the one that \`--config\` or \`HOLDFAST_CONFIG\` names:

\`\`\`ts
import { defineConfig } from "@holdfast/cli/config";

export default defineConfig({
  url: process.env["DATABASE_URL"] ?? "file:.holdfast/holdfast.db",
  entry: "workflows/**/*.ts",
});
\`\`\`

## Output

Standard output has the result and nothing else; notes, questions, progress and errors go to standard error.

| format | prints |
|---|---|
| \`-o table\` | for people; cut to the width of the terminal. The default |
| \`-o wide\` | the same with more columns |
| \`-o json\`, \`--json\` | one JSON document, also when there is nothing |
| \`-o jsonl\` | one JSON document a line, as they come |
| \`-o id\` | only ids, one a line |

In JSON, times are ISO 8601, and what is absent is \`null\`. With \`json\` and \`jsonl\` an error is one line on standard error: a [problem document](errors.md) with \`type\`, \`title\`, \`status\`, \`detail\`, \`code\`, \`retryable\`, \`advice\` and \`issues\`. Control characters, and characters that change the direction of text, are escaped in every format.

There are no colours in pipes, with \`--no-color\` and with \`NO_COLOR\`.

## Values

A value is an argument in JSON (\`'{"amount":30}'\`), \`@file\`, or \`-\` for standard input. Text has quotes: \`'"text"'\`. With \`--tagged\`, tagged values such as dates are decoded as the default codec does.

\`--attr tenant=42\` is a number, because \`42\` is JSON; \`--attr 'tenant="42"'\` and \`--attr tenant=acme\` are text. Times are ISO 8601, or how long ago: \`--since 24h\`. Durations are \`500ms\`, \`30s\`, \`1h30m\`, \`7d\`.

## Exit codes

| code | meaning |
|---|---|
| 0 | it worked |
| 1 | it failed: the store can't be reached, or some runs of a bulk action failed |
| 2 | wrong usage: arguments, options or config |
| 3 | not found |
| 4 | refused: closed, exists already, rejected, invalid, forbidden, not supported by this host |
| 5 | the run has not completed, or is blocked (\`runs result\`, \`runs watch\`, \`runs start --wait\`) |
| 6 | a check found something (\`doctor\`, \`migrate --check\`, \`replay\`) |
| 7 | timed out (\`--timeout\`) |
| 130 | interrupted |

## Many runs at once

\`runs cancel\`, \`terminate\`, \`resume\` and \`delete\` take ids, or the filters of \`runs list\`. With filters they show what they would do and ask first; \`--yes\` answers, and is needed where there is no terminal. \`terminate\` asks for ids too. \`--dry-run\` only shows. An action by filter is a durable run: it goes on if the command is interrupted, and acts only on runs that are older than it. One id fails with its exit code; several ids, or a filter, end with 1 if any run failed.
`;

export function referencePage(): string {
  const program = buildProgram(() => () => undefined, { out: () => undefined, columns: undefined, hasColours: false });
  const commands = leavesOf(program).map((command) => section(command));
  return `${INTRO}\n## Options of every command\n\n${optionTable(program)}\n${commands.join("\n")}`;
}

export function printReference(io: Pick<Io, "stdout">): void {
  io.stdout.write(referencePage());
}

/** Commands that do something, in the order of help. */
function leavesOf(command: Command): Command[] {
  const below = command.commands.filter((one) => one.name() !== "help");
  return below.length === 0 ? [command] : below.flatMap(leavesOf);
}

function nameOf(command: Command): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;
}

function section(command: Command): string {
  const args = command.registeredArguments.map((one) => {
    const name = one.variadic ? `${one.name()}...` : one.name();
    return one.required ? `<${name}>` : `[${name}]`;
  });
  const usage = [nameOf(command), ...(command.options.length > 0 ? ["[options]"] : []), ...args].join(" ");
  const description = command.description();
  const parts = [
    `## ${nameOf(command)}`,
    `${description.slice(0, 1).toUpperCase()}${description.slice(1)}.`,
    `\`\`\`sh\n${usage}\n\`\`\``,
    ...(command.options.length > 0 ? [optionTable(command).trimEnd()] : []),
    ...(examplesFor(command).length > 0 ? [`Examples:\n\n\`\`\`sh\n${examplesFor(command).join("\n")}\n\`\`\``] : []),
  ];
  return `${parts.join("\n\n")}\n`;
}

function optionTable(command: Command): string {
  const rows = command.options.map(({ flags, description, argChoices }) => {
    const choices = argChoices === undefined ? "" : `: ${argChoices.join(", ")}`;
    return `| \`${flags.replaceAll("|", "\\|")}\` | ${`${description}${choices}`.replaceAll("|", "\\|")} |`;
  });
  return `| option | |\n|---|---|\n${rows.join("\n")}\n`;
}
