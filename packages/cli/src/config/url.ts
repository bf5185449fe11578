// The urls that commands accept.
// Owns: their schemes, where a relative file counts from, and how a url is shown.
// Invariants: no password is ever part of what `printableUrl` returns.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { UsageError } from "./errors.ts";

export const DEFAULT_URL = "file:.holdfast/holdfast.db";

const SCHEMES = ["file", "memory", "postgres", "postgresql", "temporal", "temporals", "http", "https"];

/** The same url with an absolute path, if it is one of a relative file. `source` is named in errors: "--url". */
export function absoluteUrl(given: string, base: string, source: string): string {
  const [, scheme = ""] = /^([a-z][a-z\d+.-]*):/i.exec(given) ?? [];
  const known = scheme.toLowerCase();
  if (!SCHEMES.includes(known)) {
    const what = scheme === "" ? "has no scheme" : `has the unknown scheme "${scheme.slice(0, 40)}:"`;
    throw new UsageError(
      `The url of ${source} ${what}. Use "file:./app.db", "postgres://user@host/database", "temporal://host:7233/namespace" or the address of a dashboard, "https://…".`,
    );
  }
  const url = `${known}${given.slice(known.length)}`;
  if (isConsole(url) && !URL.canParse(url))
    throw new UsageError(`The url of ${source} is not an address. Example: "https://ops.example.com/".`);
  if (known !== "file" || url.startsWith("file://")) return url;
  const mark = url.indexOf("?");
  const path = url.slice("file:".length, mark < 0 ? undefined : mark);
  if (path === "") throw new UsageError(`The url of ${source} names no file. Example: "file:./app.db".`);
  const full = resolve(base, path);
  // A question mark in the name of a folder would begin the options: only the long form can escape it.
  return `${full.includes("?") ? pathToFileURL(full).href : `file:${full}`}${mark < 0 ? "" : url.slice(mark)}`;
}

/** The address of a console, and not the url of a store. */
export function isConsole(url: string): boolean {
  return /^https?:/i.test(url);
}

/** For people and logs. A password may have any letter, so it ends at the last "@"; options may hold one too. */
export function printableUrl(url: string): string {
  const [, scheme = "", rest = ""] = /^([a-z][a-z\d+.-]*:)(.*)$/is.exec(url) ?? [];
  if (scheme === "") return "…";
  const isFile = scheme.toLowerCase() === "file:";
  const shown = isFile ? rest : rest.replace(/^(\/\/)?([^:@/?#]*)(?::.*)?@/s, "$1$2@").replace(/#.*$/s, "");
  const mark = shown.indexOf("?");
  if (mark < 0) return `${scheme}${shown}`;
  const options = shown.slice(mark + 1).split("&");
  return `${scheme}${shown.slice(0, mark)}?${options.map((option) => (isFile || HARMLESS.test(option) ? option : option.replace(/=.*$/s, "=…"))).join("&")}`;
}
/** Options whose values are worth showing. */
const HARMLESS = /^(sslmode|application_name|schema|queue|connect_timeout)=/i;
