// Links between pages, and from pages to files, are not broken.

import { existsSync } from "node:fs";
import { join, posix } from "node:path";
import { expect, test } from "vitest";
import { pages, readPage } from "./pages.mjs";
import { root } from "./setup.mjs";

/** The anchors of a page's headings, as GitHub makes them. @param {string} page */
function anchorsOf(page) {
  return [...readPage(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

test.each(pages)("%s", (page) => {
  const prose = readPage(page)
    .replaceAll(/^```.*?^```$/gms, "")
    .replaceAll(/`[^`\n]*`/g, "");
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1] ?? "").filter((link) => !/^https?:/.test(link));
  const broken = links.filter((link) => {
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? page : posix.join(posix.dirname(page), path);
    if (!existsSync(join(root, target))) return true;
    return anchor !== undefined && !(pages.includes(target) && anchorsOf(target).includes(anchor));
  });
  expect(broken).toEqual([]);
});
