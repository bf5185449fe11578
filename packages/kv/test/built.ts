// Job: have something to run in child processes: they get what is built, not the sources.
// Owns: nothing.
// Invariants: what is built is as new as the sources, unless those don't compile (then the type check says so).

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";

export const root = resolve(import.meta.dirname, "../../..");

export function build(project: "packages/kv" | "packages/conformance" | "examples" = "packages/kv"): void {
  const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));
  const { stdout } = spawnSync(process.execPath, [join(typescript, "bin/tsc"), "-b", project], { cwd: root, encoding: "utf8" });
  if (!existsSync(join(root, "packages/kv/dist/index.js"))) throw new Error(`The packages can't be built:\n${stdout}`);
}
