// The files of a new project, read from the folder `template`.
// Owns: which files there are, and what is filled in.
// Invariants: TypeScript of the template compiles as it is; the url and the entry are replaced as texts.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Manager } from "./manager.ts";
import { IGNORED, manifest, packageName } from "./manifest.ts";

export type Store = "sqlite" | "postgres";
/** A file of a new project: its path and what it contains. */
export type TemplateFile = readonly [path: string, content: string];

const folder = fileURLToPath(new URL("../template", import.meta.url));
const read = (path: string): string => readFileSync(join(folder, path), "utf8");

const URLS: Readonly<Record<Store, string>> = {
  sqlite: "file:.holdfast/holdfast.db",
  postgres: "postgres://postgres:holdfast@localhost:5432/app",
};

/** What `holdfast init` writes into a project: a configuration and a first workflow. */
export function starterFiles(): TemplateFile[] {
  return [["holdfast.config.ts", read("holdfast.config.ts")], ...filesOf("init")];
}

export interface ProjectOptions {
  /** The folder of the project. */
  readonly target: string;
  readonly store: Store;
  readonly manager: Manager;
}

/** What `npm create holdfast` writes: everything that a project needs. */
export function projectFiles({ target, store, manager }: ProjectOptions): TemplateFile[] {
  const name = packageName(target);
  const filled = (text: string): string =>
    text
      .replaceAll(URLS.sqlite, URLS[store])
      .replaceAll('"workflows/**', '"src/workflows/**')
      .replaceAll(/\{\{(\w+)(?: (\w+))?\}\}/g, (_, word: string, script: string | undefined) => {
        if (word === "run") return manager.run(script ?? "");
        return words[word] ?? "";
      });
  const words: Readonly<Record<string, string>> = {
    name,
    url: URLS[store],
    where: WHERE[store],
    begin: beginning(store, manager).join("\n"),
    exec: manager.exec,
    setup: manager.setup.map((line) => `      ${line}`).join("\n"),
  };
  const files: TemplateFile[] = [
    ["package.json", manifest(name, store, manager.pinned)],
    ["holdfast.config.ts", read("holdfast.config.ts")],
    ...filesOf("project"),
    ...(store === "postgres" ? filesOf("postgres") : []),
    // npm packs no file of this name.
    [".gitignore", `${[...IGNORED, "dist/", ...(manager.needsYarnrc ? [".yarn/install-state.gz"] : [])].join("\n")}\n`],
    ...(manager.needsYarnrc ? [[".yarnrc.yml", "nodeLinker: node-modules\n"] as const] : []),
  ];
  return files.map(([path, content]) => [path === "ci.yml" ? ".github/workflows/ci.yml" : path, filled(content)]);
}

/** What to type after the files are there, up to the running worker. */
export function beginning(store: Store, manager: Manager): string[] {
  const database = store === "postgres" ? ["docker compose up -d --wait", `${manager.exec} holdfast migrate`] : [];
  return [manager.install, ...database, manager.run("dev")];
}

const WHERE: Readonly<Record<Store, string>> = {
  sqlite: "Runs are kept in an SQLite file, `.holdfast/holdfast.db`.",
  postgres: "Runs are kept in PostgreSQL; `compose.yaml` starts one for development.",
};

function filesOf(part: string): TemplateFile[] {
  return pathsIn(part).map((path) => [path.slice(part.length + 1), read(path)]);
}

/** Folder by folder: the file system of Yarn 4, which runs this from an archive, has no usable `parentPath` in a recursive list. */
function pathsIn(parent: string): string[] {
  return readdirSync(join(folder, parent), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => (entry.isDirectory() ? pathsIn(`${parent}/${entry.name}`) : [`${parent}/${entry.name}`]));
}
