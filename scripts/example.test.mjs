// npm run example: the list of examples, and what it says about a name that it does not know.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readPage } from "./pages.mjs";
import { root, run } from "./setup.mjs";

const folder = join(root, "examples");
const examples = readdirSync(folder).filter((name) => existsSync(join(folder, name, "README.md")));
const example = (/** @type {string[]} */ ...args) =>
  run(process.execPath, [join(root, "scripts", "example.mjs"), ...args], { stdio: "pipe" });

test("without a name it lists every example with its heading", async () => {
  const { ok, output } = await example();
  expect(ok).toBe(true);
  const listed = [...output.matchAll(/^ {2}(\S+) +(.*)$/gm)].map(([, name, about]) => [name, about]);
  expect(listed).toEqual(examples.map((name) => [name, readPage(`examples/${name}/README.md`).split("\n")[0]?.replace("# ", "")]));
});

test("an unknown name is an error that lists what there is", async () => {
  const { ok, output } = await example("nope");
  expect(ok).toBe(false);
  expect(output).toContain('There is no example "nope".');
  for (const name of examples) expect(output).toContain(`  ${name}`);
});

test("every example has a test, a demo, and a line in the table of examples", () => {
  const table = readPage("examples/README.md");
  for (const name of examples) {
    expect(table).toContain(`| [${name}](${name}/README.md) |`);
    expect(readPage(`examples/${name}/README.md`)).toMatch(/npm run (example -- |demo)/);
    const files = readdirSync(join(folder, name));
    expect(files.some((file) => /^demo\.(ts|mjs)$/.test(file))).toBe(true);
    // The tests of these two are in the packages that they show.
    if (name !== "order" && name !== "actors") expect(files.some((file) => file.endsWith(".test.ts"))).toBe(true);
  }
});
