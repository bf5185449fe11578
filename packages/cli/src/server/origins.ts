// Checks of Host, Origin and Sec-Fetch-Site, before anything else is looked at.
// Owns: which hosts and origins are ours.
// Invariants: a page of another site reaches nothing, also by DNS rebinding; only a link to the page itself is followed from other sites.

import { InvalidInputError } from "@holdfast/core";
import { refusal } from "../api/problem.ts";

interface Address {
  readonly name: string;
  /** Empty: the default of the scheme. */
  readonly port: string;
}

/** Undefined: it is not a host. */
function addressOf(host: string): Address | undefined {
  const [, name, port = ""] = /^(\[[0-9a-fA-F:.]+\]|[^:/@\s[\]]+)(?::(\d{1,5}))?$/.exec(host) ?? [];
  return name === undefined ? undefined : { name: name.toLowerCase(), port };
}
function isLoopback(name: string): boolean {
  return name === "localhost" || name === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(name);
}

export class Origins {
  readonly #allowed: ReadonlySet<string>;

  /** `allowed`: names without port. */
  constructor(allowed: readonly string[]) {
    for (const name of allowed) if (addressOf(name)?.port !== "") throw notAName(name);
    this.#allowed = new Set(allowed.map((name) => name.toLowerCase()));
  }
  /** Throws HF_HOST_REFUSED or HF_ORIGIN_REFUSED. `isPage`: not the API. */
  check(request: Request, isPage: boolean): void {
    const url = new URL(request.url);
    const host = addressOf(request.headers.get("host") ?? url.host);
    if (host === undefined || !(isLoopback(host.name) || this.#allowed.has(host.name)))
      throw refusal("HF_HOST_REFUSED", "The request names a host that this server does not serve.");
    const origin = request.headers.get("origin");
    if (origin !== null && !isOwn(origin, host, url.protocol)) throw foreign();
    const site = request.headers.get("sec-fetch-site");
    if (site !== "cross-site" && (isPage || site !== "same-site")) return;
    const isLink = isPage && request.method === "GET" && request.headers.get("sec-fetch-mode") === "navigate";
    if (!isLink) throw foreign();
  }
}
function notAName(name: unknown): Error {
  const message = `${JSON.stringify(name)} is not a host name without port, such as "ops.example.com".`;
  return new InvalidInputError({ what: "createConsole", issues: [{ message, path: ["allowedHosts"] }] });
}
function foreign(): Error {
  return refusal("HF_ORIGIN_REFUSED", "The request comes from a page of another site.");
}
/** Behind a proxy the scheme is not known, so it counts only on loopback. */
function isOwn(origin: string, host: Address, protocol: string): boolean {
  let url: URL;
  try {
    url = new URL(origin);
  } catch {
    return false; // "null" too
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return false;
  const standard = url.protocol === "https:" ? "443" : "80";
  const given = host.port === standard ? "" : host.port;
  if (url.hostname.toLowerCase() !== host.name || url.port !== given) return false;
  return !isLoopback(host.name) || url.protocol === protocol;
}
