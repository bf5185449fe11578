// Makes text of users safe to show in a terminal.
// Owns: which characters are escaped, and how.
// Invariants: what is shown can neither move the cursor, nor change colours, nor reverse the reading order; nothing is dropped.

/**
 * Control characters (C0, DEL, C1), what ends a line, what changes the direction of text, invisible spaces, the byte order mark, tags, and halves
 * of surrogate pairs.
 */
const HOSTILE = /[\p{Cc}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Cs}/gu;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** In one line. */
export function printable(text: string): string {
  return text.replace(HOSTILE, escaped);
}

/** The same for text of several lines, such as stacks: their ends stay. */
export function printableLines(text: string): string {
  return text.split(/\r?\n/).map(printable).join("\n");
}

/** JSON text with the same characters escaped: it means the same, and is safe to show. */
export function printableJson(json: string): string {
  // What ends a line stands only between tokens there: inside of strings JSON.stringify has escaped it.
  return json.replace(HOSTILE, (character) => (character === "\n" ? character : unicode(character)));
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return SHORT[character] ?? (code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : unicode(character));
}

/** By UTF-16 units, as JSON has it. */
function unicode(character: string): string {
  return Array.from({ length: character.length }, (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
}
