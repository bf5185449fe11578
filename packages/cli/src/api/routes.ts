// The table of routes: the router, the checks of requests, the clients, the OpenAPI document and the docs are made from it.
// Owns: method, path, role, parameters and replies of every route.
// Invariants: names and shapes are fixed; a route that changes something never has the role "read", except queries.

import * as z from "zod";
import * as asks from "./requests.ts";
import * as shows from "./schemas.ts";

/** What a caller may do; each role includes the ones before it: "read", "operate", "admin". */
export type Role = z.infer<typeof shows.role>;

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Below `/api/v1/`. `{name}` is a parameter: one segment of the path. */
  readonly path: string;
  readonly role: Role;
  readonly summary: string;
  readonly query?: z.ZodType;
  /** Absent: the route takes no body. */
  readonly body?: z.ZodType;
  /** The status of success. Default 200. */
  readonly status?: number;
  readonly returns: z.ZodType;
  /** The body and the reply are user values, not objects of the API. */
  readonly isValue?: true;
  /** It takes the header `Idempotency-Key`. */
  readonly hasKey?: true;
  /** Of the reply. Default "application/json". */
  readonly media?: string;
}

const id = z.strictObject({ id: z.string() });
const oneQueue = z.strictObject({ name: z.string() });
const named = z.strictObject({ id: z.string(), name: z.string() });
const located = z.strictObject({ id: z.string(), location: z.string() });
const nothing = z.undefined();

/** The routes of the HTTP API: method, path, role, and the schemas of request and reply. `docs/http.md` is generated from it. */
export const ROUTES = {
  "runs.list": {
    method: "GET",
    path: "runs",
    role: "read",
    summary: "Runs, newest first. `input` and `output` are null without `values=true`.",
    query: asks.runQuery,
    returns: shows.runPage,
  },
  "runs.count": {
    method: "GET",
    path: "runs/count",
    role: "read",
    summary: "The number of runs by status, up to 10,000 each.",
    query: asks.runSelection,
    returns: z.object({ counts: z.partialRecord(shows.runStatus, shows.runCount) }),
  },
  "runs.start": {
    method: "POST",
    path: "runs",
    role: "operate",
    summary: "Starts a run.",
    query: asks.taggedQuery,
    body: asks.startBody,
    status: 201,
    hasKey: true,
    returns: shows.started,
  },
  "runs.get": {
    method: "GET",
    path: "runs/{id}",
    role: "read",
    summary: "One run.",
    params: id,
    query: asks.fullQuery,
    returns: shows.runInfo,
  },
  "runs.timeline": {
    method: "GET",
    path: "runs/{id}/timeline",
    role: "read",
    summary: "The course of an execution, without values. With `after`, what has changed since that turn, and what is open.",
    params: id,
    query: asks.timelineQuery,
    returns: shows.timeline,
  },
  "runs.history": {
    method: "GET",
    path: "runs/{id}/history",
    role: "read",
    summary: "The portable history of an execution. `holdfast replay` takes it if it has all values (`full=true`).",
    params: id,
    query: asks.historyQuery,
    returns: shows.history,
  },
  "runs.operations": {
    method: "GET",
    path: "runs/{id}/operations",
    role: "read",
    summary: "Every operation with its attempts, in order of emission.",
    params: id,
    query: asks.executionQuery,
    returns: z.object({ operations: z.array(shows.operationInfo) }),
  },
  "runs.operation": {
    method: "GET",
    path: "runs/{id}/operations/{location}",
    role: "read",
    summary: "One operation, with its values whatever their size.",
    params: located,
    query: asks.executionQuery,
    returns: shows.operationInfo,
  },
  "runs.source": {
    method: "GET",
    path: "runs/{id}/source",
    role: "read",
    summary:
      "The line of the code that asks for the operation at `location`; without it, the line at which code and history diverge. `source` is null where it is not known. Needs the code: 409 HF_NO_CODE without it.",
    params: id,
    query: asks.sourceQuery,
    returns: z.object({ source: shows.sourcePlace.nullable() }),
  },
  "runs.why": {
    method: "GET",
    path: "runs/{id}/why",
    role: "read",
    summary: "Why the run does not advance, the nearest reason first.",
    params: id,
    returns: z.object({ status: shows.runStatus, reasons: z.array(shows.reason) }),
  },
  "runs.inbox": {
    method: "GET",
    path: "runs/{id}/inbox",
    role: "read",
    summary: "The messages that no turn has consumed, in order of arrival.",
    params: id,
    returns: z.object({ messages: z.array(shows.inboxMessage) }),
  },
  "runs.state": {
    method: "GET",
    path: "runs/{id}/state",
    role: "read",
    summary: "The published state. An empty reply: there is none.",
    params: id,
    isValue: true,
    returns: shows.value,
  },
  "runs.children": {
    method: "GET",
    path: "runs/{id}/children",
    role: "read",
    summary: "The runs that it has started, newest first.",
    params: id,
    query: asks.childrenQuery,
    returns: shows.runPage,
  },
  "runs.executions": {
    method: "GET",
    path: "runs/{id}/executions",
    role: "read",
    summary: "The executions of its chain, the first one first.",
    params: id,
    returns: z.object({ executions: z.array(shows.execution) }),
  },
  "runs.result": {
    method: "GET",
    path: "runs/{id}/result",
    role: "read",
    summary: "How the run ended, or that it is blocked. Waits for at most `wait`; 504 if it is still open then.",
    params: id,
    query: asks.resultQuery,
    returns: shows.result,
  },
  "runs.query": {
    method: "POST",
    path: "runs/{id}/queries/{name}",
    role: "read",
    summary: "Answers a query. Needs the code: 409 HF_NO_CODE without it.",
    params: named,
    query: asks.taggedQuery,
    body: shows.value,
    isValue: true,
    returns: shows.value,
  },
  "runs.signal": {
    method: "POST",
    path: "runs/{id}/signals/{name}",
    role: "operate",
    summary: "Sends a signal.",
    params: named,
    query: asks.taggedQuery,
    body: shows.value,
    isValue: true,
    status: 202,
    hasKey: true,
    returns: nothing,
  },
  "runs.update": {
    method: "POST",
    path: "runs/{id}/updates/{name}",
    role: "operate",
    summary: "Sends an update and replies with its result. Waits for at most `wait` (default: as long as the client).",
    params: named,
    query: asks.updateQuery,
    body: shows.value,
    isValue: true,
    hasKey: true,
    returns: shows.value,
  },
  "runs.cancel": {
    method: "POST",
    path: "runs/{id}/cancel",
    role: "operate",
    summary: "Requests cancellation.",
    params: id,
    body: asks.reasonBody,
    returns: shows.acted,
  },
  "runs.resume": {
    method: "POST",
    path: "runs/{id}/resume",
    role: "operate",
    summary: "Continues a failed or blocked run from where it stopped, or wakes an open one that waits.",
    params: id,
    returns: shows.acted,
  },
  "runs.terminate": {
    method: "POST",
    path: "runs/{id}/terminate",
    role: "admin",
    summary: "Ends the run at once, without running workflow code.",
    params: id,
    body: asks.reasonBody,
    returns: shows.acted,
  },
  "runs.fork": {
    method: "POST",
    path: "runs/{id}/fork",
    role: "admin",
    summary: "Starts a run that shares the history of this one up to an operation.",
    params: id,
    body: asks.forkBody,
    status: 201,
    returns: shows.started,
  },
  "runs.delete": {
    method: "DELETE",
    path: "runs/{id}",
    role: "admin",
    summary: "Removes a closed run with its history.",
    params: id,
    returns: shows.acted,
  },
  "bulk.preview": {
    method: "POST",
    path: "bulk/preview",
    role: "admin",
    summary: "What a bulk action would act on, and the token that starts it. The token serves once, within 10 minutes.",
    query: asks.taggedQuery,
    body: asks.previewBody,
    returns: shows.bulkPreview,
  },
  "bulk.start": {
    method: "POST",
    path: "bulk",
    role: "admin",
    summary: "Starts the bulk action of a preview: 202 with the id of its run. For `ids` it acts at once: 200 with the result.",
    body: asks.bulkBody,
    status: 202,
    returns: z.union([shows.acted, shows.bulkResult]),
  },
  "bulk.get": {
    method: "GET",
    path: "bulk/{id}",
    role: "admin",
    summary: "The progress of a bulk action.",
    params: id,
    returns: shows.bulkResult.extend({ status: shows.runStatus }),
  },
  "workflows.list": {
    method: "GET",
    path: "workflows",
    role: "read",
    summary: "The workflows that workers have registered, and what their messages look like.",
    returns: z.object({ workflows: z.array(shows.workflowInfo) }),
  },
  "queues.list": {
    method: "GET",
    path: "queues",
    role: "read",
    summary: "Queues that have limits, a pause or open work, and `default`.",
    returns: z.object({ queues: z.array(shows.queueInfo) }),
  },
  "queues.get": {
    method: "GET",
    path: "queues/{name}",
    role: "read",
    summary: "One queue. A queue that does not exist has no limits and no work.",
    params: oneQueue,
    returns: shows.queueInfo,
  },
  "queues.set": {
    method: "PUT",
    path: "queues/{name}",
    role: "admin",
    summary: "Creates or replaces the limits of a queue.",
    params: oneQueue,
    body: asks.queueBody,
    returns: shows.queueInfo,
  },
  "queues.delete": {
    method: "DELETE",
    path: "queues/{name}",
    role: "admin",
    summary: "Removes the limits of a queue. The work in it stays, and so does a pause.",
    params: oneQueue,
    returns: z.object({ name: z.string() }),
  },
  "queues.pause": {
    method: "POST",
    path: "queues/{name}/pause",
    role: "admin",
    summary: "Nothing of the queue, or of one key, is claimed until it is resumed or the time is over.",
    params: oneQueue,
    body: asks.pauseBody,
    returns: shows.queueInfo,
  },
  "queues.resume": {
    method: "POST",
    path: "queues/{name}/resume",
    role: "admin",
    summary: "Ends a pause.",
    params: oneQueue,
    body: asks.resumeBody,
    returns: shows.queueInfo,
  },
  "workers.list": {
    method: "GET",
    path: "workers",
    role: "read",
    summary: "The workers of all processes that are alive.",
    returns: z.object({ workers: z.array(shows.workerInfo) }),
  },
  "schedules.list": {
    method: "GET",
    path: "schedules",
    role: "read",
    summary: "Schedules, by id. `cursor` is the `after` of the next page.",
    query: asks.scheduleQuery,
    returns: z.object({ schedules: z.array(shows.scheduleInfo), cursor: z.string().nullable() }),
  },
  "schedules.get": {
    method: "GET",
    path: "schedules/{id}",
    role: "read",
    summary: "One schedule, with its next five runs.",
    params: id,
    returns: shows.scheduleInfo,
  },
  "schedules.set": {
    method: "PUT",
    path: "schedules/{id}",
    role: "operate",
    summary: "Creates or replaces a schedule.",
    params: id,
    query: asks.taggedQuery,
    body: asks.scheduleBody,
    returns: shows.scheduleInfo,
  },
  "schedules.delete": {
    method: "DELETE",
    path: "schedules/{id}",
    role: "operate",
    summary: "Removes a schedule. Its runs stay.",
    params: id,
    returns: shows.acted,
  },
  "schedules.pause": {
    method: "POST",
    path: "schedules/{id}/pause",
    role: "operate",
    summary: "Starts no runs until it is resumed.",
    params: id,
    returns: shows.scheduleInfo,
  },
  "schedules.resume": {
    method: "POST",
    path: "schedules/{id}/resume",
    role: "operate",
    summary: "Ends a pause.",
    params: id,
    returns: shows.scheduleInfo,
  },
  "schedules.trigger": {
    method: "POST",
    path: "schedules/{id}/trigger",
    role: "operate",
    summary: "Starts a run of the schedule now.",
    params: id,
    returns: shows.acted,
  },
  "schedules.backfill": {
    method: "POST",
    path: "schedules/{id}/backfill",
    role: "operate",
    summary: "Starts the ticks of a span that have no run.",
    params: id,
    body: asks.backfillBody,
    returns: z.object({ ids: z.array(z.string()) }),
  },
  health: {
    method: "GET",
    path: "health",
    role: "read",
    summary: "The store and its schema, blocked runs, and what the caller may do.",
    returns: shows.health,
  },
  metrics: {
    method: "GET",
    path: "metrics",
    role: "read",
    summary: "Metrics in the text format of Prometheus.",
    media: "text/plain; version=0.0.4; charset=utf-8",
    returns: z.string(),
  },
  openapi: {
    method: "GET",
    path: "openapi.json",
    role: "read",
    summary: "This API as an OpenAPI 3.1 document.",
    returns: z.record(z.string(), z.unknown()),
  },
  events: {
    method: "GET",
    path: "events",
    role: "read",
    summary: "Server-sent events of the topics `runs`, `run:ID`, `counts` and `workers`, separated by commas.",
    query: asks.eventsQuery,
    media: "text/event-stream",
    returns: z.string(),
  },
} as const satisfies Record<string, Route & { readonly params?: z.ZodType }>;

/** The id of a route, such as "runs.list". */
export type RouteId = keyof typeof ROUTES;
/** The ids of all routes, such as "runs.list". */
export const ROUTE_IDS = Object.keys(ROUTES) as readonly RouteId[];

type Table = typeof ROUTES;
type Given<R extends RouteId, K extends string> = Table[R] extends { readonly [P in K]: infer S extends z.ZodType } ? S : undefined;
type Inputs<S> = S extends z.ZodType ? z.input<S> : undefined;
type Outputs<S> = S extends z.ZodType ? z.output<S> : undefined;

/** What a client passes. `query` is typed; a client writes it as text. `body` is JSON. */
export interface RequestOf<R extends RouteId> {
  /** The parameters in the path: `id`, `name`, `location`. */
  readonly params?: Outputs<Given<R, "params">>;
  /** The parameters behind the "?". */
  readonly query?: Outputs<Given<R, "query">>;
  /** The body. */
  readonly body?: Inputs<Given<R, "body">>;
  /** A repeated call with the same key has an effect once. */
  readonly idempotencyKey?: string | undefined;
}
/** What a handler gets: checked. */
export interface CheckedRequest<R extends RouteId> {
  readonly params: Outputs<Given<R, "params">>;
  readonly query: Outputs<Given<R, "query">>;
  readonly body: Outputs<Given<R, "body">>;
  readonly idempotencyKey: string | undefined;
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal | undefined;
}
/** What a route answers. */
export type ResponseOf<R extends RouteId> = z.output<Table[R]["returns"]>;

export function routeOf(route: RouteId): Route & { readonly params?: z.ZodType } {
  return ROUTES[route];
}
/** The least role comes first. */
const ORDER: readonly Role[] = ["read", "operate", "admin"];
/** Whether a caller with one role may do what needs another. */
export function roleAllows(has: Role, needs: Role): boolean {
  return ORDER.indexOf(has) >= ORDER.indexOf(needs);
}
