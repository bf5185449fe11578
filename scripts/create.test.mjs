// `npm create holdfast` from its tarball: the project that it makes has no type errors, passes its test, builds, runs and replays.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cleanEnvironment, installPacked, pack, runIn } from "./packed.mjs";
import { build } from "./setup.mjs";

const folder = mkdtempSync(join(tmpdir(), "holdfast-create-"));
const project = join(folder, "my-app");
/** @type {import("./packed.mjs").Packed[]} */
let packed;

beforeAll(async () => {
  const { ok, output } = await build();
  if (!ok) throw new Error(output);
  packed = await pack(["create-holdfast", "@holdfast/core", "@holdfast/host", "holdfast", "@holdfast/cli"], folder);
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A script of package.json, or a program of node_modules. @param {string[]} args */
const npm = (...args) => runIn("npm", args, { cwd: project });
/** @param {string[]} args */
const holdfast = (...args) => runIn(join(project, "node_modules/.bin/holdfast"), args, { cwd: project });

test("npx ./create-holdfast-*.tgz makes a project, without a registry, and it works", { timeout: 300_000 }, async () => {
  const [creator] = packed;
  // A cache of its own, so that no other tarball of the same name is used.
  const env = { npm_config_cache: join(folder, "cache"), npm_config_offline: "true", npm_config_prefix: join(folder, "prefix") };
  const args = ["--yes", `./${basename(creator?.tarball ?? "")}`, "my-app", "--store", "sqlite", "--yes"];
  const made = await runIn("npx", args, { cwd: folder, env });
  expect(made).toMatchObject({ code: 0, stderr: "" });
  expect(made.stdout).toContain("Next:\n  cd my-app\n  npm install\n  npm run dev\n");
  expect(readdirSync(project).sort()).toEqual([
    ...[".github", ".gitignore", "README.md", "histories", "holdfast.config.ts", "package.json"],
    ...["src", "test", "tsconfig.build.json", "tsconfig.json"],
  ]);

  const again = await runIn("npx", args, { cwd: folder, env });
  expect(again).toMatchObject({ code: 4, stdout: "", stderr: expect.stringContaining("HF_FILE_EXISTS") });

  await installPacked(project, packed);
  expect(await npm("run", "typecheck")).toMatchObject({ code: 0, stderr: "" });
  expect(await npm("test")).toMatchObject({ code: 0, stdout: expect.stringMatching(/2 passed/) });
  expect(await npm("run", "build")).toMatchObject({ code: 0, stderr: "" });

  // Killed while the run waits, so that another process has to continue it.
  await withWorker("SIGKILL", async () => {
    expect(await holdfast("runs", "start", "signup", '{"email":"ann@example.com"}', "--id", "signup-1")).toMatchObject({
      code: 0,
      stderr: "",
    });
    await expect.poll(async () => (await holdfast("runs", "why", "signup-1")).stdout, { timeout: 60_000 }).toContain("signal");
  });
  expect(await holdfast("runs", "signal", "signup-1", "confirm", '{"by":"ann"}')).toMatchObject({ code: 0, stderr: "" });
  await withWorker("SIGTERM", async () => {
    const { stdout } = await holdfast("runs", "result", "signup-1", "--json");
    expect(JSON.parse(stdout)).toEqual({ account: "account of ann@example.com", status: "confirmed", by: "ann" });
  });
  expect(await holdfast("replay", "histories/signup.json")).toMatchObject({ code: 0, stdout: expect.stringContaining("1 passed") });
});

/** Runs `npm start`'s program until the work is done. @param {NodeJS.Signals} signal @param {() => Promise<void>} work */
async function withWorker(signal, work) {
  const { start } = JSON.parse(readFileSync(join(project, "package.json"), "utf8")).scripts;
  const [, program = ""] = /^node (\S+)$/.exec(start) ?? [];
  const child = spawn(process.execPath, [program], { cwd: project, env: cleanEnvironment(), stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((done) => child.once("exit", (code) => done(code)));
  const ready = new Promise((done) => child.stdout.once("data", done));
  try {
    await Promise.race([ready, ended]);
    await work();
  } finally {
    child.kill(signal);
  }
  expect(await ended).toBe(signal === "SIGKILL" ? null : 0);
}
