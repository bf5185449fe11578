// TypeScript without a build step: `node --import @holdfast/cli/register`.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { build } from "./built.ts";
import { project, root } from "./projects.ts";

const REGISTER = join(root, "packages/cli/dist/code/register.js");
beforeAll(build);

async function run(folder: string, file: string): Promise<{ stdout: string; stderr: string }> {
  const args = ["--enable-source-maps", "--import", REGISTER, file];
  return promisify(execFile)(process.execPath, args, { cwd: folder }).catch((error: { stdout: string; stderr: string }) => error);
}

test("a file may use what TypeScript projects use", async () => {
  const folder = project({
    "tsconfig.json":
      '{ /* as people write it, */ "compilerOptions": { "paths": { "@lib/*": ["./src/lib/*"], "mapped": ["./src/mapped.ts"] } } }',
    "package.json": '{ "name": "project", "type": "commonjs" }',
    "src/lib/colour.ts":
      'export enum Colour { Red = "red" }\nexport namespace Space { export const depth = 3; }\nexport interface Named { name: string }\n',
    "src/mapped.ts": 'export const from = "paths" as const;\n',
    "node_modules/mapped/package.json": '{ "name": "mapped", "main": "index.js" }',
    "node_modules/mapped/index.js": 'exports.from = "node_modules";\n',
    "src/data.json": '{ "a": [1, "</script>", "\\u2028"] }',
    "src/other.mts": "export const other: number = 5;\n",
    "src/both.ts": 'export const both = "ts";\n',
    "src/both.js": 'exports.both = "js";\n',
    "src/plain.mjs": 'import { both } from "./both.js";\nimport { other } from "./other.mjs";\nexport const plain = both + other;\n',
    "src/main.ts": `
import { workflow } from "holdfast";
import { Colour, Named, Space } from "@lib/colour";
import type { Missing } from "./missing.js";
import { both } from "./both.js";
import bare from "./data.json";
import attributed from "./data.json" with { type: "json" };
import { from } from "mapped";
import { other } from "./other.mjs";
import { plain } from "./plain.mjs";
import { ending } from "./ending";
abstract class Base { constructor(protected readonly value: number) {} }
class Thing extends Base implements Named { declare unset: string; name = "thing"; get it(): number { return this.value; } }
const thing = new Thing(7) satisfies Named;
const lazy = await import("./lazy.js");
console.log(JSON.stringify([Colour.Red, Space.depth, both, bare.a.length, attributed.a[1], from, other, plain, ending, thing.it,
  "unset" in thing, lazy.default, typeof workflow, import.meta.url.endsWith("main.ts")] as const));
`,
    "src/ending.ts": "export const ending = 1;\n",
    "src/lazy.ts": "export default 9 as number;\n",
  });
  const { stdout, stderr } = await run(folder, "src/main.ts");
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual(["red", 3, "ts", 3, "</script>", "paths", 5, "js5", 1, 7, false, 9, "function", true]);
});

describe("an error shows the line of the source", () => {
  test("when code throws", async () => {
    const folder = project({
      "boom.ts": "interface A {\n  a: number;\n}\nexport function boom(a: A): never {\n  throw new Error(String(a.a));\n}\n",
      "main.ts": 'import { boom } from "./boom.js";\n\nboom({ a: 1 });\n',
    });
    const { stderr } = await run(folder, "main.ts");
    expect(stderr).toContain("boom.ts:5:9");
    expect(stderr).toContain("main.ts:3:1");
  });

  test("when it is not TypeScript", async () => {
    const { stderr } = await run(project({ "main.ts": "const é: number = 1;\nexport const b = ;\n" }), "main.ts");
    expect(stderr).toContain("main.ts:2:18: ");
  });

  test("when JSON is broken", async () => {
    const folder = project({ "main.ts": 'import x from "./x.json";\nconsole.log(x);\n', "x.json": "{" });
    expect((await run(folder, "main.ts")).stderr).toContain("x.json:1:1: ");
  });
});

test("TypeScript in node_modules is left to Node", async () => {
  const folder = project({
    "main.ts": 'import { x } from "dep";\nconsole.log(x);\n',
    "node_modules/dep/package.json": '{ "name": "dep", "type": "module", "exports": "./index.js" }',
    "node_modules/dep/index.js": 'export { x } from "./x.js";\n',
    "node_modules/dep/x.js": 'export const x = "js";\n',
    "node_modules/dep/x.ts": 'export const x: string = "ts";\n',
  });
  expect((await run(folder, "main.ts")).stdout).toBe("js\n");
});
