// Programs for child processes: the store with a small main, in one file that every Node runs.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { build } from "vite";
import { afterAll } from "vitest";

const here = import.meta.dirname ?? new URL(".", import.meta.url).pathname;
// Inside the repository, where `libsql` is found. Test files run in processes of their own, at the same time.
const outDir = join(here, "../../../../../.cache/sqlite-processes", `${process.pid}`);
afterAll(() => rmSync(outDir, { recursive: true, force: true }));
const built = new Map<string, Promise<string>>();

/** The path of the program of that name, beside this file. */
export function bundled(name: string): Promise<string> {
  let path = built.get(name);
  if (path === undefined) {
    path = bundle(name);
    built.set(name, path);
  }
  return path;
}

async function bundle(name: string): Promise<string> {
  await build({
    configFile: false,
    logLevel: "error",
    ssr: { noExternal: true, external: ["libsql"], resolve: { conditions: ["@holdfast/source"] } },
    build: {
      ssr: join(here, `${name}.ts`),
      outDir,
      emptyOutDir: false,
      minify: false,
      rollupOptions: { external: ["libsql"], output: { entryFileNames: `${name}.mjs` } },
    },
  });
  return join(outDir, `${name}.mjs`);
}
