// Finds the place in a source file where a bug is planted, and plants it.
// Owns: what counts as the same code: comments, line breaks, indentation and trailing commas are ignored.
// Invariants: a replacement that does not match exactly one place is an error; the rest of the file is unchanged.

import { parseSync } from "oxc-parser";

/** @typedef {{ file: string, from: string, to: string }} Replacement in `file`, from the root; `from` and `to` are code without comments */

/** The code without comments and layout, and the position of each of its characters in the text. @typedef {{ code: string, places: readonly number[] }} Plain */

/**
 * The text of `file` with the bug in it.
 * @param {string} text
 * @param {Replacement} replacement
 */
export function plant(text, { file, from, to }) {
  const found = placesOf(text, { file, from });
  const [only] = found;
  if (only === undefined || found.length > 1) throw new Error(`${file} has ${found.length} places with this code instead of one:\n${from}`);
  return text.slice(0, only.start) + to + text.slice(only.end);
}

/**
 * The places where the code of `file` equals `from`; comments and layout are ignored.
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
    // A space matters only between two words; a comma before a closing bracket is layout.
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
