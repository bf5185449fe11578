// The TypeScript in the pages: every snippet compiles against the packages' sources; those of the READMEs also run and print what the
// comments after their console.log calls say.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { pages, readmes, readPage } from "./pages.mjs";
import { programOf, root, run } from "./setup.mjs";

/** @typedef {{ page: string, line: number, code: string, name: string }} Snippet */

/** @param {string} page @returns {Snippet[]} */
function snippetsOf(page) {
  const text = readPage(page);
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map((match) => {
    const line = text.slice(0, match.index).split("\n").length;
    return { page, line, code: match[1] ?? "", name: `${page.replaceAll(/\W/g, "-")}-${line}` };
  });
}
const snippets = pages.flatMap(snippetsOf);

/** Inside the repository, so that the packages are found by name and vitest compiles what it imports. @type {string} */
let folder;
beforeAll(() => {
  const cache = join(root, ".cache");
  mkdirSync(cache, { recursive: true });
  folder = mkdtempSync(join(cache, "snippets-"));
  // Blank lines before the code make the compiler's line numbers those of the page.
  for (const { line, code, name } of snippets) writeFileSync(join(folder, `${name}.ts`), `${"\n".repeat(line)}${code}`);
});
afterAll(() => rmSync(folder, { recursive: true }));

test("every snippet compiles", async () => {
  const config = {
    extends: "../../tsconfig.base.json",
    compilerOptions: {
      ...{ noEmit: true, composite: false, declaration: false, declarationMap: false, sourceMap: false },
      ...{ rewriteRelativeImportExtensions: false, allowImportingTsExtensions: true, types: ["node"] },
    },
    include: ["*.ts"],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const { output } = await run(process.execPath, [programOf("typescript", "tsc"), "-p", folder], { stdio: "pipe" });
  // Errors in the packages' sources are left to the type check, which compiles each package with its own options.
  expect(output.replaceAll(/^packages\/.*\n( .*\n)*/gm, "")).toBe("");
}, 120_000);

test("no page has code that escapes the check", () => {
  const others = pages.filter((page) => /^ *```(typescript|tsx|mts|js|javascript|jsx)\b/m.test(readPage(page)));
  expect(others).toEqual([]);
});

describe("every snippet of a README prints what it says", () => {
  const runnable = snippets.filter(({ page }) => readmes.includes(page));
  // The packages are compiled when they are first imported, which takes longer than all snippets: no snippet's time is spent on that.
  beforeAll(async () => {
    const imported = new Set(runnable.flatMap(({ code }) => [...code.matchAll(/ from "([^".][^"]*)"/g)].map((match) => match[1] ?? "")));
    await Promise.all([...imported].map((name) => import(name)));
  }, 120_000);
  test.each(runnable.map((snippet) => [`${snippet.page}:${snippet.line}`, snippet]))("%s", async (_, snippet) => {
    const promised = [...snippet.code.matchAll(/^console\.log\(.*\); \/\/ (.*)$/gm)].map((match) => match[1]);
    expect(promised.length, "a snippet that is run must say what it prints").toBeGreaterThan(0);
    const expectedFile = join(folder, `${snippet.name}.expected.mjs`);
    writeFileSync(expectedFile, `export const expected = [${promised.join(", ")}];`);
    const { expected } = await import(expectedFile);

    /** @type {unknown[]} */
    const printed = [];
    const log = vi.spyOn(console, "log").mockImplementation((value) => void printed.push(value));
    // In a new folder, so that "file:./app.db" is a new database, which is deleted with the folder.
    const home = process.cwd();
    process.chdir(mkdtempSync(join(folder, "cwd-")));
    try {
      await import(join(folder, `${snippet.name}.ts`));
    } finally {
      process.chdir(home);
      log.mockRestore();
    }
    expect(printed).toEqual(expected);
  });
});
