// A blocked run in words: where code and history diverge, and what to write so that both fit.
// Owns: the rows of the difference, and the text to copy. Pure.

import type { SerializedError, SourcePlace } from "../api/types.ts";
import { isRedacted, preview } from "../base/values.ts";

export interface Difference {
  readonly location: string;
  readonly field: string;
  readonly history: string;
  readonly code: string;
}
/** Text that makes old runs fit the new code. */
export interface Remedy {
  readonly label: "ctx.patched" | "ctx.removed";
  readonly explanation: string;
  readonly text: string;
}

export function blockedTitle({ name, message }: SerializedError): string {
  const [line = ""] = typeof message === "string" ? message.split("\n") : [];
  return `Blocked: ${line === "" ? name : line.replace(/, in \w+$/, "")}`;
}

/** Undefined if the run is blocked for another reason than a difference, or if the token may not see it. */
export function differenceOf({ name, data }: SerializedError): Difference | undefined {
  if (name !== "NondeterminismError" || typeof data !== "object" || data === null || isRedacted(data)) return undefined;
  const { location, field, expected, actual } = data as Record<string, unknown>;
  const side = (value: unknown): string =>
    value === undefined || value === null ? "nothing" : isUndefined(value) ? "nothing" : preview(value, 500);
  return { location: String(location ?? ""), field: String(field ?? ""), history: side(expected), code: side(actual) };
}
const isUndefined = (value: unknown): boolean => typeof value === "object" && value !== null && "$undefined" in value;

const nameOf = (location: string): string => location.slice(location.lastIndexOf("/") + 1).replace(/#\d+$/, "");

export function remediesOf({ location, history, code }: Difference): Remedy[] {
  const remedies: Remedy[] = [];
  const what = code === "nothing" ? history : code;
  const id = (what.split(" ").at(-1) ?? "change").replace(/[^A-Za-z0-9._-]/g, "") || "change";
  remedies.push({
    label: "ctx.patched",
    explanation: "If you changed it: runs from before the change keep the old path, new runs take the new one.",
    text: [
      `if (ctx.patched("${id}")) {`,
      code === "nothing" ? "  // the new code" : `  // the new code: ${code}`,
      "} else {",
      history === "nothing" ? "  // the old code" : `  // the old code, as in history: ${history}`,
      "}",
    ].join("\n"),
  });
  const [kind = "step"] = history.split(" ");
  if (history !== "nothing" && /^[a-zA-Z]+$/.test(kind)) {
    remedies.push({
      label: "ctx.removed",
      explanation: "If you removed it: write this where it stood.",
      text: `ctx.removed(${JSON.stringify(nameOf(location))}, ${JSON.stringify(kind)});`,
    });
  }
  return remedies;
}

export const placeText = ({ file, line, column }: SourcePlace): string => `${file}:${line}:${column}`;

/** Frames of Holdfast itself: installed, or in its repository. */
const OURS =
  /[\\/](?:node_modules[\\/](?:@holdfast[\\/]|holdfast[\\/])|packages[\\/](?:core|host|holdfast|kv|postgres|temporal)[\\/](?:src|dist)[\\/])/;
const FRAME = /^\s+at (?:.*\()?((?:file:\/\/)?[^()]+):(\d+):(\d+)\)?$/;

/** The first frame that is not of Holdfast, or of Node. */
export function placeInStack(stack: unknown): SourcePlace | undefined {
  if (typeof stack !== "string") return undefined;
  for (const line of stack.split("\n")) {
    const [, file, row, column] = FRAME.exec(line) ?? [];
    if (file === undefined || file.startsWith("node:") || file === "<anonymous>" || OURS.test(file)) continue;
    return { file: file.replace(/^(?:async )?(?:file:\/\/)?/, ""), line: Number(row), column: Number(column) };
  }
  return undefined;
}
