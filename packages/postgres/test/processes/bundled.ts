// Programs for child processes: the store with a small main, in one file that every Node runs.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { build } from "vite";
import { afterAll } from "vitest";

// Inside the repository, where `pg` is found. Test files run in processes of their own, at the same time.
const outDir = join(import.meta.dirname, "../../../../.cache/postgres-processes", `${process.pid}`);
afterAll(() => rmSync(outDir, { recursive: true, force: true }));

/** Makes the program of that name, beside this file; its path. */
export async function bundled(name: string): Promise<string> {
  await build({
    configFile: false,
    logLevel: "error",
    ssr: { noExternal: true, external: ["libsql", "pg"], resolve: { conditions: ["@holdfast/source"] } },
    build: {
      ssr: join(import.meta.dirname, `${name}.ts`),
      outDir,
      emptyOutDir: false,
      minify: false,
      rollupOptions: { external: ["libsql", "pg"], output: { entryFileNames: `${name}.mjs` } },
    },
  });
  return join(outDir, `${name}.mjs`);
}
