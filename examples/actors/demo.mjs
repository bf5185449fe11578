// Thousands of actors in one LevelDB, in a process that is killed (SIGKILL) three times while they work. In the end every visitor's card
// has its three stamps and its reward, and no completed step ran again.
// npm run build, then: node examples/actors/demo.mjs

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const folder = mkdtempSync(join(tmpdir(), "holdfast-actors-"));
process.env["LEDGER"] = join(folder, "ledger.txt");
process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
process.on("SIGINT", () => process.exit(130));
process.on("SIGTERM", () => process.exit(143));

const count = Number(process.env["ACTORS"] ?? 2_000);
const { ledger } = await import("../dist/actors/ledger.js");
const script = join(import.meta.dirname, "../dist/actors/main.js");

/** @type {import("node:child_process").ChildProcess | undefined} */
let child;
process.on("exit", () => child?.kill("SIGKILL"));

function start() {
  const env = { ...process.env, ACTORS: String(count), ACTORS_DB: join(folder, "db") };
  const running = spawn(process.execPath, [script], { env, stdio: ["ignore", "pipe", "inherit"] });
  child = running;
  let output = "";
  running.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
  });
  return { running, output: () => output, ended: once(running, "close") };
}

const began = performance.now();
const visitors = Math.ceil(count / 8);
/** A welcome for every customer; three stamps and a reward for each visitor. */
const total = count + visitors * 4;
/** The approximate size of the complete ledger. */
const bytes = total * 70;
// The process is killed while it creates, while it stamps, and while it rewards.
for (const share of [0.1, 0.4, 0.75]) {
  const { running, output, ended } = start();
  const isOver = () => running.exitCode !== null || running.signalCode !== null;
  while (ledger.size() < bytes * share && !isOver()) await delay(5);
  assert.ok(!isOver(), `the process ended before it was killed (${running.exitCode ?? running.signalCode}): ${output()}`);
  running.kill("SIGKILL");
  await ended;
  console.log(`✗ killed with ${ledger.read().length} of ${total} effects done`);
}
const last = start();
const [code] = await last.ended;
assert.equal(code, 0);
assert.match(last.output(), new RegExp(`completed ${visitors}, sleeping ${count - visitors}\n`));

const lines = ledger.read();
const byKey = new Map();
for (const line of lines) byKey.set(line.key, [...(byKey.get(line.key) ?? []), line]);
assert.equal(byKey.size, total, "each effect has its own key");
const again = lines.length - byKey.size;
assert.ok(again <= 3 * 256, `${again} effects were repeated: more than were in flight`);
for (const attempts of byKey.values()) {
  assert.equal(new Set(attempts.map(({ what }) => what)).size, 1);
  // Each attempt is there at most once, in order. An attempt that was lost before its body began has no line.
  for (const [i, { attempt }] of attempts.entries()) assert.ok(attempt > (attempts[i - 1]?.attempt ?? 0));
}
console.log(`✓ ${count} actors, ${total} effects, ${again} of them repeated because the process died while they ran`);
console.log(`✓ everything checked, in ${((performance.now() - began) / 1000).toFixed(1)} s`);
