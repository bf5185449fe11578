// The API reference: TypeDoc writes Markdown from the TSDoc of everything that the published packages export.
// Owns: the list of doors, which are the `exports` of packages/*/package.json.
// TypeDoc can't run on TypeScript 7: site/package.json has another TypeScript, for nothing else.

import { mkdirSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import { root, run, workspacePackages } from "../scripts/setup.mjs";

/** @typedef {{ name: string, source: string, place: string }} Door what is imported, its file, and its page on the site */

/** What most readers look for comes first: the library, then what is installed beside it, then what hosts are built from. */
const ORDER = ["holdfast", "@holdfast/cli", "@holdfast/postgres", "@holdfast/temporal", "@holdfast/kv"];
const rank = (/** @type {string} */ name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);

/** Every door of the published packages. @returns {Door[]} */
export function doors() {
  return workspacePackages()
    .filter(({ manifest }) => !manifest.private)
    .sort((a, b) => rank(a.manifest.name) - rank(b.manifest.name))
    .flatMap(({ dir, manifest }) =>
      Object.entries(manifest.exports ?? {}).flatMap(([door, targets]) => {
        const source = targets["@holdfast/source"];
        const name = posix.join(manifest.name, door);
        return typeof source === "string" ? [{ name, source: join(dir, source), place: `api/${name}/index.md` }] : [];
      }),
    );
}

/** Writes the reference into a folder of pages. @param {string} work @returns {Promise<{ ok: boolean, output: string }>} */
export async function writeReference(work) {
  const list = doors();
  const api = join(work, "api");
  mkdirSync(api, { recursive: true });
  const tsconfig = join(work, "tsconfig.json");
  const compilerOptions = {
    ...{ noEmit: true, composite: false, declaration: false, declarationMap: false, sourceMap: false },
    ...{ rewriteRelativeImportExtensions: false, allowImportingTsExtensions: true },
    ...{ lib: ["es2023", "dom"], types: ["node"], typeRoots: [join(root, "node_modules", "@types")] },
  };
  writeFileSync(
    tsconfig,
    JSON.stringify({ extends: join(root, "tsconfig.base.json"), compilerOptions, files: list.map(({ source }) => source) }),
  );
  const options = {
    plugin: ["typedoc-plugin-markdown", join(root, "site", "typedoc.mjs")],
    tsconfig,
    entryPoints: list.map(({ source }) => source),
    out: api,
    cleanOutputDir: true,
    readme: "none",
    name: "API",
    // The build of the packages has checked the types.
    skipErrorChecking: true,
    sortEntryPoints: false,
    groupOrder: ["Functions", "Classes", "Interfaces", "*", "References"],
    disableSources: true,
    excludePrivate: true,
    excludeInternal: true,
    excludeExternals: true,
    disableGit: true,
    logLevel: "Warn",
    // Of typedoc-plugin-markdown.
    outputFileStrategy: "members",
    useHTMLAnchors: true,
    entryFileName: "index",
    modulesFileName: "index",
    hidePageHeader: true,
    hideBreadcrumbs: false,
    useCodeBlocks: true,
    expandObjects: true,
    parametersFormat: "table",
    propertiesFormat: "table",
    interfacePropertiesFormat: "list",
    enumMembersFormat: "table",
    typeDeclarationFormat: "table",
    indexFormat: "table",
    sanitizeComments: true,
  };
  const file = join(work, "typedoc.json");
  writeFileSync(file, JSON.stringify(options));
  const program = join(root, "site", "node_modules", "typedoc", "bin", "typedoc");
  const result = await run(process.execPath, [program, "--options", file], { stdio: "pipe" });
  writeFileSync(join(api, "doors.json"), JSON.stringify(list.map(({ name, place }) => ({ name, place }))));
  return result;
}
