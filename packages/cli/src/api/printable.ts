// Texts of users in logs and metrics.
// Owns: which characters are replaced.
// Invariants: a text can't forge a line, move a cursor, or turn the direction of what follows.

/** Control characters, and those that change the direction of text. */
const HIDDEN = /[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

export function printable(text: string): string {
  return text.replace(HIDDEN, (one) => (one === "\n" ? "\n" : `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`));
}
