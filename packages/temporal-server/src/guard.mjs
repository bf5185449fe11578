// node guard.mjs <program> <arguments>: runs a program for the process that started this one, and ends it with that process, however it
// ends.
// Owns: the program's process.
// Invariants: when the channel to the parent closes, the program is killed; when the program ends, so does this process.

import { spawn } from "node:child_process";

const [program = "", ...args] = process.argv.slice(2);
const child = spawn(program, args, { stdio: ["ignore", "inherit", "inherit"] });
const end = () => child.kill("SIGKILL");

process.once("disconnect", end);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, end);
child.once("spawn", () => process.send?.({ pid: child.pid }));
child.once("error", (error) => {
  process.stderr.write(`${program} can't be run: ${error.message}\n`);
  process.exit(1);
});
child.once("exit", (code) => process.exit(code ?? 1));
if (!process.connected) end();
