// How the server's program is found, and built where there is only Go. `go` is a script here: the real build takes minutes.

import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";

const SCRIPT = fileURLToPath(new URL("../src/provide.mjs", import.meta.url));
let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-program-"));
  mkdirSync(join(folder, "bin"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const kept = (): string => join(folder, "cache", "holdfast", "temporal", "1.5.1", "temporal");
const beside = (): string[] => readdirSync(dirname(kept()));
/** A program that is found by its name. */
function put(path: string, ...lines: string[]): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, ["#!/bin/sh", "PATH=/usr/bin:/bin", ...lines, ""].join("\n"));
  chmodSync(path, 0o755);
}
/** `go install` takes a moment, notes that it was called, and puts a program where GOBIN says. */
function putGo(version: string, ...install: string[]): void {
  put(join(folder, "bin", "go"), `[ "$1" = env ] && echo ${version} && exit`, `echo "$@" >> ${join(folder, "calls")}`, ...install);
}
const MAKES_IT = ["sleep 1", 'echo "#!/bin/sh" > "$GOBIN/temporal"', 'chmod +x "$GOBIN/temporal"'];
const calls = (): string[] => (existsSync(join(folder, "calls")) ? readFileSync(join(folder, "calls"), "utf8").trim().split("\n") : []);

/** As on a machine that has nothing but what the test has put there. */
function provide(...args: string[]): Promise<{ ok: boolean; said: string; progress: string }> {
  const env = { PATH: join(folder, "bin"), XDG_CACHE_HOME: join(folder, "cache"), HOME: folder };
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT, ...args], { env }, (error, said, progress) => resolve({ ok: error === null, said, progress }));
  });
}

test("without a program and without Go one line says what is missing and how to get it", async () => {
  const { ok, said } = await provide("--build");
  expect(ok).toBe(false);
  expect(said).toMatch(/^There is no Temporal server, and there is no Go 1\.25 to build it with: .*TEMPORAL_ADDRESS=host:7233\.\n$/);
});

test("Go that is too old is missing, too", async () => {
  putGo("go1.24.9");
  expect((await provide("--build")).said).toMatch(/^.*go1\.24\.9 is too old to build it: it takes 1\.25.*\n$/);
});

test("a program on the PATH or one that was built before is found; Go alone is not used until it is asked for", async () => {
  putGo("go1.25.0");
  const { ok, said } = await provide();
  expect([ok, calls()]).toEqual([false, []]);
  expect(said).toMatch(/^There is no Temporal server: "npm run test:temporal" builds one.*\n$/);
  put(kept());
  expect((await provide()).ok).toBe(true);
  rmSync(kept());
  put(join(folder, "bin", "temporal"));
  expect((await provide("--build")).ok).toBe(true);
  expect(calls()).toEqual([]);
});

test("several processes build it once, and leave nothing but the program", async () => {
  putGo("go1.26.8", ...MAKES_IT);
  const answers = await Promise.all([provide("--build"), provide("--build"), provide("--build")]);
  expect(answers.map(({ ok, said }) => ({ ok, said }))).toEqual(answers.map(() => ({ ok: true, said: "" })));
  expect(calls()).toEqual(["install github.com/temporalio/cli/cmd/temporal@v1.5.1"]);
  expect(beside()).toEqual(["temporal"]);
  const [builder = ""] = answers.map(({ progress }) => progress).filter((lines) => lines.startsWith("Building"));
  expect(builder).toMatch(
    /^Building the Temporal server for the tests: .*minutes of processor time\.\nBuilt the Temporal server in \d+ s: /,
  );
});

test("a build that fails says why, and the next one starts over", async () => {
  putGo("go1.26.8", 'echo "go: first line" >&2', 'echo "no such host" >&2', "exit 1");
  const { ok, said } = await provide("--build");
  expect(ok).toBe(false);
  expect(said).toMatch(/could not be built.*no such host\n$/);
  expect(beside()).toEqual([]);
  putGo("go1.26.8", ...MAKES_IT);
  expect((await provide("--build")).ok).toBe(true);
});

test("what a builder that was killed left behind stops no other", async () => {
  const lock = join(dirname(kept()), "building.lock");
  const left = join(dirname(kept()), "building-0123");
  mkdirSync(left, { recursive: true });
  writeFileSync(lock, "1");
  for (const [path, age] of [[lock, 61], [left, 3_601]] as const) utimesSync(path, Date.now() / 1_000 - age, Date.now() / 1_000 - age); // biome-ignore format: a table
  putGo("go1.26.8", ...MAKES_IT);
  expect((await provide("--build")).ok).toBe(true);
  expect(beside()).toEqual(["temporal"]);
});
