// `holdfast init`
// Owns: how the first files, which come from create-holdfast, get into a project that exists.
// Invariants: nothing is overwritten without --force, and nothing is written if any of its files exists; it installs nothing.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { IGNORED, packageName, SCRIPTS, starterFiles, type TemplateFile, version } from "create-holdfast";
import { printable } from "../terminal/escape.ts";
import { CommandFailure, EXIT } from "./failures.ts";
import type { Session } from "./session.ts";

const [DEPENDENCIES, RUNS] = IGNORED;
const CONFIGS = ["ts", "mts", "js", "mjs"].map((ending) => `holdfast.config.${ending}`);

export async function initProject(session: Session, _args: readonly [], { force }: { force?: true }): Promise<number> {
  const { cwd } = session.io;
  const existing = [...CONFIGS, "workflows/hello.ts"].filter((file) => existsSync(join(cwd, file)));
  if (existing.length > 0 && force !== true) throw exists(existing);
  // Read and checked before anything is written.
  const manifest = manifestOf(cwd);
  const ignored = ignoredBy(cwd);
  const files: TemplateFile[] = starterFiles();
  if (manifest !== undefined) files.push(["package.json", manifest]);
  if (ignored !== undefined) files.push([".gitignore", ignored]);
  for (const [path, content] of files) {
    mkdirSync(dirname(join(cwd, path)), { recursive: true });
    writeFileSync(join(cwd, path), content);
  }
  const written = files.map(([path]) => path);
  session.show({ json: { written }, lines: written.map((path) => ({ path })), human: () => written.map((path) => `wrote ${path}`) });
  session.note("Next:\n  npm install\n  npx holdfast dev");
  return EXIT.ok;
}

function exists(files: readonly string[]): CommandFailure {
  return new CommandFailure({
    code: "HF_FILE_EXISTS",
    status: 409,
    title: "A file exists",
    detail: `${files.join(" and ")} ${files.length === 1 ? "exists" : "exist"} already. Nothing was written.`,
    advice: "Use another folder, or --force to overwrite.",
    exitCode: EXIT.refused,
  });
}

interface Manifest {
  type?: unknown;
  scripts?: unknown;
  dependencies?: unknown;
  devDependencies?: unknown;
}
type Names = Readonly<Record<string, unknown>>;
const isRecord = (value: unknown): value is Names => typeof value === "object" && value !== null && !Array.isArray(value);

/** package.json with the scripts and dependencies that it lacks. Undefined if it lacks none. */
function manifestOf(cwd: string): string | undefined {
  const path = join(cwd, "package.json");
  const isNew = !existsSync(path);
  const text = isNew ? "{}" : readFileSync(path, "utf8");
  const manifest = parsed(text);
  const scripts = isRecord(manifest.scripts) ? manifest.scripts : {};
  const added = Object.entries(SCRIPTS)
    .filter(([, command]) => !Object.values(scripts).includes(command))
    .map(([name, command]) => [Object.hasOwn(scripts, name) ? `holdfast:${name}` : name, command] as const)
    .filter(([name]) => !Object.hasOwn(scripts, name));
  const dependencies = isRecord(manifest.dependencies) ? manifest.dependencies : {};
  const known = { ...dependencies, ...(isRecord(manifest.devDependencies) ? manifest.devDependencies : {}) };
  const needed = ["holdfast", "@holdfast/cli"].filter((name) => !Object.hasOwn(known, name)).map((name) => [name, `^${version}`] as const);
  if (added.length === 0 && needed.length === 0) return undefined;
  const next = {
    ...(isNew && { name: packageName(cwd), private: true, type: "module" }),
    ...manifest,
    scripts: { ...scripts, ...Object.fromEntries(added) },
    dependencies: { ...dependencies, ...Object.fromEntries(needed) },
  };
  const [, indent = "  "] = /^\{\s*?\n([ \t]+)"/.exec(text) ?? [];
  return `${JSON.stringify(next, null, indent)}\n`;
}

function parsed(text: string): Manifest {
  const refused = (reason: string): CommandFailure =>
    new CommandFailure({
      code: "HF_INVALID_INPUT",
      status: 400,
      title: "Invalid input",
      detail: `package.json ${reason}. Nothing was written.`,
      exitCode: EXIT.refused,
    });
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\ufeff/, ""));
  } catch (cause) {
    throw refused(`can't be read: ${printable((cause as Error).message)}`);
  }
  if (!isRecord(value)) throw refused("is not an object");
  return value;
}

/** .gitignore with the folder of the store. Undefined if it is there already. */
function ignoredBy(cwd: string): string | undefined {
  const path = join(cwd, ".gitignore");
  const text = existsSync(path) ? readFileSync(path, "utf8") : `${DEPENDENCIES}\n`;
  if (existsSync(path) && /^\/?\.holdfast\/?\s*$/m.test(text)) return undefined;
  return `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}${RUNS}\n`;
}
