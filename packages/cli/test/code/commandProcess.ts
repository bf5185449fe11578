// Job: the command `holdfast` as a real process.
// Owns: the process; it is killed when the test is over.
// Invariants: a test waits for lines and for the end, never for time.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { root } from "./projects.ts";

export const BIN = join(root, "packages/cli/dist/bin.js");

export interface DevEvent {
  readonly event: string;
  readonly [key: string]: unknown;
}

export class CommandProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null }>;
  stdout = "";
  stderr = "";
  #read = 0;

  constructor(args: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}) {
    this.child = spawn(process.execPath, [BIN, ...args], { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    onTestFinished(() => void this.child.kill("SIGKILL"));
    this.child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
    });
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
    });
    this.ended = once(this.child, "close").then(([code, signal]) => ({ code, signal }));
  }
  get pid(): number {
    if (this.child.pid === undefined) throw new Error("The process did not start.");
    return this.child.pid;
  }
  /** The next line of this kind; others before it are passed over. */
  async next(event: string): Promise<DevEvent> {
    let hasEnded = false;
    void this.ended.then(() => {
      hasEnded = true;
    });
    for (;;) {
      const at = this.stdout.indexOf("\n", this.#read);
      if (at >= 0) {
        const line = JSON.parse(this.stdout.slice(this.#read, at)) as DevEvent;
        this.#read = at + 1;
        if (line.event === event) return line;
        continue;
      }
      if (hasEnded) throw new Error(`The process ended before "${event}":\n${this.stdout}\n${this.stderr}`);
      if (this.child.stdout !== null) await Promise.race([once(this.child.stdout, "data"), this.ended]);
    }
  }
}

/** Until it holds. Vitest ends the test if it never does. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
