// A process whose workflow keeps the thread for a second, watched by the watchdog.

import { MemoryDriver, runWorkflow, workflow } from "@holdfast/kv";

const spins = workflow("spins", async () => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
});
const options = { driver: new MemoryDriver(), workflow: spins, id: "r1", watchdog: "200ms" };
const { status, error } = await runWorkflow({ ...options, logger: { debug() {}, info() {}, warn() {}, error() {} } });
process.stdout.write(`${status} ${error?.name}`);
