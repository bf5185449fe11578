// From a URL to a store.
// Owns: the schemes, and where namespaces are kept.
// Invariants: what can't be opened is a typed error that names what to do; packages for other schemes are loaded only when asked for.

import { join, parse } from "node:path";
import { InvalidInputError, type Logger } from "@holdfast/core";
import type { ReadStore } from "./inspectPort.ts";
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
  readonly PostgresReader: { fromUrl(url: string, options: OpenStoreOptions): ReadStore & { open(): Promise<void> } };
}

function invalid(message: string, path?: string): InvalidInputError {
  return new InvalidInputError({ what: "Holdfast.open", issues: [path === undefined ? { message } : { message, path: [path] }] });
}

export async function openStore(url: string = DEFAULT_URL, options: OpenStoreOptions = {}): Promise<Store> {
  if (typeof url !== "string") throw invalid(`The url must be text, not ${typeof url}.`);
  const namespace = checkedNamespace(options.namespace);
  if (/^postgres(ql)?:/.test(url)) {
    const { PostgresStore } = await optionalPackage<PostgresPackage>("@holdfast/postgres", "Engines on PostgreSQL");
    return PostgresStore.fromUrl(url, options);
  }
  if (url === "memory:") {
    const { MemoryStore } = await import("./memory/store.ts");
    return new MemoryStore({ namespace });
  }
  if (url.startsWith("file:")) {
    const { path, query } = fileOf(url);
    const { SqliteStore } = await import("./sqlite/store.ts");
    return new SqliteStore(fileOfNamespace(path, namespace), { ...sqliteOptions(query), logger: options.logger });
  }
  throw invalid(
    `"${withoutSecrets(url)}" is not the url of an engine. Use "file:./app.db", "memory:", "postgres://user:password@host/database" or "temporal://host:7233/namespace".`,
  );
}

/** A store that is only read, or the path of an SQLite file, which need not exist. Nothing is created or changed. */
export async function openForReading(
  url: string = DEFAULT_URL,
  options: OpenStoreOptions = {},
): Promise<{ readonly path: string } | { readonly store: ReadStore }> {
  if (typeof url === "string" && /^postgres(ql)?:/.test(url)) {
    checkedNamespace(options.namespace);
    const { PostgresReader } = await optionalPackage<PostgresPackage>("@holdfast/postgres", "Engines on PostgreSQL");
    const store = PostgresReader.fromUrl(url, options);
    await store.open();
    return { store };
  }
  if (typeof url !== "string" || !url.startsWith("file:")) return { store: await openStore(url, options) };
  const { path, query } = fileOf(url);
  sqliteOptions(query);
  return { path: fileOfNamespace(path, checkedNamespace(options.namespace)) };
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
    throw invalid(`"${withoutSecrets(url)}" names the host "${host.slice(0, 100)}", not a file on this host. ${advice}`);
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
  return invalid(`"${withoutSecrets(url)}" is not the url of a file. Examples: "file:./app.db", "file:///data/app.db".`);
}

/** B5: it becomes part of the name of a file or schema. */
function checkedNamespace(namespace: unknown): string | undefined {
  if (namespace === undefined) return undefined;
  if (typeof namespace === "string" && /^[A-Za-z0-9_-]{1,50}$/.test(namespace)) return namespace;
  const shown = typeof namespace === "string" ? JSON.stringify(namespace.slice(0, 100)) : typeof namespace;
  throw invalid(`A namespace has 1 to 50 letters (A to Z), digits, "_" and "-", not ${shown}.`, "namespace");
}
/** B5: "app.db" → "app.<namespace>.db". */
function fileOfNamespace(path: string, namespace = "default"): string {
  if (namespace === "default") return path;
  const { dir, name, ext } = parse(path);
  return join(dir, `${name}.${namespace}${ext}`);
}

/**
 * For messages: a url may have a password in it, before its last @ (a password may have any letter), in its query, or, if it is not a url but
 * the settings of another tool ("host=… password=…"), anywhere.
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
      throw invalid(`"${shown}" is not an option of a file. Options: synchronous=FULL (default), synchronous=NORMAL.`);
    }
    options.synchronous = upper;
  }
  return options;
}
