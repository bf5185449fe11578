// The documentation pages, for the tests that check them.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { docsPages } from "../site/map.mjs";
import { root, workspacePackages } from "./setup.mjs";

/** They show other libraries' code too, which is neither compiled nor run. */
export const isMigration = (/** @type {string} */ page) => page.startsWith("docs/migrating/");

const docs = docsPages();
const isGuide = (/** @type {string} */ page) => page === "docs/tour.md" || page.startsWith("docs/guides/") || isMigration(page);

const readmes = [root, ...workspacePackages().map(({ dir }) => dir)]
  .map((dir) => relative(root, join(dir, "README.md")).split(sep).join("/"))
  .filter((path) => existsSync(join(root, path)));

/** Pages whose snippets are run, not only compiled. */
export const runnablePages = [...readmes, "site/home.md", ...docs.filter(isGuide)];

/** The paths of all pages, from the root. */
export const pages = [
  ...runnablePages,
  ...["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"],
  ...docs.filter((page) => !isGuide(page)),
  "examples/README.md",
  ...readdirSync(join(root, "examples"))
    .map((name) => `examples/${name}/README.md`)
    .filter((path) => existsSync(join(root, path))),
];

/** @param {string} path from the root */
export const readPage = (path) => readFileSync(join(root, path), "utf8");
