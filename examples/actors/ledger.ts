// The world outside: a file that steps append to. A line is an effect, and tells under which key it came.

import { appendFileSync, existsSync, readFileSync, statSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { StepInfo } from "@holdfast/kv";

const path = process.env["LEDGER"] ?? "ledger.txt";

export interface Line {
  readonly what: string;
  readonly key: string;
  readonly attempt: number;
}

export const ledger = {
  async write(what: string, { idempotencyKey, attempt }: StepInfo): Promise<void> {
    appendFileSync(path, `${JSON.stringify({ what, key: idempotencyKey, attempt })}\n`);
    await delay(1); // done, but not yet known to be: a process that dies here does it again
  },
  /** In bytes. */
  size: (): number => (existsSync(path) ? statSync(path).size : 0),
  read(): Line[] {
    if (!existsSync(path)) return [];
    const lines = readFileSync(path, "utf8").split("\n");
    return lines.filter((line) => line !== "").map((line): Line => JSON.parse(line));
  },
};
