// docs/errors.md says what the catalog says.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { errorCatalog } from "@holdfast/core";
import { expect, test } from "vitest";
import { errorsPage, page } from "./errors-doc.mjs";
import { root } from "./setup.mjs";

test("docs/errors.md is up to date: run `npm run docs`", () => {
  expect(readFileSync(join(root, page), "utf8")).toBe(errorsPage(errorCatalog));
});

test("every error has its section and its row", () => {
  const text = errorsPage(errorCatalog);
  for (const { name, code, summary, whatToDo } of errorCatalog) {
    expect(text).toContain(`| \`${code}\` | [${name}](#${name.toLowerCase()}) |`);
    expect(text).toContain(`## ${name}\n`);
    expect(text).toContain(summary);
    expect(text).toContain(whatToDo);
  }
});
