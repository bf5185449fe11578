// The map of the documentation: docs/index.md, read as groups of pages. The sidebar is made from it.
// Owns: what a line of the map looks like (`## Group`, `- [Title](page.md): what it says`).
// Invariants: it uses nothing but Node, because tests read the map where the site is not installed.

import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { root } from "../scripts/setup.mjs";

/** @typedef {{ title: string, page: string }} Entry a title, and the path of its page from the root */
/** @typedef {{ title: string, entries: Entry[] }} Group */

export const MAP = "docs/index.md";

/** @param {string} text the Markdown of the map @returns {Group[]} */
export function groupsOf(text) {
  /** @type {Group[]} */
  const groups = [];
  for (const line of text.split("\n")) {
    const [, group] = /^## (.+)$/.exec(line) ?? [];
    if (group !== undefined) groups.push({ title: group, entries: [] });
    const [, title, link] = /^- \[([^\]]+)\]\(([^)#\s]+)\)/.exec(line) ?? [];
    if (title !== undefined && link !== undefined) groups.at(-1)?.entries.push({ title, page: posix.join(posix.dirname(MAP), link) });
  }
  return groups;
}

export const readMap = () => groupsOf(readFileSync(join(root, MAP), "utf8"));

/** The Markdown files of docs/, from the root, in order. */
export function docsPages() {
  return readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md"))
    .map((path) => `docs/${path.replaceAll("\\", "/")}`)
    .sort();
}
