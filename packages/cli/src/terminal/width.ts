// How many columns of a terminal a text takes.
// Owns: which characters are wide, and cutting a text to a width.
// Invariants: a text is cut between characters as people see them, never inside one; a cut text ends in "…".

/** East Asian wide and full-width letters, and symbols that terminals draw as pictures. */
const WIDE =
  /[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u;
const NO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;
const PLAIN = /^[\x20-\x7e]*$/;

let segmenter: Intl.Segmenter | undefined;

function characters(text: string): string[] {
  segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" });
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

function widthOfCharacter(character: string): number {
  if (PLAIN.test(character)) return 1;
  if (NO_WIDTH.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  return characters(text).reduce((sum, character) => sum + widthOfCharacter(character), 0);
}

/** The text, or as much of it as there is room for. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  if (width <= 0) return "";
  let taken = "";
  let used = 0;
  for (const character of characters(text)) {
    const more = widthOfCharacter(character);
    if (used + more > width - 1) break;
    taken += character;
    used += more;
  }
  return `${taken}…`;
}

/** Exactly so wide, or wider where the text is. */
export function pad(text: string, width: number, side: "left" | "right" = "right"): string {
  const spaces = " ".repeat(Math.max(0, width - widthOf(text)));
  return side === "left" ? spaces + text : text + spaces;
}
