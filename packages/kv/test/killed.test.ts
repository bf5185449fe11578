// Job: prove with processes that are really killed, by their own step or between the batches of their end, that nothing is lost.
// Owns: the folder and the processes that it makes.
// Invariants: D6 D7 H5, on LevelDB.

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

test("H5 M1 a process that is killed between the two batches of a run's end loses no signal that was acknowledged", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-closing-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const acknowledged: string[] = [];
  let ended: unknown;
  for (const moment of ["mark", "mark", "mark", "end", "never"]) {
    const child = spawn(process.execPath, [join(import.meta.dirname, "processes/closing.mjs"), join(folder, "db"), moment], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [output, [, killedBy]] = await Promise.all([text(child.stdout), once(child, "close")]);
    expect(killedBy).toBe(moment === "never" ? null : "SIGKILL");
    const said = output
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line));
    const sent = said.flatMap((one) => ("sent" in one ? [one.sent] : []));
    if (moment === "never") expect(sent).toEqual(["HF_RUN_CLOSED"]);
    else acknowledged.push(...sent);
    if (moment === "mark") expect(sent).toContain(`${child.pid} after the mark`);
    for (const one of said) if ("ended" in one) ({ ended } = one);
  }
  // One that was not acknowledged may be delivered all the same.
  expect(ended).toEqual({ status: "completed", output: expect.arrayContaining(acknowledged) });
});
