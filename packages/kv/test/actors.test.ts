// Job: prove that the host of actors in `examples/actors` goes on after it was really killed.
// Owns: the processes and folders that it makes.
// Invariants: H1–H3 with thousands of runs in one LevelDB; D6 D7 (nothing that was known to be done is done again), M3 (keys).

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { build, root } from "./built.ts";

beforeAll(() => build("examples"), 60_000);

/** It is seconds of work, and on a busy machine minutes of time: what is stuck is known by the ledger, which stops growing. */
const STUCK_AFTER = 60_000;

/** Calls back, once, when no step has written to the demo's ledger, in a folder below this one, for so long. */
function watchLedger(folder: string, stuck: () => void): NodeJS.Timeout {
  let seen = 0;
  let since = performance.now();
  const timer = setInterval(() => {
    const sizes = readdirSync(folder).map((name) => statSync(join(folder, name, "ledger.txt"), { throwIfNoEntry: false })?.size ?? 0);
    const size = Math.max(0, ...sizes);
    if (size !== seen) [seen, since] = [size, performance.now()];
    if (performance.now() - since < STUCK_AFTER) return;
    clearInterval(timer);
    stuck();
  }, 500);
  return timer;
}

test("H3 D6 D7 M3 thousands of actors in one LevelDB survive three kills of their process", { timeout: 600_000 }, async () => {
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
  const watch = watchLedger(folder, () => {
    output += `No effect for ${STUCK_AFTER} ms.`;
    child.kill("SIGTERM");
  });
  onTestFinished(() => clearInterval(watch));
  const [code] = await once(child, "close");
  expect({ code, output }).toEqual({ code: 0, output: expect.stringMatching(/✓ 2000 actors, 3000 effects/) });
  expect(output.match(/✗ killed/g)).toHaveLength(3);
  expect(readdirSync(folder)).toEqual([]);
});
