// Where an error comes from: file, line and column, for people.
// Owns: reading stacks and the messages of syntax errors.
// Invariants: never throws; files of node_modules, of Holdfast and of Node itself are passed over.

import { readFileSync } from "node:fs";
import { basename, isAbsolute, relative } from "node:path";
import { fileURLToPath } from "node:url";

export interface SourcePlace {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** Names file and line: "workflows/order.ts:14". `fallback` is named if the error does not say where it comes from. */
export function placeOf(error: unknown, fallback: string, cwd: string): { readonly place: string; readonly message: string } {
  const found = sourceOf(error);
  return { place: `${shownPath(found?.file ?? fallback, cwd)}:${found?.line ?? 1}`, message: messageOf(error) };
}
/** Relative to the working directory if it is below it. */
export function shownPath(file: string, cwd: string): string {
  const shown = relative(cwd, file);
  return shown === "" || shown.startsWith("..") || isAbsolute(shown) ? file : shown;
}

/** How the compiler's errors begin: the only part of an error that passes from the thread of the hook to this one. */
const COMPILER = /^(\S.*?):(\d+):(\d+): /;

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const message = error.message.replace(COMPILER, "");
  return error.name === "Error" || message.startsWith(`${error.name}:`) ? message : `${error.name}: ${message}`;
}

/** The first place in the stack that is the user's; for a syntax error, what the error says. */
function sourceOf(error: unknown): SourcePlace | undefined {
  if (!(error instanceof Error)) return undefined;
  const [, named, at, column] = error.name === "SyntaxError" ? (COMPILER.exec(error.message) ?? []) : [];
  if (named !== undefined) return { file: named, line: Number(at), column: Number(column) };
  const importer = importerOf(error);
  if (importer !== undefined) return importer;
  for (const line of String(error.stack ?? "").split("\n")) {
    const match = FRAME.exec(line);
    const file = match === null ? undefined : pathOf(match[1] as string);
    if (match === null || file === undefined || isOurs(file)) continue;
    return { file, line: Number(match[2]), column: Number(match[3] ?? 1) };
  }
  return error.cause === undefined ? undefined : sourceOf(error.cause);
}
const FRAME = /(?:^|[\s(])(file:\/\/[^\s()]+?|(?:\/|[A-Za-z]:[\\/])[^()]*?):(\d+)(?::(\d+))?\)?\s*$/;
/** Dependencies, and Holdfast itself, also when it runs from a checkout. */
function isOurs(file: string): boolean {
  return (
    /[/\\]node_modules[/\\]/.test(file) || (file.startsWith(PACKAGES) && /^[^/\\]+[/\\](?:src|dist)[/\\]/.test(file.slice(PACKAGES.length)))
  );
}
const PACKAGES = fileURLToPath(new URL("../../../", import.meta.url));

/** A module that is missing: the line that imports it. */
function importerOf(error: Error): SourcePlace | undefined {
  if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") return undefined;
  const [, missing = "", importer = ""] = /^Cannot find \w+ '(.+?)' imported from (.+)$/.exec(error.message) ?? [];
  const file = pathOf(importer);
  if (file === undefined || !isAbsolute(file) || isOurs(file)) return undefined;
  const name = basename(missing).replace(/\.\w+$/, "");
  try {
    const line = readFileSync(file, "utf8")
      .split("\n")
      .findIndex((text) => text.includes(name));
    return { file, line: Math.max(line, 0) + 1, column: 1 };
  } catch {
    return { file, line: 1, column: 1 };
  }
}
function pathOf(text: string): string | undefined {
  try {
    return text.startsWith("file:") ? fileURLToPath(text.replace(/\?.*$/, "")) : text;
  } catch {
    return undefined;
  }
}
