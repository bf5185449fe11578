// Findings of `holdfast doctor` and `holdfast migrate`.
// Owns: their shape, and how they are shown.
// Invariants: JSON is `{"ok","checks"}`; a check that fails makes exit code 6.

import { statusText } from "../terminal/colours.ts";
import { printable } from "../terminal/escape.ts";
import { pad } from "../terminal/width.ts";
import { EXIT } from "./failures.ts";
import type { Session } from "./session.ts";

export interface Check {
  readonly id: string;
  readonly status: "ok" | "warn" | "fail";
  readonly text: string;
  /** What to do about it. Null if there is nothing to do. */
  readonly fix: string | null;
}

export const passed = (id: string, text: string): Check => ({ id, status: "ok", text, fix: null });
export const warned = (id: string, text: string, fix: string): Check => ({ id, status: "warn", text, fix });
export const failed = (id: string, text: string, fix: string): Check => ({ id, status: "fail", text, fix });

/** `more`: further fields of the document. */
export function showChecks(session: Session, checks: readonly Check[], more: Readonly<Record<string, unknown>> = {}): number {
  const ok = checks.every(({ status }) => status !== "fail");
  const width = Math.max(...checks.map(({ id }) => id.length));
  session.show({
    json: { ok, checks, ...more },
    lines: checks,
    ids: checks.filter(({ status }) => status !== "ok").map(({ id }) => id),
    human: () =>
      checks.flatMap(({ id, status, text, fix }) => [
        `${statusText(status, session.colours)}${" ".repeat(Math.max(0, 6 - status.length))}${pad(id, width)}  ${printable(text)}`,
        ...(fix === null ? [] : [`${" ".repeat(width + 8)}${session.colours.dim(printable(fix))}`]),
      ]),
  });
  return ok ? EXIT.ok : EXIT.found;
}
