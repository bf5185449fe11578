// How vitest runs the tests: which files share a process, how many processes there are, and what is drawn by chance.
// Owns: the two groups of files. `npm test` and `npm run nightly` call it; so can anyone, with `npx vitest run <path>`.
// Invariants: a file that changes its process has one of its own; without HOLDFAST_NIGHTLY the same inputs are drawn every time.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defaultServerConditions } from "vite";
import { defineConfig } from "vitest/config";

const root = import.meta.dirname;
const isNight = (process.env["HOLDFAST_NIGHTLY"] ?? "") !== "";
/**
 * What these tests do is over when it has returned: no server, no worker, nothing that goes on in the background. They share processes,
 * because starting one and loading the packages takes longer than most of them do.
 */
const COMPUTES = /^(packages\/core\/test|packages\/kv\/test\/storage|scripts|simulation)\//;
/** What others in the same process would notice: replaced modules and globals, listeners of the process, a heap that is measured. */
const CHANGES_ITS_PROCESS =
  /\bvi\.(mock|doMock|resetModules|useFakeTimers|stubGlobal|stubEnv|spyOn)\b|\bprocess\.(on|once|emit|off|removeListener|removeAllListeners|chdir)\(|\bprocess\.env\[[^\]]+\] =|\bgc\b/;

const folders = [...readdirSync(join(root, "packages")).map((name) => join("packages", name, "test")), "scripts", "simulation"];
const files = folders
  .filter((folder) => existsSync(join(root, folder)))
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => join(folder, file)))
  .filter((file) => /\.test\.(ts|mjs)$/.test(file) && !file.includes("node_modules"))
  .map((file) => file.replaceAll("\\", "/"));
const together = files.filter((file) => COMPUTES.test(file) && !CHANGES_ITS_PROCESS.test(readFileSync(join(root, file), "utf8")));
const alone = files.filter((file) => !together.includes(file));

const common = {
  pool: "forks" as const,
  execArgv: ["--expose-gc"],
  setupFiles: ["packages/core/test/seeds.ts"],
  // At night a test that draws by chance draws many times as much.
  testTimeout: isNight ? 1_800_000 : 20_000,
  hookTimeout: 20_000,
  // Something that a test waits for: a second, the default, is over before it has come when the machine is busy.
  expect: { poll: { timeout: 10_000 } },
  // Of the tests in one file that say that they may run at the same time: they wait for real time.
  maxConcurrency: 20,
};
// Packages of this repository resolve to their sources, so that tests need no build.
const ssr = { resolve: { conditions: ["@holdfast/source", ...defaultServerConditions] } };

export default defineConfig({
  ssr,
  test: {
    // One PostgreSQL for all files that ask for it, started when the first one does.
    globalSetup: ["packages/postgres-server/src/globalSetup.ts"],
    // One more than there are cores: many tests wait for a server, another process or a timer.
    maxWorkers: availableParallelism() + 1,
    projects: [
      { ssr, test: { ...common, name: "alone", include: alone, isolate: true } },
      { ssr, test: { ...common, name: "together", include: together, isolate: false } },
    ],
  },
});
