// The fetch handler behind `node:http`.
// Owns: nothing; @hono/node-server translates requests and responses.
// Invariants: the globals Request and Response stay those of Node.

import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";

/** A request handler of Node's `http` servers, and of frameworks that accept one, such as Express. */
export type NodeHandler = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>;

/** For `node:http` and Express: `app.use("/admin", toNode(console.fetch))`. Mount it before middleware that reads bodies. */
export function toNode(fetch: (request: Request) => Promise<Response>): NodeHandler {
  return getRequestListener((request) => fetch(request), { overrideGlobalObjects: false }) as NodeHandler;
}
