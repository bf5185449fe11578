// How VitePress builds the site from site/work, which site/build.mjs fills.
// Invariants: no page asks another host for anything: the policy in its head forbids it, and fonts are those of the system.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitepress";
import { anchorOf } from "../anchors.mjs";
import { readMap } from "../map.mjs";
import { placeOf } from "../pages.mjs";

const site = join(import.meta.dirname, "..");

/** @param {string} place */
const linkTo = (place) => `/${place.replace(/(^|\/)index\.md$/, "$1").replace(/\.md$/, "")}`;

/** The doors of the packages, which site/reference.mjs has written. @type {{ name: string, place: string }[]} */
const doors = JSON.parse(readFileSync(join(site, "work", "api", "doors.json"), "utf8"));
const api = { text: "API", link: "/api/", collapsed: true, items: doors.map(({ name, place }) => ({ text: name, link: linkTo(place) })) };

const groups = readMap().map(({ title, entries }) => ({
  text: title,
  collapsed: false,
  items: [
    ...(title === "Reference" ? [api] : []),
    ...entries.map((entry) => ({ text: entry.title, link: linkTo(placeOf(entry.page) ?? entry.page) })),
  ],
}));

/** The first page of a group. @param {string} title */
const firstOf = (title) => groups.find(({ text }) => text === title)?.items[0]?.link ?? "/";

const POLICY = [
  "default-src 'self'",
  "img-src 'self' data:",
  // What VitePress writes into each page: the colour scheme before the first paint, the data of the site.
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "form-action 'none'",
].join("; ");

/**
 * Each block of code is coloured once. Every page is rendered three times: for the browser, for its HTML and for the search.
 * @type {Map<string, string>}
 */
const coloured = new Map();
/** @param {(code: string, language: string, attributes: string) => string} highlight */
function remembering(highlight) {
  return (/** @type {string} */ code, /** @type {string} */ language, /** @type {string} */ attributes) => {
    const key = JSON.stringify([code, language, attributes]);
    const known = coloured.get(key) ?? highlight(code, language, attributes);
    coloured.set(key, known);
    return known;
  };
}

export default defineConfig({
  lang: "en",
  title: "Holdfast",
  description: "Durable execution for TypeScript: an async function that survives crashes, deploys and years",
  srcDir: "work",
  outDir: "dist",
  cacheDir: "../.cache/vitepress",
  metaChunk: true,
  head: [
    ["meta", { "http-equiv": "Content-Security-Policy", content: POLICY }],
    ["meta", { name: "referrer", content: "no-referrer" }],
    // Without one, browsers ask for /favicon.ico, which is not there.
    ["link", { rel: "icon", href: "data:," }],
  ],
  markdown: {
    anchor: { slugify: anchorOf },
    config: (md) => {
      const { highlight } = md.options;
      if (highlight) md.options.highlight = remembering(highlight);
    },
    // VitePress adds a class to links of other hosts, and opens them in a new tab.
    externalLinks: { target: "_blank", rel: "noreferrer" },
  },
  themeConfig: {
    nav: [
      { text: "Start", link: firstOf("Start") },
      { text: "Guides", link: firstOf("Guides") },
      { text: "API", link: "/api/" },
      { text: "Operations", link: firstOf("Operations") },
    ],
    sidebar: groups,
    outline: [2, 3],
    search: { provider: "local" },
  },
  vite: { build: { assetsInlineLimit: 0, chunkSizeWarningLimit: 4_000 } },
});
