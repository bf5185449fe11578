// `holdfast dev`: server and worker, reload on save, and children that end with their parent.

import { existsSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { startServer } from "@holdfast/postgres-server";
import { Holdfast } from "holdfast";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { openHttp } from "../../src/client/http.ts";
import { holdfast } from "../commands/run.ts";
import { build } from "./built.ts";
import { CommandProcess, isRunning, until } from "./commandProcess.ts";
import { project, write } from "./projects.ts";

beforeAll(build);

const ORDER = `import { workflow } from "holdfast";
console.log("the code is loaded");
export const order = workflow({ name: "order", queries: { total: (state: number) => state * 2 } }, async (ctx, input: { n: number }) => {
  await ctx.step("charge", async () => input.n);
  ctx.publishState(input.n);
  await ctx.waitForSignal("approve");
  return await ctx.step("ship", async () => ({ pid: process.pid, code: "first" }));
});
`;

async function engineOf(folder: string): Promise<Holdfast> {
  const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
  onTestFinished(() => engine.close());
  return engine;
}
const dev = (folder: string, ...args: string[]) => new CommandProcess(["dev", "-o", "jsonl", "--port", "0", ...args], folder);

test("a project gets a worker and a dashboard, and each save is replayed before the new code gets the runs", async () => {
  const folder = project({ "workflows/order.ts": ORDER });
  const command = dev(folder);
  const ready = await command.next("ready");
  expect(ready).toEqual({
    event: "ready",
    url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/#token=[\w-]{20,}$/),
    token: expect.any(String),
    store: `file:${folder}/.holdfast/holdfast.db`,
    workflows: ["order"],
    pid: command.pid,
  });

  // The worker works, and the server answers queries with the code of the worker.
  const engine = await engineOf(folder);
  const run = await engine.start("order", { n: 21 }, { id: "a" });
  await until(async () => (await run.describe()).status === "sleeping");
  const ask = (path: string, token: string) =>
    fetch(new URL(path, String(ready["url"])), {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    });
  const answer = await ask("api/v1/runs/a/queries/total", String(ready["token"]));
  expect({ status: answer.status, body: await answer.json() }).toEqual({ status: 200, body: 42 });
  expect((await ask("api/v1/runs/a/queries/total", "wrong")).status).toBe(401);

  // A change that open runs don't survive is said before they block.
  write(folder, { "workflows/order.ts": ORDER.replace('  await ctx.step("charge"', '\n  await ctx.step("check"') });
  await expect(command.next("reloaded")).resolves.toEqual({
    event: "reloaded",
    workflows: ["order"],
    diverged: [{ runId: "a", location: "charge", source: { file: "workflows/order.ts", line: 5, column: expect.any(Number) } }],
  });

  // Code that can't be loaded is reported; the code before it goes on.
  write(folder, { "workflows/order.ts": `${ORDER}\nthrow new Error("not today");\n` });
  await expect(command.next("error")).resolves.toMatchObject({ message: expect.stringMatching(/^workflows\/order\.ts:10: .*not today/) });
  const other = await engine.start("order", { n: 1 }, { id: "b" });
  await until(async () => (await other.describe()).status === "sleeping");

  // A file that is added is an entry, too; and what is saved last counts.
  write(folder, {
    "workflows/order.ts": ORDER.replace("first", "second"),
    "workflows/more/refund.ts": ORDER.replaceAll("order", "refund"),
  });
  await until(async () => JSON.stringify((await command.next("reloaded"))["workflows"]) === '["order","refund"]');
  await run.resume().catch(() => {});
  const third = await engine.start("order", { n: 1 }, { id: "c" });
  await third.signal("approve");
  const result = (await third.result()) as { pid: number; code: string };
  expect(result.code).toBe("second");
  expect(result.pid).not.toBe(command.pid);

  // A worker that dies is replaced.
  process.kill(result.pid, "SIGKILL");
  await expect(command.next("error")).resolves.toMatchObject({ message: expect.stringContaining("SIGKILL") });
  const fourth = await engine.start("order", { n: 1 }, { id: "d" });
  await fourth.signal("approve");
  const again = (await fourth.result()) as { pid: number };
  expect(again.pid).not.toBe(result.pid);

  command.child.kill("SIGTERM");
  await expect(command.ended).resolves.toEqual({ code: 0, signal: null });
  await until(() => !isRunning(again.pid));
  expect(command.stderr).toContain("the code is loaded");
  expect(command.stdout).not.toContain("the code is loaded");
});

test("children end with a parent that is killed, even if their code never yields", async () => {
  const folder = project({
    "workflows/order.ts": `import { workflow } from "holdfast";
import { writeFileSync } from "node:fs";
export const order = workflow("order", async (ctx) => {
  await ctx.step("spin", () => {
    writeFileSync(${JSON.stringify("spinning")}, String(process.pid));
    for (;;) {}
  });
});
`,
  });
  const command = dev(folder);
  await command.next("ready");
  const engine = await engineOf(folder);
  await engine.start("order", undefined, { id: "a" });
  await until(() => existsSync(join(folder, "spinning")));
  await until(() => readFileSync(join(folder, "spinning"), "utf8") !== "");
  const pid = Number(readFileSync(join(folder, "spinning"), "utf8"));
  expect(isRunning(pid)).toBe(true);
  command.child.kill("SIGKILL");
  await until(() => !isRunning(pid));
});

test("without code it says so, and waits for a save; SIGINT is 130", async () => {
  const folder = project();
  const command = dev(folder);
  await expect(command.next("ready")).resolves.toMatchObject({ workflows: [] });
  await expect(command.next("error")).resolves.toMatchObject({ message: expect.stringContaining("No workflows found") });
  write(folder, { "src/workflows.ts": ORDER });
  await expect(command.next("reloaded")).resolves.toMatchObject({ workflows: ["order"], diverged: [] });
  command.child.kill("SIGINT");
  await expect(command.ended).resolves.toEqual({ code: 130, signal: null });
});

test("a changed configuration is used at once, pages reconnect, and one that can't be used changes nothing", async () => {
  const config = (fields: string) => ({ "holdfast.config.ts": `import { queue } from "./queue.ts";\nexport default { ${fields} };\n` });
  const folder = project({
    ...config("workers: [{ queue }]"),
    "queue.ts": 'export const queue: string = "one";\n',
    "workflows/order.ts": ORDER,
  });
  const command = dev(folder);
  const ready = await command.next("ready");
  const engine = await engineOf(folder);
  const queues = async () => (await engine.workers()).map(({ queue }) => queue);
  await until(async () => String(await queues()) === "one");
  const client = openHttp(String(ready["url"]));
  onTestFinished(() => client.close());
  const events = client.events(["run:a"])[Symbol.asyncIterator]();

  // What can't be read, and what can't be served: both are said, and all goes on.
  write(folder, config("workers: [{ queue, speed: 1 }]"));
  await expect(command.next("error")).resolves.toMatchObject({
    message: expect.stringMatching(/"workers\[0\]\.speed".*\n.*stays in use/s),
  });
  write(folder, config('server: { host: "0.0.0.0" }'));
  await expect(command.next("error")).resolves.toMatchObject({ message: expect.stringMatching(/no token.*stays in use/s) });
  expect(await client.call("health")).toMatchObject({ readOnly: false });
  await engine.start("order", { n: 1 }, { id: "a", queue: "one" });
  await expect(events.next()).resolves.toMatchObject({ value: { event: "run" } });

  // Same port, same token: the page has what it needs, and its stream comes back.
  write(folder, config("workers: [{ queue }], server: { readOnly: true }"));
  await expect(command.next("ready")).resolves.toEqual(ready);
  expect(await client.call("health")).toMatchObject({ readOnly: true });
  const later = (async () => {
    for (;;) {
      const { value } = await events.next();
      if ((value as { data?: { status?: unknown } } | undefined)?.data?.status === "completed") return "completed";
    }
  })();
  await engine.run("a").signal("approve");
  await expect(later).resolves.toBe("completed");

  // What the configuration imports belongs to it.
  write(folder, { "queue.ts": 'export const queue: string = "two";\n' });
  await command.next("ready");
  await until(async () => String(await queues()) === "two");

  // A save of the code is only that.
  write(folder, { "workflows/order.ts": ORDER.replace("first", "second") });
  await expect(command.next("reloaded")).resolves.toMatchObject({ workflows: ["order"] });

  // Code that the new configuration does not find: the old code goes on, and a save fixes it.
  write(folder, config('workers: [{ queue }], entry: "code/*.ts"'));
  await expect(command.next("error")).resolves.toMatchObject({ message: expect.stringContaining("code/*.ts") });
  const b = await engine.start("order", { n: 1 }, { id: "b", queue: "two" });
  await b.signal("approve");
  await expect(b.result()).resolves.toMatchObject({ code: "second" });
  write(folder, { "code/order.ts": ORDER.replace("first", "third") });
  await expect(command.next("reloaded")).resolves.toMatchObject({ workflows: ["order"] });

  command.child.kill("SIGTERM");
  await expect(command.ended).resolves.toEqual({ code: 0, signal: null });
});

test("a configuration may come later, and name another port", async () => {
  const folder = project({ "workflows/order.ts": ORDER });
  const command = new CommandProcess(["dev", "-o", "jsonl"], folder);
  const ready = await command.next("ready");
  write(folder, { "holdfast.config.mjs": 'export default { url: "file:other.db", server: { port: 0 } };' });
  const again = await command.next("ready");
  expect(again).toMatchObject({ store: `file:${folder}/other.db`, token: ready["token"], pid: ready["pid"] });
  expect(new URL(String(again["url"])).port).not.toBe(new URL(String(ready["url"])).port);
  await expect(openHttp(String(again["url"])).call("health")).resolves.toMatchObject({ store: { exists: true } });
  // The old port may belong to another server by now. That one does not know the token.
  await expect(openHttp(String(ready["url"])).call("health")).rejects.toMatchObject({
    code: expect.stringMatching(/^HF_(UNREACHABLE|UNAUTHORIZED)$/),
  });
  rmSync(join(folder, "holdfast.config.mjs"));
  await expect(command.next("error")).resolves.toMatchObject({ message: expect.stringContaining("holdfast.config.mjs is gone") });
  await expect(openHttp(String(again["url"])).call("health")).resolves.toMatchObject({ ok: true });
});

test.each(["dev", "dashboard", "worker"])("%s ends by SIGTERM with 0 while the code never returns", async (name) => {
  const folder = project({ "workflows.ts": `process.stderr.write("loading");\nfor (;;) {}\n` });
  const command = new CommandProcess([name, "-o", "jsonl", ...(name === "worker" ? [] : ["--port", "0"])], folder);
  await until(() => command.stderr.includes("loading"));
  command.child.kill("SIGTERM");
  await expect(command.ended).resolves.toEqual({ code: 0, signal: null });
});

describe("the store", () => {
  test("is deleted first with --fresh", async () => {
    const folder = project({ "workflows.ts": ORDER });
    const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
    await engine.start("order", { n: 1 }, { id: "old" });
    await engine.close();
    const command = dev(folder, "--fresh");
    await command.next("ready");
    const { runs } = await (await engineOf(folder)).list();
    expect(runs).toEqual([]);
  });

  test.each([
    [["--fresh", "--url", "postgres://u:secret@127.0.0.1:1/x"], 4, "--fresh"],
    [["--url", "memory:"], 4, "memory:"],
    [["--url", "http://127.0.0.1:1/"], 4, "dashboard"],
    [["--port", "x"], 2, "--port"],
  ])("with %j it ends with %i", async (args, code, text) => {
    const done = await holdfast(["dev", ...args], { cwd: project({ "workflows.ts": ORDER }) });
    expect(done).toMatchObject({ code, err: expect.stringContaining(text) });
    expect(done.err).not.toContain("secret");
  });
});

test("PostgreSQL is migrated only if that was asked for, and its password is not shown", async () => {
  const server = await startServer();
  onTestFinished(() => server.stop());
  const folder = project({ "workflows.ts": ORDER });
  const url = await server.createDatabase();
  await expect(holdfast(["dev", "--url", url], { cwd: folder })).resolves.toMatchObject({
    code: 2,
    err: expect.stringContaining("--migrate"),
  });
  const command = dev(folder, "--migrate", "--url", url);
  const ready = await command.next("ready");
  expect(ready).toMatchObject({ workflows: ["order"], store: expect.stringMatching(/^postgres/) });
  expect(ready["store"]).not.toContain(`:${new URL(url).password}@`);
  command.child.kill("SIGTERM");
  await expect(command.ended).resolves.toEqual({ code: 0, signal: null });
});

test("a given port that is taken is 1, and named", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  const command = new CommandProcess(["dev", "--port", String(port)], project({ "workflows.ts": ORDER }));
  await expect(command.ended).resolves.toEqual({ code: 1, signal: null });
  expect(command.stderr).toContain(String(port));
});
