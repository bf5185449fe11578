// Runs a program through its guard, tells the process ids of both, and waits to be killed.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const script = fileURLToPath(new URL("../src/guard.mjs", import.meta.url));
const guard = spawn(process.execPath, [script, ...process.argv.slice(2)], {
  stdio: ["ignore", "ignore", "inherit", "ipc"],
  detached: true,
});
guard.on("message", ({ pid }) => process.stdout.write(`${JSON.stringify({ guard: guard.pid, program: pid })}\n`));
process.stdin.resume().once("end", () => process.exit());
