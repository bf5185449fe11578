// `npm test -- --changed` runs every test that a change can break.

import { expect, test } from "vitest";
import { affected } from "./changed.mjs";

const tests = [
  { path: "packages/core/test/values/retry.test.ts", text: `import { retry } from "../../src/values/retry.ts";` },
  { path: "packages/holdfast/test/poison.test.ts", text: "const child = spawn(process.execPath, [script]);" },
  { path: "packages/kv/test/killed.test.ts", text: "const child = spawn(process.execPath, [script]);" },
  { path: "packages/kv/test/conformance.test.ts", text: "" },
  { path: "packages/kv/test/docs.test.ts", text: "" },
  { path: "scripts/links.test.mjs", text: "" },
];
const ALWAYS = ["packages/kv/test/docs.test.ts", "scripts/links.test.mjs"];

test.each([
  ["a page: the tests that read pages", ["docs/hosts.md"], ALWAYS],
  [
    "a source: the tests that import it, and those that run it in other processes",
    ["packages/core/src/values/retry.ts"],
    ["packages/core/src/values/retry.ts", "packages/kv/test/killed.test.ts", "packages/holdfast/test/poison.test.ts", ...ALWAYS],
  ],
  [
    "a program of another process: all tests of its package",
    ["packages/kv/test/processes/deadly.mjs"],
    ["packages/kv/test/processes/deadly.mjs", "packages/kv/test/killed.test.ts", "packages/kv/test/conformance.test.ts", ...ALWAYS],
  ],
  [
    "a fixture: all tests of its package",
    ["packages/kv/test/frozen/1.json"],
    ["packages/kv/test/killed.test.ts", "packages/kv/test/conformance.test.ts", ...ALWAYS],
  ],
  [
    "an example: the tests that run examples",
    ["examples/order/demo.mjs"],
    ["examples/order/demo.mjs", "packages/kv/test/killed.test.ts", "packages/holdfast/test/poison.test.ts", ...ALWAYS],
  ],
  [
    "a test: itself, and those of its package that run other processes",
    ["packages/kv/test/conformance.test.ts"],
    ["packages/kv/test/conformance.test.ts", "packages/kv/test/killed.test.ts", ...ALWAYS],
  ],
  ["a benchmark: the tests that read pages and names", ["bench/run.mjs"], ALWAYS],
  ["nothing: no test", [], []],
])("%s", (_, changed, expected) => {
  expect(affected(changed, tests)?.toSorted()).toEqual(expected.toSorted());
});

test.each([
  "package-lock.json",
  "vitest.config.ts",
  "tsconfig.base.json",
  "packages/core/package.json",
  "packages/postgres/src/sql/001/claims.sql",
  "packages/postgres-server/src/cluster.mjs",
  "packages/temporal-server/src/guard.mjs",
  "packages/core/test/seeds.ts",
  "something/new",
])("%s: every test", (path) => {
  expect(affected(["docs/hosts.md", path], tests)).toBeUndefined();
});
