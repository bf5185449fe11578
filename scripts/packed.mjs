// The packages as they would be published: packs them, and makes projects that use what was packed.
// Owns: nothing.
// Invariants: what is packed is what was built last; nothing of this process's settings for npm, Node or Holdfast reaches a child.

import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { programOf, root, workspacePackages } from "./setup.mjs";

/** What belongs to the script that runs this one would lead npm astray, and warnings about the settings of this machine are not asked for. */
export function cleanEnvironment() {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|NODE_(?!EXTRA_CA_CERTS)|HOLDFAST_|VITEST|TEST$|INIT_CWD$)/i.test(name),
  );
  return { ...Object.fromEntries(kept), npm_config_loglevel: "error" };
}

/**
 * Runs a program to its end, with the clean environment.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd: string, env?: Record<string, string>, onOutput?: (text: string) => void }} options
 * @returns {Promise<{ code: number | null, stdout: string, stderr: string }>}
 */
export function runIn(command, args, { cwd, env = {}, onOutput = () => {} }) {
  return new Promise((done, failed) => {
    const child = spawn(command, args, { cwd, env: { ...cleanEnvironment(), ...env }, stdio: ["ignore", "pipe", "pipe"] });
    const printed = { stdout: "", stderr: "" };
    for (const name of /** @type {const} */ (["stdout", "stderr"])) {
      child[name].setEncoding("utf8").on("data", (text) => {
        printed[name] += text;
        onOutput(text);
      });
    }
    child.on("error", failed);
    child.on("close", (code) => done({ code, ...printed }));
  });
}

/** The packages that are published: the name, the folder, and what package.json says. */
export function publicPackages() {
  return workspacePackages()
    .filter(({ manifest }) => manifest.private !== true)
    .map(({ dir, manifest }) => ({ name: /** @type {string} */ (manifest.name), dir, manifest }));
}

/**
 * @typedef {{ name: string, tarball: string, files: string[], size: number, unpackedSize: number }} Packed
 * Packs the packages of these names into a folder.
 * @param {readonly string[]} names
 * @param {string} folder
 * @returns {Promise<Packed[]>}
 */
export async function pack(names, folder) {
  mkdirSync(folder, { recursive: true });
  const dirs = names.map((name) => publicPackages().find((one) => one.name === name)?.dir ?? stop(`There is no package ${name}.`));
  const args = ["pack", "--json", "--ignore-scripts", "--offline", "--pack-destination", folder, ...dirs];
  const { code, stdout, stderr } = await runIn("npm", args, { cwd: root });
  if (code !== 0) stop(`npm pack failed:\n${stderr}`);
  /** @type {{ name: string, filename: string, size: number, unpackedSize: number, files: { path: string }[] }[]} */
  const packed = JSON.parse(stdout);
  return packed.map(({ name, filename, files, size, unpackedSize }) => ({
    ...{ name, size, unpackedSize, tarball: join(folder, filename) },
    files: files.map(({ path }) => path),
  }));
}

/** @param {string} message @returns {never} */
function stop(message) {
  throw new Error(message);
}

/**
 * Fills the node_modules of a project without a registry: packages of this repository are unpacked, all others are links to those that this
 * repository has installed.
 * @param {string} project
 * @param {readonly Packed[]} packed
 */
export async function installPacked(project, packed) {
  const modules = join(project, "node_modules");
  mkdirSync(join(modules, ".bin"), { recursive: true });
  for (const { name, tarball } of packed) {
    const target = join(modules, name);
    mkdirSync(target, { recursive: true });
    const { code, stderr } = await runIn("tar", ["-xzf", tarball, "-C", target, "--strip-components=1"], { cwd: project });
    if (code !== 0) stop(`${tarball} can't be unpacked: ${stderr}`);
    const nested = join(publicPackages().find((one) => one.name === name)?.dir ?? "", "node_modules");
    if (existsSync(nested)) symlinkSync(nested, join(target, "node_modules"));
    const { bin = {} } = JSON.parse(readFileSync(join(target, "package.json"), "utf8"));
    for (const [command, path] of Object.entries(bin)) {
      chmodSync(join(target, path), 0o755);
      symlinkSync(join(target, path), join(modules, ".bin", command));
    }
  }
  const own = new Set(workspacePackages().map(({ manifest }) => manifest.name));
  for (const name of installedNames()) {
    if (own.has(name)) continue;
    if (name.includes("/")) mkdirSync(join(modules, name.split("/")[0] ?? ""), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(modules, name));
  }
  // Of the compilers that this repository has installed, the one that a project would get.
  symlinkSync(programOf("typescript", "tsc"), join(modules, ".bin", "tsc"));
  for (const command of readdirSync(join(root, "node_modules", ".bin"))) {
    const link = join(modules, ".bin", command);
    if (!existsSync(link)) symlinkSync(join(root, "node_modules", ".bin", command), link);
  }
}

/** Scoped packages as `@scope/name`. */
function installedNames() {
  const modules = join(root, "node_modules");
  return readdirSync(modules).flatMap((name) => {
    if (name.startsWith(".")) return [];
    return name.startsWith("@") ? readdirSync(join(modules, name)).map((one) => `${name}/${one}`) : [name];
  });
}
