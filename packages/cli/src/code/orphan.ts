// Ends this process when its parent has ended, also when the parent was killed and when the code of this process never yields.
// Owns: one small thread.
// Invariants: a process without its parent lives for a few seconds at most.

import { Worker } from "node:worker_threads";

/** Milliseconds that workers get to stop after the parent has gone. */
const GRACE = 2_000;
const POLL = 250;

/** Plain JavaScript in a string, so that it needs no separate file and no hook. */
const THREAD = `
const { workerData: { parent, grace, poll } } = require("node:worker_threads");
let gone = 0;
setInterval(() => {
  if (process.ppid === parent) return;
  gone += poll;
  if (gone > grace) process.kill(process.pid, "SIGKILL");
}, poll);
`;

/** `process.exit` waits for threads, and on Node 20 it may wait forever for the one of the hook. */
export function endNow(): void {
  process.kill(process.pid, "SIGKILL");
}

/** `stop` is called once, if this process still can; the thread ends the process in any case. */
export function endWithParent(parent: number, stop: () => void): void {
  process.once("disconnect", () => {
    setTimeout(endNow, GRACE);
    stop();
  });
  if (!Number.isInteger(parent)) return;
  const workerData = { parent, grace: GRACE, poll: POLL };
  const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, codeRangeSizeMb: 16, stackSizeMb: 1 };
  const thread = new Worker(THREAD, { eval: true, workerData, execArgv: [], env: {}, resourceLimits, name: "holdfast-orphan" });
  thread.on("error", () => {});
  thread.unref();
}
