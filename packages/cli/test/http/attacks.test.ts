// What the server refuses: callers without a token or a role, other hosts and origins, bodies that are too large, paths that lead elsewhere.

import { request as nodeRequest } from "node:http";
import { describe, expect, test } from "vitest";
import { BulkTokens } from "../../src/api/bulkTokens.ts";
import { ROUTE_IDS, roleAllows, routeOf } from "../../src/api/routes.ts";
import { checkedTokens, createConsole, hashToken, type Listening, listen, newToken } from "../../src/server/index.ts";
import { ask, TOKEN_ENTRIES, TOKENS, worldOn } from "./world.ts";

const world = worldOn("memory");

/** A path of each route, with ids that don't exist. */
const paths = ROUTE_IDS.map((id) => {
  const { method, path, role } = routeOf(id);
  return { id, method, path: path.replace(/\{\w+\}/g, "nothing"), role };
});
async function problem(response: Response): Promise<{ status: number; code: string }> {
  expect(response.headers.get("content-type")).toMatch(/^application\/problem\+json/);
  expect(response.headers.get("cache-control")).toBe("no-store");
  const body = (await response.json()) as { status: number; code: string; type: string };
  expect(body.status).toBe(response.status);
  expect(body.type).toBe(`urn:holdfast:${body.code}`);
  return { status: body.status, code: body.code };
}

describe("tokens and roles", () => {
  test("without a token, or with another one, every route is 401 and says how to authenticate", async () => {
    for (const { method, path } of paths)
      for (const token of ["", "nonsense", TOKENS.admin.slice(0, -1), `${TOKENS.admin}x`, hashToken(TOKENS.admin)]) {
        const response = await world.ask(method, path, { token });
        expect(response.headers.get("www-authenticate")).toMatch(/^Bearer/);
        expect(await problem(response)).toEqual({ status: 401, code: "HF_UNAUTHORIZED" });
      }
  });
  test("a path that does not exist is 401 before it is 404", async () => {
    expect((await problem(await world.ask("GET", "nowhere", { token: "" }))).status).toBe(401);
    expect(await problem(await world.ask("GET", "nowhere"))).toEqual({ status: 404, code: "HF_NOT_FOUND" });
    const other = await world.ask("PATCH", "runs");
    expect(other.headers.get("allow")?.split(", ").sort()).toEqual(["GET", "POST"]);
    expect(await problem(other)).toEqual({ status: 405, code: "HF_METHOD_NOT_ALLOWED" });
  });
  test("a token is taken only from the header: no query, no cookie, no other scheme", async () => {
    const { fetch } = world.console;
    const url = "http://localhost/api/v1/runs";
    for (const given of [`?token=${TOKENS.admin}`, `?access_token=${TOKENS.admin}`, `#token=${TOKENS.admin}`])
      expect((await ask(fetch, url + given, { token: "" })).status).toBe(401);
    for (const headers of [
      { cookie: `token=${TOKENS.admin}` },
      { authorization: `Basic ${TOKENS.admin}` },
      { authorization: TOKENS.admin },
    ])
      expect((await ask(fetch, url, { token: "", headers })).status).toBe(401);
  });
  test.each([
    ["reader", "read"],
    ["operator", "operate"],
  ] as const)("%s gets 403 where its role is not enough, and nowhere else", async (name, role) => {
    for (const { id, method, path, role: needed } of paths) {
      if (id === "events") continue;
      const response = await world.ask(method, path, { token: TOKENS[name] });
      if (roleAllows(role, needed)) expect(response.status, id).not.toBe(403);
      else expect(await problem(response), id).toEqual({ status: 403, code: "HF_FORBIDDEN" });
    }
  });
  test("a read-only server refuses everything that is not read, also by an admin", async () => {
    const console = createConsole(world.engine, { tokens: TOKEN_ENTRIES, readOnly: true });
    for (const { method, path, role } of paths.filter((one) => one.role !== "read")) {
      const response = await ask(console.fetch, `http://localhost/api/v1/${path}`, { method });
      expect(await problem(response), role).toEqual({ status: 403, code: "HF_FORBIDDEN" });
    }
    await console.close();
  });
  test("without tokens and authorize everything is closed", async () => {
    const console = createConsole(world.engine);
    expect((await ask(console.fetch, "http://localhost/api/v1/runs")).status).toBe(401);
    await console.close();
  });
  test("authorize decides, may take its time, and what it returns is checked", async () => {
    const answers: Record<string, unknown> = {
      good: { name: "a", role: "read", values: true },
      bare: { name: "b", role: "read" },
      odd: { name: "c", role: "root", values: true },
      none: null,
    };
    const authorize = async (request: Request) => answers[request.headers.get("x-user") ?? ""] as never;
    const console = createConsole(world.engine, { authorize });
    const health = (user: string) => ask(console.fetch, "http://localhost/api/v1/health", { token: "", headers: { "x-user": user } });
    expect(((await (await health("good")).json()) as { caller: object }).caller).toEqual(answers["good"]);
    expect(((await (await health("bare")).json()) as { caller: object }).caller).toEqual({ name: "b", role: "read", values: false });
    expect((await health("odd")).status).toBe(401);
    expect((await health("none")).status).toBe(401);
    await console.close();
  });
  test("a malformed token entry is refused when the console is made", () => {
    const good = { name: "a", hash: hashToken("x"), role: "read" };
    expect(checkedTokens([good])).toEqual([good]);
    for (const bad of [
      { ...good, hash: "sha256:12" },
      { ...good, hash: "x".repeat(64) },
      { ...good, role: "root" },
      { ...good, more: 1 },
      {},
    ])
      expect(() => checkedTokens([bad])).toThrow(/tokens/);
    expect(newToken()).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(newToken()).not.toBe(newToken());
  });
});

describe("hosts and origins", () => {
  const at = (
    url: string,
    headers: Record<string, string>,
    options: { method?: string; console?: { fetch(r: Request): Promise<Response> } } = {},
  ) => ask((options.console ?? world.console).fetch, url, { headers, method: options.method ?? "GET" });
  const API = "http://localhost:4747/api/v1/runs";

  test.each(["localhost:4747", "localhost", "127.0.0.1:4747", "127.1.2.3", "[::1]:4747", "LOCALHOST:1"])(
    "Host %s is loopback",
    async (host) => {
      expect((await at(API, { host })).status).toBe(200);
    },
  );
  test.each([
    "evil.example",
    "evil.example:4747",
    "localhost.evil.example",
    "127.0.0.1.nip.io",
    "0.0.0.0",
    "192.168.0.1",
    "a@localhost",
    "[::2]",
    "localhost:4747:1",
  ])("Host %s is refused, with a valid token too (DNS rebinding)", async (host) => {
    expect(await problem(await at(API, { host }))).toEqual({ status: 403, code: "HF_HOST_REFUSED" });
  });
  test("the page is refused to other hosts too, and the URL counts where there is no Host header", async () => {
    expect((await at("http://localhost:4747/runs", { host: "evil.example" })).status).toBe(403);
    expect((await at("http://evil.example/api/v1/runs", {})).status).toBe(403);
  });
  test("allowedHosts are names without port", async () => {
    const console = createConsole(world.engine, { tokens: TOKEN_ENTRIES, allowedHosts: ["Ops.Example"] });
    expect((await at(API, { host: "ops.example" }, { console })).status).toBe(200);
    expect((await at(API, { host: "ops.example:8443" }, { console })).status).toBe(200);
    expect((await at(API, { host: "x.ops.example" }, { console })).status).toBe(403);
    // Behind a proxy that ends TLS the scheme differs, and is not known.
    expect((await at(API, { host: "ops.example", origin: "https://ops.example" }, { console })).status).toBe(200);
    expect((await at(API, { host: "ops.example:443", origin: "https://ops.example" }, { console })).status).toBe(200);
    expect((await at(API, { host: "ops.example", origin: "https://ops.example:444" }, { console })).status).toBe(403);
    await console.close();
    for (const bad of ["ops.example:8443", "https://ops.example", "", "a b"])
      expect(() => createConsole(world.engine, { allowedHosts: [bad] }), bad).toThrow(/allowedHosts/);
  });
  test.each([
    ["http://localhost:4747", 200],
    ["http://localhost:4748", 403],
    ["https://localhost:4747", 403],
    ["http://127.0.0.1:4747", 403],
    ["http://evil.example", 403],
    ["null", 403],
    ["file://", 403],
    ["chrome-extension://abc", 403],
  ])("Origin %s at localhost:4747: %i", async (origin, status) => {
    const response = await at(API, { host: "localhost:4747", origin });
    expect(response.status).toBe(status);
    if (status === 403) expect((await problem(response)).code).toBe("HF_ORIGIN_REFUSED");
    expect(response.headers.get("access-control-allow-origin")).toBeNull();
  });
  test("Sec-Fetch-Site: the API is for its own page only; a link to the page from another site works", async () => {
    const site = (value: string, mode: string, url = API, method = "GET") =>
      at(url, { host: "localhost:4747", "sec-fetch-site": value, "sec-fetch-mode": mode }, { method });
    expect((await site("same-origin", "cors")).status).toBe(200);
    expect((await site("none", "navigate")).status).toBe(200);
    for (const mode of ["cors", "no-cors", "navigate"])
      for (const from of ["cross-site", "same-site"])
        expect(await problem(await site(from, mode))).toEqual({ status: 403, code: "HF_ORIGIN_REFUSED" });
    const page = "http://localhost:4747/runs";
    expect((await site("cross-site", "navigate", page)).status).not.toBe(403);
    expect((await site("cross-site", "no-cors", page)).status).toBe(403);
    expect((await site("cross-site", "navigate", page, "POST")).status).toBe(403);
  });
  test("a preflight gets no permission", async () => {
    const response = await at(API, { host: "localhost:4747", origin: "http://evil.example" }, { method: "OPTIONS" });
    expect(response.status).toBe(403);
    expect([...response.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

describe("bodies", () => {
  const LIMIT = 4 * 1_024 * 1_024;
  test("a body that says it is over 4 MiB is refused before a byte is read", async () => {
    let pulled = 0;
    const body = new ReadableStream(
      {
        pull: (controller) => {
          pulled++;
          controller.enqueue(new Uint8Array(1_024));
        },
      },
      { highWaterMark: 0 },
    );
    const response = await world.console.fetch(
      new Request("http://localhost/api/v1/runs", {
        method: "POST",
        headers: { authorization: `Bearer ${TOKENS.admin}`, "content-length": String(LIMIT + 1) },
        body,
        duplex: "half",
      } as RequestInit),
    );
    expect(await problem(response)).toEqual({ status: 413, code: "HF_LIMIT_EXCEEDED" });
    expect(pulled).toBe(0);
  });
  test("a body of unknown length is refused once 4 MiB have come, and no more is read", async () => {
    let pulled = 0;
    const body = new ReadableStream(
      {
        pull: (controller) => {
          pulled++;
          controller.enqueue(new Uint8Array(64 * 1_024).fill(32));
        },
      },
      { highWaterMark: 0 },
    );
    const response = await world.console.fetch(
      new Request("http://localhost/api/v1/runs", {
        method: "POST",
        headers: { authorization: `Bearer ${TOKENS.admin}` },
        body,
        duplex: "half",
      } as RequestInit),
    );
    expect(await problem(response)).toEqual({ status: 413, code: "HF_LIMIT_EXCEEDED" });
    expect(pulled).toBeLessThanOrEqual(LIMIT / (64 * 1_024) + 2);
  });
  test("over a socket too: chunked and with a length", async () => {
    const console = createConsole(world.engine, { tokens: TOKEN_ENTRIES });
    const server = await listen(console, { port: 0 });
    for (const headers of [{ "content-length": String(50 * LIMIT) }, { "transfer-encoding": "chunked" }])
      expect(await flood(server, headers)).toBe(413);
    await server.close();
  });
  test("a caller without the role is refused before its body is looked at", async () => {
    const headers = { "content-length": String(LIMIT + 1) };
    expect((await world.ask("POST", "runs", { token: TOKENS.reader, headers })).status).toBe(403);
  });
  test.each(["{", "nonsense", "[1,", '"\ud800'])("%j is not JSON: 400", async (text) => {
    const response = await world.console.fetch(
      new Request("http://localhost/api/v1/runs", { method: "POST", headers: { authorization: `Bearer ${TOKENS.admin}` }, body: text }),
    );
    expect(await problem(response)).toEqual({ status: 400, code: "HF_INVALID_INPUT" });
  });
  test("what a body may not have is named", async () => {
    const response = await world.ask("POST", "runs", { body: { workflow: "echo", prioritty: 1 } });
    const body = (await response.json()) as { status: number; detail: string };
    expect([body.status, body.detail]).toEqual([400, expect.stringContaining("prioritty")]);
  });
});

describe("queries", () => {
  test.each([
    "runs?nonsense=1",
    "runs?limit=0",
    "runs?limit=201",
    "runs?limit=1.5",
    "runs?cursor=odd",
    "runs?status=odd",
    "runs?since=soon",
    "runs?limit=1&limit=2",
    "runs?attr=1",
    "runs?attr.__proto__=1",
    "runs?__proto__=1",
    "runs/count?limit=1",
    "workers?x=1",
    "events",
    "events?topics=",
    "events?topics=odd",
    "events?topics=runs,odd",
    "events?topics=run:",
    "runs/nothing/timeline?after=-2",
    "runs/nothing/result?wait=soon",
  ])("%s is 400", async (path) => {
    expect(await problem(await world.ask("GET", path))).toEqual({ status: 400, code: "HF_INVALID_INPUT" });
  });
});

describe("paths", () => {
  test.each(["runs/..%2Fhealth", "runs/%2F", "runs/%00", "runs/%E0%A4%A", "runs/~%25", "runs/~_w", "runs//why", "/runs", "runs/"])(
    "%s is a run that does not exist, or no route",
    async (path) => {
      const { status } = await problem(await world.ask("GET", path));
      expect(status).toBe(404);
    },
  );
  test.each([
    "/../package.json",
    "/..%2f..%2fpackage.json",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/assets/..%2f..%2fpackage.json",
    "/assets/..\\..\\package.json",
    "/assets/%2e%2e%5cpackage.json",
    "//etc/passwd",
    "/index.html%00.js",
  ])("the page's files: %s leads nowhere", async (path) => {
    const text = await (await world.console.fetch(new Request(`http://localhost${path}`))).text();
    expect(text).not.toMatch(/"version"|root:/);
  });
});

describe("what is logged", () => {
  test("an unexpected error is logged without token, query or control characters, and the caller gets none of it", async () => {
    const lines: string[] = [];
    const logger = { error: (message: string) => void lines.push(message) };
    const console = createConsole(world.engine, {
      logger,
      authorize: () => {
        throw new Error("the database of users is away\u001b[31m");
      },
    });
    const response = await ask(console.fetch, "http://localhost/api/v1/runs?idPrefix=private", { token: TOKENS.admin });
    expect(await response.text()).not.toContain("database of users");
    expect(response.status).toBe(500);
    expect(lines.join("\n")).toContain("database of users");
    expect(lines.join("\n")).not.toMatch(/token-of|private|\p{Cc}(?<!\n)/u);
    await console.close();
  });
});

describe("tokens of previews", () => {
  test("serve once, for 10 minutes, and can't be made or changed", () => {
    let now = 1_000;
    const tokens = new BulkTokens(() => now);
    const token = tokens.issue({ action: "a" });
    const [body = "", signature = ""] = token.split(".");
    const other = Buffer.from(JSON.stringify({ content: { action: "b" }, time: now })).toString("base64url");
    for (const bad of [
      `${other}.${signature}`,
      `${body}.${signature.slice(1)}`,
      body,
      "",
      ".",
      new BulkTokens(() => now).issue({ action: "a" }),
    ])
      expect(() => tokens.redeem(bad), bad).toThrow(/token/);
    expect(tokens.redeem(token)).toEqual({ content: { action: "a" }, time: 1_000 });
    expect(() => tokens.redeem(token)).toThrow(/used/);
    const late = tokens.issue({ action: "a" });
    now += 600_001;
    expect(() => tokens.redeem(late)).toThrow(/10 minutes/);
  });
});

/** Sends without end until the server answers. The status of the answer. */
function flood({ port }: Listening, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = nodeRequest({
      port,
      host: "127.0.0.1",
      path: "/api/v1/runs",
      method: "POST",
      headers: { ...headers, authorization: `Bearer ${TOKENS.admin}` },
    });
    let isOver = false;
    const more = (): void => {
      if (!isOver) request.write(Buffer.alloc(64 * 1_024, 32), () => setImmediate(more));
    };
    request.on("response", (response) => {
      isOver = true;
      response.resume();
      request.destroy();
      resolve(response.statusCode ?? 0);
    });
    request.on("error", (error) => (isOver ? undefined : reject(error)));
    more();
  });
}
