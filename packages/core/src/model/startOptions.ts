// Job: check what a run may be started with, whoever starts it: a client or a parent.
// Owns: what an id is, and the wording of what is refused.
// Invariants: P10 (an id names a run on every store); anything else is an InvalidInputError that names the option.

import { preview } from "../base/text.ts";
import { InvalidInputError } from "../errors/index.ts";

/** Stores find things by such texts, and no index takes any length. */
const LONGEST_TEXT = 512;

export function checkedId(what: string, id: string | undefined): string | undefined {
  if (id === undefined) return undefined;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (typeof id === "string" && id !== "" && id.length <= LONGEST_TEXT && !/[\u0000-\u001f\u007f]/.test(id)) return id;
  throw refused(what, "id", `An id is text of 1 to ${LONGEST_TEXT} characters without control characters.`);
}

/** Text that is not empty, or nothing. */
export function checkedText(what: string, key: string, text: string | undefined, longest = LONGEST_TEXT): string | undefined {
  if (text === undefined || (typeof text === "string" && text !== "" && text.length <= longest)) return text;
  const isLong = typeof text === "string" && text !== "";
  throw refused(
    what,
    key,
    isLong
      ? `${key} is text of at most ${longest} characters; this one has ${text.length}.`
      : `${key} must be text that is not empty, not ${preview(text)}.`,
  );
}

/** Of a run: higher goes first. */
export function checkedPriority(what: string, priority: number | undefined): number | undefined {
  if (priority === undefined || (Number.isInteger(priority) && Math.abs(priority) <= 1_000_000)) return priority;
  throw refused(what, "priority", `priority is a whole number, not ${typeof priority === "number" ? priority : preview(priority)}.`);
}

function refused(what: string, key: string, message: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [{ message, path: [key] }] });
}
