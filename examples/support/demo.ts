// A demo: a story that ends by itself, in a temporary folder, with an exit code that says whether everything was as promised.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { green, red, say } from "./terminal.ts";

const LONGEST_MS = 120_000;
let waitingFor = "its first step";

export async function demo(story: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-example-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  process.on("SIGINT", () => process.exit(130));
  process.on("SIGTERM", () => process.exit(143));
  const fail = (error: unknown): never => {
    console.error(`\n${red("✗ the example failed")}: ${error instanceof Error ? error.stack : error}`);
    process.exit(1);
  };
  const timer = setTimeout(() => fail(`It did not end within ${LONGEST_MS / 1_000} s. It was waiting for ${waitingFor}.`), LONGEST_MS);
  const start = performance.now();
  try {
    await story(folder);
  } catch (error) {
    fail(error);
  }
  clearTimeout(timer);
  say(`\n${green("✓")} everything checked, in ${((performance.now() - start) / 1_000).toFixed(1)} s`);
}

/** Looks until there is something. */
export async function until<T>(what: string, look: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  waitingFor = what;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await delay(30);
  }
}
