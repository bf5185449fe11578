// The logger that engines use unless they are given another: warnings and errors, on the console.
// Owns: the form of a line.
// Invariants: none.

import type { Logger } from "@holdfast/core";

function line(message: string, fields: object | undefined): string {
  const shown = Object.entries(fields ?? {})
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${shownAs(value)}`);
  return ["[holdfast]", message, ...shown].join(" ");
}

/** Of an error, recorded or not, what it is and says; where it came from is for whoever wants more than a line. */
function shownAs(value: unknown): string {
  if (typeof value === "string") return value;
  const { name, message } = (value ?? {}) as { readonly name?: unknown; readonly message?: unknown };
  return typeof name === "string" && typeof message === "string" ? `${name}: ${message}` : JSON.stringify(value);
}

export const consoleLogger: Logger = {
  debug() {},
  info() {},
  // biome-ignore lint/suspicious/noConsole: this is the console logger
  warn: (message, fields) => console.warn(line(message, fields)),
  // biome-ignore lint/suspicious/noConsole: this is the console logger
  error: (message, fields) => console.error(line(message, fields)),
};
