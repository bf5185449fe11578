// Job: prove that the host of actors in `examples/actors` goes on after it was really killed.
// Owns: the processes and folders that it makes.
// Invariants: H1–H3 with thousands of runs in one LevelDB; D6 D7 (nothing that was known to be done is done again), M3 (keys).

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { build, root } from "./built.ts";

beforeAll(() => build("examples"), 60_000);

test("H3 D6 D7 M3 thousands of actors in one LevelDB survive three kills of their process", { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-actors-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const child = spawn(process.execPath, ["examples/actors/demo.mjs"], {
    cwd: root,
    env: { ...process.env, TMPDIR: folder, TEMP: folder, ACTORS: "2000" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGTERM"));
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = await once(child, "close");
  expect({ code, output }).toEqual({ code: 0, output: expect.stringMatching(/✓ 2000 actors, 3000 effects/) });
  expect(output.match(/✗ killed/g)).toHaveLength(3);
  expect(readdirSync(folder)).toEqual([]);
});
