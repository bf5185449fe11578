// The logger that engines use unless they are given another: warnings and errors, on the console.
// Owns: nothing; the form of a line is the core's.
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
