// The process with the user's code: what it answers, and how it is replaced on save.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Holdfast, workflow } from "holdfast";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { CommandCode, loadRequest } from "../../src/code/codeHost.ts";
import { Entries } from "../../src/code/entries.ts";
import { LiveCode } from "../../src/code/liveCode.ts";
import type { OpenRunsResult, ReplayItem, ReplayOutcome } from "../../src/code/protocol.ts";
import { replayAll } from "../../src/code/replayPool.ts";
import { resolveSettings } from "../../src/config/settings.ts";
import { build } from "./built.ts";
import { isRunning, until } from "./commandProcess.ts";
import { project, write } from "./projects.ts";

beforeAll(build);

const ORDER = `import { workflow, signal } from "holdfast";
import { z } from "zod";
export const order = workflow(
  {
    name: "order",
    version: "2",
    serves: ["1"],
    input: z.object({ n: z.number() }),
    signals: { approve: signal(z.object({ by: z.string() })) },
    queries: {
      when: (state: { at: Date }) => new Date(state.at.getTime() + 1),
      fails: () => { throw new Error("not now"); },
    },
  },
  async (ctx, input) => {
    await ctx.step("charge", async () => input.n);
    await ctx.waitForSignal("approve");
    return ctx.step("ship", async () => process.pid);
  },
);
`;
const run = { id: "a", workflow: "order", version: "1", status: "sleeping", state: { at: new Date(1_000) } } as const;

describe("for a command", () => {
  test("queries and schemas are answered by the code; values arrive as what they are", async () => {
    const folder = project({ "workflows.ts": ORDER });
    const code = new CommandCode(await resolveSettings({}, {}, folder), folder);
    onTestFinished(() => code.close());
    await expect(code.describe()).resolves.toMatchObject([{ name: "order", version: "2", versions: ["2", "1"] }]);
    await expect(code.query(run, "when", undefined)).resolves.toEqual(new Date(1_001));
    await expect(code.query(run, "fails", undefined)).rejects.toMatchObject({ code: "HF_QUERY_FAILED" });
    await expect(code.query(run, "unknown", undefined)).rejects.toMatchObject({ code: "HF_QUERY_FAILED" });
    await expect(code.query({ ...run, version: "3" }, "when", undefined)).rejects.toMatchObject({ code: "HF_NO_CODE" });
    await expect(code.validate("order", "2", { kind: "input" }, { n: 1 })).resolves.toEqual([]);
    await expect(code.validate("order", "2", { kind: "input" }, { n: "1" })).resolves.toMatchObject([{ path: ["n"] }]);
    await expect(code.validate("order", "2", { kind: "signal", name: "approve" }, {})).resolves.toMatchObject([{ path: ["by"] }]);
    await expect(code.validate("order", "2", { kind: "signal", name: "other" }, {})).resolves.toBeUndefined();
  });

  test("it says which line asks for an operation, and which one diverges", async () => {
    const folder = project({ "workflows.ts": ORDER });
    const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
    onTestFinished(() => engine.close());
    const before = workflow("order", async (ctx) => {
      await ctx.step("charge", () => 1);
      await ctx.step("pack", () => 2);
    });
    await engine.worker({ workflows: [before] });
    await (await engine.start(before, undefined, { id: "packed" })).result();

    const code = new CommandCode(await resolveSettings({}, {}, folder), folder);
    onTestFinished(() => code.close());
    const packed = { id: "packed", workflow: "order", version: "2" };
    await expect(code.source(packed, undefined, "charge")).resolves.toEqual({ file: "workflows.ts", line: 16, column: 15 });
    await expect(code.source(packed, 1, undefined)).resolves.toEqual({ file: "workflows.ts", line: 17, column: 15 });
    await expect(code.source(packed, 1, "pack")).resolves.toBeNull();
    await expect(code.source({ ...packed, id: "nothing" }, undefined, "charge")).resolves.toBeNull();
  });

  test("no code is HF_NO_CODE, code that throws a usage error", async () => {
    const empty = project();
    const none = new CommandCode(await resolveSettings({}, {}, empty), empty);
    await expect(none.describe()).rejects.toMatchObject({ code: "HF_NO_CODE" });
    const broken = project({ "workflows.ts": "\nthrow new Error('no');\n" });
    const throws = new CommandCode(await resolveSettings({}, {}, broken), broken);
    await expect(throws.describe()).rejects.toMatchObject({ exitCode: 2, message: "workflows.ts:2: no" });
  });
});

test("a changed tsconfig loads the code again; a changed config asks for a restart", async () => {
  const folder = project({
    "workflows.ts": `import "#label";\n${ORDER}`,
    "a.ts": "export {};\n",
    "tsconfig.json": '{"compilerOptions":{"paths":{"#label":["./a.ts"]}}}',
    "holdfast.config.mjs": "export default {};\n",
  });
  const settings = await resolveSettings({}, {}, folder);
  const events: string[] = [];
  const code = new LiveCode({
    settings,
    entries: new Entries(settings),
    cwd: folder,
    workers: undefined,
    events: { reloaded: () => void events.push("reloaded"), error: (message) => void events.push(message) },
  });
  onTestFinished(() => code.close());
  await expect(code.start()).resolves.toMatchObject({ problem: undefined });
  write(folder, { "tsconfig.json": '{"compilerOptions":{"paths":{"#label":["./b.ts"]}}}' });
  await until(() => events.some((event) => /#label/.test(event)));
  write(folder, { "b.ts": "export {};\n" });
  await until(() => events.includes("reloaded"));
  write(folder, { "holdfast.config.mjs": "export default { namespace: 'other' };\n" });
  await until(() => events.some((event) => /^holdfast\.config\.mjs has changed/.test(event)));
});

test("beside a server, code is replaced on save, and open runs are replayed first", async () => {
  const folder = project({
    "workflows/order.ts": `import { label } from "../lib/label.js";\n${ORDER}export { label };\n`,
    "lib/label.ts": 'export const label = "a";\n',
  });
  const settings = await resolveSettings({}, {}, folder);
  const reloads: { workflows: readonly string[]; open: OpenRunsResult | undefined }[] = [];
  const errors: string[] = [];
  const code = new LiveCode({
    settings,
    entries: new Entries(settings),
    cwd: folder,
    workers: settings.workers,
    events: { reloaded: (workflows, open) => void reloads.push({ workflows, open }), error: (message) => void errors.push(message) },
  });
  onTestFinished(() => code.close());
  await expect(code.start()).resolves.toMatchObject({ workflows: ["order"], problem: undefined });
  const engine = await Holdfast.open(settings.url);
  onTestFinished(() => engine.close());
  const first = await engine.start("order", { n: 1 }, { id: "a", version: "2" });
  await until(async () => (await first.describe()).status === "sleeping");

  const before = code.pid;
  write(folder, { "lib/label.ts": 'export const label = "b";\n' });
  await until(() => reloads.length === 1);
  expect(reloads[0]).toMatchObject({ workflows: ["order"], open: { checked: 1, diverged: [], isPartial: false } });
  expect(code.pid).not.toBe(before);
  await until(() => before === undefined || !isRunning(before));

  write(folder, { "workflows/order.ts": ORDER.replace("charge", "check") });
  await until(() => reloads.length === 2);
  expect(reloads[1]).toMatchObject({ open: { diverged: [{ runId: "a", divergence: { location: "charge", source: { line: 16 } } }] } });

  write(folder, { "workflows/order.ts": `import "./missing.js";\n${ORDER}` });
  await until(() => errors.length === 1);
  expect(errors[0]).toMatch(/^workflows\/order\.ts:1: .*missing/);
  await expect(code.describe()).resolves.toMatchObject([{ name: "order" }]);
  write(folder, { "workflows/missing.ts": "export {};\n" });
  await until(() => reloads.length === 3);

  // A database that changes all the time in a folder that is watched is not a save.
  write(folder, { "workflows/app.db-wal": "x" });
  expect(existsSync(join(folder, "workflows/app.db-wal"))).toBe(true);
  await first.resume().catch(() => {});
  await first.signal("approve", { by: "me" });
  await expect(first.result()).resolves.toBe(code.pid);
  expect(reloads).toHaveLength(3);
});

describe("code that never returns", () => {
  const LOOP = `${ORDER}for (;;) {}\n`;
  interface Live {
    readonly code: LiveCode;
    readonly events: string[];
  }
  async function live(folder: string, patience?: { load: number; replay: number }): Promise<Live> {
    const settings = await resolveSettings({}, {}, folder);
    const events: string[] = [];
    const code = new LiveCode({
      settings,
      entries: new Entries(settings),
      cwd: folder,
      workers: settings.workers,
      patience,
      events: { reloaded: (names) => void events.push(`reloaded ${names}`), error: (message) => void events.push(message) },
    });
    onTestFinished(() => code.close());
    return { code, events };
  }

  test("is replaced by the next save, also while it is loaded for the first time", async () => {
    const folder = project({ "workflows.ts": LOOP });
    const { code, events } = await live(folder);
    const started = code.start();
    write(folder, { "workflows.ts": ORDER });
    await until(() => events.length > 0);
    expect(events).toEqual(["reloaded order"]);
    await expect(started).resolves.toEqual({ workflows: [], files: [], problem: undefined });

    write(folder, { "workflows.ts": LOOP });
    await until(() => code.isLoading);
    const before = code.pid;
    write(folder, { "workflows.ts": `${ORDER}// fixed\n` });
    await until(() => events.length > 1);
    expect(events).toEqual(["reloaded order", "reloaded order"]);
    expect(code.pid).not.toBe(before);
  });

  test("does not hold up the end", async () => {
    const { code } = await live(project({ "workflows.ts": LOOP }));
    const started = code.start();
    await until(() => code.isLoading);
    await code.close();
    await started;
  });

  test("is reported after a while, at load and in a replay, and the old code goes on", async () => {
    const folder = project({ "workflows.ts": ORDER });
    const patience = { load: 60_000, replay: 60_000 };
    const { code, events } = await live(folder, patience);
    await code.start();
    const before = code.pid;
    const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
    onTestFinished(() => engine.close());
    const first = await engine.start("order", { n: 1 }, { id: "a", version: "2" });
    await until(async () => (await first.describe()).status === "sleeping");
    patience.replay = 200;
    write(folder, { "workflows.ts": ORDER.replace('await ctx.step("charge"', 'for (;;) {}\n    await ctx.step("charge"') });
    await until(() => events.length === 1);
    patience.load = 200;
    write(folder, { "workflows.ts": LOOP });
    await until(() => events.length === 2);
    expect(events).toEqual([expect.stringMatching(/did not return while open runs/), expect.stringMatching(/not loaded within 0.2 s/)]);
    expect(code.pid).toBe(before);
  });
});

test("a process whose parent is killed while it starts ends, too", async () => {
  const program = `import { CodeProcess } from ${JSON.stringify(new URL("../../dist/code/process.js", import.meta.url).href)};
console.log(new CodeProcess(process.cwd()).pid);
process.kill(process.pid, "SIGKILL");`;
  const parent = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: ["ignore", "pipe", "ignore"] });
  const pid = Number(String(await new Promise((resolve) => parent.stdout.once("data", resolve))));
  expect(pid).toBeGreaterThan(1);
  await until(() => !isRunning(pid));
});

describe("many histories", () => {
  /** Histories of runs that wait for a signal. They differ in their input. */
  async function histories(...ns: number[]): Promise<ReplayItem[]> {
    const engine = await Holdfast.open("memory:");
    const waits = workflow("spin", async (ctx, _: number) => {
      await ctx.waitForSignal("x");
    });
    await engine.worker({ workflows: [waits] });
    const run = await engine.start(waits, 0, { id: "run-0" });
    await until(async () => (await run.describe()).status === "sleeping");
    const recorded = JSON.stringify(await run.history());
    await engine.close();
    return ns.map((n) => {
      const history = JSON.parse(recorded.replaceAll("run-0", `run-${n}`).replaceAll('"input":0', `"input":${n}`));
      return { runId: `run-${n}`, workflow: "spin", version: undefined, history };
    });
  }
  const SPIN = `import { workflow } from "holdfast";
export const spin = workflow("spin", async (ctx, n: number) => {
  if (n === 13) for (;;) {}
  if (n === 7) process.kill(process.pid, "SIGKILL");
  await ctx.waitForSignal("x");
});
`;

  test("a history whose code kills the process, or never returns, is failed; the others get their outcome", async () => {
    const folder = project({ "workflows.ts": SPIN });
    const settings = await resolveSettings({}, {}, folder);
    const load = loadRequest(settings, new Entries(settings).required(), folder);
    const outcomes: ReplayOutcome[] = [];
    const options = { load, strict: false, expected: 200, onOutcome: (outcome: ReplayOutcome) => void outcomes.push(outcome) };
    const most = Array.from({ length: 20 }, (_, n) => n).filter((n) => n !== 13);
    await replayAll(await histories(...most), { ...options, processes: 2 });
    const failed = outcomes.filter(({ status }) => status === "failed").map(({ runId, reason }) => `${runId}: ${reason}`);
    expect(failed).toEqual(["run-7: The code ended the process (SIGKILL)."]);
    expect(new Set(outcomes.map(({ runId }) => runId)).size).toBe(19);
    expect(outcomes).toHaveLength(19);

    outcomes.length = 0;
    await replayAll(await histories(13), { ...options, expected: 1, patience: 200 });
    expect(outcomes).toMatchObject([{ runId: "run-13", status: "failed", reason: "The code did not return within 0.2 s." }]);
  });
});
