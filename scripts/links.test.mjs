// Links between pages, and from pages to files, are not broken.

import { existsSync } from "node:fs";
import { join, posix } from "node:path";
import { expect, test } from "vitest";
import { anchorOf } from "../site/anchors.mjs";
import { pages, readPage } from "./pages.mjs";
import { root } from "./setup.mjs";

/** The anchors of a page's headings, as GitHub makes them. @param {string} page */
function anchorsOf(page) {
  return [...readPage(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => anchorOf(heading));
}

test.each(pages)("%s", (page) => {
  const prose = readPage(page)
    .replaceAll(/^```.*?^```$/gms, "")
    .replaceAll(/`[^`\n]*`/g, "");
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1] ?? "").filter((link) => !/^https?:/.test(link));
  const broken = links.filter((link) => {
    const [path = "", anchor] = link.split("#");
    // The first screen of the site stands before docs/index.md, and its links are those of a page of docs/.
    const folder = page === "site/home.md" ? "docs" : posix.dirname(page);
    const target = path === "" ? page : posix.join(folder, path);
    if (!existsSync(join(root, target))) return true;
    return anchor !== undefined && !(pages.includes(target) && anchorsOf(target).includes(anchor));
  });
  expect(broken).toEqual([]);
});
