// Finds the place in a source file where a bug is planted, and plants it.
// Owns: what counts as the same code: comments, line breaks, indentation and trailing commas don't matter.
// Invariants: a replacement fits exactly one place, or it is an error; the rest of the file stays as it is.

import { parseSync } from "oxc-parser";

/** @typedef {{ file: string, from: string, to: string }} Replacement in `file`, from the root; `from` and `to` are code without comments */

/** The code, and where each of its characters stands in the text. @typedef {{ code: string, places: readonly number[] }} Plain */

/**
 * The text of `file` with the bug in it.
 * @param {string} text
 * @param {Replacement} replacement
 */
export function plant(text, { file, from, to }) {
  const found = placesOf(text, { file, from });
  const [only] = found;
  if (only === undefined || found.length > 1) throw new Error(`${file} has ${found.length} places instead of one that read:\n${from}`);
  return text.slice(0, only.start) + to + text.slice(only.end);
}

/**
 * Where the text of `file` reads as `from`, whatever its comments and its layout.
 * @param {string} text
 * @param {Pick<Replacement, "file" | "from">} replacement
 * @returns {{ start: number, end: number }[]}
 */
export function placesOf(text, { file, from }) {
  const wanted = plain(from, []).code;
  const { code, places } = plain(text, parseSync(file, text).comments);
  const found = [];
  for (let at = code.indexOf(wanted); at >= 0 && wanted !== ""; at = code.indexOf(wanted, at + 1)) {
    const last = places[at + wanted.length - 1] ?? 0;
    found.push({ start: places[at] ?? 0, end: last + 1 });
  }
  return found;
}

/**
 * @param {string} text
 * @param {readonly { start: number, end: number }[]} comments in their order
 * @returns {Plain}
 */
function plain(text, comments) {
  let code = "";
  /** @type {number[]} */
  const places = [];
  let comment = 0;
  let isApart = false;
  for (let i = 0; i < text.length; i++) {
    const skipped = comments[comment];
    if (skipped !== undefined && i >= skipped.start) {
      i = skipped.end - 1;
      comment++;
      isApart = true;
      continue;
    }
    const char = text[i] ?? "";
    if (/\s/.test(char)) {
      isApart = true;
      continue;
    }
    // A space matters between two words only; a comma before a closing bracket is layout.
    if (isApart && /[\w$]$/.test(code) && /[\w$]/.test(char)) {
      code += " ";
      places.push(i);
    } else if (/[)\]}]/.test(char) && code.endsWith(",")) {
      code = code.slice(0, -1);
      places.pop();
    }
    isApart = false;
    code += char;
    places.push(i);
  }
  return { code, places };
}
