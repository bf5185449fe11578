// npm run new -- ../my-app [--store postgres]: a project beside the clone, with the packages of Holdfast as the clone has them. It does what
// `npm create holdfast` does, then packs the packages into the project's folder `vendor` and installs them, so that the project needs neither
// the registry for them nor the clone. In a project that exists it only does the latter, for what the project names, `holdfast`,
// `@holdfast/cli`, and the packages that follow the folder: npm run new -- ../my-app @holdfast/postgres

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { pack, publicPackages, runIn } from "./packed.mjs";
import { withProgress } from "./progress.mjs";
import { root } from "./setup.mjs";

const args = process.argv.slice(2);
const from = process.env["INIT_CWD"] ?? process.cwd();
const [folder, ...added] = args.filter((arg, i) => !arg.startsWith("-") && args[i - 1] !== "--store");
if (folder === undefined) {
  console.error("Name the folder of the project: npm run new -- ../my-app");
  process.exit(2);
}
const project = resolve(from, folder);
if (!relative(root, project).startsWith("..")) {
  console.error(`${project} is inside the clone. Name a folder outside of it: npm run new -- ../${basename(project)}`);
  process.exit(2);
}
const unknown = added.filter((name) => !publicPackages().some((one) => one.name === name));
if (unknown.length > 0) {
  const known = publicPackages().map(({ name }) => name);
  console.error(`The clone has no package ${unknown.join(", ")}. Its packages: ${known.join(", ")}.`);
  process.exit(2);
}
const isNew = !existsSync(join(project, "package.json"));
if (isNew) await create();

async function create() {
  const creator = join(root, "packages/create-holdfast/dist/bin.js");
  const child = spawn(process.execPath, [creator, ...args.filter((arg) => !added.includes(arg)), "--yes"], {
    cwd: from,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    said += text;
  });
  const code = await new Promise((done) => child.on("close", done));
  // What it says to do next is done here.
  process.stdout.write(said.slice(0, said.indexOf("\nNext:") + 1));
  if (code !== 0) process.exit(code ?? 1);
}

/** What the project names of this repository, and what those need. @param {Record<string, string>} dependencies @returns {string[]} */
function ours(dependencies) {
  return publicPackages()
    .filter(({ name }) => name in dependencies)
    .flatMap(({ name, manifest }) => [name, ...ours({ ...manifest.dependencies, ...manifest.optionalDependencies })]);
}
const manifest = JSON.parse(readFileSync(join(project, "package.json"), "utf8"));
const named = ours({ ...manifest.dependencies, ...manifest.devDependencies });
const asked = isNew ? added : ["holdfast", "@holdfast/cli", ...added];
const names = [...new Set([...named, ...ours(Object.fromEntries(asked.map((name) => [name, ""])))])];
const packed = await withProgress("Packing the packages", () => pack(names, join(project, "vendor")));
const isOptional = (/** @type {{ name: string }} */ { name }) => name === "@holdfast/libsql"; // npm leaves it out where Node has what it needs
await install(
  "--save",
  packed.filter((one) => !isOptional(one)),
);
await install("--save-optional", packed.filter(isOptional));

/** @param {string} how @param {readonly { tarball: string }[]} some */
async function install(how, some) {
  if (some.length === 0) return;
  const args = ["install", how, "--no-audit", "--no-fund", ...some.map(({ tarball }) => `./${relative(project, tarball)}`)];
  const { code, stderr } = await withProgress("Installing the packages", () => runIn("npm", args, { cwd: project }));
  if (code === 0) return;
  console.error(stderr);
  process.exit(1);
}
const shown = relative(from, project);
const next = `Next:
  cd ${shown}
  npm run dev      a worker and the dashboard
  npm test         its test, in skipped time`;
const where = shown === "" ? "They are installed." : `They are installed in ${shown}.`;
console.log(`\nThe packages of Holdfast are in ${join(shown, "vendor")}. ${isNew ? next : where}`);
