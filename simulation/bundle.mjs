// Bundles the simulation from the packages' sources, with some of their text replaced if need be.
// Owns: the replacements: one whose text is not found is an error.
// Invariants: nothing in the repository is changed; the bundle is a file in a folder of its own.

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
  const folder = mkdtempSync(join(root, ".cache", "simulation-")); // inside the repository, so that dependencies are found
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
  for (const { file } of left) throw new Error(`${file} is not part of the simulation`);
  return join(folder, "simulation.mjs");
}

/** @param {string} path @returns {Promise<typeof import("./entry.mjs")>} */
export function load(path) {
  return import(pathToFileURL(path).href);
}
