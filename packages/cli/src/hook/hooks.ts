// What Node asks when it meets an `import`: where the module is, and what is in it.
// Owns: which files are compiled.
// Invariants: files in node_modules, and everything that is not a file, are left to Node.

import { readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { compile } from "./compile.ts";
import { resolveFile } from "./resolve.ts";

interface ResolveContext {
  readonly conditions: readonly string[];
  readonly parentURL?: string | undefined;
}
interface Resolved {
  readonly url: string;
  readonly format?: string | null | undefined;
  readonly shortCircuit?: boolean | undefined;
}
interface Loaded {
  readonly format: string;
  readonly source?: unknown;
  readonly shortCircuit?: boolean | undefined;
}
type Maybe<T> = T | Promise<T>;

let report: (file: string) => void = () => {};
/** `fn` is called with the path of every file that is loaded from now on. */
export function reportLoaded(fn: (file: string) => void): void {
  report = fn;
}

/** Ours if it is a file outside node_modules. */
function ownPath(url: string | undefined): string | undefined {
  if (url === undefined || !url.startsWith("file:") || url.includes("/node_modules/")) return undefined;
  return fileURLToPath(url);
}

export function resolve<R extends Maybe<Resolved>>(
  specifier: string,
  context: ResolveContext,
  next: (specifier: string, context?: ResolveContext) => R,
): R | Resolved {
  const parent = ownPath(context.parentURL);
  const file = parent === undefined ? undefined : resolveFile(specifier, parent, context.conditions);
  const url =
    file === undefined ? entryUrl(specifier) : `${pathToFileURL(file.path).href}${file.suffix || again(specifier, context.parentURL)}`;
  if (url === undefined) return next(specifier, context);
  const format = formatOf(url);
  return format === undefined ? next(url, context) : { url, format, shortCircuit: true };
}
/** What a module that is loaded again imports by a path is loaded again, too. */
function again(specifier: string, parent = ""): string {
  return specifier.startsWith(".") ? (AGAIN.exec(parent)?.[0] ?? "") : "";
}
const AGAIN = /\?holdfast-again=\d+$/;

/** An absolute url of a file that Node itself may not know how to load: an entry, or `import(url)`. */
function entryUrl(specifier: string): string | undefined {
  return ownPath(specifier) !== undefined && formatOf(specifier) !== undefined ? specifier : undefined;
}

/** The format in which a file is handed to Node; undefined if Node loads it by itself. */
function formatOf(url: string): "module" | "commonjs" | undefined {
  const [, ending] = /\.([cm]?tsx?|json)(?:[?#].*)?$/.exec(url) ?? [];
  if (ending === undefined || url.includes("/node_modules/")) return undefined;
  return ending === "cts" ? "commonjs" : "module";
}

export function load<R extends Maybe<Loaded>>(url: string, context: unknown, next: (url: string, context?: unknown) => R): R | Loaded {
  const path = ownPath(url);
  if (path === undefined) return next(url, context);
  report(path);
  const format = formatOf(url);
  if (format === undefined) return next(url, context);
  const text = readFileSync(path, "utf8");
  return { format, source: path.endsWith(".json") ? jsonModule(path, text) : compile(path, text), shortCircuit: true };
}

/** JSON as a module, so that it can be imported with and without `with { type: "json" }`. */
function jsonModule(path: string, text: string): string {
  try {
    JSON.parse(text);
  } catch (cause) {
    throw new SyntaxError(`${path}:1:1: ${(cause as Error).message}`, { cause });
  }
  return `export default JSON.parse(${JSON.stringify(text)});`;
}
