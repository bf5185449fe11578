// `holdfast worker`: a worker until SIGTERM, and `holdfast dashboard`: a server without one.

import { existsSync } from "node:fs";
import { Holdfast } from "holdfast";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { holdfast } from "../commands/run.ts";
import { build } from "./built.ts";
import { CommandProcess, until } from "./commandProcess.ts";
import { project } from "./projects.ts";

beforeAll(build);

const CODE = `import { activity, workflow } from "holdfast";
import { existsSync, writeFileSync } from "node:fs";
const mail = activity("mail", async (to: string) => \`sent to \${to}\`);
export { mail };
export default workflow("order", async (ctx) => {
  const sent = await ctx.activity(mail, "you");
  await ctx.step("slow", async () => {
    writeFileSync("slow", "");
    while (!existsSync("go-on")) await new Promise((resolve) => setTimeout(resolve, 10));
  });
  return sent;
});
`;

test("what the config and its codec print goes to stderr", async () => {
  const codec = "{ encode: (v) => { console.log('encodes'); return JSON.stringify(v ?? null); }, decode: (d) => JSON.parse(String(d)) }";
  const folder = project({ "holdfast.config.ts": `console.log("loads"); export default { codec: ${codec} };` });
  const command = new CommandProcess(["runs", "start", "echo", "1", "--id", "a", "--json"], folder);
  await expect(command.ended).resolves.toMatchObject({ code: 0 });
  expect(command.stdout).toBe('{"id":"a","execution":1}\n');
  expect(command.stderr).toMatch(/^loads\n(encodes\n)+$/);
});

describe("worker", () => {
  test("SIGTERM lets running steps end; health is 200 while it claims, and 503 then", async () => {
    const folder = project({ "workflows/order.ts": CODE, "go-on": "" });
    const command = new CommandProcess(["worker", "-o", "jsonl", "--health-port", "0", "--queue", "mail", "--concurrency", "3"], folder);
    const ready = await command.next("ready");
    expect(ready).toMatchObject({ workflows: ["order"], pid: command.pid });
    const health = () =>
      fetch(`http://127.0.0.1:${String(ready["healthPort"])}/`).then(
        ({ status }) => status,
        () => 0,
      );
    await expect(health()).resolves.toBe(200);

    const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
    onTestFinished(() => engine.close());
    await expect(engine.workers()).resolves.toMatchObject([{ queue: "mail", concurrency: 3, activities: ["mail"] }]);
    const run = await engine.start("order", undefined, { queue: "mail" });
    await expect(run.result()).resolves.toBe("sent to you");
    command.child.kill("SIGTERM");
    await expect(command.ended).resolves.toEqual({ code: 0, signal: null });
    await expect(engine.workers()).resolves.toEqual([]);
  });

  test("SIGINT is 130, and a second signal ends it at once", async () => {
    const folder = project({ "workflows/order.ts": CODE });
    const command = new CommandProcess(["worker", "-o", "jsonl", "--health-port", "0"], folder);
    const ready = await command.next("ready");
    const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
    onTestFinished(() => engine.close());
    const run = await engine.start("order");
    await until(async () => (await run.operations()).some(({ name, status }) => name === "slow" && status === "running"));
    command.child.kill("SIGINT");
    // It waits for the step, and claims nothing any more.
    await until(async () => (await fetch(`http://127.0.0.1:${String(ready["healthPort"])}/`)).status === 503);
    command.child.kill("SIGINT");
    await expect(command.ended).resolves.toEqual({ code: 130, signal: null });
  });

  test.each([
    ["throws", { "workflows/order.ts": "\nthrow new Error('no');\n" }, [], 2, "workflows/order.ts:2: no"],
    ["is missing", {}, [], 2, "No workflows found"],
    [
      "is fine, but the store is not ours",
      { "workflows/order.ts": CODE, "app.db": "This is not a database at all." },
      ["--url", "file:app.db"],
      1,
      "app.db",
    ],
    ["is fine, but the url is not known", { "workflows/order.ts": CODE }, ["--url", "mysql://u:secret@h/d"], 2, "mysql"],
  ])("code that %s", async (_, files, args, code, text) => {
    const done = await holdfast(["worker", ...args], { cwd: project(files as Record<string, string>) });
    expect(done).toMatchObject({ code, out: "", err: expect.stringContaining(text) });
    expect(done.err).not.toContain("secret");
  });
});

describe("dashboard", () => {
  test("serves without a worker, and ends with SIGTERM", async () => {
    const folder = project({ "workflows/order.ts": CODE });
    const command = new CommandProcess(["dashboard", "-o", "jsonl", "--port", "0"], folder);
    const ready = await command.next("ready");
    expect(ready).toMatchObject({ token: expect.any(String), workflows: ["order"], pid: command.pid });
    const answer = await fetch(new URL("api/v1/workers", String(ready["url"])), {
      headers: { authorization: `Bearer ${String(ready["token"])}` },
    });
    expect(await answer.json()).toEqual({ workers: [] });
    command.child.kill("SIGTERM");
    await expect(command.ended).resolves.toEqual({ code: 0, signal: null });
  });

  test("with configured tokens makes none, and creates no store if it is read-only", async () => {
    const folder = project({
      "holdfast.config.mjs": `export default { server: { host: "0.0.0.0", port: 0, tokens: [{ name: "ci", hash: "sha256:${"0".repeat(64)}", role: "read" }] } };`,
    });
    const command = new CommandProcess(["dashboard", "-o", "jsonl", "--read-only"], folder);
    await expect(command.next("ready")).resolves.toMatchObject({ token: null, workflows: [], url: expect.not.stringContaining("#") });
    command.child.kill("SIGINT");
    await expect(command.ended).resolves.toEqual({ code: 130, signal: null });
    expect(existsSync(`${folder}/.holdfast`)).toBe(false);
  });

  test("on a host that others reach needs tokens", async () => {
    const done = await holdfast(["dashboard", "--host", "0.0.0.0"], { cwd: project() });
    expect(done).toMatchObject({ code: 2, err: expect.stringContaining("server.tokens") });
  });
});
