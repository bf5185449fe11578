// npm run bench [-- suite...]: runs the suites found in bench/<suite>/run.mjs, all of them unless named.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

const script = (/** @type {string} */ suite) => join(import.meta.dirname, suite, "run.mjs");

const suites = readdirSync(import.meta.dirname).filter((name) => existsSync(script(name)));
const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !suites.includes(name));

console.log(`suites: ${suites.join(", ") || "none"}`);
if (unknown.length > 0) {
  console.error(`no such suite: ${unknown.join(", ")}`);
  process.exit(1);
}

for (const suite of asked.length > 0 ? asked : suites) {
  console.log(`\n== ${suite}`);
  const { status } = spawnSync(process.execPath, ["--expose-gc", script(suite)], { stdio: "inherit" });
  if (status !== 0) process.exitCode = 1;
}
