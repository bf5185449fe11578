// User values in replies: tagged, too large, not readable, hostile, and not shown to callers without `values`.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Codec, Holdfast, jsonCodec, replay, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { Show, toJson } from "../../src/api/json.ts";
import { ROUTE_IDS, routeOf } from "../../src/api/routes.ts";
import { clientOf, openLocal, pathSegment } from "../../src/client/index.ts";
import { SECRET, TOKENS, worldOn } from "./world.ts";

const world = worldOn("memory");
const json = async (response: Response) => (await response.json()) as Record<string, unknown>;
const ended = async (id: string) => json(await world.ask("GET", `runs/${pathSegment(id)}/result?wait=30s`));

describe("values", () => {
  test("plain JSON comes back as it is, everything else tagged, and undefined is null", async () => {
    const plain = { a: [1, "x", null, { b: true }] };
    await world.ask("POST", "runs", { body: { workflow: "echo", id: "plain", input: plain } });
    expect((await ended("plain"))["output"]).toEqual(plain);
    const odd = new Map<unknown, unknown>([
      ["when", new Date(0)],
      ["big", 10n],
    ]);
    await world.engine.start("echo", odd, { id: "odd" });
    expect((await ended("odd"))["output"]).toEqual(JSON.parse(jsonCodec.encode(odd)));
    await world.engine.start("echo", undefined, { id: "none" });
    expect(await ended("none")).toEqual({ status: "completed", output: null, error: null });
  });
  test("a tagged object in a request is data, unless the request says that it is tagged", async () => {
    const date = { $date: "2020-01-01T00:00:00.000Z" };
    await world.ask("POST", "runs", { body: { workflow: "echo", id: "as-data", input: date } });
    await world.ask("POST", "runs?tagged=1", { body: { workflow: "echo", id: "as-date", input: date } });
    await ended("as-data");
    await ended("as-date");
    expect(await world.engine.run("as-data").result()).toEqual(date);
    expect(await world.engine.run("as-date").result()).toEqual(new Date("2020-01-01T00:00:00.000Z"));
  });
  test("over 4 KB: its size in lists and views, itself in the result and where it is asked for", async () => {
    const large = "x".repeat(5_000);
    await world.ask("POST", "runs", { body: { workflow: "echo", id: "large", input: large } });
    expect((await ended("large"))["output"]).toBe(large);
    expect((await json(await world.ask("GET", "runs/large")))["input"]).toEqual({ $large: 5_002 });
    expect((await json(await world.ask("GET", "runs/large?full=true")))["input"]).toBe(large);
    const { runs } = (await json(await world.ask("GET", "runs?idPrefix=large&values=true"))) as { runs: { input: unknown }[] };
    expect(runs[0]?.input).toEqual({ $large: 5_002 });
    expect((await (await world.ask("GET", "runs/large/history")).text()).length).toBeLessThan(5_000);
    const history = await json(await world.ask("GET", "runs/large/history?full=true"));
    await replay(
      workflow("echo", async (_ctx, input: unknown) => input),
      history as never,
    );
  });
  test("a value that can't be decoded says why, and does not hide the rest", () => {
    const show = new Show({ values: true });
    expect(show.value({ bytes: 3, read: () => ({ unreadable: "another key" }) })).toEqual({ $unreadable: "another key" });
    expect(show.value(undefined)).toBeNull();
    expect(toJson(() => 1)).toHaveProperty("$unreadable");
  });
});

describe("with a codec of the user", () => {
  const codec: Codec = {
    encode: (value) => Buffer.from(`secret:${jsonCodec.encode(value)}`).toString("base64"),
    decode: (data) => {
      const text = Buffer.from(String(data), "base64").toString();
      if (!text.startsWith("secret:")) throw new Error("another codec");
      return jsonCodec.decode(text.slice("secret:".length));
    },
  };
  const plain = { street: "Elm" };

  test("values are shown decoded everywhere, and as not readable without the codec", async () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-codec-"));
    const url = `file:${join(folder, "app.db")}`;
    const engine = await Holdfast.open(url, { codec });
    const echo = workflow("echo", async (ctx, input: unknown) => {
      ctx.publishState(input);
      return ctx.step("look", async () => input);
    });
    await engine.worker({ workflows: [echo] });
    await (await engine.start(echo, plain, { id: "sealed" })).result();
    const client = clientOf(engine);
    const params = { id: "sealed" };
    expect(await client.call("runs.get", { params })).toMatchObject({ input: plain, output: plain });
    expect(await client.call("runs.state", { params })).toEqual(plain);
    expect((await client.call("runs.operations", { params })).operations).toMatchObject([{ output: plain }]);
    const history = await client.call("runs.history", { params });
    expect(history.run.input).toEqual(plain);
    expect(JSON.stringify(history).split('{"street":"Elm"}').length).toBeGreaterThan(3);
    const portable = await client.call("runs.history", { params, query: { full: true } });
    expect(JSON.stringify(portable)).toBe(JSON.stringify({ ...(await engine.run("sealed").history()), run: portable.run }));
    await client.close();
    const other = await openLocal(url, { readOnly: true });
    expect(await other.call("runs.get", { params })).toMatchObject({ id: "sealed", input: { $unreadable: expect.any(String) } });
    expect(await other.call("runs.result", { params })).toMatchObject({ status: "completed", output: { $unreadable: expect.any(String) } });
    expect(JSON.stringify(await other.call("runs.history", { params }))).toContain("$unreadable");
    await other.close();
    await engine.close();
    rmSync(folder, { recursive: true, force: true });
  });
});

describe("hostile values", () => {
  const hostile = {
    html: "<img src=x onerror=alert(1)></script><!--",
    ansi: "\u001b[31mred\u001b]0;title\u0007\r\n\u202edesrever",
    ["__proto__"]: { polluted: true },
    constructor: { prototype: { polluted: true } },
    nul: "\u0000",
    lone: "\ud800",
    deep: JSON.parse(`${"[".repeat(400)}1${"]".repeat(400)}`) as unknown,
    $date: "not a date",
  };
  test("come back exactly, as JSON that no browser runs, and pollute nothing", async () => {
    const input = JSON.parse(JSON.stringify(hostile)) as unknown;
    const id = "<script>/#'\"";
    const started = await world.ask("POST", "runs", { body: { workflow: "echo", id, input, attributes: { "<b>": "<i>\u001b[0m" } } });
    expect(started.status).toBe(201);
    const response = await world.ask("GET", `runs/${pathSegment(id)}/result?wait=30s`);
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    const { output } = await json(response);
    expect(jsonCodec.decode(JSON.stringify(output))).toEqual(input);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    const listed = await json(await world.ask("GET", `runs?attr.${encodeURIComponent("<b>")}=${encodeURIComponent("<i>\u001b[0m")}`));
    expect((listed["runs"] as { id: string }[]).map((run) => run.id)).toEqual([id]);
  });
  test("2 MiB strings are refused by the engine's limit or shown by their size, never cut in half", async () => {
    const fits = "y".repeat(2 * 1_024 * 1_024 - 10);
    await world.ask("POST", "runs", { body: { workflow: "echo", id: "huge", input: fits } });
    expect((await ended("huge"))["output"]).toBe(fits);
    const text = await (await world.ask("GET", "runs?idPrefix=huge&values=true")).text();
    expect(text.length).toBeLessThan(10_000);
    const over = await world.ask("POST", "runs", { body: { workflow: "echo", input: `${fits}${"y".repeat(100)}` } });
    expect([over.status, (await json(over))["code"]]).toEqual([413, "HF_LIMIT_EXCEEDED"]);
  });
  test("metrics can't be forged by names", async () => {
    await world.engine.queues.set('evil"} 1\nholdfast_up 0\u001b', { concurrency: 1 });
    const text = await (await world.ask("GET", "metrics")).text();
    expect(text.match(/^holdfast_up /gm)).toHaveLength(1);
    expect(text).toMatch(/^holdfast_up 1$/m);
    for (const line of text.trim().split("\n")) expect(line).toMatch(/^(# (HELP|TYPE) )?holdfast_[a-z_]+(\{.*\})? ?/);
    await world.engine.queues.delete('evil"} 1\nholdfast_up 0\u001b');
  });
  test("a value that is nested too deeply is a refusal, not a failure of the server", async () => {
    const text = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    for (const query of ["", "?tagged=1"]) {
      const response = await world.console.fetch(
        new Request(`http://localhost/api/v1/runs/plain/queries/x${query}`, {
          method: "POST",
          headers: { authorization: `Bearer ${TOKENS.admin}` },
          body: text,
        }),
      );
      expect(response.status, query).toBeLessThan(500);
    }
    const start = await world.console.fetch(
      new Request("http://localhost/api/v1/runs", {
        method: "POST",
        headers: { authorization: `Bearer ${TOKENS.admin}` },
        body: `{"workflow":"echo","input":${text}}`,
      }),
    );
    expect(start.status).toBe(400);
  });
});

describe("a caller without values", () => {
  test("sees no value anywhere: not in runs, operations, histories, reasons, errors or events", async () => {
    const secret = { password: SECRET };
    const start = (workflow: string, input: unknown = secret, more: object = {}) =>
      world.ask("POST", "runs", { token: TOKENS.blind, body: { workflow, id: `dark-${workflow}`, input, ...more } });
    for (const workflow of ["waiting", "failing", "retrying", "blocked", "parent"]) expect((await start(workflow)).status).toBe(201);
    await start("order", { n: 1, note: SECRET }, { version: "2" });
    const is = (id: string, status: string) =>
      expect.poll(async () => (await world.engine.run(id).describe()).status, { interval: 10 }).toBe(status);
    await is("dark-failing", "failed");
    await is("dark-retrying", "sleeping");
    await is("dark-blocked", "blocked");
    await is("dark-waiting", "sleeping");
    await is("dark-order", "sleeping");
    await world.engine.schedules.set("dark", {
      workflow: "echo",
      every: "1d",
      input: secret,
      start: { signals: [{ name: "s", payload: secret }] },
    });
    await world.engine.run("dark-waiting").signal("other", secret);

    const seen: string[] = [];
    const blind = async (method: string, path: string, body?: unknown): Promise<Response> => {
      const response = await world.ask(method, path, { token: TOKENS.blind, ...(body !== undefined && { body }) });
      const text = await response.clone().text();
      expect(text, `${method} ${path}`).not.toContain(SECRET);
      seen.push(text);
      return response;
    };
    for (const id of ["waiting", "failing", "retrying", "blocked", "parent", "order"].map((name) => `dark-${name}`)) {
      for (const route of ROUTE_IDS) {
        const { method, path } = routeOf(route);
        if (method !== "GET" || !path.startsWith("runs/{id}") || path.includes("{location}")) continue;
        const more = path.endsWith("history") ? "?full=true" : "";
        await blind("GET", path.replace("{id}", id) + more);
      }
      const { operations } = (await json(await blind("GET", `runs/${id}/operations`))) as { operations: { location: string }[] };
      for (const { location } of operations) await blind("GET", `runs/${id}/operations/${pathSegment(location)}`);
    }
    for (const path of [
      "runs?values=true&limit=200",
      "runs/count",
      "schedules",
      "schedules/dark",
      "queues",
      "workers",
      "workflows",
      "health",
      "metrics",
    ])
      await blind("GET", path);
    expect((await blind("POST", "bulk/preview", { action: { do: "cancel" }, filter: { idPrefix: "dark-" } })).status).toBe(200);
    // Replies and refusals of code.
    expect(await json(await blind("POST", "runs/dark-order/updates/add", { n: 2 }))).toEqual({ $redacted: expect.any(Number) });
    expect(await json(await blind("POST", "runs/dark-order/queries/total", 1))).toEqual({ $redacted: expect.any(Number) });
    await blind("POST", "runs/dark-order/updates/unheard", { n: 2 });
    await blind("POST", "runs/dark-waiting/updates/add?wait=1ms", { n: 2 });

    // And still sees what it may.
    const failing = (await json(await blind("GET", "runs/dark-failing"))) as unknown as {
      input: unknown;
      error: Record<string, unknown>;
      id: string;
    };
    expect(failing).toMatchObject({ id: "dark-failing", input: { $redacted: expect.any(Number) } });
    expect(failing.error).toMatchObject({ name: "StepFailedError", code: "HF_STEP_FAILED", message: { $redacted: expect.any(Number) } });
    expect(failing.error["cause"]).toEqual({ $redacted: expect.any(Number) });
    const why = (await json(await blind("GET", "runs/dark-retrying/why"))) as unknown as { reasons: { kind: string; text: unknown }[] };
    expect(why.reasons[0]).toMatchObject({ kind: "retrying", text: { $redacted: expect.any(Number) } });
    expect(seen.join("")).toContain("$redacted");
    // The secret is really there.
    const open = async (path: string) => (await world.ask("GET", path)).text();
    for (const path of [
      "runs/dark-failing",
      "runs/dark-retrying/why",
      "runs/dark-order/operations",
      "runs/dark-order/history",
      "schedules/dark",
      "runs/dark-order/state",
    ])
      expect(await open(path), path).toContain(SECRET);
  });
});
