// Checks the options with which a client or a parent starts a run.
// Owns: which texts are valid ids, and the error texts.
// Invariants: P10 (a valid id works on every store); an invalid option is an InvalidInputError that names it.

import { preview } from "../base/text.ts";
import { InvalidInputError } from "../errors/index.ts";

/** Stores index these texts, and the length of an index key is limited. */
const LONGEST_TEXT = 512;

/**
 * The id of a run, if it is valid.
 * @throws `InvalidInputError` otherwise.
 */
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

/** Names of built-in workflows begin so: no other workflow is served or started under such a name. */
const BUILT_IN = "holdfast.";

/**
 * The name of a workflow, unless it is that of a built-in one.
 * @throws `InvalidInputError` then.
 */
export function checkedWorkflowName(what: string, name: string): string {
  if (!name.startsWith(BUILT_IN)) return name;
  throw refused(what, "workflow", `Names that begin with "${BUILT_IN}" are those of built-in workflows: rename ${preview(name)}.`);
}

/** Bytes of a key: it is part of index entries. */
const LONGEST_KEY = 256;

/** Whose work a run or an activity is (Q11). */
export function checkedKey(what: string, key: string | undefined): string | undefined {
  if (key === undefined) return undefined;
  if (typeof key !== "string" || key === "") throw refused(what, "key", `key must be non-empty text, not ${preview(key)}.`);
  const bytes = utf8Length(key);
  if (bytes > LONGEST_KEY) throw refused(what, "key", `key must have at most ${LONGEST_KEY} bytes in UTF-8, not ${bytes}.`);
  return key;
}
/** Counted here because the core runs where neither Buffer nor TextEncoder need exist. */
function utf8Length(text: string): number {
  let bytes = 0;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
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

/** Attributes are found by index, too. */
const LONGEST_ATTRIBUTE_NAME = 128;
const LONGEST_ATTRIBUTE = 1_024;

/** What is wrong with an attribute, with its name. */
export function attributeProblem(name: string, value: unknown): string | undefined {
  if (name.length > LONGEST_ATTRIBUTE_NAME)
    return `"${name.slice(0, 20)}…" has a name of ${name.length} characters: at most ${LONGEST_ATTRIBUTE_NAME} are allowed`;
  if (typeof value === "string" && value.length > LONGEST_ATTRIBUTE)
    return `"${name}" must have at most ${LONGEST_ATTRIBUTE} characters, not ${value.length}. Attributes are for finding runs: pass longer texts in the input or the state`;
  if (typeof value === "number" ? Number.isFinite(value) : typeof value === "string" || typeof value === "boolean") return undefined;
  return `"${name}" must be a string, a finite number or a boolean`;
}

function refused(what: string, key: string, message: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [{ message, path: [key] }] });
}
