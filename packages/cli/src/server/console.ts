// The console as one function from a Request to a Response.
// Owns: the order of checks: Host, Origin, token, role, read-only, size of the body, validation. Then the handler.
// Invariants: closed by default; the page needs no token and has no data; an error is a problem document, and an error that no one expects
// says nothing of its cause to a caller.

import { InvalidInputError, type Logger } from "@holdfast/core";
import { BulkTokens } from "../api/bulkTokens.ts";
import { checkedRequest, handle } from "../api/call.ts";
import type { CodeHost, ConsoleContext } from "../api/context.ts";
import { EventHub } from "../api/events.ts";
import { printable } from "../api/printable.ts";
import { type ConsoleError, consoleError, refusal } from "../api/problem.ts";
import { type RouteId, roleAllows, routeOf } from "../api/routes.ts";
import { Assets } from "./assets.ts";
import { readBody } from "./body.ts";
import { type Authorize, Callers, type ConsoleToken, checkedTokens, type Identity } from "./callers.ts";
import { Origins } from "./origins.ts";
import { json, problem, stream, text } from "./replies.ts";
import { match } from "./router.ts";
import { type StreamLimits, Streams } from "./streams.ts";

/** Options of `createConsole`. */
export interface ConsoleOptions {
  /**
   * Where the console is mounted: "/admin/".
   * @defaultValue `"/"`
   */
  readonly basePath?: string | undefined;
  /**
   * Says who calls, if your application knows it.
   * @defaultValue only tokens are known
   */
  readonly authorize?: Authorize | undefined;
  /**
   * The tokens that may call the API.
   * @defaultValue none
   */
  readonly tokens?: readonly ConsoleToken[] | undefined;
  /**
   * Names, without port, by which the server is called besides loopback.
   * @defaultValue none
   */
  readonly allowedHosts?: readonly string[] | undefined;
  /**
   * Nothing can be changed, whatever the role.
   * @defaultValue `false`
   */
  readonly readOnly?: boolean | undefined;
  /**
   * The user's code, for queries and forms.
   * @defaultValue none
   */
  readonly code?: CodeHost | undefined;
  /**
   * For unexpected errors.
   * @defaultValue the console of the process
   */
  readonly logger?: Pick<Logger, "error"> | undefined;
}
/** What tests replace. */
export interface ConsoleInternals {
  /** The folder of the page. */
  readonly assets?: string;
  /** Limits of event streams. */
  readonly streams?: StreamLimits;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}
/** The console as a fetch handler, made by `createConsole`. */
export interface Console {
  /** Answers one request. It never rejects: an error is a problem document. */
  fetch(request: Request): Promise<Response>;
  /** Ends all streams. The engine stays open. */
  close(): Promise<void>;
}
/** Where the console reads and writes. */
export interface Source extends Pick<ConsoleContext, "engine" | "inspection"> {
  /** Called when the console is closed. */
  close(): Promise<void>;
}

const API = "api/v1/";

/** A console over anything that can be read. */
export function consoleOver(source: Source, options: ConsoleOptions = {}, internals: ConsoleInternals = {}): Console {
  const { authorize, tokens = [], allowedHosts = [], readOnly = false, code, logger = console } = options;
  const base = checkedBase(options.basePath);
  const now = internals.now ?? Date.now;
  const context: ConsoleContext = {
    engine: () => source.engine(),
    inspection: () => source.inspection(),
    code,
    bulkTokens: new BulkTokens(now),
    readOnly,
    now,
  };
  const callers = new Callers(checkedTokens(tokens), authorize);
  const origins = new Origins(allowedHosts);
  const assets = new Assets(base, internals.assets);
  const hub = new EventHub(context);
  const streams = new Streams(hub, internals.streams);

  /** `path`: below the base. Throws. */
  async function answer(request: Request, path: string, query: URLSearchParams): Promise<Response> {
    const isPage = !`${path}/`.startsWith(API);
    origins.check(request, isPage);
    if (isPage) return assets.serve(request.method, path);
    const identity = await callers.identify(request);
    const { caller } = identity;
    return api(request, path.slice(API.length), query, identity).catch((error: unknown) => {
      throw consoleError(error, !caller.values);
    });
  }
  async function api(request: Request, path: string, query: URLSearchParams, { caller, key }: Identity): Promise<Response> {
    const matched = match(request.method, path);
    if (!matched.found) throw notFound(matched.methods);
    const { route, params } = matched;
    const { role, body, media, status = 200 } = routeOf(route);
    if (!roleAllows(caller.role, role)) throw refusal("HF_FORBIDDEN", `This needs the role ${role}, and the token has ${caller.role}.`);
    if (readOnly && role !== "read") throw refusal("HF_FORBIDDEN", "This server is read-only.");
    const idempotencyKey = request.headers.get("idempotency-key") ?? undefined;
    const raw = { params, query, body: body === undefined ? undefined : await readBody(request), idempotencyKey, signal: request.signal };
    if (route === "events") return stream(await streams.open(key, checkedRequest(route, raw).query.topics, request));
    const seen = request.headers.get("last-event-id");
    const shared = seen === null ? undefined : hub.sharedSince(seen);
    const reply = await handle(route, checkedRequest(route, raw), { ...context, shared }, caller);
    if (media !== undefined) return text(String(reply), media);
    return json(reply, statusOf(route, status, reply));
  }
  function failed(error: unknown, request: Request, path: string): Response {
    const shown = consoleError(error, true);
    // The path has no token in it, unlike the URL and the headers.
    if (shown.status === 500)
      logger.error(
        `The console failed: ${request.method} ${printable(path)}: ${printable(String((shown.cause as Error | undefined)?.stack ?? shown.cause ?? shown))}`,
      );
    return problem(shown, headersOf(shown, path));
  }

  return {
    async fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      const path = below(base, pathname);
      try {
        return await answer(request, path, searchParams);
      } catch (error) {
        // The client went away: no one reads the answer.
        if (request.signal.aborted) return new Response(null, { status: 499 });
        return failed(error, request, path);
      }
    },
    async close() {
      streams.close();
      hub.close();
      await source.close();
    },
  };
}

/** With a slash at both ends. */
function checkedBase(given = "/"): string {
  const base = `/${given}/`.replace(/\/{2,}/g, "/");
  if (typeof given === "string" && !/[?#\\\s]/.test(given)) return base;
  throw new InvalidInputError({ what: "createConsole", issues: [{ message: "It must be a path.", path: ["basePath"] }] });
}
/** Frameworks that mount by a prefix strip it, others don't. */
function below(base: string, pathname: string): string {
  if (pathname.startsWith(base)) return pathname.slice(base.length);
  return `${pathname}/` === base ? "" : pathname.slice(1);
}
function notFound(methods: readonly string[]): ConsoleError {
  if (methods.length === 0) return refusal("HF_NOT_FOUND", "There is no such route.");
  return refusal("HF_METHOD_NOT_ALLOWED", `This path has ${methods.join(", ")}.`);
}
/** A bulk action on runs that were named has ended when it is answered. */
function statusOf(route: RouteId, status: number, reply: unknown): number {
  const isDone = route === "bulk.start" && typeof reply === "object" && reply !== null && "matched" in reply;
  return isDone ? 200 : status;
}
function headersOf({ status }: ConsoleError, path: string): Readonly<Record<string, string>> {
  switch (status) {
    case 401:
      return { "www-authenticate": 'Bearer realm="holdfast"' };
    case 405: {
      const matched = match("", path.slice(API.length));
      return matched.found ? {} : { allow: matched.methods.join(", ") };
    }
    case 429:
      return { "retry-after": "5" };
    default:
      return {};
  }
}
