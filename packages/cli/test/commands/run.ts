// Calls the command line in this process.
// Owns: what a call has printed; fresh folders.
// Invariants: nothing of the test process's environment reaches a command.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { main } from "../../src/commands/main.ts";

export interface Given {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** What is typed, or piped. */
  readonly stdin?: string;
  /** A terminal of this width; default: pipes. */
  readonly columns?: number;
  readonly signal?: AbortSignal;
  /** Gets standard output as it is written. */
  readonly onOutput?: (text: string) => void;
}
export interface Done {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** Standard output as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it
  readonly json: any;
  /** The last line of standard error as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it
  readonly problem: any;
  /** Standard output as lines of JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it
  readonly lines: any[];
}

export async function holdfast(args: readonly string[], given: Given = {}): Promise<Done> {
  let out = "";
  let err = "";
  const isTerminal = given.columns !== undefined;
  const code = await main(args, {
    stdout: {
      write: (text) => {
        out += text;
        given.onOutput?.(text);
      },
    },
    stderr: {
      write: (text) => {
        err += text;
      },
    },
    stdin: (async function* () {
      if (given.stdin !== undefined) yield given.stdin;
    })(),
    env: { ...given.env },
    cwd: given.cwd ?? newFolder(),
    isTTY: { stdin: isTerminal, stdout: isTerminal, stderr: isTerminal },
    columns: given.columns,
    signal: given.signal ?? new AbortController().signal,
  });
  return {
    code,
    out,
    err,
    get json() {
      return JSON.parse(out);
    },
    get problem() {
      return JSON.parse(err.trimEnd().split("\n").at(-1) ?? "");
    },
    get lines() {
      return out
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line));
    },
  };
}

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
  folders.push(folder);
  return folder;
}
