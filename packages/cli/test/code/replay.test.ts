// `holdfast replay`: every open run against this code.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { type AnyWorkflow, Holdfast, workflow } from "holdfast";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createConsole, hashToken, listen } from "../../src/server/index.ts";
import { holdfast } from "../commands/run.ts";
import { build } from "./built.ts";
import { BIN, until } from "./commandProcess.ts";
import { project, write } from "./projects.ts";

beforeAll(build);

const order = workflow("order", async (ctx, input: { n: number }) => {
  await ctx.step("charge", async () => input.n, { timeout: "1m" });
  await ctx.waitForSignal("approve");
  await ctx.step("ship", async () => "ok");
});
const gone = workflow("gone", async (ctx) => {
  await ctx.waitForSignal("never");
});
const ORDER = `import { workflow } from "holdfast";
console.log("the code is loaded");
export const order = workflow("order", async (ctx, input: { n: number }) => {
  await ctx.step("charge", async () => input.n, { timeout: "1m" });
  await ctx.waitForSignal("approve");
  await ctx.step("ship", async () => "ok");
});
`;
const CHANGED = ORDER.replace('  await ctx.step("charge"', '  // stock first\n  await ctx.step("check-stock"');

/** A project whose store has open runs of these workflows, which wait for a signal. */
async function projectWith(runs: readonly { workflow: AnyWorkflow; id: string; n?: number }[], code = ORDER): Promise<string> {
  const folder = project({ "workflows/order.ts": code });
  const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
  await engine.worker({ workflows: [order, gone], queue: "default" });
  for (const { workflow: of, id, n } of runs) {
    const run = await engine.start(of, { n: n ?? 0 } as never, { id });
    await until(async () => (await run.describe()).status === "sleeping");
  }
  await engine.close();
  return folder;
}

/** In this process: only the user's code has one of its own. */
async function replay(
  folder: string,
  ...args: string[]
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const { code, out, err } = await holdfast(["replay", ...args], { cwd: folder });
  return { code, stdout: out, stderr: err };
}
const json = async (folder: string, ...args: string[]) => {
  const { code, stdout } = await replay(folder, "--json", ...args);
  return { code, report: JSON.parse(stdout) };
};

test("code that fits passes with 0, and a run without a turn passes if its code exists", async () => {
  const folder = await projectWith([
    { workflow: order, id: "a" },
    { workflow: order, id: "b" },
  ]);
  const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
  await engine.start(order, { n: 1 }, { id: "later", delay: "1h" });
  await engine.close();
  const { code, report } = await json(folder);
  expect(report).toEqual({
    checked: 3,
    passed: 3,
    diverged: 0,
    skipped: 0,
    failed: 0,
    groups: [],
    results: ["later", "b", "a"].map((runId) => ({ runId, status: "passed" })),
  });
  expect(code).toBe(0);
});

test("code that differs is 6, in groups with the position in the source", async () => {
  const folder = await projectWith(
    [
      { workflow: order, id: "a" },
      { workflow: order, id: "b" },
    ],
    CHANGED,
  );
  const { code, report } = await json(folder);
  expect(code).toBe(6);
  expect(report).toMatchObject({ checked: 2, passed: 0, diverged: 2, skipped: 0, failed: 0 });
  expect(report.groups).toEqual([
    {
      workflow: "order",
      location: "charge",
      field: "name",
      expected: 'step "charge"',
      actual: 'step "check-stock"',
      source: { file: "workflows/order.ts", line: 5, column: expect.any(Number) },
      count: 2,
      example: "b",
      advice: expect.stringContaining("ctx.patched"),
    },
  ]);

  const human = await replay(folder, "--github", "--junit", "out.xml");
  expect(human.code).toBe(6);
  expect(human.stdout).toContain("::error file=workflows/order.ts,line=5,col=");
  expect(human.stdout).toContain("2 runs of order would block at charge, workflows/order.ts:5:");
  expect(readFileSync(join(folder, "out.xml"), "utf8")).toContain('tests="2" failures="2" errors="0" skipped="0"');
});

describe("runs that can't be checked", () => {
  test("without code are skipped: 0, and 6 with --strict", async () => {
    const folder = await projectWith([
      { workflow: order, id: "a" },
      { workflow: gone, id: "g" },
    ]);
    await expect(json(folder, "--min", "2")).resolves.toMatchObject({ code: 0, report: { checked: 2, passed: 1, skipped: 1 } });
    await expect(json(folder, "--strict")).resolves.toMatchObject({ code: 6, report: { checked: 2, passed: 1, skipped: 1 } });
    await expect(json(folder, "--sample", "1", "--min", "2")).resolves.toMatchObject({ code: 6, report: { checked: 1 } });
    await expect(json(folder, "--workflow", "order")).resolves.toMatchObject({ code: 0, report: { checked: 1, passed: 1, skipped: 0 } });
  });

  test("because their code ends the process are failed: 6, and the others are checked", async () => {
    const ends = ORDER.replace(
      "  await ctx.step",
      '  if (input.n === 1) process.exit(0);\n  if (input.n === 2) process.kill(process.pid, "SIGKILL");\n  await ctx.step',
    );
    const runs = [0, 1, 2, 3].map((n) => ({ workflow: order, id: `run-${n}`, n }));
    const folder = await projectWith(runs, ends);
    const { code, report } = await json(folder);
    expect(code).toBe(6);
    expect(report.results).toEqual([
      { runId: "run-3", status: "passed" },
      { runId: "run-2", status: "failed" },
      { runId: "run-1", status: "failed" },
      { runId: "run-0", status: "passed" },
    ]);
  });
});

test("--strict counts changed options", async () => {
  const folder = await projectWith([{ workflow: order, id: "a" }], ORDER.replace("1m", "2m"));
  await expect(json(folder)).resolves.toMatchObject({ code: 0, report: { passed: 1 } });
  await expect(json(folder, "--strict")).resolves.toMatchObject({
    code: 6,
    report: { diverged: 1, groups: [{ field: "timeout", location: "charge" }] },
  });
});

test("a store that does not exist is empty, and is not created", async () => {
  const folder = project({ "workflows/order.ts": ORDER });
  await expect(json(folder, "--min", "1")).resolves.toMatchObject({ code: 6, report: { checked: 0, groups: [], results: [] } });
  const { stdout } = await replay(folder, "--min", "1");
  expect(stdout).toContain("0 runs checked: 0 passed, 0 diverged, 0 skipped, 0 failed. Fewer than 1 run was checked (--min).");
  expect(() => readFileSync(join(folder, ".holdfast/holdfast.db"))).toThrow("ENOENT");
});

test("values are read with the codec of the configuration", async () => {
  const folder = project({
    "workflows/order.ts": CHANGED,
    "holdfast.config.ts": `import { defineConfig } from "@holdfast/cli/config";
const flip = (text: string) => [...text].reverse().join("");
export default defineConfig({ codec: { encode: (value) => flip(JSON.stringify(value) ?? "null"), decode: (data) => JSON.parse(flip(String(data))) } });
`,
  });
  const flip = (text: string) => [...text].reverse().join("");
  const codec = {
    encode: (value: unknown) => flip(JSON.stringify(value) ?? "null"),
    decode: (data: unknown) => JSON.parse(flip(String(data))),
  };
  const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`, { codec });
  await engine.worker({ workflows: [order] });
  const run = await engine.start(order, { n: 1 }, { id: "a" });
  await until(async () => (await run.describe()).status === "sleeping");
  await engine.close();
  await expect(json(folder)).resolves.toMatchObject({ code: 6, report: { diverged: 1, failed: 0 } });
});

test("over HTTP it is the same, with a token that may see values", async () => {
  const folder = await projectWith([{ workflow: order, id: "a" }], CHANGED);
  const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
  const tokens = ["sees", "blind"].map((name) => ({ name, hash: hashToken(name), role: "read" as const, values: name === "sees" }));
  const server = await listen(createConsole(engine, { tokens }), { port: 0 });
  onTestFinished(async () => {
    await server.close();
    await engine.close();
  });
  await expect(json(folder, "--url", server.url, "--token", "sees")).resolves.toMatchObject({
    code: 6,
    report: { checked: 1, diverged: 1, groups: [{ source: { file: "workflows/order.ts", line: 5 } }] },
  });
  await expect(replay(folder, "--url", server.url, "--token", "blind")).resolves.toMatchObject({
    code: 4,
    stdout: "",
    stderr: expect.stringContaining("may not see values"),
  });
});

describe("files", () => {
  test("are replayed instead of a store", async () => {
    const folder = await projectWith([{ workflow: order, id: "a" }]);
    const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
    onTestFinished(() => engine.close());
    write(folder, { "a.json": JSON.stringify(await engine.run("a").history()) });
    await engine.start(order, { n: 2 }, { id: "not in a file" });
    await expect(json(folder, "a.json")).resolves.toMatchObject({ code: 0, report: { results: [{ runId: "a", status: "passed" }] } });
  });

  test.each([
    ["{}", "is not a history"],
    ["nothing", "is not JSON"],
    ['{"format":"holdfast-history/1","run":{"workflow":"order"},"turns":[{"jobs":1}]}', "is not a history"],
    ['{"events":[]}', "is not a history"],
    [undefined, "can't be read"],
  ])("%s is refused with the name of the file", async (content, problem) => {
    const folder = project({ "workflows/order.ts": ORDER, ...(content !== undefined && { "odd.json": content }) });
    const { code, stdout, stderr } = await replay(folder, "odd.json");
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("odd.json");
    expect(stderr).toContain(problem);
  });
});

describe("code that can't be used is 2", () => {
  test.each([
    ["throws", `${ORDER}\nthrow new Error("no database");\n`, /workflows\/order\.ts:9: .*no database/],
    ["is not TypeScript", "export const = 1;\n", /workflows\/order\.ts:1: /],
    ["imports what is missing", `${ORDER}import { x } from "./missing.js";\nconsole.log(x);\n`, /workflows\/order\.ts:8: .*missing/],
    ["ends the process", "process.exit(0);\n", /workflows\/order\.ts:1: The code ended the process/],
    ["has no workflows", "export const a = 1;\n", /workflows\/order\.ts:1\): export what workflow/],
    ["has two of the same name", `${ORDER}export const other = workflow("order", async () => {});\n`, /There are two workflows "order"/],
  ])("when it %s", async (_, code, message) => {
    const result = await replay(project({ "workflows/order.ts": code }));
    expect(result).toMatchObject({ code: 2, stdout: "", stderr: expect.stringMatching(message) });
  });

  test("when there is none", async () => {
    await expect(replay(project())).resolves.toMatchObject({ code: 2, stderr: expect.stringContaining("No workflows found") });
  });
});

test("as a process: the exit code is real, and standard output is the report alone", async () => {
  const folder = await projectWith([{ workflow: order, id: "a" }], CHANGED);
  const failure = await promisify(execFile)(process.execPath, [BIN, "replay", "--json"], { cwd: folder }).then(
    () => undefined,
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
  expect(failure).toMatchObject({ code: 6, stderr: expect.stringContaining("the code is loaded") });
  expect(JSON.parse(failure?.stdout ?? "")).toMatchObject({ diverged: 1 });
});
