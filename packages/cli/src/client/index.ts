// `@holdfast/cli/client`: the client of the console, on a store or over HTTP, and the types of its calls.
// Owns: nothing; it re-exports.
// Invariants: the table of routes is the one that the server uses.

import { isConsole } from "../config/url.ts";
import type { Client } from "./client.ts";
import { type HttpOptions, openHttp } from "./http.ts";
import { type LocalOptions, openLocal } from "./local.ts";

export { idOf, pathSegment } from "../api/ids.ts";
export { ConsoleError, consoleErrors, type Issue, type Problem } from "../api/problem.ts";
export { type RequestOf, type ResponseOf, ROUTE_IDS, ROUTES, type Role, type RouteId, roleAllows } from "../api/routes.ts";
export type { CallOptions, Client, ClientEvent, EventOptions } from "./client.ts";
export { type HttpOptions, openHttp } from "./http.ts";
export { clientOf, type LocalOptions, openLocal } from "./local.ts";

/**
 * A client for any url: "https://…" is a server, everything else a store.
 * @throws `ConsoleError` if the address is invalid or the store can't be opened.
 * @example
 * ```ts
 * import { openClient } from "@holdfast/cli/client";
 *
 * const client = await openClient("file:./app.db");
 * console.log((await client.call("runs.list")).runs); // []
 * await client.close();
 * ```
 */
export async function openClient(url: string | undefined, options: LocalOptions & HttpOptions = {}): Promise<Client> {
  return url !== undefined && isConsole(url) ? openHttp(url, options) : openLocal(url, options);
}
