// The pages of the site, made from the Markdown of the repository, which is written for GitHub.
// Owns: where each file of the repository is on the site, and how its links are rewritten.
// Invariants: every link of a page of the site leads to another page of it or to a public address. A link to a source file leads to the
// repository that package.json names.

import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, posix } from "node:path";
import { root, workspacePackages } from "../scripts/setup.mjs";
import { docsPages, MAP } from "./map.mjs";

/** Where a Markdown file of the repository is on the site; undefined if it is not there. @param {string} path from the root */
export function placeOf(path) {
  if (path === "README.md") return "readme.md";
  if (path === "CONTRIBUTING.md" || path === "CHANGELOG.md" || path === "SECURITY.md") return path.toLowerCase();
  const [, folder] = /^((?:packages|examples)\/[^/]+)\/README\.md$/.exec(path) ?? [];
  if (folder !== undefined) return `${folder}.md`;
  return path.startsWith("docs/") ? path.slice("docs/".length) : undefined;
}

/** The Markdown files that are pages of the site, from the root. */
export function sources() {
  const published = workspacePackages().filter(({ manifest }) => !manifest.private);
  const folders = [
    ...published.map(({ dir }) => `packages/${basename(dir)}`),
    ...readdirSync(join(root, "examples")).map((name) => `examples/${name}`),
  ];
  const readmes = folders.map((folder) => `${folder}/README.md`);
  return ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", ...readmes, ...docsPages()].filter((path) =>
    existsSync(join(root, path)),
  );
}

/** Where the repository's files can be read. */
function repository() {
  const { repository: named } = JSON.parse(readFileSync(join(root, "packages", "holdfast", "package.json"), "utf8"));
  return `${named.url.replace(/^git\+/, "").replace(/\.git$/, "")}/blob/main/`;
}

/**
 * The file of the repository that a link of a page leads to, from the root; undefined if it leads elsewhere. READMEs of packages are read on
 * npm too, and name the files of other folders by their public address.
 * @param {string} path of the page @param {string} link without its anchor
 */
export function fileOf(path, link) {
  if (link.startsWith(repository())) return link.slice(repository().length);
  return /^[a-z]+:/.test(link) ? undefined : posix.join(posix.dirname(path), link);
}

const CODE = /(^(`{3,}|~{3,}).*?^\2`*~*$|`[^`\n]+`)/gms;
const LINK = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)|\b(src|srcset|href)="([^"\s]+)"/g;

/**
 * Changes the links of a page, in Markdown and in HTML, but not what is in code.
 * @param {string} text
 * @param {(link: string) => string | undefined} change returns where it leads; undefined leaves its text without a link
 */
export function mapLinks(text, change) {
  /** @type {string[]} */
  const kept = [];
  // Private-use characters stand for code: the text of a link may be code.
  const open = text.replaceAll(CODE, (code) => `\u{E000}${kept.push(code) - 1}\u{E001}`);
  const changed = open.replaceAll(LINK, (whole, bang, label, link, attribute, address) => {
    const target = change(link ?? address);
    if (target === undefined) return label ?? whole;
    return attribute === undefined ? `${bang}[${label}](${target})` : `${attribute}="${target}"`;
  });
  return changed.replaceAll(/\u{E000}(\d+)\u{E001}/gu, (_, index) => kept[Number(index)] ?? "");
}

/** The text of a page as the site has it. @param {string} path from the root @param {string} text */
export function siteText(path, text) {
  const place = placeOf(path) ?? path;
  const known = new Set(sources());
  return mapLinks(text, (link) => {
    if (link.startsWith("#")) return link;
    const [file = "", anchor] = link.split("#");
    const target = fileOf(path, file);
    if (target === undefined) return link;
    const hash = anchor === undefined ? "" : `#${anchor}`;
    // Pictures and other files of docs/ are copied to the same places.
    if (known.has(target) || (target.startsWith("docs/") && !target.endsWith(".md"))) {
      const to = posix.relative(posix.dirname(place), placeOf(target) ?? target);
      return `${to.startsWith(".") ? to : `./${to}`}${hash}`;
    }
    return `${repository()}${target}`;
  });
}

/** Writes the pages and their pictures into a folder. @param {string} folder */
export function writePages(folder) {
  for (const path of sources()) {
    const text = siteText(path, readFileSync(join(root, path), "utf8"));
    const place = join(folder, placeOf(path) ?? path);
    mkdirSync(dirname(place), { recursive: true });
    writeFileSync(place, path === MAP ? `${home()}\n${text.replace(/^# .*\n/, "")}` : text);
    for (const picture of picturesOf(path, text)) {
      const copy = join(folder, placeOf(picture) ?? picture);
      mkdirSync(dirname(copy), { recursive: true });
      copyFileSync(join(root, picture), copy);
    }
  }
  return { ok: true, output: "" };
}

/** The first screen of the site, which has the map below it. */
const home = () => siteText("docs/home.md", readFileSync(join(root, "site", "home.md"), "utf8"));

/** The files that a page shows, from the root. @param {string} path @param {string} text as the site has it */
function picturesOf(path, text) {
  /** @type {string[]} */
  const found = [];
  const place = posix.dirname(placeOf(path) ?? path);
  mapLinks(path === MAP ? home() + text : text, (link) => {
    const file = posix.join("docs", place, link);
    if (/\.(png|svg|jpg|gif|webp)$/.test(link) && existsSync(join(root, file))) found.push(file);
    return "";
  });
  return found;
}
