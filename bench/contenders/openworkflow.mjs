// OpenWorkflow on a SQLite file or on PostgreSQL, set up as in its documentation. Its SQLite uses SQLite's default durability, FULL.

import { OpenWorkflow } from "openworkflow";
import { byCallers, until } from "../statistics.mjs";

const STARTERS = 100;

async function connect({ store, file, url }) {
  if (store === "sqlite") return (await import("openworkflow/sqlite")).BackendSqlite.connect(file);
  return (await import("openworkflow/postgres")).BackendPostgres.connect(url);
}

export async function open(target, { workers }) {
  const backend = await connect(target);
  const client = new OpenWorkflow({ backend });
  /** Runs that are about to wait. */
  const begun = new Set();
  let seen = () => {};

  const five = client.defineWorkflow({ name: "five" }, async ({ input, step }) => {
    for (let i = 0; i < 5; i++) await step.run({ name: `step-${i}` }, async () => ({ ok: true, i, input }));
    return { done: true };
  });
  const one = client.defineWorkflow({ name: "one" }, async ({ step }) => step.run({ name: "only" }, async () => ({ ok: true })));
  const chain = client.defineWorkflow({ name: "chain" }, async ({ input, step }) => {
    for (let i = 0; i < input; i++) await step.run({ name: `work-${i}` }, async () => ({ ok: true, i }));
    return input;
  });
  const wide = client.defineWorkflow({ name: "wide" }, async ({ input, step }) => {
    const results = await Promise.all(
      Array.from({ length: input }, (_, i) => step.run({ name: `wide-${i}` }, async () => ({ ok: true, i }))),
    );
    return results.length;
  });
  const patient = client.defineWorkflow({ name: "patient" }, async ({ input, step, run }) => {
    for (let i = 0; i < input; i++) await step.run({ name: `work-${i}` }, async () => ({ ok: true, i }));
    for (let i = 0; ; i++) {
      begun.add(run.id);
      await step.waitForSignal({ name: `wait-${i}`, signal: `go-${i}`, timeout: "1h" });
      await step.run({ name: `next-${i}` }, async () => ({ ok: true }));
      await step.run({ name: `seen-${i}` }, async () => seen());
    }
  });
  const parked = client.defineWorkflow({ name: "parked" }, async ({ input, step, run }) => {
    await step.run({ name: "before" }, async () => ({ ok: true }));
    begun.add(run.id);
    await step.waitForSignal({ name: "wait", signal: `parked-${input}`, timeout: "1h" });
    return step.run({ name: "after" }, async () => ({ ok: true }));
  });
  const parent = client.defineWorkflow({ name: "parent" }, async ({ input, step }) => {
    const children = Array.from({ length: input }, (_, i) => step.runWorkflow(one.workflow.spec, {}, { name: `child-${i}` }));
    return (await Promise.all(children)).length;
  });

  const worker = workers > 0 ? client.newWorker({ concurrency: 100 }) : undefined;
  await worker?.start();
  const counts = () => backend.countWorkflowRuns();
  /** Its `result()` polls once per second; except for latency we poll the database every few milliseconds instead. */
  async function completes(runs, start) {
    const { completed, failed } = await counts();
    await start();
    await until(async () => {
      const now = await counts();
      if (now.failed > failed) throw new Error("A run failed.");
      return now.completed >= completed + runs;
    });
  }
  /** Waits until no worker holds the run: a signal that arrives earlier would be dropped or not wake the run. */
  const parks = (workflowRunId) =>
    until(async () => begun.has(workflowRunId) && (await backend.getWorkflowRun({ workflowRunId })).workerId === null);
  async function send(signal) {
    const { workflowRunIds } = await client.sendSignal({ signal });
    if (workflowRunIds.length !== 1) throw new Error(`Signal ${signal} found ${workflowRunIds.length} runs.`);
  }
  const crowd = new Map();

  return {
    throughput: (runs) => completes(runs, () => byCallers(STARTERS, runs, (i) => five.run({ i }))),
    async latency() {
      await (await one.run({})).result();
    },
    depth: (steps) => completes(1, () => chain.run(steps)),
    width: (count) => completes(1, () => wide.run(count)),
    /** OpenWorkflow keeps no run in memory: it reads all steps again for each signal. */
    async longRun(steps, { evicted }) {
      if (!evicted) return undefined;
      const { workflowRun } = await patient.run(steps);
      let next = 0;
      return async () => {
        await parks(workflowRun.id);
        const start = performance.now();
        const told = new Promise((resolve) => {
          seen = () => {
            resolve(undefined);
            return { ok: true };
          };
        });
        await send(`go-${next++}`);
        await told;
        return performance.now() - start;
      };
    },
    async crowd(from, runs) {
      await byCallers(STARTERS, runs, async (i) => crowd.set(from + i, (await parked.run(from + i)).workflowRun.id));
      for (let i = 0; i < runs; i++) await parks(crowd.get(from + i));
    },
    wake: (numbers) => completes(numbers.length, () => byCallers(STARTERS, numbers.length, (i) => send(`parked-${numbers[i]}`))),
    fanOut: (children) => completes(1 + children, () => parent.run(children)),
    async close() {
      await worker?.stop();
      await backend.stop();
    },
  };
}
