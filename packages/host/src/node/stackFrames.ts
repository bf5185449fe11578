// The frames of a stack trace as paths with positions.
// Owns: nothing.
// Invariants: none; engines other than V8 write stacks in another form and have no frames here.

import { fileURLToPath } from "node:url";

/** `/app/order.ts:14:9` for each frame of an error's `stack`, the innermost first. Frames without a file are kept as they are. */
export function framesOf(stack: unknown): string[] {
  if (typeof stack !== "string") return [];
  const lines = stack.split("\n").map((line) => /^\s+at (.*)$/.exec(line)?.[1]);
  return lines.filter((line) => line !== undefined).map((line) => pathOf(/\(([^()]*)\)$/.exec(line)?.[1] ?? line.replace(/^async /, "")));
}
/** The path of a module's URL or of a stack frame. */
export function pathOf(url: string): string {
  if (!url.startsWith("file:")) return url;
  const [, file = url, position = ""] = /^(.*?)((?::\d+)*)$/.exec(url) ?? [];
  return fileURLToPath(file) + position;
}
