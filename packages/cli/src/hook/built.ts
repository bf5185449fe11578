// Where the program of another process or thread is.
// Owns: nothing.
// Invariants: it is always JavaScript: if this package itself runs from its sources, the built file is meant.

/** `builtUrl("./child.ts", import.meta.url)`. */
export function builtUrl(relative: string, from: string): URL {
  const url = new URL(relative, from);
  if (from.endsWith(".ts")) url.pathname = url.pathname.replace(/\/src\/((?:(?!\/src\/).)*)$/, "/dist/$1");
  url.pathname = url.pathname.replace(/\.ts$/, ".js");
  return url;
}
