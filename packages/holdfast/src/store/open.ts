// From a URL to a store.
// Owns: the schemes.
// Invariants: what can't be opened is a typed error that names what to do; packages for other schemes are loaded only when asked for.

import { InvalidInputError, type Logger } from "@holdfast/core";
import { optionalPackage } from "./optionalPackage.ts";
import type { Store } from "./port.ts";

export const DEFAULT_URL = "file:.holdfast/holdfast.db";

export interface OpenStoreOptions {
  readonly logger?: Logger | undefined;
  readonly namespace?: string | undefined;
}

/** What `@holdfast/postgres` offers. It imports this package, so its types can't be had from there. */
interface PostgresPackage {
  readonly PostgresStore: { fromUrl(url: string, options: OpenStoreOptions): Store };
}

function invalid(message: string, path?: string): InvalidInputError {
  return new InvalidInputError({ what: "Holdfast.open", issues: [path === undefined ? { message } : { message, path: [path] }] });
}

export async function openStore(url: string = DEFAULT_URL, options: OpenStoreOptions = {}): Promise<Store> {
  if (typeof url !== "string") throw invalid(`The url must be text, not ${typeof url}.`);
  if (/^postgres(ql)?:/.test(url)) {
    const { PostgresStore } = await optionalPackage<PostgresPackage>("@holdfast/postgres", "Engines on PostgreSQL");
    return PostgresStore.fromUrl(url, options);
  }
  if (url === "memory:") {
    refuseNamespace(options, "Open another engine for another.");
    const { MemoryStore } = await import("./memory/store.ts");
    return new MemoryStore();
  }
  if (url.startsWith("file:")) {
    refuseNamespace(options, "Use a file of its own for another.");
    const { path, query } = fileOf(url);
    const { SqliteStore } = await import("./sqlite/store.ts");
    return new SqliteStore(path, { ...sqliteOptions(query), logger: options.logger });
  }
  throw invalid(
    `"${withoutSecrets(url)}" is not the url of an engine. Use "file:./app.db", "memory:", "postgres://user:password@host/database" or "temporal://host:7233/namespace".`,
  );
}

function fileOf(url: string): { path: string; query: URLSearchParams } {
  const mark = url.indexOf("?");
  const place = mark < 0 ? url : url.slice(0, mark);
  const path = place.startsWith("file://") ? pathOf(place) : place.slice("file:".length);
  if (path === "" || path.includes("\0")) throw invalid('"file:" names no file. Example: "file:./app.db".');
  return { path, query: new URLSearchParams(mark < 0 ? "" : url.slice(mark + 1)) };
}

/** After `//` comes a host, and `localhost` is the only one whose files are here. */
function pathOf(url: string): string {
  const { host, pathname, hash } = parsed(url);
  if (host !== "") {
    const advice = 'Write "file:./app.db" for a file below the current folder, "file:/data/app.db" or "file:///data/app.db" for another.';
    throw invalid(`"${withoutSecrets(url)}" names the host "${host.slice(0, 100)}", and not a file of this one. ${advice}`);
  }
  if (hash !== "") throw invalid(`"${withoutSecrets(url)}" has a "#", which ends a path. Write "%23" for it.`);
  return decoded(pathname, url);
}
function parsed(url: string): URL {
  if (URL.canParse(url)) return new URL(url);
  throw noFile(url);
}
function decoded(pathname: string, url: string): string {
  try {
    return decodeURIComponent(pathname);
  } catch {
    // biome-ignore lint/style/useErrorCause: the message says all that the cause does
    throw noFile(url);
  }
}
function noFile(url: string): InvalidInputError {
  return invalid(`"${withoutSecrets(url)}" is no url of a file. Examples: "file:./app.db", "file:///data/app.db".`);
}

function refuseNamespace({ namespace = "default" }: OpenStoreOptions, instead: string): void {
  if (namespace !== "default") throw invalid(`This store keeps one namespace, "default". ${instead}`, "namespace");
}

/**
 * For messages: a url may have a password in it, before its last @ (a password may have any letter), in its query, or, if it is none but
 * the words of another tool ("host=… password=…"), anywhere.
 */
function withoutSecrets(url: string): string {
  const [, scheme = "", rest = ""] = /^([a-z][a-z\d+.-]*:(?:\/\/)?)?(.*)$/is.exec(url) ?? [];
  const shown = rest.replace(/^.*@/s, "…@").replace(/\?.*$/s, "?…").replace(/=.*$/s, "=…");
  return `${scheme}${shown}`.slice(0, 100);
}

/** `?synchronous=NORMAL` trades the last commits on power loss for speed; everything else is refused. */
function sqliteOptions(query: URLSearchParams): { synchronous?: "FULL" | "NORMAL" } {
  const options: { synchronous?: "FULL" | "NORMAL" } = {};
  for (const [key, value] of query) {
    const upper = value.toUpperCase();
    if (key !== "synchronous" || (upper !== "FULL" && upper !== "NORMAL")) {
      const shown = key === "synchronous" ? `${key}=${value}` : key; // the value of another may be a password
      throw invalid(`"${shown}" is no option of a file. There is synchronous=FULL (default) and synchronous=NORMAL.`);
    }
    options.synchronous = upper;
  }
  return options;
}
