// A line that says how far a long command is.
// Owns: writing it again and again in the same place, on standard error.
// Invariants: nothing is written where standard error is not a terminal, nor with -q; the line is gone when the work has ended.

import { printable } from "./escape.ts";
import type { Io } from "./io.ts";
import { cut } from "./width.ts";

export interface Progress {
  say(text: string): void;
  /** Removes the line. */
  end(): void;
}

const CLEAR = "\r\u001b[2K";

export function progressOn(io: Io, isQuiet: boolean): Progress {
  if (isQuiet || !io.isTTY.stderr) return { say: () => undefined, end: () => undefined };
  let isShown = false;
  return {
    say(text) {
      isShown = true;
      io.stderr.write(CLEAR + cut(printable(text), (io.columns ?? 80) - 1));
    },
    end() {
      if (isShown) io.stderr.write(CLEAR);
      isShown = false;
    },
  };
}

/** "[######----] 42 of 100" */
export function bar(done: number, total: number, width = 20): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const filled = Math.round(share * width);
  return `[${"#".repeat(filled)}${"-".repeat(width - filled)}] ${done} of ${total}`;
}
