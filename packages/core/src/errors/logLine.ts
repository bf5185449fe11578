// Formats one log record as one line of text, for loggers that write to a console.
// Owns: the format of a field, and the list of characters that are escaped.
// Invariants: one record is one line, whatever text it contains: no text can forge a second record or control the terminal.

// Line breaks, control characters (C0, C1, DEL), and characters that change the direction of the text around them.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression is meant to match them
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (one) => SHORT[one] ?? `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** One line of a log for people: the message and its fields. */
export function logLine(message: string, fields: object | undefined): string {
  const shown = Object.entries(fields ?? {})
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${shownAs(value)}`);
  return printable(["[holdfast]", message, ...shown].join(" "));
}

/** An error, live or serialized, is shown by name and message, without its stack. */
function shownAs(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    const { name, message } = (value ?? {}) as { readonly name?: unknown; readonly message?: unknown };
    return typeof name === "string" && typeof message === "string" ? `${name}: ${message}` : (JSON.stringify(value) ?? String(value));
  } catch {
    return "(a value that can't be shown)"; // a cycle, a bigint, a getter that throws
  }
}
