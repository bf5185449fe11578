// Asks SQLite for something that only a process that has the file to itself may do; prints how that went.

import { openLibrary } from "../../../src/store/sqlite/library.ts";

const [path = ""] = process.argv.slice(2);
try {
  const library = openLibrary(path);
  const [mode] = library.prepare("PRAGMA journal_mode = DELETE").get([]) ?? [];
  process.stdout.write(`${String(mode)}\n`);
} catch (error) {
  process.stdout.write(`${(error as { code?: string }).code ?? String(error)}\n`);
}
