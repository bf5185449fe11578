// docs/errors.md matches the error catalogs, and the catalogs contain every code of the sources.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { errorCatalog } from "@holdfast/core";
import { kvErrors } from "@holdfast/kv";
import { temporalErrors } from "@holdfast/temporal";
import { engineErrors } from "holdfast";
import { storeErrors } from "holdfast/store";
import { expect, test } from "vitest";
import { errorsPage, page } from "./errors-doc.mjs";
import { root } from "./setup.mjs";

const catalogs = { core: errorCatalog, engine: engineErrors, store: storeErrors, kv: kvErrors, temporal: temporalErrors };

test("docs/errors.md is up to date: run `npm run docs`", () => {
  expect(readFileSync(join(root, page), "utf8")).toBe(errorsPage(catalogs));
});

test("every error has a section and a table row", () => {
  const text = errorsPage(catalogs);
  for (const { name, code, summary, whatToDo } of errorCatalog) {
    expect(text).toContain(`| \`${code}\` | [${name}](#${name.toLowerCase()}) |`);
    expect(text).toContain(`## ${name}\n`);
    expect(text).toContain(summary);
    expect(text).toContain(whatToDo);
  }
  for (const { code, name, summary, whatToDo } of [...engineErrors, ...storeErrors, ...kvErrors, ...temporalErrors]) {
    expect(text).toContain(`| \`${code}\` | ${name ?? ""} |`);
    expect(text).toContain(`### \`${code}\`\n`);
    expect(text).toContain(summary);
    expect(text).toContain(whatToDo);
  }
});

test("every code in the sources is in a catalog, once", () => {
  /** @type {string[]} */
  const listed = Object.values(catalogs).flatMap((catalog) => catalog.map(({ code }) => code));
  expect(listed.toSorted()).toEqual([...new Set(listed)].toSorted());
  const raised = new Set(
    ["core", "holdfast", "postgres", "kv"].flatMap((name) => {
      const folder = join(root, "packages", name, "src");
      const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
      return files.flatMap((file) => readFileSync(join(folder, file), "utf8").match(/(?<=code: ")HF_[A-Z_]+(?=")/g) ?? []);
    }),
  );
  expect([...raised].filter((code) => !listed.includes(code))).toEqual([]);
});
