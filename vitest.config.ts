// How vitest runs the tests: which files share a process, how many processes there are, and what is drawn by chance.
// Owns: the groups of files. `npm test` and `npm run nightly` call it; so can anyone, with `npx vitest run <path>`.
// Invariants: a file that changes its process has one of its own; without HOLDFAST_NIGHTLY the same inputs are drawn every time.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defaultServerConditions } from "vite";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const root = import.meta.dirname;
const isNight = (process.env["HOLDFAST_NIGHTLY"] ?? "") !== "";
/**
 * What these tests do is over when it has returned: no server, no worker, nothing that goes on in the background. They share processes,
 * because starting one and loading the packages takes longer than most of them do.
 */
const COMPUTES = /^(packages\/core\/test|packages\/kv\/test\/storage|packages\/dashboard\/test(?!\/browser)|scripts|simulation)\//;
/** What others in the same process would notice: replaced modules and globals, listeners of the process, a heap that is measured. */
const CHANGES_ITS_PROCESS =
  /\bvi\.(mock|doMock|resetModules|useFakeTimers|stubGlobal|stubEnv|spyOn)\b|\bprocess\.(on|once|emit|off|removeListener|removeAllListeners|chdir)\(|\bprocess\.env\[[^\]]+\] =|\bgc\b/;
/** What needs a Temporal server. `npm test` leaves it out, and says so, where none is at hand. */
const NEEDS_TEMPORAL =
  /^(packages\/(temporal(-server)?\/test\/server\b|holdfast\/test\/seed\/temporal\b)|examples\/three-urls\/temporal\b)/;
const hasTemporal = process.env["HOLDFAST_TEST_TEMPORAL"] !== "off";
/** What needs a browser, likewise. */
const NEEDS_BROWSER = /^packages\/dashboard\/test\/browser\//;
const hasBrowser = process.env["HOLDFAST_TEST_BROWSER"] !== "off";

const folders = [
  ...readdirSync(join(root, "packages")).map((name) => join("packages", name, "test")),
  ...readdirSync(join(root, "examples")).map((name) => join("examples", name)),
  "scripts",
  "simulation",
];
const files = folders
  .filter((folder) => existsSync(join(root, folder)) && statSync(join(root, folder)).isDirectory())
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => join(folder, file)))
  .filter((file) => /\.test\.(ts|mjs)$/.test(file) && !file.includes("node_modules"))
  .map((file) => file.replaceAll("\\", "/"))
  // Programs of other projects, which `npm run smoke` copies.
  .filter((file) => !file.startsWith("scripts/smoke/"))
  .filter((file) => hasTemporal || !NEEDS_TEMPORAL.test(file))
  .filter((file) => hasBrowser || !NEEDS_BROWSER.test(file));
const together = files.filter((file) => COMPUTES.test(file) && !CHANGES_ITS_PROCESS.test(readFileSync(join(root, file), "utf8")));
const onTemporal = files.filter((file) => NEEDS_TEMPORAL.test(file));
const alone = files.filter((file) => !together.includes(file) && !onTemporal.includes(file));

/** The files that take longest, slowest first. */
const SLOWEST = [
  "postgres/test/conformance/general",
  "postgres/test/conformance/shortcuts",
  "postgres/test/late",
  "holdfast/test/hosts/postgres",
  "holdfast/test/damage/postgres",
  "simulation/test/simulation",
  "holdfast/test/sqlite/damaged",
  "kv/test/actors",
  "simulation/test/oracles",
  "core/test/divergence/divergence",
].map((path) => `packages/${path}.test.ts`);

/**
 * Starts the slowest files first: one that began last would leave all cores but one idle at the end. Vitest itself knows how long files take
 * only if it has run them before, and otherwise begins with the longest text.
 */
class SlowestFirst extends BaseSequencer {
  override async sort(given: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(given);
    const place = ({ moduleId }: TestSpecification): number => {
      const at = SLOWEST.findIndex((path) => moduleId.endsWith(path));
      return at < 0 ? SLOWEST.length : at;
    };
    return sorted.toSorted((a, b) => place(a) - place(b));
  }
}

const common = {
  pool: "forks" as const,
  execArgv: ["--expose-gc"],
  setupFiles: ["packages/core/test/seeds.ts"],
  // Far more than any test takes, so that none fails because the machine is busy. At night a test that draws by chance draws much more.
  testTimeout: isNight ? 1_800_000 : 60_000,
  hookTimeout: 60_000,
  // Something that a test waits for: a second, the default, is over before it has come when the machine is busy. Less than a test may take,
  // so that the failure says what was waited for.
  expect: { poll: { timeout: 50_000 } },
  // Of the tests in one file that say that they may run at the same time: they wait for real time.
  maxConcurrency: 20,
};
// Packages of this repository resolve to their sources, so that tests need no build.
const ssr = { resolve: { conditions: ["@holdfast/source", ...defaultServerConditions] } };

export default defineConfig({
  ssr,
  test: {
    // One PostgreSQL and one Temporal server for all files that ask for them, started when the first one does.
    globalSetup: ["packages/postgres-server/src/globalSetup.ts", "packages/temporal-server/src/globalSetup.ts"],
    // One more than there are cores: many tests wait for a server, another process or a timer.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: SlowestFirst },
    projects: [
      { ssr, test: { ...common, name: "alone", include: alone, isolate: true, sequence: { groupOrder: 0 } } },
      { ssr, test: { ...common, name: "together", include: together, isolate: false, sequence: { groupOrder: 0 } } },
      // After the others: these wait for real time on a server, and mean nothing on a machine that is too busy to keep it.
      { ssr, test: { ...common, name: "temporal", include: onTemporal, isolate: true, sequence: { groupOrder: 1 } } },
    ],
  },
});
