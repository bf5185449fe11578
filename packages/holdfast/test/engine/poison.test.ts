// Job: prove that no run ends the process of its worker, whatever it throws, rejects with or returns.
// Owns: the processes that it starts.
// Invariants: X11, D7.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { beforeAll, expect, it } from "vitest";
import { build } from "../built.ts";

beforeAll(() => build(), 60_000);

it.each([
  ["memory", "all"],
  ["sqlite", "all"],
  ["memory", "codec"],
  ["sqlite", "codec"],
] as const)(
  "X11 D7 poison ends no worker, and runs beside it complete (%s, %s)",
  async (store, kind) => {
    const url = store === "memory" ? "memory:" : `file:${join(mkdtempSync(join(tmpdir(), "holdfast-poison-")), "runs.db")}`;
    const child = spawn(process.execPath, [join(import.meta.dirname, "poison.mjs"), url, kind], { stdio: ["ignore", "pipe", "pipe"] });
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
    expect([code, stderr.replace(/.*FloatingPromiseWarning[\s\S]*/, "")]).toEqual([0, ""]);
    const ended = JSON.parse(stdout) as Record<string, string>;
    expect(ended["sound"]).toBe("sound");
    for (const [name, how] of Object.entries(ended)) {
      if (name.startsWith("floating")) expect([name, how]).toEqual([name, "completed undefined"]);
      else if (name === "schema") expect([name, how]).toEqual([name, "completed good"]);
      else if (name !== "sound" && !name.startsWith("returns")) expect([name, how]).toEqual([name, expect.stringMatching(/Error$/)]);
    }
  },
  60_000,
);
