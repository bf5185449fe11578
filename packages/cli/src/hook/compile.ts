// TypeScript to JavaScript, one file at a time.
// Owns: the options of the compiler.
// Invariants: the output has its source map inside, so that stacks show the source; an error names file, line and column.

import { pathToFileURL } from "node:url";
import { transformSync } from "oxc-transform";

export function compile(path: string, text: string): string {
  const { code, map, errors } = transformSync(path, text, {
    lang: path.endsWith("x") ? "tsx" : "ts",
    sourceType: "module",
    sourcemap: true,
    target: "es2023",
  });
  const [error] = errors;
  if (error !== undefined) {
    const { line, column } = positionAt(text, error.labels[0]?.start ?? 0);
    throw new SyntaxError(`${path}:${line}:${column}: ${error.message}`);
  }
  if (map === undefined) return code;
  const withSource = { ...map, sources: [pathToFileURL(path).href], sourcesContent: [text] };
  return `${code}\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(JSON.stringify(withSource)).toString("base64")}\n`;
}

/** The compiler counts bytes of UTF-8. */
function positionAt(text: string, offset: number): { line: number; column: number } {
  const before = Buffer.from(text).subarray(0, offset).toString();
  return { line: before.split("\n").length, column: before.length - before.lastIndexOf("\n") };
}
