// Job: folders that look like the project of a user, for tests.
// Owns: the folders; they are removed when the tests of a file are over.
// Invariants: `holdfast` and `@holdfast/cli` resolve in them as if they were installed, to what is built.

import { mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll } from "vitest";

export const root = resolve(import.meta.dirname, "../../../..");

const made: string[] = [];
afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true });
});

/** Makes a project with these files. It is the root of a repository, so that no configuration above it is found. */
export function project(files: Readonly<Record<string, string>> = {}): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-project-")));
  made.push(folder);
  mkdirSync(join(folder, ".git"));
  mkdirSync(join(folder, "node_modules/@holdfast"), { recursive: true });
  for (const name of ["holdfast", "@holdfast/cli", "zod"])
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
  write(folder, { "package.json": JSON.stringify({ name: "project", type: "module" }), ...files });
  return folder;
}
export function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    // Whole at once: what watches the file never sees half of it.
    const half = join(folder, `${name}.half`);
    writeFileSync(half, text);
    renameSync(half, join(folder, name));
  }
}
