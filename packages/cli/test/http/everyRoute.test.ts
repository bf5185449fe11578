// Every route, on every store, over HTTP and in the process: replies have the shapes of the table, and both clients give the same ones.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { HandledRoute } from "../../src/api/handlers/handler.ts";
import { type RequestOf, type ResponseOf, ROUTE_IDS, type RouteId, routeOf } from "../../src/api/routes.ts";
import type { Client } from "../../src/client/client.ts";
import { ConsoleError, clientOf, openHttp } from "../../src/client/index.ts";
import { STORES, TOKENS, worldOn } from "./world.ts";

/** What was asked, and what came. */
interface Exchange {
  readonly route: RouteId;
  readonly reply: unknown;
}

/** Calls every route. Ids begin with `prefix`. */
async function tour(client: Client, prefix: string): Promise<Exchange[]> {
  const seen: Exchange[] = [];
  const id = (name: string): string => `${prefix}${name}`;
  async function call<R extends HandledRoute>(route: R, request?: RequestOf<R>): Promise<ResponseOf<R>> {
    const reply = await client.call(route, request);
    const checked = routeOf(route).returns.safeParse(reply);
    expect(checked.error, `${route}: ${JSON.stringify(reply)}`).toBeUndefined();
    seen.push({ route, reply });
    return reply;
  }
  async function refused<R extends HandledRoute>(route: R, request?: RequestOf<R>): Promise<ConsoleError> {
    const error = await client.call(route, request).then(
      () => expect.fail(`${route} was not refused`),
      (failure: unknown) => failure as ConsoleError,
    );
    expect(error).toBeInstanceOf(ConsoleError);
    const { status, exitCode } = error;
    seen.push({ route, reply: { ...error.toProblem(), status, exitCode } });
    return error;
  }
  const of = (name: string) => ({ params: { id: id(name) } });
  const until = (name: string, status: string) =>
    expect.poll(async () => (await client.call("runs.get", of(name))).status, { interval: 10 }).toBe(status);

  // Starting.
  const started = await call("runs.start", {
    body: {
      workflow: "order",
      version: "2",
      input: { n: 3, note: "a/b" },
      id: id("order/1#x"),
      key: "k",
      priority: 2,
      attributes: { tenant: 42, area: prefix, plan: "42" },
    },
    idempotencyKey: id("start"),
  });
  expect(started).toEqual({ id: id("order/1#x"), execution: 1 });
  const again = { workflow: "order", version: "2", input: { n: 3 } };
  expect(await call("runs.start", { body: again, idempotencyKey: id("start") })).toEqual(started);
  for (const workflow of ["waiting", "failing", "retrying", "blocked", "parent"]) {
    // Lists are in the order of their milliseconds, and of ids within one: each run has its own.
    await new Promise((resolve) => setTimeout(resolve, 2));
    await call("runs.start", { body: { workflow, id: id(workflow), attributes: { area: prefix }, input: { is: "small" } } });
  }
  await call("runs.start", {
    query: { tagged: true },
    body: { workflow: "echo", id: id("echo"), input: { $date: "2020-01-01T00:00:00.000Z" } },
  });
  await refused("runs.start", { body: { workflow: "waiting", id: id("waiting") } });
  await until("failing", "failed");
  await until("retrying", "sleeping");
  await until("blocked", "blocked");
  await until("waiting", "sleeping");
  await until("parent", "sleeping");
  await until("order/1#x", "sleeping");

  // Reading.
  const order = of("order/1#x");
  await call("runs.get", order);
  await call("runs.get", { ...order, query: { full: true } });
  await refused("runs.get", of("nothing"));
  await call("runs.timeline", order);
  await call("runs.timeline", { ...order, query: { execution: 1, after: 0 } });
  await refused("runs.timeline", { ...order, query: { execution: 7 } });
  await refused("runs.operations", { ...order, query: { execution: 7 } });
  const history = await call("runs.history", { ...order, query: { full: true } });
  expect(history.format).toBe("holdfast-history/1");
  await call("runs.history", order);
  const { operations } = await call("runs.operations", order);
  const location = operations.find(({ name }) => name === "charge")?.location ?? "";
  expect(location).toBe("charge");
  await call("runs.operation", { params: { id: id("order/1#x"), location } });
  await refused("runs.operation", { params: { id: id("order/1#x"), location: "no/where#1" } });
  await refused("runs.source", { ...order, query: { location } });
  await call("runs.why", order);
  await call("runs.inbox", order);
  expect(await call("runs.state", order)).toMatchObject({ total: 3 });
  expect(await call("runs.state", of("waiting"))).toBeUndefined();
  const children = await call("runs.children", { ...of("parent"), query: { values: true } });
  expect(children.runs.map(({ parentId }) => parentId)).toEqual([id("parent")]);
  await call("runs.executions", order);
  const blocked = await call("runs.result", of("blocked"));
  expect(blocked.status).toBe("blocked");
  const failed = await call("runs.result", { ...of("failing"), query: { wait: 5_000 } });
  expect(failed).toMatchObject({ status: "failed", output: null, error: { name: "StepFailedError" } });
  const open = await refused("runs.result", { ...of("waiting"), query: { wait: 20 } });
  expect([open.status, open.exitCode]).toEqual([504, 7]);
  const echoed = await call("runs.result", { ...of("echo"), query: { wait: 30_000 } });
  expect(echoed.output).toEqual({ $date: "2020-01-01T00:00:00.000Z" });

  // Lists.
  const page = await call("runs.list", { query: { attr: { area: prefix }, limit: 2, values: true } });
  expect(page.runs).toHaveLength(2);
  await call("runs.list", { query: { attr: { area: prefix }, limit: 2, cursor: page.cursor ?? "" } });
  const byAll = {
    workflow: ["order", "waiting"],
    version: "2",
    attr: { tenant: 42, plan: "42" },
    idPrefix: prefix,
    key: "k",
    queue: "default",
  };
  const one = await call("runs.list", { query: { ...byAll, status: ["sleeping", "running"], since: new Date(0) } });
  expect(one.runs.map((run) => run.id)).toEqual([id("order/1#x")]);
  expect(one.runs[0]).toMatchObject({ input: null, output: null });
  await refused("runs.list", { query: { cursor: "not-a-cursor" } });
  const counts = await call("runs.count", { query: { attr: { area: prefix } } });
  expect(counts.counts).toMatchObject({ failed: { n: 1, capped: false }, blocked: { n: 1, capped: false } });

  // Messages.
  expect(await call("runs.query", { params: { id: id("order/1#x"), name: "total" }, body: 4 })).toBe(7);
  await refused("runs.query", { params: { id: id("order/1#x"), name: "nothing" } });
  const add = { params: { id: id("order/1#x"), name: "add" }, body: { n: 5 }, idempotencyKey: id("add") };
  expect(await call("runs.update", add)).toMatchObject({ total: 8 });
  expect(await call("runs.update", add)).toMatchObject({ total: 8 });
  const rejected = await refused("runs.update", { params: { id: id("order/1#x"), name: "unheard" }, query: { wait: 30_000 } });
  expect(rejected.exitCode).toBe(4);
  await call("runs.signal", { params: { id: id("order/1#x"), name: "approve" }, body: { by: "me" }, idempotencyKey: id("approve") });
  expect(await call("runs.result", { ...order, query: { wait: 30_000 } })).toMatchObject({ status: "completed", output: { total: 8 } });
  const closed = await refused("runs.signal", { params: { id: id("order/1#x"), name: "approve" }, body: { by: "me" } });
  expect(closed.status).toBe(409);

  // Ending.
  await call("runs.cancel", { ...of("parent"), body: { reason: "enough" } });
  expect((await call("runs.result", { ...of("parent"), query: { wait: 30_000 } })).status).toBe("canceled");
  await call("runs.terminate", { ...of("retrying"), body: { reason: "enough" } });
  await refused("runs.terminate", of("retrying"));
  await call("runs.resume", of("failing"));
  await refused("runs.resume", of("retrying"));
  await until("failing", "failed");
  const forked = await call("runs.fork", { ...order, body: { before: "charge", id: id("forked"), signals: "drop" } });
  expect(forked).toEqual({ id: id("forked"), execution: 1 });
  await until("forked", "sleeping");
  await refused("runs.delete", of("forked"));
  await call("runs.delete", of("retrying"));
  await refused("runs.get", of("retrying"));

  // Bulk.
  const preview = await call("bulk.preview", {
    body: {
      action: { do: "terminate", reason: "old" },
      filter: { idPrefix: prefix, workflow: ["waiting", "blocked"], attributes: { area: prefix } },
    },
  });
  expect(preview).toMatchObject({
    matched: 2,
    capped: false,
    byStatus: { sleeping: 1, blocked: 1 },
    byWorkflow: { waiting: 1, blocked: 1 },
  });
  const bulk = await call("bulk.start", { body: { token: preview.token, reason: "older" } });
  expect(bulk).toHaveProperty("id");
  const bulkId = (bulk as { id: string }).id;
  await expect.poll(async () => (await client.call("bulk.get", { params: { id: bulkId } })).status, { interval: 20 }).toBe("completed");
  expect(await call("bulk.get", { params: { id: bulkId } })).toMatchObject({ matched: 2, done: 2, succeeded: 2, failed: 0 });
  const usedTwice = await refused("bulk.start", { body: { token: preview.token } });
  expect(usedTwice.status).toBe(400);
  await refused("bulk.get", of("forked"));
  await refused("bulk.preview", { body: { action: { do: "cancel" }, filter: {} } });
  const ids = [id("forked"), id("nothing"), id("order/1#x")];
  const few = await call("bulk.preview", { body: { action: { do: "cancel" }, ids } });
  expect(few).toMatchObject({ matched: 1, byStatus: { sleeping: 1 } });
  expect(await call("bulk.start", { body: { token: few.token } })).toMatchObject({
    matched: 3,
    succeeded: 1,
    failed: 2,
    failures: [{ code: "HF_RUN_NOT_FOUND" }, { code: "HF_RUN_CLOSED" }],
  });

  // Operating.
  await call("workflows.list");
  await call("workers.list");
  const queue = { params: { name: id("q/1") } };
  await call("queues.set", {
    ...queue,
    body: { concurrency: 2, rate: { limit: 5, per: "1m" }, perKey: { concurrency: 1 }, keys: { a: { weight: 2 } } },
  });
  expect(await call("queues.get", queue)).toMatchObject({
    concurrency: 2,
    perKey: { concurrency: 1, rate: null },
    keys: { a: { weight: 2 } },
  });
  expect((await call("queues.pause", { ...queue, body: { for: "1h" } })).paused).toBe(true);
  expect((await call("queues.resume", queue)).paused).toBe(false);
  const { queues } = await call("queues.list");
  expect(queues.map(({ name }) => name)).toEqual(expect.arrayContaining(["default", id("q/1")]));
  await refused("queues.set", { ...queue, body: { concurrency: 0 } });
  await call("queues.delete", queue);
  expect(await call("queues.get", { params: { name: id("none") } })).toMatchObject({ concurrency: null, paused: false });

  const schedule = of("nightly");
  await call("schedules.set", {
    ...schedule,
    body: { workflow: "echo", input: { a: 1 }, cron: "0 3 * * *", timezone: "Europe/Berlin", start: { queue: id("away") } },
  });
  expect((await call("schedules.get", schedule)).nextRuns).toHaveLength(5);
  expect((await call("schedules.pause", schedule)).paused).toBe(true);
  expect((await call("schedules.resume", schedule)).paused).toBe(false);
  expect((await call("schedules.list", { query: { limit: 200 } })).schedules.map((it) => it.id)).toContain(id("nightly"));
  expect((await call("schedules.trigger", schedule)).id).toContain(id("nightly"));
  const { ids: filled } = await call("schedules.backfill", {
    ...schedule,
    body: { from: "2024-01-01T00:00:00Z", to: "2024-01-02T12:00:00Z" },
  });
  expect(filled).toHaveLength(2);
  await refused("schedules.set", { ...schedule, body: { workflow: "echo", cron: "odd" } });
  await call("schedules.delete", schedule);
  await refused("schedules.delete", schedule);
  await refused("schedules.get", schedule);

  expect(await call("health")).toMatchObject({ ok: true, features: { schedules: true, queues: true, workers: true } });
  expect(await call("metrics")).toMatch(/^# HELP holdfast_up .*\n# TYPE holdfast_up gauge\nholdfast_up 1\n/);
  const document = await call("openapi");
  expect(document).toMatchObject({ openapi: "3.1.0" });
  expect(Object.keys(document["paths"] as object)).toContain("/api/v1/runs/{id}/operations/{location}");
  return seen;
}

/** What differs between two tours by nature: ids, times, generated names, sizes of what they are in. */
function alike(exchanges: readonly Exchange[], prefix: string): unknown {
  const text = JSON.stringify(exchanges, (key, value: unknown) => {
    if (key === "token" || key === "cursor" || key === "data_" || key === "seed") return value === null ? null : key;
    if (key === "turns" && Array.isArray(value)) return "turns";
    if (key === "caller" || key === "workers" || key === "queues" || key === "schedules") return key;
    if (key === "time" || key === "stack") return key;
    return value;
  });
  return JSON.parse(
    text
      .replaceAll(prefix, "X-")
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, "TIME")
      .replaceAll(/worker-[0-9a-f]{8}/g, "WORKER")
      .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "UUID"),
  );
}

describe.each(STORES)("on %s", (store) => {
  const world = worldOn(store);
  const tours = new Map<string, Promise<Exchange[]>>();
  const clients: Client[] = [];
  beforeAll(() => {
    const http = openHttp("http://localhost/", { token: TOKENS.admin, fetch: world.console.fetch });
    const local = clientOf(world.engine);
    clients.push(http, local);
    tours.set("http", tour(http, "H-"));
  });
  afterAll(async () => {
    for (const client of clients) await client.close();
  });

  test("every route answers over HTTP as the table says", async () => {
    const exchanges = (await tours.get("http")) ?? [];
    const visited = new Set(exchanges.map(({ route }) => route));
    expect([...visited].sort()).toEqual(ROUTE_IDS.filter((id) => id !== "events").sort());
  });
  test("and in the process it answers the same", async () => {
    const http = (await tours.get("http")) ?? [];
    const local = await tour(clients[1] as Client, "L-");
    const [expected, got] = [alike(http, "H-"), alike(local, "L-")] as [Exchange[], Exchange[]];
    for (const [i, exchange] of expected.entries()) {
      if (["metrics", "openapi", "health"].includes(exchange.route)) continue;
      expect(got[i], exchange.route).toEqual(exchange);
    }
  });
});
