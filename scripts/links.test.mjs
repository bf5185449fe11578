// Links between pages, and from pages to files, are not broken; those of packages' READMEs also lead somewhere on npm.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { anchorOf } from "../site/anchors.mjs";
import { fileOf } from "../site/pages.mjs";
import { pages, readPage } from "./pages.mjs";
import { root } from "./setup.mjs";

/** The anchors of a page's headings, as GitHub makes them. @param {string} page */
function anchorsOf(page) {
  return [...readPage(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => anchorOf(heading));
}

/** The links of a page, without those in code. @param {string} page */
function linksOf(page) {
  const prose = readPage(page)
    .replaceAll(/^```.*?^```$/gms, "")
    .replaceAll(/`[^`\n]*`/g, "");
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1] ?? "");
}

test.each(pages)("%s", (page) => {
  const broken = linksOf(page).filter((link) => {
    const [path = "", anchor] = link.split("#");
    // The first screen of the site stands before docs/index.md, and its links are those of a page of docs/.
    const target = path === "" ? page : fileOf(page === "site/home.md" ? "docs/index.md" : page, path);
    if (target === undefined) return false;
    if (!existsSync(join(root, target))) return true;
    return anchor !== undefined && !(pages.includes(target) && anchorsOf(target).includes(anchor));
  });
  expect(broken).toEqual([]);
});

test("links of a package's README are public addresses, because its tarball has no other folders", () => {
  const readmes = pages.filter((page) => /^packages\/[^/]+\/README\.md$/.test(page));
  expect(readmes.flatMap((page) => linksOf(page).filter((link) => !/^(https:|#)/.test(link)))).toEqual([]);
});
