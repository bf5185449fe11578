// The default logger of engines: warnings and errors, on the console.
// Owns: nothing; the core owns the format of a line.
// Invariants: one record is one line.

import { type Logger, logLine } from "@holdfast/core";

export const consoleLogger: Logger = {
  debug() {},
  info() {},
  // biome-ignore lint/suspicious/noConsole: this is the console logger
  warn: (message, fields) => console.warn(logLine(message, fields)),
  // biome-ignore lint/suspicious/noConsole: this is the console logger
  error: (message, fields) => console.error(logLine(message, fields)),
};
