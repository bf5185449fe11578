// Child processes of a test, and what they print.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { bundled } from "./bundled.ts";

export interface Child {
  readonly process: ChildProcess;
  readonly lines: string[];
  /** Resolves when it has printed so many lines, or one that begins with this. */
  readonly printed: (what: number | string) => Promise<void>;
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<unknown>;
}

export async function start(program: string, ...parameters: string[]): Promise<Child> {
  const child = spawn(process.execPath, [await bundled(program), ...parameters], { stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  const waiting: { isOver: () => boolean; done: () => void }[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    lines.push(line);
    for (const { isOver, done } of waiting) if (isOver()) done();
  });
  const printed = (what: number | string) => {
    const isOver = () => (typeof what === "number" ? lines.length >= what : lines.some((line) => line.startsWith(what)));
    return new Promise<void>((done) => (isOver() ? done() : waiting.push({ isOver, done })));
  };
  const ended = once(child, "close").then(([code, signal]) => code ?? signal);
  return { process: child, lines, printed, ended };
}
