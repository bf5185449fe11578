// docs/cli.md is what the commands say.

import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { buildProgram } from "../../src/commands/program.ts";
import { holdfast } from "./run.ts";

test("docs/cli.md is up to date (npm run docs)", async () => {
  const { code, out } = await holdfast(["__reference"]);
  expect(code).toBe(0);
  expect(readFileSync(new URL("../../../../docs/cli.md", import.meta.url), "utf8")).toBe(out);
});

/** As a shell would split it, up to a redirection. */
function wordsOf(line: string): string[] {
  const words = line.match(/'[^']*'|"[^"]*"|[^\s]+/g) ?? [];
  const end = words.findIndex((word) => /^>|^\|$/.test(word));
  return words.slice(1, end < 0 ? undefined : end).map((word) => word.replace(/^(['"])(.*)\1$/s, "$2"));
}

test("every command has examples, and they parse", async () => {
  const { out } = await holdfast(["__reference"]);
  const sections = out.split(/^## (?=holdfast )/m).slice(1);
  expect(sections.length).toBeGreaterThanOrEqual(35);
  const calls: string[] = [];
  const program = (example: string): Command =>
    buildProgram(() => () => void calls.push(example), { out: () => undefined, columns: undefined, hasColours: false });
  for (const section of sections) {
    const [name = ""] = section.split("\n");
    const [, examples = ""] = /Examples:\n\n```sh\n([\s\S]*?)\n```/.exec(section) ?? [];
    expect(examples, name).not.toBe("");
    for (const example of examples.split("\n")) {
      expect(`${example} `.startsWith(`${name} `), example).toBe(true);
      program(example).parse(wordsOf(example), { from: "user" });
      expect(calls.at(-1)).toBe(example);
    }
  }
});
