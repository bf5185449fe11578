// `holdfast doctor` and `migrate`; what reading commands do where there is no store, and where it can't be reached.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { ask, startServer, type TestServer } from "@holdfast/postgres-server";
import { Holdfast } from "holdfast";
import { openLibrary } from "holdfast/store";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { blockedCheck, clockCheck, nodeCheck, schemaCheck } from "../../src/commands/doctor.ts";
import { createConsole, toNode } from "../../src/server/index.ts";
import { PLACES, placeOf, TOKEN } from "./places.ts";
import { holdfast, newFolder } from "./run.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

test("reading where there is no store: empty, and nothing is created", async () => {
  const cwd = newFolder();
  for (const url of [[], ["--url", "file:some/where/app.db"], ["--url", await server.createDatabase()]]) {
    const call = (...args: string[]) => holdfast([...args, ...url, "--json"], { cwd });
    expect(await call("runs", "list")).toMatchObject({ code: 0, json: { runs: [], cursor: null } });
    expect((await call("runs", "list", "--count")).json.counts.failed).toEqual({ n: 0, capped: false });
    expect((await call("runs", "show", "a")).code).toBe(3);
    expect((await call("schedules", "list")).json).toEqual({ schedules: [] });
    expect((await call("queues", "list")).json.queues).toMatchObject([{ name: "default" }]);
    expect((await call("workers")).json).toEqual({ workers: [] });
    expect((await call("runs", "cancel", "--open", "--dry-run")).json.matched).toBe(0);
    if (url[1]?.startsWith("postgres") === true)
      expect(await ask(url[1], "SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'")).toEqual([]);
  }
  expect(readdirSync(cwd)).toEqual([]);
});

test("a store that can't be reached, or is not ours: 1, without its password", async () => {
  const cwd = newFolder();
  writeFileSync(join(cwd, "notes.db"), "not a database at all, but long enough to be looked at as one".repeat(20));
  for (const url of ["postgres://ann:s3cret@127.0.0.1:1/app?patience=1ms", "http://127.0.0.1:1/", "file:notes.db"]) {
    const { code, out, err, problem } = await holdfast(["runs", "list", "--url", url, "--json"], { cwd, env: { HOLDFAST_TOKEN: TOKEN } });
    expect({ url, code, out }).toEqual({ url, code: 1, out: "" });
    expect(problem.code).toMatch(/^HF_/);
    expect(err).not.toMatch(/s3cret|test-token/);
  }
});

describe("migrate", () => {
  test("SQLite: check, print, migrate", async () => {
    const cwd = newFolder();
    const call = (...args: string[]) => holdfast(["migrate", ...args, "--json"], { cwd });
    const missing = await call("--check");
    expect([missing.code, missing.json]).toMatchObject([
      6,
      { ok: false, checks: [{ id: "schema", status: "fail", fix: expect.any(String) }] },
    ]);
    const printed = await call("--print");
    expect([printed.code, printed.json.ok]).toEqual([0, false]);
    expect(readdirSync(cwd)).toEqual([]);
    // What is printed makes what opening makes.
    const library = openLibrary(join(cwd, "printed.db"));
    library.exec(printed.json.sql);
    library.close();
    expect((await call("--check", "--url", "file:printed.db")).code).toBe(0);
    await (await Holdfast.open(`file:${join(cwd, "printed.db")}`)).close();
    expect(await call()).toMatchObject({ code: 0, json: { ok: true, checks: [{ id: "schema", status: "ok", fix: null }] } });
    expect(existsSync(join(cwd, ".holdfast/holdfast.db"))).toBe(true);
    expect((await call("--check")).code).toBe(0);
    expect((await call()).json.checks[0].text).toContain("already");
    expect((await call("--print")).json).toMatchObject({ ok: true, sql: "" });
  });

  test("Postgres: check, print, migrate, with a namespace", async () => {
    const url = await server.createDatabase();
    for (const namespace of [[], ["--namespace", "two"]]) {
      const call = (...args: string[]) => holdfast(["migrate", ...args, "--url", url, ...namespace, "--json"]);
      expect((await call("--check")).code).toBe(6);
      const { sql } = (await call("--print")).json;
      expect((await call("--check")).code).toBe(6);
      await ask(url, sql);
      expect((await call("--check")).code).toBe(0);
      expect((await call()).code).toBe(0);
    }
    const fresh = await server.createDatabase();
    expect((await holdfast(["migrate", "--url", fresh])).code).toBe(0);
    expect((await holdfast(["migrate", "--check", "--url", fresh])).code).toBe(0);
  });

  test("what has no schema: 4", async () => {
    for (const url of ["http://127.0.0.1:1/", "memory:", "temporal://localhost:7233/default"]) {
      expect((await holdfast(["migrate", "--url", url, "--json"])).problem).toMatchObject({ code: "HF_UNSUPPORTED", status: 501 });
    }
  });
});

describe("doctor", () => {
  test("in an empty folder: warnings, and nothing is written", async () => {
    const cwd = newFolder();
    const { code, json } = await holdfast(["doctor", "--json"], { cwd });
    expect([code, json.ok]).toEqual([0, true]);
    expect(json.checks.map(({ id }: { id: string }) => id)).toEqual(["node", "config", "entry", "store", "schema"]);
    for (const check of json.checks) expect(Object.keys(check)).toEqual(["id", "status", "text", "fix"]);
    expect(readdirSync(cwd)).toEqual([]);
  });

  test("a config that is wrong, code that throws, a store that is away: 6", async () => {
    const wrong = newFolder();
    writeFileSync(join(wrong, "holdfast.config.mjs"), "export default { colour: 1 }");
    const config = await holdfast(["doctor", "--json"], { cwd: wrong });
    expect([config.code, config.json.ok]).toEqual([6, false]);
    expect(config.json.checks.at(-1)).toMatchObject({ id: "config", status: "fail", text: expect.stringContaining("colour") });
    const cwd = newFolder();
    writeFileSync(
      join(cwd, "holdfast.config.mjs"),
      'export default { entry: "bad.ts", url: "postgres://ann:s3cret@127.0.0.1:1/app?patience=1ms" }',
    );
    writeFileSync(join(cwd, "bad.ts"), '\n\nthrow new Error("at load");\n');
    const { code, json, out } = await holdfast(["doctor", "--json"], { cwd });
    expect(code).toBe(6);
    const byId = Object.fromEntries(json.checks.map((check: { id: string }) => [check.id, check]));
    expect(byId["entry"]).toMatchObject({ status: "fail", text: expect.stringContaining("bad.ts:3") });
    expect(byId["store"]).toMatchObject({ status: "fail", fix: expect.any(String) });
    expect(out).not.toContain("s3cret");
  });

  describe.each(PLACES)("on %s", (name) => {
    const place = placeOf(name);
    test("all is well", async () => {
      await expect.poll(async () => (await place.call("workers", "--json")).json.workers).toHaveLength(1);
      const { code, json } = await place.call("doctor", "--json");
      expect([code, json.ok]).toEqual([0, true]);
      const statuses = Object.fromEntries(json.checks.map(({ id, status }: { id: string; status: string }) => [id, status]));
      expect(statuses).toMatchObject({ store: "ok", schema: "ok", clock: "ok", workers: "ok", blocked: "ok" });
      expect((await place.callWith({ columns: 80, env: { NO_COLOR: "1" } }, "doctor")).out).toMatch(/ok +blocked +No run is blocked/);
    });
  });

  test("a Postgres server whose clock is wrong is found without a worker, also behind a console", async () => {
    const url = await server.createDatabase();
    const engine = await Holdfast.open(url);
    await ask(
      url,
      `CREATE OR REPLACE FUNCTION holdfast.clock_1(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
         SELECT coalesce(p_now, (extract(epoch FROM clock_timestamp() - interval '1 hour') * 1000)::bigint) $$`,
    );
    const served = createConsole(engine, {
      tokens: [{ name: "test", hash: `sha256:${createHash("sha256").update(TOKEN).digest("hex")}`, role: "read" }],
    });
    const listener = createServer(toNode(served.fetch)).listen(0, "127.0.0.1");
    await once(listener, "listening");
    const { port } = listener.address() as AddressInfo;
    for (const where of [
      ["--url", url],
      ["--url", `http://127.0.0.1:${port}/`, "--token", TOKEN],
    ]) {
      const { code, json } = await holdfast(["doctor", "--json", ...where]);
      expect(code).toBe(0);
      expect(json.checks.find(({ id }: { id: string }) => id === "clock")).toEqual({
        id: "clock",
        status: "warn",
        text: expect.stringMatching(/^The clock of the store is (59m|60m|1h).* behind this machine's$/),
        fix: expect.stringContaining("NTP"),
      });
    }
    // Moments of a store are compared with its own clock.
    await engine.start("unserved", null);
    const metrics = await served.fetch(new Request("http://localhost/api/v1/metrics", { headers: { authorization: `Bearer ${TOKEN}` } }));
    expect(Number(/^holdfast_queue_oldest_seconds\{.*kind="runs".*\} (.*)$/m.exec(await metrics.text())?.[1])).toBeLessThan(3_000);
    await served.close();
    listener.closeAllConnections();
    listener.close();
    await engine.close();
  });

  test("the clocks: what is within the time that the question took agrees", () => {
    const began = Date.parse("2030-01-01T00:00:00.000Z");
    const asked = { began, ended: began + 20_000, isRemote: false };
    const at = (seconds: number | null, server = 0) => ({
      store: { host: "PostgreSQL", exists: true, now: seconds === null ? null : new Date(began + seconds * 1_000).toISOString() },
      now: new Date(began + server * 1_000).toISOString(),
    });
    for (const seconds of [-5, 0, 10, 20, 25])
      expect(clockCheck(at(seconds, 99), asked)).toMatchObject({
        status: "ok",
        text: "The clocks of this machine and the store agree",
      });
    expect(clockCheck(at(-60), asked)).toMatchObject({ status: "warn", text: expect.stringContaining("store is 1m behind") });
    expect(clockCheck(at(80), asked)).toMatchObject({ status: "warn", text: expect.stringContaining("store is 1m ahead of") });
    const remote = { ...asked, isRemote: true };
    expect(clockCheck(at(0), remote)).toMatchObject({ status: "ok", text: "The clocks of this machine, the store and the server agree" });
    expect(clockCheck(at(0, 80), remote)).toMatchObject({ status: "warn", text: expect.stringContaining("server is 1m ahead of") });
    expect(clockCheck(at(null), asked)).toMatchObject({ status: "ok", text: "PostgreSQL does not tell its time" });
  });

  test("each finding says what to do", () => {
    expect(nodeCheck("20.18.3")).toMatchObject({ status: "fail", fix: expect.any(String) });
    expect([nodeCheck("20.19.0").status, nodeCheck("22.0.0").status]).toEqual(["ok", "ok"]);
    expect(schemaCheck({ store: { host: "SQLite", exists: true, now: null }, schema: { found: 1, known: 2 } })).toMatchObject({
      status: "fail",
      fix: "Run: holdfast migrate",
    });
    expect(schemaCheck({ store: { host: "SQLite", exists: true, now: null }, schema: { found: 3, known: 2 } }).status).toBe("fail");
    expect(blockedCheck({ blocked: { n: 10_000, capped: true } })).toMatchObject({
      status: "fail",
      text: "10000 or more runs are blocked",
    });
  });
});
