// One log record as one line of text, for loggers that write to a console.
// Owns: the form of a field, and which characters a terminal or a reader of logs would not show as text.
// Invariants: one record is one line, whatever an error says: no text can forge a second record or command the terminal.

// Line breaks, escapes (C0, C1, DEL), and what reorders the text around it.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (one) => SHORT[one] ?? `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function logLine(message: string, fields: object | undefined): string {
  const shown = Object.entries(fields ?? {})
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${shownAs(value)}`);
  return printable(["[holdfast]", message, ...shown].join(" "));
}

/** Of an error, recorded or not, what it is and says; where it came from is for whoever wants more than a line. */
function shownAs(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    const { name, message } = (value ?? {}) as { readonly name?: unknown; readonly message?: unknown };
    return typeof name === "string" && typeof message === "string" ? `${name}: ${message}` : (JSON.stringify(value) ?? String(value));
  } catch {
    return "(a value that can't be shown)"; // a cycle, a bigint, a getter that throws
  }
}
