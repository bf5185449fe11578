// Finds the route of a path.
// Owns: how paths are split and matched.
// Invariants: the raw path is split before its segments are decoded; a literal segment goes before a parameter.

import { idOf } from "../api/ids.ts";
import { ROUTE_IDS, type RouteId, routeOf } from "../api/routes.ts";

export type Match =
  | { readonly found: true; readonly route: RouteId; readonly params: Readonly<Record<string, string>> }
  /** `methods`: those that the path has. Empty: there is no such path. */
  | { readonly found: false; readonly methods: readonly string[] };

const TABLE = ROUTE_IDS.map((route) => {
  const { method, path } = routeOf(route);
  return { route, method, segments: path.split("/") };
});

/** `path`: below `api/v1/`, as it came. */
export function match(method: string, path: string): Match {
  const raw = path.split("/");
  const candidates = TABLE.filter(({ segments }) => segments.length === raw.length && segments.every((one, i) => fits(one, raw[i] ?? "")));
  const literal = (segments: readonly string[]) => segments.filter((one) => !isParameter(one)).length;
  const most = Math.max(0, ...candidates.map(({ segments }) => literal(segments)));
  const nearest = candidates.filter(({ segments }) => literal(segments) === most);
  const found = nearest.find((one) => one.method === method);
  if (found === undefined) return { found: false, methods: nearest.map((one) => one.method) };
  const params: Record<string, string> = {};
  for (const [i, segment] of found.segments.entries()) {
    if (!isParameter(segment)) continue;
    const id = idOf(raw[i] ?? "");
    if (id === undefined || id === "") return { found: false, methods: [] };
    params[segment.slice(1, -1)] = id;
  }
  return { found: true, route: found.route, params };
}
function isParameter(segment: string): boolean {
  return segment.startsWith("{");
}
function fits(segment: string, raw: string): boolean {
  return isParameter(segment) ? raw !== "" : segment === raw;
}
