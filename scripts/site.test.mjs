// The site: every page is on the map, links are rewritten, and the check of the built site finds what is broken.
// `npm test` builds the whole site where CI is set; `npm run site` does anywhere.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { problemsOf } from "../site/check.mjs";
import { docsPages, groupsOf, MAP, readMap } from "../site/map.mjs";
import { mapLinks, placeOf, siteText } from "../site/pages.mjs";
import { doors } from "../site/reference.mjs";
import { root } from "./setup.mjs";

describe("the map, docs/index.md, which is also the sidebar", () => {
  const listed = readMap().flatMap(({ entries }) => entries.map(({ page }) => page));

  test("every page of docs/ has a line `- [Title](page.md): what it says` on it", () => {
    expect(docsPages().filter((page) => page !== MAP && !listed.includes(page))).toEqual([]);
  });

  test("no page is listed twice, and every listed page is a page of the site", () => {
    expect(listed.filter((page, i) => listed.indexOf(page) !== i)).toEqual([]);
    expect(listed.filter((page) => placeOf(page) === undefined || !existsSync(join(root, page)))).toEqual([]);
  });

  test("its lines are read as groups of entries", () => {
    const text = "# Map\n\n- [Before](no.md)\n\n## Start\n\n- [A page](a.md): and [another](b.md)\n- [Guide](guides/g.md)\n\n## Rest\n";
    expect(groupsOf(text)).toEqual([
      {
        title: "Start",
        entries: [
          { title: "A page", page: "docs/a.md" },
          { title: "Guide", page: "docs/guides/g.md" },
        ],
      },
      { title: "Rest", entries: [] },
    ]);
  });
});

describe("links of pages", () => {
  test.each([
    ["docs/guides/queues.md", "[a](../concepts.md#traps)", "[a](../concepts.md#traps)"],
    ["docs/concepts.md", "[a](../README.md#testing)", "[a](./readme.md#testing)"],
    ["docs/concepts.md", "[`core`](../packages/core/README.md)", "[`core`](./packages/core.md)"],
    ["README.md", "![a](docs/images/crash.png)", "![a](./images/crash.png)"],
    ["README.md", '<img src="docs/images/crash.png">', '<img src="./images/crash.png">'],
    [
      "packages/core/README.md",
      "[a](https://github.com/holdfast-dev/holdfast/blob/main/docs/concepts.md#traps)",
      "[a](../concepts.md#traps)",
    ],
    ["docs/concepts.md", "[a](../package.json)", "[a](https://github.com/holdfast-dev/holdfast/blob/main/package.json)"],
    ["docs/concepts.md", "[a](#traps) [b](https://example.com/x.md)", "[a](#traps) [b](https://example.com/x.md)"],
    ["docs/concepts.md", "`[a](../README.md)`\n```ts\n[a](../README.md)\n```", "`[a](../README.md)`\n```ts\n[a](../README.md)\n```"],
  ])("%s: %s", (page, text, expected) => {
    expect(siteText(page, text)).toBe(expected);
  });

  test("a link that leads nowhere leaves its text", () => {
    expect(mapLinks("see [`the test`](../packages/x.test.ts), please", () => undefined)).toBe("see `the test`, please");
  });
});

test("the reference has every door of the published packages, that of users first", () => {
  const names = doors().map(({ name }) => name);
  expect(names[0]).toBe("holdfast");
  expect(names).toEqual(expect.arrayContaining(["holdfast/testing", "@holdfast/core", "@holdfast/cli/client", "@holdfast/postgres"]));
  expect(doors().filter(({ source }) => !existsSync(source))).toEqual([]);
});

describe("the check of a built site", () => {
  const cache = join(root, ".cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "site-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const HEAD = '<meta http-equiv="Content-Security-Policy" content="default-src">';
  let sites = 0;

  /** @param {Record<string, string>} files */
  function problems(files) {
    const site = join(folder, String(sites++));
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(site, path)), { recursive: true });
      writeFileSync(join(site, path), path.endsWith(".html") ? `${HEAD}${text}` : text);
    }
    return problemsOf(site, "/base/");
  }

  test("a page whose links, anchors and pictures exist has no problem", () => {
    const page = `<h2 id="a&amp;b">x</h2><a href="/base/guides/two.html#top">x</a><a href="#a&amp;b">x</a><img src="/base/p.png"><a href="/base/">x</a>`;
    const links = '<a href="./../index.html">x</a><a href="https://example.com">x</a>';
    expect(problems({ "index.html": page, "guides/two.html": `<i id="top"></i>${links}`, "p.png": "" })).toEqual([]);
  });

  test.each([
    ["a page that is missing", '<a href="/base/no.html">x</a>', "leads nowhere"],
    ["a relative one", '<a href="./no.html">x</a>', "leads nowhere"],
    ["an anchor that is missing", '<a href="/base/#no">x</a>', "no such anchor"],
    ["a link beside the base path", '<a href="/index.html">x</a>', "leads nowhere"],
    ["a picture that is missing", '<img alt="x" src="/base/no.png">', "is missing"],
    ["a script of another host", '<script src="https://example.com/x.js"></script>', "loads https://example.com/x.js"],
    ["a font of another host", '<link rel="preload" href="//example.com/x.woff2">', "loads //example.com/x.woff2"],
  ])("%s", (_, html, problem) => {
    expect(problems({ "index.html": html })).toEqual([expect.stringContaining(problem)]);
  });

  test("a style sheet that loads from another host, and a page without a policy", () => {
    expect(problems({ "a.css": "x{background:url(https://example.com/x.png)}" })).toEqual(["a.css: loads https://example.com/x.png"]);
    const site = join(folder, "bare");
    mkdirSync(site);
    writeFileSync(join(site, "index.html"), "<p>x</p>");
    expect(problemsOf(site, "/")).toEqual(["index.html: has no Content-Security-Policy"]);
  });
});
