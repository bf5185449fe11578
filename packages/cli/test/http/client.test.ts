// The clients: what they say when a server or a store is not what it should be, and that reading a store creates nothing.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type Client, ConsoleError, clientOf, openClient, openHttp, openLocal } from "../../src/client/index.ts";
import { createConsole, listen } from "../../src/server/index.ts";
import { TOKEN_ENTRIES, TOKENS, worldOn } from "./world.ts";

const world = worldOn("memory");
const servers: Server[] = [];
afterAll(() => {
  for (const server of servers) server.close();
});
async function answering(status: number, body: string): Promise<string> {
  const server = createServer((_request, response) => void response.writeHead(status).end(body)).listen(0, "127.0.0.1");
  servers.push(server);
  await new Promise((ready) => server.once("listening", ready));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
async function failure(client: Client): Promise<ConsoleError> {
  const error: unknown = await client.call("runs.list").then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ConsoleError);
  await client.close();
  return error as ConsoleError;
}

describe("over HTTP", () => {
  test("a server that is not there is an error of its own, which does not name the token", async () => {
    const error = await failure(openHttp("http://127.0.0.1:1/", { token: TOKENS.admin }));
    expect(error).toMatchObject({ code: "HF_UNREACHABLE", status: 503, exitCode: 1, retryable: true });
    expect(error.message).toContain("http://127.0.0.1:1");
    expect(JSON.stringify(error.toProblem())).not.toContain(TOKENS.admin);
  });
  test.each([
    [200, "<html>a login page</html>"],
    [502, "<html>bad gateway</html>"],
    [404, "Not found"],
  ])("another server, which answers %i, is not taken for ours", async (status, body) => {
    expect(await failure(openHttp(await answering(status, body)))).toMatchObject({ code: "HF_UNREACHABLE", exitCode: 1 });
  });
  test.each(["ftp://x", "localhost:4747", ""])("%j is not an address", (url) => {
    expect(() => openHttp(url)).toThrow(/http/);
  });
  test.each([414, 431])("what is too long for a server, which answers %i, is the caller's mistake", async (status) => {
    expect(await failure(openHttp(await answering(status, "")))).toMatchObject({ code: "HF_INVALID_INPUT", exitCode: 4 });
  });
  test("a token that can't be sent is not named", () => {
    for (const token of ["se\u0000cret", "se cret", "s€cret"]) {
      const open = () => openHttp("http://localhost/", { token });
      expect(open).toThrow(/token/);
      expect(open).not.toThrow(/cret/);
    }
  });
  test("a value that is nested too deeply is refused, as on a store", async () => {
    let input: unknown = 1;
    for (let i = 0; i < 200_000; i++) input = [input];
    for (const client of [openHttp("http://localhost/", { fetch: world.console.fetch }), clientOf(world.engine)]) {
      const start = client.call("runs.start", { body: { workflow: "echo", input } });
      await expect(start).rejects.toMatchObject({ code: "HF_INVALID_INPUT", exitCode: 4 });
      await client.close();
    }
  });
  test("a call can be aborted", async () => {
    const client = openHttp("http://localhost/", { token: TOKENS.admin, fetch: world.console.fetch });
    await client.call("runs.start", { body: { workflow: "waiting", id: "given-up" } });
    const ends = new AbortController();
    const call = client.call("runs.result", { params: { id: "given-up" }, query: { wait: 60_000 }, signal: ends.signal });
    ends.abort(new Error("enough"));
    await expect(call).rejects.toThrow("enough");
    await client.close();
  });
  test("events go on after the server was away, and a refusal ends them", async () => {
    const first = await listen(createConsole(world.engine, { tokens: TOKEN_ENTRIES }), { port: 0 });
    const client = openHttp(first.url, { token: TOKENS.admin });
    const seen: string[] = [];
    for await (const { event } of client.events(["counts"])) {
      seen.push(event);
      if (seen.length === 2) break;
      await first.close();
      const second = await listen(createConsole(world.engine, { tokens: TOKEN_ENTRIES }), { port: first.port });
      servers.push({ close: () => void second.close() } as unknown as Server);
    }
    expect(seen).toEqual(["counts", "counts"]);
    const refused = openHttp(first.url, { token: "another" }).events(["counts"])[Symbol.asyncIterator]().next();
    await expect(refused).rejects.toMatchObject({ code: "HF_UNAUTHORIZED" });
    await client.close();
  });
});

describe("on a store", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-client-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("a file that does not exist reads as empty and is not created; the first write creates it, and is read then", async () => {
    const path = join(folder, "deep/app.db");
    const client = await openClient(`file:${path}`);
    expect(await client.call("runs.list")).toEqual({ runs: [], cursor: null });
    expect((await client.call("runs.count")).counts).toMatchObject({ running: { n: 0, capped: false } });
    expect((await client.call("queues.list")).queues.map(({ name }) => name)).toEqual(["default"]);
    expect(await client.call("schedules.list")).toEqual({ schedules: [], cursor: null });
    expect(await client.call("workers.list")).toEqual({ workers: [] });
    await expect(client.call("runs.get", { params: { id: "x" } })).rejects.toMatchObject({ code: "HF_RUN_NOT_FOUND", exitCode: 3 });
    await expect(client.call("runs.why", { params: { id: "x" } })).rejects.toMatchObject({ code: "HF_RUN_NOT_FOUND" });
    expect((await client.call("health")).store.exists).toBe(false);
    expect(existsSync(join(folder, "deep"))).toBe(false);
    expect(await client.call("runs.start", { body: { workflow: "anything", id: "x", input: 1 } })).toEqual({ id: "x", execution: 1 });
    expect(await client.call("runs.get", { params: { id: "x" } })).toMatchObject({ id: "x", status: "pending", input: 1 });
    await client.close();
    const reader = await openLocal(`file:${path}`, { readOnly: true });
    expect((await reader.call("runs.list")).runs.map(({ id }) => id)).toEqual(["x"]);
    await expect(reader.call("runs.cancel", { params: { id: "x" } })).rejects.toMatchObject({ code: "HF_FORBIDDEN" });
    await reader.close();
  });
  test("another process sees what this one writes: a wait in one ends by a write in the other", async () => {
    const url = `file:${join(folder, "two.db")}`;
    const writer = await openLocal(url);
    await writer.call("runs.start", { body: { workflow: "anything", id: "y" } });
    const reader = await openLocal(url, { readOnly: true });
    const waiting = reader.call("runs.result", { params: { id: "y" }, query: { wait: 60_000 } });
    await writer.call("runs.terminate", { params: { id: "y" } });
    expect(await waiting).toMatchObject({ status: "terminated", output: null });
    await reader.close();
    await writer.close();
  });
  test("a query needs the code", async () => {
    const client = await openLocal(`file:${join(folder, "two.db")}`);
    const query = client.call("runs.query", { params: { id: "y", name: "total" } });
    await expect(query).rejects.toMatchObject({ code: "HF_NO_CODE", status: 409, exitCode: 4 });
    await client.close();
  });
});
