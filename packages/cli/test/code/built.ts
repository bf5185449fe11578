// Job: have something to run in child processes: they get what is built, not the sources.
// Owns: nothing.
// Invariants: what is built is as new as the sources, unless those don't compile (then the type check says so).

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { root } from "./projects.ts";

export function build(): void {
  const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));
  const args = [join(typescript, "bin/tsc"), "-b", "packages/cli"];
  const { stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
  if (!existsSync(join(root, "packages/cli/dist/code/register.js"))) throw new Error(`The packages can't be built:\n${stdout}`);
}
