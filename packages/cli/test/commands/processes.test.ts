// The command as a process: streams, signals, exit codes.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Holdfast } from "holdfast";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newFolder } from "./run.ts";

// Two folders below the package, as the built files are: the program finds package.json from there.
const outDir = join(import.meta.dirname, "../../.cache", `${process.pid}`);
const EXTERNAL = ["libsql", "pg", "oxc-transform", "oxc-resolver"];
beforeAll(async () => {
  await build({
    configFile: false,
    logLevel: "error",
    ssr: { noExternal: true, external: EXTERNAL, resolve: { conditions: ["@holdfast/source"] } },
    build: {
      ssr: join(import.meta.dirname, "../../src/bin.ts"),
      outDir,
      minify: false,
      rollupOptions: { external: EXTERNAL, output: { entryFileNames: "bin.mjs", chunkFileNames: "[name].mjs" } },
    },
  });
});
afterAll(() => rmSync(outDir, { recursive: true, force: true }));

function start(...args: string[]): ChildProcessWithoutNullStreams {
  return spawn(process.execPath, [join(outDir, "bin.mjs"), ...args], { cwd: newFolder(), env: { PATH: process.env["PATH"] } });
}
async function ended(child: ChildProcessWithoutNullStreams) {
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    err += chunk.toString();
  });
  const [code, signal] = await once(child, "close");
  return { code, signal, out, err };
}

test("help is 0, a mistake is 2", async () => {
  const [help, mistake] = await Promise.all([ended(start("--help")), ended(start("runs", "lst", "--json"))]);
  expect(help).toMatchObject({ code: 0, out: expect.stringContaining("Usage: holdfast"), err: "" });
  expect(mistake).toMatchObject({ code: 2, out: "" });
  expect(JSON.parse(mistake.err)).toMatchObject({ code: "HF_USAGE" });
});

test("a reader of errors that has gone does not change the exit code", async () => {
  const child = start("runs", "show", "nothing", "--json");
  child.stderr.destroy();
  const [code] = await once(child, "exit");
  expect(code).toBe(3);
});

test("values are read from standard input, and large results are written out whole", async () => {
  const path = join(newFolder(), "app.db");
  const url = ["--url", `file:${path}`];
  const text = "x".repeat(300_000);
  const started = start("runs", "start", "echo", "-", "--id", "large", ...url, "--json");
  started.stdin.end(JSON.stringify(text));
  expect(await ended(started)).toMatchObject({ code: 0, out: '{"id":"large","execution":1}\n', err: "" });
  const shown = await ended(start("runs", "show", "large", "--history", "--json", ...url));
  expect(shown.code).toBe(0);
  expect(JSON.parse(shown.out).run.input).toBe(text);
});

test("SIGINT ends a command that waits: 130; its timeout does: 7", async () => {
  const path = join(newFolder(), "app.db");
  const engine = await Holdfast.open(`file:${path}`);
  await engine.start("echo", 1, { id: "a" });
  await engine.close();
  const watching = start("runs", "watch", "a", "--url", `file:${path}`, "-o", "jsonl");
  const end = ended(watching);
  await once(watching.stdout, "data");
  watching.kill("SIGINT");
  expect(await end).toMatchObject({ code: 130, signal: null });

  const late = await ended(start("runs", "watch", "a", "--url", `file:${path}`, "-o", "jsonl", "--timeout", "10ms"));
  expect([late.code, JSON.parse(late.err)]).toMatchObject([7, { code: "HF_WAIT_TIMEOUT" }]);
});

test("a reader that has seen enough is not an error", async () => {
  const cwd = newFolder();
  writeFileSync(
    join(cwd, "run.sh"),
    `"${process.execPath}" "${join(outDir, "bin.mjs")}" runs start --help | head -1; exit "\${PIPESTATUS[0]}"`,
  );
  const child = spawn("bash", ["run.sh"], { cwd });
  expect(await ended(child)).toMatchObject({ code: 0, err: "" });
});
