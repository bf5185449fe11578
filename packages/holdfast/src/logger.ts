// The logger that engines use unless they are given another: warnings and errors, on the console.
// Owns: the form of a line.
// Invariants: none.

import type { Logger } from "@holdfast/core";

function line(message: string, fields: object | undefined): string {
  const shown = Object.entries(fields ?? {})
    .filter(([, value]) => value !== undefined)
    .map(
      ([key, value]) =>
        `${key}=${value instanceof Error ? `${value.name}: ${value.message}` : typeof value === "string" ? value : JSON.stringify(value)}`,
    );
  return ["[holdfast]", message, ...shown].join(" ");
}

export const consoleLogger: Logger = {
  debug() {},
  info() {},
  // biome-ignore lint/suspicious/noConsole: this is the console logger
  warn: (message, fields) => console.warn(line(message, fields)),
  // biome-ignore lint/suspicious/noConsole: this is the console logger
  error: (message, fields) => console.error(line(message, fields)),
};
