// The TypeScript in the pages and in documentation comments: every snippet compiles against the packages' sources; those of the READMEs,
// guides and comments also run and print what the comments after their console.log calls say.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { isMigration, pages, readPage, runnablePages } from "./pages.mjs";
import { programOf, root, run } from "./setup.mjs";
import { examples } from "./tsdoc.mjs";

/** @typedef {{ page: string, line: number, code: string, name: string }} Snippet */

/**
 * A snippet that the text asks to be saved as a file gets that name, in a folder with the other files of the page: they import each other.
 * When a file is saved once more, the folder begins anew, with copies of the others.
 * @param {string} page
 * @returns {Snippet[]}
 */
function snippetsOf(page) {
  const text = readPage(page);
  const base = page.replaceAll(/\W/g, "-");
  /** @type {Snippet[]} */
  const found = [];
  /** @type {Map<string, Snippet>} */
  let project = new Map();
  let projects = 0;
  for (const match of text.matchAll(/^```ts\n(.*?)^```$/gms)) {
    const before = text.slice(0, match.index);
    const line = before.split("\n").length;
    const snippet = { page, line, code: match[1] ?? "", name: `${base}-${line}` };
    const [, file] = /[Ss]ave this as `([^`]+)\.ts`:?\s*$/.exec(before) ?? [];
    if (file !== undefined) {
      if (project.has(file)) {
        projects++;
        project = new Map([...project].map(([path, one]) => [path, { ...one, name: `${base}-${projects}/${path}` }]));
        found.push(...[...project].filter(([path]) => path !== file).map(([, one]) => one));
      }
      snippet.name = `${base}-${projects}/${file}`;
      project.set(file, snippet);
    }
    found.push(snippet);
  }
  return found;
}
const inComments = examples();
const snippets = [...pages.flatMap(snippetsOf), ...inComments];

/** Inside the repository, so that the packages are found by name and vitest compiles what it imports. @type {string} */
let folder;
beforeAll(() => {
  const cache = join(root, ".cache");
  mkdirSync(cache, { recursive: true });
  folder = mkdtempSync(join(cache, "snippets-"));
  // Blank lines before the code make the compiler's line numbers those of the page.
  for (const { line, code, name } of snippets) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, `${name}.ts`), `${"\n".repeat(line)}${code}`);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

test("every snippet compiles", async () => {
  const config = {
    extends: "../../tsconfig.base.json",
    compilerOptions: {
      ...{ noEmit: true, composite: false, declaration: false, declarationMap: false, sourceMap: false },
      ...{ rewriteRelativeImportExtensions: false, allowImportingTsExtensions: true, types: ["node"] },
    },
    include: ["**/*.ts"],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const { output } = await run(process.execPath, [programOf("typescript", "tsc"), "-p", folder], { stdio: "pipe" });
  // Errors in the packages' sources are left to the type check, which compiles each package with its own options.
  expect(output.replaceAll(/^packages\/.*\n( .*\n)*/gm, "")).toBe("");
}, 120_000);

test("no page has code that escapes the check", () => {
  const otherLanguage = /^ *```(typescript|tsx|mts|js|javascript|jsx)\b/m;
  const others = pages.filter((page) =>
    otherLanguage.test(isMigration(page) ? readPage(page).replaceAll(/^```js$/gm, "```") : readPage(page)),
  );
  expect(others).toEqual([]);
});

describe("every snippet of a README, guide or documentation comment prints what it says", () => {
  const runnable = snippets.filter((snippet) => runnablePages.includes(snippet.page) || inComments.includes(snippet));
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
