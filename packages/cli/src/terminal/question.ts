// Questions with yes or no.
// Owns: how an answer is read.
// Invariants: anything but "y" or "yes" is a no; the question is on standard error.

import type { Io } from "./io.ts";

export function canAsk(io: Io): boolean {
  return io.isTTY.stdin && io.isTTY.stderr;
}

/** `text` is safe to show. */
export async function confirmed(io: Io, text: string): Promise<boolean> {
  io.stderr.write(`${text} [y/N] `);
  return /^\s*y(es)?\s*$/i.test(await firstLine(io.stdin));
}

async function firstLine(stdin: Io["stdin"]): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stdin) {
    text += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
    const end = text.search(/\r?\n/);
    if (end >= 0) return text.slice(0, end);
  }
  return text;
}
