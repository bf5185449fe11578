// What needs the code of workflows: checks of values and queries, by what workers have registered, by a code host, and without either.

import { HoldfastError } from "holdfast";
import { describe, expect, test } from "vitest";
import type { CodeHost, RunForQuery } from "../../src/api/context.ts";
import { createConsole } from "../../src/server/index.ts";
import { ask, STORES, TOKEN_ENTRIES, worldOn } from "./world.ts";

interface Refusal {
  readonly code: string;
  readonly issues: readonly { readonly path: readonly unknown[] }[];
}

describe.each(STORES)("on %s, by what workers have registered", (store) => {
  const world = worldOn(store);
  const start = (input: unknown, more: object = {}) =>
    world.ask("POST", "runs", { body: { workflow: "order", version: "2", input, ...more } });

  test("workflows and what their messages look like", async () => {
    type Workflow = { name: string; version: string | null; input: { properties: object } | null; queries: string[]; signals: object };
    const { workflows } = (await (await world.ask("GET", "workflows")).json()) as { workflows: Workflow[] };
    const order = workflows.find(({ name }) => name === "order");
    expect(order).toMatchObject({ version: "2", queries: ["total"], input: { properties: { n: { type: "number" } } } });
    expect(Object.keys(order?.signals ?? {})).toEqual(["approve"]);
    expect(workflows.map(({ name }) => name)).toEqual(expect.arrayContaining(["waiting", "echo"]));
  });
  test("a start with a wrong input is refused with its issues, and nothing is started", async () => {
    for (const input of [{ n: "three" }, {}, "text", null]) {
      const response = await start(input, { id: "never" });
      expect(response.status).toBe(400);
      const { code, issues } = (await response.json()) as Refusal;
      expect(code).toBe("HF_INVALID_INPUT");
      expect(issues.length).toBeGreaterThan(0);
    }
    expect(((await (await start({ n: "three" })).json()) as Refusal).issues[0]?.path).toEqual(["n"]);
    expect((await world.ask("GET", "runs/never")).status).toBe(404);
    expect((await start({ n: 3 }, { id: "checked" })).status).toBe(201);
  });
  test("so are signals, updates, and inputs of schedules", async () => {
    expect((await start({ n: 3 }, { id: "messages" })).status).toBe(201);
    expect((await world.ask("POST", "runs/messages/signals/approve", { body: { by: 1 } })).status).toBe(400);
    expect((await world.ask("POST", "runs/messages/updates/add", { body: { n: "1" } })).status).toBe(400);
    expect((await start({ n: 3 }, { signals: [{ name: "approve", payload: {} }] })).status).toBe(400);
    const schedule = { workflow: "order", start: { version: "2" }, every: "1d", input: { n: "3" } };
    expect((await world.ask("PUT", "schedules/bad", { body: schedule })).status).toBe(400);
    expect((await world.ask("POST", "runs/messages/signals/approve", { body: { by: "me" } })).status).toBe(202);
  });
  test("an input that may be left out is not missed, and is checked where it is given", async () => {
    const begun = (more: object) => world.ask("POST", "runs", { body: { workflow: "maybe", ...more } });
    expect((await begun({ id: "left-out" })).status).toBe(201);
    await expect(world.engine.run("left-out").result()).resolves.toBe("nothing");
    expect((await begun({ input: { n: "1" } })).status).toBe(400);
    expect((await begun({ input: { n: 1 } })).status).toBe(201);
    expect((await world.ask("POST", "runs", { body: { workflow: "order" } })).status).toBe(400);
  });
  test("a query is answered where a worker of this process serves the workflow", async () => {
    expect((await start({ n: 4 }, { id: "asked" })).status).toBe(201);
    const query = async () => (await world.ask("POST", "runs/asked/queries/total", { body: 1 })).text();
    await expect.poll(query, { interval: 10 }).toBe("5");
  });
});

describe("by a code host", () => {
  const world = worldOn("memory");
  const asked: RunForQuery[] = [];
  const code: CodeHost = {
    describe: async () => [
      { name: "unborn", version: "1", versions: ["1"], schemas: { input: { type: "string" }, signals: {}, updates: {}, queries: ["q"] } },
    ],
    query: async (run, name, input) => {
      asked.push(run);
      return { name, input };
    },
    source: async ({ id }, execution, location) => (id === "unborn" ? { file: `${location}.ts`, line: execution ?? 1, column: 3 } : null),
    validate: async (workflow, _version, part, value) => {
      if (workflow !== "unborn") return undefined;
      return part.kind === "input" && typeof value !== "string" ? [{ message: "It must be text.", path: ["x"] }] : [];
    },
  };
  test("its workflows are listed, its schemas count, and it answers queries with the published state", async () => {
    const console = createConsole(world.engine, { tokens: TOKEN_ENTRIES, code });
    const call = (method: string, path: string, body?: unknown) =>
      ask(console.fetch, `http://localhost/api/v1/${path}`, { method, ...(body !== undefined && { body }) });
    const { workflows } = (await (await call("GET", "workflows")).json()) as { workflows: { name: string; workers: string[] }[] };
    expect(workflows.find(({ name }) => name === "unborn")?.workers).toEqual([]);
    expect((await call("POST", "runs", { workflow: "unborn", input: 1 })).status).toBe(400);
    expect((await call("POST", "runs", { workflow: "unborn", input: "x", id: "unborn" })).status).toBe(201);
    expect((await call("POST", "runs", { workflow: "order", version: "2", input: { n: "x" } })).status).toBe(400);
    await world.engine.start("order", { n: 2 }, { id: "with-state", version: "2" });
    await expect.poll(async () => (await world.engine.run("with-state").state()) !== undefined, { interval: 10 }).toBe(true);
    const answer = await call("POST", "runs/with-state/queries/anything?tagged=1", { $date: "2020-01-01T00:00:00.000Z" });
    expect(await answer.json()).toEqual({ name: "anything", input: { $date: "2020-01-01T00:00:00.000Z" } });
    expect(asked).toMatchObject([{ id: "with-state", workflow: "order", version: "2", state: { total: 2 } }]);
    const source = await call("GET", "runs/unborn/source?location=charge&execution=2");
    expect(await source.json()).toEqual({ source: { file: "charge.ts", line: 2, column: 3 } });
    expect(await (await call("GET", "runs/with-state/source")).json()).toEqual({ source: null });
    expect((await call("GET", "runs/nothing/source")).status).toBe(404);
    expect(((await (await call("GET", "health")).json()) as { features: { code: boolean } }).features.code).toBe(true);
    await console.close();
  });
  test("code that can't be loaded, or lacks the workflow, stops neither starts nor messages: what workers registered counts", async () => {
    const lacks = () => Promise.reject(new HoldfastError("The code has no such workflow.", { code: "HF_NO_CODE" }));
    const console = createConsole(world.engine, {
      tokens: TOKEN_ENTRIES,
      code: { describe: lacks, query: lacks, source: lacks, validate: lacks },
    });
    const call = (method: string, path: string, body?: unknown) =>
      ask(console.fetch, `http://localhost/api/v1/${path}`, { method, ...(body !== undefined && { body }) });
    const { workflows } = (await (await call("GET", "workflows")).json()) as { workflows: { name: string }[] };
    expect(workflows.map(({ name }) => name)).toContain("order");
    expect((await call("POST", "runs", { workflow: "order", input: { n: "x" } })).status).toBe(400);
    expect((await call("POST", "runs", { workflow: "order", input: { n: 1 }, id: "not-here" })).status).toBe(201);
    expect((await call("POST", "runs/not-here/signals/approve", { by: "me" })).status).toBe(202);
    expect((await call("PUT", "schedules/not-here", { workflow: "elsewhere", every: "1d" })).status).toBe(200);
    expect((await call("POST", "runs/not-here/queries/total")).status).toBe(409);
    await console.close();
  });
  test("without code: 409 HF_NO_CODE", async () => {
    await world.engine.start("elsewhere", {}, { id: "elsewhere" });
    for (const response of [await world.ask("POST", "runs/elsewhere/queries/q"), await world.ask("GET", "runs/elsewhere/source")])
      expect([response.status, ((await response.json()) as Refusal).code]).toEqual([409, "HF_NO_CODE"]);
  });
});
