// The console inside other servers, at the root and under a path, and on a port of its own.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import express from "express";
import { Hono } from "hono";
import { afterAll, describe, expect, test } from "vitest";
import { openHttp } from "../../src/client/index.ts";
import { type Console, createConsole, listen, toNode } from "../../src/server/index.ts";
import { TOKEN_ENTRIES, TOKENS, worldOn } from "./world.ts";

const world = worldOn("memory");
const assets = mkdtempSync(join(tmpdir(), "holdfast-page-"));
mkdirSync(join(assets, "assets"));
writeFileSync(
  join(assets, "index.html"),
  `<!doctype html><html><head><meta name="holdfast-base" content=""><link rel="icon" href="/icon.svg"><script type="module" src="./assets/main-abcdefgh.js"></script></head><body><a href="https://example.com/">x</a></body></html>`,
);
writeFileSync(join(assets, "icon.svg"), "<svg/>");
writeFileSync(join(assets, "assets/main-abcdefgh.js"), "export {};");
afterAll(() => rmSync(assets, { recursive: true, force: true }));

type Fetch = (request: Request) => Promise<Response>;
const consoles: Console[] = [];
const closers: (() => void)[] = [];
afterAll(async () => {
  for (const close of closers) close();
  for (const one of consoles) await one.close();
});
function consoleAt(basePath?: string): Console {
  const made = createConsole(world.engine, { tokens: TOKEN_ENTRIES, ...(basePath !== undefined && { basePath }) }, { assets });
  consoles.push(made);
  return made;
}
/** A real server with this handler; what it answers. */
async function served(handler: Parameters<typeof createServer>[1]): Promise<Fetch> {
  const server = createServer(handler).listen(0, "127.0.0.1");
  closers.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  await new Promise((ready) => server.once("listening", ready));
  const { port } = server.address() as AddressInfo;
  return (request) => {
    const { pathname, search } = new URL(request.url);
    return fetch(new Request(`http://127.0.0.1:${port}${pathname}${search}`, request));
  };
}

const mounts: readonly [string, string, () => Promise<Fetch>][] = [
  ["plain fetch", "/", async () => consoleAt().fetch],
  ["plain fetch under /x/y/", "/x/y/", async () => consoleAt("/x/y/").fetch],
  ["plain fetch, base without slashes", "/x/y/", async () => consoleAt("x/y").fetch],
  [
    "Hono, app.mount",
    "/x/y/",
    async () => {
      const app = new Hono();
      app.get("/", (c) => c.text("the application"));
      app.mount("/x/y", consoleAt("/x/y").fetch);
      return async (request) => app.fetch(request);
    },
  ],
  [
    "Express, app.use(path, toNode)",
    "/x/y/",
    async () => {
      const app = express();
      app.use("/x/y", toNode(consoleAt("/x/y").fetch));
      app.get("/", (_request, response) => void response.send("the application"));
      return served(app);
    },
  ],
  ["node:http, toNode", "/", async () => served(toNode(consoleAt().fetch))],
];

describe.each(mounts)("%s", (_name, base, mount) => {
  let mounted: Promise<Fetch> | undefined;
  const get = async (path: string, headers: Record<string, string> = {}): Promise<Response> => {
    mounted ??= mount();
    return (await mounted)(new Request(`http://localhost${base}${path}`, { headers }));
  };

  test("the client works, also with ids that contain slashes", async () => {
    mounted ??= mount();
    const client = openHttp(`http://localhost${base}#token=${TOKENS.admin}`, { fetch: await mounted });
    const id = `mount/${_name}#1`;
    await client.call("runs.start", { body: { workflow: "echo", id, input: { a: 1 } } });
    expect(await client.call("runs.result", { params: { id }, query: { wait: 30_000 } })).toMatchObject({
      status: "completed",
      output: { a: 1 },
    });
    const { operations } = await client.call("runs.operations", { params: { id } });
    expect(operations).toEqual([]);
    await client.close();
  });
  test("events come one by one", async () => {
    mounted ??= mount();
    const client = openHttp(`http://localhost${base}`, { token: TOKENS.admin, fetch: await mounted });
    const ends = new AbortController();
    for await (const event of client.events(["counts"], { signal: ends.signal })) {
      expect(event).toMatchObject({ event: "counts", data: { counts: { completed: { capped: false } } } });
      ends.abort();
    }
    await client.close();
  });
  test("every view is the page, with absolute URLs under the base", async () => {
    for (const path of ["", "runs", "runs/ord-7", "runs/~b3JkLzc", "start", "schedules?x=1"]) {
      const response = await get(path);
      expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
      const html = await response.text();
      expect(html).toContain(`<meta name="holdfast-base" content="${base}">`);
      expect(html.match(/holdfast-base/g)).toHaveLength(1);
      expect(html).toContain(`href="${base}icon.svg"`);
      expect(html).toContain(`src="${base}assets/main-abcdefgh.js"`);
      expect(html).toContain('href="https://example.com/"');
    }
  });
  test("files of the page need no token, and nothing is served that is not one", async () => {
    const script = await get("assets/main-abcdefgh.js");
    expect([script.status, script.headers.get("content-type")]).toEqual([200, "text/javascript; charset=utf-8"]);
    expect(script.headers.get("cache-control")).toContain("immutable");
    expect((await get("assets/missing.js")).status).toBe(404);
    expect((await get("api/v1/runs")).status).toBe(401);
    expect((await get("api/v1")).status).toBe(401);
  });
  test("headers: CSP, nosniff, no referrer, CORP; X-Forwarded-Prefix means nothing", async () => {
    const page = await get("runs", { "x-forwarded-prefix": "/evil" });
    expect(await page.text()).not.toContain("evil");
    for (const response of [page, await get("api/v1/runs", { authorization: `Bearer ${TOKENS.admin}` })]) {
      const csp = response.headers.get("content-security-policy") ?? "";
      for (const part of [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
      ])
        expect(csp).toContain(part);
      expect(csp).not.toContain("unsafe");
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
      expect(response.headers.get("referrer-policy")).toBe("no-referrer");
      expect(response.headers.get("cross-origin-resource-policy")).toBe("same-origin");
    }
  });
});

test("the application beside the console stays reachable", async () => {
  const app = new Hono();
  app.get("/", (c) => c.text("the application"));
  app.mount("/x/y", consoleAt("/x/y").fetch);
  expect(await (await app.request("http://localhost/")).text()).toBe("the application");
});

describe("a port of its own", () => {
  test("loopback; a given port that is taken is an error that names it", async () => {
    const first = await listen(consoleAt(), { port: 0 });
    expect(first.url).toBe(`http://127.0.0.1:${first.port}/`);
    expect((await fetch(`${first.url}runs`)).status).toBe(200);
    const taken = listen(consoleAt(), { port: first.port });
    await expect(taken).rejects.toMatchObject({ code: "HF_PORT_TAKEN", exitCode: 1, message: expect.stringContaining(String(first.port)) });
    await first.close();
    await expect(fetch(first.url)).rejects.toThrow();
  });
  test("without a port it is the next free one from 4747", async () => {
    const first = await listen(consoleAt());
    const second = await listen(consoleAt());
    expect(first.port).toBeGreaterThanOrEqual(4_747);
    expect(second.port).toBeGreaterThan(first.port);
    await first.close();
    await second.close();
  });
  test("closing ends open streams", async () => {
    const server = await listen(consoleAt(), { port: 0 });
    const response = await fetch(`${server.url}api/v1/events?topics=counts`, { headers: { authorization: `Bearer ${TOKENS.admin}` } });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await server.close();
    for (let isOver = false; !isOver; ) isOver = (await reader.read().catch(() => ({ done: true }))).done === true;
  });
});
