// From a URL to a store.
// Owns: the schemes.
// Invariants: what can't be opened is a typed error that names what to do; packages for other schemes are loaded only when asked for.

import { InvalidInputError } from "@holdfast/core";
import type { Store } from "./port.ts";

export const DEFAULT_URL = "file:.holdfast/holdfast.db";

function invalid(message: string): InvalidInputError {
  return new InvalidInputError({ what: "Holdfast.open", issues: [{ message }] });
}

export async function openStore(url: string = DEFAULT_URL): Promise<Store> {
  if (typeof url !== "string") throw invalid(`The url must be text, not ${typeof url}.`);
  if (url === "memory:") {
    const { MemoryStore } = await import("./memory/store.ts");
    return new MemoryStore();
  }
  if (url.startsWith("file:")) {
    const [place = "", query = ""] = url.split("?", 2);
    const path = place.startsWith("file://") ? decodeURIComponent(new URL(place).pathname) : place.slice("file:".length);
    if (path === "") throw invalid('"file:" names no file. Example: "file:./app.db".');
    const options = sqliteOptions(new URLSearchParams(query));
    const { SqliteStore } = await import("./sqlite/store.ts");
    return new SqliteStore(path, options);
  }
  throw invalid(`"${url.slice(0, 100)}" is no url of a store. Use "file:./app.db" or "memory:".`);
}

/** `?synchronous=NORMAL` trades the last commits on power loss for speed; everything else is refused. */
function sqliteOptions(query: URLSearchParams): { synchronous?: "FULL" | "NORMAL" } {
  const options: { synchronous?: "FULL" | "NORMAL" } = {};
  for (const [key, value] of query) {
    const upper = value.toUpperCase();
    if (key !== "synchronous" || (upper !== "FULL" && upper !== "NORMAL")) {
      throw invalid(`"${key}=${value}" is no option of a file. There is synchronous=FULL (default) and synchronous=NORMAL.`);
    }
    options.synchronous = upper;
  }
  return options;
}
