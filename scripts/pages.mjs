// The documentation pages, for the tests that check them.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { root, workspacePackages } from "./setup.mjs";

/** Pages whose snippets are run, not only compiled. */
export const readmes = [root, ...workspacePackages().map(({ dir }) => dir)]
  .map((dir) => relative(root, join(dir, "README.md")).split(sep).join("/"))
  .filter((path) => existsSync(join(root, path)));

const docs = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md"));

/** The paths of all pages, from the root. */
export const pages = [...readmes, "CONTRIBUTING.md", ...docs.map((name) => `docs/${name}`)];

/** @param {string} path from the root */
export const readPage = (path) => readFileSync(join(root, path), "utf8");
