// The outside world: a file that steps append to. Each line is an effect, with its idempotency key.

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
    await delay(1); // done, but not recorded yet: if the process dies here, the step runs again
  },
  /** In bytes. */
  size: (): number => (existsSync(path) ? statSync(path).size : 0),
  read(): Line[] {
    if (!existsSync(path)) return [];
    const lines = readFileSync(path, "utf8").split("\n");
    return lines.filter((line) => line !== "").map((line): Line => JSON.parse(line));
  },
};
