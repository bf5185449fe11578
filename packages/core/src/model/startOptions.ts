// Checks the options with which a client or a parent starts a run.
// Owns: which texts are valid ids, and the error texts.
// Invariants: P10 (a valid id works on every store); an invalid option is an InvalidInputError that names it.

import { preview } from "../base/text.ts";
import { InvalidInputError } from "../errors/index.ts";

/** Stores index these texts, and the length of an index key is limited. */
const LONGEST_TEXT = 512;

export function checkedId(what: string, id: string | undefined): string | undefined {
  if (id === undefined) return undefined;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression is meant to match them
  if (typeof id === "string" && id !== "" && id.length <= LONGEST_TEXT && !/[\u0000-\u001f\u007f]/.test(id)) return id;
  throw refused(what, "id", `An id must have 1 to ${LONGEST_TEXT} characters and no control characters.`);
}

/** Accepts undefined and non-empty text up to a maximum length. */
export function checkedText(what: string, key: string, text: string | undefined, longest = LONGEST_TEXT): string | undefined {
  if (text === undefined || (typeof text === "string" && text !== "" && text.length <= longest)) return text;
  const isLong = typeof text === "string" && text !== "";
  throw refused(
    what,
    key,
    isLong ? `${key} must have at most ${longest} characters, not ${text.length}.` : `${key} must be non-empty text, not ${preview(text)}.`,
  );
}

/** The priority of a run: higher runs first. */
export function checkedPriority(what: string, priority: number | undefined): number | undefined {
  if (priority === undefined || (Number.isInteger(priority) && Math.abs(priority) <= 1_000_000)) return priority;
  throw refused(
    what,
    "priority",
    `priority must be a whole number from -1,000,000 to 1,000,000, not ${typeof priority === "number" ? priority : preview(priority)}.`,
  );
}

function refused(what: string, key: string, message: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [{ message, path: [key] }] });
}
