// The API as an OpenAPI 3.1 document.
// Owns: nothing; it is made from the table of routes.
// Invariants: every route is in it.

import * as z from "zod";
import { ROUTE_IDS, type Route, routeOf } from "./routes.ts";

type Schema = Record<string, unknown>;

const PROBLEM: Schema = {
  type: "object",
  required: ["type", "title", "status", "detail", "code", "retryable", "advice", "issues"],
  properties: {
    type: { type: "string", description: "urn:holdfast:CODE" },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string" },
    code: { type: "string", description: "Never changes: match on it." },
    retryable: { type: "boolean", description: "Whether repeating the same request can help." },
    advice: { type: ["string", "null"] },
    issues: {
      type: "array",
      items: { type: "object", required: ["message"], properties: { message: { type: "string" }, path: { type: "array" } } },
    },
  },
};
const ID = "encodeURIComponent(id) if it matches [A-Za-z0-9._@!-]+ and is not count, . or .., otherwise ~ and the base64url of its UTF-8.";

let made: Schema | undefined;
export function openapi(): Schema {
  made ??= make();
  return made;
}
function make(): Schema {
  const paths: Record<string, Schema> = {};
  for (const id of ROUTE_IDS) {
    const route = routeOf(id);
    const path = `/api/v1/${route.path}`;
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(id, route) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Holdfast", version: "1", description: "Runs, schedules, queues and workers of a Holdfast engine." },
    paths,
    components: {
      schemas: { Problem: PROBLEM },
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
    },
    security: [{ token: [] }],
  };
}
function operation(id: string, route: Route): Schema {
  const { role, summary, query, body, status = 200, returns, isValue, hasKey, media = "application/json" } = route;
  const names = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "");
  const parameters = [
    ...names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" }, description: ID })),
    ...(query === undefined ? [] : queryParameters(query)),
    ...(hasKey === true ? [{ name: "Idempotency-Key", in: "header", schema: { type: "string" } }] : []),
  ];
  const isEmpty = returns instanceof z.ZodUndefined;
  const content = { [media]: { schema: isEmpty ? {} : schemaOf(returns, "output") } };
  const ok = { description: isValue === true ? "The value itself; an empty body is undefined." : "Success.", ...(!isEmpty && { content }) };
  const failure = {
    description: "A problem document.",
    content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
  };
  return {
    operationId: id,
    summary,
    description: `Needs the role ${role}.`,
    parameters,
    ...(body !== undefined && {
      requestBody: {
        required: !body.safeParse(undefined).success,
        content: { "application/json": { schema: schemaOf(body, "input") } },
      },
    }),
    responses: { [status]: ok, default: failure },
  };
}
function queryParameters(query: z.ZodType): Schema[] {
  const { properties = {}, required = [] } = schemaOf(query, "input") as { properties?: Record<string, Schema>; required?: string[] };
  return Object.entries(properties).map(([name, schema]) => {
    if (name !== "attr") return { name, in: "query", required: required.includes(name), schema };
    return { name: "attr.{name}", in: "query", required: false, schema: { type: "string" }, description: "One for each attribute." };
  });
}
function schemaOf(schema: z.ZodType, io: "input" | "output"): Schema {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io, unrepresentable: "any", reused: "inline" });
  return inlined(json, json) as Schema;
}
/** References within one schema point to its root, which is not the root of the document. Recursive ones are left open. */
function inlined(node: unknown, root: Schema, within: readonly string[] = []): unknown {
  if (Array.isArray(node)) return node.map((item) => inlined(item, root, within));
  if (typeof node !== "object" || node === null) return node;
  const { $ref } = node as { readonly $ref?: unknown };
  if (typeof $ref === "string") return within.includes($ref) ? {} : inlined(target(root, $ref), root, [...within, $ref]);
  const entries = Object.entries(node).filter(([key]) => key !== "$defs" && key !== "id");
  return Object.fromEntries(entries.map(([key, value]) => [key, inlined(value, root, within)]));
}
function target(root: Schema, ref: string): unknown {
  let at: unknown = root;
  for (const key of ref.replace(/^#\/?/, "").split("/").filter(Boolean)) at = (at as Schema)[key];
  return at;
}
