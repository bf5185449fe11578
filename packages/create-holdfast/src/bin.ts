#!/usr/bin/env node
// The command `create-holdfast`, which `npm create holdfast` runs.
// Owns: the process: its streams and exit code.
// Invariants: it asks only on a terminal; Ctrl+C and Ctrl+D at a question end it, with nothing written.

import { createInterface } from "node:readline/promises";
import { create } from "./create.ts";
import { CreateFailure } from "./failure.ts";

const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  const ended = new Promise<never>((_, reject) => {
    lines.once("close", () => reject(new CreateFailure("Interrupted. Nothing was written.", { code: "HF_INTERRUPTED" })));
  });
  try {
    return (await Promise.race([lines.question(question), ended])).trim();
  } finally {
    lines.close();
    ended.catch(() => {});
  }
}

process.exitCode = await create(process.argv.slice(2), {
  cwd: process.cwd(),
  env: process.env,
  write: (text) => void process.stdout.write(text),
  complain: (text) => void process.stderr.write(text),
  ask: isTerminal ? ask : undefined,
});
