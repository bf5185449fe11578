// docs/http.md matches the table of routes.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROUTE_IDS, ROUTES } from "@holdfast/cli/client";
import { expect, test } from "vitest";
import { page, withTables } from "./http-doc.mjs";
import { root } from "./setup.mjs";

const text = readFileSync(join(root, page), "utf8");

test("docs/http.md is up to date: run `npm run docs`", () => {
  expect(text).toBe(withTables(text));
});
test("every route has a row", () => {
  for (const id of ROUTE_IDS) expect(text).toContain(`| \`${ROUTES[id].method} ${ROUTES[id].path}\` | ${ROUTES[id].role} |`);
});
