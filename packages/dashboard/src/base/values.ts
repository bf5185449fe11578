// Values as the API sends them: plain JSON, or tagged (`{"$date": …}`), redacted, too large, unreadable.
// Owns: how each is shown, and the differences between two values. Pure.

export interface Shown {
  readonly text: string;
  /** What is drawn muted instead of as data. */
  readonly isNote: boolean;
}

/** A value with one `$` key is a tag of the codec, or a note of the API. Undefined: an ordinary value. */
export function noteOf(value: unknown): Shown | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const [key, ...others] = Object.keys(value);
  if (key === undefined || others.length > 0 || !key.startsWith("$") || key.startsWith("$$")) return undefined;
  const content: unknown = (value as Record<string, unknown>)[key];
  switch (key) {
    case "$redacted":
      return { text: `hidden (${bytes(content)})`, isNote: true };
    case "$large":
      return { text: `${bytes(content)}, not loaded`, isNote: true };
    case "$unreadable":
      return { text: `unreadable: ${String(content)}`, isNote: true };
    case "$undefined":
      return { text: "undefined", isNote: true };
    case "$date":
      return { text: `Date ${String(content)}`, isNote: false };
    case "$number":
      return { text: String(content), isNote: false };
    case "$bigint":
      return { text: `${String(content)}n`, isNote: false };
    case "$url":
      return { text: String(content), isNote: false };
    default:
      return undefined;
  }
}

export const isRedacted = (value: unknown): boolean => typeof value === "object" && value !== null && "$redacted" in value;

function bytes(content: unknown): string {
  const size = Number(content);
  if (!Number.isFinite(size)) return "size unknown";
  return size < 1_024 ? `${size} B` : size < 1_048_576 ? `${(size / 1_024).toFixed(1)} KB` : `${(size / 1_048_576).toFixed(1)} MB`;
}

/** Control and bidirectional characters would change how the text around them looks: they are shown by their codes. */
export function visible(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are what is looked for
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** One line, at most `length` characters. */
export function preview(value: unknown, length = 120): string {
  if (value === undefined || value === null) return value === null ? "null" : "";
  const note = noteOf(value);
  const text = visible(note?.text ?? (typeof value === "string" ? value : JSON.stringify(value))).replace(/\s+/g, " ");
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

export const pretty = (value: unknown): string => JSON.stringify(value, null, 2) ?? "undefined";

export interface DiffLine {
  readonly change: "same" | "added" | "removed";
  readonly text: string;
}

/** How many lines are compared pairwise; more are compared only at their two ends. */
const MOST_LINES = 1_500;

const linesOf = (value: unknown): string[] => (value === undefined ? [] : visible(pretty(value)).split("\n"));
/** A comma at the end says only that another line follows: no change of this one. */
const isSame = (a: string | undefined, b: string | undefined): boolean => a?.replace(/,$/, "") === b?.replace(/,$/, "");

/** Line by line, of the values as indented JSON: the shortest list of changes. */
export function diffValues(before: unknown, after: unknown): DiffLine[] {
  const a = linesOf(before);
  const b = linesOf(after);
  let head = 0;
  while (head < a.length && head < b.length && isSame(a[head], b[head])) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && isSame(a[a.length - 1 - tail], b[b.length - 1 - tail])) tail++;
  const same = (lines: readonly string[]): DiffLine[] => lines.map((text) => ({ change: "same", text }));
  const middle = between(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return [...same(b.slice(0, head)), ...middle, ...same(b.slice(b.length - tail))];
}

function between(a: readonly string[], b: readonly string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ change: "removed", text });
  const added = (text: string): DiffLine => ({ change: "added", text });
  if (a.length > MOST_LINES || b.length > MOST_LINES) return [...a.map(removed), ...b.map(added)];
  // The longest common subsequence, from the ends: lengths[i][j] is that of a.slice(i) and b.slice(j).
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = isSame(a[i], b[j]) ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const [left, right] = [a[i], b[j]];
    if (right !== undefined && isSame(left, right)) {
      lines.push({ change: "same", text: right });
      i++;
      j++;
    } else if (left !== undefined && (right === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push(removed(left));
      i++;
    } else if (right !== undefined) {
      lines.push(added(right));
      j++;
    }
  }
  return lines;
}
