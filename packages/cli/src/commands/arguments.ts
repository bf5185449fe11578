// Values that are given as arguments: JSON, files, times, durations, attributes.
// Owns: how each is read.
// Invariants: what can't be read is a usage error (2) that names the argument; nothing was sent by then.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseDuration } from "@holdfast/core";
import { scalarOf } from "../api/requests.ts";
import { printable } from "../terminal/escape.ts";
import type { Io } from "../terminal/io.ts";
import { usage } from "./failures.ts";

const SHOWN = 60;
const shown = (text: string): string => printable(text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);

/** JSON, `@file` or `-` (standard input). Undefined if nothing is given. `what` names the argument. */
export async function jsonArgument(what: string, text: string | undefined, io: Io): Promise<unknown> {
  if (text === undefined) return undefined;
  if (text === "-") return parsed(`${what} from standard input`, await everything(io.stdin));
  if (text.startsWith("@")) return parsed(`${what} from ${shown(text.slice(1))}`, contentOf(what, text.slice(1), io.cwd));
  return parsed(what, text);
}

function contentOf(what: string, file: string, cwd: string): string {
  try {
    return readFileSync(resolve(cwd, file), "utf8");
  } catch (error) {
    throw usage(`${what}: ${shown(file)} can't be read: ${(error as Error).message}.`);
  }
}

async function everything(stdin: Io["stdin"]): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stdin) text += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
  return text + decoder.decode();
}

function parsed(what: string, text: string): unknown {
  if (text.trim() === "") throw usage(`${what} is empty.`, "Write a JSON value.");
  try {
    return JSON.parse(text);
  } catch {
    // biome-ignore lint/style/useErrorCause: the message says all that the cause does
    throw usage(`${what} is not JSON: ${shown(text)}`, `Text is written with quotes: '"text"'.`);
  }
}

/** Milliseconds. */
export function durationOption(what: string, text: string): number {
  try {
    return parseDuration(/^\d{1,15}$/.test(text) ? Number(text) : text);
  } catch {
    // biome-ignore lint/style/useErrorCause: the message says all that the cause does
    throw usage(`${what}: "${shown(text)}" is not a duration.`, 'Examples: "500ms", "30s", "1h30m", "7d".');
  }
}

/** ISO 8601, or how long ago. */
export function momentOption(what: string, text: string, now: number): Date {
  if (/^\d{4}-/.test(text)) return timeOption(what, text);
  try {
    return new Date(now - durationOption(what, text));
  } catch {
    // biome-ignore lint/style/useErrorCause: the message says all that the cause does
    throw usage(`${what}: "${shown(text)}" is neither a time nor a duration.`, 'Examples: "24h", "2026-05-01T12:00:00Z".');
  }
}

/** ISO 8601. */
export function timeOption(what: string, text: string): Date {
  const ms = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(ms)) return new Date(ms);
  throw usage(`${what}: "${shown(text)}" is not a time.`, 'Example: "2026-05-01T12:00:00Z".');
}

export function numberOption(what: string, text: string, { least, most }: { least?: number; most?: number } = {}): number {
  const number = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= (least ?? Number.NEGATIVE_INFINITY) && number <= (most ?? Number.POSITIVE_INFINITY)) return number;
  const range = least === undefined ? "" : most === undefined ? ` of at least ${least}` : ` from ${least} to ${most}`;
  throw usage(`${what}: "${shown(text)}" is not a whole number${range}.`);
}

/** `name=value`: the value is a JSON scalar where it parses as one, otherwise text. */
export function attributesOption(given: readonly string[] | undefined): Record<string, string | number | boolean> | undefined {
  if (given === undefined) return undefined;
  return Object.fromEntries(given.map((one) => pairOf("--attr", one)).map(([name, value]) => [name, scalarOf(value)]));
}

/** `name=value` */
export function pairOf(what: string, text: string): readonly [name: string, value: string] {
  const at = text.indexOf("=");
  if (at <= 0) throw usage(`${what}: "${shown(text)}" is not of the form name=value.`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/** One of several words. */
export function choiceOption<const C extends string>(what: string, text: string, choices: readonly C[]): C {
  const found = choices.find((choice) => choice === text);
  if (found !== undefined) return found;
  throw usage(`${what}: "${shown(text)}" is not one of ${choices.join(", ")}.`);
}
