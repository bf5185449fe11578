// npm run site [-- --base /docs/] [--serve] [--port 4173]: builds the site into site/dist from docs/ and the code, and shows it.
// Owns: site/work, the pages as VitePress gets them, and site/dist. Both are ignored by git.

import { createReadStream, mkdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { withProgress } from "../scripts/progress.mjs";
import { install, root, run } from "../scripts/setup.mjs";
import { problemsOf } from "./check.mjs";
import { writePages } from "./pages.mjs";
import { writeReference } from "./reference.mjs";

const site = join(root, "site");
const work = join(site, "work");
const dist = join(site, "dist");

/** @typedef {{ ok: boolean, output: string }} Outcome */

/**
 * Builds the site and checks every link of the result.
 * @param {string} base the path under which it will be served
 * @returns {Promise<Outcome>}
 */
export async function buildSite(base) {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  /** @type {[what: string, work: () => Promise<Outcome>][]} */
  const steps = [
    ["Installing VitePress and TypeDoc", () => install(site)],
    ["Writing the API reference", () => writeReference(work)],
    ["Writing the pages", async () => writePages(work)],
    ["Building the site", () => vitepress(base)],
    ["Checking its links", async () => check(base)],
  ];
  for (const [what, step] of steps) {
    const { ok, output } = await withProgress(what, step);
    if (!ok) return { ok, output: `${what} failed:\n${output}` };
  }
  return { ok: true, output: "" };
}

/** @param {string} base */
function vitepress(base) {
  const program = join(site, "node_modules", "vitepress", "bin", "vitepress.js");
  return run(process.execPath, [program, "build", site, "--base", base], { stdio: "pipe" });
}

/** @param {string} base @returns {Outcome} */
function check(base) {
  const problems = problemsOf(dist, base);
  return { ok: problems.length === 0, output: problems.map((one) => `${one}\n`).join("") };
}

const TYPES = new Map(
  Object.entries({
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
  }),
);

/** Serves the built site on this machine alone. @param {string} base @param {number} port */
function serveSite(base, port) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const path = normalize(decodeURIComponent(pathname.startsWith(base) ? pathname.slice(base.length) : "404.html"));
    const file = [path, `${path}.html`, join(path, "index.html")]
      .map((name) => join(dist, name))
      .find((name) => name.startsWith(dist + sep) && statSync(name, { throwIfNoEntry: false })?.isFile());
    response.writeHead(file === undefined ? 404 : 200, {
      "content-type": TYPES.get(extname(file ?? ".html")) ?? "application/octet-stream",
    });
    createReadStream(file ?? join(dist, "404.html")).pipe(response);
  });
  return new Promise((done) => server.listen(port, "127.0.0.1", () => done(server)));
}

async function main() {
  const { values } = parseArgs({
    options: {
      base: { type: "string", default: "/" },
      serve: { type: "boolean", default: false },
      port: { type: "string", default: "4173" },
    },
  });
  const base = `/${values.base.replaceAll(/^\/+|\/+$/g, "")}/`.replace("//", "/");
  const { ok, output } = await buildSite(base);
  if (!ok) {
    process.stderr.write(output);
    process.exitCode = 1;
    return;
  }
  console.log("The site is in site/dist.");
  if (!values.serve) return;
  await serveSite(base, Number(values.port));
  console.log(`http://127.0.0.1:${values.port}${base}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main();
