// Job: prove with a process that is really killed, by its own step, that attempts are counted.
// Owns: the folder and the processes that it makes.
// Invariants: D6 D7, on LevelDB.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { build } from "./built.ts";

beforeAll(() => build(), 60_000);

test("D6 D7 a step that kills its process has no more attempts than it may, and what came before it runs once", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-killed-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const ledger = join(folder, "ledger.txt");
  const ends: unknown[] = [];
  for (let i = 0; i < 4; i++) {
    const child = spawn(process.execPath, [join(import.meta.dirname, "processes/deadly.mjs"), join(folder, "db"), ledger], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [output, [code, killedBy]] = await Promise.all([text(child.stdout), once(child, "close")]);
    ends.push(killedBy ?? { code, result: JSON.parse(output) });
  }
  expect(ends).toEqual([
    "SIGKILL",
    "SIGKILL",
    "SIGKILL",
    { code: 0, result: { status: "completed", output: [null, expect.stringMatching(/failed after 3 attempts/)] } },
  ]);
  expect(readFileSync(ledger, "utf8").trim().split("\n")).toEqual(["before", "attempt 1", "attempt 2", "attempt 3"]);
});
