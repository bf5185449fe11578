// For the tests: runs the demo of an example as a user would, on what is built.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

/** Compiles the examples. Call it in `beforeAll`. */
export function build(): void {
  const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));
  const { stdout } = spawnSync(process.execPath, [join(typescript, "bin/tsc"), "-b", "examples"], { cwd: root, encoding: "utf8" });
  // An example that does not compile is reported by the type check; its last build is still good for a test.
  if (!existsSync(join(root, "examples/dist"))) throw new Error(`The examples can't be built:\n${stdout}`);
}

/** `left`: what the demo left behind in the folder for temporary files. */
export async function runDemo(
  name: string,
  ...args: string[]
): Promise<{ code: number | null; stdout: string; stderr: string; left: string[] }> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-example-test-"));
  const { FORCE_COLOR: _, ...inherited } = process.env;
  const child = spawn(process.execPath, [`examples/dist/${name}/demo.js`, ...args], {
    cwd: root,
    env: { ...inherited, NO_COLOR: "1", TMPDIR: folder, TEMP: folder },
    stdio: ["ignore", "pipe", "pipe"],
  });
  try {
    const output = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (chunk) => (output.stdout += chunk));
    child.stderr.setEncoding("utf8").on("data", (chunk) => (output.stderr += chunk));
    const [code] = await once(child, "close"); // once its programs, which have its stderr, are gone too
    return { code, ...output, left: readdirSync(folder) };
  } finally {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
}
