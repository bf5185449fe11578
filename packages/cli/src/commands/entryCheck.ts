// A check of `holdfast doctor`: the workflows are found, and load.
// Owns: the process that loads them, for as long as that takes.
// Invariants: user code never runs in this process.

import { CommandCode } from "../code/codeHost.ts";
import { Entries } from "../code/entries.ts";
import type { Settings } from "../config/settings.ts";
import { type Check, failed, passed, warned } from "./checks.ts";

/** How long loading may take, in milliseconds. */
const PATIENCE = 30_000;

export async function checkEntry(settings: Settings, cwd: string, patience = PATIENCE): Promise<Check> {
  const code = new CommandCode(settings, cwd);
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    void code.close();
  }, patience);
  try {
    const files = new Entries(settings).files();
    if (files.length === 0) {
      const fix = "Write workflows/hello.ts (`holdfast init`), or name your files with `entry` in holdfast.config.ts.";
      return settings.entry === undefined
        ? warned("entry", "No workflows found in the default places", fix)
        : failed("entry", `No file matches ${settings.entry.join(", ")}`, fix);
    }
    const names = (await code.describe()).map(({ name }) => name);
    const where = `${files.length} ${files.length === 1 ? "file" : "files"}`;
    return passed("entry", `${where}: ${[...new Set(names)].join(", ")}`);
  } catch (error) {
    const endless = "It may have a loop without an end, or wait for something.";
    if (isLate) return failed("entry", `The code was not loaded within ${patience / 1_000} s`, endless);
    return failed("entry", error instanceof Error ? error.message : String(error), "Fix the code so that it loads.");
  } finally {
    clearTimeout(timer);
    await code.close();
  }
}
