// Checks a built site: every link, anchor and picture leads somewhere under its base path, and no page loads anything from another host.

import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

const ENTITIES = new Map([
  ["&amp;", "&"],
  ["&quot;", '"'],
  ["&#39;", "'"],
  ["&lt;", "<"],
  ["&gt;", ">"],
]);
const plain = (/** @type {string} */ text) => text.replaceAll(/&(amp|quot|#39|lt|gt);/g, (entity) => ENTITIES.get(entity) ?? entity);

/** What a page loads without being asked to: scripts, styles, fonts, pictures, frames. Links that a reader follows are not among it. */
const LOADS =
  /<(?:script|img|source|iframe|video|audio|embed|object|track|input)\b[^>]*?\s(?:src|srcset|data|poster)="([^"]*)"|<link\b[^>]*?\shref="([^"]*)"/g;
const STYLE_LOADS = /url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)/g;
const isForeign = (/** @type {string} */ address) => /^([a-z][a-z0-9+.-]*:)?\/\//i.test(address);

/**
 * @param {string} folder
 * @param {string} base
 * @returns {string[]} a sentence for each problem
 */
export function problemsOf(folder, base) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => posix.relative(folder.replaceAll("\\", "/"), join(entry.parentPath, entry.name).replaceAll("\\", "/")));
  const known = new Set(files);
  const html = new Map(files.filter((file) => file.endsWith(".html")).map((file) => [file, readFileSync(join(folder, file), "utf8")]));
  const ids = new Map(
    [...html].map(([file, text]) => [file, new Set([...text.matchAll(/\sid="([^"]*)"/g)].map(([, id = ""]) => plain(id)))]),
  );
  /** @type {string[]} */
  const problems = [];

  /** The file that an address means. @param {string} from @param {string} address */
  const fileOf = (from, address) => {
    const path = decodeURIComponent(address.split(/[?#]/)[0] ?? "");
    if (path === "") return from;
    const absolute = posix.resolve(`${base}${posix.dirname(from)}/`, path);
    if (!`${absolute}/`.startsWith(base)) return undefined;
    const inside = absolute.slice(base.length);
    return [inside, `${inside}.html`, posix.join(inside, "index.html")].find((name) => known.has(name));
  };

  for (const [file, text] of html) {
    if (!text.includes('http-equiv="Content-Security-Policy"')) problems.push(`${file}: has no Content-Security-Policy`);
    for (const [, source, sheet] of text.matchAll(LOADS)) {
      const address = plain(source ?? sheet ?? "");
      if (isForeign(address)) problems.push(`${file}: loads ${address}`);
      else if (!address.startsWith("data:") && fileOf(file, address) === undefined) problems.push(`${file}: ${address} is missing`);
    }
    for (const [, found = ""] of text.matchAll(/<a\b[^>]*?\shref="([^"]*)"/g)) {
      const address = plain(found);
      if (/^[a-z]+:/i.test(address)) continue;
      const target = isForeign(address) ? undefined : fileOf(file, address);
      const anchor = decodeURIComponent(address.split("#")[1] ?? "");
      if (target === undefined) problems.push(`${file}: ${address} leads nowhere`);
      // The page is built without what its scripts add; the start of a page is always there.
      else if (anchor !== "" && !ids.get(target)?.has(anchor)) problems.push(`${file}: ${address} has no such anchor`);
    }
  }
  for (const file of files.filter((name) => name.endsWith(".css")))
    for (const [, url, sheet] of readFileSync(join(folder, file), "utf8").matchAll(STYLE_LOADS))
      if (isForeign(url ?? sheet ?? "")) problems.push(`${file}: loads ${url ?? sheet}`);
  return problems;
}
