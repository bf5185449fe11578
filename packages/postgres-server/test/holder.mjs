// Starts a server through its supervisor, tells where it is, and waits to be killed.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const script = fileURLToPath(new URL("../src/supervisor.mjs", import.meta.url));
const child = spawn(process.execPath, [script, JSON.stringify({ durable: false, settings: {} })], {
  stdio: ["ignore", "ignore", "inherit", "ipc"],
  detached: true,
});
child.on("message", (answer) => process.stdout.write(`${JSON.stringify({ url: answer.value, supervisor: child.pid })}\n`));
process.stdin.resume().once("end", () => process.exit());
child.send({ id: 1, order: "create" });
