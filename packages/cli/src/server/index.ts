// `@holdfast/cli/server`: the console as a fetch handler, to be mounted into any server.
// Owns: building it over an engine.
// Invariants: the engine is the caller's, and stays open.

import type { Holdfast } from "holdfast";
import { type Inspection, inspect } from "holdfast/inspect";
import { type Console, type ConsoleInternals, type ConsoleOptions, consoleOver } from "./console.ts";

export type { Caller, CodeHost, CodeWorkflow, RunForCode, RunForQuery } from "../api/context.ts";
export { type Authorize, type ConsoleToken, checkedTokens, hashToken, newToken } from "./callers.ts";
export { type Console, type ConsoleInternals, type ConsoleOptions, consoleOver, type Source } from "./console.ts";
export { type Listening, type ListenOptions, listen } from "./listen.ts";
export { type NodeHandler, toNode } from "./node.ts";

/**
 * The API under `api/v1/` and the page, below `basePath`. Without `tokens` and `authorize` every call of the API is refused. The engine
 * stays yours: closing the console leaves it open.
 * @throws `InvalidInputError` if an option is invalid.
 * @example
 * ```ts
 * import { createConsole, hashToken, newToken } from "@holdfast/cli/server";
 *
 * const engine = await Holdfast.open("memory:");
 * const token = newToken();
 * const admin = createConsole(engine, { tokens: [{ name: "ops", role: "read", hash: hashToken(token) }] });
 * const request = new Request("http://localhost/api/v1/runs", { headers: { authorization: `Bearer ${token}` } });
 * console.log((await admin.fetch(request)).status); // 200
 * await admin.close();
 * await engine.close();
 * ```
 */
export function createConsole(engine: Holdfast, options: ConsoleOptions = {}, internals: ConsoleInternals = {}): Console {
  let inspection: Inspection | undefined;
  const source = {
    engine: async () => engine,
    inspection: async () => {
      inspection ??= inspect(engine);
      return inspection;
    },
    close: async () => inspection?.close(),
  };
  return consoleOver(source, options, internals);
}
