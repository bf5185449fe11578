// node provide.mjs [--build]: is there a server that tests can run on? The exit code says it, and one line on stdout what is missing.
// With --build it is built if need be, and lines on stderr say how far it is.
// Owns: nothing.
// Invariants: it runs on the sources as they are, before anything is compiled.

import { findProgram, provideProgram } from "./program.mjs";

/** @param {string} line */
const say = (line) => process.stderr.write(`${line}\n`);

// The build that it has started ends with it.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => process.exit(1));

if (!process.env["TEMPORAL_ADDRESS"]) {
  const { missing } = process.argv.includes("--build") ? await provideProgram(say) : findProgram();
  if (missing !== undefined) {
    process.stdout.write(`${missing}\n`);
    process.exitCode = 1;
  }
}
