// Bundles the simulation from the packages' sources, optionally with some of their code replaced.
// Owns: the replacements: one whose file is not in the bundle, or whose code is not in its file, is an error.
// Invariants: nothing in the repository changes; the bundle is one file in a new folder.

import { mkdirSync, mkdtempSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build, defaultServerConditions } from "vite";
import { plant } from "./plant.mjs";

const root = resolve(import.meta.dirname, "..");

/**
 * @param {readonly import("./plant.mjs").Replacement[]} [replacements]
 * @returns {Promise<string>} the path of the bundle
 */
export async function bundle(replacements = []) {
  mkdirSync(join(root, ".cache"), { recursive: true });
  const folder = mkdtempSync(join(root, ".cache", "simulation-")); // inside the repository, so that its dependencies resolve
  const left = new Set(replacements);
  await build({
    root,
    configFile: false,
    logLevel: "error",
    ssr: {
      noExternal: [/^@holdfast\/(core|host|simulation)/, /^holdfast/],
      external: ["libsql", "@holdfast/postgres"],
      resolve: { conditions: ["@holdfast/source", ...defaultServerConditions] },
    },
    plugins: [
      {
        name: "plant",
        enforce: "pre",
        transform(code, id) {
          let changed = code;
          for (const one of replacements) {
            if (id !== join(root, one.file)) continue;
            changed = plant(changed, one);
            left.delete(one);
          }
          return changed === code ? undefined : { code: changed, map: null };
        },
      },
    ],
    build: {
      ssr: join(root, "simulation", "entry.mjs"),
      outDir: folder,
      emptyOutDir: false,
      minify: false,
      target: "node20",
      rollupOptions: { output: { entryFileNames: "simulation.mjs" } },
    },
  });
  for (const { file } of left) throw new Error(`${file} is not in the bundle of the simulation`);
  return join(folder, "simulation.mjs");
}

/** @param {string} path @returns {Promise<typeof import("./entry.mjs")>} */
export function load(path) {
  return import(pathToFileURL(path).href);
}
