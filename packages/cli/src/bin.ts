#!/usr/bin/env node
// The command `holdfast`.
// Owns: the process: its streams, signals and exit code.
// Invariants: the first SIGINT or SIGTERM asks the command to end, a second one ends the process at once; output is written out before it ends.
// Only the command writes to stdout: what the config and its codec print goes to stderr.

import { main } from "./commands/main.ts";
import { Interruption } from "./terminal/io.ts";

// Taken now: while a configuration is loaded, `process.exit` belongs to it.
const exit = process.exit.bind(process);
const interruption = new AbortController();
let isAsked = false;
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const) {
  process.on(signal, () => {
    if (isAsked) exit(code);
    isAsked = true;
    interruption.abort(new Interruption(signal));
  });
}
// The reader has seen enough: `holdfast runs list | head`.
process.stdout.on("error", (error: NodeJS.ErrnoException) => exit(error.code === "EPIPE" ? 0 : 1));
// The exit code still says how it went.
process.stderr.on("error", () => undefined);

const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr) as typeof write;

const exitCode = await main(process.argv.slice(2), {
  stdout: { write: (text) => void write(text) },
  stderr: process.stderr,
  stdin: process.stdin,
  env: process.env,
  cwd: process.cwd(),
  isTTY: { stdin: process.stdin.isTTY === true, stdout: process.stdout.isTTY === true, stderr: process.stderr.isTTY === true },
  columns: process.stdout.isTTY === true ? process.stdout.columns : undefined,
  signal: interruption.signal,
});
await new Promise<void>((written) => write("", () => written()));
await new Promise<void>((written) => process.stderr.write("", () => written()));
exit(exitCode);
