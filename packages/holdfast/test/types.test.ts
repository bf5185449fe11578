// Job: prove that what is published can be compiled against, whatever types a project has.
// Owns: a project of its own, with the packages as they are packed.
// Invariants: none of the types need @types/node, or a lib that a project of today does not have.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { build, root } from "./built.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-types-"));
const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));

beforeAll(() => {
  build();
  for (const [name, from] of [
    ["@holdfast/core", "packages/core"],
    ["holdfast", "packages/holdfast"],
    ["@standard-schema/spec", "node_modules/@standard-schema/spec"],
  ] as const) {
    const to = join(folder, "node_modules", name);
    mkdirSync(to, { recursive: true });
    cpSync(join(root, from, "package.json"), join(to, "package.json"));
    cpSync(join(root, from, "dist"), join(to, "dist"), { recursive: true });
  }
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(
    join(folder, "app.ts"),
    `import { Holdfast, workflow } from "holdfast";
import { testEngine } from "holdfast/testing";
const echo = workflow("echo", async (_ctx, input: number) => input);
const engine: AsyncDisposable = await Holdfast.open("memory:");
const worker: AsyncDisposable = await (await testEngine({ workflows: [echo] })).worker({ workflows: [echo] });
export { engine, worker };
`,
  );
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it.each(["es2022", "esnext"])("the types compile for target %s, with libraries checked and without @types/node", (target) => {
  const options = {
    target,
    module: "nodenext",
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
    types: [],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["app.ts"] }));
  const { stdout, status } = spawnSync(process.execPath, [join(typescript, "bin/tsc"), "-p", folder], { encoding: "utf8" });
  expect([stdout, status]).toEqual(["", 0]);
});
