// One call: its parameters as text and back, its checks, its handler.
// Owns: how a query is written as text.
// Invariants: both clients and the server check a request in the same way; an unknown parameter or field is refused.

import type * as z from "zod";
import { encode } from "zod";
import type { Caller, ConsoleContext } from "./context.ts";
import type { HandledRoute, Handler } from "./handlers/handler.ts";
import { HANDLERS } from "./handlers/index.ts";
import { type Issue, refusal } from "./problem.ts";
import { type CheckedRequest, type RequestOf, type ResponseOf, type RouteId, routeOf } from "./routes.ts";

/** A query before it is checked: every value is text. */
export type RawQuery = Record<string, string | string[] | Record<string, string>>;

const ATTRIBUTE = "attr.";

/** The parameters of a typed query, in order. */
export function queryText<R extends RouteId>(route: R, query: RequestOf<R>["query"]): URLSearchParams {
  const text = new URLSearchParams();
  const schema = routeOf(route).query;
  if (query === undefined || query === null || schema === undefined) return text;
  const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));
  for (const [name, value] of Object.entries(encoded(schema, given))) {
    if (name === "attr") for (const [key, one] of Object.entries(value)) text.append(`${ATTRIBUTE}${key}`, one as string);
    else for (const one of Array.isArray(value) ? value : [value]) text.append(name, one as string);
  }
  return text;
}
/** A typed query that the schema refuses is a mistake of the caller, as one that the server refuses. */
function encoded(schema: z.ZodType, query: object): RawQuery {
  try {
    return encode(schema, query) as RawQuery;
  } catch (error) {
    throw invalid("the query", (error as z.ZodError).issues ?? [{ message: String(error), path: [] }]);
  }
}
export function rawQuery(text: URLSearchParams): RawQuery {
  const query: RawQuery = {};
  const attributes: Record<string, string> = {};
  for (const [name, value] of text) {
    if (name.startsWith(ATTRIBUTE)) {
      const key = name.slice(ATTRIBUTE.length);
      if (key === "__proto__" || Object.hasOwn(attributes, key)) throw oneIssue(name, "It is given twice, or is not a name.");
      attributes[key] = value;
    } else if (name === "__proto__" || name === "attr") throw oneIssue(name, "Unknown parameter.");
    else {
      const before = Object.hasOwn(query, name) ? (query[name] as string | string[]) : undefined;
      query[name] = before === undefined ? value : [...(Array.isArray(before) ? before : [before]), value];
    }
  }
  if (Object.keys(attributes).length > 0) query["attr"] = attributes;
  return query;
}

export interface RawRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** JSON; undefined for none. */
  readonly body: unknown;
  readonly idempotencyKey: string | undefined;
  readonly signal: AbortSignal | undefined;
}
export function checkedRequest<R extends RouteId>(route: R, request: RawRequest): CheckedRequest<R> {
  const { params, query, body } = routeOf(route);
  const raw = rawQuery(request.query);
  const [unknown] = Object.keys(raw);
  if (query === undefined && unknown !== undefined) throw oneIssue(unknown, "Unknown parameter.");
  return {
    params: params === undefined ? undefined : parsed("the path", params, request.params),
    query: query === undefined ? undefined : parsed("the query", query, raw),
    body: body === undefined ? undefined : parsed("the body", body, request.body),
    idempotencyKey: request.idempotencyKey,
    signal: request.signal,
  } as CheckedRequest<R>;
}
function parsed(what: string, schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw invalid(what, result.error.issues);
}
function invalid(what: string, issues: readonly { readonly message: string; readonly path: readonly PropertyKey[] }[]): Error {
  const shown: Issue[] = issues.map(({ message, path }) => ({
    message,
    path: path.map((key) => (typeof key === "symbol" ? String(key) : key)),
  }));
  const texts = shown.map(({ message, path = [] }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`));
  return refusal("HF_INVALID_INPUT", `Invalid request: ${what} is refused. ${texts.join("; ")}`, shown);
}
function oneIssue(name: string, message: string): Error {
  return invalid("the query", [{ message, path: [name] }]);
}

/** Throws whatever the handler throws. */
export function handle<R extends HandledRoute>(
  route: R,
  request: CheckedRequest<R>,
  context: ConsoleContext,
  caller: Caller,
): Promise<ResponseOf<R>> {
  return (HANDLERS[route] as Handler<R>)(request, context, caller);
}
