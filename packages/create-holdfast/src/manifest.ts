// The package.json of a project.
// Owns: its scripts, and the versions of what it depends on.
// Invariants: packages of Holdfast have the version of this one.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Store } from "./template.ts";

/** The scripts that call the console. */
export const SCRIPTS = { dev: "holdfast dev", worker: "holdfast worker", replay: "holdfast replay" } as const;

/** What git leaves alone: dependencies, and the folder of the SQLite file. */
export const IGNORED = ["node_modules/", ".holdfast/"] as const;

const own = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string };
/** The version of this package. */
export const version: string = own.version;

/** A name that npm accepts, made from the name of a folder. */
export function packageName(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+|-+$/g, "");
  return name === "" ? "workflows" : name;
}

export function manifest(name: string, store: Store, pinned: string | undefined): string {
  const { dev, replay } = SCRIPTS;
  const holdfast = `^${version}`;
  return `${JSON.stringify(
    {
      name,
      private: true,
      type: "module",
      ...(pinned !== undefined && { packageManager: pinned }),
      engines: { node: ">=20.19" },
      scripts: {
        dev,
        build: "tsc -p tsconfig.build.json",
        start: "node dist/worker.js",
        test: "vitest run",
        typecheck: "tsc",
        replay,
      },
      dependencies: { ...(store === "postgres" && { "@holdfast/postgres": holdfast }), holdfast },
      devDependencies: { "@holdfast/cli": holdfast, "@types/node": "^20.19.43", typescript: "^7.0.2", vitest: "^4.1.12" },
    },
    null,
    2,
  )}\n`;
}
